"""The pair of Laplace noise. Exact."""

import numpy as np

from privsample._checks import FloatArray, Real, positive
from privsample._logspace import expm1_excess, log1mexp, resolved
from privsample._value import frozen_value, set_fields
from privsample.accounting.curves.discretize import exponential_dots, split_mass
from privsample.accounting.loss.pair import LossPair, checked_divergence

_ULP = float(np.finfo(np.float64).eps)


@frozen_value
class LaplacePair(LossPair):
    """Laplace noise of scale one, shifted by `shift`. Its own reverse."""

    shift: float

    def __post_init__(self) -> None:
        set_fields(self, shift=resolved(positive(shift=self.shift)))

    @property
    def max_divergence(self) -> float:
        """shift."""
        return self.shift

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Mironov 2017, Proposition 6, as log1p of a positive sum, rounded up."""
        return laplace_renyi(self.shift, orders)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """1 - e^((e - z)/2) for |e| <= z, 1 - e^e below, 0 above (Balle, Barthe and Gaboardi 2018, Theorem 3)."""
        e = np.asarray(epsilon, dtype=np.float64)
        return log1mexp(np.minimum(np.where(e < -self.shift, e, (e - self.shift) / 2), 0.0))

    def dominates(self, other: LossPair) -> bool:
        """A shift dominates every smaller one: both curves grow with it."""
        return isinstance(other, LaplacePair) and self.shift >= other.shift

    def reverse(self) -> "LaplacePair":
        """Itself."""
        return self

    def discretize(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """P has masses 1/2 at shift and e^-shift / 2 at -shift, and density e^((l - shift)/2) / 4 between."""
        ends, share = self.shift * np.array([1.0, -1.0]), self.shift / 2 + np.log(4.0)
        atoms, at_infinity = split_mass((ends - self.shift) / 2 - np.log(2.0), ends, nodes)
        between, beyond = exponential_dots(nodes, self.shift)
        return np.logaddexp(atoms, between - share), float(np.logaddexp(at_infinity, beyond - share))


def laplace_renyi(shift: Real, orders: FloatArray) -> FloatArray:
    """R_a of Laplace noise of scale one and itself `shift` >= 0 further, by broadcasting, rounded up."""
    alpha = np.asarray(orders, dtype=np.float64)
    z, s = np.asarray(shift, dtype=np.float64), alpha - 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        near = (alpha * expm1_excess(z * s) + s * expm1_excess(-z * alpha)) / (2 * alpha - 1)
        far = z * s - np.log1p(s / alpha) + np.log1p(s / alpha * np.exp(-z * (alpha + s)))
        lost = _ULP * (4.0 + z * s)  # of the exponents; the divergence times s is above log 2 there
    total = np.where(near < 1.0, np.log1p(np.minimum(near, 1.0)) * (1.0 + 16 * _ULP), far + 4.0 * lost)
    return checked_divergence(np.minimum(total / s * (1.0 + 2 * _ULP), z))
