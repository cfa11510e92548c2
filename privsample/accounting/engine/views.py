"""The Rényi curve and the privacy curve of an account, computed from its privacy bounds."""

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import LEAST_LOSS
from privsample.accounting.curves.conversion import (
    Curve,
    log_delta_at,
    log_delta_from_renyi,
)
from privsample.accounting.engine.bounds import PrivacyBounds, RenyiBound
from privsample.accounting.loss.pair import Envelope, checked_divergence, delta_below_zero, worst_log_delta
from privsample.errors import NumericalFailure

_LEAST_COST = LEAST_LOSS * LEAST_LOSS / 8  # divergences below it may have underflowed
_CERTAIN = -45.0  # here 1 - delta is below e^-45, and the curve at -epsilon contributes less than an ulp of delta
BY_ORDER = "Rényi curve at its best order"


def rdp(bounds: PrivacyBounds, orders: FloatArray) -> FloatArray:
    """Rényi curve in nats, shape of `orders`; +inf everywhere if there is an infinity mass."""
    return np.full(orders.shape, np.inf) if bounds.infinity_mass > 0 else conditional_rdp(bounds, orders)


def conditional_rdp(bounds: PrivacyBounds, orders: FloatArray) -> FloatArray:
    """Rényi curve in nats conditional on a finite loss, shape of `orders`; +inf where none is known."""
    found = np.asarray(bounds.renyi(orders), dtype=np.float64)
    if found.shape != orders.shape:
        raise ValueError(f"renyi must return one value for each order, shape {orders.shape}, got shape {found.shape}")
    found = np.where(orders < bounds.order_limit, checked_divergence(found), np.inf)
    lost = found < _LEAST_COST  # squares of such losses underflow; the zCDP guarantee gives a value that does not
    return np.where(lost, np.minimum(bounds.zcdp * orders, _LEAST_COST), found) if lost.any() else found


def log_delta(bounds: PrivacyBounds, epsilon: FloatArray) -> FloatArray:
    """Logarithm of the privacy curve: the smallest of all bounds at each real epsilon, rounded up.

    Neighbours are ordered pairs in both orders, so the curve at -epsilon follows from the curve at epsilon.
    """
    if (epsilon < 0).any():
        distinct, where = np.unique(np.where(epsilon < _CERTAIN, 0.0, np.abs(epsilon)), return_inverse=True)
        above = log_delta(bounds, distinct)[where].reshape(epsilon.shape)
        return np.where(epsilon < 0, delta_below_zero(epsilon, above), above)
    if bounds.parts:
        return np.max([log_delta(part, epsilon) for part in bounds.parts], axis=0)
    result = privacy_curve(bounds, epsilon)
    if not bounds.curve_is_least:
        result = np.minimum(result, _from_renyi(bounds, epsilon))
    if np.isnan(result).any():
        raise NumericalFailure("a privacy curve is NaN, so no guarantee is stated")
    if bounds.infinity_mass == 0.0:  # from the pure guarantee on, delta is 0
        result = np.where(epsilon >= bounds.pure_epsilon, -np.inf, result)
    return np.minimum(result, 0.0)


def privacy_curve(bounds: PrivacyBounds, epsilon: FloatArray) -> FloatArray:
    """Logarithm of the privacy curve by the pairs, or by the listed bounds if there are no pairs; +inf without any."""
    if bounds.pairs:
        return np.minimum(worst_log_delta(bounds.pairs, epsilon), 0.0)
    return _from_listed_bounds(bounds, epsilon) if bounds.curve_bounds else np.full(epsilon.shape, np.inf)


def approx_privacy_curve(bounds: PrivacyBounds, epsilon: FloatArray) -> FloatArray:
    """Approximation of `privacy_curve` without certified searches; it guides searches and is never reported."""
    if not bounds.pairs:
        return privacy_curve(bounds, epsilon)
    envelopes = [pair for pair in bounds.pairs if isinstance(pair, Envelope)]
    single = [pair for pair in bounds.pairs if not isinstance(pair, Envelope)]
    found = [pair.approx_log_delta(epsilon) for pair in envelopes] + (
        [worst_log_delta(single, epsilon)] if single else []
    )
    return np.minimum(np.max(found, axis=0), 0.0)


def approx_log_delta(bounds: PrivacyBounds, epsilon: float) -> float:
    """Approximation of `log_delta` at one epsilon; it guides searches and is never reported."""
    e = np.asarray(epsilon, dtype=np.float64)
    if bounds.has_curve and bounds.curve_is_least:
        return float(approx_privacy_curve(bounds, e))
    return float(log_delta(bounds, e))


def add_infinity_mass(bounds: PrivacyBounds, log_delta: FloatArray, epsilon: FloatArray) -> FloatArray:
    """Logarithm of m + (1 - m) delta, where m is the infinity mass and delta holds conditional on finite loss.

    Conditional on finite loss, delta is zero from the pure guarantee on.
    """
    with np.errstate(divide="ignore"):
        own, rest = np.log(bounds.infinity_mass), np.log1p(-bounds.infinity_mass)
    return np.logaddexp(own, rest + np.where(epsilon >= bounds.pure_epsilon, -np.inf, log_delta))


def listed_renyi(bounds: PrivacyBounds) -> tuple[RenyiBound, ...]:
    """The Rényi bounds that an account lists, or its Rényi curve if it lists none."""
    return bounds.renyi_bounds or (RenyiBound(name=BY_ORDER, renyi=bounds.renyi),)


def _from_renyi(bounds: PrivacyBounds, epsilon: FloatArray) -> FloatArray:
    """Log delta by conversion of the Rényi curve at its best order, with the infinity mass."""
    found = [log_delta_from_renyi(bounds.renyi, bounds.order_limit, float(e)) for e in epsilon.ravel()]
    return add_infinity_mass(bounds, np.array(found).reshape(epsilon.shape), epsilon)


def _from_listed_bounds(bounds: PrivacyBounds, epsilon: FloatArray) -> FloatArray:
    """Log delta by the smallest listed bound. The bounds hold in both directions, so the curve is its own reverse."""
    above = np.array([_least_listed(bounds, float(e)) for e in np.abs(epsilon).ravel()]).reshape(epsilon.shape)
    return np.where(epsilon >= 0, above, delta_below_zero(epsilon, above))


def _least_listed(bounds: PrivacyBounds, epsilon: float) -> float:
    """Smallest listed bound at one epsilon >= 0."""
    by_order = log_delta_from_renyi(least_renyi_curve(bounds), bounds.order_limit, epsilon)
    for table in bounds.renyi_tables:
        by_order = min(by_order, float(log_delta_at(*table.table(), epsilon).min()))
    from_renyi = float(add_infinity_mass(bounds, np.asarray(by_order), np.asarray(epsilon)))
    return min(from_renyi, *(bound.log_delta(epsilon, -np.inf) for bound in bounds.curve_bounds))


def least_renyi_curve(bounds: PrivacyBounds) -> Curve:
    """The smallest of the listed Rényi bounds at each order."""
    curves = [bound.renyi for bound in listed_renyi(bounds) if not bound.explained_only]
    if len(curves) == 1:
        return curves[0]
    return lambda orders: np.min([curve(orders) for curve in curves], axis=0)
