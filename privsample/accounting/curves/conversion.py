"""Conversion of Rényi curves to (epsilon, delta), minimized over a continuous order, and root finding for curves."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privsample._checks import FloatArray
from privsample.errors import NumericalFailure

Curve = Callable[[FloatArray], FloatArray]
PointCurve = Callable[[float], float]
_HIGHER_ORDERS = 300  # orders at which `HigherOrders` evaluates a bound
_SEARCH_INFINITY = 1e100  # replaces +inf in a search, which needs finite values
_KINK_STEP = 2e-6  # larger than the tolerance of Brent's method in log(order - 1)
_PADDING = 2e-15  # bounds the rounding error of a conversion, relative to its terms


def minimize_over_orders(objective: Curve, order_limit: float) -> float:
    """Minimize objective(orders) over (1, order_limit) by a scan of log(order - 1) and Brent's method around its best.

    Every order gives a valid bound, so a missed minimum loosens the result and keeps it valid. Raises NumericalFailure
    if the objective is NaN.
    """
    if not order_limit > 1.0:
        return np.inf
    from scipy.optimize import minimize_scalar

    top = 40.0 if np.isinf(order_limit) else np.log(order_limit - 1.0)
    x = np.sort(np.append(np.linspace(-25.0, top, 40), top - np.ldexp(1.0, -np.arange(1, 40, 3))))
    values = _evaluate(objective, x, order_limit)
    at = int(values.argmin())
    if np.isinf(values[at]):
        return float(values[at])
    around = (x[max(at - 1, 0)], x[min(at + 1, len(x) - 1)])
    found = minimize_scalar(
        lambda y: min(float(_evaluate(objective, np.array([y]), order_limit)[0]), _SEARCH_INFINITY),
        bounds=around,
        method="bounded",
        options={"xatol": 1e-7},
    )
    if not found.fun < _SEARCH_INFINITY:
        return float(values[at])
    return min(float(values[at]), float(found.fun), _at_kink(objective, float(found.x), order_limit))


def _at_kink(objective: Curve, x: float, order_limit: float) -> float:
    """Evaluate the objective where the lines through two points on either side of x meet, which is exact at a kink.

    A Rényi curve by chords has kinks; at a minimum in a kink, Brent's method is accurate only to its tolerance in x.
    """
    h = _KINK_STEP
    a, b, c, d = _evaluate(objective, x + h * np.array([-2.0, -1.0, 1.0, 2.0]), order_limit)
    if not (np.isfinite([a, b, c, d]).all() and b - a < d - c):
        return np.inf
    left, right = b - a, d - c
    step = np.clip((c - b - left - right) / (left - right), -2.0, 2.0)
    return float(_evaluate(objective, np.array([x + h * step]), order_limit)[0])


def _evaluate(objective: Curve, x: FloatArray, order_limit: float) -> FloatArray:
    """The objective at orders 1 + e^x; +inf for orders outside (1, order_limit)."""
    orders = 1.0 + np.exp(x)
    inside = (orders > 1.0) & (orders < order_limit)
    values = np.full_like(x, np.inf)
    values[inside] = objective(orders[inside])
    if np.isnan(values).any():
        raise NumericalFailure("a Rényi curve is NaN, so no guarantee is stated")
    return values


def log_delta_at(orders: FloatArray, renyi: FloatArray, epsilon: float) -> FloatArray:
    """Logarithm of delta at epsilon from the Rényi divergence at each order, rounded up. Kind: upper bound.

    Canonne, Kamath and Steinke 2020, Proposition 12; Papernot and Steinke 2022, Lemma 14.
    """
    s = orders - 1.0
    with np.errstate(over="ignore"):
        padding = _PADDING * (s * (renyi + abs(epsilon)) + np.log(orders))
        return s * (renyi - epsilon) - np.log(orders) + s * _log1m_inverse(orders) + padding


def epsilon_at(orders: FloatArray, renyi: FloatArray, log_delta: float) -> FloatArray:
    """Epsilon at a given log delta from the Rényi divergence at each order, by the theorem of `log_delta_at`."""
    s = orders - 1.0
    padding = _PADDING * (renyi + (1.0 + np.log(orders) - log_delta) / s)
    return renyi + _log1m_inverse(orders) - (log_delta + np.log(orders)) / s + padding


def log_delta_from_renyi(curve: Curve, order_limit: float, epsilon: float) -> float:
    """Logarithm of delta at epsilon from a Rényi curve, minimized over the order. Kind: upper bound."""
    e = float(np.clip(epsilon, -1e250, 1e250))  # so that its product with an order is finite
    return min(minimize_over_orders(lambda orders: log_delta_at(orders, curve(orders), e), order_limit), 0.0)


def epsilon_from_renyi(curve: Curve, order_limit: float, log_delta: float) -> float:
    """Epsilon at a given log delta from a Rényi curve, minimized over the order. Kind: upper bound."""
    return max(minimize_over_orders(lambda orders: epsilon_at(orders, curve(orders), log_delta), order_limit), 0.0)


def _log1m_inverse(orders: FloatArray) -> FloatArray:
    """log((order - 1)/order), by log1p for large orders, where the quotient is near 1."""
    return np.where(orders < 2.0, np.log(orders - 1.0) - np.log(orders), np.log1p(-1.0 / np.maximum(orders, 2.0)))


@dataclass(frozen=True, slots=True)
class HigherOrders:
    """The smallest value of a Rényi bound at or above each of many orders below the order limit."""

    orders: FloatArray
    minima: FloatArray

    @staticmethod
    def of(bound: Curve, order_limit: float) -> "HigherOrders":
        """Evaluate a bound at 300 orders and take the running minimum from above."""
        top = 1e6 if np.isinf(order_limit) else (order_limit - 1.0) * (1 - 1e-9)
        orders = 1.0 + np.geomspace(top * 1e-9, top, _HIGHER_ORDERS)
        return HigherOrders(orders, np.minimum.accumulate(np.append(bound(orders), np.inf)[::-1])[::-1])


def monotone_bound(
    bound: Curve, orders: FloatArray, order_limit: float, max_divergence: float, higher: HigherOrders
) -> FloatArray:
    """Tighten a Rényi bound by its values at higher orders and by the max divergence; +inf from `order_limit` on.

    Valid because Rényi divergences do not decrease in the order (Van Erven and Harremoës 2014, Theorem 3; Papernot and
    Steinke 2022, Remark 5).
    """
    at = np.ravel(orders)
    inside = at < order_limit
    result = np.full(at.shape, np.inf)
    result[inside] = np.minimum(bound(at[inside]), max_divergence)
    result[inside] = np.minimum(result[inside], higher.minima[np.searchsorted(higher.orders, at[inside])])
    return result.reshape(orders.shape)


def epsilon_of_curve(log_delta: PointCurve, goal: float) -> float:
    """The smallest epsilon >= 0 found at which log delta is at most `goal`; +inf if there is none."""
    if log_delta(0.0) <= goal:
        return 0.0
    root = crossing(lambda e: log_delta(e) - goal, start=1.0)
    return safe_side(lambda e: log_delta(e) <= goal, root, upward=True)


def crossing(excess: Callable[[float], float], start: float) -> float:
    """The zero of a decreasing function on (0, inf), to a relative accuracy of about 1e-13.

    The search starts at `start` > 0. Returns 0.0 if the function is not positive at any argument tried, +inf if it is
    never negative.
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
    """The first of start, start (1 +- 1e-13), start (1 +- 2e-13), ... at which `holds` is true.

    A root is accurate to about 1e-13 only; the step makes the reported value valid. Returns +inf (upward) or 0.0
    (downward) if a hundred doublings find no such value.
    """
    if not np.isfinite(start):
        return np.inf if upward else 0.0
    for k in range(-1, 100):
        move = 0.0 if k < 0 else 1e-13 * 2.0**k
        candidate = start * (1.0 + move) if upward else start / (1.0 + move)
        if holds(candidate):
            return candidate
    return np.inf if upward else 0.0


def least_epsilon(log_curve: Curve, approx_log_delta: Curve, log_delta: float) -> float:
    """The smallest epsilon >= 0 at which a decreasing log privacy curve is at most `log_delta`, rounded up.

    The search starts at the root of `approx_log_delta`, which is cheaper and lies slightly below the curve.
    """
    if approx_log_delta(np.zeros(1))[0] <= log_delta and log_curve(np.zeros(1))[0] <= log_delta:
        return 0.0
    root = crossing(lambda e: float(approx_log_delta(np.array([e]))[0] - log_delta), start=1.0)
    return safe_side(lambda e: bool(log_curve(np.array([e]))[0] <= log_delta), root, upward=True)
