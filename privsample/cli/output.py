"""Output of the commands: tables for readers and JSON for programs. Both contain public information only."""

import itertools
import json
import math
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from privsample import _decimals
from privsample._optional import is_installed
from privsample._progress import rich_bar
from privsample.cli.errors import require
from privsample.cli.options import terminal_width

_MAX_COLUMNS = 100  # width of paragraphs, and of tables where standard output is not a terminal
_STYLES = {"VIOLATED": "bold red", "CONSISTENT": "green"}  # by the text of a cell, or the first word of a paragraph


def check_tables(args: Namespace) -> None:
    """Raise UsageProblem if tables are requested and rich, which prints them, is not installed."""
    if not args.json:
        require("rich", "cli", "printing tables")


def plain(item: Any) -> Any:
    """Convert a value to JSON types; infinities and NaN become strings."""
    if isinstance(item, Mapping):
        return {str(key): plain(member) for key, member in item.items()}
    if isinstance(item, (list, tuple)):
        return [plain(member) for member in item]
    if isinstance(item, np.ndarray):
        return plain(item.tolist())
    if isinstance(item, (float, np.floating)):
        return float(item) if math.isfinite(item) else str(float(item))
    return int(item) if isinstance(item, np.integer) else item


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document on standard output."""
    print(json.dumps(plain(document), indent=2, allow_nan=False))


def round_up(cost: float, digits: int = 4) -> str:
    """Format a privacy cost with this many significant digits, rounded up: the printed cost is never too small."""
    return _decimals.round_up(cost, digits)


def round_down(bound: float, digits: int = 3) -> str:
    """Format a lower bound with this many significant digits, rounded down: the printed bound is never too large."""
    return _decimals.round_down(bound, digits)


def growth(epsilon: float) -> str:
    """Describe an epsilon by the factor e^epsilon by which the probability of any event can grow, beside delta."""
    if not math.isfinite(epsilon):
        return "no guarantee"
    return f"at most x {round_up(math.exp(epsilon), 3)}" if epsilon < 30 else "more than x 1e13"


class Console:
    """Prints tables and paragraphs on standard output.

    Tables may use the whole width of the terminal; paragraphs are at most 100 columns wide.

    The outcome VIOLATED is red and CONSISTENT is green on a terminal; rich prints no colour if NO_COLOR is set or
    standard output is not a terminal.
    """

    def __init__(self) -> None:
        from rich import console

        width = terminal_width(_MAX_COLUMNS)
        self._text_width = min(_MAX_COLUMNS, width)

        class PipeSafeConsole(console.Console):
            def on_broken_pipe(self) -> None:  # rich would exit the program here, with the wrong exit code
                raise BrokenPipeError

        self._console = PipeSafeConsole(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)

    def text(self, text: str = "") -> None:
        """Print a paragraph."""
        self._console.print(text, width=self._text_width)

    def paragraph(self, title: str, text: str) -> None:
        """Print a paragraph below a title; an outcome at its beginning is coloured."""
        from rich.text import Text

        self._console.print(Text("\n" + title, style="bold"), width=self._text_width)
        outcome = text.partition(":")[0]
        styled = Text(text)
        styled.stylize(_STYLES.get(outcome, ""), 0, len(outcome))
        self._console.print(styled, width=self._text_width)

    def table(
        self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] = ()
    ) -> None:
        """Print a table; columns whose index is in `numbers` are right-aligned, and cells with an outcome coloured."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        self._console.print(Text("\n" + title, style="bold"))
        table = Table(box=box.SIMPLE_HEAD, show_edge=False)
        for i, name in enumerate(head):
            table.add_column(Text(name), justify="right" if i in numbers else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
        self._console.print(table)

    def facts(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Print names and values, one pair per line."""
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for name, fact in pairs:
            table.add_row(Text(name, style="bold"), Text(fact))
        self._console.print(table)


@contextmanager
def ignore_broken_pipe() -> Iterator[None]:
    """Discard the remaining output if the reader of standard output has closed the pipe."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextmanager
def progress(title: str, total: int | None, wanted: bool | None) -> Iterator[Callable[[int], object]]:
    """Show a progress bar on standard error if `wanted`, or if `wanted` is None and standard error is a terminal.

    Yields the function that advances the bar by a number of rows.
    """
    if wanted is False or (wanted is None and not _shows_bar()):
        yield int
        return
    with _bar(wanted) as bar:
        task = bar.add_task(title, total=total)
        yield lambda rows: bar.advance(task, rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemProgress:
    """Progress through a list of items: whether a bar is shown, and the function that completes the running item."""

    is_shown: bool
    complete: Callable[[], object]


@contextmanager
def item_progress(kind: str, names: Sequence[str]) -> Iterator[ItemProgress]:
    """Show the running item, its position and the time left on standard error, if standard error is a terminal.

    With several workers the item shown is the first one that is not completed.
    """
    if not _shows_bar():
        yield ItemProgress(is_shown=False, complete=lambda: None)
        return

    def title(place: int) -> str:
        return f"{names[place]} ({kind} {place + 1} of {len(names)})" if place < len(names) else f"{place} {kind}s"

    with _bar(None) as bar:
        task, places = bar.add_task(title(0), total=len(names)), itertools.count(1)
        yield ItemProgress(
            is_shown=True,
            complete=lambda: bar.update(task, advance=1, description=title(next(places)), refresh=True),
        )


def _shows_bar() -> bool:
    return sys.stderr.isatty() and is_installed("rich")


@contextmanager
def _bar(wanted: bool | None) -> Iterator[Any]:
    require("rich", "cli", "showing progress")
    with rich_bar(force_terminal=wanted) as bar:
        yield bar


def print_note(text: str) -> None:
    """Print a note for the user on standard error."""
    print(f"privsample: {text}", file=sys.stderr, flush=True)
