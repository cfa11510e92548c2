"""The probability of keeping a key that n units have: the largest one for given epsilon and delta."""

from array import array
from functools import lru_cache

import numpy as np

from privsample._checks import FloatArray, nonnegative, open_unit_interval

_UNIT = float(np.finfo(np.float64).eps)
LARGEST_EPSILON = 600.0  # beyond it e^epsilon leaves the range in which products with doubles are finite
MOST_UNITS = 1 << 20  # more units count as so many


def keep_probabilities(key_epsilon: float, key_delta: float) -> FloatArray:
    """The probabilities pi_0 = 0, pi_1, pi_2, ... of keeping a key of n units; the last one holds for all larger n.

    pi_n = min(e^epsilon pi_(n-1) + delta, 1 - e^-epsilon (1 - pi_(n-1) - delta), 1), each rounded down from the double
    before it, so that the doubles themselves satisfy both inequalities (keys.md, section 1). They grow up to n = 2^20,
    which matters for an epsilon below 4e-5 only; constant from there on, they satisfy both inequalities, too.

    Parameters
    ----------
    key_epsilon : float
        Privacy loss of a key in nats, in [0, 600].
    key_delta : float
        Probability in (0, 1] with which a key of one unit is kept.

    Returns
    -------
    numpy.ndarray
        The increasing probabilities, shape (units + 1,).

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    Desfontaines, Voss, Gipson and Mandayam 2022, Theorem 1. Kind: exact, rounded down.

    Examples
    --------
    >>> from privsample.distributions.keep_probabilities import keep_probabilities
    >>> table = keep_probabilities(1.0, 1e-5)
    >>> len(table), [round(float(table[n]), 6) for n in (1, 2, 12, 20)]
    (24, [1e-05, 3.7e-05, 0.760311, 0.999925])
    """
    epsilon, delta = nonnegative(key_epsilon=key_epsilon), open_unit_interval(key_delta=key_delta)
    if epsilon > LARGEST_EPSILON:
        raise ValueError(f"key_epsilon must be at most {LARGEST_EPSILON:g}, got {epsilon!r}")
    return _table(epsilon, delta)


@lru_cache(maxsize=4)
def _table(epsilon: float, delta: float) -> FloatArray:
    """The probabilities, for an account and the draws of its mechanism alike; read-only."""
    grown, shrunk = float(np.exp(epsilon)), float(np.exp(-epsilon))
    growing = array("d", [0.0])
    while (last := growing[-1]) < 1.0 and len(growing) <= MOST_UNITS:
        following = _next(last, grown, shrunk, delta)
        if not following > last:  # rounding down stops the growth next to 1
            break
        growing.append(following)
    found = np.array(growing)
    found.flags.writeable = False
    return found


def _next(last: float, grown: float, shrunk: float, delta: float) -> float:
    """pi_n from pi_(n-1), rounded down by more than the relative error of each sum of positive terms."""
    low = delta if last == 0.0 else (last * grown + delta) * (1.0 - 8 * _UNIT)
    rest = 1.0 - last  # exact from 1/2 on, otherwise correct to half a unit
    if rest * (1.0 + 2 * _UNIT) <= delta:
        return min(low, 1.0)
    # The distance to 1 is rounded up relatively, and the difference from 1 down by one unit.
    distance = shrunk * (rest - delta + 2 * _UNIT * rest) * (1.0 + 8 * _UNIT)
    return min(low, float(np.nextafter(1.0 - distance, 0.0)), 1.0)
