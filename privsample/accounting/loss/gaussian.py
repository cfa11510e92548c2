"""The dominating pair of Gaussian noise. Kind: exact."""

from fractions import Fraction

import numpy as np
from scipy import special

from privsample._checks import FloatArray, Real, positive
from privsample._logspace import log1mexp, resolved
from privsample._value import frozen_value, set_fields
from privsample.accounting.curves.discretize import discretize_curve, discretize_density
from privsample.accounting.loss.exact import CertifiedPair, CertifiedRenyi, exact
from privsample.accounting.loss.pair import ComplexArray, LossPair, SmoothPair, delta_below_zero

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_UP = 1.0 + 2 * float(np.finfo(np.float64).eps)  # bounds the relative rounding error of three operations
_SMALL = 0.1  # shifts below which differences of Mills ratios cancel


@frozen_value
class GaussianPair(SmoothPair):
    """N(mu, 1) against N(0, 1): a shift by mu noise standard deviations. The pair is its own reverse."""

    mu: float

    def __post_init__(self) -> None:
        set_fields(self, mu=resolved(positive(mu=self.mu)))

    @property
    def max_divergence(self) -> float:
        """Infinite: the loss is unbounded."""
        return np.inf

    @property
    def gaussian_part(self) -> tuple[float, float]:
        """The shift itself."""
        return self.mu, 0.0

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Rényi divergence a mu^2 / 2, rounded up (Gil, Alajaji and Linder 2013)."""
        return gaussian_renyi(self.mu, orders)

    def log_mgf(self, t: ComplexArray) -> ComplexArray:
        """Log moment generating function mu^2 t (t+1) / 2."""
        return self.mu * self.mu / 2 * t * (t + 1)

    def dominates(self, other: LossPair) -> bool:
        """True for Gaussian pairs of at most this shift, which are a post-processing (scaling and added noise)."""
        return isinstance(other, GaussianPair) and self.mu >= other.mu

    def reverse(self) -> "GaussianPair":
        """The pair itself, by symmetry."""
        return self

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Log of Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu) by Mills ratios (Balle and Wang 2018, Theorem 8)."""
        e = np.asarray(epsilon, dtype=np.float64)
        above = gaussian_log_delta(self.mu, np.abs(e))
        below = delta_below_zero(e, above)
        return np.where(e >= 0, above, np.minimum(below * (1 - 2e-15) + 2e-15, 0.0))

    def certified_pair(self) -> CertifiedPair:
        """The squared shift, exactly."""
        return {"kind": "gaussian", "mu_squared": exact(Fraction(self.mu) ** 2)}

    def certified_renyi(self) -> CertifiedRenyi:
        """Half the squared shift."""
        return Fraction(self.mu) ** 2 / 2, ()

    def discretize(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """Discretize by quadrature of the density in each cell if cells are narrow, otherwise from the curve."""
        gap, far = float(np.diff(nodes).max()), float(np.abs(nodes).max()) / self.mu + self.mu
        wide = gap / self.mu
        if wide > 1 / 16 or gap > 500.0:
            return discretize_curve(self.log_delta, self.log_delta, nodes)
        deep = float(np.abs(nodes / self.mu - self.mu / 2).max())
        error = 1e-13 + (wide * far / 2) ** 10 / 1e9 + 1e-15 * far * deep  # relative error of the rule and the exponent
        peak = error - np.log(self.mu) - 0.5 * np.log(2 * np.pi)
        below = float(special.log_ndtr(nodes[0] / self.mu - self.mu / 2))
        last = float(nodes[-1] + special.log_ndtr(-nodes[-1] / self.mu - self.mu / 2))
        log_p = discretize_density(lambda loss: peak - 0.5 * (loss / self.mu - self.mu / 2) ** 2, nodes, below, last)
        return log_p, float(self.log_delta(nodes[-1:])[0])


def gaussian_renyi(mu: float, orders: FloatArray) -> FloatArray:
    """Rényi divergence a mu^2 / 2 of N(mu, 1) from N(0, 1), rounded up (Gil, Alajaji and Linder 2013)."""
    with np.errstate(over="ignore"):
        return np.asarray(orders) * (mu * mu / 2 * _UP)


def gaussian_log_delta(mu: Real, epsilon: FloatArray) -> FloatArray:
    """Log delta of N(mu, 1) against N(0, 1) at epsilon >= 0, rounded up; mu broadcasts against epsilon."""
    shift = np.asarray(mu, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # e/mu overflows for a tiny mu
        small = shift < _SMALL
        if small.all() or not small.any():
            above = _log_delta_above(shift, epsilon, small=bool(small.all()))
        else:
            shifts, e = np.broadcast_arrays(shift, epsilon)
            small, above = shifts < _SMALL, np.empty(shifts.shape)
            for rows, is_small in ((small, True), (~small, False)):
                above[rows] = _log_delta_above(shifts[rows], e[rows], small=is_small)
        far = epsilon / shift + shift / 2  # size of the larger argument of Phi, for its rounding error
        lost = 2e-15 * (1 + far * (1 + np.abs(epsilon / shift - shift / 2)))
        return np.where(np.isneginf(above), above, np.minimum(above * (1 - 2e-15) + lost, 0.0))


def _log_delta_above(mu: FloatArray, e: FloatArray, *, small: bool) -> FloatArray:
    """Log delta at e >= 0, not rounded up; the difference of the two tails is never formed where it would cancel."""
    low, high = e / mu - mu / 2, e / mu + mu / 2
    log_density = -0.5 * low * low - 0.5 * np.log(2 * np.pi)
    tight = np.maximum(low, -20.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        if small:  # the difference of Mills ratios cancels, so integrate their derivative
            points = (e / mu)[..., None] + (mu / 2)[..., None] * _NODES
            by_mills = log_density + np.log(mu / 2 * (_mills_slope(points) @ _WEIGHTS))
        else:
            by_mills = log_density + np.log(_mills(tight) - _mills(np.maximum(high, tight)))
        # e^e times the lower tail is density(low) * mills(high): adding e to the tail's logarithm would cancel.
        upper, lower = special.log_ndtr(-low), log_density + np.log(_mills(high))
        direct = upper + log1mexp(np.minimum(lower - upper, 0.0))
    return np.where(low > -20.0, by_mills, direct)


def _mills(x: FloatArray) -> FloatArray:
    """Mills ratio: upper tail of the standard normal divided by its density."""
    return np.sqrt(np.pi / 2) * special.erfcx(x / np.sqrt(2))


def _mills_slope(x: FloatArray) -> FloatArray:
    """1 - x mills(x) > 0, minus the derivative of the Mills ratio; by its asymptotic series from 50 on.

    The series alternates. Its last term here is positive, so that it lies above, by less than 10395 / 50^10 = 1.1e-13.
    """
    far = 1.0 / np.maximum(x, 50.0) ** 2
    return np.where(x < 50.0, 1.0 - x * _mills(x), far * (1 - far * (3 - far * (15 - far * (105 - far * 945)))))
