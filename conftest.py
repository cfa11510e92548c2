"""What holds for every test and every executed example: no figure stays open."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _figures_are_closed() -> Iterator[None]:
    """Close the figures that a test or an example opened: Matplotlib warns of many open ones."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
