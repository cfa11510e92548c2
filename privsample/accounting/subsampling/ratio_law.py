"""Discrete distributions that dominate the likelihood ratio of a pair, from its privacy curves (allocation.md, step 3).

Y = dP/dQ under Q has mean 1, less the mass where Q is zero. D = Y - 1 for the tail above the mean, D = 1 - Y for the
tail below it: in both cases the tail of a mean of copies of D is needed. E(Y - x)_+ is the privacy curve of (P, Q) at
log x, and E(x - Y)_+ is x times that of (Q, P) at -log x.
"""

from dataclasses import dataclass

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.curves.conversion import Curve
from privsample.accounting.loss.pair import LossPair

_ULP = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True)
class RatioCurves:
    """The two sides of D: E(D - u)_+ and E(-D - u)_+ at distances u >= 0, rounded up.

    pair: (P, Q). above: True if D = Y - 1, False if D = 1 - Y.
    """

    pair: LossPair
    above: bool

    @property
    def largest(self) -> float:
        """Largest D, rounded up; +inf if Y is unbounded."""
        pair = self.pair if self.above else self.pair.reverse()
        top = pair.max_divergence * (1.0 + 8 * _ULP)
        with np.errstate(over="ignore"):
            found = np.expm1(top) if self.above else -np.expm1(-top)
        return float(found * (1.0 + 8 * _ULP)) if self.above else min(float(found * (1.0 + 8 * _ULP)), 1.0)

    def near(self, distance: FloatArray) -> FloatArray:
        """E(D - u)_+, shape of u."""
        return self._excess(distance) if self.above else self._deficit(distance)

    def far(self, distance: FloatArray) -> FloatArray:
        """E(-D - u)_+, shape of u."""
        return self._deficit(distance) if self.above else self._excess(distance)

    def _excess(self, distance: FloatArray) -> FloatArray:
        """E(Y - 1 - u)_+, with the mass where Q is zero: the privacy curve at log(1 + u)."""
        return _value(self.pair.log_delta, np.log1p(distance) * (1.0 - 8 * _ULP))

    def _deficit(self, distance: FloatArray) -> FloatArray:
        """E(1 - u - Y)_+, 0 from u = 1 on. The distance is reduced by its rounding error, which increases the value."""
        distance = np.minimum(distance, 1.0) * (1.0 - 4 * _ULP)
        found = _value(self.pair.reverse().log_delta, -np.log1p(-distance) * (1.0 - 8 * _ULP))
        return (1.0 - distance) * found * (1.0 + 4 * _ULP)


def _value(log_delta: Curve, epsilon: FloatArray) -> FloatArray:
    """delta, rounded up by the rounding error of the exponential."""
    found = log_delta(epsilon)
    return np.where(np.isneginf(found), 0.0, np.exp(found) * (1.0 + 4 * _ULP * (1.0 + np.abs(np.maximum(found, -1e3)))))


@dataclass(frozen=True, slots=True)
class RatioLaw:
    """Masses of a discrete D, in increasing order of D; `infinite` is what E(D - u)_+ keeps beyond the last node.

    far, near: numbers of nodes on either side of 0. masses: shape (far + 1 + near,), which add up to 1.
    """

    far: int
    near: int
    masses: FloatArray
    infinite: float

    @classmethod
    def of(cls, curves: RatioCurves, near: FloatArray, far: FloatArray) -> "RatioLaw":
        """The distribution whose E(D - x)_+ connects upper bounds at the nodes by straight lines (step 3).

        near, far: increasing distances of the nodes from 0 on either side, each from 0 on. Values of -D beyond the last
        node of `far` are raised to it.
        """
        return cls.of_values(curves.near(near), curves.far(far), near, far)

    @classmethod
    def of_values(
        cls, ahead: FloatArray, back: FloatArray, near: FloatArray, far: FloatArray, *, hull: bool = False
    ) -> "RatioLaw":
        """As `of`, from upper bounds on E(D - u)_+ at `near` and on E(-D - u)_+ at `far`.

        With `hull`, their lower convex hulls take their place, which suits bounds that are unevenly loose.
        """
        slopes = _hull_slopes if hull else _slopes
        rise, fall = slopes(ahead, near), slopes(back, far)
        # The mean must not decrease through rounding: the near side is raised to balance the far side.
        balance = (fall @ np.diff(far) + back[-1]) / max(rise @ np.diff(near) + ahead[-1], 1e-300)
        scale = max(1.0, balance) * (1.0 + 4 * _ULP * (len(near) + len(far)))
        rise = np.minimum(rise * scale, 1.0)
        fall = np.minimum(fall, 1.0 - rise[0])
        centre = max(1.0 - rise[0] - fall[0], 0.0) + 4 * _ULP
        masses = np.concatenate([-np.diff(fall, append=0.0)[::-1], [centre], -np.diff(rise, append=0.0)])
        return cls(far=len(fall), near=len(rise), masses=masses * (1.0 + 4 * _ULP), infinite=float(ahead[-1] * scale))

    def tilted(self, distances: FloatArray, tilt: float) -> tuple[FloatArray, float]:
        """Masses times e^(tilt D), divided by their sum, and the log of the sum, both rounded up.

        distances: D at the nodes.
        """
        exponent = tilt * distances
        with np.errstate(divide="ignore"):
            logs = np.log(self.masses)
        logs = logs + exponent + 4 * _ULP * (np.abs(exponent) + np.abs(np.maximum(logs, -1e3)))
        top = float(logs.max())
        masses = np.exp(logs - top) * (1.0 + 4 * _ULP * (1.0 + np.minimum(top - logs, 1e3)))
        total = float(masses.sum())
        log_moment = top + float(np.log(total))
        return masses / total * (1.0 + 4 * _ULP), log_moment + 8 * _ULP * (1.0 + abs(log_moment))


def _slopes(values: FloatArray, distances: FloatArray) -> FloatArray:
    """Slopes of E(D - u)_+ between the nodes, negated: non-increasing and at most 1, as those of a distribution.

    Where rounding made a slope increase, the slopes before it are raised, which raises the curve there.
    """
    steep = -np.diff(values) / np.diff(distances)
    return np.minimum(np.maximum.accumulate(np.maximum(steep, 0.0)[::-1])[::-1], 1.0)


def _hull_slopes(values: FloatArray, distances: FloatArray) -> FloatArray:
    """Slopes of the lower convex hull, negated, at most 1: the isotonic regression of the slopes between the nodes.

    The true curve is convex and at most the values, hence at most their hull.
    """
    from scipy import optimize

    gaps = np.diff(distances)
    found = optimize.isotonic_regression(-np.diff(values) / gaps, weights=gaps, increasing=False).x
    return np.asarray(np.clip(found, 0.0, 1.0), dtype=np.float64)
