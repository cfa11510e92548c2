"""The examples in the README run and print what they say."""

import doctest
from pathlib import Path

import pytest


def test_readme():
    pytest.importorskip("matplotlib", reason="the first example draws a histogram")
    found = doctest.testfile(str(Path(__file__).parent.parent / "README.md"), module_relative=False)
    assert found.attempted >= 8
    assert found.failed == 0
