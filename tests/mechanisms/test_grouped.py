"""Releases for groups: how the data may be split, what is refused, bounds for units, and files."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privsample as ps
from privsample.errors import RelationMismatch, SchemaError, UnreachableTarget
from privsample.mechanisms.groups.sums import sums_by_place

KEYS = ("north", "south", "west", "harbour")
SUM = ps.LaplaceSum(bounds=(-1, 3), scale=2)
GROUPED = ps.by("hospital", SUM, keys=KEYS)
UNITS = ps.Contribution(groups=2, records=2, unit="patient")
BOUNDED = ps.by("hospital", SUM, keys=KEYS, contribution=UNITS)
ROWS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(KEYS), st.floats(-2, 4)), max_size=25)


def columns(rows):
    units, groups, records = ([row[part] for row in rows] for part in range(3))
    return units, groups, records


@given(ROWS, st.integers(1, 4), st.randoms(use_true_random=False))
def test_any_division_into_parts_gives_the_same_tally(rows, parts, random):
    whole, bounded = GROUPED.tally(columns(rows)[1:]), BOUNDED.tally(columns(rows))
    random.shuffle(rows)
    split = [columns(rows[k::parts])[1:] for k in range(parts)]
    by_unit = [columns([row for row in rows if row[0] % parts == k]) for k in range(parts)]
    assert ps.merge_tallies([GROUPED.tally(part) for part in split]) == whole
    assert ps.merge_tallies([BOUNDED.tally(part) for part in by_unit]) == bounded
    data, one, other = columns(rows)[1:], np.random.default_rng(1), np.random.default_rng(1)
    assert GROUPED.release(data, rng=one) == GROUPED.release(whole, rng=other)


@given(ROWS)
def test_a_unit_changes_few_groups_and_each_by_few_records(rows):
    with_unit, without = (BOUNDED.tally(columns(own)) for own in (rows, [row for row in rows if row[0]]))
    before = dict(zip(without.keys.tolist(), without.counts.tolist(), strict=True))
    changes = [
        n - before.get(key, 0) for key, n in zip(with_unit.keys.tolist(), with_unit.counts.tolist(), strict=True)
    ]
    assert sum(change > 0 for change in changes) <= 2
    assert max(changes, default=0) <= 2
    assert min(changes, default=0) >= 0


def test_groups_have_the_integers_of_the_base_alone():
    rng = np.random.default_rng(0)
    places = rng.integers(0, 4, 300)
    models = (
        SUM,
        ps.NoisyStatistics(model=ps.DirichletCategorical(alpha=(1, 1, 1)), n=1, scale=1.0),
        ps.ClippedSum(norm=1, width=2, noise_std=1),
    )
    for base in models:
        records = rng.normal(size=(300, 2)) if isinstance(base, ps.ClippedSum) else rng.integers(-1, 4, 300)
        sizes = np.bincount(places) if isinstance(base, ps.NoisyStatistics) else None
        tally = ps.by("clinic", base, keys=range(4), sizes=sizes).tally((places, records))
        for place in range(4):
            assert tally.sums[place].tolist() == base.tally(records[places == place]).sums[0].tolist()


def test_large_sums_are_exact():
    places, numbers = np.zeros(2000, np.int64), np.full(2000, 2**53 - 1)
    assert sums_by_place(places, numbers, np.array([2000]), 2**53).tolist() == [2000 * (2**53 - 1)]


@pytest.mark.parametrize("kind", ["list", "numpy", "arrow", "dictionary", "pandas", "categories"])
def test_columns_of_keys(kind):
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    names = ["west", "north", "west", "south"]
    made = {
        "list": lambda: names,
        "numpy": lambda: np.array(names),
        "arrow": lambda: pa.chunked_array([names[:1], names[1:]]),
        "dictionary": lambda: pa.chunked_array([names[:1], names[1:]]).dictionary_encode(),
        "pandas": lambda: pd.Series(names),
        "categories": lambda: pd.Series(names, dtype="category"),
    }[kind]()
    expected = GROUPED.tally((names, [1, 2, 0, 1]))
    assert GROUPED.tally((made, [1, 2, 0, 1])) == expected
    assert BOUNDED.tally((made, names, [1, 2, 0, 1])) == BOUNDED.tally((names, names, [1, 2, 0, 1]))


@pytest.mark.parametrize("keys", [range(-3, 5), (-(2**62), 7, 2**62)])
def test_keys_that_are_numbers(keys):
    mechanism = ps.by("shop", SUM, keys=list(keys), unlisted="drop")
    there = [*keys, 2**63 - 1, -(2**63)]
    assert mechanism.tally((there, np.ones(len(there)))).keys.tolist() == list(range(len(keys)))
    assert mechanism.tally((np.array([2**63], np.uint64), [1])).counts.tolist() == []


WRONG = [
    ("a secret", "must be .groups, records."),
    ((["north"], [1], [1]), "must be .groups, records."),
    ((["north"], [1, 2]), "columns of equal length"),
    ((["secret"], [1]), "must be among the 4 public keys"),
    ((["north", None], [1, 2]), "missing entries"),
    ((["north", float("nan")], [1, 2]), "missing entries"),
    (([1.5, 2.5], [1, 2]), "text or whole numbers"),
    ((np.array([1.0, 2.0]), [1, 2]), "text or whole numbers"),
    ((np.array([True, False]), [1, 2]), "text or whole numbers"),
    (([1, 2], [1, 2]), "must be text, as the public keys are"),
    ((np.array([1, 2], object), [1, 2]), "must be text, as the public keys are"),
    ((np.array([["north"]]), [1]), "must be one column"),
    (([2**70], [1]), "fit in 64 bits"),
    ((np.array([b"north"]), [1]), "whole numbers, got bytes"),
    ((np.array(["2020-01-01"], "M8[D]"), [1]), "got datetime64"),
]


@pytest.mark.parametrize(("data", "words"), WRONG)
def test_wrong_data_are_refused_before_anything_is_drawn_or_spent(data, words, tmp_path):
    names = {"relation": ps.AddRemove(), "dataset": "stays"}
    ledger = ps.Ledger(tmp_path / "stays.ledger", budget=ps.DP(5, 1e-6), **names)
    rng = np.random.default_rng(0)
    state = str(rng.bit_generator.state)
    for refused in (lambda: GROUPED.release(data, rng=rng), lambda: ledger.release(GROUPED, data)):
        with pytest.raises(SchemaError, match=words) as caught:
            refused()
        assert "secret" not in str(caught.value)
    assert str(rng.bit_generator.state) == state
    assert ledger.spent() == 0


# What is no key in a column of text, and in one of whole numbers; numbers for units.
NO_KEYS = (None, float("nan"), float("inf"), 2.5, 2**70, -(2**63) - 1, b"north", True, np.datetime64("NaT"), 1j, ("a",))


@pytest.mark.parametrize("make", [list, tuple, lambda items: np.array([*items, None], object)[:-1]])
@pytest.mark.parametrize("of_text", [True, False])
def test_records_without_a_key_or_a_unit_are_dropped_by_the_rule(make, of_text):
    """No record can make a release fail: otherwise the failure would reveal it."""
    pd = pytest.importorskip("pandas")
    keys = KEYS if of_text else (1, 2, 3, 4)
    mechanism = ps.by("hospital", SUM, keys=keys, contribution=UNITS, unlisted="drop")
    simple = ps.by("hospital", SUM, keys=keys, unlisted="drop")
    other = 7 if of_text else "north"
    odd = [*NO_KEYS, pd.NA, pd.NaT, other, "\ud800"]
    groups, ones = [keys[0], keys[1], *odd], [1.0] * (2 + len(odd))
    units = ["a", 1, *("b" for _ in odd)]
    expected = mechanism.tally((["a", 1], [keys[0], keys[1]], [1.0, 1.0]))
    assert mechanism.tally((make(units), make(groups), ones)) == expected
    assert simple.tally((make(groups), ones)) == simple.tally(([keys[0], keys[1]], [1.0, 1.0]))
    no_units = [*NO_KEYS, pd.NA, pd.NaT]
    units, groups = ["a", 1, *no_units], [keys[0], keys[1], *(keys[2] for _ in no_units)]
    assert mechanism.tally((make(units), make(groups), [1.0] * len(units))) == expected
    only_odd = [1.0] * len(odd)
    for columns_ in ((make(odd), only_odd), (make([]), [])):
        assert simple.tally(columns_).counts.tolist() == []
    left_out = mechanism.validate((make(units), make(groups), [1.0] * len(units))).facts
    assert left_out["records left out by unlisted='drop'"] == len(no_units)


def test_a_unit_is_the_same_whatever_other_records_hold():
    """The hash of a unit, which decides what counts, must not change when another record turns the column's type."""
    rng = np.random.default_rng(5)
    units, groups = rng.integers(0, 9, 120).tolist(), rng.choice(KEYS, 120).tolist()
    values = rng.uniform(-1, 3, 120).tolist()
    mechanism = ps.by("hospital", SUM, keys=KEYS, contribution=UNITS, unlisted="drop")
    expected = mechanism.tally((units, groups, values))
    for stranger in ("text", None, 2**70, 2.5):
        assert mechanism.tally(([*units, stranger], [*groups, None], [*values, 1.0])) == expected
    assert mechanism.tally((np.array(units, float), groups, values)) == expected
    texts = [f"unit {unit}" for unit in units]
    expected = mechanism.tally((texts, groups, values))
    assert mechanism.tally(([*texts, 3], [*groups, "elsewhere"], [*values, 1.0])) == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda pa, items: pa.array(items),
        lambda pa, items: pa.array(items).dictionary_encode(),
        lambda pa, items: pa.array(items).dictionary_encode(null_encoding="encode"),
        lambda pa, items: pa.chunked_array([items[:2], items[2:]], pa.array(items).type),
        lambda pa, items: pytest.importorskip("pandas").Series(items),
        lambda pa, items: pytest.importorskip("pandas").Series(items, dtype="category"),
        lambda pa, items: pytest.importorskip("pandas").array(items),
        lambda pa, items: pytest.importorskip("polars").Series(items),
        lambda pa, items: np.ma.array([item or items[0] for item in items], mask=[item is None for item in items]),
    ],
)
@pytest.mark.parametrize("keys", [KEYS, (1, 2, 3, 4)])
def test_missing_keys_of_each_container(make, keys):
    pa = pytest.importorskip("pyarrow")
    items = [keys[0], None, keys[1], keys[0], None]
    for contribution in (None, UNITS):
        dropping = ps.by("hospital", SUM, keys=keys, contribution=contribution, unlisted="drop")
        refusing = replace(dropping, unlisted="refuse")
        column, values = make(pa, items), [1.0, 2.0, 3.0, 1.0, 2.0]
        kept = ([keys[0], keys[1], keys[0]], [1.0, 3.0, 1.0])
        units = ((), ()) if contribution is None else ((["a", "a", "b", "c", "c"],), (["a", "b", "c"],))
        assert dropping.tally((*units[0], column, values)) == dropping.tally((*units[1], *kept))
        with pytest.raises(SchemaError, match=r"missing entries|got float64"):
            refusing.tally((*units[0], column, values))
        if contribution is not None:  # the units are missing
            groups = [keys[0], keys[2], keys[1], keys[0], keys[3]]
            found = dropping.tally((column, groups, values))
            assert found == dropping.tally(([keys[0], keys[1], keys[0]], *kept))


