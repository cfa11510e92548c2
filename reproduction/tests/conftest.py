"""Experiments that several tests share, and the fixture that opens pages in a browser."""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from privsample.simulations.report.results import Made, Result
from reproduction import bernoulli, coverage, experiment, selection_data
from reproduction.sizes import SMALL, Settings, small_size
from tests.browser import phone

__all__ = ["phone"]

# In place of values of reproduction/sizes.py: still smaller ones, with which the sentences say as much.
_SMALLER: tuple[tuple[tuple[str, ...], Settings], ...] = (
    (("coverage",), ((coverage, "SIZES", (20, 60)), (coverage, "EPSILONS", (0.3, 1.0)))),
    (("imola-1", "imola-2", "imola-3"), ((bernoulli, "REPEATED", ((1,), (1, 2))), (bernoulli, "NEAR", 1))),
    (
        tuple(f"papernot-{k}" for k in range(4, 8)),
        ((selection_data, "MEANS", np.array([2.0, 10.0, 1000.0])),),
    ),
)


class Once(NamedTuple):
    """An experiment that was run and plotted."""

    result: Result
    made: Made


def _run(name: str, *, draft: bool = False) -> Once:
    chosen = experiment(name)
    result = chosen.run()
    return Once(result, result.make(chosen.name, chosen.size, draft=draft))


@pytest.fixture(scope="session", autouse=True)
def _smaller() -> Iterator[None]:
    """Use `_SMALLER` in all tests of the session."""
    with pytest.MonkeyPatch.context() as patch:
        for names, settings in _SMALLER:
            replaced = {(module, constant) for module, constant, _ in settings}
            for name in names:
                kept = tuple(one for one in SMALL[name] if one[:2] not in replaced)
                patch.setitem(SMALL, name, (*kept, *settings))
        yield


def _run_small(name: str) -> Once:
    with small_size(name):
        return _run(name, draft=True)


@pytest.fixture(scope="session")
def run_once():
    """Run an experiment in full; all tests of the session share the result."""
    return cache(_run)


@pytest.fixture(scope="session")
def small_once():
    """Run an experiment with its smaller settings and draft its plot; all tests of the session share the result."""
    return cache(_run_small)
