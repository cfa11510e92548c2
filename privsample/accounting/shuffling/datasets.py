"""The worst pair of neighbouring datasets for shuffled responses of few persons, by enumeration of all datasets."""

from itertools import combinations_with_replacement
from math import comb

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.accounting.loss.codes import CodeDistributions
from privsample.accounting.loss.worst import WorstPair

_ULP = float(np.finfo(np.float64).eps)
_MOST = 1 << 14  # largest number of masses in all compared distributions together


def exact_pair(codes: CodeDistributions, n: int) -> WorstPair | None:
    """The worst of all pairs of neighbouring datasets of n persons in both orders; None if there are too many.

    The output is the number of responses of each kind. Kind: exact.
    """
    inputs, outcomes = codes.distributions.shape
    both = np.concatenate([codes.exchanged, codes.exchanged[:, ::-1]])
    ways = comb(n + inputs - 2, inputs - 1) * len(both)
    if ways * comb(n + outcomes - 1, outcomes - 1) > _MOST:
        return None
    with np.errstate(divide="ignore"):
        rows = np.log(codes.distributions)
    others = _histograms_of_others(rows, n - 1)
    own = [_with_response(others, row, n) for row in rows]
    log_p, log_q = (np.concatenate([own[int(at)] for at in both[:, side]]) for side in (0, 1))
    there = ~(np.isneginf(log_p) & np.isneginf(log_q)).all(axis=0)
    deepest = float(np.abs(np.concatenate([log_p[np.isfinite(log_p)], log_q[np.isfinite(log_q)]])).max())
    slack = n * (outcomes + 16) * _ULP * (1.0 + deepest)  # of n factors and as many additions of logarithms
    return WorstPair(log_p=log_p[:, there], log_q=log_q[:, there], slack=slack)


def _histograms_of_others(rows: FloatArray, persons: int) -> FloatArray:
    """Log masses of the histogram for each multiset of the other persons' records, shape (datasets, histograms)."""
    inputs = len(rows)
    found = np.zeros((1, 1))
    last: dict[tuple[int, ...], int] = {(): 0}
    for size in range(1, persons + 1):
        sets = list(combinations_with_replacement(range(inputs), size))
        before = np.array([last[one[:-1]] for one in sets])
        newest = np.array([one[-1] for one in sets])
        grown = np.empty((len(sets), comb(size + rows.shape[1] - 1, rows.shape[1] - 1)))
        for record in range(inputs):
            own = newest == record
            grown[own] = _with_response(found[before[own]], rows[record], size)
        found, last = grown, {one: at for at, one in enumerate(sets)}
    return found


def _with_response(others: FloatArray, row: FloatArray, size: int) -> FloatArray:
    """Log masses of the histogram of `size` responses, of which one has the log masses `row`."""
    outcomes = len(row)
    result = np.full((len(others), comb(size + outcomes - 1, outcomes - 1)), -np.inf)
    for outcome, places in enumerate(_places(size, outcomes)):
        result[:, places] = np.logaddexp(result[:, places], others + row[outcome])
    return result


def _places(size: int, outcomes: int) -> list[NDArray[np.int64]]:
    """For each outcome, where a histogram of size - 1 responses goes if one of this outcome is added."""
    index = {one: at for at, one in enumerate(combinations_with_replacement(range(outcomes), size))}
    smaller = list(combinations_with_replacement(range(outcomes), size - 1))
    return [np.array([index[tuple(sorted((*one, outcome)))] for one in smaller]) for outcome in range(outcomes)]
