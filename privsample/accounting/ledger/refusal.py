"""Messages of refused entries: what was requested, what remains, and what to do."""

import math
from collections.abc import Sequence
from pathlib import Path

from privsample._checks import count_noun
from privsample._decimals import round_down, round_up
from privsample.accounting.ledger.copies import CopiesFilter
from privsample.accounting.ledger.filters import CurveFilter, PrivacyCost, SumFilter
from privsample.accounting.ledger.gaussian_filter import GaussianFilter, is_gaussian
from privsample.accounting.ledger.state import Item, LedgerState
from privsample.accounting.targets import DP, RDP, ZCDP
from privsample.errors import BudgetExceeded

_PURE = "a mechanism without infinity mass (a LogisticPosterior has none with constant_time=False)"
_SHARE_ADVICE = "calibrate to ledger.share(k) for k more releases, or stop here"
_OWN_FAMILY = (
    "create a ledger that this release fills, as its own family (family=mechanism.accountant), or one without family"
)
_GENERAL_RULE = (
    "; this ledger charges any releases, in any order, by their Rényi curves: many equal ones cost less in a ledger "
    "that they fill, as its own family (family=mechanism.accountant), and a fixed list of releases as one plan "
    "(ledger.reserve, with an approximate_share)"
)
_LITTLE = 1e-3  # part of delta at which the epsilon of a composition is of little use


def refusal_error(
    state: LedgerState,
    path: Path,
    charge: PrivacyCost,
    what: str,
    *,
    items: Sequence[Item],
    delta: float | None,
    plan: bool,
) -> BudgetExceeded:
    """The error for an entry that does not fit; `delta` is the part of delta that a plan requested."""
    if not state.filter.fits(state.total):
        return over_budget_error(state, path)
    reason, advice = (
        _infinity_mass_reason(state, charge, delta)
        or _family_reason(state, charge, items)
        or _infinite_cost_reason(state, charge)
        or _overspend_reason(state, charge, plan=plan)
    )
    found = state.filter
    if plan and isinstance(found, CurveFilter) and delta is None and state.reservable <= _LITTLE * found.budget.delta:
        advice += "; with a larger approximate_share, a ledger charges a plan by the epsilon of its composition"
    head = f"{what} does not fit into {state.settings.budget.description} of {path.name}: {reason}"
    error = BudgetExceeded(f"{head}; nothing was spent or drawn; {advice}")
    error.command_line = f"{head}; nothing was spent or drawn; {_for_command_line(advice, path)}"
    return error


def _for_command_line(advice: str, path: Path) -> str:
    """The advice as options and commands of the command line."""
    for python, command in (
        (
            _SHARE_ADVICE,
            f"give more noise or a smaller epsilon (`privsample ledger show {path.name}` says what remains)",
        ),
        ("constant_time=False", "--no-constant-time"),
        ("(ledger.reserve, with an approximate_share)", "(in Python: Ledger.reserve, with an approximate_share)"),
        ("with an approximate_share", "with an --approximate-share"),
        ("larger approximate_share", "larger --approximate-share"),
        ('family="gaussian"', "--family gaussian"),
        ("family=mechanism.accountant", "--family JSON, the account of this release"),
        ("without family", "without --family"),
        ("account.order_limit", "`privsample account`"),
    ):
        advice = advice.replace(python, command)
    return advice


def over_budget_error(state: LedgerState, path: Path) -> BudgetExceeded:
    """The error for a ledger whose entries exceed its budget."""
    spent = state.filter.spent(state.total)
    return BudgetExceeded(
        f"by this version's formulas the entries of {path.name} cost {_up(spent)}, more than its budget "
        f"({state.settings.budget.description}); nothing was spent or drawn; no further release from these data is "
        "possible"
    )


