"""Sums of clipped gradients of single records, for several chains, in parts that fit into memory."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.distributions.rows import within_norm

_CELLS = 1 << 17  # numbers of one array at a time: larger arrays leave the processor's cache

Records = Mapping[str, NDArray[Any]]
Gradients = Callable[[FloatArray, Records], FloatArray]


def langevin_step(states: FloatArray, drift: FloatArray, step_size: float, noise: FloatArray) -> FloatArray:
    """The states after one step along the drift with standard normal `noise`; all of one shape."""
    return np.asarray(states + step_size * drift + np.sqrt(2.0 * step_size) * noise)


def clipped_sums(
    gradients: Gradients, states: FloatArray, records: Records, *, clip: float, rate: float, rng: np.random.Generator
) -> FloatArray:
    """For each chain, the sum over the records of the gradients clipped to L2 norm `clip`, shape (chains, width).

    With rate < 1, each chain sums over a Poisson sample of its own. A gradient that is not finite, or cannot be
    computed, counts as 0.
    """
    chains, width = states.shape
    size = len(next(iter(records.values())))
    wide = max([width, *(math.prod(array.shape[1:]) for array in records.values())])
    most = max(1, _CELLS // wide)  # pairs of a chain and a record at a time
    deep = max(1, most // max(size, 1))
    total = np.zeros((chains, width))
    for first in range(0, chains, deep):
        for start in range(0, size, most):
            shape = min(deep, chains - first), min(most, size - start)
            taken = rng.random(shape) < rate if rate < 1.0 else np.ones(shape, dtype=bool)
            taken &= np.isfinite(states[first : first + deep]).all(axis=1)[:, None]  # no gradient is finite elsewhere
            chain, record = np.nonzero(taken)
            part = {name: array[start + record] for name, array in records.items()}
            found = clipped_gradients(gradients, states[first + chain], part, clip)
            np.add.at(total, first + chain, found)
    return total


def clipped_gradients(gradients: Gradients, states: FloatArray, records: Records, clip: float) -> FloatArray:
    """The gradient of each pair of a state and a record, clipped to norm `clip`, or 0 if it is not finite."""
    found = record_gradients(gradients, states, records)
    found[~np.isfinite(found).all(axis=1)] = 0.0
    return within_norm(found, clip)


def record_gradients(gradients: Gradients, states: FloatArray, records: Records) -> FloatArray:
    """The gradient of each pair of a state and a record; NaN where it cannot be computed. Shape (pairs, width).

    An operation may fail for one record, such as the decomposition of a singular matrix. The pairs are then halved
    until that record is alone, because its failure must not change the gradient of another record.
    """
    if not len(states):
        return np.zeros(states.shape)
    try:
        found = np.array(gradients(states, records), dtype=np.float64)
    except Exception:  # noqa: BLE001 - the error of any operation
        if len(states) == 1:
            return np.full(states.shape, np.nan)
        parts = (slice(None, len(states) // 2), slice(len(states) // 2, None))
        halves = [({name: array[part] for name, array in records.items()}, states[part]) for part in parts]
        return np.concatenate([record_gradients(gradients, state, some) for some, state in halves])
    return found
