"""Which mechanism to choose: expected errors at one target and one n, on simulated data. No private data are seen."""

from dataclasses import replace

import numpy as np

from privsample._checks import FloatArray, flag, generator, positive_integer
from privsample.accounting.targets import Target, check_target
from privsample.comparison.candidates import Drawable, candidates
from privsample.comparison.table import Comparison, ComparisonTable, comparison_table, standard_error
from privsample.distributions.models.base import Model
from privsample.distributions.parametric.conjugate import Beta, Gamma, Normal, PosteriorDistribution
from privsample.distributions.parametric.truncated import TruncatedDistribution

_LEVELS = (np.arange(32) + 0.5) / 32
_FINE = (np.arange(256) + 0.5) / 256


def compare(
    *,
    model: Model,
    n: int,
    target: Target,
    draws: int = 1,
    simulations: int = 200,
    plug_in: bool = False,
    rng: np.random.Generator | None = None,
) -> ComparisonTable:
    """Compare the mechanisms that release a model's posterior by their errors at one target, on simulated data.

    The direct, diffused, concentrated and tempered posteriors, two noisy statistics and, for categories, randomized
    response are calibrated to the target. Parameters are simulated from the prior and data from the model, the same for
    every mechanism; no private data are read.

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
    plug_in : bool, default False
        Use the plug-in posterior of every noisy statistic. By default the noise-aware posterior is used where it
        exists, as an analyst would, up to 10 million records; for clipped sums it takes about a second for each
        dataset.
    rng : numpy.random.Generator, optional
        Generator of the simulations; by default seeded by the operating system.

    Returns
    -------
    ComparisonTable
        One row for each mechanism, with its calibrated parameter, its errors and their standard errors; NaN if it
        cannot meet the target or does not apply to the model, with the reason. `best` is the row with the smallest
        error, `rivals` are those within chance of it, and `statement.sentence` says so in words. `print(table)` shows
        all of it, and `table.plot()` the errors.

    Raises
    ------
    TypeError
        If `model` is not a model, `target` is not a target, or `rng` is not a generator.
    ValueError
        If a number is below 1.

    Notes
    -----
    A noisy statistic has the noise that suits it (discrete Laplace for counts) or Gaussian noise. The tempered
    posterior is truncated to the central 99 percent of the prior. Randomized response needs no trusted curator; its
    plug-in posterior is that of the estimated frequencies. Bernoulli, categorical and Poisson statistics are simulated
    exactly at any n; exponential and normal statistics exactly up to n = 20,000 and by a normal approximation beyond.
    With `fractional` the simulated records are 0 and 1. The true posterior, from which distances are measured, ignores
    that records were clipped. A noise-aware posterior models the clipping: where many records are clipped, it is far
    from the true posterior, and its error is smaller. A mechanism is within chance of the best if its error, over the
    same data, is larger by at most three standard errors of the difference.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> table = ps.compare(
    ...     model=ps.BetaBernoulli(alpha=6, beta=12),
    ...     n=100,
    ...     target=ps.DP(epsilon=1, delta=1e-6),
    ...     simulations=5,
    ...     rng=np.random.default_rng(1),
    ... )
    >>> [row.name for row in table][:4]
    ['direct', 'diffused', 'concentrated', 'tempered']
    >>> table.best.name in table.statement.sentence
    True
    """
    n, simulations = positive_integer(n=n), positive_integer(simulations=simulations)
    draws, plug_in = positive_integer(draws=draws), flag(plug_in=plug_in)
    source = generator(rng) if rng is not None else np.random.default_rng()
    if not isinstance(model, Model):
        raise TypeError(f"model must be one of privsample's models, got {type(model).__name__}")
    check_target(target)
    found = candidates(model, n, target, draws, plug_in=plug_in)
    offered = {row.name: candidate for row, candidate in found if candidate is not None}
    entropies = {name: np.empty(simulations) for name in offered}
    errors = {name: np.empty(simulations) for name in offered}
    floor = np.empty(simulations)
    for k in range(simulations):
        theta = model.prior.sample(1, source)[0]
        statistic = model.simulate_statistic(theta, n, source)
        posterior = model.posterior(statistic, n)
        floor[k] = _distance(posterior, theta, source)
        for name, candidate in offered.items():
            released = candidate(statistic, source)
            entropies[name][k] = _relative_entropy(posterior, released, source)
            errors[name][k] = _distance(released, theta, source)
    rows = [
        row if candidate is None else _with_entropy(row, entropies[row.name], float(floor.mean()), candidate.inference)
        for row, candidate in found
    ]
    count = f"{draws} draws" if draws > 1 else "one draw"
    title = f"{target.description}, {count} from n = {n} simulated records"
    return comparison_table(rows, errors, paired=True, simulations=simulations, title=title)


def _distance(distribution: Drawable, theta: FloatArray, rng: np.random.Generator) -> float:
    """Expected absolute error of a draw: over evenly spread quantiles where they are closed forms, else over draws."""
    if isinstance(distribution, Beta | Gamma | Normal):
        points = distribution.quantile(_LEVELS)
    else:
        points = distribution.sample(len(_LEVELS), rng)
    return float(np.abs(points - theta).mean())


def _relative_entropy(posterior: PosteriorDistribution, released: Drawable, rng: np.random.Generator) -> float:
    """KL(posterior || released): in closed form within a family, otherwise over quantiles or draws of the posterior."""
    if isinstance(released, PosteriorDistribution) and type(released) is type(posterior):
        return posterior.relative_entropy(released)
    if isinstance(released, TruncatedDistribution):
        return np.inf  # the posterior has mass outside of the public bounds
    points = posterior.sample(len(_FINE), rng) if posterior.mean.ndim else posterior.quantile(_FINE)
    return max(float((posterior.log_density(points) - released.log_density(points)).mean()), 0.0)


def _with_entropy(row: Comparison, entropies: FloatArray, floor: float, inference: str) -> Comparison:
    """The row with its mean relative entropy, its standard error (NaN if the mean is infinite), and the inference."""
    deviation = standard_error(entropies) if np.isfinite(entropies).all() else np.nan
    return replace(
        row,
        relative_entropy=float(entropies.mean()),
        relative_entropy_standard_error=deviation,
        floor=floor,
        inference=inference,
    )
