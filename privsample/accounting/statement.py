"""Statements of guarantees that can be published with a release."""

import numpy as np

from privsample._checks import plural, probability
from privsample.accounting.base import Accountant
from privsample.accounting.display import has_quick_curve, rounded_up, shown_epsilon
from privsample.relations import AddRemove, Relation, ReplaceOne

_BASELINE = 0.01  # "once in a hundred guesses"
_MOST_COST = 4e5  # cost of a value of the privacy curve up to which the statement computes the risk

__all__ = [
    "has_risk",
    "large_delta",
    "privacy_statement",
    "risk_in_words",
    "rounded_up",
    "shown_delta",
    "shown_epsilon",
]


def privacy_statement(account: Accountant, delta: float = 1e-6) -> str:
    """Describe the guarantee of an account: who is protected, from what, and under which assumptions.

    Parameters
    ----------
    account : Accountant
        The account.
    delta : float, default 1e-6
        Probability in [0, 1) at which epsilon is reported.

    Returns
    -------
    str
        The statement: what an attacker gains, the factor e^epsilon, the relation, the assumptions and the source of the
        bound. Numbers are rounded up. An account of pure differential privacy also states its epsilon at delta = 0, and
        only that where it is no larger to four digits. If the number n of records is public and delta is at least 1/n,
        the statement warns of it.

    Raises
    ------
    TypeError
        If `account` is not an account.
    ValueError
        If `delta` is outside [0, 1).

    Examples
    --------
    >>> import privsample as ps
    >>> statement = ps.privacy_statement(ps.LaplaceAccountant(sensitivity=1, scale=2), delta=0)
    >>> "epsilon = 0.5" in statement
    True
    """
    if not isinstance(account, Accountant):
        raise TypeError(f"account must be an accountant (mechanism.accountant), got {type(account).__name__}")
    delta, words = probability(delta=delta), ""
    if np.isinf(account.epsilon(delta)):
        promise = f"At delta = {shown_delta(delta)} there is no guarantee: epsilon is infinite."
    else:
        words = risk_in_words(account)
        factor, more = _factor(account, delta), f", plus at most {shown_delta(delta)} (delta)" if delta else ""
        if delta and account.infinity_mass == 0.0 and np.isfinite(account.pure_epsilon):
            pure = _factor(account, 0.0)
            more = "" if pure == factor else f"{more}. Without delta, the factor is at most {pure}"
        promise = (
            f"When {account.relation.change}, the probability of any conclusion drawn from the release grows by a "
            f"factor of at most {factor}{more}."
        )
    caution = large_delta(account.relation, delta)
    if caution:
        promise += f" Warning: {caution}."
    limits = "; ".join(sorted(assumption.value for assumption in account.assumptions)) or "none"
    return (
        f"{words} {promise} Neighbouring datasets are {account.relation.description}. "
        f"Assumptions: {limits}. Source of the bound: {account.source}."
    ).lstrip()


def risk_in_words(account: Accountant) -> str:
    """What an attacker who guesses about one record gains from a release, for readers who do not know epsilon.

    Parameters
    ----------
    account : Accountant
        The account.

    Returns
    -------
    str
        Two sentences: the bound of `Accountant.risk` against a baseline of 0.01, rounded up, and its condition. Empty
        if the bound is 1, if it is expensive, or if neighbours differ in more than one record or in a profile.

    Examples
    --------
    >>> import privsample as ps
    >>> statement = ps.privacy_statement(ps.LaplaceAccountant(sensitivity=1, scale=2), delta=0)
    >>> "is right at most 1.65 times in a hundred with it" in statement
    True
    """
    if not has_risk(account) or not (success := rounded_up(100 * float(account.risk(_BASELINE)), 3)) < 100.0:
        return ""
    one = str(getattr(account.relation, "unit", ""))
    several = plural(one)
    return (
        f"Someone who, without this release, would be right about one {one} at most once in a hundred guesses is right "
        f"at most {success:g} times in a hundred with it, whatever else they know about other "
        f"{several}. This holds for any guess about one {one} chosen before the release, if the other {several} tell "
        f"nothing about that {one} that the guesser does not know already."
    )


def has_risk(account: Accountant) -> bool:
    """Whether neighbours differ in one record, and the risk of an attack on it is quick to compute."""
    relation = account.relation
    return (
        isinstance(relation, (AddRemove, ReplaceOne)) and relation.members == 1 and has_quick_curve(account, _MOST_COST)
    )


def _factor(account: Accountant, delta: float) -> str:
    """The factor e^epsilon with its epsilon, both rounded up."""
    shown = shown_epsilon(account, delta)
    factor = f"{rounded_up(np.exp(shown), 3):g}" if shown < 50 else "e to the power epsilon"
    return f"{factor} (epsilon = {shown:.4g})"


def shown_delta(delta: float) -> str:
    """A probability with three significant digits, rounded up."""
    return f"{rounded_up(delta, 3):g}".replace("e-0", "e-") if delta else "0"


def large_delta(relation: Relation, delta: float) -> str:
    """A clause that says what delta >= 1/n does not exclude; empty if delta < 1/n, or if n is not public.

    Source: Geumlek 2020, section 3.1; docs/notes/odds.md, step 4.
    """
    # 1/n and a decimal delta are both rounded to nearest, so that delta = 1/n is recognized.
    if not isinstance(relation, ReplaceOne) or not delta >= 1.0 / relation.n:
        return ""
    return (
        f"delta = {shown_delta(delta)} is at least 1/n for n = {relation.n}, and publishing one random {relation.unit} "
        "in clear satisfies such a guarantee; choose delta well below 1/n"
    )
