"""Tallies on dask: equal for any partitions and any scheduler, with workers that are killed, each part once."""

import os
import signal
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privsample as ps
from privsample.engines import dask_engine
from privsample.engines.parts import parquet_parts
from privsample.engines.protocol import Columns
from privsample.errors import BudgetExceeded, SchemaError

SUM = ps.GaussianSum(bounds=(0, 10), noise_std=4)
KEYS = ("north", "south", "west", "none")
GROUPS = ps.by("hospital", SUM, keys=KEYS)
BOUNDED = ps.by("hospital", SUM, keys=KEYS, contribution=ps.Contribution(groups=2, records=2, unit="patient"))
SIZE = 640


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(22)
    return pd.DataFrame(
        {
            "stay": np.where(rng.random(SIZE) < 0.1, np.nan, rng.normal(5, 5, SIZE)),
            "hospital": rng.choice(KEYS[:3], SIZE),
            "patient": rng.integers(0, 90, SIZE),
        }
    )


def of_all(mechanism, rows):
    names = {SUM: (), GROUPS: ("hospital",), BOUNDED: ("patient", "hospital")}[mechanism]
    return mechanism.tally((*(rows[name] for name in names), rows["stay"]) if names else rows["stay"])


def of_dask(mechanism, source):
    unit = "patient" if mechanism == BOUNDED else None
    return ps.tally_source(source, mechanism, columns="stay", unit=unit, engine="dask")


