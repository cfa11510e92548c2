"""One false-alarm rate for the whole suite, reproducible randomness, and deterministic property tests."""

import os
import secrets
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings

SUITE_FALSE_ALARM_RATE = 1e-6
_COUNT = pytest.StashKey[int]()

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=15,
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Count what the false-alarm rate is shared by; a worker of a parallel run collects the whole suite too."""
    config.stash[_COUNT] = sum(item.get_closest_marker("statistical") is not None for item in items)


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
