"""Compositions of small discrete pairs by enumeration of outcomes; exact, while a grid smooths the curve's kinks."""

import itertools
from collections.abc import Sequence
from math import comb, factorial, log, prod

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.accounting.loss.pair import DiscretePair, LossPair

_MOST_OUTCOMES, _MOST_RELEASES = 4096, 64  # of the product; outcomes with equal counts are merged
_MOST_SLACK = 1e-12  # largest rounding error of a loss in nats
_ULP = float(np.finfo(np.float64).eps)


def enumerate_product(members: Sequence[tuple[LossPair, int]]) -> DiscretePair | None:
    """Discrete pair that dominates the product of discrete pairs, each with its multiplicity; None if too large.

    Masses and losses are raised by the rounding errors of their sums, so that the result dominates (P, Q). It does not
    dominate (Q, P); the reverse must be enumerated separately. None also if a member is not a discrete pair.
    """
    tables = [(pair, times) for pair, times in members if isinstance(pair, DiscretePair)]
    outcomes = prod(comb(min(times, _MOST_RELEASES) + len(pair.loss) - 1, len(pair.loss) - 1) for pair, times in tables)
    if len(tables) < len(members) or outcomes > _MOST_OUTCOMES or sum(t for _, t in tables) > _MOST_RELEASES:
        return None
    masses = [_outcomes_by_count(pair, times) for pair, times in tables]
    log_p, log_q, loss, size = (_sums([row[k] for row in masses]) for k in range(4))
    there = ~(np.isneginf(log_p) & np.isneginf(log_q))
    log_p, log_q, loss, slack = log_p[there], log_q[there], loss[there], _ULP * (4.0 + size[there])
    if slack.max() > _MOST_SLACK:  # losses so large that their sums are not accurate
        return None
    return DiscretePair(log_p=log_p + 2 * slack, log_q=log_q + 2 * slack, loss=loss + slack)


def _sums(columns: Sequence[FloatArray]) -> FloatArray:
    """All sums of one entry of each column."""
    total = np.zeros(1)
    with np.errstate(invalid="ignore"):  # inf - inf for outcomes of probability zero under both P and Q
        for column in columns:
            total = (total[:, None] + column).ravel()
    return total


def _outcomes_by_count(pair: DiscretePair, times: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Outcomes of `times` releases merged by their counts: log P, log Q, loss, and the absolute sum of all terms."""
    counts, ways = outcome_counts(len(pair.loss), times)
    log_p, log_q, loss = (_weighted_sum(counts, column) for column in (pair.log_p, pair.log_q, pair.loss))
    size = ways + sum(
        _weighted_sum(counts, np.abs(np.where(np.isfinite(column), column, 0.0))) for column in (pair.log_p, pair.loss)
    )
    return ways + log_p, ways + log_q, loss, size


def outcome_counts(outcomes: int, times: int) -> tuple[NDArray[np.int64], FloatArray]:
    """How often each outcome occurs in `times` draws, shape (k, outcomes), and the log number of sequences, (k,)."""
    bars = np.array(list(itertools.combinations(range(times + outcomes - 1), outcomes - 1)), dtype=np.int64)
    bars = bars.reshape(comb(times + outcomes - 1, outcomes - 1), outcomes - 1)
    counts = np.diff(bars, axis=1, prepend=-1, append=times + outcomes - 1) - 1
    ways = np.array([log(factorial(times) // prod(map(factorial, row))) for row in counts.tolist()])
    return counts, ways


def _weighted_sum(counts: NDArray[np.int64], column: FloatArray) -> FloatArray:
    """The sum of the column's entries times their counts, where 0 times infinity is 0."""
    with np.errstate(invalid="ignore"):
        found: FloatArray = np.where(counts > 0, counts * column, 0.0).sum(axis=1)
    return found
