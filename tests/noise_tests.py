"""Tests of noise with a known distribution: shape and scale of draws."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from privsample._checks import FloatArray, real_array
from privsample.distributions.noise import DiscreteLaplaceNoise, LaplaceNoise, Noise

_LEAST = 20.0  # minimum expected count of a cell of the chi-squared test
_SMOOTH = 10.0  # minimum shape parameter at which the Gamma approximation of the sum is accurate
_TAIL = -40.0  # log probability at which the support is truncated
_WIDE = 1e4  # spread above which the continuous distribution, at half-integers, is accurate to 1e-8
_ACROSS = 50  # maximum number of cells per spread


def shape_p_value(distribution: Noise, draws: ArrayLike) -> float:
    """Return the p-value of independent draws: Kolmogorov-Smirnov test, or Pearson's chi-squared test of integers.

    draws: at least 100, any shape. For the chi-squared test, adjacent cells are merged up to an expected count of 20.
    Raises: ValueError.
    """
    found = _checked_draws(draws)
    if not distribution.integer_valued:
        return float(stats.kstest(found, lambda x: _cumulative(distribution, x)).pvalue)
    if np.any(found != np.rint(found)):
        return 0.0
    starts, below = _cells(distribution)
    below, inner, last = len(found) * below, [], 0.0
    while (at := int(np.searchsorted(below, last + _LEAST))) < len(below) and below[at] <= len(found) - _LEAST:
        inner.append(at)
        last = below[at]
    if not inner:
        raise ValueError(f"{len(found)} draws are too few to test the shape of noise that is nearly always 0")
    expected = np.diff(below[inner], prepend=0.0, append=len(found))
    counts = np.diff(np.searchsorted(np.sort(found), starts[inner]), prepend=0, append=len(found))
    return float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1))


def scale_p_value(distribution: Noise, draws: ArrayLike) -> float:
    """Return the two-sided p-value of the scale of draws; exact for continuous distributions.

    The sum of |x| of Laplace noise has a Gamma distribution, and so has that of x^2 of Gaussian noise; sums of discrete
    noise are approximated by the Gamma distribution of equal mean, variance and skewness, their limit for many draws.
    draws: at least 100, any shape. Raises: ValueError.
    """
    found = _checked_draws(draws)
    power = 1 if isinstance(distribution, LaplaceNoise | DiscreteLaplaceNoise) else 2
    mean, variance, third = _moments(distribution, power)
    shape = 4 * len(found) * variance**3 / third**2 if third > 0.0 else 0.0
    if not shape >= _SMOOTH:
        raise ValueError(f"{len(found)} draws are too few to test the scale of noise that is nearly always 0")
    excess = float(((np.abs(found) / distribution.scale_parameter) ** power).mean()) - mean
    total = max(shape + excess * np.sqrt(len(found) / variance * shape), 0.0)
    below, above = special.gammainc(shape, total), special.gammaincc(shape, total)
    return float(min(2 * min(below, above), 1.0))


def p_value(distribution: Noise, draws: ArrayLike) -> float:
    """Return twice the smaller p-value: a joint test of shape and scale. Raises: ValueError."""
    return min(2 * min(shape_p_value(distribution, draws), scale_p_value(distribution, draws)), 1.0)


def _cells(distribution: Noise) -> tuple[FloatArray, FloatArray]:
    """Return possible lower ends of cells and the probability below each."""
    reach = int(np.ceil(distribution.quantile_bound(_TAIL)))
    starts = np.arange(-reach, reach + 2, max(int(distribution.scale_parameter) // _ACROSS, 1), dtype=np.float64)
    if distribution.scale_parameter > _WIDE:
        return starts, _cumulative(distribution, starts - np.float64(0.5))
    masses = np.exp(distribution.log_mass(np.arange(-reach, reach + 1, dtype=np.float64)))
    return starts, np.append(0.0, np.cumsum(masses))[(starts + reach).astype(np.int64)]


def _moments(distribution: Noise, power: int) -> tuple[float, float, float]:
    """Mean, variance and third central moment of (|x| / spread)^power."""
    if not distribution.integer_valued or distribution.scale_parameter > _WIDE:
        return (1.0, 1.0, 2.0) if power == 1 else (1.0, 2.0, 8.0)
    reach = int(np.ceil(distribution.quantile_bound(_TAIL)))
    ks = np.arange(-reach, reach + 1, dtype=np.float64)
    masses, values = np.exp(distribution.log_mass(ks)), (np.abs(ks) / distribution.scale_parameter) ** power
    mean = float(masses @ values)
    return mean, float(masses @ (values - mean) ** 2), float(masses @ (values - mean) ** 3)


def _cumulative(distribution: Noise, x: FloatArray) -> FloatArray:
    """The distribution function of a continuous distribution, or of the one that a discrete distribution is named
    after.
    """
    if isinstance(distribution, LaplaceNoise | DiscreteLaplaceNoise):
        return np.asarray(stats.laplace.cdf(x, scale=distribution.scale))
    return np.asarray(special.ndtr(x / distribution.scale_parameter))


def _checked_draws(draws: ArrayLike) -> FloatArray:
    found = real_array(draws=draws).ravel()
    if len(found) < 100 or not np.isfinite(found).all():
        raise ValueError(f"draws must be at least 100 finite numbers, got {len(found)}")
    return found
