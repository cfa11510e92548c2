"""Releases of many Parquet files, of groups and of tallies from the command line: equal to those of Python."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privsample as ps

SUM = ["--mechanism", "gaussian-sum", "--bounds", "0,9", "--noise-std", "40", "--relation", "add-remove"]
BY = ["--by", "ward", "--keys", "north,south,west"]


@pytest.fixture
def visits(tmp_path):
    """Two files of visits, in which each patient has three."""
    rng = np.random.default_rng(5)
    patients = np.repeat(np.arange(40), 3)
    rows = pa.table(
        {
            "patient": patients,
            "ward": rng.choice(["north", "south"], 120),
            "cost": rng.uniform(0, 9, 120),
        }
    )
    (tmp_path / "visits").mkdir()
    for place, part in enumerate((rows[:60], rows[60:])):
        pq.write_table(part, tmp_path / "visits" / f"{place}.parquet")
    return rows


def mechanism(contribution=None):
    base = ps.GaussianSum(bounds=(0, 9), noise_std=40)
    return ps.by("ward", base, keys=["north", "south", "west"], contribution=contribution)


@pytest.mark.parametrize("engine", ["arrow", "duckdb", "polars", "dask"])
def test_the_tally_of_a_folder_is_that_of_python(engine, visits, run):
    pytest.importorskip(engine if engine != "arrow" else "pyarrow")
    assert (
        run("release", "--data", "visits", "--engine", engine, "--column", "cost", *SUM, *BY, "--tally-out", "t.arrow")[
            0
        ]
        == 0
    )
    assert ps.Tally.load("t.arrow") == mechanism().tally((visits["ward"], visits["cost"]))
    assert run("release", "--tally", "t.arrow", "--column", "cost", *SUM, *BY, "--out", "r.json")[0] == 0
    release = ps.Release.load("r.json")
    assert release["sum"].shape == (1, 3)
    assert release.coords["ward"] == ("north", "south", "west")
    assert release.account == mechanism().accountant


def test_units_are_bounded(visits, run):
    words = ["--unit", "patient", "--groups-per-unit", "2", "--records-per-unit", "1"]
    assert run("release", "--data", "visits", "--column", "cost", *SUM, *BY, *words, "--tally-out", "t.arrow")[0] == 0
    bounds = ps.Contribution(groups=2, records=1, unit="patient")
    tally = ps.Tally.load("t.arrow")
    expected = mechanism(bounds).tally((visits["patient"], visits["ward"], visits["cost"]))
    assert (tally.sums == expected.sums).all()
    assert (tally.counts == expected.counts).all()
    assert tally.counts.sum() < 120


def test_a_claim_for_units_in_a_column_needs_bounds(visits, run, tmp_path):
    del visits
    code, _, error = run(
        "release", "--data", "visits", "--column", "cost", *SUM, *BY, "--unit", "patient", "--out", "r.json"
    )
    assert code != 0
    assert "give --records-per-unit 1" in error
    assert not (tmp_path / "r.json").exists()
    for other in ([], ["--unit", "visit"]):
        assert (
            run("release", "--data", "visits", "--column", "cost", *SUM, *BY, *other, "--out", "r.json", "--force")[0]
            == 0
        )
    code, _, error = run(
        "release", "--data", "visits", "--column", "cost", *SUM, "--unit", "patient", "--out", "s.json"
    )
    assert code == 0
    assert "does not protect a patient with several rows" in error


def test_a_tally_of_another_mechanism_is_not_charged(visits, run):
    del visits
    assert run("release", "--data", "visits", "--column", "cost", *SUM, "--tally-out", "t.arrow")[0] == 0
    made = ["--dataset", "visits", "--epsilon", "5", "--delta", "1e-6", "--add-remove"]
    assert run("ledger", "init", "l.ledger", *made)[0] == 0
    other = [word if word != "40" else "60" for word in SUM]
    code, _, error = run(
        "release", "--tally", "t.arrow", "--column", "cost", *other, "--ledger", "l.ledger", "--out", "r.json"
    )
    assert code != 0
    assert "tally must be of this mechanism" in error
    assert ps.Ledger("l.ledger").spent() == 0


@pytest.mark.parametrize(
    ("keys", "message"),
    [("north", "a list has a comma"), ("north,", "expects keys"), ("1" * 5000 + ",2", "")],
)
def test_keys_that_are_wrong_are_refused(keys, message, visits, run):
    del visits
    code, _, error = run(
        "release", "--data", "visits", "--column", "cost", *SUM, "--by", "ward", "--keys", keys, "--out", "r.json"
    )
    assert code != 0
    assert message in error
