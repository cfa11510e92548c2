"""Log likelihoods of many releases at once, each with parameters of its own, from the distributions in PyMC.

Simulation-based calibration evaluates them for a thousand simulations side by side. Numbers of records and scales of
noise are inputs of each compiled graph, except where they are constants that decide whether the likelihood is exact.
"""

import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.dirichlet_categorical import DirichletCategorical
from privsample.distributions.models.gamma_exponential import GammaExponential
from privsample.distributions.models.gamma_poisson import GammaPoisson
from privsample.distributions.models.moments import NormalUnknownVariance
from privsample.distributions.models.normal_known_variance import NormalKnownVariance
from privsample.distributions.models.regression import LinearRegression
from privsample.distributions.noise import Noise
from privsample.interop.pymc_models import spec_of
from privsample.interop.pymc_sampling import libraries, quiet

BatchLikelihood = Callable[[FloatArray, Mapping[str, FloatArray]], FloatArray]


def batch_likelihood(model: Any, n: int, noise: Noise, *, total: bool = False) -> BatchLikelihood:
    """Return the log likelihood of noisy statistics, (simulations, ...), under parameters, name -> (simulations, ...).

    With `total` the sum of Poisson records is one Poisson count, which no bound clips. Raises TypeError for a model
    without a distribution in PyMC, and ImportError without PyMC.
    """
    of_model = {} if total else _NUMBERS.get(type(model), _none)(model)
    numbers = {"n": float(n), "scale": noise.scale_parameter}
    fixed = {} if total else {name: numbers[name] for name in _CONSTANTS.get(type(model), ())}
    names = tuple(spec_of(type(model)).parameters)
    kind: Any = type(model)
    compiled = _compiled(kind, noise.name, tuple({**of_model, **fixed}.items()), total=total)
    inputs = [np.asarray(number) for number in numbers.values()]

    def evaluate(observed: FloatArray, parameters: Mapping[str, FloatArray]) -> FloatArray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Numba says at the first call that it does not cache the function
            return np.asarray(compiled(observed, *inputs, *(parameters[name] for name in names)))

    return evaluate


@lru_cache(maxsize=8)
def _compiled(
    kind: Any, family: str, fixed: tuple[tuple[str, float], ...], *, total: bool
) -> Callable[..., FloatArray]:
    pm, tensor = libraries("calibration by simulation")
    import pytensor

    spec, (build, axes) = spec_of(kind), (_total, 0) if total else _DISTRIBUTIONS[kind]
    observed = tensor.tensor("observed", shape=(None,) * (1 + axes), dtype="float64")
    parameters = {
        name: tensor.tensor(name, shape=(None,) * (1 + axes), dtype="float64") for name, axes in spec.parameters.items()
    }
    inputs = {name: tensor.dscalar(name) for name in ("n", "scale")}
    with quiet():
        logs = pm.logp(build(family, inputs | dict(fixed), parameters), observed)
        return pytensor.function(
            [observed, *inputs.values(), *parameters.values()], logs, mode="NUMBA", on_unused_input="ignore"
        )


def _none(_model: Any) -> dict[str, Any]:
    return {}


def _bounds(model: Any) -> dict[str, Any]:
    low, high = model.bounds
    return {"lower": low, "upper": high}


_NUMBERS: dict[type, Callable[[Any], dict[str, Any]]] = {
    DirichletCategorical: lambda model: {"categories": len(model.alpha)},
    GammaPoisson: lambda model: {"lower": 0.0, "upper": model.upper},
    GammaExponential: lambda model: {"lower": 0.0, "upper": model.upper},
    NormalKnownVariance: lambda model: {**_bounds(model), "deviation": model.noise_variance**0.5},
    NormalUnknownVariance: _bounds,
    LinearRegression: lambda model: {
        "lower": model.target_bounds[0],
        "upper": model.target_bounds[1],
        "feature_lower": model.feature_bounds[0][0],
        "feature_upper": model.feature_bounds[0][1],
    },
}


def _noise(family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {"noise": family, "noise_scale": given["scale"]}


def _count(family: str, given: Mapping[str, Any], parameters: Mapping[str, Any]) -> Any:
    from privsample.interop.pymc_distributions.counts import NoisyCount

    return NoisyCount.dist(given["n"], parameters["theta"], **_noise(family, given))


def _total(family: str, given: Mapping[str, Any], parameters: Mapping[str, Any]) -> Any:
    from privsample.interop.pymc_distributions.counts import NoisyPoisson

    return NoisyPoisson.dist(given["n"] * parameters["rate"], **_noise(family, given))


def _counts(family: str, given: Mapping[str, Any], parameters: Mapping[str, Any]) -> Any:
    from privsample.interop.pymc_distributions.multinomial import NoisyMultinomial

    _, tensor = libraries("calibration by simulation")
    theta = tensor.specify_shape(parameters["theta"], (None, int(given["categories"])))
    return NoisyMultinomial.dist(given["n"], theta, **_noise(family, given))


def _sum(records: Callable[..., Any]) -> Callable[..., Any]:
    def build(family: str, given: Mapping[str, Any], parameters: Mapping[str, Any]) -> Any:
        from privsample.interop.pymc_distributions.sums import NoisySum

        pm, _ = libraries("calibration by simulation")
        return NoisySum.dist(
            given["n"],
            records(pm, given, parameters),
            lower=given["lower"],
            upper=given["upper"],
            **_noise(family, given),
        )

    return build


def _moments(family: str, given: Mapping[str, Any], parameters: Mapping[str, Any]) -> Any:
    from privsample.interop.pymc_distributions.moments import NoisyMoments

    bounds = (given["lower"], given["upper"])
    return NoisyMoments.dist(given["n"], **parameters, bounds=bounds, **_noise(family, given))


def _regression(family: str, given: Mapping[str, Any], parameters: Mapping[str, Any]) -> Any:
    from privsample.interop.pymc_distributions.regression import NoisyRegressionMoments

    return NoisyRegressionMoments.dist(
        given["n"],
        **parameters,
        feature_bounds=((given["feature_lower"], given["feature_upper"]),),
        target_bounds=(given["lower"], given["upper"]),
        **_noise(family, given),
    )


_CONSTANTS: dict[type, tuple[str, ...]] = {
    DirichletCategorical: ("n", "scale"),
    GammaPoisson: ("n",),
    GammaExponential: ("n",),
    NormalKnownVariance: ("n",),
}
# The distribution of each model, and the number of axes of its statistic.
_DISTRIBUTIONS: dict[type, tuple[Callable[..., Any], int]] = {
    BetaBernoulli: (_count, 0),
    DirichletCategorical: (_counts, 1),
    GammaPoisson: (_sum(lambda pm, _, of: pm.Poisson.dist(of["rate"])), 0),
    GammaExponential: (_sum(lambda pm, _, of: pm.Exponential.dist(of["rate"])), 0),
    NormalKnownVariance: (_sum(lambda pm, given, of: pm.Normal.dist(of["mean"], given["deviation"])), 0),
    NormalUnknownVariance: (_moments, 1),
    LinearRegression: (_regression, 1),
}