def _infinity_mass_reason(state: LedgerState, charge: PrivacyCost, delta: float | None) -> tuple[str, str] | None:
    """Reason and advice if the infinity mass does not fit; None if it does."""
    if not charge.infinity_mass:
        return None
    found = state.filter
    if isinstance(found, (SumFilter, GaussianFilter)) and not _divides_delta(state):
        reason = f"its infinity mass is {float(charge.infinity_mass):g}, and this budget allows none"
        other = f"{type(found.budget).__name__} with delta > 0, or " if isinstance(found.budget, (RDP, ZCDP)) else ""
        return reason, f"use {_PURE}, or a budget {other}DP(epsilon, delta) with an approximate_share"
    able = state.reservable if delta is not None else found.set_aside_left(state.total)
    if float(charge.infinity_mass) <= able:
        return None
    if isinstance(found, SumFilter):
        reason = f"its infinity mass is {float(charge.infinity_mass):g}, and {able:g} is left of the budget's delta"
        return reason, f"create the ledger with a larger delta of its budget, or use {_PURE}"
    return (
        f"it needs {float(charge.infinity_mass):g} of delta, and {able:g} is set aside and unused",
        f"create the ledger with a larger approximate_share, such as 0.5, or use {_PURE}",
    )


def _divides_delta(state: LedgerState) -> bool:
    """Return whether the budget has a delta, of which a part can be set aside."""
    return getattr(state.settings.budget, "delta", 0.0) > 0.0


def _family_reason(state: LedgerState, charge: PrivacyCost, items: Sequence[Item]) -> tuple[str, str] | None:
    """Reason and advice in a ledger that is filled by a family; None in others."""
    found, total = state.filter, state.total
    if isinstance(found, CopiesFilter):
        left, name = found.copies - int(total.loss), type(found.family).__name__
        if not charge.loss.is_finite():
            return (
                f"no number of copies of {name} is known to dominate it",
                "release copies of the family, releases with less loss, or create a ledger without family",
            )
        needed = count_noun(int(charge.loss), "copy")
        return f"it needs {needed} of {name}, and {left} of {found.copies} remain", _SHARE_ADVICE
    if not isinstance(found, GaussianFilter):
        return None
    if not charge.loss.is_finite():
        return "its loss has a heavier tail than any Gaussian guarantee", _OWN_FAMILY
    costs = f"it costs a mu of {_up(float(charge.loss) ** 0.5)}, and {_down(found.mu_left(total))} remains"
    if any(not is_gaussian(item.account) and math.isinf(item.account.pure_epsilon) for item in items):
        if any(item.account.bounds.single_pairs is None for item in items):
            return costs, "create a ledger without family"
        return f"{costs} (mu bounds every epsilon, so that sampling records does not reduce it)", _OWN_FAMILY
    return costs, _SHARE_ADVICE


def _infinite_cost_reason(state: LedgerState, charge: PrivacyCost) -> tuple[str, str] | None:
    """Reason and advice if the cost is infinite; None if it is finite."""
    finite = charge.loss.is_finite() or bool((charge.renyi < float("inf")).any())
    if finite:
        return None
    match state.settings.budget:
        case DP(delta=0.0):
            return "its privacy loss is unbounded", "use a budget with delta > 0"
        case ZCDP():
            return "it has no finite rho", "use a budget of kind RDP or DP"
        case RDP(order=order):
            return (
                f"its Rényi divergence is not finite at order {order:g}",
                "use a lower order (see account.order_limit)",
            )
        case _:
            low = float(state.filter.orders.min())
            return (
                f"its Rényi divergence is not finite at any order of the ledger, from {low:.4g} on",
                "use a mechanism with a higher order_limit, or create the ledger with weights at lower orders",
            )


def _overspend_reason(state: LedgerState, charge: PrivacyCost, *, plan: bool) -> tuple[str, str]:
    """Reason and advice for a finite cost that exceeds the remainder."""
    before, after = state.filter.spent(state.total), state.filter.spent(state.total + charge)
    left = state.filter.left(state.total)
    name = "rho" if isinstance(state.settings.budget, ZCDP) else "epsilon"
    return (
        f"it would bring the {name} spent from {_up(before)} to {_up(after)}, and {_down(left)} remains",
        _SHARE_ADVICE if plan or not isinstance(state.filter, CurveFilter) else _SHARE_ADVICE + _GENERAL_RULE,
    )


def _up(spent: float) -> str:
    """The spent amount for messages, rounded up."""
    return round_up(spent, 6)


def _down(left: float) -> str:
    """The remaining amount for messages, rounded down."""
    return round_down(left, 6)
