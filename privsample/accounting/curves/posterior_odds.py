"""Tail of the privacy loss, and growth of an adversary's odds, from a privacy curve. Proofs: docs/notes/odds.md."""

from collections.abc import Callable

import numpy as np

LogCurve = Callable[[float], float]

_EPS = float(np.finfo(np.float64).eps)
_NEAREST, _FARTHEST = 1e-9, 60.0  # distances of the best epsilon from the loss
_TOLERANCE = 3e-6  # relative, of the best epsilon: the bound is flat there, and every epsilon gives a valid one


def log_loss_tail(log_delta: LogCurve, loss: float, kink: float = np.inf) -> float:
    """Upper bound on log P(L > loss), in (-inf, 0]: the least of log(delta(e) / (1 - e^(e - loss))), e < loss.

    `log_delta` is the logarithm of a privacy curve, and `kink` an epsilon that is tried besides, with both signs.
    Source: docs/notes/odds.md, step 1.
    """

    def bound(log_distance: float) -> float:
        epsilon = loss - np.exp(log_distance)
        # The distance of the epsilon that the subtraction yields, so that its rounding is not lost.
        shrunk = (loss - epsilon) * (1.0 - 2 * _EPS)
        if not shrunk > 0.0:  # the distance is below the rounding error of the loss
            return np.inf
        found = float(log_delta(epsilon) - np.log(-np.expm1(-shrunk)))
        return found + 8 * _EPS * (1.0 + abs(found))

    further = [float(np.log(loss - at)) for at in (kink, -kink) if -np.inf < at < loss]
    return min(_least(bound, float(np.log(_NEAREST)), float(np.log(_FARTHEST)), further), 0.0)


def log_odds_growth(
    log_delta: LogCurve, tail_probability: float, low: float, high: float, kink: float = np.inf
) -> float:
    """Least known loss t >= 0 with P(L > t) <= tail_probability: the least of e - log(1 - delta(e)/tail_probability).

    The minimum is over epsilons between `low` and `high` with delta(e) < tail_probability; +inf if there is none. The
    epsilon `kink` is tried besides, with both signs. Source: docs/notes/odds.md, step 2.
    """
    log_tail = float(np.log(tail_probability))

    def bound(epsilon: float) -> float:
        log_share = float(log_delta(epsilon)) - log_tail + 8 * _EPS * (1.0 + abs(log_tail))
        if log_share >= 0.0:
            return np.inf
        more = -float(np.log1p(-np.exp(log_share)))
        return epsilon + more + 8 * _EPS * (abs(epsilon) + more)

    return max(_least(bound, low, high, [at for at in (kink, -kink) if low < at < high]), 0.0)


def _least(bound: LogCurve, low: float, high: float, further: list[float]) -> float:
    """The least value of a quasiconvex function between two points (Brent 1973). Any of its values is a valid bound."""
    from scipy import optimize  # loaded when first needed: importing accounts stays light

    known = {x: bound(x) for x in (high, low, *further)}

    def finite(x: float) -> float:
        known[float(x)] = bound(float(x))
        return min(known[float(x)], 1e300)

    optimize.minimize_scalar(
        finite, bounds=(low, high), method="bounded", options={"xatol": _TOLERANCE * (high - low), "maxiter": 60}
    )
    return min(known.values())
