"""Choice among many candidate pairs by their privacy curves: the largest at epsilon 0, and the largest farther out."""

import numpy as np

from privsample._checks import FloatArray

EPSILONS = np.linspace(0.0, 8.0, 81)
FACTORS = np.exp(EPSILONS)
_FRACTION = 0.2  # of the total variation


def excess(p: FloatArray, q: FloatArray, factors: FloatArray = FACTORS) -> FloatArray:
    """The larger of the sums of (p - factor q)+ and (q - factor p)+ over cells or outcomes, for each factor.

    With factor e^epsilon it is the hockey-stick divergence delta(epsilon) of the discretized pair.
    """
    there = [np.maximum(p - factor * q, 0.0).sum() for factor in factors]
    back = [np.maximum(q - factor * p, 0.0).sum() for factor in factors]
    return np.maximum(there, back)


def last_high(curve: FloatArray) -> int:
    """The last position at which a decreasing curve still has a fifth of its first value."""
    return int(np.flatnonzero(curve >= _FRACTION * curve[0])[-1])


def two_worst(table: FloatArray) -> list[int]:
    """Rows of the curve with the largest first value, and of the largest curve farther out if it differs."""
    widest = int(table[:, 0].argmax())
    return list(dict.fromkeys([widest, int(table[:, last_high(table[widest])].argmax())]))
