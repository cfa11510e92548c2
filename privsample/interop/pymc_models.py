"""Each model in PyMC: its prior, and the log likelihood of its noisy statistic. docs/notes/moments.md."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.models.families import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalKnownVariance,
)
from privsample.distributions.models.moments import NormalUnknownVariance
from privsample.distributions.models.regression import LinearRegression
from privsample.distributions.noise import DiscreteGaussianNoise, GaussianNoise, Noise
from privsample.interop import pymc_noise as noisy
from privsample.interop import pymc_terms as terms
from privsample.interop.pymc_terms import Build, Numbers, tools

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


class Term(NamedTuple):
    """A log likelihood: the graph, whether its noise has Laplace tails, the numbers in it, and its kind in words."""

    build: Build
    laplace: bool
    numbers: Numbers
    words: str


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
        one = np.shape(release.model.empty)
        if copies.ndim != 1 + len(one) or copies.shape[1:] != one or not len(copies):
            raise ValueError(f"observed must be of shape (copies, *{one}), got {copies.shape}")
        counted = isinstance(release.model, BetaBernoulli | DirichletCategorical) and copies[0].size <= 2
        if len(copies) > 1 and not counted:
            if not isinstance(noise, GaussianNoise | DiscreteGaussianNoise):
                raise ValueError(f"the release must hold one copy where its noise is {noise.name}, got {len(copies)}")
            noise = GaussianNoise(noise_std=(noise.variance / len(copies)) ** 0.5)
            copies = copies.mean(axis=0, keepdims=True)
        return cls(model=release.model, n=release.n, noise=noise, copies=copies)

    def limit(self, build: Build, **numbers: Any) -> Term:
        """The central limit of the one copy, with the noise of its statistic and numbers of the model."""
        own = {"observed": self.copies.mean(axis=0), "n": self.n, "noise_variance": self.noise.variance}
        return Term(build, noisy.laplacian(self.noise), own | numbers, _LIMIT)


class InPyMC(NamedTuple):
    """A model in PyMC.

    parameters: number of axes, by name. width: how many categories or features. numbers: those of the prior, by name.
    prior: (their tensors, width) -> variables by name. term: what the likelihood of a release is.
    """

    parameters: dict[str, int]
    width: Callable[[Any], int]
    numbers: Callable[[Any], Numbers]
    prior: Callable[[Numbers, int], dict[str, Any]]
    term: Callable[[Seen], Term]


def in_pymc(kind: type) -> InPyMC:
    """The entry for a class of models. Raises: TypeError, for one that has none."""
    try:
        return _MODELS[kind]
    except KeyError:
        known = ", ".join(each.__name__ for each in _MODELS)
        raise TypeError(f"the release must be of one of the models {known}, got {kind.__name__}") from None


def count_term(copies: FloatArray, noise: Noise, *, n: int | None) -> Term:
    """Copies (k,) of one count with noise: Binomial(n, p) or, n None, Poisson(mean).

    Raises: ValueError, for more than one copy where the count can only have its central limit.
    """
    most = np.inf if n is None else float(n)
    counts = noisy.window(copies, noise, most)
    numbers: dict[str, Any] = {} if n is None else {"n": n}
    if counts is None:
        if len(copies) > 1:
            raise ValueError(f"the noise leaves too many counts possible for {len(copies)} copies: release one")
        numbers |= {"observed": copies[0], "noise_variance": noise.variance}
        build: Build = terms.poisson_limit if n is None else terms.binomial_limit
        return Term(build, noisy.laplacian(noise), numbers, _LIMIT)
    own = noisy.poisson_weights(counts) if n is None else noisy.binomial_weights(counts, n)
    numbers |= {"weights": own + np.sum([noise.log_mass(copy - counts) for copy in copies], axis=0), "first": counts[0]}
    build = terms.poisson_count if n is None else terms.binomial_count
    return Term(build, False, numbers, _SUMMED if len(counts) == most + 1 else _WINDOW)


def _beta_prior(numbers: Numbers, _width: int) -> dict[str, Any]:
    pm, _ = tools()
    return {"theta": pm.Beta("theta", numbers["alpha"], numbers["beta"])}


def _beta(release: Seen) -> Term:
    if release.model.fractional:
        raise TypeError("fractional records have no likelihood to be aware of: use .posterior(), the plug-in one")
    return count_term(release.copies, release.noise, n=release.n)


def _dirichlet_prior(numbers: Numbers, width: int) -> dict[str, Any]:
    pm, _ = tools()
    return {"theta": pm.Dirichlet("theta", numbers["alpha"], shape=(width,))}


def _dirichlet(release: Seen) -> Term:
    if release.copies.shape[1] == 2:  # the second count is n less the first: one more view of it
        views = np.concatenate([release.copies[:, 0], release.n - release.copies[:, 1]])
        if noisy.window(views, release.noise, release.n) is not None:
            return count_term(views, release.noise, n=release.n)._replace(build=terms.first_share)
        if len(release.copies) > 1:
            raise ValueError(f"the noise leaves too many counts possible for {len(release.copies)} copies: release one")
    return release.limit(terms.multinomial_limit)


def _gamma_prior(numbers: Numbers, _width: int) -> dict[str, Any]:
    pm, _ = tools()
    unit = pm.Gamma("rate_scaled", numbers["shape"], 1.0)
    return {"rate": pm.Deterministic("rate", unit / numbers["rate"])}


def _normal_prior(numbers: Numbers, _width: int) -> dict[str, Any]:
    pm, _ = tools()
    unit = pm.Normal("mean_scaled")
    return {"mean": pm.Deterministic("mean", numbers["mean"] + numbers["deviation"] * unit)}


def _normal(release: Seen) -> Term:
    (low, high), deviation = release.model.bounds, release.model.noise_variance**0.5
    return release.limit(terms.clipped_normal, low=low, high=high, deviation=deviation)


def _conjugate_numbers(model: NormalUnknownVariance | LinearRegression) -> Numbers:
    """location, and a square root of the covariance over the variance, of the coefficients."""
    law = model.posterior(model.empty, 0)
    root: FloatArray = np.linalg.inv(np.asarray(np.linalg.cholesky(law.precision))).T
    return {"location": np.array(law.location), "root": root, "shape": law.shape, "scale": law.scale}


def _conjugate_prior(numbers: Numbers, size: int) -> tuple[Any, Any]:
    """Variance and coefficients (size,). Scaled, none depends on a unit: every chain begins near the prior's middle."""
    pm, tensor = tools()
    unit = pm.InverseGamma("variance_scaled", numbers["shape"], 1.0)
    variance = pm.Deterministic("variance", numbers["scale"] * unit)
    off = pm.Normal("coefficients_scaled", shape=size)
    return variance, numbers["location"] + variance**0.5 * tensor.dot(numbers["root"], off)


