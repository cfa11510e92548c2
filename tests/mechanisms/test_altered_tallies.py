"""Tallies that no mechanism made, and bases without draws: refused before anything is drawn or spent."""

import json

import numpy as np
import pytest

import privsample as ps
from privsample.errors import SchemaError

SUM = ps.LaplaceSum(bounds=(0, 1), scale=2)
GROUPED = ps.by("clinic", SUM, keys=["a", "b"])
PRIVATE = ps.NoisyStatistics(model=ps.BetaBernoulli(1, 1), scale=2.0)
POSTERIOR = ps.DiffusedPosterior(model=ps.BetaBernoulli(2, 3), n=3, data_weight=0.5)


@pytest.fixture
def ledger(tmp_path):
    def made(mechanism):
        relation = mechanism.accountant.relation
        return ps.Ledger(tmp_path / "budget", dataset="x", budget=ps.DP(50, 1e-6), relation=relation)

    return made


def altered(tally, **fields):
    own = {name: getattr(tally, name) for name in ("mechanism", "sums", "counts", "keys", "parts")}
    return ps.Tally(**own | fields)


@pytest.mark.parametrize("mechanism", [SUM, GROUPED, POSTERIOR, ps.by("clinic", POSTERIOR, keys=["a"])])
def test_impossible_sums_are_refused_and_not_shown(mechanism, ledger):
    records = [1, 1, 0]
    tally = mechanism.tally((["a"] * 3, records) if isinstance(mechanism, ps.GroupedMechanism) else records)
    budget = ledger(mechanism)
    for wrong in (tally.sums * 4711, -1 - tally.sums):
        with pytest.raises(SchemaError, match="sums that its numbers of records can have") as caught:
            budget.release(mechanism, altered(tally, sums=wrong))
        assert not any(digit in str(caught.value) for digit in "0123456789")
    assert budget.spent() == 0
    budget.release(mechanism, tally)


@pytest.mark.parametrize("mechanism", [GROUPED, ps.by("clinic", PRIVATE, keys=["a", "b"])])
def test_another_number_of_sums_is_refused(mechanism, ledger):
    tally = mechanism.tally((["a"], [1]))
    budget = ledger(mechanism)
    with pytest.raises(SchemaError, match="another number of sums"):
        budget.release(mechanism, altered(tally, sums=[[1] * 5]))
    assert budget.spent() == 0


def test_codes_count_each_record_once():
    coded = ps.NoisyStatistics(model=ps.DirichletCategorical((1, 1, 1)), n=3, scale=2.0)
    tally = coded.tally([0, 1, 1])
    assert coded.release(tally)["statistic"].shape == (1, 3)
    for wrong in ([[3, 3, 3]], [[4, -1, 0]]):
        with pytest.raises(SchemaError, match="sums that its numbers of records can have"):
            coded.release(altered(tally, sums=wrong))


def test_the_name_of_a_part_is_protected_by_the_digest():
    """A damaged name would let the part count twice."""
    table = GROUPED.tally((["a"], [1]), part="january").to_arrow()
    content = json.loads(table.schema.metadata[b"privsample_tally"])
    for parts in (["january "], [], ["january", "may"]):
        named = json.dumps(content | {"parts": parts}).encode()
        with pytest.raises(SchemaError, match=r"altered|whole"):
            ps.Tally.from_arrow(table.replace_schema_metadata({b"privsample_tally": named}))
    assert ps.Tally.from_arrow(table).parts == {"january"}


@pytest.mark.parametrize("metadata", [b"[" * 100_000, b'{"format": true}', b'{"format": 1.0}'])
def test_damaged_metadata_is_refused(metadata):
    table = SUM.tally([1]).to_arrow().replace_schema_metadata({b"privsample_tally": metadata})
    with pytest.raises(SchemaError):
        ps.Tally.from_arrow(table)


def test_every_flipped_bit_of_a_file_is_refused_or_harmless(tmp_path):
    path, tally = tmp_path / "part.arrow", SUM.tally([0, 1, 1], part="x")
    tally.save(path)
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            found = ps.Tally.load(path)
        except SchemaError:
            continue
        assert found == tally
        assert found.parts == tally.parts


@pytest.mark.parametrize(
    "base",
    [
        ps.RepeatedSelection(base=SUM, repetitions=ps.Poisson(mean=1.0)),
        ps.ConditionalSelection(base=SUM, threshold=0.5, stop_probability=0.5),
    ],
)
def test_groups_need_a_base_that_draws(base):
    """Otherwise the draws of the other groups would be lost with those of the group that has none."""
    with pytest.raises(TypeError, match="base must release draws for every group"):
        ps.by("clinic", base, keys=["a", "b"])


def test_selections_of_at_least_one_run_draw_for_every_group():
    base = ps.RepeatedSelection(base=SUM, repetitions=ps.TruncatedNegativeBinomial.geometric(mean=2))
    release = ps.by("clinic", base, keys=["a", "b"]).release((["a", "b", "b"], [1, 1, 0]))
    assert release["sum"].shape == (1, 2)


@pytest.mark.parametrize("name", ["draw", "chain", "a/b", " padded ", "_x", "a\n"])
def test_names_of_groups_fit_in_files(name):
    with pytest.raises(ValueError, match="name must"):
        ps.by(name, SUM, keys=["a"])
    assert ps.by("fall nr. 1", SUM, keys=["a"]).name == "fall nr. 1"


def test_possible_sums_do_not_overflow():
    wide = ps.GaussianSum(bounds=(0, 10), noise_std=1)
    rule = wide._record_rule
    count = np.array([2**62])
    assert rule.is_possible(np.array([[2**62 * rule.last]], dtype=object), count)
    assert not rule.is_possible(np.array([[2**62 * rule.last + 1]], dtype=object), count)