def test_text_is_refused_where_the_public_keys_are_numbers():
    numbers = ps.by("shop", SUM, keys=[1, 2])
    for column in (["1", "2"], np.array(["1", "2"]), np.array(["1", "2"], object)):
        with pytest.raises(SchemaError, match="must be whole numbers, as the public keys are, got text"):
            numbers.release((column, [1.0, 1.0]))


def test_a_missing_column_of_units_is_refused():
    with pytest.raises(SchemaError, match="units, groups, records"):
        BOUNDED.release((["north"], [1]))
    with pytest.raises(SchemaError, match="patient column must have no missing"):
        BOUNDED.release(([None], ["north"], [1]))


@pytest.mark.parametrize(
    ("error", "fields", "words"),
    [
        (TypeError, {"keys": "north"}, "keys must be a list"),
        (ValueError, {"keys": []}, "at least one key"),
        (ValueError, {"keys": ["a", "a"]}, "distinct"),
        (TypeError, {"keys": ["a", 1]}, "all of one type"),
        (TypeError, {"keys": [1.0, 2.0]}, "texts, or whole numbers"),
        (TypeError, {"keys": [None]}, "without missing"),
        (ValueError, {"keys": [2**64]}, "64 bits"),
        (ValueError, {"keys": ["a"], "name": "sum"}, "must differ"),
        (TypeError, {"keys": {"a", "b"}}, "fixed order"),
        (TypeError, {"keys": np.array([["a"]])}, "one list"),
        (ValueError, {"keys": range(10**30)}, "held in memory at once.*lower the number of keys"),
        (ValueError, {"keys": range(0, -(10**9), -1)}, "lower the number of keys"),
        (TypeError, {"keys": ["a"], "name": 3}, "name must be a string"),
        (ValueError, {"keys": ["a"], "sizes": [3]}, "sizes must be None"),
        (ValueError, {"keys": ["a"], "unlisted": "keep"}, "'refuse' or 'drop'"),
        (TypeError, {"keys": ["a"], "contribution": 3}, "must be a Contribution"),
        (TypeError, {"keys": ["a"], "base": ps.GaussianMechanism(sensitivity=1, noise_std=1)}, "records"),
        (TypeError, {"keys": ["a"], "base": ps.LaplaceSum(bounds=(0, 1), scale=1, exact=False)}, "no tallies"),
        (ValueError, {"keys": ["a"], "base": ps.LaplaceSum(bounds=(0, 1), scale=1, draws=4 * 10**8)}, None),
        (ValueError, {"keys": range(5), "base": ps.LaplaceSum(bounds=(0, 1), scale=1, draws=10**8)}, "memory at once"),
    ],
)
def test_wrong_fields(error, fields, words):
    if words is None:
        assert ps.GroupedMechanism(name="clinic", **fields).base.draws == 4 * 10**8
        return
    with pytest.raises(error, match=words):
        ps.GroupedMechanism(**{"name": "clinic", "base": SUM} | fields)


