"""Which mechanism to choose: expected errors at one target and one n, on simulated data. No private data are seen."""

from collections.abc import Callable
from typing import Any

import numpy as np

from privsample._checks import FloatArray, generator, positive_integer
from privsample._value import frozen_value
from privsample.accounting.targets import Target
from privsample.distributions.models.base import Model
from privsample.distributions.parametric.conjugate import PosteriorDistribution
from privsample.errors import UnreachableTarget
from privsample.mechanisms.noise.statistics import NoisyStatistics
from privsample.mechanisms.posterior.conjugate import (
    ConcentratedPosterior,
    DiffusedPosterior,
    DirectPosterior,
    PosteriorMechanism,
)

_LEVELS = (np.arange(32) + 0.5) / 32
Released = Callable[[FloatArray, np.random.Generator], PosteriorDistribution]


@frozen_value
class Comparison:
    """One mechanism at the target: what it releases, how far that is from the true posterior, and from the truth.

    relative_entropy: mean KL(true posterior || released distribution) in nats. error: mean absolute distance of one
    released draw from the parameter that made the data (mean over coordinates). floor: the same for one draw of the
    true posterior. Simulated records are clipped as real ones are, and what that costs is in all numbers. All are NaN
    where the target cannot be met; `reason` then says why.
    """

    name: str
    parameter: str
    amount: float
    relative_entropy: float = np.nan
    error: float = np.nan
    floor: float = np.nan
    reason: str = ""

    @property
    def ratio(self) -> float:
        """error / floor: 1 where privacy costs no accuracy."""
        return self.error / self.floor


def compare(
    *,
    model: Model,
    n: int,
    target: Target,
    draws: int = 1,
    simulations: int = 200,
    rng: np.random.Generator | None = None,
) -> tuple[Comparison, ...]:
    """Compare the posterior mechanisms at one privacy target by their errors on simulated data.

    The direct, diffused and concentrated posterior and two noisy statistics are calibrated to the target. Parameters
    are simulated from the prior and data from the model, the same for every mechanism; no private data are read.

    Parameters
    ----------
    model : Model
        The model with its prior.
    n : int
        Number of records, >= 1, public.
    target : Target
        The privacy target: `DP`, `RDP` or `ZCDP`.
    draws : int, default 1
        Number of draws that together meet the target, >= 1. A noisy statistic is released once for any number of draws,
        because drawing from it is post-processing.
    simulations : int, default 200
        Number of simulated datasets, >= 1.
    rng : numpy.random.Generator, optional
        Generator of the simulations; by default seeded by the operating system.

    Returns
    -------
    tuple of Comparison
        One row for each mechanism, with its calibrated parameter and its errors; NaN if it cannot meet the target.

    Notes
    -----
    A noisy statistic has the noise that suits it (discrete Laplace for counts) or Gaussian noise. It is projected to
    feasible values, and its plug-in posterior is compared. Bernoulli, categorical and Poisson statistics are simulated
    exactly at any n; exponential and normal statistics exactly up to n = 20,000 and by a normal approximation beyond.
    With `fractional` the simulated records are 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> rows = ps.compare(
    ...     model=ps.BetaBernoulli(alpha=6, beta=12),
    ...     n=100,
    ...     target=ps.DP(epsilon=1, delta=1e-6),
    ...     simulations=5,
    ...     rng=np.random.default_rng(1),
    ... )
    >>> [row.name for row in rows]
    ['direct', 'diffused', 'concentrated', 'noisy', 'noisy, Gaussian']
    """
    n, simulations = positive_integer(n=n), positive_integer(simulations=simulations)
    source = generator(rng) if rng is not None else np.random.default_rng()
    found = [_calibrated(name, model, n, target, positive_integer(draws=draws)) for name in _CANDIDATES]
    distributions: dict[str, Released] = {
        row.name: distribution for row, distribution in found if distribution is not None
    }
    entropies = dict.fromkeys(distributions, 0.0)
    errors = dict.fromkeys(["", *distributions], 0.0)
    for _ in range(simulations):
        theta = model.prior.sample(1, source)[0]
        statistic = model.simulate_statistic(theta, n, source)
        posterior = model.posterior(statistic, n)
        errors[""] += _distance(posterior, theta, source) / simulations
        for name, distribution in distributions.items():
            released = distribution(statistic, source)
            entropies[name] += posterior.relative_entropy(released) / simulations
            errors[name] += _distance(released, theta, source) / simulations
    return tuple(_filled(row, entropies, errors) for row, _ in found)


def _distance(distribution: PosteriorDistribution, theta: FloatArray, rng: np.random.Generator) -> float:
    """Expected absolute error of a draw: over evenly spread quantiles; over draws where the parameter is a vector."""
    points = distribution.sample(len(_LEVELS), rng) if distribution.mean.ndim else distribution.quantile(_LEVELS)
    return float(np.abs(points - theta).mean())


def _filled(row: Comparison, entropies: dict[str, float], errors: dict[str, float]) -> Comparison:
    if row.name not in entropies:
        return row
    return Comparison(
        name=row.name,
        parameter=row.parameter,
        amount=row.amount,
        relative_entropy=entropies[row.name],
        error=errors[row.name],
        floor=errors[""],
    )


_CANDIDATES: dict[str, tuple[Any, str, dict[str, str]]] = {
    "direct": (DirectPosterior, "", {}),
    "diffused": (DiffusedPosterior, "data_weight", {}),
    "concentrated": (ConcentratedPosterior, "prior_weight", {}),
    "noisy": (NoisyStatistics, "scale", {}),
    "noisy, Gaussian": (NoisyStatistics, "scale", {"noise": "gaussian"}),
}


def _calibrated(name: str, model: Model, n: int, target: Target, draws: int) -> tuple[Comparison, Released | None]:
    cls, parameter, options = _CANDIDATES[name]
    noisy = cls is NoisyStatistics
    try:
        made = cls.calibrate(model=model, n=n, target=target, draws=1 if noisy else draws, **options)
        distribution = _noisy_law(made) if noisy else _posterior_law(made)
    except UnreachableTarget as error:
        return Comparison(name=name, parameter=parameter, amount=np.nan, reason=str(error)), None
    amount = float(getattr(made, parameter)) if parameter else np.nan
    return Comparison(name=name, parameter=parameter, amount=amount), distribution


def _posterior_law(made: PosteriorMechanism) -> Released:
    weights = {f: getattr(made, f) for f in ("data_weight", "prior_weight") if hasattr(made, f)}

    def distribution(statistic: FloatArray, rng: np.random.Generator) -> PosteriorDistribution:  # noqa: ARG001
        return made.model.posterior(statistic, made.n, **weights)

    return distribution


def _noisy_law(made: NoisyStatistics) -> Released:
    model, n = made.model, made.n

    def distribution(statistic: FloatArray, rng: np.random.Generator) -> PosteriorDistribution:
        noisy = statistic + made.distribution.sample(np.shape(statistic), rng)
        return model.posterior(model.feasible(noisy, n), n)

    return distribution
