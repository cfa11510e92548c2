"""The privacy odometer of a ledger: an epsilon at a given delta that is valid at any time (ledger.md, section 10)."""

import math
from dataclasses import replace

from privsample.accounting.ledger.copies import CopiesFilter
from privsample.accounting.ledger.filters import CurveFilter, Filter, default_weights
from privsample.accounting.ledger.gaussian_filter import GaussianFilter
from privsample.accounting.ledger.state import LedgerState
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.targets import DP, RDP

_LEVELS, _STEP = 20, 0.75  # levels below the whole budget, and the ratio of successive levels
BY_ORDERS = "Rényi curves at fixed orders with fixed weights"
BY_LEVELS = f"the least of {_LEVELS + 1} fixed parts of the budget, delta being divided among them"


def odometer(state: LedgerState, delta: float) -> float:
    """The epsilon of all entries at this delta, by a rule that is fixed by the settings and delta alone.

    Everything that was charged is counted, also draws of plans that were not made yet.
    """
    found = state.filter
    own = delta - found.set_aside
    if own < 0.0:
        return math.inf
    match found:
        case CurveFilter():
            return replace(found, budget=DP(epsilon=found.budget.epsilon, delta=delta)).spent(state.total)
        case CopiesFilter() | GaussianFilter() if not (own > 0.0 and found.fits(state.total)):
            return math.inf
        case CopiesFilter():
            return _by_levels(found, int(state.total.loss), own)
        case GaussianFilter():  # half of delta each: the guarantee of the whole budget holds at any time as well
            whole = GaussianPair(mu=found.mu).least_epsilon(math.log(own / 2.0))
            return min(whole, _by_orders(state, (delta + found.set_aside) / 2.0))
        case _:
            return _by_orders(state, delta)


def odometer_rule(found: Filter) -> str:
    """The rule of the odometer in a few words."""
    match found:
        case CopiesFilter():
            return BY_LEVELS
        case GaussianFilter():
            return f"{BY_ORDERS}, or the whole budget, at half of delta each"
        case _:
            return BY_ORDERS


def _by_orders(state: LedgerState, delta: float) -> float:
    """The epsilon by a mixture over orders; the orders and weights depend on the budget and delta only."""
    found = state.filter
    scale = DP(epsilon=_scale(found, delta), delta=delta)
    weights = default_weights(scale)
    curve = CurveFilter(budget=scale, at=tuple(weights), weights=tuple(weights.values()), set_aside=found.set_aside)
    times = dict.fromkeys((item.account for entry in state.entries for item in entry.items), 0)
    for entry in state.entries:
        for item in entry.items:
            times[item.account] += item.times
    charges = (count * curve.charge(account) for account, count in times.items())
    return curve.spent(sum(charges, start=curve.zero))


def _by_levels(found: CopiesFilter, used: int, delta: float) -> float:
    """The epsilon of the least level that holds the used copies; the whole budget has half of delta."""
    if not used:
        return 0.0
    levels = [found.copies, *(math.floor(found.copies * _STEP**level) for level in range(1, _LEVELS + 1))]
    place = max(index for index, copies in enumerate(levels) if copies >= used)
    part = delta / 2.0 if place == 0 else delta / (2.0 * _LEVELS)
    return float((levels[place] * found.family).epsilon(part))


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
