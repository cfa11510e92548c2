"""The lanes of the tests: `make check`, `make test` and `make test-long`, and which lane each test belongs to.

`check` holds what matters most, `test` what each change must pass, `long` what takes long and is run each night and
before a release. `make test` runs `check` and `test`. `make test-long` runs `long`, and once more, with fresh seeds,
the tests that draw at random: statistical tests and property tests.
"""

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test

CHECK, TEST, LONG = "check", "test", "long"
# The lane of the tests below each folder, relative to the root of the repository. The longest matching folder counts.
FOLDERS = {
    "privsample": TEST,  # the examples of docstrings
    "reproduction": TEST,
    "tests": TEST,
}
# Whole files of the lane `check`, by the ends of their paths; a single test joins it by the marker `check`.
CHECK_FILES = (
    "tests/accounting/golden/*",
    "test_brute_force.py",
    "test_requirements.py",
    "test_parametric.py",
    "test_totality.py",
    "ledger/test_spending.py",
    "tests/mechanisms/test_files.py",
    "tests/mechanisms/test_release.py",
    "tests/test_imports.py",
)
# Which lanes a value of the option --lane runs.
RUN = {CHECK: (CHECK,), TEST: (CHECK, TEST), LONG: (LONG,), "all": (CHECK, TEST, LONG)}


def lane(item: pytest.Item) -> str:
    """Return the lane of a test.

    Raises
    ------
    pytest.UsageError
        If the folder of the test has no lane, or if the test is marked for two lanes.
    """
    return _lane(item, {mark.name for mark in item.iter_markers()})


def runs(item: pytest.Item, chosen: str) -> bool:
    """Return True if the value `chosen` of the option --lane runs this test."""
    marks = {mark.name for mark in item.iter_markers()}
    if _lane(item, marks) in RUN[chosen]:
        return True
    return chosen == LONG and ("statistical" in marks or is_hypothesis_test(getattr(item, "obj", None)))


def may_hold_checks(path: Path) -> bool:
    """Return False if the name and the text of a file show that it has no tests of the lane `check`."""
    return _is_check_file(path.as_posix()) or f"mark.{CHECK}" in path.read_text(encoding="utf-8")


def _lane(item: pytest.Item, marks: set[str]) -> str:
    of_file = _lane_of_file(item.nodeid.partition("::")[0])
    if {CHECK, LONG} <= marks:
        raise pytest.UsageError(f"{item.nodeid} is marked for two lanes, check and long: keep one of the markers")
    return CHECK if CHECK in marks else LONG if LONG in marks else of_file


@cache
def _lane_of_file(place: str) -> str:
    folders = [folder for folder in FOLDERS if place.startswith(f"{folder}/")]
    if not folders:
        raise pytest.UsageError(f"{place} is in no lane: add its folder to FOLDERS in tests/lanes.py")
    return CHECK if _is_check_file(place) else FOLDERS[max(folders, key=len)]


def _is_check_file(place: str) -> bool:
    return any(fnmatchcase(f"/{place}", f"*/{pattern}") for pattern in CHECK_FILES)
