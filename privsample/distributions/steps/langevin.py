"""Langevin chains: their steps, and how far their last state is from the distribution e^-U (langevin.md)."""

from collections.abc import Callable
from functools import partial

import numpy as np

from privsample._checks import FloatArray
from privsample._entropy import draw_with_entropy_check

_NOISE = 1 << 16  # normal variates drawn at once, to bound the memory


def langevin_states(
    gradient: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    *,
    step_size: float,
    steps: int,
    rng: np.random.Generator,
) -> FloatArray:
    """The last states of independent chains x -> x - step_size gradient(x) + sqrt(2 step_size) Z, Z ~ N(0, I).

    `start` has one state a chain along the first axis, and `gradient` maps states to gradients of the same shape. The
    steps between two draws of noise can be interrupted. Raises OSError if the operating system provides no entropy.
    """
    states, deviation = start, np.sqrt(2.0 * step_size)
    at_once = max(1, _NOISE // max(start.size, 1))
    for first in range(0, steps, at_once):
        shape = (min(at_once, steps - first), *start.shape)
        noise = draw_with_entropy_check(rng, partial(_normal, rng, shape))
        for push in noise:
            states = states - step_size * gradient(states) + deviation * push
    return states


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    return rng.standard_normal(shape)
