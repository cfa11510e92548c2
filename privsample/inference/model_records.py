"""The distributions of records of the library's models, before clipping, for priors that are stated by name."""

from collections.abc import Callable
from functools import partial
from typing import Any

from privsample.distributions.models.base import Model
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.gamma_exponential import GammaExponential
from privsample.distributions.models.gamma_poisson import GammaPoisson
from privsample.distributions.models.moments import NormalUnknownVariance
from privsample.distributions.models.normal_known_variance import NormalKnownVariance


def records_of(model: Model) -> Callable[..., Any]:
    """The function from the parameters of the model, by name, to the distribution of one record.

    Raises TypeError for a model whose records have no such function.
    """
    match model:
        case BetaBernoulli(fractional=False):
            return _bernoulli
        case GammaExponential():
            return _exponential
        case GammaPoisson():
            return _poisson
        case NormalKnownVariance():
            return partial(_normal, noise_variance=model.noise_variance)
        case NormalUnknownVariance():
            return _normal_moments
    raise TypeError(
        f"records must be given with priors by name for a release of {type(model).__name__}: a function from the "
        "parameters to the distribution of one record"
    )


def _bernoulli(theta: Any) -> Any:
    from scipy import stats

    return stats.bernoulli(theta)


def _exponential(rate: Any) -> Any:
    from scipy import stats

    return stats.expon(scale=1.0 / rate)


def _poisson(rate: Any) -> Any:
    from scipy import stats

    return stats.poisson(rate)


def _normal(mean: Any, *, noise_variance: float) -> Any:
    from scipy import stats

    return stats.norm(mean, noise_variance**0.5)


def _normal_moments(mean: Any, variance: Any) -> Any:
    from scipy import stats

    return stats.norm(mean, variance**0.5)
