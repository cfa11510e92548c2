"""Root finding on a log scale with few evaluations of an expensive account."""

from collections.abc import Callable

import numpy as np

from privsample.accounting.base import Accountant
from privsample.accounting.engine import views
from privsample.accounting.targets import DP, Target

_LEAST, _MOST = 1e-12, 1e4  # range of the scale: below it nothing is left for trainings and scores
_ROUNDS = 40


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
    """Return the root of an increasing function of a scale > 0, to a relative accuracy; `_LEAST` or `_MOST` at an end.

    The first step assumes that the function grows as `power` times the log of the scale. The following steps are
    secants with halved weights of the end that stays (Illinois), which need five to eight evaluations.
    """
    x, f = float(np.log(start)), excess(start)
    ends, low, high = (float(np.log(_LEAST)), float(np.log(_MOST))), None, None
    step = 1.0
    for _ in range(_ROUNDS):
        if f <= 0.0:
            low = (x, f)
        else:
            high = (x, f)
        if low is not None and high is not None:
            break
        if x in ends:
            return _LEAST if f > 0.0 else _MOST
        move = np.clip(-f / power, -6.0, 6.0)
        x = float(np.clip(x + step * (move + np.copysign(accuracy, -f)), *ends))
        f, step = excess(float(np.exp(x))), 1.5 * step
    assert low is not None and high is not None
    side = 0
    for _ in range(_ROUNDS):
        (a, fa), (b, fb) = low, high
        if b - a <= accuracy:
            break
        x = a - fa * (b - a) / (fb - fa) if fb > fa else (a + b) / 2.0
        x = float(np.clip(x, a + accuracy / 4.0, b - accuracy / 4.0))
        f = excess(float(np.exp(x)))
        if f <= 0.0:
            low, high = (x, f), (b, fb / 2.0 if side < 0 else fb)
            side = -1
        else:
            low, high = (a, fa / 2.0 if side > 0 else fa), (x, f)
            side = 1
    return float(np.exp(low[0]))
