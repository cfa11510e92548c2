"""Specification of each model in PyMC: its prior and the log likelihood of its noisy statistic (docs/notes/moments.md).

No other file of this package names specific models. `register_pymc` adds a model of another package.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.distributions.models.base import Model
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.dirichlet_categorical import DirichletCategorical
from privsample.distributions.models.gamma_exponential import GammaExponential
from privsample.distributions.models.gamma_poisson import GammaPoisson
from privsample.distributions.models.moments import NormalUnknownVariance
from privsample.distributions.models.normal_known_variance import NormalKnownVariance
from privsample.distributions.models.regression import LinearRegression
from privsample.distributions.noise import DiscreteGaussianNoise, GaussianNoise, Noise
from privsample.interop import pymc_noise as noisy
from privsample.interop import pymc_terms as terms
from privsample.interop.pymc_terms import LikelihoodGraph, Numbers, import_pymc

_NODES = 1024  # quadrature nodes; half of them are reflections of the others
_SUMMED = "exact: the latent count is summed out"
_WINDOW = f"{_SUMMED}, over a window that loses at most {noisy.MASS_OUTSIDE:g} of the noise"
_LIMIT = "central limit: the statistic of the records is taken to be normal"


class NoisyRelease(Protocol):
    """Protocol of a release of noisy statistics, such as PrivateStatistics."""

    @property
    def model(self) -> Any:
        """The model of the records."""

    @property
    def n(self) -> int:
        """The number of records."""

    @property
    def noise(self) -> Noise:
        """The noise on each coordinate."""

    @property
    def observed(self) -> FloatArray:
        """The noisy statistic, shape (copies, ...)."""


class LikelihoodTerm(NamedTuple):
    """A log likelihood: its graph, whether its noise has Laplace tails, its numbers, and its description."""

    build: LikelihoodGraph
    laplace: bool
    numbers: Numbers
    description: str


class ObservedRelease(NamedTuple):
    """A release in the form used by likelihoods: copies of a count stay separate, other copies are averaged."""

    model: Any
    n: int
    noise: Noise
    copies: FloatArray

    @classmethod
    def of(cls, release: NoisyRelease) -> "ObservedRelease":
        """Average several copies: their mean is sufficient for normal noise. Raises ValueError for other noise."""
        copies, noise = np.asarray(release.observed, dtype=np.float64), release.noise
        one = np.shape(release.model.empty)
        if copies.ndim != 1 + len(one) or copies.shape[1:] != one or not len(copies):
            raise ValueError(f"observed must be of shape (copies, *{one}), got {copies.shape}")
        if len(copies) > 1 and not spec_of(type(release.model)).separate_copies(release.model):
            if not isinstance(noise, GaussianNoise | DiscreteGaussianNoise):
                raise ValueError(f"the release must hold one copy where its noise is {noise.name}, got {len(copies)}")
            noise = GaussianNoise(noise_std=(noise.variance / len(copies)) ** 0.5)
            copies = copies.mean(axis=0, keepdims=True)
        return cls(model=release.model, n=release.n, noise=noise, copies=copies)

    def limit(self, build: LikelihoodGraph, **numbers: Any) -> LikelihoodTerm:
        """Return the central limit likelihood of the single copy, with its noise and numbers of the model."""
        own = {"observed": self.copies.mean(axis=0), "n": self.n, "noise_variance": self.noise.variance}
        return LikelihoodTerm(build, noisy.has_laplace_tails(self.noise), own | numbers, _LIMIT)


def _one(_model: Any) -> int:
    return 1


def _never(_model: Any) -> bool:
    return False


@frozen_value
class ModelSpec:
    """Specification of a class of models in PyMC.

    Parameters
    ----------
    parameters : mapping of str to int
        The number of axes of each parameter of the records' distribution, by name; each axis has length `width`.
    prior_numbers : callable
        From a model to the numbers of its prior, by name.
    prior : callable
        From these numbers as tensors, and the width, to the variables of the parameters, by name, in the order of
        `parameters`; called inside a PyMC model.
    term : callable
        From an `ObservedRelease` to the `LikelihoodTerm` of its noisy statistic: `release.limit(graph, **numbers)` is
        the central limit, and graph(site, numbers, *parameters) its log likelihood.
    width : callable, optional
        From a model to its number of categories or features; by default 1.
    separate_copies : callable, optional
        Whether `term` takes several noisy copies of a statistic separately, because their mean is not sufficient, as
        for a count. By default the copies are averaged.

    Examples
    --------
    >>> import privsample as ps
    >>> from privsample.interop.pymc_models import spec_of
    >>> spec = spec_of(ps.GammaPoisson)
    >>> spec.parameters
    {'rate': 0}
    >>> spec.prior_numbers(ps.GammaPoisson(shape=2, rate=1, upper=5))
    {'shape': 2.0, 'rate': 1.0}
    """

    parameters: Mapping[str, int]
    prior_numbers: Callable[[Any], Numbers]
    prior: Callable[[Numbers, int], dict[str, Any]]
    term: Callable[[ObservedRelease], LikelihoodTerm]
    width: Callable[[Any], int] = _one
    separate_copies: Callable[[Any], bool] = _never


def register_pymc(model_class: type[Model], spec: ModelSpec) -> None:
    """Register a model class of another package, for `PrivateStatistics.mcmc` and `noisy_observation`.

    Parameters
    ----------
    model_class : type
        A subclass of Model.
    spec : ModelSpec
        Specification of its models.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the class already has a different specification.

    Examples
    --------
    Registering the same specification again has no effect.

    >>> import privsample as ps
    >>> from privsample.interop.pymc_models import spec_of
    >>> ps.register_pymc(ps.GammaPoisson, spec_of(ps.GammaPoisson))
    """
    given: Any = model_class
    if not (isinstance(given, type) and issubclass(given, Model)):
        raise TypeError(f"model_class must be a subclass of Model, got {model_class!r}")
    if not isinstance(spec, ModelSpec):
        raise TypeError(f"spec must be a ModelSpec, got {type(spec).__name__}")
    if _SPECS.setdefault(model_class, spec) != spec:
        raise ValueError(f"{model_class.__name__} already has another specification, on which compiled models depend")


def spec_of(kind: type) -> ModelSpec:
    """Return the specification of a class of models. Raises TypeError if it has none."""
    found = _SPECS.get(kind)
    if found is None:
        known = ", ".join(each.__name__ for each in _SPECS)
        raise TypeError(
            f"the release must be of one of the models {known}, got {kind.__name__}; register a model of "
            "another package with register_pymc"
        )
    return found


def count_term(copies: FloatArray, noise: Noise, *, n: int | None) -> LikelihoodTerm:
    """Return the likelihood of noisy copies (k,) of one count: Binomial(n, p), or Poisson(mean) if n is None.

    Raises ValueError for several copies if only the central limit is possible.
    """
    most = np.inf if n is None else float(n)
    counts = noisy.window(copies, noise, most)
    numbers: dict[str, Any] = {} if n is None else {"n": n}
    if counts is None:
        if len(copies) > 1:
            raise ValueError(f"the noise leaves too many counts possible for {len(copies)} copies: release one")
        numbers |= {"observed": copies[0], "noise_variance": noise.variance}
        build: LikelihoodGraph = terms.poisson_limit if n is None else terms.binomial_limit
        return LikelihoodTerm(build, noisy.has_laplace_tails(noise), numbers, _LIMIT)
    own = noisy.poisson_weights(counts) if n is None else noisy.binomial_weights(counts, n)
    numbers |= {"weights": own + np.sum([noise.log_mass(copy - counts) for copy in copies], axis=0), "first": counts[0]}
    build = terms.poisson_count if n is None else terms.binomial_count
    return LikelihoodTerm(build, False, numbers, _SUMMED if len(counts) == most + 1 else _WINDOW)


def _beta_prior(numbers: Numbers, _width: int) -> dict[str, Any]:
    pm, _ = import_pymc()
    return {"theta": pm.Beta("theta", numbers["alpha"], numbers["beta"])}


def _beta(release: ObservedRelease) -> LikelihoodTerm:
    if release.model.fractional:
        raise TypeError("fractional records have no likelihood: use .posterior(), the plug-in posterior")
    return count_term(release.copies, release.noise, n=release.n)


def _dirichlet_prior(numbers: Numbers, width: int) -> dict[str, Any]:
    pm, _ = import_pymc()
    return {"theta": pm.Dirichlet("theta", numbers["alpha"], shape=(width,))}


def _dirichlet(release: ObservedRelease) -> LikelihoodTerm:
    if release.copies.shape[1] == 2:  # the second count is n minus the first, so it is another noisy copy of it
        views = np.concatenate([release.copies[:, 0], release.n - release.copies[:, 1]])
        if noisy.window(views, release.noise, release.n) is not None:
            return count_term(views, release.noise, n=release.n)._replace(build=terms.first_count)
        if len(release.copies) > 1:
            raise ValueError(f"the noise leaves too many counts possible for {len(release.copies)} copies: release one")
    return release.limit(terms.multinomial_limit)


def _gamma_prior(numbers: Numbers, _width: int) -> dict[str, Any]:
    pm, _ = import_pymc()
    unit = pm.Gamma("rate_scaled", numbers["shape"], 1.0)
    return {"rate": pm.Deterministic("rate", unit / numbers["rate"])}


def _normal_prior(numbers: Numbers, _width: int) -> dict[str, Any]:
    pm, _ = import_pymc()
    unit = pm.Normal("mean_scaled")
    return {"mean": pm.Deterministic("mean", numbers["mean"] + numbers["deviation"] * unit)}


def _normal(release: ObservedRelease) -> LikelihoodTerm:
    (low, high), deviation = release.model.bounds, release.model.noise_variance**0.5
    return release.limit(terms.clipped_normal, low=low, high=high, deviation=deviation)


def _conjugate_numbers(model: NormalUnknownVariance | LinearRegression) -> Numbers:
    """The numbers of the prior; `root` is a square root of the coefficients' covariance divided by the variance."""
    distribution = model.posterior(model.empty, 0)
    root: FloatArray = np.linalg.inv(np.asarray(np.linalg.cholesky(distribution.precision))).T
    return {
        "location": np.array(distribution.location),
        "root": root,
        "shape": distribution.shape,
        "scale": distribution.scale,
    }


