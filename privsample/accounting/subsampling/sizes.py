"""The dominating pair of a mechanism on a sample of random size, from the curves of all sizes evaluated together.

Source: Balle, Barthe and Gaboardi 2018, Theorem 9 for each size; docs/notes/subsampling.md, "Many sizes".
"""

from collections.abc import Callable

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.curves.conversion import least_epsilon
from privsample.accounting.curves.renyi_integral import renyi_from_curves
from privsample.accounting.loss.pair import delta_below_zero
from privsample.accounting.loss.rows import CurveRows, Rows
from privsample.accounting.subsampling.chorded import CHORDS, ChordedPair
from privsample.accounting.subsampling.pairs import amplified, inner_epsilon

_ULP = float(np.finfo(np.float64).eps)
_WEIGHTS = (
    -14.0,
    -40.0,
    -120.0,
    -np.inf,
)  # relative log weights at which the next sizes are evaluated, if still needed
_NEGLIGIBLE = 25.0  # sizes of total relative weight e^-25 count as if their deltas were 1
_INTEGRAL = 2e3  # cost of one value of the Rényi curve in values of the curve
_NEAR, _ATTEMPTS = 1e-4, 8  # relative step for the slope of a curve; steps towards a certified epsilon
_BLOCK = 1 << 18  # values that are held at once
RowCurves = Callable[[Rows, FloatArray], FloatArray]


@frozen_value
class SizeMixturePair(ChordedPair):
    """A replaced record in a sample whose size is revealed: size i with weight e^log_weights[i]. It is its own reverse.

    Given size i the record is sampled with probability rates[i], and `curves` has the base's curve in row i. Sizes
    increase, so the rates do not decrease. With the remaining probability nothing is sampled. Kind: upper bound.
    """

    curves: CurveRows
    rates: FloatArray
    log_weights: FloatArray

    @property
    def max_divergence(self) -> float:
        """The amplified largest loss at the highest rate."""
        result = float(amplified(self.curves.max_divergence, self.rates.max()))
        return result + 4 * _ULP * result

    @property
    def order_limit(self) -> float:
        """The least of all sizes."""
        return self.curves.order_limit

    @property
    def curve_cost(self) -> float:
        """The cost of one value of each size that is not negligible."""
        return 1.0 + self._likely * self.curves.value_cost

    @property
    def _likely(self) -> int:
        """Number of sizes with weights that usually matter."""
        return int((self.log_weights > self.log_weights.max() + _WEIGHTS[1]).sum())

    @property
    def _is_closed(self) -> bool:
        """True if the curves of the sizes are closed forms, so that the Rényi integral needs no table."""
        return self.curves.value_cost <= 1.0

    @property
    def renyi_cost(self) -> float:
        """The cost of an integral over the privacy curve, or over its chords."""
        return _INTEGRAL * (1.0 + self.curve_cost) if self._is_closed else CHORDS

    def ceiling(self, orders: FloatArray) -> FloatArray:
        """The largest Rényi divergence of all sizes, an upper bound."""
        return self.curves.ceiling(orders)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Rényi curve by integrating the privacy curve, which is that of both orders (Theorem 6).

        If values are no closed forms, the integral is that of the chords of a table.
        """
        if not self._is_closed:
            return ChordedPair.renyi(self, orders)
        known: list[tuple[FloatArray, FloatArray]] = []

        def curve(epsilon: FloatArray) -> FloatArray:
            """Log delta; the second of two requests for the same epsilons reads the first."""
            if not known or known[0][0] is not epsilon:
                known[:] = [(epsilon, self.log_delta(epsilon))]
            return known[0][1]

        found = renyi_from_curves((curve, curve), self.ceiling, self.max_divergence, self.order_limit, orders)
        return self.curves.limit_renyi(np.asarray(orders, dtype=np.float64), found)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """log of the weighted sum over the sizes."""
        return self._both_signs(self.curves.log_delta, epsilon)

    def approx_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The same with the approximate curves of the sizes."""
        return self._both_signs(self.curves.approx_log_delta, epsilon)

    def least_epsilon(self, log_delta: float) -> float:
        """Smallest epsilon at which the curve is found to be at most a given delta.

        The root of the approximate curve is moved by the distance of the two curves until the certified one confirms.
        """

        def approx(epsilon: FloatArray) -> FloatArray:
            return self.approx_log_delta(epsilon)

        epsilon = least_epsilon(approx, approx, log_delta)
        for attempt in range(_ATTEMPTS):
            excess = float(self.log_delta(np.array([epsilon]))[0]) - log_delta if np.isfinite(epsilon) else 0.0
            if excess <= 0.0:
                return epsilon
            ahead = epsilon * (1 + _NEAR) + _NEAR
            fall = float(-np.diff(approx(np.array([epsilon, ahead])))[0])
            epsilon += max(excess * 1.1, 1e-12) * (ahead - epsilon) / max(fall, 1e-6) * 2.0**attempt
        return ChordedPair.least_epsilon(self, log_delta)

    def _both_signs(self, curves: RowCurves, epsilon: FloatArray) -> FloatArray:
        """log delta at any real epsilon; for negative epsilon from the identity for a pair that is its own reverse."""
        e = np.asarray(epsilon, dtype=np.float64)
        distinct, where = np.unique(np.abs(e), return_inverse=True)
        size = max(_BLOCK // len(self.rates), 1)
        parts = [self._sum(curves, distinct[at : at + size]) for at in range(0, len(distinct), size)]
        above = np.concatenate([np.empty(0), *parts])[where].reshape(e.shape)
        return np.where(e >= 0, above, delta_below_zero(e, above))

    def _sum(self, curves: RowCurves, epsilon: FloatArray) -> FloatArray:
        """log of the weighted sum at increasing epsilons >= 0, likely sizes first, until the others are negligible."""
        scale = self.log_weights + np.log(self.rates)
        relative = self.log_weights - self.log_weights.max()
        total, open_ = np.full(epsilon.shape, -np.inf), np.ones(epsilon.shape, dtype=bool)
        done = np.zeros(relative.shape, dtype=bool)
        for least in _WEIGHTS:
            rows = np.flatnonzero(~done & (relative >= least))
            if not rows.size:
                continue
            done[rows] = True
            inner = inner_epsilon(epsilon[open_], self.rates[rows, None])
            # the rarest sizes count by a looser bound, which is cheap
            values = curves(rows, inner) if least > -np.inf else self.curves.loose_log_delta(rows, inner)
            terms = scale[rows, None] + values
            total[open_] = np.logaddexp(total[open_], np.logaddexp.reduce(terms, axis=0))
            rest = np.logaddexp.reduce(scale[~done], initial=-np.inf)
            complete = open_ & (rest < total - _NEGLIGIBLE)
            total[complete] = np.logaddexp(total[complete], rest)
            open_ &= ~complete
            if not open_.any():
                break
        rounding = _ULP * (8.0 + np.log2(len(scale)))
        return np.minimum(total + rounding, 0.0)

    def reverse(self) -> "SizeMixturePair":
        """The pair itself."""
        return self
