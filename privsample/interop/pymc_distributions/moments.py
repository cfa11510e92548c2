"""Noisy moments of clipped normal records, as a PyMC distribution. docs/notes/moments.md, section 4."""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad

from privsample.distributions.models.moments import NormalUnknownVariance
from privsample.interop.pymc_distributions import noise as noises
from privsample.interop.pymc_distributions.base import NoisyDistribution, NoisyRV, is_positive, is_whole
from privsample.interop.pymc_distributions.checks import positive, whole
from privsample.interop.pymc_distributions.noise import noise_tensor, present_value, tensor_of
from privsample.interop.pymc_distributions.normal_moments import clipped_normal

LIMIT = (
    "central limit: the moments of n clipped records are taken to be normal, with exact means and covariances; for "
    "fewer than about 30 records their squares are not, and ps.infer is exact"
)
_SQUARE = NormalUnknownVariance.example().moments.square
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_AROUND = np.array([0.0, 0.5, 1.5, 3.5, 7.0, 14.0, 25.0, 40.0])  # edges of panels, in scales of the noise
_WITHIN = np.linspace(-9.0, 9.0, 11)  # edges of panels, in standard deviations of the sum


class NoisyMomentsRV(NoisyRV):
    """Sums of u and of 1.5 u^2 over n clipped records scaled to [-1, 1], plus noise on each."""

    extended_signature = "[rng],[size],(),(),(),(b),(m)->[rng],(m)"
    _print_name = ("NoisyMoments", "\\operatorname{NoisyMoments}")

    @classmethod
    def hidden(cls, rng: Any, batch: Any, *params: Any, **_settings: Any) -> tuple[Any, Any]:
        n, mean, variance, bounds = params
        shape = pt.concatenate([pt.maximum(n.max() if n.ndim else n, 1).astype("int64")[None], pt.as_tensor(batch)])
        following, records = noises.sampled(pt.random.normal, mean, pt.sqrt(variance), size=shape, rng=rng)
        u = _scaled(records, bounds[..., 0], bounds[..., 1])
        place = pt.shape_padright(pt.arange(shape[0]), u.type.ndim - 1)
        u = pt.switch(place < n, u, 0.0)
        return following, pt.stack([u.sum(axis=0), _SQUARE * (u**2).sum(axis=0)], axis=-1)

    @classmethod
    def log_density(cls, value: Any, *params: Any, **settings: Any) -> Any:
        n, mean, variance, bounds, scale = params
        first, second, covariance = _moments(mean, variance, bounds)
        variances = [pt.maximum(n * at, 1e-300) for at in covariance[::2]]
        off = value[..., 0] - n * first, value[..., 1] - n * second
        scale = scale[..., 0], scale[..., 1]
        density = _with_normal if settings["family"].endswith("gaussian") else _with_laplace
        return density(off, variances, n * covariance[1], scale, settings["family"])

    @classmethod
    def mean(cls, *params: Any, **_settings: Any) -> Any:
        n, mean, variance, bounds = params[:4]
        first, second, _ = _moments(mean, variance, bounds)
        return pt.stack([n * first, n * second], axis=-1)

    @classmethod
    def in_range(cls, *params: Any, **settings: Any) -> dict[str, Any]:
        n, _mean, variance, bounds = params
        del settings
        ordered = pt.lt(bounds[..., 0], bounds[..., 1])
        return {"n >= 1 and whole": is_whole(n), "variance > 0": is_positive(variance), "lower < upper": ordered}


def _scaled(x: Any, low: Any, high: Any) -> Any:
    """Clip to the bounds and scale to [-1, 1]."""
    return pt.clip((x - (low + high) / 2) / ((high - low) / 2), -1.0, 1.0)


def _moments(mean: Any, variance: Any, bounds: Any) -> tuple[Any, Any, Any]:
    """Means of u and of 1.5 u^2 of one record, and their variances with the covariance between."""
    low, high = bounds[..., 0], bounds[..., 1]
    half = (high - low) / 2
    ends = pt.ones_like(half)
    centre, deviation = (mean - (low + high) / 2) / half, pt.sqrt(pt.maximum(variance, 1e-300)) / half
    u, weights = clipped_normal(centre, deviation, -ends, ends)
    square = _SQUARE * u**2
    first, second = (weights * u).sum(-1), (weights * square).sum(-1)
    a, b = u - first[..., None], square - second[..., None]
    return first, second, [(weights * a * a).sum(-1), (weights * a * b).sum(-1), (weights * b * b).sum(-1)]


