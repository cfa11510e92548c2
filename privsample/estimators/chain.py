"""Public choices of a regression's Langevin chains: step size, number of steps, and the weight that meets a target."""

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from privsample.accounting.targets import DP, largest, warn_of_large_delta
from privsample.distributions.likelihoods.base import RegressionLikelihood
from privsample.mechanisms.posterior.langevin import LangevinPosterior
from privsample.relations import ReplaceOne

_USUAL, _LARGEST = 0.25, 1.0  # step sizes in units of 1/M: they widen the stiffest direction by at most 7 % and 41 %
_FORGOTTEN = 0.01  # the fraction of the start that the chain keeps at most, in a direction where data say nothing
_SECONDS, _MOST_STEPS, _FEWEST_STEPS = 60.0, 20_000, 100
_PER_SCORE, _PER_PRODUCT = 15e-9, 0.7e-9  # seconds on one core, for each record and chain
_ADVICE = "ask for delta > 0"


def chain_settings(smoothness: float, *, steps: int | None, most: int) -> tuple[int, float]:
    """Return the number of steps and the step size for this smoothness M, in units of a prior with m = 1.

    The step size is 1/(4 M), and larger, up to 1/M, if the start would otherwise not be forgotten within `most` steps,
    or within the given number of `steps`. A step size of h widens a Gaussian posterior in a direction of curvature c by
    (1 - h c/2)^(-1/2), and leaves (1 - h c)^T of the start (langevin.md, section 6).
    """
    needed = -math.log(_FORGOTTEN)
    step_size = min(_LARGEST, max(_USUAL, needed * smoothness / (most if steps is None else steps))) / smoothness
    enough = math.ceil(needed / -math.log1p(-step_size)) if step_size < 1.0 else 1
    return (min(enough, most) if steps is None else steps), step_size


def most_steps(n: int, scores: int, dimension: int, draws: int) -> int:
    """Return the number of steps that take about a minute, at least 100 and at most 20,000."""
    seconds = n * draws * scores * (_PER_SCORE + _PER_PRODUCT * dimension)
    return int(min(max(_SECONDS / seconds, _FEWEST_STEPS), _MOST_STEPS))


def calibrated_chains(
    likelihood: RegressionLikelihood,
    target: DP,
    *,
    n: int,
    by: Literal["data_weight", "prior_weight"],
    steps: int | None,
    unit: str,
    fields: Mapping[str, Any],
) -> LangevinPosterior:
    """Return the Langevin posterior with the largest data weight, or the least prior weight, that meets the target.

    The step size follows the weight, because the smoothness does. `fields` are features, norm, prior_std,
    intercept_std and draws. Raises UnreachableTarget.
    """
    width = fields["features"] + (fields["intercept_std"] is not None)
    most = most_steps(n, likelihood.score_columns, width, fields["draws"])
    reach = math.hypot(fields["norm"] * fields["prior_std"], fields["intercept_std"] or 0.0)

    def build(amount: float) -> LangevinPosterior:
        weights = {by: amount if by == "data_weight" else 1.0 / amount}
        scaled = reach / math.sqrt(weights.get("prior_weight", 1.0))
        smoothness = 1.0 + n * weights.get("data_weight", 1.0) * likelihood.smoothness(scaled) * (1.0 + 1e-9)
        count, step_size = chain_settings(smoothness, steps=steps, most=most)
        return LangevinPosterior(
            likelihood=likelihood,
            relation=ReplaceOne(n=n, unit=unit),
            steps=count,
            step_size=step_size,
            **weights,
            **fields,
        )

    found = largest(build, lambda made: made.accountant, target, most=1.0, advice=_ADVICE)
    warn_of_large_delta(target, found.relation, stacklevel=4)
    return found


def chain_statement(made: LangevinPosterior) -> str:
    """Return a sentence on how far the last states of the chains may be from the private posterior."""
    bias = made.bias
    known = f"at most {bias.wasserstein:.2g}" if np.isfinite(bias.wasserstein) else "not bounded"
    return (
        f"Each draw is the last of {bias.steps} Langevin steps from 0. If the posterior were Gaussian, its standard "
        f"deviations would be at most {100 * (bias.largest_widening - 1):.1f} % too large and at most "
        f"{100 * bias.largest_start:.2g} % of the distance between 0 and the posterior mean would remain, in the worst "
        f"direction; in general the Wasserstein-2 distance in units of the prior is {known} (a loose bound)."
    )
