"""One false-alarm rate for the whole suite, reproducible randomness, and deterministic property tests."""

import os
import secrets
import zlib
from collections.abc import Generator, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings

SUITE_FALSE_ALARM_RATE = 1e-6
# The tests that must cover privsample/accounting in full; of tests/mechanisms those that are named after a file there.
MEASURED = (
    "tests/accounting/",
    "tests/interop/test_pld.py",
    "tests/mechanisms/test_calibrate.py",
    "tests/mechanisms/test_large_delta.py",
    "tests/mechanisms/test_own_model.py",
    *(
        f"tests/mechanisms/test_{file.stem}.py"
        for file in (Path(__file__).parents[1] / "privsample" / "accounting").rglob("*.py")
    ),
)
# What `make check` runs, by what kind of test it is; a single test joins by the marker `essential`.
ESSENTIAL = (
    "accounting/golden/*",
    "*/test_brute_force.py",
    "*/test_requirements.py",
    "*/test_parametric.py",
    "*/test_contract.py",
    "*/test_totality.py",
    "*/ledger/test_spending.py",
    "mechanisms/test_files.py",
    "mechanisms/test_release.py",
    "test_imports.py",
)
_COUNT = pytest.StashKey[int]()

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=8,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.register_profile("thorough", parent=settings.get_profile("ci"), max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fresh-seeds", action="store_true", help="seed the statistical tests from the system, and print the seeds"
    )
    parser.addoption("--without-simulations", action="store_true", help="leave out what `is_simulation` names")
    parser.addoption("--measure-all", action="store_true", help="with --cov: measure coverage in all tests, slowly")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure coverage in the tests of `MEASURED` only, because measuring adds a third to the time of a test."""
    coverage = getattr(item.config.pluginmanager.getplugin("_cov"), "cov_controller", None)
    if coverage is None or item.nodeid.startswith(MEASURED) or item.config.getoption("--measure-all"):
        return (yield)
    coverage.pause()
    try:
        return (yield)
    finally:
        coverage.resume()


@pytest.hookimpl(tryfirst=True)  # before tests are deselected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the essential tests, and count what shares the false-alarm rate; each worker collects the whole suite."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            place = item.path.relative_to(here).as_posix()
            if any(fnmatchcase(place, pattern) for pattern in ESSENTIAL):
                item.add_marker("essential")
    config.stash[_COUNT] = sum(item.get_closest_marker("statistical") is not None for item in items)
    if config.getoption("--without-simulations"):
        left = [item for item in items if is_simulation(item)]
        items[:] = [item for item in items if not is_simulation(item)]
        config.hook.pytest_deselected(items=left)


def is_simulation(item: pytest.Item) -> bool:
    """True for a statistical test that is neither essential nor a test of an account or a mechanism."""
    kept = item.nodeid.startswith(("tests/accounting/", "tests/mechanisms/"))
    return item.get_closest_marker("statistical") is not None and not item.get_closest_marker("essential") and not kept


@pytest.fixture
def alpha(request: pytest.FixtureRequest) -> float:
    """The false-alarm rate of one statistical test: the suite's, divided by their number."""
    return SUITE_FALSE_ALARM_RATE / max(request.config.stash[_COUNT], 1)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> Iterator[np.random.Generator]:
    """A generator seeded by the test's name; with --fresh-seeds by the system, and printed where the test fails."""
    fresh = request.config.getoption("--fresh-seeds")
    seed = secrets.randbits(64) if fresh else zlib.crc32(request.node.nodeid.encode())
    if fresh:
        print(f"seed of {request.node.nodeid}: {seed}")
    return np.random.default_rng(seed)
