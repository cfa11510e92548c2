"""Experiments that several tests share, and the fixture that opens pages in a browser."""

from functools import cache
from typing import NamedTuple

import pytest

from privsample.simulations.report.results import Made, Result
from reproduction import experiment
from reproduction.sizes import small_size
from tests.browser import phone

__all__ = ["phone"]


class Once(NamedTuple):
    """An experiment that was run and plotted."""

    result: Result
    made: Made


def _run(name: str, *, draft: bool = False) -> Once:
    chosen = experiment(name)
    result = chosen.run()
    return Once(result, result.make(chosen.name, chosen.size, draft=draft))


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
