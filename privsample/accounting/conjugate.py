"""Loss pairs of two conjugate posteriors one record apart: Beta, Gamma by shape, Gamma by rate. All exact.

Renyi divergences integrate the curvature of the log normalizer along the segment between the two posteriors; privacy
curves integrate the density beyond the threshold of the loss, which is monotone in one coordinate. Neither cancels.
Source: Geumlek, Song and Chaudhuri 2017, Observation 5; docs/notes/posterior.md.
"""

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
from scipy import special

from privsample._checks import FloatArray, positive
from privsample._logspace import log1mexp, log1p_excess, log_gamma_growth, stirling_remainder
from privsample._value import put, value
from privsample.accounting.loss import LossPair, checked_divergence
from privsample.accounting.quadrature import log_integral

Curvature = Callable[[FloatArray], FloatArray]
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_EPS = float(np.finfo(float).eps)


def _trigamma(u: FloatArray) -> FloatArray:
    return special.zeta(2.0, u)


def _along(
    base: FloatArray, step: float, length: FloatArray, weight: Callable[[FloatArray], FloatArray], curvature: Curvature
) -> FloatArray:
    """Integral over s in [0, length] of weight(s) * step^2 * curvature(base + step * s), panels doubling from base/step.

    base, length: (orders,); weight maps (orders, points) to the same shape. Returns (orders,).
    """
    unit = base / step
    count = int(np.ceil(np.log2(np.max(length / unit) + 1.0))) + 1
    edges = np.minimum(unit[:, None] * (np.exp2(np.arange(count + 1)) - 1.0), length[:, None])
    half = np.diff(edges, axis=1)[:, :, None] / 2
    s = (edges[:, :-1, None] + half * (_NODES + 1)).reshape(len(base), -1)
    values = weight(s) * curvature(base[:, None] + step * s)
    return step**2 * (values * (half * _WEIGHTS).reshape(len(base), -1)).sum(axis=1)


def _rising(orders: FloatArray, base: float, step: float, curvature: Curvature) -> FloatArray:
    """What a coordinate adds that is base + step under P and base under Q."""
    s = orders - 1.0
    ones = np.ones_like(orders)
    near = _along(base * ones[:1], step, ones[:1], lambda t: t, curvature)
    far = _along((base + step) * ones, step, s, lambda t: (s[:, None] - t) / s[:, None], curvature)
    return near + far


def _falling(orders: FloatArray, base: float, step: float, curvature: Curvature) -> FloatArray:
    """What a coordinate adds that is base under P and base + step under Q; +inf where the blend is not positive."""
    s = orders - 1.0
    ones = np.ones_like(orders)
    blend = base - s * step
    valid = blend > 0
    near = _along(base * ones[:1], step, ones[:1], lambda t: 1.0 - t, curvature)
    safe, length = np.where(valid, blend, base), np.where(valid, s, 1.0)
    far = _along(safe, step, length, lambda t: t / length[:, None], curvature)
    return np.where(valid, near + far, np.inf)


def _log_gamma_density(shape: float, z: FloatArray) -> FloatArray:
    """Log density of log X - log shape at z, X ~ Gamma(shape): concave, zero derivative at z = 0."""
    return 0.5 * np.log(shape / (2 * np.pi)) - stirling_remainder(shape) + shape * (z - np.expm1(z))


def _log_beta_density(a: float, b: float, z: FloatArray) -> FloatArray:
    """Log density of logit X - log(a/b) at z, X ~ Beta(a, b): concave, zero derivative at z = 0."""
    p, q = a / (a + b), b / (a + b)
    near = np.clip(z, -30.0, 30.0)
    up = np.where(z > 30.0, np.logaddexp(np.log(q), np.log(p) + z), np.log1p(p * np.expm1(near)))
    down = np.where(z < -30.0, np.logaddexp(np.log(p), np.log(q) - z), np.log1p(q * np.expm1(-near)))
    constant = 0.5 * np.log(p / (2 * np.pi) * b) + stirling_remainder(a + b) - stirling_remainder(a) - stirling_remainder(b)
    return constant - a * down - b * up


class _ConjugatePair(LossPair):
    """Common to the three: orders of any shape, epsilons of any shape, the ends of the privacy curve."""

    __slots__ = ()

    @abstractmethod
    def _divergence(self, orders: FloatArray) -> FloatArray:
        """Renyi divergence at a flat array of orders below the limit."""

    @abstractmethod
    def _threshold(self, epsilon: float) -> float:
        """Where the loss is epsilon, as an offset from the centre of P; -inf where all of P lies beyond it."""

    @abstractmethod
    def _log_beyond(self, threshold: float, u: FloatArray) -> FloatArray:
        """Log of P's density at distance u > 0 beyond the threshold, times 1 - e^(epsilon - loss)."""

    @property
    @abstractmethod
    def _size(self) -> float:
        """The total of P's parameters, which sets the rounding error of its log density."""

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Integral form without cancellation; relative error below 1e-10."""
        flat = np.ravel(np.asarray(orders, dtype=np.float64))
        result = np.full(flat.shape, np.inf)
        below = flat < self.order_limit
        if below.any():
            result[below] = checked_divergence(self._divergence(flat[below]))
        return result.reshape(np.shape(orders))

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Quadrature of a positive integrand, rounded up by its error bound."""
        epsilon = np.asarray(epsilon, dtype=np.float64)
        return np.array([self._log_delta(float(e)) for e in epsilon.ravel()]).reshape(epsilon.shape)

    def _log_delta(self, epsilon: float) -> float:
        if epsilon >= self.max_loss:
            return -np.inf
        threshold = self._threshold(epsilon)
        if np.isneginf(threshold):
            return float(log1mexp(np.float64(min(epsilon, 0.0))))
        with np.errstate(over="ignore"):
            integral = log_integral(lambda u: self._log_beyond(threshold, u))
        return min(integral + 16 * _EPS * np.sqrt(self._size) * (1 + abs(threshold) * np.sqrt(self._size)), 0.0)


