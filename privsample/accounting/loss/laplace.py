"""The dominating pair of Laplace noise. Kind: exact."""

import numpy as np

from privsample._checks import FloatArray, Real, positive
from privsample._logspace import expm1_excess, log1mexp, resolved
from privsample._value import frozen_value, set_fields
from privsample.accounting.curves.discretize import discretize_exponential, split_mass
from privsample.accounting.loss.exact import CertifiedPair, exact
from privsample.accounting.loss.pair import LossPair, checked_divergence

_ULP = float(np.finfo(np.float64).eps)


@frozen_value
class LaplacePair(LossPair):
    """Laplace(shift, 1) against Laplace(0, 1): a shift by `shift` noise scales. The pair is its own reverse."""

    shift: float

    def __post_init__(self) -> None:
        set_fields(self, shift=resolved(positive(shift=self.shift)))

    @property
    def max_divergence(self) -> float:
        """The shift."""
        return self.shift

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Rényi divergence (Mironov 2017, Proposition 6), rounded up."""
        return laplace_renyi(self.shift, orders)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Log of 1 - e^((e - z)/2) for |e| <= z, of 1 - e^e below, -inf above (z the shift).

        Balle, Barthe and Gaboardi 2018, Theorem 3.
        """
        e = np.asarray(epsilon, dtype=np.float64)
        return log1mexp(np.minimum(np.where(e < -self.shift, e, (e - self.shift) / 2), 0.0))

    def dominates(self, other: LossPair) -> bool:
        """True for Laplace pairs of at most this shift: the privacy curve increases with the shift."""
        return isinstance(other, LaplacePair) and self.shift >= other.shift

    def reverse(self) -> "LaplacePair":
        """The pair itself, by symmetry."""
        return self

    def certified_pair(self) -> CertifiedPair:
        """The shift, exactly."""
        return {"kind": "laplace", "shift": exact(self.shift)}

    def discretize(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """Discretize in closed form.

        The loss has P masses 1/2 at shift and e^-shift / 2 at -shift, and P density e^((l - shift)/2) / 4 between.
        """
        ends, share = self.shift * np.array([1.0, -1.0]), self.shift / 2 + np.log(4.0)
        atoms, at_infinity = split_mass((ends - self.shift) / 2 - np.log(2.0), ends, nodes)
        between, beyond = discretize_exponential(nodes, self.shift)
        return np.logaddexp(atoms, between - share), float(np.logaddexp(at_infinity, beyond - share))


def laplace_renyi(shift: Real, orders: FloatArray) -> FloatArray:
    """Rényi divergence of Laplace(shift, 1) from Laplace(0, 1), rounded up; `shift` >= 0 and `orders` broadcast.

    Small divergences are computed as log1p of positive terms, large ones from the dominant exponential.
    """
    alpha = np.asarray(orders, dtype=np.float64)
    z, s = np.asarray(shift, dtype=np.float64), alpha - 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        near = (alpha * expm1_excess(z * s) + s * expm1_excess(-z * alpha)) / (2 * alpha - 1)
        far = z * s - np.log1p(s / alpha) + np.log1p(s / alpha * np.exp(-z * (alpha + s)))
        lost = _ULP * (4.0 + z * s)  # rounding error of the exponents; s R_a exceeds log 2 in this branch
    total = np.where(near < 1.0, np.log1p(np.minimum(near, 1.0)) * (1.0 + 16 * _ULP), far + 4.0 * lost)
    return checked_divergence(np.minimum(total / s * (1.0 + 2 * _ULP), z))
