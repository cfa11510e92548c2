"""`privsample audit`: mechanisms by name, and their mutants."""

import csv
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from privsample.simulations.audit import batch
from privsample.simulations.audit import catalogue as home
from privsample.simulations.audit import figure as audits

QUICK = ["--samples", "2000", "--seed", "7"]


@pytest.fixture
def two(monkeypatch):
    """Two quick examples in place of all."""
    known = {name: home.catalogue()[name] for name in ("laplace", "gaussian")}
    monkeypatch.setattr("privsample.simulations.audit.catalogue.catalogue", lambda: known)
    monkeypatch.setattr("privsample.simulations.audit.batch.catalogue", lambda: known)


def test_the_list(run):
    ran = run("audit", "--list")
    assert (ran.code, ran.err) == (0, "")
    for name, example in home.catalogue().items():
        assert name in ran.out
        assert type(example.mechanism).__name__ in ran.out


def test_the_list_as_json(run):
    found = run("audit", "--list", "--json").json["examples"]
    assert [one["name"] for one in found] == list(home.catalogue())
    for one, example in zip(found, home.catalogue().values(), strict=True):
        assert (one["mechanism"], one["bug"]) == (type(example.mechanism).__name__, example.bug)


def test_a_mechanism_that_stands(run):
    ran = run("audit", "laplace", "laplace", *QUICK)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("CONSISTENT") == 2  # in the table and in words
    assert "This does not prove the claim." in " ".join(ran.out.split())
    assert not list(Path().iterdir())


def test_the_point_printed_tells_something_and_the_empirical_epsilon_stands_beside_the_claim(run):
    for seed in range(6):  # of these, some look weakest at the pure guarantee, where claim and limit are 0
        ran = run("audit", "laplace", "--samples", "20000", "--seed", seed)
        assert "claimed delta of 0;" not in ran.out
        assert "claimed delta of 0 " not in " ".join(ran.out.split())
        said = " ".join(ran.out.split())
        assert "Empirical epsilon: at delta = 0, epsilon is at least 0." in said
        assert "; 1 is claimed." in said
    names = ["laplace", "gaussian", "randomized-response", "gaussian-sum"]
    lines = run("audit", *names, "--samples", "20000", "--seed", "1").out.splitlines()
    table = lines[next(at for at, line in enumerate(lines) if "Empirical epsilon" in line) :]
    for name in names:
        least, claimed, _ = next(line for line in table if line.split()[:1] == [name]).split()[1:]
        assert 0 < float(least) < float(claimed)
    found = run("audit", "laplace", "--samples", "20000", "--seed", "7", "--json").json["audits"][0]
    assert 0.7 < found["empirical_epsilon"] < found["claimed_epsilon"] == 1.0


def test_a_point_where_both_are_0_is_not_printed(run):
    from privsample.cli.audit import _empirical_epsilon, _tested_point

    verdict = next(iter(batch.run_audits(["laplace"], seed=7, samples=2000)), None).verdict
    nothing = replace(verdict, claim=0.0, lower=0.0, empirical_epsilon=0.0, claimed_epsilon=0.0)
    assert _tested_point(nothing) == _empirical_epsilon(nothing) == ("-", "-", "-")
    claimed = replace(nothing, claim=0.1, claimed_epsilon=1.0)
    assert _tested_point(claimed)[1:] == ("0.1", "0")
    assert _empirical_epsilon(claimed)[:2] == ("0", "1")


def test_a_mutant_that_falls(run):
    ran = run("audit", "laplace", "--mutant", "--samples", "20000", "--seed", "7")
    assert ran.code == 1
    former = run("audit", "laplace", "--twin", "--samples", "20000", "--seed", "7")
    assert (former.code, former.err) == (1, ran.err)
    assert "VIOLATED: 1 of 1 claims were refuted: laplace" in ran.err
    assert "show a delta of at least" in ran.out


