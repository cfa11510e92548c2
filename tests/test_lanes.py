"""Every test is in one lane; each lane runs what it says; a failure that was drawn at random can be repeated."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lanes import CHECK_FILES, FOLDERS, RUN, lane, runs

ROOT = Path(__file__).parents[1]
TESTS = '''"""Tests of every lane."""

import pytest
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.check
def test_essential():
    pass


def test_plain():
    pass


@pytest.mark.parametrize("size", [1, pytest.param(2, marks=pytest.mark.long)])
def test_sizes(size):
    pass


@pytest.mark.statistical
def test_statistical(rng, alpha):
    assert rng.normal() > 9


@given(x=st.integers(0, 10**6))
def test_property(x):
    assert x < 1000
'''
TWO_LANES = '''"""A test that asks for two lanes."""

import pytest


@pytest.mark.check
@pytest.mark.long
def test_undecided():
    pass
'''
INI = """[pytest]
addopts = --import-mode=importlib
pythonpath = .
markers =
  check
  long
  statistical
"""
# Each run of pytest, one after the other in one process: its arguments, and its output below a line with its number.
PROGRAM = """
import sys, pytest
for number, run in enumerate(sys.argv[1:]):
    print(f"run {number}", flush=True)
    status = int(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:cov", *run.split()]))
    print("exit", status, flush=True)
"""
SUITE = "tests/test_kinds.py"
RUNS = {
    "failures": f"--lane long {SUITE}",  # first: a property test keeps the settings with which it was imported
    "check": f"--collect-only --lane check {SUITE} tests/plain",
    "test": f"--collect-only --lane test {SUITE}",
    "long": f"--collect-only --lane long {SUITE}",
    "all": f"--collect-only --lane all {SUITE}",
    "default": f"--collect-only {SUITE}",
    "unknown folder": "--collect-only -qq elsewhere",
    "two lanes": "--collect-only -qq tests/test_two_lanes.py",
}


def item(nodeid, *markers):
    """What `lane` and `runs` read of a test."""
    return SimpleNamespace(nodeid=nodeid, iter_markers=lambda: [SimpleNamespace(name=name) for name in markers])


@given(x=st.none())
def property_test(x):
    """A property test, which no lane runs: it has not the name of a test."""


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (item("privsample/errors.py::privsample.errors"), "test"),
        (item("tests/test_value.py::test_it[a::b]"), "test"),
        (item("tests/test_value.py::test_it", "check"), "check"),
        (item("tests/test_value.py::test_it", "statistical", "long"), "long"),
        (item("tests/accounting/golden/test_curves.py::test_it"), "check"),
        (item("tests/accounting/golden/test_curves.py::test_it", "long"), "long"),
        (item("tests/mechanisms/test_totality.py::test_it"), "check"),
    ],
)
def test_a_test_is_in_the_lane_of_its_marker_else_its_file_else_its_folder(found, expected):
    assert lane(found) == expected
    for chosen, lanes in RUN.items():
        again = chosen == "long" and "statistical" in [mark.name for mark in found.iter_markers()]
        assert runs(found, chosen) == (expected in lanes or again)


def test_every_lane_is_run_by_a_command_and_every_file_that_is_named_is_there():
    assert {name for lanes in RUN.values() for name in lanes} == {"check", "test", "long"}
    assert set(RUN["check"]) < set(RUN["test"])
    assert "long" not in RUN["test"]
    for folder in FOLDERS:
        assert (ROOT / folder).is_dir()
    for pattern in CHECK_FILES:
        assert list(ROOT.glob(f"tests/**/{pattern.removeprefix('tests/')}")), pattern


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """What pytest prints in a small repository with the project's conftest.py, by the names of `RUNS`."""
    folder = tmp_path_factory.mktemp("repository")
    files = ("conftest.py", "tests/lanes.py", "tests/properties.py")
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in files}
    texts |= {SUITE: TESTS, "tests/test_two_lanes.py": TWO_LANES, "elsewhere/test_lost.py": TESTS}
    texts["tests/plain/test_not_imported.py"] = "raise RuntimeError('a file without tests of the lane')"
    texts["pytest.ini"] = (
        "[pytest]\naddopts = --import-mode=importlib\npythonpath = .\nmarkers = check\n long\n statistical\n"
    )
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "privsample" / "accounting").mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *RUNS.values()],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=folder,
        env=environment | {"PYTHONPATH": str(folder)},
    )
    parts = re.split(r"^run \d+\n", done.stdout, flags=re.MULTILINE)[1:]
    assert len(parts) == len(RUNS), done.stdout
    return dict(zip(RUNS, parts, strict=True))


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("check", ["essential"]),
        ("test", ["essential", "plain", "sizes[1]", "statistical", "property"]),
        ("default", ["essential", "plain", "sizes[1]", "statistical", "property"]),
        ("long", ["sizes[2]", "statistical", "property"]),
        ("all", ["essential", "plain", "sizes[1]", "sizes[2]", "statistical", "property"]),
    ],
)
def test_a_lane_runs_its_tests(output, run, expected):
    assert re.findall(r"::test_(\S+)", output[run]) == expected


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("unknown folder", "elsewhere/test_lost.py is in no lane: add its folder to FOLDERS in tests/lanes.py"),
        (
            "two lanes",
            "tests/test_two_lanes.py::test_undecided is marked for two lanes, check and long: keep one of the markers",
        ),
    ],
)
def test_a_test_in_no_lane_or_in_two_ends_the_run_with_one_line(output, run, message):
    assert re.findall(r"^.*(?:ERROR|Error|Traceback).*$", output[run], re.MULTILINE) == [f"ERROR: {message}"]
    assert "exit 4" in output[run]


def test_a_failing_property_test_prints_the_line_that_repeats_it(output):
    assert re.search(r"@reproduce_failure\('[\d.]+', b'[^']+'\)", output["failures"])


def test_a_failing_statistical_test_prints_the_command_that_repeats_it(output):
    command = f".venv/bin/python -m pytest --lane all --seed [0-9]+ '{re.escape(SUITE)}::test_statistical'"
    assert re.search(f"^to repeat it: {command}$", output["failures"], re.MULTILINE)
