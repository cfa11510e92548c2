"""All engines return the tally of the mechanism itself, whatever the type of the column and the values in it."""

from decimal import Decimal

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import privsample as ps
from privsample.engines import duckdb_engine, units

SPECIAL = [np.nan, -np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e308, -1e308, 2.0**53, 0.5, 1.5, 2.5, -2.5, 7.25]
KEYS = ["north", "south", 'o\'brien "x"', "ä", ""]
SUM = ps.GaussianSum(bounds=(0, 10), noise_std=1)
MECHANISMS = {
    "sum": SUM,
    "inner ends": ps.LaplaceSum(bounds=(-7.3, 100.25), scale=1),
    "halves": ps.LaplaceSum(bounds=(-3, 3), scale=1, grid=0.5),
    "far": ps.LaplaceSum(bounds=(1e15, 1e15 + 1), scale=1, grid=0.125),
    "wide": ps.LaplaceSum(bounds=(-1e290, 1e290), scale=1e290),
    "counts": ps.NoisyStatistics(model=ps.GammaPoisson(1, 1, upper=5), n=1, scale=1.0),
    "posterior": ps.DirectPosterior(model=ps.BetaBernoulli(alpha=6, beta=12), n=1),
    "codes": ps.NoisyStatistics(model=ps.DirichletCategorical(alpha=(1, 1, 1)), n=1, scale=1.0),
}
COLUMNS = {
    "float64": lambda rng: pa.array(np.concatenate([SPECIAL, rng.normal(3, 4, 80)])),
    "float32": lambda rng: pa.array(
        np.clip(np.concatenate([SPECIAL, rng.normal(3, 4, 80)]), -1e38, 1e38).astype(np.float32)
    ),
    "int8": lambda rng: pa.array(rng.integers(-4, 12, 90).astype(np.int8)),
    "int64": lambda rng: pa.array(np.concatenate([[2**63 - 1, -(2**63), 2**53 + 1], rng.integers(-4, 12, 90)])),
    "uint64": lambda rng: pa.array([2**64 - 1, *rng.integers(0, 12, 90).tolist()], pa.uint64()),
    "boolean": lambda rng: pa.array(rng.random(90) < 0.5),
    "decimal": lambda rng: pa.array([Decimal(int(n)) / 100 for n in rng.integers(-300, 900, 90)], pa.decimal128(9, 2)),
    "long decimal": lambda rng: pa.array(
        [Decimal(f"{n}e-17") for n in rng.integers(0, 2**62, 90)], pa.decimal128(38, 17)
    ),
    "null": lambda rng: pa.nulls(90),
}


