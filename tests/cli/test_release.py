"""`privsample release`: what is written, what it costs, and that nothing is drawn on a mistake."""

import itertools
import json
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from privsample import DP, RDP, ZCDP, AddRemove, BetaBernoulli, Release
from privsample.mechanisms.posterior.conjugate import PosteriorMechanism

MODEL = ["--model", "beta-bernoulli", "--prior", "6,12"]
LIMIT = ["--epsilon", "1", "--delta", "1e-6"]
COLUMN = ["--column", "x", "--n", "500"]
DIFFUSED = [*COLUMN, *MODEL, "--mechanism", "diffused", *LIMIT]


@pytest.fixture
def never_draws(monkeypatch):
    monkeypatch.setattr(PosteriorMechanism, "release", lambda *a, **k: pytest.fail("drawn"))


@pytest.mark.parametrize("out", ["r.json", "r.nc"])
def test_the_saved_release_loads_back_equal_and_meets_the_target(run, clean, out):
    ran = run("release", clean, *DIFFUSED, "--draws", 4, "--unit", "patient", "--out", out)
    assert (ran.code, ran.err) == (0, "")
    release = Release.load(out)
    assert release["theta"].shape == (4,)
    assert DP(epsilon=1, delta=1e-6).met_by(release.account)
    assert not DP(epsilon=0.999, delta=1e-6).met_by(release.account)
    assert release.account == release.mechanism.accountant  # no caller's generator
    assert release.account.relation.unit == "patient"
    assert Release.from_json(release.to_json()) == release
    assert out in ran.out
    assert f"{release['theta'][0]:.6g}" in ran.out
    assert " ".join(release.statement(1e-6).split()) in " ".join(ran.out.split())


CASES = {
    "direct": ([0, 1], [*MODEL, "--mechanism", "direct", "--order", 2, "--rdp-epsilon", 3], RDP(order=2, epsilon=3)),
    "concentrated": ([0, 1], [*MODEL, "--mechanism", "concentrated", *LIMIT], DP(epsilon=1, delta=1e-6)),
    "noisy": (
        [0, 1],
        [*MODEL, "--mechanism", "noisy", "--noise", "discrete-gaussian", *LIMIT],
        DP(epsilon=1, delta=1e-6),
    ),
    "tempered": ([0, 1], [*MODEL, "--mechanism", "tempered", "--truncation", "0.1", *LIMIT], DP(epsilon=1, delta=1e-6)),
    "fractional": ([0.25, 0.5], [*MODEL, "--fractional", "--mechanism", "diffused", *LIMIT], DP(epsilon=1, delta=1e-6)),
    "query": (
        [-3.0, 17.5],
        ["--prior", "3,3", "--bounds", "-5,20", "--mechanism", "beta-query", *LIMIT],
        DP(epsilon=1, delta=1e-6),
    ),
    "names": (
        ["red", "green"],
        [
            "--mechanism",
            "diffused",
            "--order",
            "2",
            "--rdp-epsilon",
            "0.1",
            "--model",
            "dirichlet-categorical",
            "--prior",
            "3,3,4",
            "--categories",
            "red,green,blue",
        ],
        RDP(order=2, epsilon=0.1),
    ),
    "poisson": (
        [0, 7],
        ["--model", "gamma-poisson", "--prior", "20,4", "--upper", 9, "--mechanism", "diffused", *LIMIT],
        DP(epsilon=1, delta=1e-6),
    ),
    "exponential": (
        [0.5, 2.5],
        ["--model", "gamma-exponential", "--prior", "3,3", "--upper", 2.5, "--mechanism", "diffused", *LIMIT],
        DP(epsilon=1, delta=1e-6),
    ),
    "normal": (
        [-1.5, 2.0],
        [
            "--mechanism",
            "concentrated",
            "--rho",
            "0.1",
            "--model",
            "normal-known-variance",
            "--prior",
            "-1,4",
            "--noise-variance",
            "1",
            "--bounds",
            "-5,5",
        ],
        ZCDP(rho=0.1),
    ),
}


COLUMNS = ("direct", "fractional", "names")  # of integers, floats and strings: models see columns, not formats


@pytest.mark.parametrize(
    ("case", "ending"),
    [*((case, ".csv") for case in CASES), *itertools.product(COLUMNS, [".parquet", ".feather"])],
)
def test_every_model_and_every_format(run, write, case, ending):
    values, words, target = CASES[case]
    ran = run("release", write("d" + ending, values * 250), *COLUMN, *words, "--out", "r.json", "--json")
    assert ran.code == 0, ran.err
    release = Release.load("r.json")
    assert target.met_by(release.account)
    assert ran.json["target"] == target.description
    assert ran.json["files"] == {"release": "r.json"}
    (name,) = release.draws
    assert np.allclose(ran.json["draws"][name]["mean"], release[name].mean(0))


