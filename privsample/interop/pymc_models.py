"""Each model in PyMC: its prior, and the log likelihood of its noisy statistic. docs/notes/moments.md."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.families import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalKnownVariance,
)
from privsample.distributions.moments import Moments, NormalUnknownVariance
from privsample.distributions.noise import DiscreteGaussianNoise, GaussianNoise, Noise
from privsample.distributions.regression import LinearRegression
from privsample.interop import pymc_noise as noisy
from privsample.interop.pymc_sampling import libraries

_NODES = 1024  # half of them mirror images of the others
_SUMMED = "exact: the latent count is summed out"
_WINDOW = f"{_SUMMED}, over a window that loses at most {noisy.LOST:g} of the noise"
_LIMIT = "central limit: the statistic of the records is taken to be normal"


class NoisyRelease(Protocol):
    """What is needed of a release of NoisyStatistics; a PrivateStatistics is one."""

    @property
    def model(self) -> Any:
        """Of the records."""

    @property
    def n(self) -> int:
        """Their number."""

    @property
    def noise(self) -> Noise:
        """On each coordinate."""

    @property
    def observed(self) -> FloatArray:
        """The statistic with its noise, (copies, ...)."""


class Seen(NamedTuple):
    """A release as the likelihoods take it: copies of a count stay apart, others become one."""

    model: Any
    n: int
    noise: Noise
    copies: FloatArray

    @classmethod
    def of(cls, release: NoisyRelease) -> "Seen":
        """The mean of normal copies says all that they say. Raises: ValueError, for several that are not normal."""
        copies, noise = np.asarray(release.observed, dtype=np.float64), release.noise
        counted = isinstance(release.model, BetaBernoulli | DirichletCategorical) and copies[0].size <= 2
        if len(copies) > 1 and not counted:
            if not isinstance(noise, GaussianNoise | DiscreteGaussianNoise):
                raise ValueError(f"the release must hold one copy where its noise is {noise.name}, got {len(copies)}")
            noise = GaussianNoise(noise_std=(noise.variance / len(copies)) ** 0.5)
            copies = copies.mean(axis=0, keepdims=True)
        return cls(model=release.model, n=release.n, noise=noise, copies=copies)

    @property
    def statistic(self) -> FloatArray:
        """The one copy."""
        return np.asarray(self.copies.mean(axis=0))


class InPyMC(NamedTuple):
    """A model's parameters by name, its prior (name -> variable), and the log likelihood with its kind in words."""

    parameters: tuple[str, ...]
    prior: Callable[..., dict[str, Any]]
    likelihood: Callable[..., tuple[Any, str]]


def in_pymc(model: Any) -> InPyMC:
    """The entry for a model. Raises: TypeError, for one that has none."""
    try:
        return _MODELS[type(model)]
    except KeyError:
        known = ", ".join(kind.__name__ for kind in _MODELS)
        raise TypeError(f"the release must be of one of the models {known}, got {type(model).__name__}") from None


def _tools() -> tuple[Any, Any]:
    return libraries("noise-aware inference")


def count_term(copies: FloatArray, noise: Noise, *, n: int | None, p: Any = None, mean: Any = None) -> tuple[Any, str]:
    """Log likelihood of copies (k,) of one count with noise, and its kind: Binomial(n, p) or, n None, Poisson(mean).

    Raises: ValueError, for more than one copy where the count can only have its central limit.
    """
    _, tensor = _tools()
    most = np.inf if n is None else float(n)
    counts = noisy.window(copies, noise, most)
    if counts is None:
        if len(copies) > 1:
            raise ValueError(f"the noise leaves too many counts possible for {len(copies)} copies: release one")
        average, variance = (mean, mean) if n is None else (n * p, n * p * (1 - p))
        return noisy.normal(tensor, copies[0], average, variance, noise), _LIMIT
    masses = np.sum([noise.log_mass(copy - counts) for copy in copies], axis=0)
    words = _SUMMED if len(counts) == most + 1 else _WINDOW
    if n is None:
        return noisy.poisson(tensor, masses, counts, mean), words
    return noisy.binomial(tensor, masses, counts, n, p), words


