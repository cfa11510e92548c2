"""What is no tally, or not of the mechanism, is refused: in memory, in tables and files, and before a ledger spends."""

import json
import pickle

import numpy as np
import pyarrow as pa
import pytest

from privsample import (
    DP,
    AddRemove,
    Beta,
    BetaBernoulli,
    CountUtility,
    DirectPosterior,
    ExponentialMechanism,
    GaussianMechanism,
    GaussianSum,
    LaplaceSum,
    Ledger,
    Model,
    NoisyStatistics,
    PoissonSampling,
    Release,
    ReplaceOne,
    Subsampled,
    Tally,
)
from privsample._serial import encode
from privsample.distributions.domains import Domain
from privsample.errors import BudgetExceeded, PrivateContent, SchemaError
from privsample.mechanisms.notes import refuse_notes

SUM = LaplaceSum(bounds=(0, 1), scale=2)
MARK = SUM.tally([]).mechanism


WRONG = [
    ({"mechanism": "x"}, "64 hexadecimal digits"),
    ({"mechanism": None}, "64 hexadecimal digits"),
    ({"sums": [[0.5]]}, "got other objects"),
    ({"sums": np.array([[0.5]])}, "integers, got float64"),
    ({"sums": [[True]]}, "got other objects"),
    ({"sums": np.array([["1"]], dtype=object)}, "got other objects"),
    ({"sums": [1]}, "2 axes, got 1"),
    ({"sums": [[1], [2, 3]]}, "2 axes, got 1"),
    ({"sums": [[1], [2]]}, "one row of sums"),
    ({"sums": [[1], [2]], "counts": [1, 1]}, "one row of sums"),
    ({"counts": [-1]}, "counts must be integers from 0"),
    ({"counts": [2**63]}, "counts must be integers from 0"),
    ({"counts": [1.0]}, "got other objects"),
    ({"sums": [[1], [2]], "counts": [1, 1], "keys": [2, 1]}, "keys must increase"),
    ({"sums": [[1], [2]], "counts": [1, 1], "keys": [1, 1]}, "keys must increase"),
    ({"keys": [-1]}, "keys must be integers from 0"),
    ({"parts": "name"}, "a set of names"),
    ({"parts": 3}, "a set of names"),
    ({"parts": [1]}, "texts that are not empty"),
]


@pytest.mark.parametrize(("fields", "words"), WRONG)
def test_what_is_no_tally_is_refused_without_its_numbers(fields, words):
    with pytest.raises(SchemaError, match=words):
        Tally(**{"mechanism": MARK, "sums": [[7]], "counts": [1]} | fields)


def arrow_tables():
    """Tables that are not those of a tally, each with words of the error."""
    keyed = Tally(mechanism=MARK, sums=[[1, 2**70], [3, -4]], counts=[1, 2], keys=[0, 3], parts={"a"})
    table = keyed.to_arrow()
    content = json.loads(table.schema.metadata[b"privsample_tally"])
    assert Tally.from_arrow(table) == Tally.from_arrow(table.to_batches()[0]) == keyed
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    assert Tally.from_arrow(reader) == keyed

    def altered(**changes):
        return table.replace_schema_metadata({"privsample_tally": json.dumps(content | changes)})

    yield table.slice(1), "altered or cut"
    yield table.replace_schema_metadata(None), "expected the metadata"
    yield table.replace_schema_metadata({"privsample_tally": "[]"}), "expected the metadata"
    yield altered(format=2), "format 1, got 2"
    yield altered(mechanism=MARK[::-1]), "altered or cut"
    yield altered(mechanism=None), "64 hexadecimal digits"
    yield altered(parts="a"), "names of its parts"
    yield table.drop_columns(["count"]), "expected the columns"
    yield table.drop_columns(["sum_0"]), "expected the columns"
    yield table.set_column(1, "count", pa.array([1.0, 2.0])), "type int64, got double"
    yield table.set_column(1, "count", pa.array([1, -2])), "counts must be integers from 0"
    yield table.set_column(1, "count", pa.array([1, None])), "no null"
    yield table.set_column(0, "key", pa.array([3, 0])), "keys must increase"
    yield table.set_column(2, "sum_0", pa.array([0.5, 1.0])), r"decimal128\(38, 0\), got double"
    yield table.set_column(2, "sum_0", pa.array([1, 3])), r"decimal128\(38, 0\), got int64"


def test_tables_that_are_no_tallies_are_refused():
    for table, words in arrow_tables():
        with pytest.raises(SchemaError, match=words):
            Tally.from_arrow(table)
    with pytest.raises(TypeError, match="Arrow table or record batch, got list"):
        Tally.from_arrow([1])
    with pytest.raises(SchemaError, match="Arrow table or record batch"):
        Tally.from_arrow(pa.array([1.0]))
    with pytest.raises(SchemaError, match="at most 38 digits"):
        Tally(mechanism=MARK, sums=[[10**38]], counts=[1]).to_arrow()
    longest = Tally(mechanism=MARK, sums=[[10**38 - 1, 1 - 10**38]], counts=[1])
    assert Tally.from_arrow(longest.to_arrow()) == longest
    no_sums = Tally(mechanism=MARK, sums=np.zeros((1, 0), dtype=int), counts=[3])
    assert Tally.from_arrow(no_sums.to_arrow()) == no_sums


