"""The filter that a ledger's settings ask for."""

from collections.abc import Mapping

from privsample._checks import probability
from privsample.accounting.base import Accountant
from privsample.accounting.ledger.copies import CopiesFilter, copies_in, own_budget
from privsample.accounting.ledger.filters import Filter, filter_for
from privsample.accounting.ledger.gaussian_filter import GaussianFilter
from privsample.accounting.ledger.largest_mu import largest_mu
from privsample.accounting.targets import DP, GDP, RDP, ZCDP, Target

GAUSSIAN = "gaussian"


def filter_of(
    budget: Target,
    *,
    family: str | Accountant | None = None,
    copies: int | None = None,
    approximate_share: float = 0.0,
    weights: Mapping[float, float] | None = None,
) -> Filter:
    """The filter of a budget, and of the family that fills it if there is one.

    `copies` is the number of copies of a family that was computed before. Raises ValueError or TypeError.
    """
    if not isinstance(budget, (DP, ZCDP, RDP, GDP)):
        raise TypeError(
            f"budget must be DP, ZCDP, RDP or GDP, got {type(budget).__name__}: no rule for adaptive choices is known "
            "for other targets; calibrate a mechanism to it, and give the ledger the epsilon, delta or mu that it has"
        )
    if family is None and not isinstance(budget, GDP):
        return filter_for(budget, approximate_share=approximate_share, weights=weights)
    if family is not None:
        check_family(family)
    delta = budget.delta if isinstance(budget, DP) else 0.0
    share = probability(approximate_share=approximate_share)
    if weights is not None or (share > 0.0 and delta == 0.0):
        raise ValueError(
            f"weights need a ledger without family, and approximate_share a budget with delta > 0, "
            f"got {budget.description}; omit them"
        )
    set_aside = share * delta
    if isinstance(family, Accountant):
        known = copies_in(own_budget(budget, set_aside), family) if copies is None else copies
        return CopiesFilter(budget=budget, family=family, copies=known, set_aside=set_aside)
    if isinstance(budget, GDP):
        return GaussianFilter(budget=budget, mu=budget.mu)
    if not isinstance(budget, DP) or delta == 0.0:
        raise ValueError(
            f"family 'gaussian' needs a budget GDP(mu) or DP(epsilon, delta) with delta > 0, got {budget.description}; "
            "omit it"
        )
    return GaussianFilter(budget=budget, mu=largest_mu(budget, set_aside), set_aside=set_aside)


def check_family(family: object) -> str | Accountant:
    """Return the family. Raises TypeError or ValueError."""
    if isinstance(family, str) and family != GAUSSIAN:
        raise ValueError(f"family must be 'gaussian' or an accountant, got {family!r}")
    if not isinstance(family, (str, Accountant)):
        raise TypeError(f"family must be 'gaussian' or an accountant, got {type(family).__name__}")
    if isinstance(family, Accountant) and family.bounds.single_pairs is None:
        raise ValueError(
            f"family must have one dominating pair in each direction, which {type(family).__name__} has not; "
            "use another release, or no family"
        )
    return family
