"""Mechanisms that release keys: units are counted, few keys of each, and releases and files keep the names."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.errors import SchemaError, UnreachableTarget
from privsample.mechanisms.keys.pairs import bounded_counts, read_rows

ROWS = (["a", "a", "a", "b", "b", "c"], ["x", "x", "y", "y", None, "x"])


def counts(data, keys_per_unit=1):
    found = bounded_counts(read_rows(data), keys_per_unit)
    return dict(zip(found.keys, found.units.tolist(), strict=True))


def test_units_are_counted_and_not_rows():
    assert counts(ROWS, 2) == {"x": 2, "y": 2}
    assert counts(ROWS, 1) == {"x": 2, "y": 1}  # most rows of "a" have "x"
    assert counts(([], [])) == {}


def test_the_keys_of_a_unit_depend_on_its_own_rows_alone():
    rng = np.random.default_rng(1)
    units, keys = rng.integers(0, 300, 4000), rng.integers(0, 40, 4000)
    for kappa in (1, 3):
        whole = counts((units, keys), kappa)
        order = rng.permutation(len(units))
        assert counts((units[order], keys[order]), kappa) == whole
        for unit in (0, 7):
            others = counts((units[units != unit], keys[units != unit]), kappa)
            moved = {key: whole[key] - others.get(key, 0) for key in whole}
            assert set(moved.values()) <= {0, 1}
            assert sum(moved.values()) == min(kappa, len(set(keys[units == unit].tolist())))


@pytest.mark.parametrize(
    "keys",
    [
        np.array([5, 5, 7]),
        np.array([5.0, 5.0, 7.0]),
        np.array(["5", "5", "7"]),
        [5, "5", 7],
        np.array([5, 5, 7], dtype=np.uint64),
    ],
)
def test_whole_numbers_are_their_decimal_text(keys):
    assert counts(([1, 2, 3], keys)) == {"5": 2, "7": 1}
    assert counts((np.array([1, 2, 2**63 + 1], dtype=np.uint64), keys)) == {"5": 2, "7": 1}
    for largest in (2**63 - 1, 2**63, 2**64 - 1):
        near = np.array([largest - 1, largest, largest], dtype=np.uint64)  # the last is one unit with two keys
        assert counts((near, keys), 2) == {"5": 2, "7": 1}


def test_entries_without_a_key_are_left_out():
    odd = [None, "", " ", "\0", "\ud800", np.nan, 0.5, True, b"k", 10**400, [1], {}, "k"]
    assert counts((list(range(len(odd))), odd)) == {"k": 1}
    masked = np.ma.masked_array(["k", "l"], mask=[False, True])
    assert counts(([1, 2], masked)) == {"k": 1, "l": 0}
    notes = ps.OptimalKeys(key_epsilon=1, key_delta=1e-5).validate(ROWS)
    assert notes.facts == {"rows without unit or key": 1, "units with more than 1 key": 1}


@pytest.mark.parametrize("kind", ["string", "dictionary", "int64", "null"])
def test_arrow_columns(kind):
    pa = pytest.importorskip("pyarrow")
    entries = [5, None, 5] if kind == "int64" else [None] * 3 if kind == "null" else ["5", None, "5"]
    column = pa.array(entries, type=pa.string() if kind == "dictionary" else getattr(pa, kind)())
    column = column.dictionary_encode() if kind == "dictionary" else column
    assert counts((pa.array([1, 2, 3]), column)) == ({} if kind == "null" else {"5": 2})


@pytest.mark.parametrize(
    "data", [3, ([1], [2], [3]), ([1, 2], ["a"]), ("ab", ["a", "b"]), ([1], np.ones((1, 2))), ([1], np.array([1j]))]
)
def test_wrong_data(data):
    with pytest.raises(SchemaError):
        ps.OptimalKeys(key_epsilon=1, key_delta=1e-5).release(data)


@pytest.mark.parametrize("rule", ["optimal", "gaussian", "laplace", "discrete gaussian", "discrete laplace"])
@pytest.mark.parametrize("keys_per_unit", [1, 3, pytest.param(8, marks=pytest.mark.long)])
def test_calibration(rule, keys_per_unit):
    mechanism = ps.private_keys(ps.DP(1, 1e-6), rule=rule, keys_per_unit=keys_per_unit)
    assert 0.99 <= mechanism.accountant.epsilon(1e-6) <= 1.0
    assert mechanism.accountant.delta(1.0) <= 1e-6
    release = mechanism.release((np.arange(1000), np.where(np.arange(1000) < 1, "rare", "common")))
    assert release.coords["key"] == ("common",)


def test_wrong_targets():
    with pytest.raises(TypeError, match="target must be a DP"):
        ps.private_keys(ps.ZCDP(1.0))
    with pytest.raises(UnreachableTarget, match="delta must be > 0"):
        ps.private_keys(ps.DP(1.0, 0.0))
    with pytest.raises(ValueError, match="rule must be one of"):
        ps.private_keys(ps.DP(1.0, 1e-6), rule="best")


def test_keys_are_kept_with_their_probability():
    mechanism, size = ps.OptimalKeys(key_epsilon=1, key_delta=1e-2), 20_000
    keys = np.repeat(np.arange(size), 4)
    kept = len(mechanism.release((np.arange(len(keys)), keys), rng=np.random.default_rng(5)).coords["key"])
    p = mechanism.keep_probability(4)
    assert abs(kept / size - p) < 6 * np.sqrt(p * (1 - p) / size)
    assert mechanism.keep_probability(0) == 0.0
    assert mechanism.keep_probability(10**9) == 1.0


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("noise", ["gaussian", "discrete laplace"])
def test_released_counts_exceed_the_threshold(exact, noise):
    mechanism = ps.ThresholdKeys(scale=2.0, threshold=5.3, noise=noise, exact=exact)
    keys = np.repeat(np.arange(2000), 5)
    release = mechanism.release((np.arange(len(keys)), keys), rng=np.random.default_rng(5))
    assert 0 < release["count"].size < 2000
    assert release["count"].min() > 5.3
    assert release["count"].shape == (1, len(release.coords["key"]))


def test_files_and_equality_cover_the_keys(tmp_path):
    mechanism = ps.ThresholdKeys(scale=1.0, threshold=8.0, noise="discrete gaussian")
    release = mechanism.release((np.arange(60), ["x"] * 30 + ["y"] * 30))
    assert ps.Release.from_json(release.to_json()) == release
    assert replace(release, coords={"key": ("x", "z")}) != release
    document = json.loads(release.to_json())
    document["coords"]["key"] = ["x", "z"]
    with pytest.raises(ValueError, match="altered"):
        ps.Release.from_json(json.dumps(document))
    pytest.importorskip("h5netcdf")
    release.save(tmp_path / "keys.nc")
    assert ps.Release.load(tmp_path / "keys.nc") == release
    empty = mechanism.release(([], []))
    assert ps.Release.from_json(empty.to_json()) == empty


def test_rows_that_are_not_units_break_the_claim():
    """A broken copy that counts rows releases the key of one unit with many rows."""
    mechanism = ps.OptimalKeys(key_epsilon=1, key_delta=1e-5)
    data = (np.zeros(100, dtype=int), ["rare"] * 100)
    assert mechanism.release(data).coords["key"] == ()
    assert mechanism.release((np.arange(100), ["rare"] * 100)).coords["key"] == ("rare",)


def test_the_loss_where_no_key_appears_is_that_of_three_tails():
    """Each of the unit's keys stays below the threshold 6 with probability 1 - e^(-5/2)/2."""
    mechanism = ps.ThresholdKeys(noise="laplace", scale=2.0, threshold=6.0, keys_per_unit=3)
    _, appeared = mechanism.worst_neighbours()
    assert appeared.loss(np.zeros((1, 3))) == pytest.approx(-3 * math.log1p(-math.exp(-5 / 2) / 2), rel=1e-12)
    assert np.isneginf(appeared.loss(np.array([[0.0, 7.0, 0.0]])))


@pytest.mark.statistical
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("noise", ["discrete laplace", "discrete gaussian"])
def test_integers_are_compared_with_the_threshold_itself(noise, exact, rng, alpha):
    """40,000 keys of one unit each, against the probability that the account charges.

    The broken copy, whose threshold is the next integer, expects 72 and 110 keys instead of 197 and 469. By the normal
    approximation it is rejected with probability 0.999.
    """
    units = 40_000
    rows = (list(range(units)), list(map(str, range(units))))
    kept = []
    for threshold in (5.5, 6.0):
        made = ps.ThresholdKeys(
            scale=1.0 if noise == "discrete laplace" else 2.0, threshold=5.5, noise=noise, exact=exact
        )
        drawn = replace(made, threshold=threshold).release(rows, rng=rng)
        kept.append(len(drawn.coords["key"]))
    p = made.accountant.failure_probability
    assert stats.binomtest(kept[0], units, p).pvalue > alpha
    assert stats.binomtest(kept[1], units, p).pvalue < alpha
