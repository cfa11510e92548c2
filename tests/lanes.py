"""The lanes of the tests: `make check`, `make test` and `make test-long`, and which lane each test belongs to.

`check` holds what matters most, `test` what each change must pass, `long` what takes long and is run each night and
before a release. `make test` runs `check` and `test`. `make test-long` runs `long`, and once more, with fresh seeds,
the tests that draw at random: statistical tests and property tests.
"""

from fnmatch import fnmatchcase

import pytest

CHECK, TEST, LONG = "check", "test", "long"
# The lane of the tests below each folder, relative to the root of the repository. The longest matching folder counts.
FOLDERS = {
    "privsample": TEST,  # the examples of docstrings
    "reproduction": TEST,
    "tests": TEST,
}
# Whole files of the lane `check`; a single test joins it by the marker `check`.
CHECK_FILES = (
    "tests/accounting/golden/*",
    "*/test_brute_force.py",
    "*/test_requirements.py",
    "*/test_parametric.py",
    "*/test_contract.py",
    "*/test_totality.py",
    "*/ledger/test_spending.py",
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
    marked = [name for name in (CHECK, LONG) if item.get_closest_marker(name)]
    if len(marked) > 1:
        raise pytest.UsageError(f"{item.nodeid} is marked for two lanes, check and long: keep one of the markers")
    place = item.nodeid.partition("::")[0]
    folders = [folder for folder in FOLDERS if place.startswith(f"{folder}/")]
    if not folders:
        raise pytest.UsageError(f"{place} is in no lane: add its folder to FOLDERS in tests/lanes.py")
    if marked:
        return marked[0]
    if any(fnmatchcase(place, pattern) for pattern in CHECK_FILES):
        return CHECK
    return FOLDERS[max(folders, key=len)]


def runs(item: pytest.Item, chosen: str) -> bool:
    """Return True if the value `chosen` of the option --lane runs this test."""
    if lane(item) in RUN[chosen]:
        return True
    draws = item.get_closest_marker("statistical") or item.get_closest_marker("hypothesis")
    return chosen == LONG and draws is not None
