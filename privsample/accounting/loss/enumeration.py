"""Compositions of small tables, outcome by outcome: exact where a grid smooths the kinks of the privacy curve."""

import itertools
from collections.abc import Sequence
from math import comb, factorial, log, prod

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.accounting.loss.pair import DiscretePair, LossPair

_MOST_OUTCOMES, _MOST_RELEASES = 4096, 64  # of the product, outcomes of equal counts taken together
_MOST_SLACK = 1e-12
_ULP = float(np.finfo(np.float64).eps)


def enumerated(members: Sequence[tuple[LossPair, int]]) -> DiscretePair | None:
    """The product of finite tables, `times` of each; None where a member is no table, or they are too many.

    Masses and losses are raised by what the sums can have lost: the pair dominates the product (P, Q). Its reverse is
    enumerated by itself.
    """
    tables = [(pair, times) for pair, times in members if isinstance(pair, DiscretePair)]
    outcomes = prod(comb(min(times, _MOST_RELEASES) + len(pair.loss) - 1, len(pair.loss) - 1) for pair, times in tables)
    if len(tables) < len(members) or outcomes > _MOST_OUTCOMES or sum(t for _, t in tables) > _MOST_RELEASES:
        return None
    masses = [_classes(pair, times) for pair, times in tables]
    log_p, log_q, loss, size = (_sums([row[k] for row in masses]) for k in range(4))
    there = ~(np.isneginf(log_p) & np.isneginf(log_q))
    log_p, log_q, loss, slack = log_p[there], log_q[there], loss[there], _ULP * (4.0 + size[there])
    if slack.max() > _MOST_SLACK:  # losses so large that their sums are not told apart
        return None
    return DiscretePair(log_p=log_p + 2 * slack, log_q=log_q + 2 * slack, loss=loss + slack)


def _sums(columns: Sequence[FloatArray]) -> FloatArray:
    """Every sum of one entry of each column."""
    total = np.zeros(1)
    with np.errstate(invalid="ignore"):  # where neither P nor Q is there
        for column in columns:
            total = (total[:, None] + column).ravel()
    return total


def _classes(pair: DiscretePair, times: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Of `times` outcomes, those with the same counts: log masses, loss, and the size of what was added up."""
    n = len(pair.loss)
    bars = np.array(list(itertools.combinations(range(times + n - 1), n - 1)), dtype=np.int64)
    bars = bars.reshape(comb(times + n - 1, n - 1), n - 1)
    counts = np.diff(bars, axis=1, prepend=-1, append=times + n - 1) - 1
    ways = np.array([log(factorial(times) // prod(map(factorial, row))) for row in counts.tolist()])
    log_p, log_q, loss = (_weighted(counts, column) for column in (pair.log_p, pair.log_q, pair.loss))
    size = ways + sum(
        _weighted(counts, np.abs(np.where(np.isfinite(column), column, 0.0))) for column in (pair.log_p, pair.loss)
    )
    return ways + log_p, ways + log_q, loss, size


def _weighted(counts: NDArray[np.int64], column: FloatArray) -> FloatArray:
    """The sum of the column's entries, each as often as it is counted; infinite ones count where they are there."""
    with np.errstate(invalid="ignore"):
        found: FloatArray = np.where(counts > 0, counts * column, 0.0).sum(axis=1)
    return found
