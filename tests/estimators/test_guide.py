"""The examples in the guide run and print what they say."""

import doctest
from pathlib import Path


def test_guide():
    guide = Path(__file__).parents[2] / "docs" / "guides" / "private_search.md"
    found = doctest.testfile(str(guide), module_relative=False)
    assert found.attempted >= 15
    assert found.failed == 0