def _with_normal(off: Any, variances: Any, covariance: Any, scale: Any, family: str) -> Any:
    """Log density of two correlated normal numbers plus independent normal noise."""
    first, second = (at + noises.variance(family, width) for at, width in zip(variances, scale, strict=True))
    left = second - covariance * (covariance / first)
    rest = off[1] - covariance / first * off[0]
    return -0.5 * (off[0] ** 2 / first + rest**2 / left + pt.log(first) + pt.log(left)) - np.log(2 * np.pi)


def _with_laplace(off: Any, variances: Any, covariance: Any, scale: Any, family: str) -> Any:
    """Log density of two correlated normal numbers plus independent Laplace noise (moments.md, section 4).

    Given the first number, the second has the density of a normal number plus Laplace noise in closed form; the first
    is integrated out by a rule whose panels are narrow near the kink of its noise.
    """
    first, second = variances
    # Laplace noise of the variance of the noise, which may be discrete.
    b = [pt.sqrt(noises.variance(family, width) / 2) for width in scale]
    deviation = pt.sqrt(first)
    reach = first / b[0]  # the noise moves the peak of the integrand by at most this
    around = np.concatenate([-_AROUND[:0:-1], _AROUND])
    places = [off[0][..., None] + b[0][..., None] * around, deviation[..., None] * _WITHIN]
    places += [(sign * reach)[..., None] + deviation[..., None] * _WITHIN for sign in (-1, 1)]
    zero = pt.zeros_like(off[0] + deviation + b[0])[..., None]
    edges = pt.sort(pt.concatenate([place + zero for place in places], axis=-1), axis=-1)
    low, high = (sign * (reach + 9.0 * deviation)[..., None] for sign in (-1, 1))
    edges = disconnected_grad(pt.clip(edges, low, high))
    sizes = edges[..., 1:] - edges[..., :-1]
    z = edges[..., :-1, None] + sizes[..., None] * ((1 + _NODES) / 2)  # off the mean of the first number
    wide = [at[..., None, None] for at in (first, *b, *off, covariance / first)]
    variance, b1, b2, off1, off2, slope = wide
    left = pt.maximum(second - covariance * (covariance / first), 1e-300)[..., None, None]
    terms = -0.5 * z**2 / variance - abs(off1 - z) / b1 - pt.log(2 * b1) - 0.5 * pt.log(2 * np.pi * variance)
    terms = terms + noises.normal_plus_noise("laplace", off2 - slope * z, left, b2)
    largest = disconnected_grad(terms.max(axis=(-1, -2), keepdims=True))
    total = (pt.exp(terms - largest) * sizes[..., None] * (_WEIGHTS / 2)).sum(axis=(-1, -2))
    return pt.log(total) + largest[..., 0, 0]


