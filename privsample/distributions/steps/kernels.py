"""Markov kernels on finitely many states: row-stochastic matrices, their powers, and draws from their rows."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privsample._checks import FloatArray, positive_integer
from privsample.distributions.exact.categorical import Categorical

_SUM_ERROR = 1e-9


def check_stochastic(matrix: ArrayLike) -> FloatArray:
    """A read-only copy of a row-stochastic matrix of shape (states, outcomes).

    Raises TypeError or ValueError; the message names the invalid row.
    """
    try:
        given = np.asarray(matrix)
        if given.dtype.kind not in "biufO":
            raise TypeError
        rows = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError("matrix must be real numbers of shape (states, outcomes)") from None
    if rows.ndim != 2 or not rows.size:
        raise ValueError(f"matrix must have shape (states, outcomes), got {rows.shape}")
    with np.errstate(invalid="ignore", over="ignore"):
        faults = (
            (~(rows >= 0.0), "holds {}, and a probability must be >= 0"),
            (~(np.abs(rows.sum(axis=1, keepdims=True) - 1.0) <= _SUM_ERROR), "adds up to {1:.9g}, and it must be 1"),
        )
    for wrong, words in faults:
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise ValueError(f"row {row} of matrix {words.format(rows[row, column], rows[row].sum())}")
    rows.flags.writeable = False
    return rows


def normalize_rows(matrix: FloatArray) -> FloatArray:
    """The rows divided by their sums; relative error a few ulp."""
    return matrix / matrix.sum(axis=1, keepdims=True)


def kernel_power(matrix: FloatArray, steps: int) -> FloatArray:
    """The kernel of `steps` steps. Raises ValueError if outcomes and states differ."""
    count = positive_integer(steps=steps)
    if matrix.shape[0] != matrix.shape[1] and count > 1:
        raise ValueError(f"a kernel from {matrix.shape[0]} states to {matrix.shape[1]} cannot be iterated")
    return normalize_rows(np.linalg.matrix_power(normalize_rows(matrix), count)) if count > 1 else matrix


class ExactRows:
    """The rows of a stochastic matrix as distributions that are drawn exactly.

    The entries of a row are exact rational numbers, and a row is divided by their exact sum: the accounts of kernels
    are about the same rows.
    """

    def __init__(self, matrix: FloatArray) -> None:
        self._matrix = matrix
        self._rows: dict[int, Categorical] = {}

    def draw(self, states: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """One independent outcome for each state, of the shape of `states`."""
        result = np.empty(states.shape, dtype=np.int64)
        for state in np.unique(states).tolist():
            if state not in self._rows:
                self._rows[state] = Categorical.of_weights(self._matrix[state].tolist())
            here = states == state
            result[here] = self._rows[state].draw(int(here.sum()), rng)
        return result


def sample_outcomes(matrix: FloatArray, states: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """One independent outcome for each state, of the shape of `states`, with floating-point numbers."""
    uniform, result = rng.random(states.shape), np.empty(states.shape, dtype=np.int64)
    for state in np.unique(states):
        here = states == state
        below = np.cumsum(matrix[state])
        result[here] = np.searchsorted(below / below[-1], uniform[here], side="right")
    return result
