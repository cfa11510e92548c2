"""Why a ledger refuses: what was asked, what remains, and what to do."""

from pathlib import Path

from privsample._decimals import round_down, round_up
from privsample.accounting.ledger.book import LedgerState
from privsample.accounting.ledger.filters import CurveFilter, PrivacyCost
from privsample.accounting.targets import DP, RDP, ZCDP
from privsample.errors import BudgetExceeded


def refused(
    book: LedgerState, path: Path, charge: PrivacyCost, what: str, *, delta: float | None, plan: bool
) -> BudgetExceeded:
    """The error for an entry that does not fit; `delta` is the part of delta that a plan asked for."""
    if not book.filter.fits(book.total):
        return closed(book, path)
    reason, advice = _failing(book, charge, delta) or _endless(book, charge) or _too_much(book, charge)
    if plan and isinstance(book.filter, CurveFilter) and delta is None and not book.reservable:
        advice += "; a plan can count by its tight composition where the ledger was made with an approximate_share"
    head = f"{what} does not fit into {book.settings.budget.description} of {path.name}"
    return BudgetExceeded(f"{head}: {reason}; nothing was spent or drawn; {advice}")


def closed(book: LedgerState, path: Path) -> BudgetExceeded:
    """The error where the entries themselves are over the budget."""
    spent = book.filter.spent(book.total)
    return BudgetExceeded(
        f"by this version's formulas the entries of {path.name} cost {_up(spent)}, more than its budget "
        f"({book.settings.budget.description}); nothing was spent or drawn; no further release from these data is "
        "possible"
    )


def _failing(book: LedgerState, charge: PrivacyCost, delta: float | None) -> tuple[str, str] | None:
    if not charge.infinity_mass:
        return None
    if not isinstance(book.filter, CurveFilter):
        reason = f"it may fail outright with probability {float(charge.infinity_mass):g}, and this budget allows none"
        return reason, "use a mechanism that cannot fail, or a budget DP(epsilon, delta) with an approximate_share"
    able = book.reservable if delta is not None else book.filter.set_aside_left(book.total)
    if float(charge.infinity_mass) <= able:
        return None
    return (
        f"a part {float(charge.infinity_mass):g} of delta is asked for, and {able:g} is set aside for that and left",
        "use mechanisms that cannot fail outright, or make the ledger with a larger approximate_share",
    )


def _endless(book: LedgerState, charge: PrivacyCost) -> tuple[str, str] | None:
    finite = charge.loss.is_finite() or bool((charge.renyi < float("inf")).any())
    if finite:
        return None
    match book.settings.budget:
        case DP(delta=0.0):
            return "its loss has no bound", "a budget with delta > 0 would take it"
        case ZCDP():
            return "it has no finite rho", "a budget of kind RDP or DP may take it"
        case RDP(order=order):
            return (
                f"its Rényi divergence is not finite at order {order:g}",
                "use a lower order (see account.order_limit)",
            )
        case _:
            low = float(book.filter.orders.min())
            return (
                f"its Rényi divergence is not finite at any order of the ledger, from {low:.4g} on",
                "use a mechanism with a higher order_limit, or a ledger made with weights at lower orders",
            )


def _too_much(book: LedgerState, charge: PrivacyCost) -> tuple[str, str]:
    before, after = book.filter.spent(book.total), book.filter.spent(book.total + charge)
    left = book.filter.left(book.total)
    name = "rho" if isinstance(book.settings.budget, ZCDP) else "epsilon"
    return (
        f"it would bring the {name} spent from {_up(before)} to {_up(after)}, and {_down(left)} remains",
        "calibrate to ledger.share(k) for k more releases, or stop here",
    )


def _up(spent: float) -> str:
    return round_up(spent, 6)


def _down(left: float) -> str:
    return round_down(left, 6)
