"""Sources that engines refuse: one clear error each, which shows no record, key or unit."""

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privsample as ps
from privsample.errors import SchemaError

SECRET = "4711"
SUM = ps.GaussianSum(bounds=(0, 10), noise_std=1)
GROUPED = ps.by("key", SUM, keys=["a", "b"])
BOUNDED = ps.by("key", SUM, keys=["a", "b"], contribution=ps.Contribution(unit="patient"))
ENGINES = ["arrow", "duckdb", "polars"]
ROWS = pa.table({"x": [1.0, 2.0], "key": ["a", "b"], "unit": [1, 2]})


def forms(rows, folder):
    """The rows in the form of every kind of source."""
    path = folder / "rows.parquet"
    pq.write_table(rows, path)
    return {"table": rows, "reader": rows.to_reader(), "file": path, "frame": pl.from_arrow(rows).lazy()} | {
        "relation": duckdb.sql(f"SELECT * FROM read_parquet('{path}')")
    }


FORMS = ["table", "reader", "file", "frame", "relation"]


def replaced(**columns):
    return pa.table({name: ROWS[name] for name in ROWS.column_names} | columns)


BAD = {
    "no column": (ROWS.drop_columns(["x"]), SUM, None, "column 'x' is not in .*the columns are 'key', 'unit'"),
    "no key": (ROWS.drop_columns(["key"]), GROUPED, None, "column 'key' is not in"),
    "no unit": (ROWS.drop_columns(["unit"]), BOUNDED, "unit", "column 'unit' is not in"),
    "text": (replaced(x=["1", SECRET]), SUM, None, "the column holds text"),
    "dates": (replaced(x=pa.array([1, 4711], pa.date32())), SUM, None, "must be numbers or booleans, got date"),
    "null key": (replaced(key=["a", None]), GROUPED, None, "the key keys must have no missing entries"),
    "other key": (replaced(key=["a", SECRET]), GROUPED, None, "must be among the 2 public keys"),
    "numbers as keys": (replaced(key=[1, 4711]), GROUPED, None, "must be text, as the public keys are"),
    "floats as keys": (replaced(key=[1.5, 4711]), GROUPED, None, "must be text or whole numbers, got"),
    "null unit": (replaced(unit=[1, None]), BOUNDED, "unit", "the patient column must have no missing entries"),
    "floats as units": (replaced(unit=[1.5, 4711]), BOUNDED, "unit", "must be text or whole numbers, got"),
    "other key of a unit": (replaced(key=["a", SECRET]), BOUNDED, "unit", "must be among the 2 public keys"),
    "null key of a unit": (replaced(key=[None, "a"]), BOUNDED, "unit", "the key keys must have no missing entries"),
}


def bad_rows():
    """Each bad table in each form with one engine, so that each engine meets each form; all with all at night."""
    for place, name in enumerate(BAD):
        for number, engine in enumerate(ENGINES):
            chosen = [form for at, form in enumerate(FORMS) if (place + at) % len(ENGINES) == number]
            yield pytest.param(name, engine, chosen, id=f"{name}-{engine}")
            yield pytest.param(name, engine, FORMS, id=f"{name}-{engine}-every form", marks=pytest.mark.long)


@pytest.mark.parametrize(("name", "engine", "chosen"), list(bad_rows()))
def test_bad_rows_have_one_clear_error(name, engine, chosen, tmp_path):
    rows, mechanism, unit, message = BAD[name]
    sources = forms(rows, tmp_path)
    for form in chosen:
        source = sources[form]
        with pytest.raises(SchemaError, match=message) as caught:
            ps.tally_source(source, mechanism, columns="x", unit=unit, engine=engine)
        assert SECRET not in str(caught.value), form


@pytest.mark.parametrize("engine", ENGINES)
def test_files_must_agree_and_be_readable(engine, tmp_path):
    def tally(source=tmp_path):
        return ps.tally_source(source, SUM, columns="x", engine=engine)

    with pytest.raises(SchemaError, match="there is no Parquet file at"):
        tally()
    pq.write_table(ROWS, tmp_path / "1.parquet")
    pq.write_table(replaced(x=[1, 2]), tmp_path / "2.parquet")
    with pytest.raises(SchemaError, match=r"type double in file .*1.parquet, and int64 in file .*2.parquet"):
        tally()
    pq.write_table(ROWS.drop_columns(["x"]), tmp_path / "2.parquet")
    with pytest.raises(SchemaError, match=r"column 'x' is not in file .*2.parquet"):
        tally()
    (tmp_path / "2.parquet").write_text(SECRET)
    with pytest.raises(SchemaError, match=r"2.parquet could not be read to its end"):
        tally()
    pq.write_table(pa.table({"x": np.arange(4711.0)}), tmp_path / "2.parquet")
    content = bytearray((tmp_path / "2.parquet").read_bytes())
    content[40:30_000] = b"\xff" * (30_000 - 40)  # the data are broken, the footer is not
    (tmp_path / "2.parquet").write_bytes(content)
    with pytest.raises(SchemaError, match="could not be read to its end"):
        tally()
    (tmp_path / "2.parquet").write_bytes(content[:20_000])  # the end is missing
    with pytest.raises(SchemaError, match=r"2.parquet could not be read to its end"):
        tally()
    with pytest.raises(SchemaError, match=r"there is no Parquet file|could not be read"):
        tally(tmp_path / "missing.parquet")