@pytest.mark.parametrize(
    ("scheduler", "shards"), [("synchronous", 1), ("synchronous", 7), ("synchronous", 64), ("threads", 7)]
)
def test_any_number_of_partitions_gives_the_tally_and_the_release(rows, shards, scheduler):
    with dask.config.set(scheduler=scheduler):
        for mechanism in (SUM, GROUPS, BOUNDED):
            found = of_dask(mechanism, dd.from_pandas(rows, npartitions=shards, sort=False))
            assert found == of_all(mechanism, rows)
            first, second = (
                mechanism.release(tally, rng=np.random.default_rng(5)) for tally in (found, of_all(mechanism, rows))
            )
            assert first == second
        array = da.from_array(rows["stay"].to_numpy(), chunks=-(-SIZE // shards))
        assert of_dask(SUM, array) == of_all(SUM, rows)


@pytest.fixture
def files(rows, tmp_path):
    for place in range(5):
        part = pa.Table.from_pandas(rows.iloc[place * 128 : (place + 1) * 128], preserve_index=False)
        pq.write_table(part, tmp_path / f"{place}.parquet", row_group_size=50)
    return tmp_path


def test_processes_give_the_tally_of_files(rows, files):
    with dask.config.set(scheduler="processes", num_workers=2):
        assert of_dask(BOUNDED, files) == of_all(BOUNDED, rows)  # each tally starts processes of its own


def test_parts_of_files_have_names_and_cover_each_row_group_once(files, monkeypatch):
    monkeypatch.setattr("privsample.engines.parts._ROWS", 100)
    found = parquet_parts(str(files / "*.parquet"), Columns(records="stay"))
    parts = found.parts
    assert found.empty.num_rows == 0
    assert len({part.name for part in parts}) == len(parts) == 10
    assert sum(part.read(["stay"]).num_rows for part in parts) == SIZE
    assert [(part.first, part.last) for part in parts[:2]] == [(0, 2), (2, 3)]


class Killer:
    """Rows of a partition; the first worker that reads one of them dies."""

    def __init__(self, folder, limit):
        self.folder, self.limit = folder, limit

    def __call__(self, frame, place):
        for attempt in range(self.limit if place == 3 else 0):
            try:
                Path(self.folder, f"{attempt}").touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
        return frame

    def __dask_tokenize__(self):
        return self.folder, self.limit


def killing(rows, folder, limit):
    parts = [rows.iloc[first : first + 80] for first in range(0, SIZE, 80)]
    kill = Killer(str(folder), limit)
    delayed = [dask.delayed(kill)(part, place) for place, part in enumerate(parts)]
    return dd.from_delayed(delayed, meta=rows.iloc[:0], verify_meta=False)


def test_killed_workers_change_nothing_and_a_lost_part_fails_the_job(rows, tmp_path):
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    once, always = tmp_path / "once", tmp_path / "always"
    once.mkdir(), always.mkdir()
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(**settings, silence_logs=50) as cluster,
        distributed.Client(cluster),
    ):
        for mechanism in (GROUPS, BOUNDED):
            assert of_dask(mechanism, dd.from_pandas(rows, npartitions=7, sort=False)) == of_all(mechanism, rows)
        assert of_dask(GROUPS, killing(rows, once, limit=1)) == of_all(GROUPS, rows)
        assert len(list(once.iterdir())) == 1  # a worker did die
        with pytest.raises(SchemaError, match=r"could not be read to its end \(KilledWorker\); nothing was tallied"):
            of_dask(GROUPS, killing(rows, always, limit=9))


def test_a_part_that_is_left_out_or_counted_twice_is_refused(rows, monkeypatch):
    source = dd.from_pandas(rows, npartitions=12, sort=False)
    with monkeypatch.context() as patch:
        patch.setattr(dask_engine, "_add", lambda tallies: ps.merge_tallies(tallies[:-1] or tallies))
        with pytest.raises(SchemaError, match="all parts must be counted"):
            of_dask(SUM, source)
    with monkeypatch.context() as patch:
        patch.setattr(dask_engine, "_add", lambda tallies: ps.merge_tallies([*tallies, *tallies]))
        assert of_dask(SUM, source) == of_all(SUM, rows)


def test_each_draw_from_a_tally_is_charged(rows, tmp_path):
    """Tasks draw nothing, however often they run; each draw of the caller is an entry of the ledger."""
    budget = ps.DP(epsilon=1.7, delta=1e-6)
    ledger = ps.Ledger(tmp_path / "stays", budget=budget, relation=ps.AddRemove(), dataset="stays")
    mechanism = ps.by(
        "hospital", ps.GaussianSum.calibrate(bounds=(0, 10), target=ps.DP(epsilon=1, delta=1e-6)), keys=KEYS
    )
    tally = of_dask(mechanism, dd.from_pandas(rows, npartitions=7, sort=False))
    assert not ledger.history()
    first, second = (ledger.release(mechanism, tally) for _ in range(2))
    assert len(ledger.history()) == 2
    assert first != second
    with pytest.raises(BudgetExceeded):
        ledger.release(mechanism, tally)


def broken(rows):
    first = rows.assign(patient="Zaphod")
    return dd.from_delayed([dask.delayed(rows), dask.delayed(first)], meta=rows.iloc[:0], verify_meta=False)


def test_bad_data_give_one_clear_error_without_a_record(rows, files):
    source = dd.from_pandas(rows, npartitions=3, sort=False)
    pq.write_table(pa.table({"stay": ["Zaphod"], "hospital": ["north"], "patient": [1]}), files / "other.parquet")
    object_column = dask.delayed(rows.assign(stay=[object()] * SIZE))
    cases = [
        (SUM, source[["hospital"]], "column 'stay' is not in the dask DataFrame; the columns are 'hospital'"),
        (GROUPS, source.assign(hospital="Zaphod"), "must be among the 4 public keys"),
        (GROUPS, source.assign(hospital=1), "must be text, as the public keys are"),
        (BOUNDED, broken(rows), "column 'patient' has the type int64 in the dask DataFrame, and str in a partition"),
        (SUM, files, "column 'stay' has the type double in file .*; write all files with one type"),
        (SUM, dd.from_delayed([object_column], meta=rows.iloc[:0], verify_meta=False), "a partition could not be read"),
        (SUM, da.zeros((4, 2), chunks=2), r"must be one column, shape \(n,\)"),
        (GROUPS, da.zeros(4, chunks=2), "without groups"),
        (SUM, files / "missing.parquet", "there is no Parquet file"),
    ]
    for mechanism, given, message in cases:
        with pytest.raises(SchemaError, match=message) as caught:
            of_dask(mechanism, given)
        assert "Zaphod" not in str(caught.value)
    with pytest.raises(TypeError, match="has no tallies"):
        of_dask(ps.GaussianMechanism(sensitivity=1, noise_std=1), source)
    with pytest.raises(TypeError):
        of_dask(SUM, 7)


def test_empty_partitions_of_text_without_a_type_count_nothing(rows):
    plain = rows.astype({"hospital": object})
    source = dd.from_delayed([dask.delayed(plain), dask.delayed(plain.iloc[:0])], meta=plain.iloc[:0])
    assert of_dask(GROUPS, source) == of_all(GROUPS, rows)
