"""What private posterior draws say: credible intervals, a table, and how far they are from the posterior.

The intervals are derived in docs/notes/estimators.md.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from privsample._checks import FloatArray, open_unit_interval
from privsample.mechanisms.posterior.langevin import LangevinPosterior


def credible_interval(draws: FloatArray, level: float) -> FloatArray:
    """Return the ends of an interval that contains a further draw with probability `level`, shape (2, ...).

    `draws` has shape (draws, ...). If their number permits the level, the ends are quantiles at ranks p (draws + 1): of
    k independent draws and one more from the same continuous distribution each order is equally probable, so that
    the interval from rank a to rank b contains the further draw with probability (b - a)/(k + 1). With fewer draws the
    interval is mean +- t s sqrt(1 + 1/k), with a quantile t of Student's distribution with k - 1 degrees of freedom,
    which is exact for a Gaussian distribution. Raises ValueError for a level out of (0, 1), and for a single draw.
    """
    given, count = open_unit_interval(level=level), len(draws)
    tail = (1.0 - given) / 2.0
    if tail * (count + 1) >= 1.0 - 1e-9:
        found: FloatArray = np.quantile(draws, [tail, 1.0 - tail], axis=0, method="weibull")
        return found
    if count < 2:
        raise ValueError("an interval needs at least 2 draws, got 1: fit with draws=5, for example")
    reach = stats.t.isf(tail, count - 1) * np.sqrt(1.0 + 1.0 / count) * draws.std(axis=0, ddof=1)
    return np.stack([draws.mean(axis=0) - reach, draws.mean(axis=0) + reach])


def posterior_statement(made: Any, n: int) -> str:
    """Return how far the private posterior is from the posterior, and the draws from it; from public numbers alone."""
    weighted, narrowed = made.data_weight < 1.0, made.prior_weight > 1.0
    if weighted:
        first = (
            f"The private posterior gives each record the weight {made.data_weight:.4g}: it treats the {n} records as "
            f"{n * made.data_weight:.4g}. As a rule, its intervals are wider than those of the posterior, and "
            "closer to the prior."
        )
    elif narrowed:
        first = (
            f"The private posterior has prior variances divided by {made.prior_weight:.4g}: it is narrower than the "
            "posterior and pulled to 0, so that its intervals need not contain the coefficients."
        )
    else:
        first = "The target permits the posterior itself, with all records at weight 1 and the prior as given."
    if caution := caution_of(made):
        return f"{caution}. {first}"
    if isinstance(made, LangevinPosterior):
        return f"{first} {made.bias.statement()}"
    source = (
        "from this posterior itself, by rejection" if made.uses_rejection else "the last state of a Markov chain (NUTS)"
    )
    return f"{first} Each draw is {source}."


def summary_table(
    slopes: FloatArray,
    intercepts: FloatArray,
    intervals: Mapping[str, FloatArray],
    *,
    names: Sequence[str],
    classes: Sequence[str],
    level: float,
) -> str:
    """Return a table with one line for each coefficient: its name, mean and interval."""
    labels = [*names, "intercept"]
    if classes:
        labels = [f"{label}: {name}" for label in classes for name in labels]
    means = np.concatenate([slopes.mean(axis=0), intercepts.mean(axis=0)[..., None]], axis=-1).ravel()
    low, high = (
        np.concatenate([intervals["coefficients"][end], intervals["intercept"][end][..., None]], axis=-1).ravel()
        for end in (0, 1)
    )
    width = max(map(len, [*labels, "coefficient"]))
    head = f"{'coefficient':{width}} {'mean':>11} {f'{100 * level:.3g} % interval':>25}"
    lines = [
        f"{label:{width}} {mean:11.4g} {f'[{a:.4g}, {b:.4g}]':>25}"
        for label, mean, a, b in zip(labels, means, low, high, strict=True)
    ]
    return "\n".join([head, *lines])


def caution_of(made: Any) -> str:
    """Return what public numbers say against the chains of a mechanism; an empty text if nothing, or without chains."""
    return made.bias.caution() if isinstance(made, LangevinPosterior) else ""
