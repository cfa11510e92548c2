"""All valid values of epsilon at a given delta, one for each bound of an account.

If a curve is too expensive, a table replaces it, and the name of the route says so.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from privsample._value import frozen_value
from privsample.accounting.curves.conversion import epsilon_at, epsilon_from_renyi, epsilon_of_curve
from privsample.accounting.engine import views
from privsample.accounting.engine.bounds import COMPOSED, Kind, PrivacyBounds, RenyiBound
from privsample.accounting.engine.tables import BUDGET, tabulated
from privsample.accounting.loss.pair import LossPair
from privsample.accounting.loss.planner import Answer
from privsample.accounting.loss.product import ProductPair

_TRIED, _ORDERS = 60.0, 90.0  # approximate numbers of values evaluated by a search for epsilon, and for an order
_BY_CONTOUR = "by contour integral"
_BY_WAY = {
    "enumeration": "by enumeration",
    "contour integral": _BY_CONTOUR,
    "grid": "on a grid",
    "Rényi conversion": "by its Rényi curve",
    "basic composition": "by adding up epsilons",
}
FROM_TABLE = ", of tabulated curves (the exact ones are too expensive)"


@frozen_value
class Route:
    """One bound of an account: its name, its epsilon in nats at the requested delta, and its kind."""

    name: str
    epsilon: float
    kind: Kind


def routes(bounds: PrivacyBounds, delta: float, *, every: bool = False) -> list[Route]:
    """The routes to epsilon at this delta; with `every` also those that are never the smallest."""
    bounds = affordable(bounds)
    if bounds.parts:
        by_part = [routes(part, delta, every=every) for part in bounds.parts]
        return max(by_part, key=lambda found: min(route.epsilon for route in found))
    pure = bounds.pure_epsilon if delta >= bounds.infinity_mass else np.inf
    listed = bool(bounds.curve_bounds) and not bounds.pairs
    found = [Route(name="pure guarantee", epsilon=pure, kind="upper bound" if listed else "exact")]
    if bounds.pairs and delta > bounds.infinity_mass:
        epsilon, answer = _least_epsilon(bounds.pairs, float(np.log(delta)))
        name, kind = bounds.curve_name, bounds.kind("epsilon")
        if name == COMPOSED:  # families, which give no answer of their own, are composed by contour integrals
            name += ", " + (_BY_CONTOUR if answer is None else _BY_WAY[answer.way])
        if answer is not None and not answer.is_exact:
            kind = "upper bound"
        found.append(Route(name=_route_name(name, from_table=bounds.from_table), epsilon=epsilon, kind=kind))
    if every or not bounds.pairs or not bounds.curve_is_least:
        further = _further_routes(bounds, delta)
        found += [Route(name=name, epsilon=epsilon, kind="upper bound") for name, epsilon in further.items()]
    return found


def affordable(bounds: PrivacyBounds) -> PrivacyBounds:
    """The bounds with a table in place of each curve that is too expensive for a search for epsilon.

    A product on a grid is excluded: it is composed once, and its members are affordable already.
    """
    if "affordable" not in bounds.memo:
        curve = sum(pair.curve_cost for pair in bounds.pairs if not isinstance(pair, ProductPair))
        if curve * _TRIED > BUDGET:
            bounds.memo["affordable"] = tabulated(bounds)
        elif bounds.renyi_cost * _ORDERS * len(views.listed_renyi(bounds)) > BUDGET:
            renyi = tabulated(bounds).renyi
            listed = (RenyiBound(name=_route_name(views.BY_ORDER, from_table=True), renyi=renyi),)
            bounds.memo["affordable"] = replace(
                bounds, renyi=renyi, renyi_bounds=listed, renyi_tables=(), own_renyi_cost=1.0, listed_renyi_cost=None
            )
        else:
            bounds.memo["affordable"] = bounds
    found: PrivacyBounds = bounds.memo["affordable"]
    return found


def _route_name(name: str, *, from_table: bool) -> str:
    """The name of a route; it states if a table makes the route looser."""
    return name + FROM_TABLE if from_table and not name.endswith(FROM_TABLE) else name


def _further_routes(bounds: PrivacyBounds, delta: float) -> dict[str, float]:
    """Epsilon by each named curve bound, Rényi bound and Rényi table."""
    found: dict[str, float] = {}
    if delta > 0.0:
        goal = float(np.log(delta))
        for bound in bounds.curve_bounds:
            name = _route_name(bound.name, from_table=bounds.tabulated)
            found[name] = epsilon_of_curve(lambda e, bound=bound: bound.log_delta(e, goal), goal)  # type: ignore[misc]
    if delta > bounds.infinity_mass:
        # Delta conditional on finite loss: the Rényi curve holds on that event, and the infinity mass adds to delta.
        conditional = float(np.log(delta - bounds.infinity_mass) - np.log1p(-bounds.infinity_mass))
        for renyi in views.listed_renyi(bounds):
            found[_route_name(renyi.name, from_table=bounds.tabulated)] = epsilon_from_renyi(
                renyi.renyi, bounds.order_limit, conditional
            )
        for table in bounds.renyi_tables:
            found[_route_name(table.name, from_table=bounds.tabulated)] = max(
                float(epsilon_at(*table.table(), conditional).min()), 0.0
            )
    return found


def _least_epsilon(pairs: Sequence[LossPair], goal: float) -> tuple[float, Answer | None]:
    """The smallest epsilon >= 0 at which the privacy curve of every pair is at most e^goal.

    With the answer of the pair that decides, if that is a composition.
    """
    least, answer = 0.0, None
    for pair in pairs:  # usually the first pair determines epsilon, and one value of each other pair confirms it
        if least == 0.0 or (least < np.inf and not pair.log_delta(np.array([least]))[0] <= goal):
            found = pair.answer(goal) if isinstance(pair, ProductPair) else None
            epsilon = pair.least_epsilon(goal) if found is None else found.epsilon
            if not epsilon < least:  # NaN is not lost
                least, answer = epsilon, found
    return least, answer
