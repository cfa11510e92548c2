"""Log likelihoods of noisy statistics in PyTensor: a latent count is summed out, or a sum is taken to be normal.

Kind: exact for counts, up to a truncation of the noise; the central limit is an approximation.
Source: Bernstein and Sheldon 2018 and 2019 (central limit); docs/notes/moments.md.
"""

from typing import Any

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample.distributions.noise import DiscreteLaplaceNoise, LaplaceNoise, Noise

MASS_OUTSIDE = 1e-12  # probability that the noise leaves the window
MAX_COUNTS = 1 << 14  # largest number of counts in a window


def window(copies: FloatArray, noise: Noise, most: float) -> FloatArray | None:
    """Return the counts in {0, ..., most} that are compatible with the noisy copies (k,).

    For each count left out, the probability that the noise leads to the copies is at most MASS_OUTSIDE. A copy outside
    the range is replaced by the nearest possible count, so that the window is never empty. Returns None for more than
    MAX_COUNTS counts, and for counts that floats do not represent exactly.
    """
    reach, nearest = noise.quantile_bound(np.log(MASS_OUTSIDE / len(copies))), np.clip(copies, 0.0, most)
    low, high = max(np.floor(nearest.min() - reach), 0.0), min(np.ceil(nearest.max() + reach), most)
    return np.arange(low, high + 1) if high - low < MAX_COUNTS and high < 2.0**53 else None


def binomial_weights(counts: FloatArray, n: int) -> FloatArray:
    """Return log binomial coefficients of consecutive counts, by their increments, which avoids cancellation."""
    steps = np.log(n - counts[:-1]) - np.log(counts[1:])
    first = special.gammaln(n + 1) - special.gammaln(counts[0] + 1) - special.gammaln(n - counts[0] + 1)
    return np.asarray(first + np.concatenate([[0.0], np.cumsum(steps)]))


def poisson_weights(counts: FloatArray) -> FloatArray:
    """Return -log s! of consecutive counts s."""
    steps = -np.log(counts[1:])
    return np.asarray(np.concatenate([[0.0], np.cumsum(steps)]) - special.gammaln(counts[0] + 1))


def binomial(tensor: Any, weights: Any, first: Any, n: Any, p: Any) -> Any:
    """Return log sum_s e^weights[s] p^s (1 - p)^(n - s) over consecutive counts s from `first`."""
    inside = tensor.clip(p, 1e-300, 1 - 2.0**-53)
    failure = tensor.log1p(-inside)
    return _tilted(tensor, weights, first, tensor.log(inside) - failure) + n * failure


def poisson(tensor: Any, weights: Any, first: Any, mean: Any) -> Any:
    """Return log sum_s e^weights[s] mean^s e^-mean over consecutive counts s from `first`."""
    positive = tensor.maximum(mean, 1e-300)
    return _tilted(tensor, weights, first, tensor.log(positive)) - positive


def _tilted(tensor: Any, weights: Any, first: Any, slope: Any) -> Any:
    """Return log sum_k e^(weights[k] + (first + k) slope); without cancellation or overflow."""
    exponents = weights + tensor.arange(weights.shape[0]) * slope
    largest = exponents.max()
    return largest + tensor.log(tensor.exp(exponents - largest).sum()) + first * slope


def normal(tensor: Any, observed: Any, mean: Any, variance: Any, noise_variance: Any, laplace: bool) -> Any:
    """Return the log density of N(mean, variance) plus normal noise or, with `laplace`, Laplace noise of this variance.

    The density of normal plus Laplace is a sum of two terms in erfcx; each is evaluated in a form that cannot overflow.
    """
    off = observed - mean
    if not laplace:
        total = variance + noise_variance
        return -0.5 * (off**2 / total + tensor.log(2 * np.pi * total))
    scale, deviation = tensor.sqrt(noise_variance / 2), tensor.sqrt(variance)

    def side(z: Any) -> Any:
        """log of e^(-z^2 / (2 variance)) erfcx(x)."""
        x = (deviation / scale - z / deviation) / np.sqrt(2)
        near = -0.5 * z**2 / variance + tensor.log(tensor.erfcx(tensor.maximum(x, 0.0)))
        far = (variance / (2 * scale) - z) / scale + tensor.log(tensor.erfc(tensor.minimum(x, 0.0)))
        return tensor.switch(x >= 0, near, far)

    above, below = side(off), side(-off)
    return tensor.maximum(above, below) + tensor.softplus(-abs(above - below)) - tensor.log(4 * scale)


def correlated(tensor: Any, observed: Any, mean: Any, covariance: Any, noise_variances: Any) -> Any:
    """Return the log density of N(mean (d,), covariance (d, d)) plus independent normal noise of variances (d,)."""
    root = tensor.linalg.cholesky(covariance + tensor.diag(noise_variances))
    scaled = tensor.linalg.solve_triangular(root, observed - mean, lower=True)
    return -0.5 * (scaled**2).sum() - tensor.log(tensor.diagonal(root)).sum() - _half_log_two_pi(observed)


def multinomial(tensor: Any, observed: Any, n: int, p: Any, noise_variances: Any) -> Any:
    """Return `correlated` for multinomial counts, mean n p and covariance n (diag(p) - pp'), in closed form."""
    own = n * p + noise_variances
    off = observed - n * p
    kept = (p * noise_variances / own).sum()  # 1 - n p' diag(own)^-1 p without cancellation
    square = (off**2 / own).sum() + n * ((p * off / own).sum()) ** 2 / kept
    return -0.5 * (square + tensor.log(own).sum() + tensor.log(kept)) - _half_log_two_pi(observed)


def _half_log_two_pi(observed: Any) -> Any:
    """Return log(2 pi)/2 times the number of coordinates."""
    return observed.shape[0] * np.log(2 * np.pi) / 2


def has_laplace_tails(noise: Noise) -> bool:
    """Return whether the noise has Laplace tails."""
    return isinstance(noise, LaplaceNoise | DiscreteLaplaceNoise)