def table(column, rng, *, nulls=0.15):
    values = pa.array([None if rng.random() < nulls else item for item in column], column.type)
    size = len(values)
    return pa.table(
        {
            "x": values,
            "key": pa.array(rng.choice(KEYS, size)),
            "number": rng.integers(-2, 3, size),
            "unit": rng.integers(0, max(size // 4, 1), size),
        }
    )


def sources(rows, *, all_forms):
    """The engines, each with a source of the rows in its own form, or in all forms that it reads."""
    yield "arrow", rows
    yield "duckdb", rows
    if all_forms:
        yield "duckdb", rows.to_reader(7)
    if not pa.types.is_null(rows["x"].type):
        if all_forms:
            yield "duckdb", duckdb.connect().from_arrow(rows)
        yield "polars", pl.from_arrow(rows).lazy()


def assert_equal_tallies(rows, mechanism, *, all_forms=True, **how):
    """Every engine returns the tally of the mechanism, which is returned."""
    groups = {"by": mechanism.name} if isinstance(mechanism, ps.GroupedMechanism) else {}
    chosen = [rows[name] for name in ({"unit": None} | groups | how).values() if name]
    expected = mechanism.tally((*chosen, rows["x"]) if chosen else rows["x"])
    for engine, source in sources(rows, all_forms=all_forms):
        assert ps.tally_source(source, mechanism, columns="x", engine=engine, **how) == expected, engine
    return expected


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.usefixtures("shared_database")
def test_all_engines_return_the_tally_of_the_mechanism(name, kind, rng):
    """One mechanism reads each type of column in all forms."""
    mechanism, rows = MECHANISMS[name], table(COLUMNS[kind](rng), rng)
    sizes = None if isinstance(mechanism, (ps.GaussianSum, ps.LaplaceSum)) else (1,) * 5
    forms = {"all_forms": name == "inner ends"}
    assert_equal_tallies(rows, ps.by("key", mechanism, keys=KEYS, sizes=sizes), **forms)
    if kind in ("float64", "uint64"):
        assert_equal_tallies(rows, mechanism, **forms)
        assert_equal_tallies(rows, ps.by("key", mechanism, keys=range(-2, 3), sizes=sizes), by="number", **forms)


@pytest.mark.usefixtures("shared_database")
def test_all_engines_read_categories_by_name(rng):
    names = ("north", "south", 'o\'brien "x"')
    for alpha, missing in (((1, 1, 1), {}),):
        model = ps.DirichletCategorical(alpha=alpha, names=names, **missing)
        words = pa.array([*KEYS, None, "  ", "north "] * 9)
        for column in (words, words.dictionary_encode()):
            rows = table(column.cast(pa.string()), rng)
            assert_equal_tallies(rows, ps.NoisyStatistics(model=model, n=1, scale=1.0))
            assert_equal_tallies(
                rows, ps.by("number", ps.NoisyStatistics(model=model, n=1, scale=1.0), keys=range(-2, 3))
            )


@pytest.mark.parametrize(
    ("bounds", "limit"),
    [
        ((-1, 1), {"records": 2}),
        ((-1, 1), {"clip": (-1.5, 2.25)}),
        ((2, 5), {"records": 2}),
        ((-3, -1), {"clip": (-1.5, 2.25)}),
        # the same on the other side of 0: in the long lane
        pytest.param((-3, -1), {"records": 2}, marks=pytest.mark.long),
        pytest.param((2, 5), {"clip": (-1.5, 2.25)}, marks=pytest.mark.long),
    ],
)
@pytest.mark.usefixtures("shared_database")
def test_adding_a_unit_changes_sums_within_the_sensitivity_in_all_engines(bounds, limit, rng):
    """By enumeration: bounds on both sides of 0, each unit left out, and the rows in another order."""
    most, clipped = 2, "clip" in limit
    mechanism = ps.by(
        "key",
        ps.LaplaceSum(bounds=bounds, scale=1, grid=0.25),
        keys=KEYS[:3],
        contribution=ps.Contribution(groups=most, **limit),
        unlisted="drop",
    )
    size = 24
    values = rng.choice([*SPECIAL, 0.125, 0.375, -0.625], size)
    rows = pa.table({"x": values, "key": rng.choice(KEYS[:4], size), "unit": rng.integers(0, 4, size)})
    largest = max(map(abs, bounds)) * 4 * (1 if clipped else 2)

    def tables(chosen):
        mixed = chosen.take(rng.permutation(chosen.num_rows))
        tally = assert_equal_tallies(mixed, mechanism, all_forms=False, by="key", unit="unit")
        found = np.zeros((3, 2), dtype=np.int64)
        found[tally.keys] = np.column_stack([tally.sums[:, 0], tally.counts])
        return found

    whole = tables(rows)
    for unit in range(4):
        change = np.abs(whole - tables(rows.filter(pa.array(rows["unit"].to_numpy() != unit))))
        assert np.count_nonzero(change.any(axis=1)) <= most
        assert (change.max(axis=0) <= [largest, 1 if clipped else 2]).all()


BOUNDS = {
    "one": ps.Contribution(),
    "several": ps.Contribution(groups=2, records=3),
    "clipped": ps.Contribution(groups=2, clip=(-1, 12)),
    "clipped far away": ps.Contribution(groups=3, clip=(100, 101)),
}


@pytest.mark.parametrize(
    ("name", "unlisted"),
    [
        *((name, "refuse") for name in BOUNDS),
        *((name, "drop") for name in ("several", "clipped")),
        # groups are dropped before the contribution of a unit is bounded: other bounds in the long lane
        *(pytest.param(name, "drop", marks=pytest.mark.long) for name in ("one", "clipped far away")),
    ],
)
@pytest.mark.usefixtures("shared_database")
def test_the_same_rows_of_a_unit_count_in_all_engines(name, unlisted, rng, monkeypatch):
    """One contribution is read in all forms."""
    rows = table(COLUMNS["float64"](rng), rng)
    texts = pa.array([f"unit {number}" for number in rows["unit"].to_pylist()])
    for units_column in (rows["unit"], texts):
        rows = rows.set_column(3, "unit", units_column)
        keys = KEYS if unlisted == "refuse" else KEYS[1:4]
        mechanism = ps.by("key", SUM, keys=keys, contribution=BOUNDS[name], unlisted=unlisted)
        with monkeypatch.context() as patched:
            all_forms = units_column is texts and name == "several"
            expected = assert_equal_tallies(rows, mechanism, all_forms=all_forms, by="key", unit="unit")
            patched.setattr(units, "_MOST", 20)  # so that units are divided into files, in this engine
            assert ps.tally_source(rows, mechanism, columns="x", by="key", unit="unit", engine="arrow") == expected


KINDS_OF_UNITS = [
    *(pa.int8(), pa.int64(), pa.uint64()),
    *(pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())),
]


def units_and_bounds():
    """Each kind with several groups and records, and a number and a text with each bound; others in the long lane."""
    for kind in KINDS_OF_UNITS:
        for name in ("one", "several", "clipped"):
            short = name == "several" or kind in (pa.int64(), pa.string())
            yield pytest.param(name, kind, id=f"{name}-{kind}", marks=[] if short else pytest.mark.long)


@pytest.mark.parametrize(("name", "kind"), list(units_and_bounds()))
@pytest.mark.usefixtures("shared_database")
def test_what_counts_depends_on_the_unit_in_the_same_way_in_all_engines(name, kind, rng):
    """The records have two values and the units few, so that all ties of values and of groups occur.

    A unit has 25 records in 5 groups on average. An engine that chose other groups or records for each unit would
    return the same sums by chance for a unit with probability below 1/2, and for all with one below 2^-48.
    """
    numbers = rng.integers(0, 48, 1200)
    if kind in {pa.int8(), pa.int64()}:
        numbers = 24 - numbers if kind == pa.int8() else (numbers - 24) * 2**56
    if kind == pa.uint64():
        column = pa.array([2**64 - 1 - int(number) for number in numbers], kind)
    else:
        plain = pa.array(numbers)
        column = plain.cast(kind) if pa.types.is_integer(kind) else pa.array([f"ü{n}" for n in numbers])
        column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)
    rows = pa.table({"x": rng.integers(0, 2, 1200), "key": rng.choice(KEYS, 1200), "unit": column})
    mechanism = ps.by("key", ps.LaplaceSum(bounds=(0, 1), scale=1), keys=KEYS, contribution=BOUNDS[name])
    assert_equal_tallies(rows, mechanism, all_forms=name == "several", by="key", unit="unit")