class NoisyMoments(NoisyDistribution):
    r"""Noisy first and second moments of clipped normal records.

    Each of n independent records, :math:`x_i \sim N(\mu, v)`, is clipped to public bounds and scaled from them to
    :math:`u_i \in [-1, 1]`. The statistic is

    .. math:: \left(\sum_i u_i,\; 1.5 \sum_i u_i^2\right) + \text{noise}.

    Parameters
    ----------
    name : str
        Name of the variable.
    n : int, tensor or array of int
        Public number of records, >= 1. Left out where `observed` is a release.
    mean : tensor or float
        Mean of a record before clipping.
    variance : tensor or float
        Variance of a record before clipping, > 0.
    bounds : pair of float, or array of shape (..., 2)
        Public bounds (low, high) of a record. Left out where `observed` is a release.
    noise : Noise, sequence of Noise or str
        The noise on each sum, or the name of its family with `noise_scale`. Left out where `observed` is a release.
    noise_scale : float or tensor, optional
        Scale parameter of the noise, > 0, if `noise` is a name; of shape (..., 1) or (..., 2) if it differs by group.
    observed : array of shape (..., 2), data or release, optional
        The noisy moments; a release of `NormalUnknownVariance`; or several of them.
    dims : str or tuple of str, optional
        Names of the dimensions: of the groups, and of the two moments.
    **kwargs
        Further arguments of PyMC's distributions, such as `shape`.

    Raises
    ------
    TypeError
        If `noise` is a number.
    ValueError
        If n, the variance, the bounds or the shapes are out of range or contradict the release.

    Notes
    -----
    Bernstein and Sheldon 2018 (central limit). Kind: an approximation by the central limit theorem. Means and
    covariances of the two sums are those of clipped records, to rounding, and Laplace noise is integrated out. For
    fewer than about 30 records the sum of squares is not normal: `privsample.infer` is exact for every n. Drawing from
    the variable holds n records for each pair of moments in memory.

    Examples
    --------
    >>> import pymc as pm
    >>> import privsample as ps
    >>> from privsample.pymc import NoisyMoments
    >>> with pm.Model():
    ...     mean, variance = pm.Normal("mean"), pm.InverseGamma("variance", 3, 2)
    ...     noise = ps.GaussianNoise(noise_std=4.0)
    ...     y = NoisyMoments("y", 200, mean, variance, bounds=(-1, 2), noise=noise, observed=[31.0, 80.2])
    >>> y.eval().shape
    (2,)
    """

    rv_type = NoisyMomentsRV
    rv_op = NoisyMomentsRV.rv_op
    models = (NormalUnknownVariance,)

    @classmethod
    def model_constants(cls, model: Any) -> dict[str, Any]:
        """The bounds of a record."""
        return {"bounds": model.bounds}

    @classmethod
    def support(cls, _tensors: Any, _copies: int | None = None) -> tuple[int | None, ...]:
        """Return the shape of one observation: two moments."""
        return (2,)

    def __new__(
        cls,
        name: str,
        n: Any = None,
        mean: Any = None,
        variance: Any = None,
        *,
        bounds: Any = None,
        noise: Any = None,
        noise_scale: Any = None,
        observed: Any = None,
        dims: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Add the variable to the open model."""
        return cls.add(
            name,
            {"n": n, "mean": mean, "variance": variance, "bounds": bounds},
            noise=noise,
            noise_scale=noise_scale,
            observed=observed,
            dims=dims,
            **kwargs,
        )

    @classmethod
    def dist(
        cls, n: Any, mean: Any, variance: Any, *, bounds: Any, noise: Any, noise_scale: Any = None, **kwargs: Any
    ) -> Any:
        """Return the variable without a model.

        Parameters
        ----------
        n : tensor or numbers
            As for the class.
        mean : tensor or numbers
            As for the class.
        variance : tensor or numbers
            As for the class.
        bounds : tensor or numbers
            As for the class.
        noise : Noise, sequence of Noise or str
            As for the class.
        noise_scale : float or tensor, optional
            As for the class.
        **kwargs
            Further arguments of PyMC's `dist`: `shape` or `size`.

        Returns
        -------
        PyMC variable
            The variable, which belongs to no model.
        """
        n, mean, variance = tensor_of("n", n), tensor_of("mean", mean), tensor_of("variance", variance)
        bounds = tensor_of("bounds", bounds)
        whole("n", n, 1)
        positive("variance", variance)
        check_bounds("bounds", bounds)
        given = noise_tensor(noise, noise_scale)
        scale = one_for_each(given.scale, 2)
        return cls.created(
            NoisyMomentsRV, [n, mean, variance, bounds, scale], likelihood=LIMIT, family=given.family, **kwargs
        )


def check_bounds(what: str, bounds: Any) -> None:
    """Check that the bounds are pairs (low, high), as far as they are known. Raises ValueError."""
    if not bounds.type.ndim or bounds.type.shape[-1] not in {2, None}:
        raise ValueError(f"{what} must be a pair (low, high), got shape {bounds.type.shape}")
    known = present_value(bounds)
    if known is not None and not ((known[..., 0] < known[..., 1]) & np.isfinite(known).all(axis=-1)).all():
        raise ValueError(f"{what} must be finite with low < high, got {known.tolist()}")


def one_for_each(scale: Any, size: int) -> Any:
    """Return the scale of the noise with one value for each of the moments along the last axis."""
    if scale.type.ndim and scale.type.shape[-1] not in {1, None}:
        return scale
    return scale * np.ones(size)
