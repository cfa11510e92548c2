"""Ranks of true parameters among states of Markov chains, uniform for the right likelihood after any number of steps.

Besag and Clifford 1989 (serial method); docs/notes/calibration.md, section 2. Every chain contains its true parameters,
at a random position: before it the chain runs backwards in time, after it forwards. Metropolis steps are reversible, so
both directions take the same steps.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from privsample._checks import FloatArray

# From normal scores of parameters, (simulations, d), to log likelihoods, (simulations,), and what is ranked,
# (simulations, quantities).
Evaluation = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
_SPREAD = 0.5  # standard deviation of the log scale of a step
_BEST = 2.4  # over the root of d: the best scale of steps for a normal posterior (Gelman, Roberts and Gilks 1996)
_DIFFERENCE = 1e-4  # of normal scores, for the slope of the log likelihood


class Chains(NamedTuple):
    """Random ranks in (0, 1) of the true quantities, (simulations, quantities), and the share of accepted steps."""

    ranks: FloatArray
    accepted: float


def serial_ranks(
    evaluate: Evaluation, true: FloatArray, factor: FloatArray, steps: int, rng: np.random.Generator
) -> Chains:
    """Run one chain for each simulation, all side by side.

    Parameters
    ----------
    evaluate : callable
        The likelihood that is tested, of each simulation's own data, and what is ranked.
    true : array of shape (simulations, d)
        Normal scores of the parameters that made the data, independent and standard normal.
    factor : array of shape (d, d)
        The covariance of a step is a random multiple of factor @ factor.T. It must not depend on `true`.
    steps : int
        Number of steps of each chain.
    rng : numpy.random.Generator
        Source of randomness.
    """
    simulations, width = true.shape
    position = rng.integers(0, steps, simulations, endpoint=True)
    first, target = evaluate(true)
    state, logs, found = true.copy(), first.copy(), target.copy()
    below, ties, accepted = np.zeros(target.shape), np.zeros(target.shape), 0.0
    for step in range(steps):
        turning = position == step  # the part before the true parameters is complete
        state[turning], logs[turning], found[turning] = true[turning], first[turning], target[turning]
        scale = _BEST / width**0.5 * np.exp(_SPREAD * rng.standard_normal((simulations, 1)))
        proposed = state + scale * (rng.standard_normal((simulations, width)) @ factor.T)
        new, other = evaluate(proposed)
        gain = np.subtract(new, logs, out=np.full(simulations, -np.inf), where=new > -np.inf)
        gain -= ((proposed**2).sum(axis=1) - (state**2).sum(axis=1)) / 2
        taken = np.log(rng.random(simulations)) < gain
        state[taken], logs[taken], found[taken] = proposed[taken], new[taken], other[taken]
        below, ties, accepted = below + (found < target), ties + (found == target), accepted + float(taken.mean())
    ranks = (below + (ties + 1) * rng.random(target.shape)) / (steps + 1)
    return Chains(ranks=ranks, accepted=accepted / max(steps, 1))


def step_factor(evaluate: Evaluation, true: FloatArray) -> FloatArray:
    """A root of the approximate covariance of the posterior of normal scores, from simulations made for this alone.

    The inverse of the prior's precision plus the mean information of the data, the covariance of the score.
    """
    width = true.shape[1]
    shifts = _DIFFERENCE * np.eye(width)
    with np.errstate(invalid="ignore"):
        slopes = [(evaluate(true + shift)[0] - evaluate(true - shift)[0]) / (2 * _DIFFERENCE) for shift in shifts]
    scores = np.column_stack(slopes)
    scores = scores[np.isfinite(scores).all(axis=1)]
    information = np.eye(width) + scores.T @ scores / max(len(scores), 1)
    return np.asarray(np.linalg.cholesky(np.linalg.inv(information)))
