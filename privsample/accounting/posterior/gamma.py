"""The dominating pairs of two Gamma posteriors that differ in one record, in their shapes or in their rates.

Kind: exact. The methods are those of beta.py (posterior.md, sections 1 and 2). Geumlek, Song and Chaudhuri 2017,
Observation 5.
"""

from abc import abstractmethod
from dataclasses import replace
from fractions import Fraction

import numpy as np

from privsample._checks import FloatArray, Real, positive
from privsample._logspace import complex_log1p_excess, log1mexp, log1p_excess, log_gamma_growth, stirling_remainder
from privsample._value import frozen_value, set_fields
from privsample.accounting.curves.curvature import falling, rising, trigamma
from privsample.accounting.curves.quadrature import log_integral
from privsample.accounting.loss.exact import CertifiedPair, exact, reversed_pair
from privsample.accounting.loss.pair import ComplexArray, SmoothPair, checked_divergence, delta_below_zero
from privsample.accounting.posterior.pairs import (
    add_rounding_error,
    by_rows,
    falling_mgf,
    rising_mgf,
    rounding_noise,
    tail_bound,
)

_EPS = float(np.finfo(float).eps)
_LEAST_RATIO = 1e-300  # smaller ratios of rates are raised to it, which increases the loss


def _log_gamma_density(shape: Real, z: FloatArray) -> FloatArray:
    """Log density of log X - log shape at z for X ~ Gamma(shape); concave, with its maximum at z = 0."""
    falls = np.minimum(z, 1e300) - np.expm1(z)  # the minimum avoids inf - inf at z = +inf
    return 0.5 * np.log(shape / (2 * np.pi)) - stirling_remainder(shape) + shape * falls


class _GammaPair(SmoothPair):
    """Common methods of the two Gamma pairs; `rising` is True if P has the larger of the two parameters."""

    __slots__ = ()
    shape: float
    step: float
    rising: bool

    @property
    @abstractmethod
    def _smaller_parameter(self) -> float:
        """The smaller of the two values of the parameter that differs."""

    @abstractmethod
    def _curvature(self, u: FloatArray) -> FloatArray:
        """Second derivative of the log normalizer in the parameter that differs."""

    @abstractmethod
    def _threshold(self, epsilon: FloatArray) -> FloatArray:
        """Value of log X, relative to the mode of P, at which the loss equals epsilon >= 0."""

    @abstractmethod
    def _excess_loss(self, threshold: FloatArray, u: FloatArray) -> FloatArray:
        """Loss minus epsilon at distance u > 0 beyond the threshold."""

    @property
    @abstractmethod
    def _shape_of_p(self) -> float:
        """P's shape."""

    @property
    @abstractmethod
    def _exceeds_above(self) -> bool:
        """True if the loss exceeds epsilon above the threshold, False if below."""

    @property
    def order_limit(self) -> float:
        """1 + (smaller parameter) / step if P has the smaller parameter, otherwise +inf."""
        return np.inf if self.rising else 1.0 + self._smaller_parameter / self.step

    @property
    def renyi_cost(self) -> float:
        """Constant: each value is an integral."""
        return 20.0

    @property
    def is_expensive(self) -> bool:
        """True, because each value of the privacy curve is an integral."""
        return True

    @property
    def max_divergence(self) -> float:
        """Infinite, unless a subclass has a bounded loss."""
        return np.inf

    @abstractmethod
    def reverse(self) -> "_GammaPair":
        """The reversed pair (Q, P)."""

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Rényi divergence by an integral without cancellation, rounded up."""
        return by_rows(self._renyi_column, orders)

    def _renyi_column(self, orders: FloatArray) -> FloatArray:
        """Rényi divergence for a column of orders, (rows, 1)."""
        below = orders < self.order_limit
        base, step = np.full_like(orders, self._smaller_parameter), np.full_like(orders, self.step)
        with np.errstate(over="ignore"):
            s = np.where(below, orders - 1.0, base / step / 2)
        total = (rising if self.rising else falling)(s, base, step, self._curvature)
        return checked_divergence(np.where(below[:, 0], total, np.inf))

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Log delta by quadrature of a positive integrand, rounded up by its error bound."""
        e = np.asarray(epsilon, dtype=np.float64)
        result = np.full(e.shape, -np.inf)
        for sign, pair in ((e >= 0, self), (e < 0, self.reverse())):
            if sign.any():
                result[sign] = by_rows(pair._log_delta_column, np.abs(e[sign]))
        return np.where(e < 0, delta_below_zero(e, result), result)

    def _log_delta_column(self, epsilon: FloatArray) -> FloatArray:
        """Log delta for a column of epsilon >= 0, (rows, 1)."""
        with np.errstate(over="ignore", invalid="ignore"):
            threshold = self._threshold(epsilon)
            slope = self._shape_of_p * (np.expm1(threshold) if self._exceeds_above else -np.expm1(threshold))
            deep, result = tail_bound(_log_gamma_density(self._shape_of_p, threshold), slope)
            if not deep.all():
                starts = threshold[~deep]
                size = np.full_like(starts, self._shape_of_p)
                noise = rounding_noise(starts, size)
                integral = log_integral(lambda at, u: self._log_integrand(starts[at], u), len(starts), noise=noise)
                result[~deep] = add_rounding_error(integral, starts, size)
        return np.where(epsilon[:, 0] < self.max_divergence, result, -np.inf)

    def _log_integrand(self, threshold: FloatArray, u: FloatArray) -> FloatArray:
        """Log of P's density at distance u > 0 beyond the threshold, times 1 - e^(epsilon - loss)."""
        z = threshold + u if self._exceeds_above else threshold - u
        return _log_gamma_density(self._shape_of_p, z) + log1mexp(-self._excess_loss(threshold, u))