def test_a_parameter_in_place_of_a_limit(run, clean):
    words = [*COLUMN, *MODEL, "--mechanism", "diffused", "--data-weight", "0.25", "--out", "r.json"]
    assert run("release", clean, *words).code == 0
    assert Release.load("r.json").mechanism.data_weight == 0.25


@pytest.mark.parametrize("words", [["--draws", 30], ["--draws", 3]])
@pytest.mark.parametrize("width", [80, 100])
def test_tables_fit_the_terminal(run, write, monkeypatch, words, width):
    monkeypatch.setenv("COLUMNS", str(width))
    prior = ",".join(["3"] * 25)
    file = write("d.csv", list(range(25)) * 20)
    ran = run(
        "release", file, *COLUMN, "--model", "dirichlet-categorical", "--prior", prior, "--mechanism", "diffused",
        *LIMIT, *words, "--out", "r.json",
    )  # fmt: skip
    assert ran.code == 0
    assert max(map(len, ran.out.splitlines())) <= width
    assert "theta[19]" in ran.out
    assert "and 5 more" in ran.out


def test_problems_stop_before_anything_is_drawn(run, dirty, never_draws):
    ran = run("release", dirty, *DIFFUSED, "--out", "r.json")
    assert (ran.code, ran.out) == (1, "")
    assert "1 missing, 1 outside, 1 fractional (expected 0 or 1)" in ran.err
    assert "--clip" in ran.err
    assert not Path("r.json").exists()


def test_clip_goes_on_and_only_the_curator_hears_of_it(run, dirty, clean):
    ran = run("release", dirty, *DIFFUSED, "--out", "r.json", "--json", "--clip")
    assert ran.code == 0
    assert "1 missing, 1 outside, 1 fractional" in ran.err
    clipped = run("release", clean, *DIFFUSED, "--out", "r.json", "--json", "--clip", "--force")
    assert clipped.err == ""
    assert {**ran.json, "draws": 0} == {**clipped.json, "draws": 0}  # nothing published depends on the problems


def test_an_output_that_exists_is_kept_unless_forced(run, clean, never_draws):
    Path("r.json").write_text("precious")
    ran = run("release", clean, *DIFFUSED, "--out", "r.json")
    assert ran.code == 2
    assert "r.json exists" in ran.err
    assert Path("r.json").read_text() == "precious"


def test_force_replaces_it(run, clean):
    Path("r.json").write_text("worthless")
    assert run("release", clean, *DIFFUSED, "--out", "r.json", "--force").code == 0
    Release.load("r.json")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "r.txt"], "must end in .json or .nc"),
        (["--out", "missing/r.nc"], "the folder missing does not exist"),
        (["--out", "folder.nc", "--force"], "cannot be written"),
        (["--out", "r.nc", "--report", "r.pdf"], "must end in .html"),
        (["--out", "r.nc", "--report", "nowhere/r.html"], "the folder nowhere does not exist"),
    ],
)
def test_outputs_are_checked_before_the_file_is_read(run, words, said, never_draws):
    Path("folder.nc").mkdir()
    ran = run("release", "no-such-file.csv", *DIFFUSED, *words)
    assert ran.code == 2
    assert said in ran.err


def test_a_report_of_the_release(run, clean, monkeypatch):
    stub = types.ModuleType("privsample.simulations.report.page")
    stub.render = lambda releases, *, delta, data, column, day: f"<p>{len(releases)} {delta} {data} {column} {day}</p>"
    monkeypatch.setitem(sys.modules, "privsample.simulations.report.page", stub)
    ran = run("release", clean, *DIFFUSED, "--out", "r.json", "--report", "r.html", "--json")
    assert ran.code == 0, ran.err
    assert re.fullmatch(r"<p>1 1e-06 clean.csv x \d{4}-\d\d-\d\d</p>", Path("r.html").read_text())
    assert ran.json["files"] == {"release": "r.json", "report": "r.html"}