def _unknown_prior(numbers: Numbers, _width: int) -> dict[str, Any]:
    pm, _ = tools()
    variance, own = _conjugate_prior(numbers, 1)
    return {"mean": pm.Deterministic("mean", own[0]), "variance": variance}


def _regression_numbers(model: LinearRegression) -> Numbers:
    middles, halves = model.moments.middles[:-1], model.moments.units[:-1] * model.moments.radius
    return {**_conjugate_numbers(model), "middles": middles, "halves": halves, "spread": model.spread}


def _regression_prior(numbers: Numbers, width: int) -> dict[str, Any]:
    pm, tensor = tools()
    variance, own = _conjugate_prior(numbers, width + 1)
    middles, halves, size = numbers["middles"], numbers["halves"], numbers["spread"]
    spread = tensor.diag(size * pm.HalfNormal("feature_scale_scaled", shape=width))
    if width > 1:
        below = np.tril_indices(width, -1)
        cross = size / 2 * pm.Normal("feature_cross_scaled", shape=len(below[0]))
        spread = tensor.set_subtensor(spread[below], cross)
    mean = middles + halves * size * pm.Normal("feature_mean_scaled", shape=width)
    root = tensor.specify_shape(halves[:, None] * spread, (width, width))
    return {
        "coefficients": pm.Deterministic("coefficients", own[:width]),
        "intercept": pm.Deterministic("intercept", own[width]),
        "variance": variance,
        "feature_mean": pm.Deterministic("feature_mean", mean),
        "feature_root": pm.Deterministic("feature_root", root),
    }


def _moments(build: Build) -> Callable[[Seen], Term]:
    def term(release: Seen) -> Term:
        own = release.model.moments
        numbers = {"middles": own.middles, "units": own.units, "radius": own.radius, "weights": own.weights}
        return release.limit(build, nodes=_nodes(len(own.bounds)), **numbers)

    return term


@cache
def _nodes(width: int) -> FloatArray:
    """Points that stand for N(0, I), shape (_NODES, width): evenly spread, their first three moments exact."""
    from scipy.stats import norm, qmc

    even = qmc.Sobol(width, scramble=False).random(_NODES // 2) + 1.0 / _NODES
    points = norm.ppf(even)
    points = np.concatenate([points, -points])
    return np.asarray(points @ np.linalg.inv(np.linalg.cholesky(points.T @ points / len(points))).T)


def _one(_model: Any) -> int:
    return 1


def _fields(*names: str) -> Callable[[Any], Numbers]:
    return lambda model: {name: getattr(model, name) for name in names}


_MODELS: dict[type, InPyMC] = {
    BetaBernoulli: InPyMC({"theta": 0}, _one, _fields("alpha", "beta"), _beta_prior, _beta),
    DirichletCategorical: InPyMC(
        {"theta": 1}, lambda model: len(model.alpha), _fields("alpha"), _dirichlet_prior, _dirichlet
    ),
    GammaPoisson: InPyMC(
        {"rate": 0},
        _one,
        _fields("shape", "rate"),
        _gamma_prior,
        lambda seen: seen.limit(terms.clipped_poisson, upper=seen.model.upper, counts=np.arange(seen.model.upper)),
    ),
    GammaExponential: InPyMC(
        {"rate": 0},
        _one,
        _fields("shape", "rate"),
        _gamma_prior,
        lambda seen: seen.limit(terms.clipped_exponential, upper=seen.model.upper),
    ),
    NormalKnownVariance: InPyMC(
        {"mean": 0},
        _one,
        lambda model: {"mean": model.mean, "deviation": model.variance**0.5},
        _normal_prior,
        _normal,
    ),
    NormalUnknownVariance: InPyMC(
        {"mean": 0, "variance": 0}, _one, _conjugate_numbers, _unknown_prior, _moments(terms.normal_moments)
    ),
    LinearRegression: InPyMC(
        {"coefficients": 1, "intercept": 0, "variance": 0, "feature_mean": 1, "feature_root": 2},
        lambda model: len(model.feature_bounds),
        _regression_numbers,
        _regression_prior,
        _moments(terms.regression_moments),
    ),
}