def failing_reader():
    def batches():
        yield pa.record_batch({"x": [1.0]})
        raise ValueError(f"record {SECRET}")

    return pa.RecordBatchReader.from_batches(pa.schema({"x": pa.float64()}), batches())


def failing_frame():
    def fail(_):
        raise ValueError(f"record {SECRET}")

    return pl.LazyFrame({"x": [1.0]}).map_batches(fail, schema={"x": pl.Float64})


FAILING = {
    "reader": failing_reader,
    "relation": lambda: duckdb.sql(
        f"SELECT CASE WHEN i > 9000 THEN error('{SECRET}') ELSE i END::DOUBLE AS x FROM range(9999) t(i)"
    ),
    "cast": lambda: duckdb.sql(
        f"SELECT CAST(CASE WHEN i > 9000 THEN 'a{SECRET}' ELSE '1' END AS DOUBLE) AS x FROM range(9999) t(i)"
    ),
    "frame": failing_frame,
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FAILING)
def test_a_source_that_fails_half_way_gives_no_tally(name, engine):
    with pytest.raises(SchemaError, match=r"could not be read to its end .*nothing was tallied or drawn") as caught:
        ps.tally_source(FAILING[name](), SUM, columns="x", engine=engine)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_relation_remains_usable_after_an_error():
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT 1.0::DOUBLE AS x")
        with pytest.raises(SchemaError, match="column 'y' is not in"):
            ps.tally_source(connection.table("t"), SUM, columns="y", engine="duckdb")
        assert ps.tally_source(connection.table("t"), SUM, columns="x", engine="duckdb") == SUM.tally([1.0])
        assert connection.sql("SHOW TABLES").fetchall() == [("t",)]


@pytest.mark.parametrize("engine", ENGINES)
def test_sources_without_rows_have_empty_tallies(engine, tmp_path):
    for source in forms(ROWS.slice(0, 0), tmp_path).values():
        assert ps.tally_source(source, SUM, columns="x", engine=engine) == SUM.tally([])
    for source in forms(ROWS.slice(0, 0), tmp_path).values():
        assert ps.tally_source(source, GROUPED, columns="x", engine=engine) == GROUPED.tally(([], []))


@pytest.mark.parametrize("engine", ENGINES)
def test_unlisted_groups_are_left_out_if_the_mechanism_says_so(engine):
    dropping = ps.by("key", SUM, keys=["b", "c"], unlisted="drop")
    found = ps.tally_source(ROWS, dropping, columns="x", engine=engine)
    assert (found.keys.tolist(), found.counts.tolist()) == ([0], [1])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"source": 5}, TypeError, "source must be a path, .*got int"),
        ({"source": None}, TypeError, "source must be a path, .*got NoneType"),
        ({"source": [5]}, TypeError, "source must be a path, .*got list"),
        ({"engine": "sqlite"}, ValueError, "engine must be one of 'arrow', .*got 'sqlite'"),
        ({"engine": ["arrow"]}, ValueError, "engine must be one of"),
        ({"mechanism": 3}, TypeError, "mechanism must be a mechanism with tallies, got int"),
        ({"mechanism": ps.GaussianSum(bounds=(0, 1), noise_std=1, exact=False)}, TypeError, "set exact=True"),
        ({"columns": 3}, TypeError, "columns must be the name of a column, or a tuple of names, got 3"),
        ({"columns": ()}, TypeError, "columns must be the name of a column, or a tuple of names"),
        ({"columns": ("x", 3)}, TypeError, "columns must be the name of a column, got 3"),
        ({"columns": ""}, SchemaError, "column '' is not in the data"),
        ({"by": "key"}, TypeError, "by must be left out for GaussianSum.* ps.by"),
        ({"unit": "unit"}, TypeError, "unit must be left out"),
        ({"mechanism": BOUNDED}, TypeError, "unit must name the column of the units"),
        ({"mechanism": GROUPED, "by": 3}, TypeError, "by must be the name of a column, got 3"),
        ({"mechanism": GROUPED, "by": "x"}, ValueError, "must name different columns, got x, x"),
    ],
)
def test_wrong_arguments_are_refused(given, error, message):
    for engine in ENGINES:
        arguments = {"source": ROWS, "mechanism": SUM, "columns": "x", "engine": engine} | given
        source, mechanism = arguments.pop("source"), arguments.pop("mechanism")
        with pytest.raises(error, match=message):
            ps.tally_source(source, mechanism, **arguments)