def test_files_folders_and_datasets_give_one_tally(rng, tmp_path):
    parts = [table(COLUMNS["float64"](rng), rng) for _ in range(3)]
    for place, part in enumerate(parts):  # another order of the columns, and dictionaries in one of the files
        names = part.column_names if place else part.column_names[::-1]
        keys = part["key"].dictionary_encode() if place == 1 else part["key"]
        pq.write_table(part.set_column(1, "key", keys).select(names), tmp_path / f"it's {place}.parquet")
    rows = pa.concat_tables(parts)
    mechanism = ps.by("key", SUM, keys=KEYS)
    bounded = ps.by("key", SUM, keys=KEYS, contribution=ps.Contribution(records=2))
    expected = mechanism.tally((rows["key"], rows["x"]))
    files = sorted(tmp_path.glob("*.parquet"))
    for source in (tmp_path, str(tmp_path / "*.parquet"), files, files[::-1]):
        for engine in ("arrow", "duckdb", "polars"):
            assert ps.tally_source(source, mechanism, columns="x", engine=engine) == expected
    for engine in ("arrow", "duckdb", "polars"):
        found = ps.tally_source(tmp_path, bounded, columns="x", unit="unit", engine=engine)
        assert found == bounded.tally((rows["unit"], rows["key"], rows["x"]))
    for source in (ds.dataset(files[:1]), rows.to_reader(3), rows.to_pandas(), pl.from_arrow(rows), rows):
        whole = parts[0] if isinstance(source, ds.Dataset) else rows
        assert ps.tally_source(source, mechanism, columns="x") == mechanism.tally((whole["key"], whole["x"]))


RANGES = {
    "inside": [np.nan, 1.0, 2.5],
    "on an end": [np.nan, 1.0, 10.0],
    "above": [np.nan, -3.0, 40.0],
    "all below": [np.nan, -5.0, -3.0],
    "all above": [np.nan, 12.0, 12.0],
    "only missing": [np.nan, np.nan, np.nan],
    "infinite": [np.nan, np.inf, -np.inf],
}


def parquet_sources(file, *, all_forms):
    """The engines, each with a source of the rows of a Parquet file with statistics."""
    yield "arrow", file
    yield "duckdb", file
    yield "polars", file
    if not all_forms:
        return
    yield "duckdb", ds.dataset(file)
    yield "duckdb", duckdb.connect().read_parquet(str(file))
    yield "duckdb", duckdb.connect().sql(f"SELECT x, key, unit FROM '{file}' WHERE key >= 'a'")
    yield "polars", pl.scan_parquet(file)


