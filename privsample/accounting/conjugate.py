"""Loss pairs of two conjugate posteriors one record apart: Beta, Gamma by shape, Gamma by rate. All exact.

Renyi divergences integrate the curvature of the log normalizer along the segment between the two posteriors; privacy
curves integrate the density beyond the threshold of the loss, which is monotone in one coordinate. Neither cancels.
Source: Geumlek, Song and Chaudhuri 2017, Observation 5; docs/notes/posterior.md.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, Real, positive
from privsample._logspace import (
    complex_log1p_excess,
    complex_log_gamma_growth,
    log1mexp,
    log1p_excess,
    log_gamma_growth,
    stirling_remainder,
)
from privsample._value import put, value
from privsample.accounting.curvature import falling, rising, trigamma
from privsample.accounting.loss import ComplexArray, SmoothPair, checked_divergence, delta_below_zero
from privsample.accounting.quadrature import log_integral

_EPS = float(np.finfo(float).eps)
_LEAST, _DEEP = -1e300, -1e5
_BLOCK = 2048


def _by_rows(function: Callable[..., FloatArray], *arrays: Real) -> FloatArray:
    """function(columns) for the arrays broadcast to columns (rows, 1), a block at a time; in their common shape."""
    full = np.broadcast_arrays(*[np.asarray(array, dtype=np.float64) for array in arrays])
    columns = [array.reshape(-1, 1) for array in full]
    starts = range(0, len(columns[0]), _BLOCK)
    found = [function(*(column[start : start + _BLOCK] for column in columns)) for start in starts]
    return np.concatenate([np.empty(0), *found]).reshape(full[0].shape)


def _deep_tail(log_density: FloatArray, slope: FloatArray) -> tuple[NDArray[np.bool_], FloatArray]:
    """Rows whose threshold lies so deep in P's tail that nothing smaller matters, and density/slope, which bounds them.

    log_density and slope (how fast it falls) are taken at the threshold, as columns; the bound is that of a log-concave
    tail. What underflows even as a logarithm is not zero: it becomes the least logarithm that is told apart from it.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        bound = (log_density * (1 - 1e-13) - np.log(slope))[:, 0]
    return (~(log_density >= _DEEP) & ~(slope <= 0))[:, 0], np.where(bound > _LEAST, np.minimum(bound, 0.0), _LEAST)


def _rounded(integral: FloatArray, threshold: FloatArray, size: Real) -> FloatArray:
    """The integral with what log density and threshold lost to rounding; `size`, a column: the density's curvature."""
    lost = 16 * _EPS * (1 + np.sqrt(size) + np.abs(threshold) * size)
    return np.minimum(integral + lost[:, 0], 0.0)


def _log_gamma_density(shape: Real, z: FloatArray) -> FloatArray:
    """Log density of log X - log shape at z, X ~ Gamma(shape): concave, zero derivative at z = 0."""
    return 0.5 * np.log(shape / (2 * np.pi)) - stirling_remainder(shape) + shape * (z - np.expm1(z))


def _log_beta_density(a: FloatArray, b: FloatArray, z: FloatArray) -> FloatArray:
    """Log density of logit X - log(a/b) at z, X ~ Beta(a, b): concave, zero derivative at z = 0."""
    p, q = a / (a + b), b / (a + b)
    near = np.clip(z, -30.0, 30.0)
    up = np.where(z > 30.0, np.logaddexp(np.log(q), np.log(p) + z), np.log1p(p * np.expm1(near)))
    down = np.where(z < -30.0, np.logaddexp(np.log(p), np.log(q) - z), np.log1p(q * np.expm1(-near)))
    remainders = stirling_remainder(a + b) - stirling_remainder(a) - stirling_remainder(b)
    constant = 0.5 * np.log(p / (2 * np.pi) * b) + remainders
    return constant - a * down - b * up


def _beta_renyi(a: FloatArray, b: FloatArray, step: FloatArray, orders: FloatArray) -> FloatArray:
    """R_order of Beta(a + step, b) from Beta(a, b + step), for columns."""
    below = orders < 1.0 + b / step
    s = np.where(below, orders - 1.0, b / step / 2)
    total = rising(s, a, step, trigamma) + falling(s, b, step, trigamma)
    return checked_divergence(np.where(below[:, 0], total, np.inf))


