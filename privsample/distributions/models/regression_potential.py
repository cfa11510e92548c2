"""The potential of a regression in units of the prior, and its gradient for many chains (langevin.md, section 3)."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.distributions.likelihoods.base import RegressionLikelihood, room_of
from privsample.distributions.rows import within_norm

_CELLS = 1 << 17  # entries of rows, or scores, that are handled at once: they stay in the processor's cache


@frozen_value
class RegressionScale:
    """The units of the coefficients: w = b / deviations, in which the prior is N(0, I) or flat.

    Parameters
    ----------
    features : int
        Number of features, >= 1.
    norm : float
        Largest L2 norm of a row in the user's units, > 0.
    deviation : float
        Unit of the coefficients, finite and > 0: their prior standard deviation, or 1 if the prior is flat.
    intercept_deviation : float or None
        Unit of the intercept; None without an intercept.
    """

    features: int
    norm: float
    deviation: float
    intercept_deviation: float | None

    @property
    def width(self) -> int:
        """Number of coefficients of one score, with the intercept."""
        return self.features + (self.intercept_deviation is not None)

    @property
    def row_norm(self) -> float:
        """Largest L2 norm of a scaled row with its constant entry, rounded up; +inf on overflow."""
        with np.errstate(over="ignore"):
            return float(np.hypot(self.norm * self.deviation, self.intercept_deviation or 0.0) * (1.0 + 2.0**-50))

    def lengths(self, rows: FloatArray) -> FloatArray:
        """L2 norms of the scaled rows with their constant entry, shape (n,)."""
        with np.errstate(over="ignore"):
            own = np.sqrt(np.einsum("ij,ij->i", rows, rows)) * self.deviation
        return np.asarray(np.hypot(own, self.intercept_deviation or 0.0))


@frozen_value
class RegressionPotential:
    """U(w) = |w|^2/2 over the coordinates with a proper prior, plus weight times the losses of all records.

    `rows`, shape (n, features), are in the user's units, and obey the public rule only after `within_norm`; `targets`,
    shape (n,), have passed the rule of the likelihood.
    """

    likelihood: RegressionLikelihood
    scale: RegressionScale
    weight: float
    rows: Any
    targets: FloatArray
    proper: FloatArray

    def gradient(self, states: FloatArray) -> FloatArray:
        """Gradients of U at states of shape (chains, columns, width), in one pass over the records; the same shape."""
        chains, columns, width = states.shape
        flat = np.ascontiguousarray(states.reshape(chains * columns, width).T)
        total = np.zeros((chains * columns, width))
        scale, features = self.scale, self.scale.features
        for rows, targets in self._blocks(chains * columns):
            scores = rows @ (flat[:features] * scale.deviation)
            if scale.intercept_deviation is not None:
                scores += flat[-1] * scale.intercept_deviation
            room = room_of(scale.lengths(rows), scale.row_norm)
            shaped = scores.reshape(len(rows), chains, columns) if columns > 1 else scores
            slopes = self.likelihood.slopes(shaped, targets, room).reshape(scores.shape)
            total[:, :features] += (slopes.T @ rows) * scale.deviation
            if scale.intercept_deviation is not None:
                total[:, -1] += slopes.sum(axis=0) * scale.intercept_deviation
        return np.asarray(states * self.proper + self.weight * total.reshape(states.shape))

    def _blocks(self, scores: int) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Rows after the public rule with their targets, a few at a time."""
        size = max(1, _CELLS // max(scores, self.rows.shape[1]))
        for start in range(0, len(self.rows), size):
            part = slice(start, start + size)
            yield within_norm(self.rows[part], self.scale.norm), self.targets[part]
