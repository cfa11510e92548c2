"""Which of many pairs to offer, by their privacy curves: the worst at epsilon 0, and the worst farther out."""

import numpy as np

from privsample._checks import FloatArray

EPSILONS = np.linspace(0.0, 8.0, 81)
FACTORS = np.exp(EPSILONS)
_FRACTION = 0.2  # of the total variation


def excess(p: FloatArray, q: FloatArray, factors: FloatArray = FACTORS) -> FloatArray:
    """The larger of the sums of (p - factor q)+ and (q - factor p)+ over cells or outcomes, for each factor."""
    there = [np.maximum(p - factor * q, 0.0).sum() for factor in factors]
    back = [np.maximum(q - factor * p, 0.0).sum() for factor in factors]
    return np.maximum(there, back)


def last_high(curve: FloatArray) -> int:
    """The last place at which a falling curve still has a fifth of what it begins with."""
    return int(np.flatnonzero(curve >= _FRACTION * curve[0])[-1])


def two_worst(table: FloatArray) -> list[int]:
    """Of curves, one in each row, the one that begins highest, and the highest farther out if that is another."""
    widest = int(table[:, 0].argmax())
    return list(dict.fromkeys([widest, int(table[:, last_high(table[widest])].argmax())]))
