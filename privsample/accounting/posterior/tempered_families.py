"""The one-parameter exponential families of tempered posteriors, by model (tempered.md, section 4, first table)."""

import numpy as np
from scipy import special

from privsample.accounting.posterior.neighbouring import NeighbouringFamily
from privsample.accounting.posterior.truncated import (
    ExponentialPotential,
    LogarithmicPotential,
    LogisticPotential,
    Potential,
    SquarePotential,
    TruncatedFamily,
)
from privsample.distributions.models.base import Model
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.gamma_exponential import GammaExponential
from privsample.distributions.models.gamma_poisson import GammaPoisson
from privsample.distributions.models.normal_known_variance import NormalKnownVariance
from privsample.distributions.parametric.truncated import tempered_shape

_NARROWEST = 1e-5  # relative width below which the interval of y has too few digits
_UP = 1.0 + 2.0**-49  # rounds the step between neighbours up, which increases the divergence
_ULP = float(np.finfo(np.float64).eps)


def neighbouring_family(
    model: Model, n: int, temperature: float, bounds: tuple[float, float], group_size: int
) -> NeighbouringFamily | None:
    """All pairs of neighbours that differ in `group_size` records; None if posteriors are no one-parameter family."""
    low, high = bounds
    rest, step = float(n - group_size), group_size / temperature
    match model.as_bernoulli:
        case BetaBernoulli(alpha=alpha, beta=beta, fractional=fractional):
            a, b = tempered_shape(alpha, temperature), tempered_shape(beta, temperature)
            potential: Potential = LogisticPotential(weight=a + b + n / temperature)
            low, high = float(special.logit(low)), float(special.logit(high))
            first, reach, whole, sizes = a, 1.0, not fractional, a + b
        case GammaPoisson(shape=shape, rate=rate, upper=upper):
            potential = ExponentialPotential(weight=(rate + n) / temperature)
            low, high = float(np.log(low)), float(np.log(high))
            first, reach, whole = tempered_shape(shape, temperature), 1.0, True
            rest, step, sizes = rest * upper, step * upper, first
        case GammaExponential(shape=shape, rate=rate, upper=upper):
            potential = LogarithmicPotential(weight=(shape + (n - 1)) / temperature)
            first, reach, whole = -(rate + n * upper) / temperature, upper, False
            step, sizes = step * upper, -first
        case NormalKnownVariance(mean=mean, variance=variance, noise_variance=noise, bounds=(least, most)):
            potential = SquarePotential(weight=(1 / variance + n / noise) / temperature)
            reach, whole = (most - least) / noise, False
            first = (mean / variance + n * (least / noise)) / temperature
            step, sizes = step * reach, (abs(mean) / variance + n * abs(least / noise)) / temperature
        case _:
            return None
    if not high - low > _NARROWEST * max(abs(low), abs(high), _NARROWEST):
        return None
    unit = reach / temperature
    slopes = float(np.abs(potential.slope(np.array([low, high]))).max())
    return NeighbouringFamily(
        family=TruncatedFamily(potential=potential, low=low, high=high),
        first=first,
        unit=unit,
        last=rest,
        integer_valued=whole,
        jump=step * _UP,
        rounding=16 * _ULP * (sizes + unit * rest + step + slopes),
    )
