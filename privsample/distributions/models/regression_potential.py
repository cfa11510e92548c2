"""The potential of a regression in units of the prior, and its gradient for many chains (langevin.md, section 3)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.distributions.likelihoods.base import RegressionLikelihood, room_of
from privsample.distributions.regression_records import Block, RegressionRecords

_MOST_SINGLE = 1e18  # larger factors are not multiplied in single precision, whose range ends at 3e38


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

    def room(self, lengths: FloatArray) -> FloatArray:
        """The largest norm of a scaled row divided by those of rows of these lengths, shape (n,)."""
        with np.errstate(over="ignore"):
            return room_of(np.hypot(lengths * self.deviation, self.intercept_deviation or 0.0), self.row_norm)


@frozen_value
class RegressionPotential:
    """U(w) = |w|^2/2 over the coordinates with a proper prior, plus weight times the losses of all records.

    `proper`, shape (width,), is 1 for coordinates with a proper prior and 0 for those with a flat one.
    """

    likelihood: RegressionLikelihood
    scale: RegressionScale
    weight: float
    records: RegressionRecords
    proper: FloatArray

    def gradient(self, states: FloatArray) -> FloatArray:
        """Gradients of U at states of shape (chains, columns, width), in one pass over the records; the same shape."""
        chains, columns, width = states.shape
        flat = states.reshape(chains * columns, width).T
        total = np.zeros((chains * columns, width))
        slope = np.ascontiguousarray(flat[: self.scale.features] * self.scale.deviation)
        constant = None if self.scale.intercept_deviation is None else flat[-1] * self.scale.intercept_deviation
        for block in self.records.blocks(chains * columns):
            self._add(block, slope, constant, (chains, columns), total)
        total[:, : self.scale.features] *= self.scale.deviation
        if self.scale.intercept_deviation is not None:
            total[:, -1] *= self.scale.intercept_deviation
        return np.asarray(states * self.proper + self.weight * total.reshape(states.shape))

    def _add(
        self,
        block: Block,
        slope: FloatArray,
        constant: FloatArray | None,
        shape: tuple[int, int],
        total: FloatArray,
    ) -> None:
        """Add the gradients of a block with respect to slopes and intercepts, in the user's units, to `total`."""
        rows = _wide_enough(block.rows, slope)
        scores = np.asarray(rows @ slope.astype(rows.dtype, copy=False), dtype=np.float64)
        if block.factors is not None:
            scores *= block.factors[:, None]
        if constant is not None:
            scores += constant
        shaped = scores.reshape(len(rows), *shape) if shape[1] > 1 else scores
        found = self.likelihood.slopes(shaped, block.targets, self.scale.room(block.lengths)).reshape(scores.shape)
        if constant is not None:
            total[:, -1] += found.sum(axis=0)
        if block.factors is not None:
            found = found * block.factors[:, None]
        rows = _wide_enough(rows, found)
        total[:, : rows.shape[1]] += found.T.astype(rows.dtype, copy=False) @ rows


def _wide_enough(rows: NDArray[Any], factor: FloatArray) -> NDArray[Any]:
    """The rows, in double precision if a product with `factor` might overflow in single precision."""
    narrow = rows.dtype == np.float32 and not np.abs(factor).max(initial=0.0) < _MOST_SINGLE
    return rows.astype(np.float64) if narrow else rows
