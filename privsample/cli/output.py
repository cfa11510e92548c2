"""What commands print: tables for people, JSON for machines, both from public facts only."""

import json
import math
import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np

from privsample._decimals import round_down, round_up
from privsample.cli.errors import require

_WIDEST = 100


def check_tables(args: Namespace) -> None:
    """Raise UsageProblem, if tables are asked for and cannot be printed."""
    if not args.json:
        require("rich", "cli", "printing tables")


def plain(item: Any) -> Any:
    """The same in JSON's types; what is not finite becomes text."""
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
    """One JSON document on standard output."""
    print(json.dumps(plain(document), indent=2, allow_nan=False))


def up(cost: float, digits: int = 4) -> str:
    """A cost in decimal digits, rounded up."""
    return round_up(cost, digits)


def down(limit: float, digits: int = 3) -> str:
    """A lower limit in decimal digits, rounded down."""
    return round_down(limit, digits)


def odds(epsilon: float) -> str:
    """What an epsilon means: the factor by which odds may shift."""
    if not math.isfinite(epsilon):
        return "no promise"
    return f"at most x {up(math.exp(epsilon), 3)}" if epsilon < 30 else "more than x 1e13"


class Page:
    """Tables and paragraphs on standard output, at most 100 columns wide."""

    def __init__(self) -> None:
        from rich.console import Console

        width = min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns)

        class Patient(Console):
            def on_broken_pipe(self) -> None:  # rich would leave the program here, with the wrong exit code
                raise BrokenPipeError

        self._console = Patient(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)

    def text(self, words: str = "") -> None:
        """A paragraph."""
        self._console.print(words)

    def paragraph(self, title: str, words: str) -> None:
        """A paragraph under a title."""
        from rich.text import Text

        self._console.print(Text("\n" + title, style="bold"))
        self._console.print(words)

    def table(
        self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] = ()
    ) -> None:
        """A table; the columns in `numbers` are aligned to the right."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        self._console.print(Text("\n" + title, style="bold"))
        made = Table(box=box.SIMPLE_HEAD, show_edge=False)
        for i, name in enumerate(head):
            made.add_column(Text(name), justify="right" if i in numbers else "left", overflow="fold")
        for row in rows:
            made.add_row(*(Text(cell) for cell in row))
        self._console.print(made)

    def facts(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Names and values, one pair a line."""
        from rich.table import Table
        from rich.text import Text

        made = Table.grid(padding=(0, 2))
        made.add_column(no_wrap=True)
        made.add_column(overflow="fold")
        for name, fact in pairs:
            made.add_row(Text(name, style="bold"), Text(fact))
        self._console.print(made)


@contextmanager
def ignore_broken_pipe() -> Iterator[None]:
    """What is printed inside may be read to its end or not: from where the reader left, nothing more is printed."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextmanager
def progress(words: str, total: int | None, wanted: bool | None) -> Iterator[Callable[[int], object]]:
    """A bar on standard error, if it was asked for or that is a terminal. Yields: what to tell each chunk's rows."""
    if wanted is False or (wanted is None and not (sys.stderr.isatty() and find_spec("rich"))):
        yield int
        return
    require("rich", "cli", "showing progress")
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(file=sys.stderr, force_terminal=wanted)
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(words, total=total)
        yield lambda rows: bar.advance(task, rows)
