"""The dominating pair of Laplace noise. Kind: exact."""

from collections.abc import Sequence

import numpy as np

from privsample._checks import FloatArray, Real, positive
from privsample._logspace import expm1_excess, log1mexp, resolved
from privsample._value import frozen_value, set_fields
from privsample.accounting.curves.discretize import discretize_exponential, split_mass
from privsample.accounting.loss.exact import CertifiedPair, exact
from privsample.accounting.loss.lattice import LatticeLoss
from privsample.accounting.loss.pair import LossPair, checked_divergence

_ULP = float(np.finfo(np.float64).eps)
_LOG_HALF = float(np.log(0.5))


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

    @property
    def largest_loss(self) -> float:
        """The shift."""
        return self.shift

    @property
    def log_top_mass(self) -> float:
        """log 1/2, the mass of the atom at the shift."""
        return _LOG_HALF

    @classmethod
    def approx_log_mgf(cls, pairs: "Sequence[LaplacePair]", tilts: FloatArray) -> FloatArray:
        """All moments together: ((c + 1) e^(c z) + c e^(-(c + 1) z)) / (2c + 1) for the shift z."""
        shifts = np.array([[pair.shift] for pair in pairs])
        rest: FloatArray = np.log((1.0 + tilts + tilts * np.exp(-(2 * tilts + 1) * shifts)) / (2 * tilts + 1))
        return tilts * shifts + rest

    def tilted_lattice(self, c: float, step: float, low: float, high: float) -> LatticeLoss:
        """Discretize on the whole support in closed form (docs/notes/grid.md, section 8).

        With k steps between a node and the shift, the P mass is e^(-k step/2) tanh(step/4) where both cells beside the
        node lie inside the support.
        """
        del low, high
        z, h = self.shift, step
        last = max(int(np.ceil(2 * z / h)), 1)  # the number of steps down to the lowest node, at most -z
        k = np.arange(last + 1)
        rest = min(max(2 * z - (last - 1) * h, 0.0), h)  # from -z up to the lowest node but one
        mass = np.exp(-(c + 0.5) * h * k)
        mass *= np.tanh(h / 4)
        mass[0] = 0.5 + (0.5 * np.tanh(h / 4) if last > 1 else 0.0)
        # The lowest two nodes share the part of the support between them, and the atom e^-z / 2 at -z.
        whole, scale = -np.expm1(-h), np.exp(-0.5 * h * (last - 1))
        part_low = scale * 2 * np.exp(-h) * np.sinh(rest / 4) ** 2 / whole
        part_high = scale * -np.expm1(-rest / 2) / 2 - part_low
        atom = np.exp(-z) / 2
        to_low, to_high = np.exp(-h) * np.expm1(rest) / whole, -np.expm1(rest - h) / whole
        inner = (0.5 * scale * np.tanh(h / 4)) if last > 1 else 0.5
        mass[last - 1] = (inner + part_high + atom * to_high) * np.exp(-c * h * (last - 1))
        mass[last] = (part_low + atom * to_low) * np.exp(-c * h * last)
        # Exponents are at most (c + 1) (2 z + h), and each mass has fewer than 16 further operations.
        error = _ULP * (32.0 + 4 * (c + 1.0) * (2 * z + h))
        total = float(mass.sum()) * (1.0 + error)
        return LatticeLoss(
            top=z,
            tilted=mass[::-1] * ((1.0 + error) / total),
            log_moment=float(c * z + np.log(total)) + 4 * _ULP * (1.0 + c * z),
            log_mass=float(error),
            log_infinite=-np.inf,
        )


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