@value
class BetaPair(_ConjugatePair):
    """P = Beta(a + step, b) against Q = Beta(a, b + step): one success replaced by a failure. Mirrored, it is its reverse."""

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
        """Unbounded: the loss is step * logit(theta) plus a constant."""
        return np.inf

    @property
    def _size(self) -> float:
        return self.a + self.b + self.step

    def _divergence(self, orders: FloatArray) -> FloatArray:
        return _rising(orders, self.a, self.step, _trigamma) + _falling(orders, self.b, self.step, _trigamma)

    def _threshold(self, epsilon: float) -> float:
        growth = log_gamma_growth(self.a, self.step) - log_gamma_growth(self.b, self.step)
        return float((epsilon + growth) / self.step - np.log1p(self.step / self.a))

    def _log_beyond(self, threshold: float, u: FloatArray) -> FloatArray:
        return _log_beta_density(self.a + self.step, self.b, threshold + u) + log1mexp(-self.step * u)


@value
class GammaShapePair(_ConjugatePair):
    """Gamma laws of one rate with shapes `shape` and `shape` + step; P has the larger one if `rising`, else the smaller."""

    shape: float
    step: float
    rising: bool

    def __post_init__(self) -> None:
        put(self, shape=positive(shape=self.shape), step=positive(step=self.step), rising=bool(self.rising))

    @property
    def order_limit(self) -> float:
        """1 + shape/step where P has the smaller shape."""
        return np.inf if self.rising else 1.0 + self.shape / self.step

    @property
    def max_loss(self) -> float:
        """Unbounded: the loss is linear in the logarithm of theta."""
        return np.inf

    @property
    def _size(self) -> float:
        return self.shape + self.step

    def _divergence(self, orders: FloatArray) -> FloatArray:
        return (_rising if self.rising else _falling)(orders, self.shape, self.step, _trigamma)

    def _threshold(self, epsilon: float) -> float:
        growth = log_gamma_growth(self.shape, self.step)
        if self.rising:
            return float((epsilon + growth) / self.step - np.log1p(self.step / self.shape))
        return float((growth - epsilon) / self.step)

    def _log_beyond(self, threshold: float, u: FloatArray) -> FloatArray:
        weight = log1mexp(-self.step * u)
        if self.rising:
            return _log_gamma_density(self.shape + self.step, threshold + u) + weight
        return _log_gamma_density(self.shape, threshold - u) + weight


@value
class GammaRatePair(_ConjugatePair):
    """Gamma laws of one shape with rates `rate` and `rate` + step; P has the larger one if `rising`, else the smaller."""

    shape: float
    rate: float
    step: float
    rising: bool

    def __post_init__(self) -> None:
        put(self, shape=positive(shape=self.shape), rate=positive(rate=self.rate), step=positive(step=self.step))
        put(self, rising=bool(self.rising))

    @property
    def order_limit(self) -> float:
        """1 + rate/step where P has the smaller rate."""
        return np.inf if self.rising else 1.0 + self.rate / self.step

    @property
    def max_loss(self) -> float:
        """shape log(1 + step/rate) where P has the larger rate, else unbounded."""
        return float(self.shape * np.log1p(self.step / self.rate)) if self.rising else np.inf

    @property
    def _size(self) -> float:
        return self.shape

    def _divergence(self, orders: FloatArray) -> FloatArray:
        kind = _rising if self.rising else _falling
        return kind(orders, self.rate, self.step, lambda u: self.shape / u / u)

    def _threshold(self, epsilon: float) -> float:
        ratio = self.step / self.rate
        excess = float(log1p_excess(np.float64(ratio)))
        if self.rising:
            offset = np.log1p(ratio) - (excess + epsilon * (1 + ratio) / self.shape) / ratio
        else:
            offset = (epsilon / self.shape - excess) / ratio
        return float(np.log1p(offset)) if offset > -1.0 else -np.inf

    def _log_beyond(self, threshold: float, u: FloatArray) -> FloatArray:
        ratio = self.step / self.rate
        at_threshold = self.shape * np.exp(threshold)
        if self.rising:
            gap = ratio / (1 + ratio) * at_threshold * -np.expm1(-u)
            return _log_gamma_density(self.shape, threshold - u) + log1mexp(-gap)
        return _log_gamma_density(self.shape, threshold + u) + log1mexp(-ratio * at_threshold * np.expm1(u))
