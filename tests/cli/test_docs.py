"""Commands that the pages of documentation show: each is understood by the command line."""

import re
import shlex
from pathlib import Path

import pytest

from privsample.cli import _parser
from privsample.cli.options import join_negative_values

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(page):
    """The indented commands of a page, those of several lines joined, for which nothing else has to be installed."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    found = [shlex.split(line)[1:] for line in re.findall(r"^ {4}(privsample .*)$", text, re.MULTILINE)]
    return [words for words in found if "private-majority" not in words]  # test_extension.py installs the example


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_commands_are_understood(page):
    for words in commands(page):
        if "--help" not in words:
            assert _parser().parse_args(join_negative_values(words)).command == words[0]


def test_some_pages_show_commands():
    assert sum(len(commands(page)) for page in PAGES) > 10