def _conjugate_prior(numbers: Numbers, size: int) -> tuple[Any, Any]:
    """Return variance and coefficients (size,), by standardized variables: chains start near the prior's centre."""
    pm, tensor = import_pymc()
    unit = pm.InverseGamma("variance_scaled", numbers["shape"], 1.0)
    variance = pm.Deterministic("variance", numbers["scale"] * unit)
    off = pm.Normal("coefficients_scaled", shape=size)
    return variance, numbers["location"] + variance**0.5 * tensor.dot(numbers["root"], off)


def _unknown_prior(numbers: Numbers, _width: int) -> dict[str, Any]:
    pm, _ = import_pymc()
    variance, own = _conjugate_prior(numbers, 1)
    return {"mean": pm.Deterministic("mean", own[0]), "variance": variance}


def _regression_numbers(model: LinearRegression) -> Numbers:
    middles, halves = model.moments.middles[:-1], model.moments.units[:-1] * model.moments.radius
    return {
        **_conjugate_numbers(model),
        "middles": middles,
        "halves": halves,
        "feature_scale": model.feature_prior_scale,
    }


def _regression_prior(numbers: Numbers, width: int) -> dict[str, Any]:
    pm, tensor = import_pymc()
    variance, own = _conjugate_prior(numbers, width + 1)
    middles, halves, size = numbers["middles"], numbers["halves"], numbers["feature_scale"]
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