def _beta_prior(model: BetaBernoulli) -> dict[str, Any]:
    pm, _ = _tools()
    return {"theta": pm.Beta("theta", model.alpha, model.beta)}


def _beta(_name: str, release: Seen, theta: Any) -> tuple[Any, str]:
    return count_term(release.copies, release.noise, n=release.n, p=theta)


def _dirichlet_prior(model: DirichletCategorical) -> dict[str, Any]:
    pm, _ = _tools()
    return {"theta": pm.Dirichlet("theta", np.array(model.alpha))}


def _dirichlet(name: str, release: Seen, theta: Any) -> tuple[Any, str]:
    pm, tensor = _tools()
    if release.copies.shape[1] == 2:  # the second count is n less the first: one more view of it
        views = np.concatenate([release.copies[:, 0], release.n - release.copies[:, 1]])
        if noisy.window(views, release.noise, release.n) is not None:
            return count_term(views, release.noise, n=release.n, p=theta[0])
        if len(release.copies) > 1:
            raise ValueError(f"the noise leaves too many counts possible for {len(release.copies)} copies: release one")
    observed = release.statistic
    variances = noisy.noise_variances(pm, name, release.noise, len(observed))
    return noisy.multinomial(tensor, observed, release.n, theta, variances), _LIMIT


def _gamma_prior(model: GammaPoisson | GammaExponential) -> dict[str, Any]:
    pm, _ = _tools()
    return {"rate": pm.Gamma("rate", model.shape, model.rate)}


def _poisson(_name: str, release: Seen, rate: Any) -> tuple[Any, str]:
    _, tensor = _tools()
    counts = np.arange(float(release.model.upper))
    masses = tensor.exp(counts * tensor.log(rate) - rate - tensor.gammaln(counts + 1))
    clipped = release.model.upper - counts
    below = (clipped * masses).sum()  # upper - E[record]
    variance = (clipped**2 * masses).sum() - below**2
    return _limit(release, release.model.upper - below, variance)


def _exponential(_name: str, release: Seen, rate: Any) -> tuple[Any, str]:
    _, tensor = _tools()
    reach = rate * release.model.upper
    near, wide = tensor.minimum(reach, 0.01), tensor.maximum(reach, 0.01)
    by_series = near**3 * (1 / 3 - near / 3 + near**2 * 11 / 60 - near**3 * 13 / 180)
    spread = tensor.switch(reach < 0.01, by_series, 1 - tensor.exp(-2 * wide) - 2 * wide * tensor.exp(-wide))
    return _limit(release, -tensor.expm1(-reach) / rate, spread / rate**2)


def _normal_prior(model: NormalKnownVariance) -> dict[str, Any]:
    pm, _ = _tools()
    return {"mean": pm.Normal("mean", model.mean, model.variance**0.5)}


def _normal(_name: str, release: Seen, mean: Any) -> tuple[Any, str]:
    _, tensor = _tools()
    records = tensor.clip(mean + release.model.noise_variance**0.5 * _nodes(1)[:, 0], *release.model.bounds)
    own = records.mean()
    return _limit(release, own, ((records - own) ** 2).mean())


def _limit(release: Seen, mean: Any, variance: Any) -> tuple[Any, str]:
    """Of the sum of n records with this mean and variance."""
    _, tensor = _tools()
    n, observed = release.n, float(release.statistic)
    return noisy.normal(tensor, observed, n * mean, n * tensor.maximum(variance, 1e-300), release.noise), _LIMIT


def _unknown_prior(model: NormalUnknownVariance) -> dict[str, Any]:
    pm, _ = _tools()
    law = model.posterior(model.empty, 0)
    variance = pm.InverseGamma("variance", law.shape, law.scale)
    off = pm.Normal("mean_in_deviations", 0.0, law.precision[0, 0] ** -0.5)
    return {"mean": pm.Deterministic("mean", law.location[0] + variance**0.5 * off), "variance": variance}


def _unknown(name: str, release: Seen, mean: Any, variance: Any) -> tuple[Any, str]:
    records = (mean + variance**0.5 * _nodes(1)[:, 0])[:, None]
    return _moments(name, release, records)