def test_the_report_of_the_library(run, clean):
    ran = run("release", clean, *DIFFUSED, "--unit", "patient", "--out", "r.json", "--report", "r.html")
    assert (ran.code, ran.err) == (0, "")
    page = Path("r.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "patient" in page


def test_a_report_that_fails_leaves_the_release(run, clean, monkeypatch):
    stub = types.ModuleType("privsample.simulations.report.page")
    stub.render = lambda releases, **about: 1 / 0
    monkeypatch.setitem(sys.modules, "privsample.simulations.report.page", stub)
    ran = run("release", clean, *DIFFUSED, "--out", "r.json", "--report", "r.html")
    assert ran.code == 2
    assert "the release is in r.json" in ran.err
    Release.load("r.json")
    assert not Path("r.html").exists()


@pytest.mark.parametrize(
    ("missing", "words", "said"),
    [
        ("jinja2", ["--out", "r.json", "--report", "r.html"], "privsample[report]"),
        ("h5netcdf", ["--out", "r.nc"], "privsample[bayes]"),
        ("pyarrow", ["--out", "r.json"], "privsample[cli]"),
        ("rich", ["--out", "r.json"], "privsample[cli]"),
    ],
)
def test_a_missing_package_is_named_before_anything_is_drawn(
    run, clean, missing, words, said, monkeypatch, never_draws
):
    for package in (missing, "netCDF4"):
        monkeypatch.setitem(sys.modules, package, None)
    ran = run("release", clean, *DIFFUSED, *words)
    assert ran.code == 2
    assert f"pip install '{said}'" in ran.err
    assert not list(Path().glob("r.*"))


def test_an_interrupt_leaves_nothing(run, clean, monkeypatch):
    def interrupted(*args, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("privsample.mechanisms.release.os.fsync", interrupted)
    ran = run("release", clean, *DIFFUSED, "--out", "r.json")
    assert ran.code == 130
    assert not Path("r.json").exists()


def test_an_interrupt_inside_the_stream(run, clean, monkeypatch):
    def interrupted(array, words):
        raise KeyboardInterrupt

    monkeypatch.setattr("privsample.cli.files.parse_numbers", interrupted)
    assert run("release", clean, *DIFFUSED, "--out", "r.json").code == 130


def test_a_full_disk_is_told(run, clean, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("privsample.mechanisms.release.os.fsync", full)
    ran = run("release", clean, *DIFFUSED, "--out", "r.json")
    assert ran.code == 2
    assert "No space left on device" in ran.err


def test_public_data_go_into_the_prior(run, clean, write):
    public = write("public.parquet", [1, 1, 0] * 10)
    ran = run("release", clean, *DIFFUSED, "--public-data", public, "--out", "r.json", "--json")
    assert ran.code == 0, ran.err
    assert Release.load("r.json").mechanism.model == BetaBernoulli(alpha=26, beta=22)


def test_public_data_of_a_query(run, write):
    public = write("public.csv", [-5.0, 20.0, 7.5, 7.5])
    words = ["--prior", "3,3", "--bounds", "-5,20", "--mechanism", "beta-query", *LIMIT]
    file = write("d.csv", [0.5, 1.5] * 250)
    assert run("release", file, *COLUMN, *words, "--public-data", public, "--out", "r.json").code == 0
    made = Release.load("r.json").mechanism
    assert (made.alpha, made.beta, made.bounds) == (5.0, 5.0, (-5.0, 20.0))


def test_private_data_are_no_public_data(run, clean, dirty, never_draws):
    ran = run("release", clean, *DIFFUSED, "--public-data", clean, "--out", "r.json")
    assert ran.code == 2
    assert "private file itself" in ran.err
    ran = run("release", clean, *DIFFUSED, "--public-data", dirty, "--out", "r.json")
    assert ran.code == 1
    assert "of the public dirty.csv: 1 missing" in ran.err


def test_the_wrong_n(run, clean, never_draws):
    words = ["--column", "x", "--n", 499, *MODEL, "--mechanism", "diffused", *LIMIT]
    ran = run("release", clean, *words, "--out", "r.json")
    assert ran.code == 1
    assert "n = 499 records were declared, the data hold 500" in ran.err


def test_progress_on_request(run, clean):
    assert "checking the file" in run("release", clean, *DIFFUSED, "--out", "a.json", "--progress").err
    assert run("release", clean, *DIFFUSED, "--out", "b.json", "--no-progress").err == ""


def test_releases_take_no_seed(run, clean):
    assert run("release", clean, *DIFFUSED, "--out", "r.json", "--seed", 1).code == 2


def test_json_has_no_infinity(run, clean):
    ran = run("release", clean, *DIFFUSED, "--out", "r.json", "--json")
    assert json.dumps(ran.json, allow_nan=False)
    assert ran.json["rdp"][-1]["epsilon"] == "inf"


def test_noisy_statistics_without_n_hide_the_number_of_records(run, write):
    words = ["--column", "x", "--model", "beta-bernoulli", "--prior", "1,1", "--mechanism", "noisy", "--epsilon", "1"]
    ran = run("release", write("d.csv", [0, 1, 1]), *words, "--delta", "0", "--unit", "patient", "--out", "r.json")
    assert ran.code == 0
    assert Release.load("r.json").account.relation == AddRemove(unit="patient")
    assert Release.load("r.json")["statistic"].shape == (1, 2)
