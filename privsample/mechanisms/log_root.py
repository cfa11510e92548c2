"""Root finding on a log scale with few evaluations of an expensive account."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from privsample.accounting.base import Accountant
from privsample.accounting.engine import views
from privsample.accounting.targets import DP, Target, unreachable

M = TypeVar("M")
_LEAST, _MOST = 1e-12, 1e4  # range of the scale: below it nothing is left for trainings and scores
_ROUNDS, _LONGEST_STEP = 60, 6.0
_STEPS, _NEAR = 12, 6e-3  # accounts that are read; accuracy of the cost where an account takes seconds
_MARGIN = 0.15  # relative error of a step that follows an approximation


def log_distance(target: Target, account: Accountant) -> float:
    """Return the signed distance of an account from a target; of a Gaussian guarantee about log(mu / allowed mu).

    log delta(epsilon) of a Gaussian guarantee is about -(epsilon/mu)^2/2, so that half the log of its ratio to log
    delta is nearly linear in log mu, where log delta(epsilon) itself bends. Approximate: it guides searches only.
    """
    if not (isinstance(target, DP) and target.delta > 0.0):
        return float(np.clip(target._excess(account) / 2.0, -30.0, 30.0))
    found = views.approx_log_delta(account.bounds, target.epsilon)
    ratio = np.log(target.delta) / min(found, -1e-12)
    return float(np.log(max(ratio, 1e-26)) / 2.0)


def log_root(excess: Callable[[float], float], start: float, *, accuracy: float, power: float) -> float:
    """Return a scale just below the root of an increasing function, or an end of the range of scales.

    The function grows about as `power` times the log of the scale, and the result has an excess in
    [-accuracy power, 0]. Newton steps with this slope come first; once both signs are known, secants between the ends
    take over, with half the weight of an end that stays (Illinois).
    """
    ends = (float(np.log(_LEAST)), float(np.log(_MOST)))
    slack, stretch, side = accuracy * power, 1.0, 0
    low: tuple[float, float] | None = None
    high: tuple[float, float] | None = None
    x = float(np.clip(np.log(start), *ends))
    for _ in range(_ROUNDS):
        f = excess(float(np.exp(x)))
        if -slack <= f <= 0.0:
            return float(np.exp(x))
        if f <= 0.0:
            high = high if high is None or side >= 0 else (high[0], high[1] / 2.0)
            low, side = (x, f + slack / 2.0), -1
        else:
            low = low if low is None or side <= 0 else (low[0], low[1] / 2.0)
            high, side = (x, f + slack / 2.0), 1
        if low is None or high is None:
            if x in ends and (x == ends[0]) == (f > 0.0):
                return float(np.exp(x))
            move = -stretch * (f + slack / 2.0) / power
            x, stretch = float(np.clip(x + np.clip(move, -_LONGEST_STEP, _LONGEST_STEP), *ends)), 1.5 * stretch
        elif high[0] - low[0] <= accuracy / 8.0:  # a jump: no scale has an excess near 0
            break
        else:
            x = low[0] - low[1] * (high[0] - low[0]) / (high[1] - low[1])
    return float(np.exp(ends[0] if low is None else low[0]))


def smallest_nearby(
    build: Callable[[float], M],
    account: Callable[[M], Accountant],
    approximate: Callable[[M], Accountant | None],
    target: Target,
    *,
    advice: str,
) -> M:
    """Return the mechanism with about the smallest parameter whose account meets the target; few accounts are read.

    Each step moves the parameter as the approximate account would have to move. Raises UnreachableTarget with `advice`.
    """

    def near(scale: float) -> float:
        made = build(1.0 / scale)
        return log_distance(target, approximate(made) or account(made))

    scale, goal = 1.0, 0.0
    for _ in range(_STEPS):
        shift = goal
        scale = log_root(lambda x, shift=shift: near(x) - shift, scale, accuracy=_NEAR / 100.0, power=1.0)  # type: ignore[misc]
        made = build(1.0 / scale)
        distance = log_distance(target, account(made))
        if -_NEAR <= distance <= 0.0 and target._met_as_reported(account(made)):
            return made
        goal = near(scale) - distance - max(_NEAR / 2.0, _MARGIN * abs(distance))
    raise unreachable(target, account(build(1.0 / scale)), advice)