def _regression_prior(model: LinearRegression) -> dict[str, Any]:
    pm, tensor = _tools()
    law, width = model.posterior(model.empty, 0), len(model.feature_bounds)
    variance = pm.InverseGamma("variance", law.shape, law.scale)
    off = pm.Normal("coefficients_in_deviations", shape=width + 1)
    root: FloatArray = np.linalg.inv(np.asarray(np.linalg.cholesky(law.precision))).T
    own = np.array(law.location) + variance**0.5 * tensor.dot(root, off)
    middles, halves = model.moments.middles[:-1], model.moments.units[:-1] * model.moments.radius
    mean = pm.Normal("feature_mean_scaled", 0.0, model.spread, shape=width)
    scale = pm.HalfNormal("feature_scale_scaled", model.spread, shape=width)
    spread = tensor.diag(scale)
    if width > 1:
        below = np.tril_indices(width, -1)
        cross = pm.Normal("feature_cross_scaled", 0.0, model.spread / 2, shape=len(below[0]))
        spread = tensor.set_subtensor(spread[below], cross)
    return {
        "coefficients": pm.Deterministic("coefficients", own[:width]),
        "intercept": pm.Deterministic("intercept", own[width]),
        "variance": variance,
        "feature_mean": pm.Deterministic("feature_mean", middles + halves * mean),
        "feature_root": pm.Deterministic("feature_root", halves[:, None] * spread),
    }


def _regression(
    name: str,
    release: Seen,
    coefficients: Any,
    intercept: Any,
    variance: Any,
    feature_mean: Any,
    feature_root: Any,
) -> tuple[Any, str]:
    _, tensor = _tools()
    nodes = _nodes(len(release.model.feature_bounds) + 1)
    features = feature_mean + tensor.dot(nodes[:, :-1], feature_root.T)
    target = intercept + tensor.dot(features, coefficients) + variance**0.5 * nodes[:, -1]
    return _moments(name, release, tensor.concatenate([features, target[:, None]], axis=1))


def _moments(name: str, release: Seen, records: Any) -> tuple[Any, str]:
    """The central limit of the second moments of clipped records, given one record at each node, (nodes, d)."""
    pm, tensor = _tools()
    moments: Moments = release.model.moments
    scaled = tensor.clip((records - moments.middles) / moments.units, -moments.radius, moments.radius)
    augmented = tensor.concatenate([tensor.ones_like(scaled[:, :1]), scaled], axis=1)
    first, second = (np.eye(len(moments.bounds) + 1)[:, chosen] for chosen in moments.pairs)
    terms = tensor.dot(augmented, first * moments.weights) * tensor.dot(augmented, second)
    mean = terms.mean(axis=0)
    off = terms - mean
    covariance = tensor.dot(off.T, off) / _NODES
    variances = noisy.noise_variances(pm, name, release.noise, len(moments.weights))
    n = release.n
    return noisy.correlated(tensor, release.statistic, n * mean, n * covariance, variances), _LIMIT


@cache
def _nodes(width: int) -> FloatArray:
    """Points that stand for N(0, I), shape (_NODES, width): evenly spread, their first three moments exact."""
    from scipy.stats import norm, qmc

    even = qmc.Sobol(width, scramble=False).random(_NODES // 2) + 1.0 / _NODES
    points = norm.ppf(even)
    points = np.concatenate([points, -points])
    return np.asarray(points @ np.linalg.inv(np.linalg.cholesky(points.T @ points / len(points))).T)


_MODELS: dict[type, InPyMC] = {
    BetaBernoulli: InPyMC(("theta",), _beta_prior, _beta),
    DirichletCategorical: InPyMC(("theta",), _dirichlet_prior, _dirichlet),
    GammaPoisson: InPyMC(("rate",), _gamma_prior, _poisson),
    GammaExponential: InPyMC(("rate",), _gamma_prior, _exponential),
    NormalKnownVariance: InPyMC(("mean",), _normal_prior, _normal),
    NormalUnknownVariance: InPyMC(("mean", "variance"), _unknown_prior, _unknown),
    LinearRegression: InPyMC(
        ("coefficients", "intercept", "variance", "feature_mean", "feature_root"), _regression_prior, _regression
    ),
}