def test_public_sizes():
    base = ps.NoisyStatistics(model=ps.BetaBernoulli(alpha=1, beta=1), n=2, scale=2.0)
    assert ps.by("clinic", base, keys=["a", "b"]).sizes == (2, 2)
    mechanism = ps.by("clinic", base, keys=["a", "b"], sizes={"b": 1, "a": 2})
    assert mechanism.sizes == (2, 1)
    assert mechanism.accountant.relation == ps.ReplaceOne(n=3)
    with pytest.raises(SchemaError, match="clinic 'b': 1 records were declared"):
        mechanism.release((["a", "a", "b", "b"], [1, 0, 1, 1]))
    for sizes, words in (([1], "each of the 2 keys"), ({"a": 1}, "1 key without one"), ([1, 0], "at least 1")):
        with pytest.raises(ValueError, match=words):
            ps.by("clinic", base, keys=["a", "b"], sizes=sizes)
    with pytest.raises(RelationMismatch, match="contribution must be None"):
        ps.by("clinic", base, keys=["a"], contribution=UNITS)


def test_sums_of_units_are_clipped():
    bounds = ps.Contribution(groups=1, clip=(0, 2), unit="patient")
    base = ps.LaplaceSum(bounds=(0, 2), scale=1, grid=0.5)
    mechanism = ps.by("clinic", base, keys=["a", "b"], contribution=bounds)
    units = ["u", "u", "u", "v", "v", "w", "x"]
    groups = ["a", "a", "b", "b", "b", "a", "b"]
    values = [5.0, -4.0, 9.0, 1e300, 3.0, np.nan, -np.inf]
    for order in itertools.islice(itertools.permutations(range(7)), 0, 5040, 500):
        data = tuple([column[k] for k in order] for column in (units, groups, values))
        tally = mechanism.tally(data)
        assert tally.sums.ravel().tolist() == [2, 4]  # u counts 1 in a, v counts 2 in b, x and w count 0
        assert tally.counts.tolist() == [2, 2]
    with pytest.raises(ValueError, match="records must be None"):
        ps.Contribution(records=2, clip=(0, 1))
    with pytest.raises(ValueError, match="so far from 0"):
        ps.Contribution(clip=(1e9, 1e9 + 1))
    with pytest.raises(TypeError, match="clip adds up one column"):
        ps.by("a", ps.ClippedSum(norm=1, width=2, noise_std=1), keys=["a"], contribution=bounds)


