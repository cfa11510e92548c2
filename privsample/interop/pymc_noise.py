"""Log likelihoods of noisy statistics in PyTensor: a latent count summed out, or the central limit of a sum.

Kind: exact up to a stated window for counts; the central limit is an approximation, and is called so where it is used.
Source: Bernstein and Sheldon 2018 and 2019 (central limit); docs/notes/moments.md.
"""

from typing import Any

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample.distributions.noise import DiscreteLaplaceNoise, LaplaceNoise, Noise

LOST = 1e-12  # chance that the noise leaves the window
LARGEST = 1 << 14  # values in a window


def window(copies: FloatArray, noise: Noise, most: float) -> FloatArray | None:
    """The counts in {0, ..., most} from which noise leads to the copies (k,), but for the chance LOST for each count.

    Around the nearest possible counts, where the noise has carried a copy out of the range: all that a window around
    the copy holds, and never nothing. None, if there are more than LARGEST, or some that
    a float cannot tell apart.
    """
    reach, nearest = noise.reach(np.log(LOST / len(copies))), np.clip(copies, 0.0, most)
    low, high = max(np.floor(nearest.min() - reach), 0.0), min(np.ceil(nearest.max() + reach), most)
    return np.arange(low, high + 1) if high - low < LARGEST and high < 2.0**53 else None


def binomial_weights(counts: FloatArray, n: int) -> FloatArray:
    """Log binomial coefficients of consecutive `counts`: their steps are exact where they are huge."""
    steps = np.log(n - counts[:-1]) - np.log(counts[1:])
    first = special.gammaln(n + 1) - special.gammaln(counts[0] + 1) - special.gammaln(n - counts[0] + 1)
    return np.asarray(first + np.concatenate([[0.0], np.cumsum(steps)]))


def poisson_weights(counts: FloatArray) -> FloatArray:
    """-log s! of consecutive `counts` s."""
    steps = -np.log(counts[1:])
    return np.asarray(np.concatenate([[0.0], np.cumsum(steps)]) - special.gammaln(counts[0] + 1))


def binomial(tensor: Any, weights: Any, first: Any, n: Any, p: Any) -> Any:
    """log of sum_s e^weights[s] p^s (1 - p)^(n - s), s over consecutive counts from `first`."""
    inside = tensor.clip(p, 1e-300, 1 - 2.0**-53)
    failure = tensor.log1p(-inside)
    return _tilted(tensor, weights, first, tensor.log(inside) - failure) + n * failure


def poisson(tensor: Any, weights: Any, first: Any, mean: Any) -> Any:
    """log of sum_s e^weights[s] mean^s e^-mean, s over consecutive counts from `first`."""
    positive = tensor.maximum(mean, 1e-300)
    return _tilted(tensor, weights, first, tensor.log(positive)) - positive


def _tilted(tensor: Any, weights: Any, first: Any, slope: Any) -> Any:
    """log sum_k e^(weights[k] + (first + k) slope), without the cancellation of large first or the overflow of exp."""
    exponents = weights + tensor.arange(weights.shape[0]) * slope
    largest = exponents.max()
    return largest + tensor.log(tensor.exp(exponents - largest).sum()) + first * slope


def normal(tensor: Any, observed: Any, mean: Any, variance: Any, noise_variance: Any, laplace: bool) -> Any:
    """log density of N(mean, variance) plus normal noise or, with `laplace`, Laplace noise of this variance.

    Normal plus Laplace has a closed form in erfcx, whose two terms are written so that neither overflows.
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
    """log density of N(mean, covariance) plus independent normal noise, all of shape (d,) but the covariance (d, d)."""
    root = tensor.linalg.cholesky(covariance + tensor.diag(noise_variances))
    scaled = tensor.linalg.solve_triangular(root, observed - mean, lower=True)
    return -0.5 * (scaled**2).sum() - tensor.log(tensor.diagonal(root)).sum() - _half_log_two_pi(observed)


def multinomial(tensor: Any, observed: Any, n: int, p: Any, noise_variances: Any) -> Any:
    """`correlated` with the mean and covariance of multinomial counts, n p and n (diag(p) - pp'), in closed form."""
    own = n * p + noise_variances
    off = observed - n * p
    kept = (p * noise_variances / own).sum()  # 1 - n p' diag(own)^-1 p without cancellation
    square = (off**2 / own).sum() + n * ((p * off / own).sum()) ** 2 / kept
    return -0.5 * (square + tensor.log(own).sum() + tensor.log(kept)) - _half_log_two_pi(observed)


def _half_log_two_pi(observed: Any) -> Any:
    """log(2 pi)/2 for each coordinate."""
    return observed.shape[0] * np.log(2 * np.pi) / 2


def laplacian(noise: Noise) -> bool:
    """Whether the noise has Laplace tails."""
    return isinstance(noise, LaplaceNoise | DiscreteLaplaceNoise)
