"""What an adversary can conclude from a release, computed from the curves of its account. Proofs: docs/notes/odds.md.

The methods of `Accountant` with the same names document arguments and results.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray, probability, real_array
from privsample.accounting.curves.posterior_odds import log_loss_tail, log_odds_growth

if TYPE_CHECKING:
    from privsample.accounting.base import Accountant

_EPS = float(np.finfo(np.float64).eps)


def loss_tail(account: "Accountant", losses: ArrayLike) -> FloatArray:
    """Upper bound on the probability that the privacy loss exceeds each of `losses`."""
    t = real_array(losses=losses)
    if not np.isfinite(t).all():
        raise ValueError("losses must be finite, in nats")
    return np.array([_tail(account, float(x)) for x in t.ravel()]).reshape(t.shape)[()]


def _tail(account: "Accountant", loss: float) -> float:
    """The bound at one loss; 0 from a pure guarantee on."""
    if loss >= account.pure_epsilon and account.infinity_mass == 0.0:
        return 0.0
    found = log_loss_tail(lambda epsilon: float(account.log_delta(epsilon)), loss, account.pure_epsilon)
    return float(min(np.nextafter(np.exp(found) * (1.0 + 4 * _EPS * (1.0 - found)), 1.0), 1.0))


def odds_growth(account: "Accountant", tail_probability: float) -> float:
    """Privacy loss in nats, >= 0, that is exceeded with at most this probability; +inf if none is known."""
    tail, pure = probability(tail_probability=tail_probability), account.pure_epsilon
    growth = pure if account.infinity_mass == 0.0 else np.inf
    if tail > account.infinity_mass:
        middle = (tail + account.infinity_mass) / 2
        # The loss that step 2 gives for epsilon(middle): the best epsilon is below it, because each loss is above its
        # epsilon.
        high = float(account.epsilon(middle)) - float(np.log1p(-middle / tail))
        # Below log(1 - tail), delta exceeds the tail probability in every privacy curve.
        low = float(np.log1p(-tail))
        if np.isfinite(high):
            found = log_odds_growth(lambda epsilon: float(account.log_delta(epsilon)), tail, low, high, pure)
            growth = min(growth, found)
    return float(growth)


def posterior_odds(account: "Accountant", prior_odds: ArrayLike, tail_probability: float) -> FloatArray:
    """Largest odds of a hypothesis about one record after the release."""
    odds = real_array(prior_odds=prior_odds)
    if not ((odds > 0.0) & (odds < np.inf)).all():
        wrong = float(odds[~((odds > 0.0) & (odds < np.inf))].flat[0])
        raise ValueError(f"prior_odds must be finite and > 0, got {wrong!r}: a probability p is the odds p/(1 - p)")
    growth = odds_growth(account, tail_probability)
    with np.errstate(over="ignore"):
        grown = odds * np.exp(growth) * (1.0 + 4 * _EPS * (1.0 + growth))
    return np.nextafter(grown, np.inf)[()]  # the factors do not cover the rounding of subnormal odds


def posterior_probability(account: "Accountant", prior: ArrayLike, tail_probability: float) -> FloatArray:
    """Largest probability of a hypothesis about one record after the release."""
    p = real_array(prior=prior)
    if not ((p > 0.0) & (p < 1.0)).all():
        raise ValueError(f"prior must lie in (0, 1), got {float(p[~((p > 0.0) & (p < 1.0))].flat[0])!r}")
    odds = posterior_odds(account, p / (1.0 - p), tail_probability)
    # Four roundings of positive terms; 1/odds loses nothing where odds are infinite, and would overflow near 0.
    small = np.minimum(odds, 1.0)
    found = np.where(odds < 1.0, small / (1.0 + small), 1.0 / (1.0 + 1.0 / np.maximum(odds, 1.0)))
    return np.minimum(np.nextafter(found * (1.0 + 8 * _EPS), 1.0), 1.0)[()]
