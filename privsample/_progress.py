"""Progress bars on standard error, by rich, which is an optional package."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from privsample._optional import require


@contextmanager
def rich_bar(*, force_terminal: bool | None) -> Iterator[Any]:
    """A progress bar of rich on standard error; `force_terminal` draws it even where that is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    console = Console(file=sys.stderr, force_terminal=force_terminal)
    # Standard output is not redirected: rich would print it on standard error. The speed is averaged over an hour,
    # because an item can take minutes.
    with Progress(*columns, console=console, redirect_stdout=False, speed_estimate_period=3600.0) as bar:
        yield bar


@contextmanager
def progress_bar(title: str, total: int, *, wanted: bool) -> Iterator[Callable[[int], object]]:
    """Show a progress bar if `wanted`; yields the function that advances it, which may be called from any thread.

    Raises ImportError if rich is not installed.
    """
    if not wanted:
        yield int
        return
    require("rich", "cli", "a progress bar", advice=", or leave progress out")
    with rich_bar(force_terminal=None) as bar:
        task = bar.add_task(title, total=total)
        yield lambda steps: bar.advance(task, steps)