def _beta_log_delta(a: FloatArray, b: FloatArray, step: FloatArray, epsilon: FloatArray) -> FloatArray:
    """log D_{e^epsilon} of Beta(a + step, b) from Beta(a, b + step), for columns and epsilon >= 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        threshold = (epsilon + log_gamma_growth(a, step) - log_gamma_growth(b, step)) / step - np.log1p(step / a)
        p, q = (a + step) / (a + b + step), b / (a + b + step)
        slope = (a + step) * q * -np.expm1(-threshold) / (q * np.exp(-threshold) + p)
        deep, result = _deep_tail(_log_beta_density(a + step, b, threshold), slope)
    if not deep.all():
        result[~deep] = _beta_integral(*(column[~deep] for column in (a, b, step, threshold)))
    return result


def _beta_integral(a: FloatArray, b: FloatArray, step: FloatArray, threshold: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        integral = log_integral(
            lambda at, u: _log_beta_density((a + step)[at], b[at], threshold[at] + u) + log1mexp(-step[at] * u),
            len(threshold),
        )
    return _rounded(integral, threshold, (a + step) * (b / (a + b + step)))


def beta_log_delta(a: Real, b: Real, step: Real, epsilon: Real) -> FloatArray:
    """log D_{e^epsilon} of Beta(a + step, b) from Beta(a, b + step); all arguments broadcast, any real epsilon."""
    turned = np.asarray(epsilon) < 0  # the mirrored pair, at -epsilon
    first, second = np.where(turned, b, a), np.where(turned, a, b)
    above = _by_rows(_beta_log_delta, first, second, step, np.abs(epsilon))
    return np.where(turned, delta_below_zero(np.asarray(epsilon), above), above)


def _rising_mgf(base: float, step: float, t: ComplexArray) -> ComplexArray:
    """What a Gamma coordinate adds to log M(t) that is base + step under P and base under Q."""
    whole = complex_log_gamma_growth(base, np.array(step + 0j))
    return complex_log_gamma_growth(base, (t + 1) * step) - (t + 1) * whole


def _falling_mgf(base: float, step: float, t: ComplexArray) -> ComplexArray:
    """What a Gamma coordinate adds to log M(t) that is base under P and base + step under Q."""
    return complex_log_gamma_growth(base, -t * step) + t * complex_log_gamma_growth(base, np.array(step + 0j))


@value
class BetaPair(SmoothPair):
    """P = Beta(a + step, b) against Q = Beta(a, b + step): one success replaced by a failure.

    Mirrored (a and b exchanged) it is its own reverse. The loss is step * logit(theta) plus a constant: unbounded.
    """

    a: float
    b: float
    step: float

    def __post_init__(self) -> None:
        put(self, a=positive(a=self.a), b=positive(b=self.b), step=positive(step=self.step))

    @property
    def order_limit(self) -> float:
        """1 + b/step."""
        return 1.0 + self.b / self.step

    @property
    def dear(self) -> bool:
        """Its privacy curve is an integral."""
        return True

    @property
    def max_loss(self) -> float:
        """Unbounded."""
        return np.inf

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Integral form without cancellation; relative error below 1e-10."""
        return _by_rows(_beta_renyi, self.a, self.b, self.step, orders)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Quadrature of a positive integrand, rounded up by its error bound."""
        return beta_log_delta(self.a, self.b, self.step, epsilon)

    def log_mgf(self, t: ComplexArray) -> ComplexArray:
        """Of log-Gamma functions, which are largest on the real line."""
        return _rising_mgf(self.a, self.step, t) + _falling_mgf(self.b, self.step, t)

    def reverse(self) -> "BetaPair":
        """The mirror image."""
        return BetaPair(a=self.b, b=self.a, step=self.step)

    @classmethod
    def worst_renyi(cls, pairs: Sequence[Self], orders: FloatArray) -> FloatArray:
        """All pairs in one call."""
        a, b, step = _stacked(pairs, np.ndim(orders))
        return _by_rows(_beta_renyi, a, b, step, orders).max(axis=0)

    @classmethod
    def worst_log_delta(cls, pairs: Sequence[Self], epsilon: FloatArray) -> FloatArray:
        """All pairs in one call."""
        a, b, step = _stacked(pairs, np.ndim(epsilon))
        return beta_log_delta(a, b, step, epsilon).max(axis=0)


def _stacked(pairs: Sequence[BetaPair], dimensions: int) -> list[FloatArray]:
    """a, b and step, each (pairs, 1, ..., 1) with `dimensions` ones."""
    table = np.array([(pair.a, pair.b, pair.step) for pair in pairs])
    return [column.reshape(-1, *[1] * dimensions) for column in table.T]


class _GammaPair(SmoothPair):
    """Common to the two Gamma pairs: one falling or rising coordinate, one threshold."""

    __slots__ = ()
    shape: float
    step: float
    rising: bool

    @property
    @abstractmethod
    def _moving(self) -> float:
        """The smaller of the two parameters that differ."""

    @abstractmethod
    def _curvature(self, u: FloatArray) -> FloatArray:
        """Second derivative of the log normalizer in the parameter that differs."""

    @abstractmethod
    def _threshold(self, epsilon: FloatArray) -> FloatArray:
        """Where the loss is epsilon >= 0, as an offset from the centre of P."""

    @abstractmethod
    def _gap(self, threshold: FloatArray, u: FloatArray) -> FloatArray:
        """Loss minus epsilon at distance u > 0 beyond the threshold."""

    @property
    @abstractmethod
    def _shape_of_p(self) -> float:
        """P's shape."""

    @property
    @abstractmethod
    def _upper(self) -> bool:
        """Whether the loss exceeds epsilon above the threshold, not below it."""

    @property
    def order_limit(self) -> float:
        """1 + the smaller parameter / step where P has it, else +inf."""
        return np.inf if self.rising else 1.0 + self._moving / self.step

    @property
    def dear(self) -> bool:
        """Its privacy curve is an integral."""
        return True

    @property
    def max_loss(self) -> float:
        """Unbounded, unless a subclass says otherwise."""
        return np.inf

    @abstractmethod
    def reverse(self) -> "_GammaPair":
        """(Q, P)."""

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Integral form without cancellation; relative error below 1e-10."""
        return _by_rows(self._renyi_column, orders)

    def _renyi_column(self, orders: FloatArray) -> FloatArray:
        below = orders < self.order_limit
        base, step = np.full_like(orders, self._moving), np.full_like(orders, self.step)
        s = np.where(below, orders - 1.0, base / step / 2)
        total = (rising if self.rising else falling)(s, base, step, self._curvature)
        return checked_divergence(np.where(below[:, 0], total, np.inf))

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Quadrature of a positive integrand, rounded up by its error bound."""
        e = np.asarray(epsilon, dtype=np.float64)
        result = np.full(e.shape, -np.inf)
        for sign, pair in ((e >= 0, self), (e < 0, self.reverse())):
            if sign.any():
                result[sign] = _by_rows(pair._log_delta_column, np.abs(e[sign]))
        return np.where(e < 0, delta_below_zero(e, result), result)

    def _log_delta_column(self, epsilon: FloatArray) -> FloatArray:
        """For epsilon >= 0."""
        with np.errstate(over="ignore", invalid="ignore"):
            threshold = self._threshold(epsilon)
            slope = self._shape_of_p * (np.expm1(threshold) if self._upper else -np.expm1(threshold))
            deep, result = _deep_tail(_log_gamma_density(self._shape_of_p, threshold), slope)
            if not deep.all():
                starts = threshold[~deep]
                integral = log_integral(lambda at, u: self._log_beyond(starts[at], u), len(starts))
                result[~deep] = _rounded(integral, starts, np.full_like(starts, self._shape_of_p))
        return np.where(epsilon[:, 0] < self.max_loss, result, -np.inf)

    def _log_beyond(self, threshold: FloatArray, u: FloatArray) -> FloatArray:
        """Log of P's density at distance u > 0 beyond the threshold, times 1 - e^(epsilon - loss)."""
        z = threshold + u if self._upper else threshold - u
        return _log_gamma_density(self._shape_of_p, z) + log1mexp(-self._gap(threshold, u))


