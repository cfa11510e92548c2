"""An exact test that numbers are uniform on [0, 1], and the envelope of their empirical distribution function.

Säilynoja, Bürkner and Vehtari 2022; docs/notes/calibration.md, section 3. A sample is rejected at a level exactly if
its empirical distribution function leaves the envelope of that level.
"""

import numpy as np
from scipy import optimize, stats

from privsample._checks import FloatArray

POINTS = 64  # equal parts of [0, 1], between which the empirical distribution function is compared
_RESOLVED = 1e-10  # smaller pointwise levels are turned into p-values by the union bound


def counts_below(numbers: FloatArray) -> FloatArray:
    """How many of the numbers, shape (size,), are at most k / POINTS, k = 0, ..., POINTS."""
    inner = np.searchsorted(np.sort(numbers), np.arange(1, POINTS) / POINTS, side="right")
    return np.concatenate([[0.0], inner, [len(numbers)]])


def p_value(counts: FloatArray) -> float:
    """The p-value of the hypothesis that the counts are those of independent uniform numbers on [0, 1]."""
    size, below = int(counts[-1]), counts[1:-1]
    chances = np.arange(1, POINTS) / POINTS
    tails = np.minimum(stats.binom.cdf(below, size, chances), stats.binom.sf(below - 1, size, chances))
    return _exceeded(min(1.0, 2 * float(tails.min())), size)


def ecdf_difference(counts: FloatArray) -> FloatArray:
    """The empirical distribution function minus the uniform one at k / POINTS, k = 0, ..., POINTS."""
    return np.asarray(counts / counts[-1] - _places())


def envelope(size: int, level: float) -> tuple[FloatArray, FloatArray]:
    """Bounds of `ecdf_difference`, which `size` uniform numbers leave anywhere with at most probability `level`."""
    log_pointwise = optimize.brentq(
        lambda x: _exceeded(float(np.exp(x)), size) - level, np.log(level / (2 * POINTS)), np.log(level), xtol=1e-3
    )
    low, high = _band(float(np.exp(log_pointwise - 1e-3)), size)
    ends = np.zeros(1), np.full(1, float(size))
    low, high = (np.concatenate([ends[0], each, ends[1]]) for each in (low, high))
    return low / size - _places(), high / size - _places()


def _places() -> FloatArray:
    return np.arange(POINTS + 1) / POINTS


def _band(pointwise: float, size: int) -> tuple[FloatArray, FloatArray]:
    """The least and the largest count at each inner point whose two-sided pointwise p-value exceeds `pointwise`."""
    chances = np.arange(1, POINTS) / POINTS
    low = stats.binom.ppf(pointwise / 2, size, chances)  # the smallest count with P(count or less) >= pointwise / 2
    low += stats.binom.cdf(low, size, chances) <= pointwise / 2
    high = size - low[::-1]  # the binomial distributions at k / POINTS and 1 - k / POINTS mirror each other
    return low, high


def _exceeded(pointwise: float, size: int) -> float:
    """P(the least pointwise p-value of uniform numbers is at most `pointwise`), an upper bound below 1e-8.

    The counts in the parts of [0, 1] are independent Poisson variables, given that their sum is `size`.
    """
    union = min(1.0, (POINTS - 1) * pointwise)
    if pointwise < _RESOLVED:
        return union
    low, high = _band(pointwise, size)
    low, high = np.append(low, size).astype(int), np.append(high, size).astype(int)
    steps = stats.poisson.pmf(np.arange(size + 1), size / POINTS)
    chance, start = np.ones(1), 0  # of each count from `start` on, with all counts so far in their bounds
    for least, most in zip(low.tolist(), high.tolist(), strict=True):
        if most < least:
            return 1.0
        reached = np.convolve(chance, steps[: most - start + 1])
        chance = reached[max(least - start, 0) : most - start + 1]
        start = int(max(least, start))
    inside = float(chance[-1] / stats.poisson.pmf(size, size))
    return min(max(1.0 - inside, 0.0), union)
