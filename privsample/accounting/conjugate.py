"""Loss pairs of two conjugate posteriors one record apart: Beta, Gamma by shape, Gamma by rate. All exact.

Renyi divergences integrate the curvature of the log normalizer along the segment between the two posteriors; privacy
curves integrate the density beyond the threshold of the loss, which is monotone in one coordinate. Neither cancels.
Source: Geumlek, Song and Chaudhuri 2017, Observation 5; docs/notes/posterior.md.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np

from privsample._checks import FloatArray, Real, positive
from privsample._logspace import log1mexp, log1p_excess, log_gamma_growth, stirling_remainder
from privsample._value import put, value
from privsample.accounting.curvature import falling, rising, trigamma
from privsample.accounting.loss import LossPair, checked_divergence
from privsample.accounting.quadrature import log_integral

_EPS = float(np.finfo(float).eps)


def _columns(*arrays: Real) -> tuple[tuple[int, ...], list[FloatArray]]:
    """The common shape, and each array broadcast to it as a column (rows, 1)."""
    full = np.broadcast_arrays(*(np.asarray(array, dtype=np.float64) for array in arrays))
    return full[0].shape, [array.reshape(-1, 1) for array in full]


def _rounded(integral: FloatArray, threshold: FloatArray, size: Real) -> FloatArray:
    """The integral with what the log density lost to rounding; `size` is the total of P's parameters. All (rows,)."""
    lost = 16 * _EPS * np.sqrt(size) * (1 + np.abs(threshold) * np.sqrt(size))
    return np.minimum(integral + lost, 0.0)


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


def _beta_renyi(a: Real, b: Real, step: Real, orders: Real) -> FloatArray:
    """R_order of Beta(a + step, b) from Beta(a, b + step); all arguments broadcast."""
    shape, (a, b, step, orders) = _columns(a, b, step, orders)
    below = (orders < 1.0 + b / step)[:, 0]
    s = np.where(below[:, None], orders - 1.0, b / step / 2)
    total = rising(s, a, step, trigamma) + falling(s, b, step, trigamma)
    return checked_divergence(np.where(below, total, np.inf)).reshape(shape)


def beta_log_delta(a: Real, b: Real, step: Real, epsilon: Real) -> FloatArray:
    """log D_{e^epsilon} of Beta(a + step, b) from Beta(a, b + step); all arguments broadcast."""
    shape, (a, b, step, epsilon) = _columns(a, b, step, epsilon)
    threshold = (epsilon + log_gamma_growth(a, step) - log_gamma_growth(b, step)) / step - np.log1p(step / a)
    with np.errstate(over="ignore"):
        integral = log_integral(
            lambda u: _log_beta_density(a + step, b, threshold + u) + log1mexp(-step * u), len(threshold)
        )
    return _rounded(integral, threshold[:, 0], (a + b + step)[:, 0]).reshape(shape)


@value
class BetaPair(LossPair):
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
    def max_loss(self) -> float:
        """Unbounded."""
        return np.inf

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Integral form without cancellation; relative error below 1e-10."""
        return _beta_renyi(self.a, self.b, self.step, orders)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Quadrature of a positive integrand, rounded up by its error bound."""
        return beta_log_delta(self.a, self.b, self.step, epsilon)

    @classmethod
    def worst_renyi(cls, pairs: Sequence[Self], orders: FloatArray) -> FloatArray:
        """All pairs in one call."""
        a, b, step = _stacked(pairs, np.ndim(orders))
        return _beta_renyi(a, b, step, orders).max(axis=0)

    @classmethod
    def worst_log_delta(cls, pairs: Sequence[Self], epsilon: FloatArray) -> FloatArray:
        """All pairs in one call."""
        a, b, step = _stacked(pairs, np.ndim(epsilon))
        return beta_log_delta(a, b, step, epsilon).max(axis=0)


def _stacked(pairs: Sequence[BetaPair], dimensions: int) -> list[FloatArray]:
    """a, b and step, each (pairs, 1, ..., 1) with `dimensions` ones."""
    table = np.array([(pair.a, pair.b, pair.step) for pair in pairs])
    return [column.reshape(-1, *[1] * dimensions) for column in table.T]


class _GammaPair(LossPair):
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
        """Where the loss is epsilon, as an offset from the centre of P; -inf where all of P lies beyond it."""

    @abstractmethod
    def _log_beyond(self, threshold: FloatArray, u: FloatArray) -> FloatArray:
        """Log of P's density at distance u > 0 beyond the threshold, times 1 - e^(epsilon - loss)."""

    @property
    def order_limit(self) -> float:
        """1 + the smaller parameter / step where P has it, else +inf."""
        return np.inf if self.rising else 1.0 + self._moving / self.step

    @property
    def max_loss(self) -> float:
        """Unbounded, unless a subclass says otherwise."""
        return np.inf

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Integral form without cancellation; relative error below 1e-10."""
        shape, (base, step, alpha) = _columns(self._moving, self.step, orders)
        below = (alpha < self.order_limit)[:, 0]
        s = np.where(below[:, None], alpha - 1.0, base / step / 2)
        total = (rising if self.rising else falling)(s, base, step, self._curvature)
        return checked_divergence(np.where(below, total, np.inf)).reshape(shape)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Quadrature of a positive integrand, rounded up by its error bound."""
        flat = np.ravel(np.asarray(epsilon, dtype=np.float64))
        inside = flat < self.max_loss
        with np.errstate(divide="ignore", invalid="ignore"):
            threshold = self._threshold(flat)
        whole = inside & np.isneginf(threshold)
        result = np.where(whole, log1mexp(np.minimum(flat, 0.0)), -np.inf)
        proper = inside & ~whole
        if proper.any():
            at = threshold[proper][:, None]
            with np.errstate(over="ignore"):
                integral = log_integral(lambda u: self._log_beyond(at, u), len(at))
            result[proper] = _rounded(integral, at[:, 0], np.float64(self.shape + self.step))
        return result.reshape(np.shape(epsilon))


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

    def _curvature(self, u: FloatArray) -> FloatArray:
        return trigamma(u)

    def _threshold(self, epsilon: FloatArray) -> FloatArray:
        growth = log_gamma_growth(self.shape, self.step)
        if self.rising:
            return (epsilon + growth) / self.step - np.log1p(self.step / self.shape)
        return (growth - epsilon) / self.step

    def _log_beyond(self, threshold: FloatArray, u: FloatArray) -> FloatArray:
        weight = log1mexp(-self.step * u)
        if self.rising:
            return _log_gamma_density(self.shape + self.step, threshold + u) + weight
        return _log_gamma_density(self.shape, threshold - u) + weight


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
        return np.log1p(np.maximum(offset, -1.0))

    def _log_beyond(self, threshold: FloatArray, u: FloatArray) -> FloatArray:
        ratio = self.step / self.rate
        at_threshold = self.shape * np.exp(threshold)
        if self.rising:
            gap = ratio / (1 + ratio) * at_threshold * -np.expm1(-u)
            return _log_gamma_density(self.shape, threshold - u) + log1mexp(-gap)
        return _log_gamma_density(self.shape, threshold + u) + log1mexp(-ratio * at_threshold * np.expm1(u))
