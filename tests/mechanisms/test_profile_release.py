"""Profile-based mechanisms draw what is written, take columns of any kind, save, load and refuse."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

import privsample as ps
from privsample.distributions.steps.channels import Sampler, is_multiple_of_unit, round_to_units
from privsample.errors import SchemaError
from privsample.mechanisms.profiles.base import positions
from tests.mechanisms.documents import with_digest

CHAIN = ps.ProfileGraph(
    profiles={"a": [0.5, 0.3, 0.2, 0.0], "b": [0.2, 0.3, 0.5, 0.0], "c": [0.1, 0.2, 0.3, 0.4]},
    edges=[("a", "b"), ("b", "c")],
)
BITS = ps.ProfileGraph(profiles=[0.9, 0.6], edges=[(0, 1)])
CLASSES = (ps.SmoothCategorical, ps.SmoothOneBit, ps.OneBitCluster, ps.LocalResponse, ps.OneBit)


def test_whole_units():
    rng = np.random.default_rng(1)
    made = round_to_units(rng.dirichlet(np.full(7, 0.2), (50, 7)))
    assert is_multiple_of_unit(made)
    for row in made[:3].reshape(-1, 7):
        assert sum(map(Fraction, row)) == 1
    assert not is_multiple_of_unit(np.array([[0.1, 0.9], [0.5, 0.5]]))
    assert not is_multiple_of_unit(np.array([[0.5, 0.25], [0.5, 0.5]]))
    assert not is_multiple_of_unit(np.array([[1.5, -0.5], [0.5, 0.5]]))
    full = np.array([[0.0, 1 / 3, 1 / 3 + 2**-40, 1 / 3], [0, 1, 0, 0], [0, 0, 1, 0], [0.1, 0.3, 0.6, 0]])
    assert is_multiple_of_unit(round_to_units(full))


class Ticks:
    """Gives given numbers in place of uniform ones."""

    def __init__(self, numbers):
        self.numbers = np.array(numbers)

    def random(self, count):
        assert count == len(self.numbers)
        return self.numbers


def test_the_sampler_follows_the_matrix_to_the_last_bit():
    matrices = round_to_units(np.array([[[0.2, 0.0, 0.3, 0.1, 0.4]] * 5]))
    sums = np.cumsum(matrices[0, 1])
    edge = np.array([0.0, sums[0] - 2**-53, sums[0], sums[2] - 2**-53, sums[2], sums[3], 1 - 2**-53])
    drawn = Sampler(matrices).draw(np.zeros(7, dtype=int), np.ones(7, dtype=int), Ticks(edge))
    expected = np.searchsorted(sums, edge, side="right")
    assert drawn.tolist() == expected.tolist()
    assert 1 in drawn.tolist()  # symbol observed: its diagonal entry
    for size in (2, 3, 4, 16, 17):
        eye = np.tile(np.eye(size), (3, 1, 1))
        symbols = np.arange(3 * size) % size
        assert np.array_equal(
            Sampler(eye).draw(np.arange(3 * size) // size, symbols, np.random.default_rng(0)), symbols
        )


@pytest.mark.statistical
@pytest.mark.parametrize(("shift", "accepted"), [(0.0, True), (0.01, False)])
def test_what_is_released_has_the_distributions_that_are_accounted_for(shift, accepted, rng, alpha):
    made, n = ps.SmoothCategorical(graph=CHAIN, epsilon=0.4), 200_000
    names = np.repeat(["a", "b", "c"], n)
    observed = np.concatenate([rng.choice(4, n, p=distribution) for distribution in CHAIN.distributions])
    drawn = made.release({"profile": names, "symbol": observed}, rng=rng)["symbols"][0].reshape(3, n)
    distributions = made.distributions + shift * np.array([1.0, -1.0, 0.0, 0.0])
    tests = []
    for distribution, symbols in zip(distributions, drawn, strict=True):
        seen, present = np.bincount(symbols, minlength=4), distribution > 0
        assert seen[~present].sum() == 0
        tests.append(stats.chisquare(seen[present], n * distribution[present] / distribution.sum()).pvalue)
    assert (min(tests) > alpha / 3) == accepted


DATA = {"profile": ["a", "b", "c", "a"], "symbol": [0, 2, 3, 1]}


@pytest.mark.parametrize(
    "data",
    [
        DATA,
        {"profile": [0, 1, 2, 0], "symbol": np.array([0, 2, 3, 1], dtype=np.int8)},
        pd.DataFrame(DATA),
        pa.table(DATA),
        {"profile": "b", "symbol": pa.chunked_array([[0, 2], [3, 1]])},
        {"profile": np.int64(1), "symbol": (0, 2)},
        {"profile": pd.Series(["a", "c"], dtype="category"), "symbol": pd.Series([0, None])},
        {"profile": "a", "symbol": [np.nan, 99, -1, "x"]},
        {"profile": [], "symbol": []},
    ],
    ids=["lists", "numbers", "pandas", "arrow", "one name", "one number", "categories", "out of range", "none"],
)
def test_columns_of_any_kind(data, rng):
    made = ps.SmoothCategorical(graph=CHAIN, epsilon=30.0)
    release = made.release(data, rng=rng)
    assert release["symbols"].shape == (1, len(data["symbol"]))
    assert ps.Assumption.RNG_FRESH in release.account.assumptions
    assert ps.Release.from_json(release.to_json()) == release


def test_out_of_range_goes_to_the_public_default():
    graph = ps.ProfileGraph(profiles=CHAIN.profiles)
    made = ps.SmoothCategorical(graph=graph, epsilon=1.0, missing=2)
    data = {"profile": "c", "symbol": [0, 1, 7, -1, np.nan, None, 3]}
    assert made.release(data)["symbols"].tolist() == [[0, 1, 2, 2, 2, 2, 3]]
    notes = made.validate(data).text()
    assert "missing" in notes
    assert "7 observations" in notes
    assert "profiles without observations" in notes


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([0, 1], '"profile" and "symbol"'),
        ({"profile": ["a"]}, '"profile" and "symbol"'),
        ({"profile": ["a"], "symbol": [0, 1]}, "one profile for each symbol, got 1 for 2"),
        ({"profile": "zz", "symbol": [0]}, "something that is not a profile"),
        ({"profile": None, "symbol": [0]}, "something that is not a profile"),
        ({"profile": ["a", "secret-name"], "symbol": [0, 1]}, "something that is not a profile"),
        ({"profile": [0, 3], "symbol": [0, 1]}, "something that is not a profile"),
        ({"profile": [[1], 2], "symbol": [0, 1]}, "something that is not a profile"),
        ({"profile": [0.5, 1.0], "symbol": [0, 1]}, "something that is not a profile"),
        ({"profile": [["a", "b"]], "symbol": [0, 1]}, "one column of names"),
        ({"profile": ["a", "b"], "symbol": ["x y"] * 2 and np.array(["x", "y"])}, "data must be numbers"),
    ],
)
def test_other_schemas_are_refused_without_a_word_on_records(data, words):
    with pytest.raises(SchemaError, match=words) as caught:
        ps.SmoothCategorical(graph=CHAIN, epsilon=30.0).release(data)
    assert "secret" not in str(caught.value)


def test_names_that_are_numbers_are_names():
    graph = ps.ProfileGraph(profiles={7: [1.0, 0.0], 3: [0.5, 0.5]})
    made = ps.SmoothOneBit(graph=graph, epsilon=1.0)
    assert made.release({"profile": [7, 3, 7], "symbol": [1, 1, 0]})["symbols"].tolist() == [[1, 1, 0]]
    with pytest.raises(SchemaError, match="not a profile"):
        made.release({"profile": [0, 1], "symbol": [1, 1]})


def test_numbers_among_other_names_are_names_too():
    graph = ps.ProfileGraph(profiles={"x": [1.0, 0.0], 1: [0.5, 0.5], 0: [0.0, 1.0]})
    assert positions(graph.names, [0, 1]).tolist() == [2, 1]
    with pytest.raises(SchemaError, match="not a profile"):
        positions(graph.names, [2])


@pytest.mark.parametrize("made", CLASSES)
def test_saved_and_loaded_without_solving(made, tmp_path, monkeypatch):
    mechanism = made(graph=BITS, epsilon=0.3, missing=1)
    release = mechanism.release({"profile": 0, "symbol": [0, 1, 1]})
    release.save(tmp_path / "bits.json")
    monkeypatch.setattr(made, "_part", lambda *_: pytest.fail("solved again"))
    assert ps.Release.load(tmp_path / "bits.json") == release
    assert not release["symbols"].flags.writeable
    assert not mechanism.matrices.flags.writeable


def test_loading_checks_every_edge():
    release = ps.SmoothOneBit(graph=BITS, epsilon=0.3).release({"profile": 0, "symbol": [0, 1, 1]})
    document = json.loads(release.to_json())
    document["mechanism"]["matrices"] = np.tile(np.eye(2), (2, 1, 1)).tolist()
    with pytest.raises(ValueError, match=r"on edge \(0, 1\) the privacy loss"):
        ps.Release.from_json(json.dumps(with_digest(document)))
    document["mechanism"]["matrices"] = [[[0.9, 0.1], [0.1, 0.9]]] * 2
    with pytest.raises(ValueError, match="multiples of 2"):
        ps.Release.from_json(json.dumps(with_digest(document)))


@pytest.mark.parametrize(
    ("made", "fields", "words"),
    [
        (ps.OneBit, {"epsilon": 0.0}, "epsilon must be finite and > 0, got 0.0"),
        (ps.OneBit, {"epsilon": -1.0}, "epsilon must be finite and > 0"),
        (ps.OneBit, {"epsilon": np.nan}, "epsilon must be finite and > 0"),
        (ps.OneBit, {"epsilon": 1e-12}, "at least 1e-09"),
        (ps.OneBit, {"missing": 2}, "missing must be a symbol, 0 to 1, got 2"),
        (ps.OneBit, {"observations": 0}, "observations must be at least 1"),
        (ps.OneBit, {"matrices": [[1.0, 0.0]]}, "of shape"),
        (ps.OneBit, {"graph": CHAIN}, "two symbols, got 4"),
        (ps.OneBit, {"graph": ps.ProfileGraph(profiles=[0.5] * 3)}, "two profiles, got 3"),
        (ps.OneBitCluster, {"graph": CHAIN}, "SmoothCategorical"),
        (ps.SmoothOneBit, {"graph": CHAIN}, "SmoothCategorical"),
        (ps.SmoothOneBit, {"weights": [1.0]}, "one for each of 2 profiles"),
        (ps.SmoothCategorical, {"weights": [1.0, -1.0]}, "weights must be finite and >= 0"),
        (ps.SmoothCategorical, {"cost": [[0.0, np.inf], [0.0, 0.0]]}, "cost must be finite"),
        (ps.SmoothCategorical, {"cost": [1.0]}, "cost must be finite, of shape"),
    ],
)
def test_bad_fields_are_refused(made, fields, words):
    with pytest.raises(ValueError, match=words):
        made(**({"graph": BITS, "epsilon": 1.0} | fields))


def test_a_graph_is_asked_for():
    with pytest.raises(TypeError, match="ProfileGraph"):
        ps.OneBit(graph=[0.5, 0.6], epsilon=1.0)


def test_one_of_a_thing_is_said_in_the_singular():
    graph = ps.ProfileGraph(profiles=[[0.5, 0.5], [0.4, 0.6]], edges=[(0, 1)])
    assert "(2 profiles with 1 edge)" in ps.ProfileEdge(graph=graph).description
    one = ps.DirectPosterior(model=ps.BetaBernoulli(alpha=1, beta=1), n=1)
    assert one.validate([1]).title.startswith("1 record, expected")
