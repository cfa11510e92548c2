"""Accounts of Gaussian and Laplace noise. Everything is exact for the worst shift within the sensitivity."""

from dataclasses import replace

import numpy as np
from scipy import special

from privsample._checks import FloatArray, Real, positive, positive_integer
from privsample._logspace import expm1_excess, half_square, log1mexp, ratio_up, resolved
from privsample._value import put, value
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.curves.dots import density_dots, exponential_dots, joined, shared_out
from privsample.accounting.loss import ComplexArray, LossPair, SmoothPair, checked_divergence, delta_below_zero
from privsample.relations import AddRemove, Relation, related

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_ULP = float(np.finfo(np.float64).eps)
_UP = 1.0 + 2 * _ULP  # more than three roundings take away
_TRUSTED = frozenset({Assumption.IDEAL_REALS, Assumption.TRUSTED_SENSITIVITY})


@value
class GaussianPair(SmoothPair):
    """N(mu, 1) against N(0, 1): a shift of mu noise standard deviations. Its own reverse."""

    mu: float

    def __post_init__(self) -> None:
        put(self, mu=resolved(positive(mu=self.mu)))

    @property
    def max_loss(self) -> float:
        """Unbounded."""
        return np.inf

    def renyi(self, orders: FloatArray) -> FloatArray:
        """a mu^2 / 2, rounded up (Gil, Alajaji and Linder 2013)."""
        with np.errstate(over="ignore"):
            return np.asarray(orders) * (self.mu * self.mu / 2 * _UP)

    def log_mgf(self, t: ComplexArray) -> ComplexArray:
        """mu^2 t (t+1) / 2."""
        return self.mu * self.mu / 2 * t * (t + 1)

    def reverse(self) -> "GaussianPair":
        """Itself."""
        return self

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu) by Mills ratios (Balle and Wang 2018, Theorem 8)."""
        e = np.asarray(epsilon, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # a tiny mu leads beyond the smallest number
            above = self._log_delta_above(np.abs(e))
            far = np.abs(e) / self.mu + self.mu / 2  # what rounding of the two arguments of Phi can take away
            lost = 2e-15 * (1 + far * (1 + np.abs(np.abs(e) / self.mu - self.mu / 2)))
            above = np.where(np.isneginf(above), above, np.minimum(above * (1 - 2e-15) + lost, 0.0))
        below = delta_below_zero(e, above)
        return np.where(e >= 0, above, np.minimum(below * (1 - 2e-15) + 2e-15, 0.0))

    def dots(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """By quadrature of the density in each cell, where the cells are narrow."""
        gap, far = float(np.diff(nodes).max()), float(np.abs(nodes).max()) / self.mu + self.mu
        wide = gap / self.mu
        if wide > 1 / 16 or gap > 500.0:
            return joined(self.log_delta, self.log_delta, nodes)
        deep = float(np.abs(nodes / self.mu - self.mu / 2).max())
        error = 1e-13 + (wide * far / 2) ** 10 / 1e9 + 1e-15 * far * deep  # relative: of the rule, and of the exponent
        peak = error - np.log(self.mu) - 0.5 * np.log(2 * np.pi)
        below = float(special.log_ndtr(nodes[0] / self.mu - self.mu / 2))
        last = float(nodes[-1] + special.log_ndtr(-nodes[-1] / self.mu - self.mu / 2))
        log_p = density_dots(lambda loss: peak - 0.5 * (loss / self.mu - self.mu / 2) ** 2, nodes, below, last)
        return log_p, float(self.log_delta(nodes[-1:])[0])

    def _log_delta_above(self, e: FloatArray) -> FloatArray:
        low, high = e / self.mu - self.mu / 2, e / self.mu + self.mu / 2
        log_density = -0.5 * low * low - 0.5 * np.log(2 * np.pi)
        tight = np.maximum(low, -20.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.mu < 0.1:  # integrate the derivative of the Mills ratio, which has one sign
                points = (e / self.mu)[..., None] + self.mu / 2 * _NODES
                by_mills = log_density + np.log(self.mu / 2 * (_mills_slope(points) @ _WEIGHTS))
            else:
                by_mills = log_density + np.log(_mills(tight) - _mills(np.maximum(high, tight)))
            upper, lower = special.log_ndtr(-low), log_density + np.log(_mills(high))  # e itself would cancel
            direct = upper + log1mexp(np.minimum(lower - upper, 0.0))
        return np.where(low > -20.0, by_mills, direct)


def _mills(x: FloatArray) -> FloatArray:
    """Upper tail of the standard normal over its density."""
    return np.sqrt(np.pi / 2) * special.erfcx(x / np.sqrt(2))


def _mills_slope(x: FloatArray) -> FloatArray:
    """1 - x times the Mills ratio, > 0: minus its derivative; by its asymptotic series from 50 on."""
    far = 1.0 / np.maximum(x, 50.0) ** 2
    return np.where(x < 50.0, 1.0 - x * _mills(x), far * (1 - far * (3 - far * (15 - far * 105))))


@value
class LaplacePair(LossPair):
    """Laplace noise of scale one, shifted by `shift`. Its own reverse."""

    shift: float

    def __post_init__(self) -> None:
        put(self, shift=resolved(positive(shift=self.shift)))

    @property
    def max_loss(self) -> float:
        """shift."""
        return self.shift

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Mironov 2017, Proposition 6, as log1p of a positive sum, rounded up."""
        return laplace_renyi(self.shift, orders)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """1 - e^((e - z)/2) for |e| <= z, 1 - e^e below, 0 above (Balle, Barthe and Gaboardi 2018, Theorem 3)."""
        e = np.asarray(epsilon, dtype=np.float64)
        return log1mexp(np.minimum(np.where(e < -self.shift, e, (e - self.shift) / 2), 0.0))

    def reverse(self) -> "LaplacePair":
        """Itself."""
        return self

    def dots(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """P has masses 1/2 at shift and e^-shift / 2 at -shift, and density e^((l - shift)/2) / 4 between."""
        ends, share = self.shift * np.array([1.0, -1.0]), self.shift / 2 + np.log(4.0)
        atoms, at_infinity = shared_out((ends - self.shift) / 2 - np.log(2.0), ends, nodes)
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


@value
class GaussianAccountant(Accountant):
    """Gaussian noise of standard deviation `noise_std` on a statistic of L2 sensitivity `sensitivity`. Kind: exact."""

    sensitivity: float
    noise_std: float
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = _TRUSTED

    def __post_init__(self) -> None:
        put(self, relation=related(self.relation))
        put(self, sensitivity=positive(sensitivity=self.sensitivity), noise_std=positive(noise_std=self.noise_std))
        positive(**{"sensitivity / noise_std": ratio_up(self.sensitivity, self.noise_std)})

    @property
    def source(self) -> str:
        """The theorems."""
        return "Balle and Wang 2018, Theorem 8; Mironov 2017, Corollary 3"

    @property
    def pairs(self) -> tuple[LossPair, ...]:
        """One pair, its own reverse."""
        return (GaussianPair(mu=ratio_up(self.sensitivity, self.noise_std)),)

    @property
    def zcdp(self) -> float:
        """Half the squared ratio."""
        return half_square(ratio_up(self.sensitivity, self.noise_std))

    def group(self, size: int) -> "GaussianAccountant":
        """`size` times the sensitivity: exact."""
        size = positive_integer(size=size)
        return replace(self, sensitivity=size * self.sensitivity, relation=self.relation.group(size))


@value
class LaplaceAccountant(Accountant):
    """Laplace noise of scale `scale` on a statistic of L1 sensitivity `sensitivity`. Kind: exact.

    A vector of total shift s in L1 costs at most what one coordinate costs that moves by s (docs/notes/additive.md).
    """

    sensitivity: float
    scale: float
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = _TRUSTED

    def __post_init__(self) -> None:
        put(self, relation=related(self.relation))
        put(self, sensitivity=positive(sensitivity=self.sensitivity), scale=positive(scale=self.scale))
        positive(**{"sensitivity / scale": ratio_up(self.sensitivity, self.scale)})

    @property
    def source(self) -> str:
        """The theorems."""
        return "Balle, Barthe and Gaboardi 2018, Theorem 3; Mironov 2017, Proposition 6"

    @property
    def pairs(self) -> tuple[LossPair, ...]:
        """One pair, its own reverse."""
        return (LaplacePair(shift=ratio_up(self.sensitivity, self.scale)),)

    def group(self, size: int) -> "LaplaceAccountant":
        """`size` times the sensitivity: exact."""
        size = positive_integer(size=size)
        return replace(self, sensitivity=size * self.sensitivity, relation=self.relation.group(size))
