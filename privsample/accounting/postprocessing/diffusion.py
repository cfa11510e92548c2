"""Account of a diffused statistic: exact for Gaussian diffusions, by the intrinsic sensitivity for any other."""

from collections.abc import Callable

import numpy as np

from privsample._checks import function, nonnegative, positive
from privsample.accounting.assumptions import Assumption
from privsample.accounting.guarantees import ZCDPAccountant
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.distributions.steps.diffusions import GaussianDiffusion
from privsample.errors import NumericalFailure
from privsample.relations import AddRemove, Relation

_DEFAULT = AddRemove()
_MOST_CELLS = 1 << 16
_LONGEST = 2.0**200


def diffused(
    distribution: GaussianDiffusion, time: float, sensitivity: float, relation: Relation = _DEFAULT
) -> GaussianAccountant:
    """The account of a statistic of L2 sensitivity `sensitivity` after diffusion for `time`. Kind: exact.

    Source: Balle, Barthe, Gaboardi and Geumlek 2019, Example 4 (Brownian motion), Corollary 7 (Ornstein-Uhlenbeck).
    Raises ValueError if the time is so long that a float keeps nothing of the statistic.
    """
    noise = distribution.noise_at_start(positive(time=time))
    if not noise < np.inf:
        raise ValueError(
            f"time must be shorter, got {time:g}: a float keeps nothing of the statistic after this time; release "
            f"nothing instead"
        )
    return GaussianAccountant(sensitivity=sensitivity, noise_std=noise, relation=relation)


def intrinsic_sensitivity(
    kappa: Callable[[float], float], time: float, tail: Callable[[float], float], *, accuracy: float = 1e-3
) -> float:
    """Upper bound of the integral of `kappa` from `time` to infinity: the intrinsic sensitivity of a diffusion.

    Parameters
    ----------
    kappa : callable
        Maps s > 0 to the largest squared gradient of log p_s(x, y)/p_s(x', y) over y and over the statistics x, x' of
        neighbours. It must be nonincreasing, and is assumed correct.
    time : float
        Time of the diffusion, finite and > 0.
    tail : callable
        Maps T to an upper bound of the integral from T to infinity.
    accuracy : float, default 1e-3
        Relative accuracy of the bound, > 0.

    Returns
    -------
    float
        An upper bound of the integral, within `accuracy` of it.

    Raises
    ------
    ValueError
        If a computed value of `kappa` exceeds an earlier one.
    NumericalFailure
        If the accuracy is not reached.

    Notes
    -----
    Source: Balle, Barthe, Gaboardi and Geumlek 2019, Theorem 6; docs/notes/diffusion.md.

    Examples
    --------
    Brownian motion of a statistic of sensitivity 1, with kappa(s) = 1/(2 s^2):

    >>> import privsample as ps
    >>> bound = ps.intrinsic_sensitivity(lambda s: 1 / (2 * s**2), 2.0, lambda t: 1 / (2 * t))
    >>> round(bound, 3)
    0.25
    """
    function(kappa=kappa), function(tail=tail)
    start, end = positive(time=time), 2.0 * time
    goal = positive(accuracy=accuracy)
    edges = [start, end]
    values = [_value(kappa, start), _value(kappa, end)]
    while _value(tail, end) > goal / 4 * sum(v * w for v, w in zip(values[1:], np.diff(edges), strict=True)):
        end *= 2.0
        if end > start * _LONGEST:
            raise NumericalFailure(
                "tail does not become small relative to the integral of kappa, so no guarantee is stated"
            )
        edges.append(end)
        values.append(_value(kappa, end))
    x, y = np.array(edges), np.array(values)
    while True:
        if (np.diff(y) > 0).any():
            at = int(np.argmax(np.diff(y) > 0))
            raise ValueError(
                f"kappa must be nonincreasing: it is {y[at]:g} at {x[at]:g} and {y[at + 1]:g} at {x[at + 1]:g}"
            )
        widths = np.diff(x)
        gaps, low = -np.diff(y) * widths, float((y[1:] * widths).sum())
        if gaps.sum() <= goal / 2 * low or not y[0] > 0.0:
            return float(((y[:-1] * widths).sum() + _value(tail, end)) * (1 + 1e-12))
        if len(x) > _MOST_CELLS:
            raise NumericalFailure(
                f"the integral of kappa was not computed to a relative accuracy of {goal:g}, so no guarantee is stated"
            )
        worst = gaps >= np.sort(gaps)[-(len(gaps) // 2 + 1)]
        middles = (x[:-1][worst] + x[1:][worst]) / 2
        order = np.argsort(np.append(x, middles))
        x = np.append(x, middles)[order]
        y = np.append(y, [_value(kappa, float(m)) for m in middles])[order]


def _value(curve: Callable[[float], float], at: float) -> float:
    """A value of `kappa` or `tail`, checked to be >= 0."""
    return nonnegative(**{f"{getattr(curve, '__name__', 'kappa')}({at:g})": curve(at)})


def diffusion_account(intrinsic: float, relation: Relation = _DEFAULT) -> ZCDPAccountant:
    """The account of a symmetric diffusion of known intrinsic sensitivity Lambda: rdp(a) = a Lambda.

    Parameters
    ----------
    intrinsic : float
        The intrinsic sensitivity, in nats, finite and >= 0; see `intrinsic_sensitivity`.
    relation : Relation, default AddRemove()
        Neighbouring relation of the guarantee.

    Returns
    -------
    ZCDPAccountant
        The account, with the assumption STATED.

    Notes
    -----
    Source: Balle, Barthe, Gaboardi and Geumlek 2019, Theorem 6.

    Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.diffusion_account(0.25)
    >>> float(account.rdp(2))
    0.5
    """
    stated = frozenset({Assumption.STATED, Assumption.IDEAL_REALS, Assumption.TRUSTED_SENSITIVITY})
    return ZCDPAccountant(rho=nonnegative(intrinsic=intrinsic), relation=relation, assumptions=stated)
