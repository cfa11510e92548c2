"""Lower confidence bounds on a Rényi divergence from draws."""

import numpy as np

from privsample._checks import FloatArray


def renyi_from_curves(order: float, epsilons: FloatArray, forward: FloatArray, backward: FloatArray) -> float:
    """Lower bound on R_order(P, Q) from lower bounds on both privacy curves at increasing epsilons >= 0.

    Balle, Barthe and Gaboardi 2018, Theorem 6 (equality for one pair). A privacy curve decreases, so between two points
    it is at least its value at the next one.
    """
    s, edges = order - 1.0, np.concatenate([[0.0], epsilons])
    here, there = (np.maximum.accumulate(curve[::-1])[::-1] for curve in (forward, backward))
    low, high, widths = edges[:-1], edges[1:], np.diff(edges)
    with np.errstate(divide="ignore"):  # in log space, because e^(s epsilon) can overflow
        rising = np.log(here * (s + 1)) + s * high + np.log(-np.expm1(-s * widths))
        falling = np.log(there * s) - (s + 1) * low + np.log(-np.expm1(-(s + 1) * widths))
    return float(np.logaddexp.reduce(np.concatenate([[0.0], rising, falling])) / s)


def clipped_lower_limit(order: float, losses: FloatArray, ceiling: float, level: float) -> float:
    """Lower confidence bound on R_order(P, Q) at error probability `level`, from losses log p/q at draws from P.

    `ceiling`, chosen independently of these losses, clips e^((order - 1) loss); the mean of the clipped values is
    bounded from below. Maurer and Pontil 2009, Theorem 4 (empirical Bernstein).
    """
    if len(losses) < 2:
        return 0.0
    s = order - 1.0
    values, log = np.exp(np.minimum(s * (losses - ceiling), 0.0)), np.log(2 / level)
    low = values.mean() - np.sqrt(2 * values.var(ddof=1) * log / len(values)) - 7 * log / (3 * (len(values) - 1))
    return float(max(np.log(low) / s + ceiling, 0.0)) if low > 0 else 0.0


def plug_in_estimate(order: float, losses: FloatArray) -> float:
    """Plug-in estimate log(mean e^((order - 1) loss)) / (order - 1), which is not a bound.

    Raises: ValueError, if the losses that dominate the mean are too rare: the estimate would be too small.
    """
    s, log = order - 1.0, np.log(len(losses))
    needed = s * s * float(np.var(losses))
    if not needed < log:
        raise ValueError(
            f"the plug-in estimate at order {order:g} is biased low: (order - 1)^2 times the variance of the loss must "
            f"be below log(draws) = {log:.3g}, got {needed:.3g}; use smaller orders or `clipped_lower_limit`"
        )
    top = float(s * losses.max())
    return float((np.log(np.mean(np.exp(s * losses - top))) + top) / s)