def test_every_group_is_released_and_saved(tmp_path):
    mechanism = ps.by("hospital", SUM, keys=[f"h{k}" for k in range(300)])
    release = mechanism.release((["h7"], [2.0]))
    assert release["sum"].shape == (1, 300)
    assert "for each hospital, in 300 groups" in release.statement()
    for name in ("release.json", "release.nc"):
        release.save(tmp_path / name)
        assert ps.Release.load(tmp_path / name) == release
    assert release.plot() is not None


def test_notes_for_the_curator():
    mechanism = ps.by("hospital", SUM, keys=KEYS, contribution=UNITS, unlisted="drop")
    notes = mechanism.validate((["u"] * 5, ["north"] * 4 + ["other"], [1.0, 2.0, 9.0, None, 1.0]))
    assert notes.title == "4 records in 1 hospital of 4"
    assert notes.facts["records left out by unlisted='drop'"] == 1
    assert notes.facts["records beyond the bounds of their unit"] == 2
    assert notes.facts["outside"] == notes.facts["missing"] == 1


CALIBRATED = [
    (ps.GaussianSum(bounds=(0, 30), noise_std=1), {"contribution": UNITS}, ps.DP(1, 1e-6)),
    (ps.ClippedSum(norm=1, width=2, noise_std=1), {}, ps.ZCDP(0.1)),
    (ps.NoisyStatistics(model=ps.BetaBernoulli(1, 1), n=9, scale=9.0), {"sizes": (3, 4, 5, 6)}, ps.DP(0.5)),
    (ps.NoisyStatistics(model=ps.BetaBernoulli(1, 1), scale=9.0), {}, ps.DP(0.5)),
    (ps.DiffusedPosterior(model=ps.BetaBernoulli(2, 2), n=9, data_weight=0.5, exact=False), {}, ps.RDP(2, 0.01)),
]


