"""The dominating pair of two Beta posteriors that differ in one record. Kind: exact.

The Rényi divergence is an integral of the log normalizer's second derivative along the line between the two posteriors
(posterior.md, section 1). The privacy curve is an integral of the density beyond the threshold of the loss, which is
monotone in theta (section 2). Neither involves cancellation. Geumlek, Song and Chaudhuri 2017, Observation 5.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, Real, positive
from privsample._logspace import (
    complex_log_gamma_growth,
    complex_stirling_remainder,
    log1mexp,
    log_gamma_growth,
    stirling_remainder,
)
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.curves.curvature import falling, rising, trigamma
from privsample.accounting.curves.quadrature import log_integral
from privsample.accounting.loss.exact import CertifiedPair, exact
from privsample.accounting.loss.pair import ComplexArray, SmoothPair, SmoothRows, checked_divergence, delta_below_zero
from privsample.accounting.posterior.pairs import (
    add_rounding_error,
    by_rows,
    rounding_noise,
    tail_bound,
    with_whole_steps,
)


def log_beta_density(a: FloatArray, b: FloatArray, z: FloatArray) -> FloatArray:
    """Log density of logit X - log(a/b) at z for X ~ Beta(a, b); concave, with its maximum at z = 0.

    Written relative to the mode, with Stirling remainders in place of log Gamma values, so that nothing cancels for
    large a and b (posterior.md, section 2, "Densities").
    """
    return _log_density(z, a, b, *_density_constants(a, b))


def _density_constants(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """What `log_beta_density` needs for Beta(a, b) at every z: both means, and the log density at the mode."""
    p, q = a / (a + b), b / (a + b)
    remainders = stirling_remainder(a + b) - stirling_remainder(a) - stirling_remainder(b)
    return p, q, 0.5 * np.log(p / (2 * np.pi) * b) + remainders


def _log_density(
    z: FloatArray, a: FloatArray, b: FloatArray, p: FloatArray, q: FloatArray, constant: FloatArray
) -> FloatArray:
    """`log_beta_density`, given its constants."""
    if (np.abs(z) <= 30.0).all():  # the other branches are not needed
        up, down = np.log1p(p * np.expm1(z)), np.log1p(q * np.expm1(-z))
    else:
        near = np.clip(z, -30.0, 30.0)
        up = _where_far(z > 30.0, np.log1p(p * np.expm1(near)), np.log(q), np.log(p) + z)
        down = _where_far(z < -30.0, np.log1p(q * np.expm1(-near)), np.log(p), np.log(q) - z)
    return constant - a * down - b * up


def _where_far(far: NDArray[np.bool_], near: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """log(e^first + e^second) at the points that are far, where it is computed, and `near` elsewhere."""
    if not far.any():
        return near
    far, first, second = np.broadcast_arrays(far, first, second)
    found = np.array(near)
    found[far] = np.logaddexp(first[far], second[far])
    return found


def _beta_renyi(a: FloatArray, b: FloatArray, step: FloatArray, orders: FloatArray) -> FloatArray:
    """Rényi divergence of Beta(a + step, b) from Beta(a, b + step), for columns (rows, 1), rounded up."""
    with np.errstate(over="ignore"):
        limit = b / step
    below = orders < 1.0 + limit
    s = np.where(below, orders - 1.0, limit / 2)
    total = rising(s, a, step, trigamma) + falling(s, b, step, trigamma)
    return checked_divergence(np.where(below[:, 0], total, np.inf))


def _beta_log_delta(a: FloatArray, b: FloatArray, step: FloatArray, epsilon: FloatArray) -> FloatArray:
    """Log delta of Beta(a + step, b) against Beta(a, b + step), for columns (rows, 1) and epsilon >= 0, rounded up."""
    with np.errstate(over="ignore", invalid="ignore"):
        # The loss exceeds epsilon where logit theta, relative to P's mode, exceeds the threshold.
        threshold = (epsilon + log_gamma_growth(a, step) - log_gamma_growth(b, step)) / step - np.log1p(step / a)
        p, q = (a + step) / (a + b + step), b / (a + b + step)
        slope = (a + step) * q * -np.expm1(-threshold) / (q * np.exp(-threshold) + p)
        parameters = (a + step, b, *_density_constants(a + step, b))
        deep, result = tail_bound(_log_density(threshold, *parameters), slope)
    if not deep.all():
        size = (a + step) * (b / (a + b + step))  # curvature of the log density at its mode
        table = np.concatenate([*parameters, threshold, step, size], axis=1)
        result[~deep] = _beta_integral(table[~deep])
    return result


def _beta_integral(table: FloatArray) -> FloatArray:
    """Log of the integral of P's density times 1 - e^(epsilon - loss) beyond the threshold, for rows of a table.

    The columns are the arguments of `_log_density`, the threshold, the step, and the curvature of the log density at
    its mode: the integrand is evaluated several times, and what depends on the row alone is computed once.
    """
    *_, threshold, _, size = table.T[:, :, None]

    def log_f(at: NDArray[np.intp], u: FloatArray) -> FloatArray:
        *parameters, start, step, _ = table[at].T[:, :, None]
        return _log_density(start + u, *parameters) + log1mexp(-step * u)

    with np.errstate(over="ignore"):
        integral = log_integral(
            log_f,
            len(threshold),
            noise=rounding_noise(threshold, size),
        )
    return add_rounding_error(integral, threshold, size)


def beta_log_delta(a: Real, b: Real, step: Real, epsilon: Real) -> FloatArray:
    """Log delta of Beta(a + step, b) against Beta(a, b + step) at any real epsilon, rounded up; arguments broadcast."""
    negative = np.asarray(epsilon) < 0  # there the reversed pair is evaluated at -epsilon: a and b exchanged
    first, second = np.where(negative, b, a), np.where(negative, a, b)
    above = by_rows(_beta_log_delta, first, second, step, np.abs(epsilon))
    return np.where(negative, delta_below_zero(np.asarray(epsilon), above), above)


@frozen_value
class BetaPair(SmoothPair):
    """P = Beta(a + step, b) against Q = Beta(a, b + step): a success in one dataset is a failure in the other.

    The reverse is the same pair with a and b exchanged. The loss is step * logit(theta) plus a constant, hence
    unbounded.
    """

    a: float
    b: float
    step: float

    def __post_init__(self) -> None:
        set_fields(self, a=positive(a=self.a), b=positive(b=self.b), step=positive(step=self.step))

    @property
    def order_limit(self) -> float:
        """The order limit 1 + b/step."""
        return 1.0 + self.b / self.step

    def certified_pair(self) -> CertifiedPair:
        """Both parameters and the step, exactly."""
        return {"kind": "beta", "a": exact(self.a), "b": exact(self.b), "step": exact(self.step)}

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
        """Infinite: the loss is unbounded."""
        return np.inf

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Rényi divergence by an integral without cancellation, rounded up."""
        return by_rows(_beta_renyi, self.a, self.b, self.step, orders)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Log delta by quadrature of a positive integrand, rounded up by its error bound."""
        return beta_log_delta(self.a, self.b, self.step, epsilon)

    def log_mgf(self, t: ComplexArray) -> ComplexArray:
        """Log moment generating function by log Gamma functions, whose modulus is largest on the real line."""
        return self.log_mgf_with_error(t)[0]

    def log_mgf_with_error(self, t: ComplexArray) -> tuple[ComplexArray, FloatArray]:
        """The same, and a bound on its error."""
        found, error = self.rows.log_mgf_with_error(t.reshape(1, -1))
        return found.reshape(t.shape), error.reshape(t.shape)

    @cached
    def rows(self) -> "BetaRows":
        """The pair as `BetaRows` with one row, which broadcasts to any number of rows."""
        return BetaRows(a=np.array([self.a]), b=np.array([self.b]), step=self.step)

    def reverse(self) -> "BetaPair":
        """The reversed pair: a and b exchanged."""
        return BetaPair(a=self.b, b=self.a, step=self.step)

    @classmethod
    def worst_renyi(cls, pairs: Sequence[Self], orders: FloatArray) -> FloatArray:
        """Largest Rényi divergence of all pairs, in one vectorized call."""
        a, b, step = _stacked(pairs, np.ndim(orders))
        return by_rows(_beta_renyi, a, b, step, orders).max(axis=0)

    @classmethod
    def worst_log_delta(cls, pairs: Sequence[Self], epsilon: FloatArray) -> FloatArray:
        """Largest log delta of all pairs, in one vectorized call."""
        a, b, step = _stacked(pairs, np.ndim(epsilon))
        return beta_log_delta(a, b, step, epsilon).max(axis=0)


@frozen_value
class BetaRows(SmoothRows):
    """BetaPair(a=a[i], b=b[i], step=step) in row i; a and b of shape (rows,), or (1,) for one pair in all rows."""

    a: FloatArray
    b: FloatArray
    step: float
    _bases: FloatArray = field(init=False, repr=False, compare=False)
    _remainders: ComplexArray = field(init=False, repr=False, compare=False)
    _whole_steps: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        bases = np.stack([self.a, self.b])[:, :, None]
        own = complex_stirling_remainder(bases.astype(np.complex128))
        set_fields(self, _bases=bases, _remainders=own, _whole_steps=log_gamma_growth(bases, self.step))

    def log_mgf(self, t: ComplexArray) -> ComplexArray:
        """Log moment generating function of each row's pair at t, shape (rows, points)."""
        return self.log_mgf_with_error(t)[0]

    def log_mgf_with_error(self, t: ComplexArray) -> tuple[ComplexArray, FloatArray]:
        """The same, and a bound on its error.

        The first Gamma shape is a + step under P and a under Q; the second is b under P and b + step under Q.
        """
        up = t + 1
        steps = np.stack([up * self.step, -t * self.step])
        growth, error = complex_log_gamma_growth(self._bases, steps, self._remainders)
        total, error = with_whole_steps(growth, error, np.stack([-up, t]), self._whole_steps, self.step)
        return total.sum(axis=0), error.sum(axis=0)

    def select_rows(self, rows: NDArray[np.bool_]) -> "BetaRows":
        """The pairs of the selected rows."""
        return self if len(self.a) == 1 else BetaRows(a=self.a[rows], b=self.b[rows], step=self.step)


def _stacked(pairs: Sequence[BetaPair], dimensions: int) -> list[FloatArray]:
    """Arrays a, b and step of all pairs, each of shape (pairs, 1, ..., 1) with `dimensions` ones."""
    table = np.array([(pair.a, pair.b, pair.step) for pair in pairs])
    return [column.reshape(-1, *[1] * dimensions) for column in table.T]
