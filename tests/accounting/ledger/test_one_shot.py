"""Data that can be read only once are read before anything is spent, and no message shows a record."""

import traceback

import numpy as np
import pytest

import privsample as ps
from privsample.errors import SchemaError

pa = pytest.importorskip("pyarrow")
SUM = ps.GaussianSum(bounds=(0, 1), noise_std=20)
SECRET = "the secret of one person"


@pytest.fixture
def ledger(tmp_path):
    return ps.Ledger(tmp_path / "l.db", budget=ps.DP(5, 1e-6), relation=ps.AddRemove(), dataset="visits")


def csv_that_breaks(tmp_path):
    """Numbers in the first block, and a text, which is no number, in a later one."""
    from pyarrow import csv

    rows = ["x", *("1.5" for _ in range(9_000)), SECRET, "1.5"]
    (tmp_path / "d.csv").write_text("\n".join(rows), encoding="utf-8")
    return csv.open_csv(tmp_path / "d.csv", read_options=csv.ReadOptions(block_size=4096))


def reader_that_breaks(tmp_path):
    del tmp_path

    def batches():
        yield pa.record_batch({"x": [1.0, 2.0]})
        raise ValueError(SECRET)

    return pa.RecordBatchReader.from_batches(pa.schema({"x": pa.float64()}), batches())


def relation_that_breaks(tmp_path):
    del tmp_path
    duckdb = pytest.importorskip("duckdb")
    words = f"CASE WHEN i = 190000 THEN '{SECRET}' ELSE '1.5' END"
    return duckdb.sql(f"SELECT CAST({words} AS DOUBLE) AS x FROM range(200000) t(i)")


SOURCES = (csv_that_breaks, reader_that_breaks, relation_that_breaks)


def contexts(error):
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("source", SOURCES)
def test_a_stream_that_fails_half_way_costs_nothing_and_shows_nothing(source, ledger, tmp_path):
    for release in (SUM.release, lambda data: ledger.release(SUM, data)):
        with pytest.raises(SchemaError) as caught:
            release(source(tmp_path))
        assert SECRET not in "".join(traceback.format_exception(caught.value))
        assert all(SECRET not in str(each) for each in contexts(caught.value))
    assert ledger.spent() == 0
    assert not ledger.history()
    reservation = ledger.reserve([SUM])
    with pytest.raises(SchemaError):
        reservation.release(0, source(tmp_path))
    assert reservation.release(0, np.ones(3))["sum"].shape == (1,)  # the draw was not used up


def test_a_stream_is_read_once_for_a_release(ledger):
    def stream():
        return pa.RecordBatchReader.from_batches(pa.schema({"x": pa.float64()}), [pa.record_batch({"x": [1.0, 2.0]})])

    assert ledger.release(SUM, stream())["sum"].shape == (1,)
    assert ledger.reserve([SUM]).release(0, stream())["sum"].shape == (1,)
    noiseless = ps.GaussianSum(bounds=(0, 1), noise_std=1e-9)
    assert noiseless.release(stream())["sum"] == pytest.approx([2.0], abs=1e-6)
    with pytest.raises(SchemaError, match="could not be read to its end"):
        ledger.release(SUM, iter_of(pa.schema({"x": pa.float64()})))
    assert len(ledger.history()) == 2


def iter_of(schema):
    def batches():
        raise RuntimeError
        yield

    return pa.RecordBatchReader.from_batches(schema, batches())


def test_what_a_mechanism_has_read_is_for_its_own_draws(rng):
    read = SUM._read_once([1.0, 0.5])
    assert SUM.release(read, rng=rng)["sum"].shape == (1,)
    with pytest.raises(TypeError, match="for draws of this mechanism only"):
        ps.GaussianSum(bounds=(0, 1), noise_std=21).release(read, rng=rng)
