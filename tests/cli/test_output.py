"""Widths and colours of the output, and the progress of a list of items."""

import io
import re

import pytest

from privsample.cli import options, output


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def printed(monkeypatch, width, body, **environment):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    body(output.Console())
    return stream.getvalue()


@pytest.mark.parametrize("width", [60, 100, 160])
def test_tables_use_the_width_of_the_terminal_and_paragraphs_at_most_100_columns(monkeypatch, width):
    def body(console):
        console.table("Title", ("name", "text"), [("a", "word " * 60)])
        console.paragraph("Title", "another " * 60)

    lines = printed(monkeypatch, width, body, NO_COLOR="1").splitlines()
    table = [line for line in lines if "word" in line]
    text = [line for line in lines if "another" in line]
    assert width - 12 <= max(map(len, table)) <= width
    assert min(width, 100) - 12 <= max(map(len, text)) <= min(width, 100)


@pytest.mark.parametrize("width", [1, 12])
def test_a_narrow_terminal_gets_lines_of_40_columns(monkeypatch, width):
    def body(console):
        console.text("another " * 60)
        console.table("Title", ("name", "text"), [("a", "word " * 60)])
        console.facts([("name", "fact " * 60)])

    lines = printed(monkeypatch, width, body, NO_COLOR="1").splitlines()
    for word in ("another", "word", "fact"):
        plain = [re.sub(r"\x1b\[\d*m", "", line).rstrip() for line in lines if word in line]
        assert 28 <= max(map(len, plain)) <= 40


def test_outcomes_are_coloured_but_not_with_no_color(monkeypatch):
    def body(console):
        console.table("Audits", ("name", "outcome"), [("a", "VIOLATED"), ("b", "CONSISTENT")])
        console.paragraph("a", "VIOLATED: the claim is refuted.")

    coloured = printed(monkeypatch, 80, body)
    assert "\x1b[1;31mVIOLATED" in coloured
    assert "\x1b[32mCONSISTENT" in coloured
    plain = printed(monkeypatch, 80, body, NO_COLOR="1")
    assert "31m" not in plain
    assert "32m" not in plain
    assert "VIOLATED" in plain


def test_progress_names_the_running_item_and_the_time_left(monkeypatch):
    stream = Terminal()
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("sys.stderr", stream)
    with output.item_progress("audit", ["laplace", "gaussian"]) as bar:
        assert bar.is_shown
        bar.complete()
        bar.complete()
    for words in ("laplace (audit 1 of 2)", "gaussian (audit 2 of 2)", "2 audits", " left"):
        assert words in stream.getvalue()


def test_without_a_terminal_no_bar_is_shown(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with output.item_progress("audit", ["laplace"]) as bar:
        assert not bar.is_shown
        bar.complete()
    assert stream.getvalue() == ""


def test_help_in_a_narrow_terminal_has_lines_of_40_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "1")
    formatted = options.Formatter("privsample")
    formatted.add_text("another " * 60)
    assert 28 <= max(map(len, formatted.format_help().splitlines())) <= 40
