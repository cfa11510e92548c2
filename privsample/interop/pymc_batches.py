"""Log likelihoods of many releases at once, each with parameters of its own, from the distributions in PyMC.

Simulation-based calibration evaluates them for a thousand simulations side by side. Numbers of records, scales of noise
and bounds are inputs, so that each distribution is compiled once for each family of noise.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.noise import Noise
from privsample.interop.pymc_models import spec_of
from privsample.interop.pymc_sampling import libraries

BatchLikelihood = Callable[[FloatArray, Mapping[str, FloatArray]], FloatArray]


def batch_likelihood(model: Any, n: int, noise: Noise) -> BatchLikelihood:
    """Return the log likelihood of noisy statistics, (simulations, ...), under parameters, name -> (simulations, ...).

    Raises TypeError for a model without a distribution in PyMC, and ImportError without PyMC.
    """
    numbers = {"n": n, "scale": noise.scale_parameter, **_numbers(model)}
    names = tuple(spec_of(type(model)).parameters)
    compiled = _compiled(type(model), noise.name, tuple(numbers))
    constants = [np.asarray(number, dtype=np.float64) for number in numbers.values()]
    return lambda observed, parameters: compiled(observed, *constants, *(parameters[name] for name in names))


def _numbers(model: Any) -> dict[str, Any]:
    """The numbers of the likelihood of this model, besides size and noise."""
    del model
    return {}


@cache
def _compiled(kind: type, family: str, numbers: tuple[str, ...]) -> Callable[..., FloatArray]:
    pm, tensor = libraries("calibration by simulation")
    axes = spec_of(kind).parameters
    observed = tensor.tensor("observed", shape=(None,) * (1 + (kind is not BetaBernoulli)), dtype="float64")
    given = {name: tensor.dscalar(name) for name in numbers}
    parameters = {name: tensor.tensor(name, shape=(None,) * (1 + k), dtype="float64") for name, k in axes.items()}
    logs = pm.logp(_DISTRIBUTIONS[kind](family, given, parameters), observed)
    return _function([observed, *given.values(), *parameters.values()], logs)


def _function(inputs: list[Any], output: Any) -> Callable[..., FloatArray]:
    import pytensor

    return pytensor.function(inputs, output, mode="NUMBA")


def _beta(family: str, given: Mapping[str, Any], parameters: Mapping[str, Any]) -> Any:
    from privsample.interop.pymc_distributions.counts import NoisyCount

    return NoisyCount.dist(given["n"], parameters["theta"], noise=family, noise_scale=given["scale"])


_DISTRIBUTIONS: dict[type, Callable[..., Any]] = {BetaBernoulli: _beta}
