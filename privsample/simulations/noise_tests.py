"""White-box tests of noise: draws against the law that they are said to have, in shape and in scale."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from privsample._checks import FloatArray, real_array
from privsample.distributions.noise import DiscreteLaplaceNoise, GaussianNoise, LaplaceNoise, Noise

_LEAST = 5.0  # draws that a cell of the test of shape must expect
_TAIL = -40.0  # log probability beyond which a whole number is lumped with the tail


def shape_p_value(law: Noise, draws: ArrayLike) -> float:
    """The p-value of independent draws under the law: Kolmogorov and Smirnov's, or Pearson's for whole numbers.

    draws: at least 100, any shape. Pearson's is for many draws: cells that expect fewer than 5 are joined.
    Raises: ValueError.
    """
    found = _checked(draws)
    if not law.whole:
        return float(stats.kstest(found, lambda x: _below(law, x)).pvalue)
    if np.any(found != np.rint(found)):
        return 0.0
    reach = int(np.ceil(law.reach(_TAIL)))
    ks = np.arange(-reach, reach + 1, dtype=np.float64)
    expected = len(found) * np.exp(law.log_mass(ks))
    inner = expected >= _LEAST
    counts = np.array([(found == k).sum() for k in ks[inner]])
    rare = len(found) - counts.sum(), len(found) - expected[inner].sum()
    if rare[1] >= _LEAST:
        counts, expected = np.append(counts, rare[0]), np.append(expected[inner], rare[1])
    else:  # too few for a cell of their own: joined with the least common
        expected = expected[inner]
        at = int(np.argmin(expected))
        counts[at], expected[at] = counts[at] + rare[0], expected[at] + rare[1]
    return float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1))


def scale_p_value(law: Noise, draws: ArrayLike) -> float:
    """The p-value of the draws' scale under the law, on both sides: exact for continuous laws.

    The sum of |x| / scale of Laplace noise has a Gamma law, that of (x / noise_std)^2 of Gaussian noise a chi-squared
    one; sums of discrete noise are normal in the limit. draws: at least 100, any shape. Raises: ValueError.
    """
    found = _checked(draws)
    n = len(found)
    if isinstance(law, LaplaceNoise):
        total = float((np.abs(found) / law.scale).sum())
        return _two_sided(special.gammainc(n, total), special.gammaincc(n, total))
    if isinstance(law, GaussianNoise):
        total = float(((found / law.noise_std) ** 2).sum()) / 2
        return _two_sided(special.gammainc(n / 2, total), special.gammaincc(n / 2, total))
    sizes = np.abs(found) if isinstance(law, DiscreteLaplaceNoise) else found**2
    reach = int(np.ceil(law.reach(_TAIL)))
    ks = np.arange(-reach, reach + 1, dtype=np.float64)
    mass, values = np.exp(law.log_mass(ks)), np.abs(ks) if isinstance(law, DiscreteLaplaceNoise) else ks**2
    mean = float(mass @ values)
    error = float(np.sqrt(mass @ (values - mean) ** 2 / n))
    z = (float(sizes.mean()) - mean) / error
    return _two_sided(special.ndtr(z), special.ndtr(-z))


def p_value(law: Noise, draws: ArrayLike) -> float:
    """The lesser of the two p-values, doubled: one test of shape and scale together."""
    return min(2 * min(shape_p_value(law, draws), scale_p_value(law, draws)), 1.0)


def _two_sided(below: float, above: float) -> float:
    return float(min(2 * min(below, above), 1.0))


def _below(law: Noise, x: FloatArray) -> FloatArray:
    """The distribution function of a continuous law."""
    if isinstance(law, LaplaceNoise):
        return np.asarray(stats.laplace.cdf(x, scale=law.scale))
    return np.asarray(special.ndtr(x / law.spread))


def _checked(draws: ArrayLike) -> FloatArray:
    found = real_array(draws=draws).ravel()
    if len(found) < 100 or not np.isfinite(found).all():
        raise ValueError(f"draws must be at least 100 finite numbers, got {len(found)}")
    return found