@frozen_value
class GammaShapePair(_GammaPair):
    """Two Gamma distributions of equal rate with shapes `shape` and `shape` + `step`.

    P has the larger shape if `rising`, otherwise the smaller. The loss is linear in the logarithm of the variable and
    unbounded in both directions.
    """

    shape: float
    step: float
    rising: bool

    def __post_init__(self) -> None:
        set_fields(self, shape=positive(shape=self.shape), step=positive(step=self.step), rising=bool(self.rising))

    @property
    def _smaller_parameter(self) -> float:
        return self.shape

    @property
    def _shape_of_p(self) -> float:
        return self.shape + self.step if self.rising else self.shape

    @property
    def _exceeds_above(self) -> bool:
        return self.rising

    def reverse(self) -> "GammaShapePair":
        """The reversed pair (Q, P)."""
        return replace(self, rising=not self.rising)

    def certified_pair(self) -> CertifiedPair:
        """Shape and step, exactly; reversed if P has the smaller shape."""
        pair = {"kind": "gamma_shape", "shape": exact(self.shape), "step": exact(self.step)}
        return pair if self.rising else reversed_pair(pair)

    def log_mgf(self, t: ComplexArray) -> ComplexArray:
        """Log moment generating function by log Gamma functions, whose modulus is largest on the real line."""
        return self.log_mgf_with_error(t)[0]

    def log_mgf_with_error(self, t: ComplexArray) -> tuple[ComplexArray, FloatArray]:
        """The same, and a bound on its error."""
        return (rising_mgf if self.rising else falling_mgf)(self.shape, self.step, t)

    def _curvature(self, u: FloatArray) -> FloatArray:
        return trigamma(u)

    def _threshold(self, epsilon: FloatArray) -> FloatArray:
        growth = log_gamma_growth(self.shape, self.step)
        if self.rising:
            return (epsilon + growth) / self.step - np.log1p(self.step / self.shape)
        return (growth - epsilon) / self.step

    def _excess_loss(self, threshold: FloatArray, u: FloatArray) -> FloatArray:
        del threshold
        return self.step * u


@frozen_value
class GammaRatePair(_GammaPair):
    """Two Gamma distributions of equal `shape` with rates `rate` and `rate` + `step`.

    P has the larger rate if `rising`, otherwise the smaller. The loss is linear in the variable: bounded above for the
    larger rate, unbounded for the smaller.
    """

    shape: float
    rate: float
    step: float
    rising: bool

    def __post_init__(self) -> None:
        set_fields(self, shape=positive(shape=self.shape), rate=positive(rate=self.rate), step=positive(step=self.step))
        set_fields(self, rising=bool(self.rising))

    @property
    def _smaller_parameter(self) -> float:
        return self.rate

    @property
    def _ratio(self) -> float:
        """The relative difference of the rates, on which alone the loss depends; rounded up to 1e-300."""
        return max(self.step / self.rate, _LEAST_RATIO)

    @property
    def _shape_of_p(self) -> float:
        return self.shape

    @property
    def _exceeds_above(self) -> bool:
        return not self.rising

    def reverse(self) -> "GammaRatePair":
        """The reversed pair (Q, P)."""
        return replace(self, rising=not self.rising)

    def certified_pair(self) -> CertifiedPair:
        """Shape and ratio of rates, exactly; reversed if P has the larger rate."""
        ratio = 1 + max(Fraction(self.step) / Fraction(self.rate), Fraction(_LEAST_RATIO))
        pair = {"kind": "gamma_rate", "shape": exact(self.shape), "ratio": exact(ratio)}
        return reversed_pair(pair) if self.rising else pair

    def log_mgf(self, t: ComplexArray) -> ComplexArray:
        """Log moment generating function: -shape times the logarithm of a linear function of t, plus a linear term."""
        return self.log_mgf_with_error(t)[0]

    def log_mgf_with_error(self, t: ComplexArray) -> tuple[ComplexArray, FloatArray]:
        """The same, and a bound on its error: a few ulp of each term."""
        ratio = self._ratio
        moved, share = (ratio * (t + 1), -(t + 1)) if self.rising else (-ratio * t, t)
        excess, linear = complex_log1p_excess(moved), share * log1p_excess(ratio)
        size = np.abs(excess) + np.abs(linear) + np.where(np.abs(moved) < 0.1, 0.0, np.abs(moved))
        return self.shape * (excess + linear), 8 * _EPS * self.shape * size

    def _curvature(self, u: FloatArray) -> FloatArray:
        return self.shape / u / u

    @property
    def max_divergence(self) -> float:
        """shape log(1 + step/rate) in nats if P has the larger rate, otherwise infinite."""
        return float(self.shape * np.log1p(self._ratio)) if self.rising else np.inf

    def _threshold(self, epsilon: FloatArray) -> FloatArray:
        ratio = self._ratio
        excess = log1p_excess(np.float64(ratio))
        if self.rising:
            offset = np.log1p(ratio) - (excess + epsilon * (1 + ratio) / self.shape) / ratio
        else:
            offset = (epsilon / self.shape - excess) / ratio
        return np.log1p(np.maximum(offset, -1.0 + _EPS))  # -1 at the largest loss, where log_delta is set to -inf

    def _excess_loss(self, threshold: FloatArray, u: FloatArray) -> FloatArray:
        ratio = self._ratio
        at_threshold = ratio * self.shape * np.exp(threshold)
        return at_threshold / (1 + ratio) * -np.expm1(-u) if self.rising else at_threshold * np.expm1(u)
