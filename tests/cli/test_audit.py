"""`privsample audit`: mechanisms by name, and their broken twins."""

import csv
from pathlib import Path

import numpy as np
import pytest

from privsample.simulations import catalogue as home

QUICK = ["--samples", "2000", "--seed", "7"]


@pytest.fixture
def two(monkeypatch):
    """Two quick examples in place of all."""
    known = {name: home.catalogue()[name] for name in ("laplace", "gaussian")}
    monkeypatch.setattr("privsample.simulations.catalogue.catalogue", lambda: known)
    monkeypatch.setattr("privsample.simulations.audited.catalogue", lambda: known)


def test_the_list(run):
    ran = run("audit", "--list")
    assert (ran.code, ran.err) == (0, "")
    for name, example in home.catalogue().items():
        assert name in ran.out
        assert type(example.mechanism).__name__ in ran.out


def test_a_mechanism_that_stands(run):
    ran = run("audit", "laplace", "laplace", *QUICK)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("CONSISTENT") == 2  # in the table and in words
    assert "This is no proof." in ran.out
    assert not list(Path().iterdir())


def test_a_twin_that_falls(run):
    ran = run("audit", "laplace", "--twin", "--samples", "20000", "--seed", "7")
    assert ran.code == 1
    assert "VIOLATED: 1 of 1 claims were refuted: laplace" in ran.err
    assert "show a delta of at least" in ran.out


def test_all_of_them_with_a_table_and_a_picture(run, two):
    ran = run("audit", "--all", "--out", "new/folder", *QUICK)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-2:] == [str(Path("new/folder/audits.png")), str(Path("new/folder/audits.csv"))]
    rows = list(csv.DictReader(Path("new/folder/audits.csv").read_text().splitlines()))
    assert {row["name"] for row in rows} == {"laplace", "gaussian"}
    assert all(float(row["delta_at_least"]) <= float(row["claimed_delta"]) for row in rows)


def test_several_workers_change_nothing(run, two):
    one, many = (run("audit", "--all", "--json", *QUICK, *more).json for more in ([], ["--jobs", "2"]))
    for here, there in zip(one["audits"], many["audits"], strict=True):
        assert here | {"seconds": 0} == there | {"seconds": 0}
    assert [found["name"] for found in one["audits"]] == ["laplace", "gaussian"]
    alone = run("audit", "gaussian", "--json", *QUICK).json["audits"][0]
    assert alone["p_value"] == one["audits"][1]["p_value"]


def test_progress_on_a_terminal(run, two, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ran = run("audit", "--all", *QUICK)
    assert ran.code == 0
    assert "2 audits" in ran.err


def test_a_folder_that_holds_files(run):
    Path("out").mkdir()
    Path("out/notes.txt").write_text("mine")
    ran = run("audit", "laplace", "--out", "out")
    assert ran.code == 2
    assert "--out: the folder out holds files" in ran.err
    Path("out/audits.csv").mkdir()
    ran = run("audit", "laplace", "--out", "out", "--force", *QUICK)
    assert ran.code == 2
    assert "--out: out could not be written" in ran.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give names of mechanisms, or --all, or --list"),
        (["laplace", "--all"], "give names of mechanisms"),
        (["nothing"], "there is no example nothing; there are gaussian, laplace"),
        (["laplace", "--level", "2"], r"level must lie in (0, 1)"),
        (["laplace", "--samples", "0"], "expected a whole number of at least 1"),
    ],
)
def test_errors(run, words, message):
    ran = run("audit", *words)
    assert ran.code == 2
    assert message in ran.err


def test_a_mechanism_that_misbehaves(run, monkeypatch):
    broken = staticmethod(lambda _, shape: np.full(shape, np.nan))
    monkeypatch.setattr("privsample.mechanisms.additive.GaussianMechanism._noise", broken)
    ran = run("audit", "gaussian", *QUICK)
    assert ran.code == 2
    assert "outputs must be finite numbers" in ran.err