def kinds_of_ranges():
    """Each range with float64 numbers and two with float32, whose ends are rounded; the others in the long lane."""
    for name, numbers in RANGES.items():
        yield pytest.param(np.float64, numbers, id=f"{name}-float64")
        short = name in ("on an end", "infinite")
        yield pytest.param(np.float32, numbers, id=f"{name}-float32", marks=[] if short else pytest.mark.long)


@pytest.mark.parametrize(("kind", "numbers"), list(kinds_of_ranges()))
@pytest.mark.usefixtures("shared_database")
def test_the_ranges_in_files_do_not_hide_missing_values(kind, numbers, tmp_path):
    """The statistics of a Parquet file leave out NaN, so a query planner may conclude that there is none."""
    values = np.array(numbers * 2, dtype=kind)
    rows = pa.table({"x": values, "key": ["a", "b"] * 3, "unit": [0, 0, 1, 1, 2, 2]})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=4)
    contributions = [None, ps.Contribution(records=2), ps.Contribution(clip=(-1, 12))]
    away = ps.LaplaceSum(bounds=(-7.0, -2.0), scale=1)
    grouped = [ps.by("key", SUM, keys=["a", "b"], contribution=bounds) for bounds in contributions]
    single = [MECHANISMS[name] for name in ("sum", "counts", "posterior", "codes")]  # one of each kind of query
    for mechanism in (away, *single, *grouped):
        unit = "unit" if getattr(mechanism, "contribution", None) else None
        names = [unit, "key"] if unit else ["key"] if isinstance(mechanism, ps.GroupedMechanism) else []
        chosen = [rows[name] for name in names]
        expected = mechanism.tally((*chosen, rows["x"]) if chosen else rows["x"])
        for engine, source in parquet_sources(tmp_path / "rows.parquet", all_forms=mechanism in (SUM, grouped[0])):
            assert ps.tally_source(source, mechanism, columns="x", unit=unit, engine=engine) == expected, engine


def test_rows_and_labels_are_read_in_the_order_of_their_names(rng):
    rows = pa.table({"b": rng.random(30), "a": rng.random(30), "key": rng.choice(KEYS, 30)})
    mechanism = ps.ClippedSum(norm=1, noise_std=1, width=2)
    numbers = np.column_stack([rows["a"], rows["b"]])
    for engine in ("arrow", "duckdb", "polars"):
        found = ps.tally_source(rows, mechanism, columns=("a", "b"), engine=engine)
        assert found == mechanism.tally(numbers)
        grouped = ps.by("key", mechanism, keys=KEYS)
        expected = grouped.tally((rows["key"], numbers))
        assert ps.tally_source(rows, grouped, columns=["a", "b"], engine=engine) == expected


def test_names_of_columns_are_no_sql_and_no_patterns(rng):
    name = 'x"); DROP TABLE t; -- ^.*$'
    rows = pa.table({name: rng.random(30), "^.*$": rng.choice(KEYS, 30), "*": rng.integers(0, 9, 30)})
    for bounds, unit in ((None, None), (ps.Contribution(), "*")):
        mechanism = ps.by("group", SUM, keys=KEYS, contribution=bounds)
        columns = [rows[each] for each in ("*", "^.*$", name)][0 if unit else 1 :]
        for engine, source in (("arrow", rows), ("duckdb", rows), ("polars", pl.from_arrow(rows).lazy())):
            found = ps.tally_source(source, mechanism, columns=name, by="^.*$", unit=unit, engine=engine)
            assert found == mechanism.tally(tuple(columns))


def test_a_collation_does_not_merge_keys():
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (key VARCHAR COLLATE NOCASE, X DOUBLE)")
        connection.execute("INSERT INTO t VALUES ('A', 1), ('a', 2), ('a', 3)")
        mechanism = ps.by("key", SUM, keys=["a", "A"])
        found = ps.tally_source(connection.table("t"), mechanism, columns="X", engine="duckdb")
        assert found == mechanism.tally((["A", "a", "a"], [1, 2, 3]))


def test_the_broken_copy_that_rounds_halves_up_differs(rng, monkeypatch):
    """What the equality tests find: rounding that is not half to even."""
    rows = pa.table({"x": np.arange(-3, 3, 0.25)})
    mechanism = MECHANISMS["halves"]
    assert ps.tally_source(rows, mechanism, columns="x", engine="duckdb") == mechanism.tally(rows["x"])
    original = duckdb_engine.index_sql

    def broken(*given):
        return f"CAST(floor(0.5 + {original(*given).removeprefix('CAST(').removesuffix(' AS BIGINT)')}) AS BIGINT)"

    monkeypatch.setattr(duckdb_engine, "index_sql", broken)
    assert ps.tally_source(rows, mechanism, columns="x", engine="duckdb") != mechanism.tally(rows["x"])