def _moments(build: LikelihoodGraph) -> Callable[[ObservedRelease], LikelihoodTerm]:
    def term(release: ObservedRelease) -> LikelihoodTerm:
        own = release.model.moments
        numbers = {"middles": own.middles, "units": own.units, "radius": own.radius, "weights": own.weights}
        return release.limit(build, nodes=_nodes(len(own.bounds)), **numbers)

    return term


@cache
def _nodes(width: int) -> FloatArray:
    """Return quasi-random nodes for N(0, I), shape (_NODES, width), with exact first three moments."""
    from scipy.stats import norm, qmc

    even = qmc.Sobol(width, scramble=False).random(_NODES // 2) + 1.0 / _NODES
    points = norm.ppf(even)
    points = np.concatenate([points, -points])
    return np.asarray(points @ np.linalg.inv(np.linalg.cholesky(points.T @ points / len(points))).T)


def _fields(*names: str) -> Callable[[Any], Numbers]:
    return lambda model: {name: getattr(model, name) for name in names}


_SPECS: dict[type, ModelSpec] = {
    BetaBernoulli: ModelSpec(
        parameters={"theta": 0},
        prior_numbers=_fields("alpha", "beta"),
        prior=_beta_prior,
        term=_beta,
        separate_copies=lambda _: True,
    ),
    DirichletCategorical: ModelSpec(
        parameters={"theta": 1},
        width=lambda model: len(model.alpha),
        prior_numbers=_fields("alpha"),
        prior=_dirichlet_prior,
        term=_dirichlet,
        separate_copies=lambda model: len(model.alpha) == 2,
    ),
    GammaPoisson: ModelSpec(
        parameters={"rate": 0},
        prior_numbers=_fields("shape", "rate"),
        prior=_gamma_prior,
        term=lambda release: release.limit(
            terms.clipped_poisson, upper=release.model.upper, counts=np.arange(release.model.upper)
        ),
    ),
    GammaExponential: ModelSpec(
        parameters={"rate": 0},
        prior_numbers=_fields("shape", "rate"),
        prior=_gamma_prior,
        term=lambda release: release.limit(terms.clipped_exponential, upper=release.model.upper),
    ),
    NormalKnownVariance: ModelSpec(
        parameters={"mean": 0},
        prior_numbers=lambda model: {"mean": model.mean, "deviation": model.variance**0.5},
        prior=_normal_prior,
        term=_normal,
    ),
    NormalUnknownVariance: ModelSpec(
        parameters={"mean": 0, "variance": 0},
        prior_numbers=_conjugate_numbers,
        prior=_unknown_prior,
        term=_moments(terms.normal_moments),
    ),
    LinearRegression: ModelSpec(
        parameters={"coefficients": 1, "intercept": 0, "variance": 0, "feature_mean": 1, "feature_root": 2},
        width=lambda model: len(model.feature_bounds),
        prior_numbers=_regression_numbers,
        prior=_regression_prior,
        term=_moments(terms.regression_moments),
    ),
}
