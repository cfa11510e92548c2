"""Branch and bound over the sum of the records: the certified maximum of a privacy curve over all datasets.

Blocks of sums are bounded together and split where the bound exceeds the known maximum (posterior.md, section 3;
tempered.md, section 3).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray

Rows = NDArray[np.intp]
Bounds = Callable[[FloatArray, FloatArray, Rows], FloatArray]

_ROUNDS = 40  # iteration limit


def maximize_over_sums(bounds: Bounds, goal: FloatArray, last: int, *, integer_valued: bool, most: int) -> FloatArray:
    """Upper bounds on the maxima of k functions of a sum in [0, last], shape (k,).

    `bounds(low, high, at)` bounds function at[i] over the sums in [low[i], high[i]], all of shape (blocks,); if both
    ends are equal it is the function's value. `goal`, shape (k,), holds known lower bounds on the maxima, at least the
    values at the sums 0 and last. Blocks are split until each bound is at most the goal, so that the result is usually
    the goal. A single sum that exceeds it raises the result by its value. Blocks that remain at the iteration limit, or
    when more than `most` remain, raise the result by their bounds. `integer_valued` restricts the sums to whole
    numbers.
    """
    first, final = _first_blocks(last, integer_valued=integer_valued)
    worst, at = np.array(goal, dtype=np.float64), np.repeat(np.arange(len(goal)), len(first))
    low, high = np.tile(first, len(goal)), np.tile(final, len(goal))
    left = _ROUNDS
    while low.size:
        left -= 1
        bound = bounds(low, high, at)
        single = high - low <= (0.0 if integer_valued else 1e-9 * last)
        np.maximum.at(worst, at[single], bound[single])
        stays = (bound > worst[at]) & ~single
        ends = stays & ((left == 0) | (np.bincount(at[stays], minlength=len(goal)) > most)[at])
        np.maximum.at(worst, at[ends], bound[ends])
        rest = stays & ~ends
        low, high, at = _split(low[rest], high[rest], at[rest], integer_valued=integer_valued)
    return worst


def _first_blocks(last: int, *, integer_valued: bool) -> tuple[FloatArray, FloatArray]:
    """Blocks whose widths triple from both ends inwards; the outermost blocks are single sums if sums are whole."""
    if integer_valued:
        growth = np.unique(np.floor(3.0 ** np.arange(np.log(max(last / 2, 1)) / np.log(3.0) + 1)))
        cuts = np.unique(np.clip(np.concatenate([[1], growth, last - growth + 1, [last]]), 1, max(last, 1)))
        return cuts[:-1], cuts[1:] - 1
    growth = last / 2 * np.append(0.0, 3.0 ** -np.arange(22.0)[::-1])
    cuts = np.unique(np.concatenate([growth, last - growth]))
    return cuts[:-1], cuts[1:]


def _split(low: FloatArray, high: FloatArray, at: Rows, *, integer_valued: bool) -> tuple[FloatArray, FloatArray, Rows]:
    """Split each block into eight blocks, or into single sums if it has fewer."""
    shares, at = np.arange(9) / 8, np.repeat(at, 8)
    if integer_valued:
        cuts = low[:, None] + np.round((high + 1 - low)[:, None] * shares)
        first, last = cuts[:, :-1].ravel(), cuts[:, 1:].ravel() - 1
        return first[first <= last], last[first <= last], at[first <= last]
    cuts = low[:, None] + (high - low)[:, None] * shares
    return cuts[:, :-1].ravel(), cuts[:, 1:].ravel(), at
