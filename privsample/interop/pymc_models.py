"""Specification of each model in PyMC: its prior and the distribution of its noisy statistic (docs/notes/moments.md).

No other file of this package names specific models. `register_pymc` adds a model of another package.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

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
from privsample.distributions.noise import Noise
from privsample.interop.pymc_sampling import libraries

Numbers = Mapping[str, Any]
_CATEGORIES = 2  # as many noisy counts are noisy copies of one


class NoisyRelease(Protocol):
    """Protocol of a release of noisy statistics, such as PrivateStatistics."""

    @property
    def model(self) -> Any:
        """The model of the records."""

    @property
    def n(self) -> Any:
        """The number of records; None if it is private, and an array for many groups."""

    @property
    def noise(self) -> Noise:
        """The noise on each coordinate."""

    @property
    def observed(self) -> FloatArray:
        """The noisy statistic, shape (copies, ...)."""


def _one(_model: Any) -> int:
    return 1


def _never(_model: Any) -> bool:
    return False


def _none(_model: Any) -> Numbers:
    return {}


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
    distribution : callable
        Adds the noisy statistic to the open PyMC model, and returns the variable: called as
        distribution(name, parameters, n=..., noise=..., noise_scale=..., observed=..., **constants), with the
        parameters by name, the name of the noise, and tensors. `NoisyCount` of `privsample.pymc` is such a
        distribution.
    constants : callable, optional
        From a model to the numbers that its statistic depends on, such as bounds, by name; by default none.
    width : callable, optional
        From a model to its number of categories or features; by default 1.
    separate_copies : callable, optional
        From a model to whether the distribution takes several noisy copies of a statistic separately, with the argument
        `copies`, because their mean is not sufficient, as for a count. By default the copies are averaged.
    exact : callable, optional
        From (n, name of the noise, noise scale, copies, model) to whether the likelihood is exact; the distribution
        gets this as `exact`. By default the distribution is called without it.

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
    distribution: Callable[..., Any]
    constants: Callable[[Any], Numbers] = _none
    width: Callable[[Any], int] = _one
    separate_copies: Callable[[Any], bool] = _never
    exact: Callable[..., bool] | None = None


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


def observed_release(release: NoisyRelease) -> Any:
    """Return what a release holds for the distribution of its model, as `Released`."""
    from privsample.interop.pymc_distributions.releases import one_release, view

    shown = view(release)
    spec = spec_of(type(shown.model))
    return one_release(shown, separate=spec.separate_copies(shown.model), constants=spec.constants(shown.model))


def _beta_prior(numbers: Numbers, _width: int) -> dict[str, Any]:
    pm, _ = libraries("noise-aware inference")
    return {"theta": pm.Beta("theta", numbers["alpha"], numbers["beta"])}


def _count(name: str, parameters: Mapping[str, Any], **given: Any) -> Any:
    from privsample.interop.pymc_distributions.counts import NoisyCount

    return NoisyCount(name, p=parameters["theta"], **given)


def _count_is_exact(n: int, family: str, scale: float, copies: int, _model: Any) -> bool:
    from privsample.interop.pymc_distributions.windows import is_affordable

    return is_affordable(family, scale, n, copies)


def _dirichlet_prior(numbers: Numbers, width: int) -> dict[str, Any]:
    pm, _ = libraries("noise-aware inference")
    return {"theta": pm.Dirichlet("theta", numbers["alpha"], shape=(width,))}


def _multinomial(name: str, parameters: Mapping[str, Any], **given: Any) -> Any:
    from privsample.interop.pymc_distributions.multinomial import NoisyMultinomial

    return NoisyMultinomial(name, p=parameters["theta"], **given)


def _multinomial_is_exact(n: int, family: str, scale: float, copies: int, model: Any) -> bool:
    from privsample.interop.pymc_distributions.multinomial import is_affordable

    return is_affordable(n, family, scale, len(model.alpha), copies)


def _gamma_prior(numbers: Numbers, _width: int) -> dict[str, Any]:
    pm, _ = libraries("noise-aware inference")
    unit = pm.Gamma("rate_scaled", numbers["shape"], 1.0)
    return {"rate": pm.Deterministic("rate", unit / numbers["rate"])}


def _normal_prior(numbers: Numbers, _width: int) -> dict[str, Any]:
    pm, _ = libraries("noise-aware inference")
    unit = pm.Normal("mean_scaled")
    return {"mean": pm.Deterministic("mean", numbers["mean"] + numbers["deviation"] * unit)}


def _normal_constants(model: NormalKnownVariance) -> Numbers:
    return {"lower": model.bounds[0], "upper": model.bounds[1], "deviation": model.noise_variance**0.5}


def _sum_of(records: Callable[..., Any]) -> Callable[..., Any]:
    """Return the distribution of the sum of clipped records; `records` takes PyMC, the parameters and the constants."""

    def distribution(name: str, parameters: Mapping[str, Any], *, deviation: Any = None, **given: Any) -> Any:
        from privsample.interop.pymc_distributions.sums import NoisySum

        pm, _ = libraries("noise-aware inference")
        own = {} if deviation is None else {"deviation": deviation}
        return NoisySum(name, records=records(pm, **parameters, **own), **given)

    return distribution


def _sum_is_exact(n: int, family: str, scale: float, _copies: int, model: Any) -> bool:
    from privsample.interop.pymc_distributions.sums import is_affordable

    low, high, whole = model.domain.low, model.domain.high, model.domain.integer_valued
    return is_affordable(n, low, high, family=family, scale=scale, integers=whole)


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
    pm, tensor = libraries("noise-aware inference")
    unit = pm.InverseGamma("variance_scaled", numbers["shape"], 1.0)
    variance = pm.Deterministic("variance", numbers["scale"] * unit)
    off = pm.Normal("coefficients_scaled", shape=size)
    return variance, numbers["location"] + variance**0.5 * tensor.dot(numbers["root"], off)


def _unknown_prior(numbers: Numbers, _width: int) -> dict[str, Any]:
    pm, _ = libraries("noise-aware inference")
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
    pm, tensor = libraries("noise-aware inference")
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


def _moments(name: str, parameters: Mapping[str, Any], **given: Any) -> Any:
    from privsample.interop.pymc_distributions.moments import NoisyMoments

    return NoisyMoments(name, **parameters, **given)


def _regression_moments(name: str, parameters: Mapping[str, Any], **given: Any) -> Any:
    from privsample.interop.pymc_distributions.regression import NoisyRegressionMoments

    return NoisyRegressionMoments(name, **parameters, **given)


def _fields(*names: str) -> Callable[[Any], Numbers]:
    return lambda model: {name: getattr(model, name) for name in names}


_SPECS: dict[type, ModelSpec] = {
    BetaBernoulli: ModelSpec(
        parameters={"theta": 0},
        prior_numbers=_fields("alpha", "beta"),
        prior=_beta_prior,
        distribution=_count,
        exact=_count_is_exact,
        separate_copies=lambda _: True,
    ),
    DirichletCategorical: ModelSpec(
        parameters={"theta": 1},
        width=lambda model: len(model.alpha),
        prior_numbers=_fields("alpha"),
        prior=_dirichlet_prior,
        distribution=_multinomial,
        exact=_multinomial_is_exact,
        separate_copies=lambda model: len(model.alpha) == _CATEGORIES,
    ),
    GammaPoisson: ModelSpec(
        parameters={"rate": 0},
        prior_numbers=_fields("shape", "rate"),
        prior=_gamma_prior,
        constants=lambda model: {"lower": 0.0, "upper": model.upper},
        distribution=_sum_of(lambda pm, rate: pm.Poisson.dist(rate)),
        exact=_sum_is_exact,
    ),
    GammaExponential: ModelSpec(
        parameters={"rate": 0},
        prior_numbers=_fields("shape", "rate"),
        prior=_gamma_prior,
        constants=lambda model: {"lower": 0.0, "upper": model.upper},
        distribution=_sum_of(lambda pm, rate: pm.Exponential.dist(rate)),
        exact=_sum_is_exact,
    ),
    NormalKnownVariance: ModelSpec(
        parameters={"mean": 0},
        prior_numbers=lambda model: {"mean": model.mean, "deviation": model.variance**0.5},
        prior=_normal_prior,
        constants=_normal_constants,
        distribution=_sum_of(lambda pm, mean, deviation: pm.Normal.dist(mean, deviation)),
        exact=_sum_is_exact,
    ),
    NormalUnknownVariance: ModelSpec(
        parameters={"mean": 0, "variance": 0},
        prior_numbers=_conjugate_numbers,
        prior=_unknown_prior,
        constants=_fields("bounds"),
        distribution=_moments,
    ),
    LinearRegression: ModelSpec(
        parameters={"coefficients": 1, "intercept": 0, "variance": 0, "feature_mean": 1, "feature_root": 2},
        width=lambda model: len(model.feature_bounds),
        prior_numbers=_regression_numbers,
        prior=_regression_prior,
        constants=_fields("feature_bounds", "target_bounds"),
        distribution=_regression_moments,
    ),
}