def test_all_of_them_with_a_table_and_a_picture(run, two):
    ran = run("audit", "--all", "--out", "new/folder", *QUICK)
    assert ran.code == 0
    # Without a terminal each audit is named when it is completed; with --json nothing is.
    notes = ran.err.splitlines()
    assert [note.split(" (")[0] for note in notes] == [f"privsample: {x}: CONSISTENT" for x in ("laplace", "gaussian")]
    assert notes[1].endswith("2 of 2)")
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


def test_zero_is_a_seed(run):
    one, other = (run("audit", "laplace", "--samples", "2000", "--seed", "0", "--json").json for _ in range(2))
    assert one["audits"][0]["p_value"] == other["audits"][0]["p_value"]


def test_names_stand_whole_and_small_numbers_are_not_zero(run, monkeypatch):
    known = {"discrete-gaussian-statistics": home.catalogue()["discrete-gaussian-statistics"]}
    real = batch.run_audits

    def many(names, **options):
        for one in real(names, **options):
            yield replace(one, verdict=replace(one.verdict, samples=135_000), seconds=123.4)

    monkeypatch.setattr(batch, "run_audits", many)
    monkeypatch.setattr("privsample.simulations.audit.batch.catalogue", lambda: known)
    monkeypatch.setattr("privsample.simulations.audit.catalogue.catalogue", lambda: known)
    row = next(line for line in run("audit", "--all", *QUICK).out.splitlines() if "CONSISTENT" in line).split()
    claim = run("audit", "--all", "--json", *QUICK).json["audits"][0]["claim"]
    assert row[0] == "discrete-gaussian-statistics"
    assert row[4] == f"{claim:.3g}"


def test_too_few_draws_are_told_of_however_many_audits_there_are(run):
    ran = run("audit", "laplace", "gaussian", "one-bit", "laplace-sum", "--samples", "10", "--seed", "7")
    assert " ".join(ran.out.split()).count("too few draws to reject any claim") == 4
    assert "CONSISTENT does not prove the claim." in " ".join(ran.out.split())


def test_what_was_done_before_a_stop_is_kept_and_told(run, two, monkeypatch):
    real = batch.run_audits

    def stopped(names, **options):
        yield next(real(names, **options))
        raise KeyboardInterrupt

    monkeypatch.setattr(batch, "run_audits", stopped)
    ran = run("audit", "--all", "--out", "out", *QUICK)
    assert ran.code == 130
    assert "laplace" in ran.out
    rows = csv.DictReader(Path("out/audits.csv").read_text().splitlines())
    assert {row["name"] for row in rows} == {"laplace"}


