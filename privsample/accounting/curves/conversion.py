"""From Renyi curves to (epsilon, delta), minimised over a continuous order, and roots that end on the safe side."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privsample._checks import FloatArray
from privsample.errors import NumericalFailure

Curve = Callable[[FloatArray], FloatArray]
PointCurve = Callable[[float], float]
_TRIED = 300
_ENDLESS = 1e100  # the value of infinity in a search
_BESIDE = 2e-6  # more than Brent's method leaves undecided in log(order - 1)
_PADDING = 2e-15  # of the terms: more than rounding can take away


def least(objective: Curve, order_limit: float) -> float:
    """The least of objective(orders) over (1, order_limit): a scan of log(order - 1), then Brent around its best point.

    Every order gives a valid bound, so a missed minimum only loosens. Raises: NumericalFailure, on NaN.
    """
    if not order_limit > 1.0:
        return np.inf
    from scipy.optimize import minimize_scalar

    top = 40.0 if np.isinf(order_limit) else np.log(order_limit - 1.0)
    x = np.sort(np.append(np.linspace(-25.0, top, 40), top - np.ldexp(1.0, -np.arange(1, 40, 3))))
    values = _at(objective, x, order_limit)
    at = int(values.argmin())
    if np.isinf(values[at]):
        return float(values[at])
    around = (x[max(at - 1, 0)], x[min(at + 1, len(x) - 1)])
    found = minimize_scalar(
        lambda y: min(float(_at(objective, np.array([y]), order_limit)[0]), _ENDLESS),
        bounds=around,
        method="bounded",
        options={"xatol": 1e-7},
    )
    if not found.fun < _ENDLESS:
        return float(values[at])
    return min(float(values[at]), float(found.fun), _at_kink(objective, float(found.x), order_limit))


def _at_kink(objective: Curve, x: float, order_limit: float) -> float:
    """The objective where the lines through two points on either side of x meet: exact next to a kink.

    A Rényi curve by chords has kinks, and Brent's method finds the least value there only to its own tolerance in x.
    """
    h = _BESIDE
    a, b, c, d = _at(objective, x + h * np.array([-2.0, -1.0, 1.0, 2.0]), order_limit)
    if not (np.isfinite([a, b, c, d]).all() and b - a < d - c):
        return np.inf
    left, right = b - a, d - c
    step = np.clip((c - b - left - right) / (left - right), -2.0, 2.0)
    return float(_at(objective, np.array([x + h * step]), order_limit)[0])


def _at(objective: Curve, x: FloatArray, order_limit: float) -> FloatArray:
    """objective at orders 1 + e^x; +inf where they are not inside (1, order_limit)."""
    orders = 1.0 + np.exp(x)
    inside = (orders > 1.0) & (orders < order_limit)
    values = np.full_like(x, np.inf)
    values[inside] = objective(orders[inside])
    if np.isnan(values).any():
        raise NumericalFailure("a Renyi curve came out as NaN; no guarantee is claimed")
    return values


def log_delta_at(orders: FloatArray, renyi: FloatArray, epsilon: float) -> FloatArray:
    """log delta at epsilon from the divergence at each order. Kind: upper bound.

    Source: Canonne, Kamath and Steinke 2020, Proposition 12 (Papernot and Steinke 2022, Lemma 14).
    """
    s = orders - 1.0
    with np.errstate(over="ignore"):
        padding = _PADDING * (s * (renyi + abs(epsilon)) + np.log(orders))
        return s * (renyi - epsilon) - np.log(orders) + s * _log_share(orders) + padding


def epsilon_at(orders: FloatArray, renyi: FloatArray, log_delta: float) -> FloatArray:
    """The epsilon of this log delta from the divergence at each order. Kind: upper bound. Source: as log_delta_at."""
    s = orders - 1.0
    padding = _PADDING * (renyi + (1.0 + np.log(orders) - log_delta) / s)
    return renyi + _log_share(orders) - (log_delta + np.log(orders)) / s + padding


def log_delta_from_renyi(curve: Curve, order_limit: float, epsilon: float) -> float:
    """log delta at epsilon of a mechanism with this Renyi curve, by its best order. Kind: upper bound."""
    e = float(np.clip(epsilon, -1e250, 1e250))  # its product with an order stays finite
    return min(least(lambda orders: log_delta_at(orders, curve(orders), e), order_limit), 0.0)


def epsilon_from_renyi(curve: Curve, order_limit: float, log_delta: float) -> float:
    """The least epsilon at which a mechanism with this Renyi curve has this log delta. Kind: upper bound."""
    return max(least(lambda orders: epsilon_at(orders, curve(orders), log_delta), order_limit), 0.0)


def _log_share(orders: FloatArray) -> FloatArray:
    """log((order - 1)/order)."""
    return np.where(orders < 2.0, np.log(orders - 1.0) - np.log(orders), np.log1p(-1.0 / np.maximum(orders, 2.0)))


@dataclass(frozen=True, slots=True)
class HigherOrders:
    """A Rényi bound at many orders below a limit, and the least value at each of them or higher."""

    orders: FloatArray
    least: FloatArray

    @staticmethod
    def of(bound: Curve, order_limit: float) -> "HigherOrders":
        """Of one bound: computed once for all the orders that are then asked for."""
        top = 1e6 if np.isinf(order_limit) else (order_limit - 1.0) * (1 - 1e-9)
        orders = 1.0 + np.geomspace(top * 1e-9, top, _TRIED)
        return HigherOrders(orders, np.minimum.accumulate(np.append(bound(orders), np.inf)[::-1])[::-1])


def closed(bound: Curve, orders: FloatArray, order_limit: float, max_loss: float, higher: HigherOrders) -> FloatArray:
    """The bound at each order or, where less, `higher` at some higher one; at most `max_loss`.

    +inf from `order_limit` on. Source: Rényi divergences do not decrease in the order (Van Erven and Harremos 2014,
    Theorem 3; Papernot and Steinke 2022, Remark 5).
    """
    at = np.ravel(orders)
    inside = at < order_limit
    result = np.full(at.shape, np.inf)
    result[inside] = np.minimum(bound(at[inside]), max_loss)
    result[inside] = np.minimum(result[inside], higher.least[np.searchsorted(higher.orders, at[inside])])
    return result.reshape(orders.shape)


def epsilon_of_curve(log_delta: PointCurve, goal: float) -> float:
    """The least epsilon >= 0 found at which log delta is at most `goal`; +inf where there is none."""
    if log_delta(0.0) <= goal:
        return 0.0
    root = crossing(lambda e: log_delta(e) - goal, start=1.0)
    return safe_side(lambda e: log_delta(e) <= goal, root, upward=True)


def crossing(excess: Callable[[float], float], start: float) -> float:
    """Where a decreasing function on (0, inf) crosses zero, to about 1e-13 relative; `start` > 0 sets the scale.

    Returns 0.0 where it is not above zero for any positive argument tried, +inf where it never falls below.
    """
    from scipy.optimize import brentq

    def clipped(x: float) -> float:
        return float(np.clip(excess(x), -1e4, 1e4))

    low = high = start
    if clipped(start) > 0:
        while clipped(high) > 0:
            low, high = high, high * 8.0
            if high > 1e300:
                return np.inf
    else:
        while clipped(low) <= 0:
            low, high = low / 8.0, low
            if low < 1e-300:
                return 0.0
    return float(brentq(clipped, low, high, xtol=1e-300, rtol=1e-13, maxiter=500))


def safe_side(holds: Callable[[float], bool], start: float, *, upward: bool) -> float:
    """The first of start, start (1 +- 1e-13), start (1 +- 2e-13), ... where `holds` is true.

    Returns +inf (upward) or 0.0 (downward) when a hundred doublings found none.
    """
    if not np.isfinite(start):
        return np.inf if upward else 0.0
    for k in range(-1, 100):
        move = 0.0 if k < 0 else 1e-13 * 2.0**k
        candidate = start * (1.0 + move) if upward else start / (1.0 + move)
        if holds(candidate):
            return candidate
    return np.inf if upward else 0.0


def least_epsilon(log_curve: Curve, draft: Curve, log_delta: float) -> float:
    """The least epsilon >= 0 at which a falling log privacy curve is at most this; `draft`, close below, guides."""
    if draft(np.zeros(1))[0] <= log_delta and log_curve(np.zeros(1))[0] <= log_delta:
        return 0.0
    root = crossing(lambda e: float(draft(np.array([e]))[0] - log_delta), start=1.0)
    return safe_side(lambda e: bool(log_curve(np.array([e]))[0] <= log_delta), root, upward=True)
