"""The guide prints what it says."""

import doctest
from pathlib import Path

import pytest


# ArviZ 0.23 passes to Matplotlib 3.11 what Matplotlib 3.13 will refuse.
@pytest.mark.filterwarnings("ignore:Passing a dict or None as alias_mapping:DeprecationWarning")
def test_guide():
    pytest.importorskip("matplotlib", reason="the guide shows pictures")
    page = Path(__file__).parents[2] / "docs" / "guides" / "exact_inference.md"
    found = doctest.testfile(str(page), module_relative=False)
    assert found.attempted >= 15
    assert found.failed == 0