@pytest.mark.parametrize("form", [[], pytest.param(["--json"], marks=pytest.mark.long)])
def test_a_reader_that_leaves_changes_neither_files_nor_exit_code(form):
    words = ["audit", "laplace", "--mutant", "--samples", "20000", "--seed", "7", "--out", "out", *form]
    with subprocess.Popen(
        [sys.executable, "-m", "privsample", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        started.stdout.close()
        err = started.stderr.read()
    assert started.returncode == 1
    assert err.splitlines() == ["privsample: error: VIOLATED: 1 of 1 claims were refuted: laplace"]
    assert sorted(path.name for path in Path("out").iterdir()) == ["audits.csv", "audits.png"]


def test_panels_form_a_grid_near_a_square():
    grids = {panels: audits._panel_grid(panels) for panels in (1, 2, 3, 5, 9, 41)}
    assert grids == {1: (1, 1), 2: (1, 2), 3: (2, 2), 5: (2, 3), 9: (3, 3), 41: (7, 6)}


def test_progress_on_a_terminal(run, two, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ran = run("audit", "--all", *QUICK)
    assert ran.code == 0
    assert "laplace (audit 1 of 2)" in ran.err
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
        ([], "give names of examples, or --mechanism, or --all, or --list"),
        (["laplace", "--all"], "give names of examples"),
        (["nothing"], "there is no example nothing; `privsample audit --list` prints all names"),
        (["laplce", "gaussian"], "there is no example laplce; did you mean laplace? "),
        (["beta"], "did you mean beta-query or beta-posterior? "),
        (["laplace", "--level", "2"], "level must lie in "),
        (["laplace", "--samples", "0"], "expected a whole number of at least 1"),
    ],
)
def test_errors(run, words, message):
    ran = run("audit", *words)
    assert ran.code == 2
    assert message in ran.err


def test_a_mechanism_that_misbehaves(run, monkeypatch):
    monkeypatch.setattr(
        "privsample.mechanisms.noise.additive.GaussianMechanism._draw",
        lambda self, statistic, rng: {"statistic": np.full((self.draws, *self.shape), np.nan)},
    )
    ran = run("audit", "gaussian", *QUICK)
    assert ran.code == 2
    assert "outputs must be finite numbers" in ran.err


def test_the_bits_of_exact_and_of_textbook_noise(run):
    words = ["audit", "--mechanism", "laplace-sum", "--bounds", "0,1", "--n", "20", "--scale", "1", "--view", "bits"]
    exact = run(*words, "--samples", "4000", "--seed", "7")
    assert exact.code == 0, exact.err
    assert "The event was chosen by looking at" in " ".join(exact.out.split())
    floats = run(*words, "--samples", "4000", "--seed", "7", "--json", "--no-exact")
    assert floats.code == 1
    assert floats.json["audits"][0]["outcome"] == "VIOLATED"
    assert floats.json["audits"][0]["event"].startswith("The event was chosen by looking at")


def test_an_unknown_view_is_named(run):
    ran = run("audit", "laplace", "--view", "bit", *QUICK)
    assert ran.code == 2
    assert "--view" in ran.err
    assert "bits" in ran.err.split("--view")[1]


def test_a_sequential_audit_stops_and_continues(run, tmp_path):
    file = ["--state", str(tmp_path / "laplace.audit")]
    ran = run("audit", "laplace", "--sequential", *QUICK, *file)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("CONSISTENT") == 2
    assert "2,000" in ran.out
    more = run("audit", "laplace", "--sequential", "--samples", "2100", "--json", *file).json["audits"][0]
    assert (more["samples"], more["maximum"], more["outcome"]) == (2100, 2100, "CONSISTENT")
    mutant = run("audit", "laplace", "--sequential", "--mutant", "--seed", "7", "--samples", "9000")
    assert mutant.code == 1
    assert "VIOLATED" in mutant.out
    wrong = run("audit", "laplace", "--sequential", "--mutant", *file)
    assert wrong.code == 2
    assert "belongs to an audit with another mechanism" in wrong.err
    own = ["--mechanism", "laplace", "--sensitivity", "1", "--scale", "1", "--sequential", "--samples", "100"]
    assert run("audit", *own, "--seed", "1").code == 0


def test_several_sequential_audits_have_a_table(run):
    names = ["laplace", "gaussian", "randomized-response", "one-bit"]
    ran = run("audit", *names, "--sequential", "--samples", "40", "--seed", "1")
    assert ran.code == 0
    assert ran.out.count("CONSISTENT") == 1 + len(names)  # in the explanation, too
    assert "scale above: the claimed epsilons" in ran.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["laplace", "--state", "x"], "--state needs --sequential"),
        (["laplace", "gaussian", "--sequential", "--state", "x"], "--state holds one audit"),
        (["laplace", "--sequential", "--out", "x"], "leave out --out or --sequential"),
        (["laplace", "--sequential", "--view", "time"], "--view time has no sequential audit"),
        (["laplace", "--sequential", "--state", "no/x"], "create it first"),
    ],
)
def test_options_of_sequential_audits(run, options, message):
    ran = run("audit", *options)
    assert ran.code == 2
    assert message in ran.err
    assert not list(Path().iterdir())
