"""Hamiltonian Monte Carlo in coordinates in which the posterior is nearly standard normal.

docs/notes/synthetic.md, step 6.
"""

from typing import NamedTuple

import numpy as np

from privsample._checks import FloatArray
from privsample.inference.synthetic.log_linear import Mode

_LENGTH = 1.5  # of a trajectory: near a quarter of a normal distribution's period, where draws are independent
_FIRST_STEP = 0.3
_ACCEPTED = 0.8
_RATE = 0.1  # of the tuning of log steps


class PosteriorSample(NamedTuple):
    """States (theta, n) of several chains, shape (chains, draws, ...), with the mean acceptance of each chain."""

    states: FloatArray
    acceptance: FloatArray


def sample_posterior(
    mode: Mode, *, draws: int, chains: int, tune: int, thin: int, rng: np.random.Generator
) -> PosteriorSample:
    """Draws of Hamiltonian Monte Carlo chains that start from the normal approximation at the mode."""
    runs = [_run(mode, draws, tune, thin, source) for source in rng.spawn(chains)]
    return PosteriorSample(np.array([states for states, _ in runs]), np.array([rate for _, rate in runs]))


def _run(mode: Mode, draws: int, tune: int, thin: int, rng: np.random.Generator) -> tuple[FloatArray, float]:
    place = rng.standard_normal(len(mode.state))
    value, slope = _density(mode, place)
    while not np.isfinite(value):  # the normal approximation lets n be negative
        place = place / 2
        value, slope = _density(mode, place)
    step, rates = _FIRST_STEP, []
    kept = np.empty((draws, len(mode.state)))
    for sweep in range(tune + draws * thin):
        momentum = rng.standard_normal(len(place))
        length = step * rng.uniform(0.8, 1.2)
        new, new_value, new_slope, moved = place, value, slope, momentum
        for _ in range(max(round(_LENGTH / step), 1)):
            moved = moved + length / 2 * new_slope
            new = new + length * moved
            new_value, new_slope = _density(mode, new)
            if not np.isfinite(new_value):
                break
            moved = moved + length / 2 * new_slope
        gain = new_value - value - (moved @ moved - momentum @ momentum) / 2
        rate = float(np.exp(min(gain, 0.0))) if np.isfinite(gain) else 0.0
        if rng.random() < rate:
            place, value, slope = new, new_value, new_slope
        if sweep < tune:
            step = min(step * float(np.exp(_RATE * (rate - _ACCEPTED))), 1.0)
            continue
        rates.append(rate)
        kept[(sweep - tune) // thin] = mode.state + mode.whitening @ place
    return kept, float(np.mean(rates))


def _density(mode: Mode, place: FloatArray) -> tuple[float, FloatArray]:
    value, slope = mode.posterior.log_density(mode.state + mode.whitening @ place)
    return value, np.asarray(mode.whitening.T @ slope)
