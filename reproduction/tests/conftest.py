"""Experiments that several tests share, and the fixture that opens pages in a browser."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import pytest

from privsample.simulations.report.results import Made, Result
from reproduction import experiment
from tests.browser import phone

__all__ = ["phone"]


class Once(NamedTuple):
    """An experiment that was run and plotted with its own settings."""

    result: Result
    made: Made


def _run(name: str) -> Once:
    results: list[Result] = []
    chosen = experiment(name)
    made = replace(chosen, run=lambda: results.append(chosen.run()) or results[0]).make()
    return Once(results[0], made)


@pytest.fixture
def run_anew():
    """Run an experiment with the settings that the test has patched."""
    return _run


@pytest.fixture(scope="session")
def run_once():
    """Run an experiment with its own, unpatched settings; all tests of the session share the result."""
    return cache(_run)
