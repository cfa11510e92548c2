"""Coins from private chances: the sum of Theorem 4 and the search of Algorithm 2, against the time allowed."""

from collections.abc import Iterator

from benchmarks.measure import Row, milliseconds, seconds
from privsample.accounting.bernoulli_bounds import symmetric_renyi
from privsample.accounting.bernoulli_search import corner_renyi


def rows() -> Iterator[Row]:
    """Best of five."""
    for margin in (0.01, 0.1, 0.4999):
        took = min(seconds(lambda c=margin: symmetric_renyi(1.0, 50.0, 1_000_000, c)) for _ in range(5))
        yield _row(f"Theorem 4, a million coins, c = {margin:g}", took)
    for coins in (1, 4, 64):
        for epsilon in (0.1, 1.0, 5.0):
            took = min(seconds(lambda e=epsilon, k=coins: corner_renyi(e, 50.0, k, 0.1)) for _ in range(5))
            yield _row(f"Algorithm 2, k = {coins}, epsilon = {epsilon:g}", took)


def _row(name: str, took: float) -> Row:
    return Row(name=name, ours=milliseconds(took), peer="50 ms allowed", ratio=took / 0.05, target="at most 1")
