"""Paired timing: two functions alternate, best of several runs, so that changes in machine load cancel."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """One result: our value, the peer's value, their ratio, and the target."""

    name: str
    library: str
    peer: str
    ratio: float | None
    target: str

    def text(self) -> str:
        """One line of the table."""
        ratio = "" if self.ratio is None else f"{self.ratio:9.3g}"
        return f"{self.name:<58} {self.library:>24} {self.peer:>26} {ratio:>9}  {self.target}"


HEADER = f"{'what':<58} {'library':>24} {'peer':>26} {'ratio':>9}  target"


def seconds(function: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def paired(library: Callable[[], object], peer: Callable[[], object], *, runs: int = 5) -> tuple[float, float]:
    """Best times of two functions that are called alternately after one warm-up call of each."""
    library()
    peer()
    pairs = [(seconds(library), seconds(peer)) for _ in range(runs)]
    return min(a for a, _ in pairs), min(b for _, b in pairs)


def milliseconds(duration: float) -> str:
    """A duration in milliseconds, as text for the table."""
    return f"{duration * 1e3:.3g} ms"