@pytest.mark.parametrize(("base", "fields", "target"), CALIBRATED, ids=lambda item: type(item).__name__)
def test_calibration_spends_the_target_on_all_groups_together(base, fields, target):
    found = ps.GroupedMechanism.calibrate(name="clinic", base=base, keys=KEYS, target=target, **fields)
    name = base.free_parameters[0].decides
    chosen, worse = getattr(found.base, name), 1.001 if base.free_parameters[0].direction == "largest" else 0.999
    assert target._met_as_reported(found.accountant)
    cheaper = ps.by("clinic", replace(base, **{name: worse * chosen}), keys=KEYS, **fields)
    assert not target._met_as_reported(cheaper.accountant)
    assert replace(found.base, **{name: getattr(base, name)}) == base


def test_calibration_of_what_has_no_noise():
    with pytest.raises(TypeError, match="base must be a mechanism"):
        ps.GroupedMechanism.calibrate(name="clinic", base=3, keys=KEYS, target=ps.DP(1))
    with pytest.raises(TypeError, match="base must be given"):
        ps.GroupedMechanism.calibrate(name="clinic", keys=KEYS, target=ps.DP(1))
    with pytest.raises(UnreachableTarget, match="delta > 0"):
        ps.GroupedMechanism.calibrate(name="clinic", base=CALIBRATED[0][0], keys=KEYS, target=ps.DP(1))


def test_records_that_are_left_out_change_nothing():
    rng = np.random.default_rng(3)
    units, records = rng.integers(0, 9, 200), rng.uniform(-1, 3, 200)
    groups = rng.choice([*KEYS, "elsewhere", "unknown"], 200)
    inside = np.isin(groups, KEYS)
    for contribution in (None, UNITS, ps.Contribution(groups=1, clip=(0, 2), unit="patient")):
        mechanism = ps.by("hospital", SUM, keys=KEYS, contribution=contribution, unlisted="drop")
        columns_ = (groups, records) if contribution is None else (units, groups, records)
        listed = tuple(column[inside] for column in columns_)
        assert mechanism.tally(columns_) == mechanism.tally(listed)
        assert mechanism.release(columns_, rng=np.random.default_rng(1)) == mechanism.release(
            listed, rng=np.random.default_rng(1)
        )
        assert "LISTED_KEYS" not in {assumption.name for assumption in mechanism.accountant.assumptions}
    nobody = (["elsewhere"], ["unknown"], [1.0])
    assert mechanism.tally(nobody).counts.tolist() == []
    assert mechanism.release(nobody)["sum"].shape == (1, 4)