def test_files_and_pickles_keep_tallies_and_hide_them(tmp_path):
    tally = SUM.tally([0.25, 0.5], part="site")
    path = tmp_path / "site.arrow"
    tally.save(path)
    assert Tally.load(path) == tally == pickle.loads(pickle.dumps(tally))
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        tally.save(path)
    tally.save(path, force=True)
    with pytest.raises(ValueError, match=r"must end in \.arrow"):
        tally.save(tmp_path / "site.json")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(SchemaError, match="an Arrow file that is whole"):
        Tally.load(path)
    assert not tally.sums.flags.writeable
    assert repr(tally) == f"Tally(mechanism={MARK[:8]!r}, 1 parts, sums hidden)"
    with pytest.raises(PrivateContent):
        encode(tally)
    for held in (tally, [tally], {"a": (tally,)}):
        with pytest.raises(PrivateContent, match="publish the Release"):
            refuse_notes(held)
    release = SUM.release(tally)
    with pytest.raises(PrivateContent):
        Release(mechanism=SUM, draws={"sum": tally}, account=release.account)


def test_a_refused_tally_draws_and_spends_nothing(tmp_path):
    ledger = Ledger(tmp_path / "l.ledger", dataset="d", budget=DP(1, 0), relation=ReplaceOne(n=3))
    mechanism = LaplaceSum(bounds=(0, 1), scale=2, relation=ReplaceOne(n=3))
    good = mechanism.tally([1, 0, 1])
    other = LaplaceSum(bounds=(0, 1), scale=2.5, relation=ReplaceOne(n=3)).tally([1, 0, 1])
    wrong = [
        (other, "another mechanism"),
        (mechanism.tally([1, 0]), "n = 3 records were declared, the data hold 2"),
        (Tally(mechanism=good.mechanism, sums=[[1, 2]], counts=[3]), "another number of sums"),
        (Tally(mechanism=good.mechanism, sums=[[1]], counts=[3], keys=[0]), "got groups"),
    ]
    for tally, words in wrong:
        for spend in (lambda data: ledger.release(mechanism, data), mechanism.release, mechanism.validate):
            with pytest.raises(SchemaError, match=words):
                spend(tally)
    for several in ([good, good], (good,)):
        for spend in (lambda data: ledger.release(mechanism, data), mechanism.release, mechanism.validate):
            with pytest.raises(TypeError, match="one tally, got several"):
                spend(several)
    with pytest.raises(SchemaError, match="got Tally"):
        mechanism.tally(good)
    assert ledger.spent() == 0
    ledger.release(mechanism, good)
    ledger.release(mechanism, good)  # the same tally again is a second release
    assert ledger.spent() == pytest.approx(1.0)
    with pytest.raises(BudgetExceeded):
        ledger.release(mechanism, good)


def test_an_item_of_a_plan_takes_a_tally(tmp_path):
    ledger = Ledger(tmp_path / "l.ledger", dataset="d", budget=DP(1, 0), relation=AddRemove())
    reserved = ledger.reserve([SUM])
    with pytest.raises(SchemaError, match="another mechanism"):
        reserved.release(0, LaplaceSum(bounds=(0, 1), scale=3).tally([1.0]))
    assert reserved.release(0, SUM.tally([1.0]))["sum"].shape == (1,)


def test_mechanisms_without_tallies_say_why_and_what_to_do():
    class Rooted(Model):
        """A model of which only a rounded statistic is known."""

        domain = Domain(low=0.0, high=1.0, missing=0.0)
        parameter = "root"

        def statistic(self, chunk):
            return np.asarray((chunk**0.5).sum())

        def posterior(self, statistic, n, **weights):
            del weights
            return Beta(1 + float(statistic), 1 + n)

        @property
        def neighbouring_posteriors(self):
            return BetaBernoulli(1, 1).neighbouring_posteriors

    reasons = [
        (LaplaceSum(bounds=(0, 1), scale=2, exact=False), [1.0], "with exact=False has no tallies.*set exact=True"),
        (NoisyStatistics(model=BetaBernoulli(1, 1), n=1, scale=2, exact=False), [1], "set exact=True"),
        (DirectPosterior(model=Rooted(), n=1), [1.0], "Rooted model has no tallies.*define exact_statistic"),
        (GaussianMechanism(sensitivity=1, noise_std=1), 3.0, "use GaussianSum, LaplaceSum or ClippedSum"),
        (
            Subsampled(base=GaussianSum(bounds=(0, 1), noise_std=1), scheme=PoissonSampling(rate=0.5)),
            [1.0],
            "call release with all",
        ),
        (
            ExponentialMechanism(candidates=(0, 1), utility=CountUtility(), rate=1, exact=False),
            [1.0],
            "set exact=True",
        ),
    ]
    for mechanism, data, words in reasons:
        with pytest.raises(TypeError, match=words):
            mechanism.tally(data)
        if "Rooted" in words:  # a local class has no fingerprint
            continue
        mark = mechanism._fingerprint
        for use in (mechanism.release, mechanism.validate):
            with pytest.raises((TypeError, SchemaError), match=r"no tallies|another number of sums"):
                use(Tally(mechanism=mark, sums=[[1]], counts=[1]))
