"""What holds for every test and executed example: its lane, one false-alarm rate, its seed, and its time."""

import gc
import os
import resource
import secrets
import sys
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from scipy import stats

import tests.properties  # noqa: F401 - registers the profiles
from tests.lanes import CHECK, LONG, RUN, TEST, may_hold_checks, runs

pytest_plugins = ["tests.measured"]
SUITE_FALSE_ALARM_RATE = 1e-6
_COUNT = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lane", choices=RUN, default=TEST, help="the lane to run (tests/lanes.py); default: test")
    parser.addoption("--seed", type=int, help="seed the statistical tests with this number, to repeat a failure")
    parser.addoption("--times", metavar="FILE", help="append the processor seconds of each test to FILE.PROCESS")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("thorough" if config.getoption("--lane") == LONG else "test")
    _write_no_docstrings()


def _write_no_docstrings() -> None:
    """Let SciPy write no docstring for each frozen distribution, which takes longer than most densities of it."""
    for name in ("_construct_doc", "_construct_default_doc"):  # private names, which another SciPy may not have
        if hasattr(stats.rv_continuous, name):
            setattr(stats.rv_continuous, name, lambda *_given, **_options: None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Record the processor seconds of a test, if a table was asked for."""
    started = _processor_seconds()
    try:
        return (yield)
    finally:
        _write_time(item.config, item.nodeid, _processor_seconds() - started)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among the items while they are made, nor later: they live as long as the process.

    Python looks for garbage every 700 objects, which takes a twentieth of the processor time; tests wait for 20,000.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """For `make check`, import only the files that have tests of its lane."""
    if config.getoption("--lane") != CHECK or collection_path.suffix != ".py":
        return None
    return None if may_hold_checks(collection_path) else True


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in docstrings only in files that have some: to look, pytest imports the file."""
    collectors = yield
    if file_path.suffix == ".py" and b">>>" not in file_path.read_bytes():
        return [collector for collector in collectors if type(collector) is pytest.Module]
    return collectors


def pytest_collection_finish(session: pytest.Session) -> None:
    _write_time(session.config, "collection", _processor_seconds())


def pytest_sessionfinish(session: pytest.Session) -> None:
    _write_time(session.config, "all", _processor_seconds())


def _processor_seconds() -> float:
    """Return the processor seconds of this process and of the processes that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _write_time(config: pytest.Config, name: str, seconds: float) -> None:
    """Append a line to the table of processor seconds, if one was asked for; each process has a file of its own."""
    if file := config.getoption("--times"):
        with Path(f"{file}.{os.getpid()}").open("a", encoding="utf-8") as table:
            table.write(f"{seconds:.3f}\t{name}\n")


@pytest.hookimpl(tryfirst=True)  # before tests are deselected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the lane, and count what shares the false-alarm rate; each worker collects the whole suite."""
    config.stash[_COUNT] = sum(item.get_closest_marker("statistical") is not None for item in items)
    chosen = config.getoption("--lane")
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        (kept if runs(item, chosen) else left).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)


@pytest.fixture
def alpha(request: pytest.FixtureRequest) -> float:
    """The false-alarm rate of one statistical test: that of the suite, divided by the number of statistical tests."""
    return SUITE_FALSE_ALARM_RATE / max(request.config.stash[_COUNT], 1)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator seeded by the test's name, or in the long lane by the system; a failing test prints how to repeat it.

    A seed of the option --seed comes before both.
    """
    seed = request.config.getoption("--seed")
    if seed is None and request.config.getoption("--lane") == LONG:
        seed = secrets.randbits(64)
        print(f"to repeat it: .venv/bin/python -m pytest --lane all --seed {seed} '{request.node.nodeid}'")
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()) if seed is None else seed)


@pytest.fixture(autouse=True)
def _figures_are_closed() -> Iterator[None]:
    """Close the figures that a test or an example opened: Matplotlib warns of many open ones."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