@value
class GammaShapePair(_GammaPair):
    """Gamma laws of one rate, shapes `shape` and `shape` + step; P has the larger one if `rising`, else the smaller.

    The loss is linear in the logarithm of the parameter: unbounded both ways.
    """

    shape: float
    step: float
    rising: bool

    def __post_init__(self) -> None:
        put(self, shape=positive(shape=self.shape), step=positive(step=self.step), rising=bool(self.rising))

    @property
    def _moving(self) -> float:
        return self.shape

    @property
    def _shape_of_p(self) -> float:
        return self.shape + self.step if self.rising else self.shape

    @property
    def _upper(self) -> bool:
        return self.rising

    def reverse(self) -> "GammaShapePair":
        """The other direction."""
        return replace(self, rising=not self.rising)

    def log_mgf(self, t: ComplexArray) -> ComplexArray:
        """Of log-Gamma functions, which are largest on the real line."""
        return (_rising_mgf if self.rising else _falling_mgf)(self.shape, self.step, t)

    def _curvature(self, u: FloatArray) -> FloatArray:
        return trigamma(u)

    def _threshold(self, epsilon: FloatArray) -> FloatArray:
        growth = log_gamma_growth(self.shape, self.step)
        if self.rising:
            return (epsilon + growth) / self.step - np.log1p(self.step / self.shape)
        return (growth - epsilon) / self.step

    def _gap(self, threshold: FloatArray, u: FloatArray) -> FloatArray:
        del threshold
        return self.step * u


