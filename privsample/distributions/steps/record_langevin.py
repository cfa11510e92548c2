"""Sums of clipped gradients of single records, for several chains, in parts that fit into memory."""

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._entropy import draw_with_entropy_check
from privsample.distributions.rows import within_norm

_EPS = float(np.finfo(np.float64).eps)
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
        some = states[first : first + deep]
        for start in range(0, size, most):
            part = {name: array[start : start + most] for name, array in records.items()}
            total[first : first + deep] += _part_of_sums(gradients, some, part, clip=clip, rate=rate, rng=rng)
    return total


def _part_of_sums(
    gradients: Gradients, states: FloatArray, records: Records, *, clip: float, rate: float, rng: np.random.Generator
) -> FloatArray:
    """`clipped_sums` for as many chains and records as fit into memory together."""
    size, shape = len(next(iter(records.values()))), states.shape
    if rate < 1.0:
        uniforms = draw_with_entropy_check(rng, lambda: rng.random((len(states), size)))
        chain, record = np.nonzero(uniforms < rate)
    else:
        chain, record = np.divmod(np.arange(len(states) * size), size)
    found = record_gradients(gradients, states[chain], {name: array[record] for name, array in records.items()})
    weights = clipping_weights(found, clip)
    if rate == 1.0:  # a product of stacked matrices sums faster than indices do
        return np.matmul(weights.reshape(shape[0], 1, size), found.reshape(shape[0], size, shape[1]))[:, 0]
    ends = np.searchsorted(chain, np.arange(len(states) + 1))
    return np.array([weights[i:j] @ found[i:j] for i, j in pairwise(ends.tolist())]).reshape(shape)


def clipping_weights(rows: FloatArray, clip: float) -> FloatArray:
    """The factors in [0, 1] by which rows are shortened to L2 norm `clip`, shape (rows,); rows may be changed.

    A row that is not finite becomes 0. No product of a row and its factor is longer than `clip`: the relative error of
    a computed length is at most (width/4 + 3) eps, as in `within_norm`, and the limit allows for it. Rows whose squares
    overflow are shortened by `within_norm`, which scales them first. `clip` must lie in [1e-100, 1e100], so that rows
    whose squares vanish are short enough, and no factor is subnormal.
    """
    squares = np.einsum("ij,ij->i", rows, rows)
    far = np.flatnonzero(~(squares < np.inf))
    if len(far):
        unfit = ~np.isfinite(rows[far]).all(axis=1, keepdims=True)
        rows[far] = within_norm(np.where(unfit, 0.0, rows[far]), clip)
        squares[far] = 0.0
    limit = clip * (1.0 - (rows.shape[1] / 4 + 8) * _EPS)
    return np.asarray(limit / np.maximum(np.sqrt(squares), limit))


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
