"""Gaussian shifts of the positions of a record in descent over many epochs: hidden_states.md, section 6.

All steps have the same Lipschitz constant c <= 1 and noise N(0, 1). The path of hidden_states.md, section 2, then has
four segments, whose sums are geometric:

    start    from the start, or from a restart at the largest distance, to the record's first step
    early    whole epochs, each from the record's step to its next one; their slopes decrease, so they are one segment
    before   the epoch before the last one, shorter if the batches were shuffled anew
    last     from the record's last step to the end

The lower convex hull of four segments is computed for all positions and restarts at once.
"""

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import LEAST_LOSS

_UP = 1 + 1e-12  # exceeds the relative rounding error of the closed forms
_TINY = 1e-280  # squares of noise below this one count as zero
_ALL, _SOME = 64, 64  # restarts: the last 64 steps, and 64 of the earlier ones


def epoch_shifts(
    *,
    move: float,
    distance: float,
    constant: float,
    period: int,
    epochs: int,
    tail: int,
    after: FloatArray,
    gap: FloatArray,
) -> FloatArray:
    """Shifts of the Gaussian pairs that dominate the last state, one for each position, rounded up.

    Parameters
    ----------
    move : float
        Distance by which the record moves the state, > 0, in standard deviations of the noise of a step.
    distance : float
        Diameter of the set of states, > 0, in the same unit.
    constant : float
        Lipschitz constant of a step, in [0, 1].
    period, epochs, tail : int
        Steps of an epoch, number of epochs, and steps on public records after them.
    after : array, shape (positions,)
        Number of steps after the record's last one, from `tail` to `tail + period - 1`.
    gap : array, shape (positions,)
        Number of steps from the record's last but one to its last one, >= 1. Before that, it is read every `period`
        steps.

    Returns
    -------
    array, shape (positions,)
        The least over the start and restarts of the shift.
    """
    steps = epochs * period + tail
    few = np.unique(np.append(np.arange(1, _ALL + 1), np.geomspace(_ALL, max(steps, _ALL), _SOME).astype(np.int64)))
    left = np.append(few[few < steps], steps)  # steps after the restart; the last one is the start itself
    apart = np.append(np.full(len(left) - 1, distance), 0.0)
    last, gap = np.asarray(after, dtype=np.float64)[:, None] + 1, np.asarray(gap, dtype=np.float64)[:, None]

    read, again = (
        left >= last,
        left >= last + gap,
    )  # whether the last step, and the one before it, come after the restart
    last = np.where(read, last, 0.0)
    whole = np.where(again, (left - last - gap) // period, 0.0)
    tails = np.stack(
        np.broadcast_arrays(
            last + np.where(again, gap, 0) + whole * period, last + np.where(again, gap, 0), last, 0.0 * last
        )
    )
    counts = np.stack(np.broadcast_arrays(left - tails[0], whole * period, np.where(again, gap, 0.0), last))
    runs = np.power(constant, 2.0 * tails) * geometric(constant, 2.0, counts)
    rises = np.stack(
        np.broadcast_arrays(
            apart * np.power(constant, left),
            move * np.power(constant, tails[1] + period - 1.0) * geometric(constant, period, whole),
            move * again * np.power(constant, tails[2] + np.maximum(gap, 1.0) - 1.0),
            move * read * np.power(constant, np.maximum(last, 1.0) - 1.0),
        )
    )
    runs[runs < _TINY] = 0.0
    return np.asarray(np.maximum(np.sqrt(hull_square(rises, runs).min(axis=-1)) * _UP, LEAST_LOSS))


def hull_square(rises: FloatArray, runs: FloatArray) -> FloatArray:
    """Sum of rise^2/run over the edges of the lower convex hull of a path of a few segments, along the first axis.

    The slope of the hull on segment k is the largest over i <= k of the smallest over j >= k of the mean slope from i
    to j (isotonic regression). A rise without a run is carried to the next segment; +inf if there is none.
    """
    count, total = len(rises), np.zeros(np.broadcast_shapes(rises.shape, runs.shape)[1:])
    means = {}
    for i in range(count):
        rise, run = np.zeros_like(total), np.zeros_like(total)
        for j in range(i, count):
            rise, run = rise + rises[j], run + runs[j]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                means[i, j] = np.where(run > 0.0, rise / run, np.where(rise > 0.0, np.inf, 0.0))
    for k in range(count):
        slope = np.zeros_like(total)
        for i in range(k + 1):
            least = means[i, k]
            for j in range(k + 1, count):
                least = np.minimum(least, means[i, j])
            slope = np.maximum(slope, least)
        with np.errstate(invalid="ignore", over="ignore"):
            total = total + np.where(runs[k] > 0.0, slope * slope * runs[k], np.where(np.isinf(slope), np.inf, 0.0))
    return total


def geometric(constant: float, power: float, count: FloatArray) -> FloatArray:
    """sum of constant^(power j), j = 0, ..., count - 1, for a constant in [0, 1]."""
    if constant == 1.0:
        return np.asarray(count, dtype=np.float64)
    log = max(power * float(np.log(constant)), -745.0) if constant else -745.0  # e^-745 is the smallest float
    return np.asarray(np.expm1(np.multiply(count, log)) / np.expm1(log))
