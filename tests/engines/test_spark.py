"""Tallies on Spark: the function for mapInArrow on Arrow batches, and a local session where PySpark is installed."""

import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import privsample as ps
from privsample.engines import spark_engine
from privsample.errors import SchemaError

SUM = ps.GaussianSum(bounds=(0, 10), noise_std=4)
KEYS = ("north", "south", "west")
GROUPS = ps.by("hospital", SUM, keys=KEYS)
BOUNDED = ps.by("hospital", SUM, keys=KEYS, contribution=ps.Contribution(groups=2, records=2, unit="patient"))
ASKED = [(SUM, {}), (GROUPS, {}), (BOUNDED, {"unit": "patient"})]
SIZE = 500


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(22)
    return pa.table(
        {
            "stay": pa.array(rng.normal(5, 5, SIZE), mask=rng.random(SIZE) < 0.1),
            "hospital": rng.choice(KEYS, SIZE),
            "patient": rng.integers(0, 90, SIZE),
        }
    )


def of_all(mechanism, rows):
    names = {SUM: ["stay"], GROUPS: ["hospital", "stay"], BOUNDED: ["patient", "hospital", "stay"]}[mechanism]
    return mechanism.tally(tuple(rows[name] for name in names) if len(names) > 1 else rows["stay"])


def partitions(rows, count):
    """The rows by a hash of the unit, as the record batches of each partition; some may be empty."""
    places = rows["patient"].to_numpy() * 7919 % count
    return [rows.filter(pa.array(places == place)).to_batches(max_chunksize=40) for place in range(count)]


@pytest.mark.parametrize("count", [1, 7, 64])
@pytest.mark.parametrize("batch", [20, 1 << 18])
def test_any_partitions_give_the_tally(rows, count, batch, monkeypatch):
    monkeypatch.setattr(spark_engine, "ROWS", batch)
    for mechanism, unit in ASKED:
        function = ps.tally_batches(mechanism, "stay", **unit)
        found = []
        for place, batches in enumerate(partitions(rows, count)):
            monkeypatch.setattr(spark_engine, "_partition", lambda place=place: place)
            found += function(iter(batches))
        assert [row.num_rows for row in found] == [1] * count
        assert ps.merge_batches(found) == of_all(mechanism, rows)
        assert ps.merge_batches([*found, *found[:3]]) == of_all(mechanism, rows)  # of repeated tasks
        added = [row for first in range(0, count, 9) for row in spark_engine._add_batches(found[first : first + 9])]
        assert ps.merge_batches(pa.Table.from_batches(added)) == of_all(mechanism, rows)
        if count == 7:
            with pytest.raises(SchemaError, match="all parts must be counted, 'partition 2' missing"):
                ps.merge_batches(found[:2] + found[3:])


def test_a_partition_with_two_contents_is_refused(rows):
    function = ps.tally_batches(SUM, "stay")
    found = [*function(iter(rows.to_batches())), *function(iter(rows.slice(1).to_batches()))]
    with pytest.raises(SchemaError, match="same content, got two for 'partition 0'"):
        ps.merge_batches(found)
    assert not list(spark_engine._add_batches([]))


def test_wrong_arguments():
    with pytest.raises(TypeError, match="unit must name the column"):
        ps.tally_batches(BOUNDED, "stay")
    with pytest.raises(TypeError, match="a Spark source must be a Spark DataFrame, got list"):
        ps.tally_source([1], SUM, columns="stay", engine="spark")


class Frame:
    """What the driver asks of a Spark DataFrame; the job fails."""

    columns = ("stay",)
    schema = None

    def __init__(self, message):
        self.message = message

    def select(self, *names):
        return self

    def mapInArrow(self, function, schema):  # noqa: N802
        return self

    def toArrow(self):  # noqa: N802
        raise RuntimeError(self.message)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Zaphod", r"the Spark DataFrame could not be read to its end \(RuntimeError\); nothing was tallied or drawn"),
        ("Zaphod\nprivsample.errors.SchemaError: data must be numbers\n\tat org.apache", "^data must be numbers$"),
    ],
)
def test_a_job_that_fails_is_one_clear_error(message, said, monkeypatch):
    monkeypatch.setattr(spark_engine, "_empty", lambda frame: pa.table({"stay": pa.array([], pa.float64())}))
    with pytest.raises(SchemaError, match=said) as caught:
        ps.tally_source(Frame(message), SUM, columns="stay", engine="spark")
    assert "Zaphod" not in str(caught.value)


class Failing:
    """The rows of a partition; its first attempts fail, and the program that runs one of them dies."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        Path(self.folder, f"{context.partitionId()} {context.attemptNumber()}").touch()
        if context.partitionId() == 1 and context.attemptNumber() == 0:
            os._exit(1)
        if context.partitionId() == 2 and context.attemptNumber() < 2:
            raise RuntimeError("a failure of this attempt")
        yield from batches


@pytest.mark.filterwarnings("ignore")
def test_a_real_session_gives_the_tally_although_tasks_fail(rows, tmp_path, monkeypatch):
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    builder = sql.SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    for name in ("spark.driver.bindAddress", "spark.driver.host"):
        builder = builder.config(name, "127.0.0.1")
    session = builder.config("spark.sql.shuffle.partitions", "5").getOrCreate()
    try:
        session.sparkContext.setLogLevel("OFF")
        frame = session.createDataFrame(rows)
        for mechanism, unit in ASKED:
            found = ps.tally_source(frame.repartition(7), mechanism, columns="stay", engine="spark", **unit)
            assert found == of_all(mechanism, rows)
        failing = frame.repartition(4).mapInArrow(Failing(str(tmp_path)), frame.schema)
        monkeypatch.setattr(spark_engine, "_MANY_GROUPS", 1)  # executors add up tallies, too
        assert ps.tally_source(failing, GROUPS, columns="stay", engine="spark") == of_all(GROUPS, rows)
        assert {path.name for path in tmp_path.iterdir()} == {"0 0", "1 0", "1 1", "2 0", "2 1", "2 2", "3 0"}
        other = frame.selectExpr("stay", "'elsewhere' as hospital")
        with pytest.raises(SchemaError, match="must be among the 3 public keys"):
            ps.tally_source(other, GROUPS, columns="stay", engine="spark")
        with pytest.raises(SchemaError, match="column 'stay' is not in the Spark DataFrame"):
            ps.tally_source(frame.select("hospital"), SUM, columns="stay", engine="spark")
    finally:
        session.stop()
