"""Uniform mixing constants of a Markov kernel, exact up to rounding up.

Source: Balle, Barthe, Gaboardi and Geumlek 2019, Definition 1; docs/notes/kernels.md.
"""

from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray
from privsample._value import frozen_value, set_fields
from privsample.distributions.steps.kernels import check_stochastic, normalize_rows

_ULP = float(np.finfo(np.float64).eps)
_FEW = 4_000_000  # largest number of entries for one exact constant; otherwise constants are interpolated
_GRID = 0.125  # nats between the interpolated constants
_BLOCK = 1 << 18


@frozen_value
class MixingConstants:
    """The mixing constants of a row-stochastic matrix (states, outcomes), each in [0, 1]; 0 for equal rows."""

    matrix: FloatArray
    _cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        set_fields(self, matrix=check_stochastic(self.matrix))

    def _once(self, key: Any, make: Any) -> Any:
        """The stored result under `key`; computed by `make` at first use."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    @property
    def _rows(self) -> FloatArray:
        """The distinct rows, divided by their sums."""
        return self._once("rows", lambda: normalize_rows(np.unique(self.matrix, axis=0)))

    @property
    def _error(self) -> float:
        """Relative error of an entry of `_rows`, and of a sum of entries."""
        return 4 * _ULP * (4.0 + np.log2(self.matrix.shape[1] + 1.0))

    @property
    def dobrushin(self) -> float:
        """Dobrushin's coefficient: the largest total variation distance between two rows."""
        return self._once("dobrushin", self._dobrushin)

    def _dobrushin(self) -> float:
        """The largest total variation distance between two rows, rounded up."""
        from scipy.spatial.distance import pdist

        rows = self._rows
        return min(float(pdist(rows, "cityblock").max()) / 2 + self._error, 1.0) if len(rows) > 1 else 0.0

    @property
    def doeblin(self) -> float:
        """Doeblin's coefficient 1 - sum_y min_x K(x, y): the mass of K outside the common distribution."""
        rows = self._rows
        if len(rows) == 1:
            return 0.0
        return min(float((rows[0] - rows.min(axis=0)).sum()) + self._error, 1.0)

    @property
    def log_range(self) -> float:
        """The largest log K(x, y)/K(x', y): the local privacy loss of the kernel; +inf if an entry is (nearly) zero."""
        return self._once("log range", self._log_range)

    def _log_range(self) -> float:
        """The largest log ratio of two entries of a column, rounded up."""
        if len(self._rows) == 1:
            return 0.0
        low, high = self._rows.min(axis=0), self._rows.max(axis=0)
        with np.errstate(divide="ignore", over="ignore"):
            found = float(np.log(high[high > 0] / low[high > 0]).max())
        return found + self._error

    @property
    def ultra_mixing(self) -> float:
        """The ultra-mixing coefficient 1 - min K(x, y)/K(x', y)."""
        return float(-np.expm1(-self.log_range))

    def hockey_stick(self, epsilon: ArrayLike) -> FloatArray:
        """The (gamma, epsilon)-Dobrushin coefficient: the largest D_{e^epsilon} between two rows, epsilon >= 0.

        It is exact for kernels of up to a few hundred states. Beyond, linear interpolation of the convex curve between
        exact values on a grid gives an upper bound.

        Parameters
        ----------
        epsilon : array of float, any shape
            Privacy losses in nats, >= 0.

        Returns
        -------
        array of float
            The coefficients in [0, 1], of the shape of `epsilon`.
        """
        e = np.asarray(epsilon, dtype=np.float64)
        return np.array([self._at(float(x)) for x in e.ravel()]).reshape(e.shape)

    def _at(self, epsilon: float) -> float:
        """The coefficient at one epsilon: exact, or interpolated for large matrices."""
        if epsilon >= self.log_range < np.inf or len(self._rows) == 1:
            return 0.0
        if len(self._rows) ** 2 * self.matrix.shape[1] <= _FEW or epsilon > 700.0:
            return self._exact(min(epsilon, 700.0))
        low = _GRID * np.floor(epsilon / _GRID)
        high, share = low + _GRID, np.expm1(epsilon - low) / np.expm1(_GRID)
        left = self._exact(low)
        if share == 0.0:
            return left
        return float((1.0 - share) * left + share * self._exact(high)) * (1 + 4 * _ULP)

    def _exact(self, epsilon: float) -> float:
        """The exact coefficient at one epsilon, stored."""
        if epsilon == 0.0:
            return self.dobrushin
        return self._once(epsilon, lambda: min(self._largest(epsilon), self.dobrushin))

    def _largest(self, epsilon: float) -> float:
        """The largest sum of [a - t b]_+ over rows a, b: located approximately, then summed without cancellation."""
        from scipy.spatial.distance import cdist

        rows, error = self._rows, self._error
        t = np.exp(epsilon) * (1.0 - 2 * error)  # covers the rounding of a, b and t
        low, top = rows * t, rows.max(axis=0)
        used = (low < top).any(axis=0)
        a = np.ascontiguousarray(rows[:, used])
        b = np.ascontiguousarray(
            np.minimum(low[:, used], top[used])
        )  # [x - b]_+ is the same for each x below the column maximum
        about = (cdist(a, b, "cityblock") + a.sum(axis=1)[:, None] - b.sum(axis=1)) / 2
        # bound of the rounding error of the approximate sums: every candidate within it is summed again
        unsure = 64 * _ULP * used.sum() * (top[used].sum() + 1.0)
        likely = np.argwhere(about >= about.max() - 2 * unsure)
        step, best = max(_BLOCK // a.shape[1], 1), 0.0
        for start in range(0, len(likely), step):
            first, second = likely[start : start + step].T
            best = max(best, float(np.maximum(a[first] - b[second], 0.0).sum(axis=1).max()))
        return best * (1.0 + error)

    def beyond_common(self, epsilon: float) -> float:
        """max_x D_{e^epsilon}(K(x) || w), w proportional to min_x K(x, y); 1 if this minimum is zero everywhere."""
        if epsilon >= self.log_range or len(self._rows) == 1:
            return 0.0
        rows, error = self._rows, self._error
        common = rows.min(axis=0)
        if not common.sum() > 0.0:
            return 1.0
        t = np.exp(min(epsilon - np.log(common.sum()), 690.0)) * (1.0 - 4 * error)
        return min(float(np.maximum(rows - t * common, 0.0).sum(axis=1).max()) * (1.0 + error), 1.0)