@value
class GammaRatePair(_GammaPair):
    """Gamma laws of one shape, rates `rate` and `rate` + step; P has the larger one if `rising`, else the smaller."""

    shape: float
    rate: float
    step: float
    rising: bool

    def __post_init__(self) -> None:
        put(self, shape=positive(shape=self.shape), rate=positive(rate=self.rate), step=positive(step=self.step))
        put(self, rising=bool(self.rising))

    @property
    def _moving(self) -> float:
        return self.rate

    @property
    def _shape_of_p(self) -> float:
        return self.shape

    @property
    def _upper(self) -> bool:
        return not self.rising

    def reverse(self) -> "GammaRatePair":
        """The other direction."""
        return replace(self, rising=not self.rising)

    def log_mgf(self, t: ComplexArray) -> ComplexArray:
        """-shape times a logarithm that is linear in t inside."""
        ratio = self.step / self.rate
        moved, share = (ratio * (t + 1), -(t + 1)) if self.rising else (-ratio * t, t)
        return self.shape * (complex_log1p_excess(moved) + share * log1p_excess(ratio))

    def _curvature(self, u: FloatArray) -> FloatArray:
        return self.shape / u / u

    @property
    def max_loss(self) -> float:
        """shape log(1 + step/rate) where P has the larger rate, else unbounded."""
        return float(self.shape * np.log1p(self.step / self.rate)) if self.rising else np.inf

    def _threshold(self, epsilon: FloatArray) -> FloatArray:
        ratio = self.step / self.rate
        excess = log1p_excess(np.float64(ratio))
        if self.rising:
            offset = np.log1p(ratio) - (excess + epsilon * (1 + ratio) / self.shape) / ratio
        else:
            offset = (epsilon / self.shape - excess) / ratio
        return np.log1p(np.maximum(offset, -1.0 + _EPS))  # at the largest loss the offset is -1; see log_delta

    def _gap(self, threshold: FloatArray, u: FloatArray) -> FloatArray:
        ratio = self.step / self.rate
        at_threshold = ratio * self.shape * np.exp(threshold)
        return at_threshold / (1 + ratio) * -np.expm1(-u) if self.rising else at_threshold * np.expm1(u)
