"""What a statistic costs that diffuses: Gaussian diffusions exactly, any other by its intrinsic sensitivity."""

from collections.abc import Callable

import numpy as np

from privsample._checks import function, nonnegative, positive
from privsample.accounting.assumptions import Assumption
from privsample.accounting.guarantees import ZCDPAccountant
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.distributions.steps.diffusions import Diffusion
from privsample.errors import NumericalFailure
from privsample.relations import AddRemove, Relation

_DEFAULT = AddRemove()
_MOST_CELLS = 1 << 16
_LONGEST = 2.0**200


def diffused(
    distribution: Diffusion, time: float, sensitivity: float, relation: Relation = _DEFAULT
) -> GaussianAccountant:
    """A statistic of L2 sensitivity `sensitivity` after it diffused for `time`. Kind: exact.

    Source: Balle, Barthe, Gaboardi and Geumlek 2019, Example 4 (Brownian motion), Corollary 7 (Ornstein-Uhlenbeck).
    Raises: ValueError, where the time is so long that nothing of the statistic would be left in a double.
    """
    noise = distribution.noise_at_start(positive(time=time))
    if not noise < np.inf:
        raise ValueError(
            f"time = {time:g} is so long that nothing of the statistic is left: release nothing in its place"
        )
    return GaussianAccountant(sensitivity=sensitivity, noise_std=noise, relation=relation)


def intrinsic_sensitivity(
    kappa: Callable[[float], float], time: float, tail: Callable[[float], float], *, accuracy: float = 1e-3
) -> float:
    """An upper bound of the integral of `kappa` from `time` on, within a relative `accuracy` of it.

    kappa: s -> the largest squared gradient of log p_s(x, y)/p_s(x', y) over y and over the statistics x, x' of
    neighbours; it may not grow with s, and is taken on trust. tail: T -> a bound of the integral from T on.
    Raises: ValueError, where kappa is seen to grow; NumericalFailure, where the accuracy is not reached.
    """
    function(kappa=kappa), function(tail=tail)
    start, end = positive(time=time), 2.0 * time
    goal = positive(accuracy=accuracy)
    edges = [start, end]
    values = [_value(kappa, start), _value(kappa, end)]
    while _value(tail, end) > goal / 4 * sum(v * w for v, w in zip(values[1:], np.diff(edges), strict=True)):
        end *= 2.0
        if end > start * _LONGEST:
            raise NumericalFailure("tail does not fall beside the integral of kappa; no guarantee is claimed")
        edges.append(end)
        values.append(_value(kappa, end))
    x, y = np.array(edges), np.array(values)
    while True:
        if (np.diff(y) > 0).any():
            at = int(np.argmax(np.diff(y) > 0))
            raise ValueError(
                f"kappa may not grow with time: it is {y[at]:g} at {x[at]:g} and {y[at + 1]:g} at {x[at + 1]:g}"
            )
        widths = np.diff(x)
        gaps, low = -np.diff(y) * widths, float((y[1:] * widths).sum())
        if gaps.sum() <= goal / 2 * low or not y[0] > 0.0:
            return float(((y[:-1] * widths).sum() + _value(tail, end)) * (1 + 1e-12))
        if len(x) > _MOST_CELLS:
            raise NumericalFailure(f"the integral of kappa is not known to {goal:g}; no guarantee is claimed")
        worst = gaps >= np.sort(gaps)[-(len(gaps) // 2 + 1)]
        middles = (x[:-1][worst] + x[1:][worst]) / 2
        order = np.argsort(np.append(x, middles))
        x = np.append(x, middles)[order]
        y = np.append(y, [_value(kappa, float(m)) for m in middles])[order]


def _value(curve: Callable[[float], float], at: float) -> float:
    return nonnegative(**{f"{getattr(curve, '__name__', 'kappa')}({at:g})": curve(at)})


def diffusion_account(intrinsic: float, relation: Relation = _DEFAULT) -> ZCDPAccountant:
    """rdp(a) = a Lambda for any symmetric diffusion of this intrinsic sensitivity. Kind: upper bound.

    Source: Balle, Barthe, Gaboardi and Geumlek 2019, Theorem 6.
    """
    stated = frozenset({Assumption.STATED, Assumption.IDEAL_REALS, Assumption.TRUSTED_SENSITIVITY})
    return ZCDPAccountant(rho=nonnegative(intrinsic=intrinsic), relation=relation, assumptions=stated)
