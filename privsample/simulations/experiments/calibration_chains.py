"""Ranks of true parameters among states of Markov chains, uniform for the right likelihood after any number of steps.

Besag and Clifford 1989 (serial method); docs/notes/calibration.md, section 2. Every chain contains its true parameters,
at a random position: before it the chain runs backwards in time, after it forwards. Metropolis steps are reversible, so
both directions take the same steps.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from privsample._checks import FloatArray

LogLikelihood = Callable[[FloatArray], FloatArray]  # of normal scores, (simulations, d) -> (simulations,)
_SPREAD = 1.0  # standard deviation of the log scale of a step
_BEST = 2.4  # over the root of d: the best scale of steps for a normal posterior (Gelman, Roberts and Gilks 1996)


class Chains(NamedTuple):
    """Random ranks in (0, 1) of the true parameters, shape (simulations, quantities), and the share of accepted steps."""

    ranks: FloatArray
    accepted: float


def serial_ranks(
    log_likelihood: LogLikelihood,
    quantities: LogLikelihood,
    true: FloatArray,
    factor: FloatArray,
    steps: int,
    rng: np.random.Generator,
) -> Chains:
    """Run one chain for each simulation, all side by side.

    Parameters
    ----------
    log_likelihood : callable
        From parameters, as normal scores of shape (simulations, d), to the log likelihood of each simulation's data.
    quantities : callable
        From normal scores to what is ranked, shape (simulations, quantities).
    true : array of shape (simulations, d)
        Normal scores of the parameters that made the data, independent and standard normal.
    factor : array of shape (d, d)
        A steps' covariance is a random multiple of factor @ factor.T. It must not depend on `true`.
    steps : int
        Number of steps of each chain.
    rng : numpy.random.Generator
        Source of randomness.
    """
    simulations, width = true.shape
    position = rng.integers(0, steps, simulations, endpoint=True)
    first = _finite(log_likelihood(true))
    target = quantities(true)
    state, logs = true.copy(), first.copy()
    below, ties, accepted = np.zeros(target.shape), np.zeros(target.shape), 0.0
    for step in range(steps):
        turning = position == step  # the part before the true parameters is complete
        state[turning], logs[turning] = true[turning], first[turning]
        scale = _BEST / width**0.5 * np.exp(_SPREAD * rng.standard_normal((simulations, 1)))
        proposed = state + scale * (rng.standard_normal((simulations, width)) @ factor.T)
        new = _finite(log_likelihood(proposed))
        gain = np.subtract(new, logs, out=np.full(simulations, -np.inf), where=new > -np.inf)
        gain -= ((proposed**2).sum(axis=1) - (state**2).sum(axis=1)) / 2
        taken = np.log(rng.random(simulations)) < gain
        state[taken], logs[taken] = proposed[taken], new[taken]
        found = quantities(state)
        below, ties, accepted = below + (found < target), ties + (found == target), accepted + float(taken.mean())
    ranks = (below + (ties + 1) * rng.random(target.shape)) / (steps + 1)
    return Chains(ranks=ranks, accepted=accepted / steps)


def step_factor(log_likelihood: LogLikelihood, true: FloatArray) -> FloatArray:
    """A root of the approximate covariance of the posterior of normal scores, from simulations made for this alone.

    The inverse of the prior's precision plus the mean information of the data, the covariance of the score.
    """
    width, step = true.shape[1], 1e-4
    scores = np.empty(true.shape)
    for j in range(width):
        shift = step * np.eye(width)[j]
        with np.errstate(invalid="ignore"):
            scores[:, j] = (log_likelihood(true + shift) - log_likelihood(true - shift)) / (2 * step)
    good = scores[np.isfinite(scores).all(axis=1)]
    information = np.eye(width) + good.T @ good / max(len(good), 1)
    return np.asarray(np.linalg.cholesky(np.linalg.inv(information)))


def _finite(logs: FloatArray) -> FloatArray:
    """Log likelihoods, with -inf for nan, which is no density."""
    return np.where(np.isnan(logs), -np.inf, logs)
