"""Files, columns and types that an engine by itself would read otherwise than the others."""

from dataclasses import replace

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privsample as ps
from privsample.errors import SchemaError

SUM = ps.GaussianSum(bounds=(0, 10), noise_std=1)
BOUNDED = ps.by("key", SUM, keys=["a", "b"], contribution=ps.Contribution(unit="patient"))
ENGINES = ("arrow", "duckdb", "polars", "dask")


def tally(source, engine, mechanism=SUM, **names):
    return ps.tally_source(source, mechanism, columns="x", engine=engine, **names)


def total(found):
    return int(found.sums.sum()) * SUM.pitch, int(found.counts.sum())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("first", "second"), [("a[1]", "a1"), ("a*", "ab"), ("a?", "ab"), ("[a]", "a")])
def test_the_name_of_a_file_is_no_pattern(engine, first, second, tmp_path):
    """A pattern would read the other file in place of the one that was named, or in addition to it."""
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / f"{first}.parquet")
    pq.write_table(pa.table({"x": [2.0]}), tmp_path / f"{second}.parquet")
    assert total(tally(tmp_path / f"{first}.parquet", engine)) == (1.0, 1)
    assert total(tally(tmp_path, engine)) == (3.0, 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_names_of_columns_differ_by_the_case_of_letters(engine, tmp_path):
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"X": [9.0], "x": [1.0]}), tmp_path / "b.parquet")
    assert total(tally(tmp_path, engine)) == (2.0, 2)
    assert total(tally(tmp_path / "b.parquet", engine)) == (1.0, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_reads_views_of_text(engine, tmp_path):
    rows = pa.table({"x": [1.0, 2.0], "key": pa.array(["a", "b"], pa.string_view()), "u": ["p", "q"]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    expected = BOUNDED.tally((rows["u"], rows["key"], rows["x"]))
    assert tally(tmp_path, engine, BOUNDED, unit="u") == expected


@pytest.mark.parametrize("engine", ENGINES[:3])
@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["a", "b"])])
def test_categories_of_polars_are_text(engine, kind):
    frame = pl.DataFrame({"x": [1.0, 2.0], "key": ["a", "b"], "u": [1, 2]}).with_columns(pl.col("key").cast(kind))
    assert tally(frame, engine, BOUNDED, unit="u") == tally(frame.lazy(), engine, BOUNDED, unit="u")
    assert tally(frame, engine, BOUNDED, unit="u") == BOUNDED.tally((frame["u"], frame["key"], frame["x"]))


@pytest.mark.parametrize("engine", ENGINES[:3])
def test_every_engine_reads_a_record_batch(engine):
    assert total(tally(pa.record_batch({"y": [5.0], "x": [1.0]}), engine)) == (1.0, 1)


@pytest.mark.parametrize("engine", ENGINES[:3])
@pytest.mark.parametrize("kind", [pa.float16(), pa.decimal256(40, 1), pa.decimal128(9, -1)])
def test_types_that_duckdb_lacks_are_streamed(engine, kind):
    rows = pa.table({"x": pa.array([1.0, 10.0]).cast(pa.float16()) if kind == pa.float16() else decimals(kind)})
    assert tally(rows, engine) == SUM.tally(rows["x"])


def decimals(kind):
    return pa.array([10, 10], pa.int64()).cast(pa.decimal128(19, 0)).cast(kind)


@pytest.mark.parametrize("engine", ENGINES[:3])
@pytest.mark.parametrize("rows", [[{"a": 1.0}, {"a": 2.0}], [{"a": 1.0}, None]])
def test_structs_are_no_numbers(engine, rows):
    with pytest.raises(SchemaError, match="data must be numbers or booleans, got struct"):
        tally(pa.table({"x": pa.array(rows)}), engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("source", [[], (), ""])
def test_no_path_is_refused(engine, source):
    with pytest.raises(SchemaError, match="source must"):
        tally(source, engine)


@pytest.mark.parametrize("source", [None, 5, pa.table({"x": [1.0]}), {"x": [1.0]}, pl.DataFrame({"x": [1.0]})])
def test_dask_reads_collections_of_dask_and_files_alone(source):
    with pytest.raises(TypeError, match="source must be a dask DataFrame or Array"):
        tally(source, "dask")


@pytest.mark.parametrize("units", [["p", None, "q", "p"], [7, None, 8, 7], [None] * 4])
def test_rows_that_are_divided_by_unit_may_lack_one(units, monkeypatch):
    monkeypatch.setattr("privsample.engines.units._MOST", 2)
    mechanism = replace(BOUNDED, unlisted="drop")
    table = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "key": ["a", "a", "b", "b"], "u": units})
    assert tally(table, "arrow", mechanism, unit="u", by="key") == mechanism.tally((units, table["key"], table["x"]))
    with pytest.raises(SchemaError, match="missing entries"):
        tally(table, "arrow", BOUNDED, unit="u", by="key")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("keys", [("a", "b"), (1, 2)])
@pytest.mark.parametrize("kind", ["integers", "floats"])
def test_missing_keys_and_units_are_dropped_or_refused(engine, keys, kind, tmp_path):
    u = [1, 1, None, 2, 2, None]
    key = [keys[0], None, keys[0], keys[1], None, None]
    if kind == "floats":  # as pandas writes whole numbers with missing ones
        u = pa.array([float("nan") if item is None else float(item) for item in u])
        if keys == (1, 2):
            key = pa.array([float("nan") if item is None else float(item) for item in key])
    table = pa.table({"x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "u": u, "key": key})
    pq.write_table(table, tmp_path / "rows.parquet")
    bounded = ps.by("key", SUM, keys=keys, contribution=ps.Contribution(unit="patient"), unlisted="drop")
    plain = ps.by("key", SUM, keys=keys, unlisted="drop")
    assert tally(tmp_path, engine, bounded, unit="u", by="key") == bounded.tally(([1, 2], list(keys), [1.0, 4.0]))
    alone = plain.tally(([keys[0], keys[0], keys[1]], [1.0, 3.0, 4.0]))
    assert tally(tmp_path, engine, plain, by="key") == alone
    for mechanism, unit in ((bounded, "u"), (plain, None)):
        with pytest.raises(SchemaError, match=r"missing entries|got double"):
            tally(tmp_path, engine, replace(mechanism, unlisted="refuse"), unit=unit, by="key")
