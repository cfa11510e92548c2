"""Bounds on the number of right guesses in one training run, for any claim, and what a number of right guesses refutes.

The guesses number `guesses`, of `canaries` canaries, and were fixed in number before scoring. docs/notes/one_run.md
proves the bounds.
"""

from collections.abc import Callable

import numpy as np
from scipy import special

from privsample.simulations.audit.one_run_claims import (
    LOST,
    OneRunClaim,
    approximate_claim,
    gaussian_claim,
)

LEAST_P_VALUE = 1e-250  # smaller ones are not told apart; the recursion is computed with doubles
_BETA_ERROR = 1e-9  # exceeds the relative error of the regularized incomplete beta function
_HALVINGS = 50  # of an interval of parameters
_LOG_HALVINGS = 40  # of an interval of log levels: a relative error below 1e-9
_LARGEST_EPSILON, _LARGEST_MU = 300.0, 60.0  # what right guesses can refute is far below


def refutes(right: int, guesses: int, canaries: int, level: float, claim: OneRunClaim) -> bool:
    """Whether `right` right guesses or more have at most probability `level` under the claim.

    The recursion of one_run.md, section 3: if the probability of `right` or more were `level`, the claim would force
    the probability tau of j or more, for j = right - 1, ..., 0, and a tau above 1 is impossible. Every rounding lowers
    tau. The binomial bound of section 4 is the other test; the claim is refuted if one of them refutes it.
    """
    return binomial_bound(right, guesses, canaries, claim) <= level or _turns(right, guesses, canaries, level, claim)


def _turns(right: int, guesses: int, canaries: int, level: float, claim: OneRunClaim) -> bool:
    """Whether a tau of the recursion exceeds 1."""
    tau, above = level, 0.0  # above: the sum of tau over all larger numbers
    for j in range(right - 1, -1, -1):
        mass = ((j + 1) * tau + above) / canaries * LOST  # R_{j+1}
        above = (above + tau) * LOST
        tau = max(tau, (above + canaries * claim.wrong_mass(mass)) / (guesses - j) * LOST)
        if tau > 1.0:
            return True
    return False


def binomial_bound(right: int, guesses: int, canaries: int, claim: OneRunClaim) -> float:
    """The least bound on the probability of `right` right guesses or more by one (epsilon, delta), rounded up.

    With X ~ Binomial(guesses, e^epsilon/(1 + e^epsilon)) it is P(X >= right), and what a number of failures of mean
    canaries delta/(1 + e^epsilon) can add at most, failures being worth most where X is right - 1, then right - 2, and
    so on (one_run.md, section 4). 1 for a claim without pairs.
    """
    if right == 0 or not claim.epsilons.size:
        return 1.0
    chance = np.minimum(special.expit(claim.epsilons) / LOST, 1.0)
    total = special.betainc(right, guesses - right + 1, chance) * (1.0 + _BETA_ERROR)
    left = canaries * claim.deltas * special.expit(-claim.epsilons) * (1.0 + _BETA_ERROR)
    for missing in range(1, right + 1):
        if not left.any():
            break
        count = right - missing
        ways = special.gammaln(guesses + 1) - special.gammaln(count + 1) - special.gammaln(guesses - count + 1)
        log_mass = ways + special.xlogy(count, chance) + (guesses - count) * special.log_expit(-claim.epsilons)
        error = _BETA_ERROR + 1e-14 * float(special.gammaln(guesses + 1))  # of the logarithms, which nearly cancel
        taken = np.minimum(np.exp(log_mass + error), left / missing)
        total, left = total + taken, np.maximum(left - missing * taken, 0.0)
    return min(float(total.min()), 1.0)


def p_value(right: int, guesses: int, canaries: int, level: float, claim: OneRunClaim) -> float:
    """The least level at which `right` right guesses refute the claim, rounded up.

    It is at most `level` if and only if they refute it at `level`.
    """
    other = max(binomial_bound(right, guesses, canaries, claim), LEAST_P_VALUE)
    at_level = _turns(right, guesses, canaries, level, claim)
    low, high = (LEAST_P_VALUE, level) if at_level else (level, 1.0)
    if at_level and _turns(right, guesses, canaries, LEAST_P_VALUE, claim):
        return LEAST_P_VALUE
    for _ in range(_LOG_HALVINGS):
        middle = float(np.sqrt(low) * np.sqrt(high))
        if _turns(right, guesses, canaries, middle, claim):
            high = middle
        else:
            low = middle
    return min(high, other)


def critical_count(guesses: int, canaries: int, level: float, claim: OneRunClaim) -> int | None:
    """The least number of right guesses that refutes the claim; None if even `guesses` right ones do not."""
    if not refutes(guesses, guesses, canaries, level, claim):
        return None
    low, high = 0, guesses  # none right refutes nothing
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refutes(middle, guesses, canaries, level, claim) else (middle, high)
    return high


def least_guesses(canaries: int, level: float, claim: OneRunClaim) -> int | None:
    """The least number of guesses that refutes the claim if all of them are right; None if all canaries are too few."""
    if not refutes(canaries, canaries, canaries, level, claim):
        return None
    low, high = 0, canaries
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refutes(middle, middle, canaries, level, claim) else (middle, high)
    return high


def largest_refuted(largest: float, is_refuted: Callable[[float], bool]) -> float:
    """The largest parameter whose claim is refuted, by bisection, rounded down; 0 if there is none."""
    low, high = 0.0, largest
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low


def lower_epsilon(right: int, guesses: int, canaries: int, level: float, delta: float) -> float:
    """The largest epsilon for which (epsilon, delta)-differential privacy is refuted."""
    return largest_refuted(
        _LARGEST_EPSILON, lambda e: refutes(right, guesses, canaries, level, approximate_claim(e, delta))
    )


def lower_mu(right: int, guesses: int, canaries: int, level: float) -> float:
    """The largest mu for which mu-Gaussian differential privacy is refuted."""
    return largest_refuted(_LARGEST_MU, lambda mu: refutes(right, guesses, canaries, level, gaussian_claim(mu)))
