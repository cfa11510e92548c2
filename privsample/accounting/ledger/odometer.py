"""The privacy odometer of a ledger: an epsilon at a given delta that is valid at any time (ledger.md, section 10)."""

import math
from dataclasses import replace

from privsample.accounting.ledger.copies import CopiesFilter
from privsample.accounting.ledger.filters import ApproximateFilter, CurveFilter, Filter, default_weights
from privsample.accounting.ledger.state import LedgerState
from privsample.accounting.targets import DP, RDP

ODOMETER_RULE = "Rényi curves at fixed orders with fixed weights, valid at any time (docs/notes/ledger.md, section 10)"


def odometer(state: LedgerState, delta: float) -> float:
    """The epsilon of all entries at this delta, by Rényi curves with weights fixed by the budget and delta alone.

    Everything that was charged is counted, also draws of plans that were not made yet.
    """
    found = state.filter
    set_aside = _infinity_mass(found)
    if set_aside > delta:
        return math.inf
    if isinstance(found, CurveFilter):
        return replace(found, budget=DP(epsilon=found.budget.epsilon, delta=delta)).spent(state.total)
    scale = DP(epsilon=_scale(found, delta), delta=delta)
    weights = default_weights(scale)
    curve = CurveFilter(budget=scale, at=tuple(weights), weights=tuple(weights.values()), set_aside=set_aside)
    times = dict.fromkeys((item.account for entry in state.entries for item in entry.items), 0)
    for entry in state.entries:
        for item in entry.items:
            times[item.account] += item.times
    charges = (count * curve.charge(account) for account, count in times.items())
    return curve.spent(sum(charges, start=curve.zero))


def _infinity_mass(found: Filter) -> float:
    """The infinity mass that the filter admits on every history."""
    mass = found.set_aside if isinstance(found, ApproximateFilter) else 0.0
    return mass + found.copies * found.family.infinity_mass if isinstance(found, CopiesFilter) else mass


def _scale(found: Filter, delta: float) -> float:
    """The size of epsilon at this delta when the budget is spent: it decides which orders get large weights."""
    match found.budget:
        case DP(epsilon=epsilon):
            return epsilon
        case RDP(order=order, epsilon=epsilon):
            return epsilon - math.log(delta) / (order - 1.0)
        case _:  # rho of zCDP, or mu, of which half the square is one
            rho = getattr(found.budget, "rho", found.amount**2 / 2)
            return rho + 2.0 * math.sqrt(-rho * math.log(delta))
