"""Hamiltonian Monte Carlo in coordinates in which the posterior is nearly standard normal, for several chains at once.

docs/notes/synthetic.md, step 6.
"""

from typing import NamedTuple

import numpy as np

from privsample._checks import FloatArray
from privsample.inference.synthetic.log_linear import Mode

_LENGTH = 1.5  # of a trajectory: near a quarter of a normal distribution's period, where draws are independent
_FIRST_STEP = 0.3
_STEPS = (0.05, 1.0)  # at most 30 steps of a trajectory
_ACCEPTED = 0.8
_RATE = 0.2  # of the tuning of log steps
_DEVIATIONS = 6.0  # of a standard normal log density: what starts may lie below its mean
_HALVINGS = 20


class PosteriorSample(NamedTuple):
    """Kept states, shape (chains, draws, ...), in `Mode`'s coordinates, and the mean acceptance rate.

    places: all states after tuning in coordinates in which the posterior is nearly standard normal, shape (sweeps,
    chains, ...).
    """

    states: FloatArray
    places: FloatArray
    acceptance: float


def sample_posterior(
    mode: Mode, *, draws: int, chains: int, tune: int, thin: int, rng: np.random.Generator
) -> PosteriorSample:
    """Draws of Hamiltonian Monte Carlo chains that start from the normal approximation at the mode."""
    place = _starts(mode, rng.standard_normal((chains, len(mode.state))))
    value, slope = _density(mode, place)
    step, rates = _FIRST_STEP, []
    kept = np.empty((draws * thin, chains, len(mode.state)))
    for sweep in range(tune + draws * thin):
        momentum = rng.standard_normal(place.shape)
        length = step * rng.uniform(0.8, 1.2)
        new, new_value, new_slope, moved = place, value, slope, momentum
        for _ in range(max(round(_LENGTH / step), 1)):
            half = moved + length / 2 * new_slope
            new = new + length * half
            new_value, new_slope = _density(mode, new)
            moved = half + length / 2 * new_slope
        with np.errstate(invalid="ignore", over="ignore"):
            gain = new_value - value + ((momentum * momentum).sum(axis=1) - (moved * moved).sum(axis=1)) / 2
        rate = np.exp(np.minimum(np.where(np.isnan(gain), -np.inf, gain), 0.0))
        taken = rng.random(chains) < rate
        place, slope = np.where(taken[:, None], new, place), np.where(taken[:, None], new_slope, slope)
        value = np.where(taken, new_value, value)
        if sweep < tune:
            step = float(np.clip(step * np.exp(_RATE * (rate.mean() - _ACCEPTED)), *_STEPS))
            continue
        rates.append(rate.mean())
        kept[sweep - tune] = place
    states = mode.state + kept[thin - 1 :: thin] @ mode.whitening.T
    return PosteriorSample(states.swapaxes(0, 1), kept, float(np.mean(rates)))


def largest_split_rhat(places: FloatArray) -> float:
    """The largest split R-hat (Gelman et al. 2013) of states of shape (sweeps, chains, ...); NaN for short chains."""
    half = len(places) // 2
    if half < 2:
        return float("nan")
    parts = np.concatenate([places[:half], places[half : 2 * half]], axis=1)
    within = parts.var(axis=0, ddof=1).mean(axis=0)
    between = parts.mean(axis=0).var(axis=0, ddof=1)
    return float(np.sqrt((half - 1) / half + (between / within).max()))


def _starts(mode: Mode, places: FloatArray) -> FloatArray:
    """Move places towards the mode until their density is one that draws have.

    Where the posterior is skewed, as with empty categories, the normal approximation has draws where the density falls
    so steeply that a chain would not leave them.
    """
    width = places.shape[1]
    lowest = _density(mode, np.zeros((1, width)))[0][0] - width / 2 - _DEVIATIONS * (width / 2) ** 0.5
    for _ in range(_HALVINGS):
        low = ~(_density(mode, places)[0] >= lowest)
        if not low.any():
            break
        places = np.where(low[:, None], places / 2, places)
    return places


def _density(mode: Mode, places: FloatArray) -> tuple[FloatArray, FloatArray]:
    value, slope = mode.posterior.log_density(mode.state + places @ mode.whitening.T)
    return value, np.asarray(slope @ mode.whitening)
