"""Bounds of accounts put together: one after the other on the same records, or side by side on parts of them.

Source: Mironov 2017, Proposition 1 (Rényi curves add); Dong, Roth and Su 2022, Corollary 3.3 (Gaussian pairs); Zhu,
Dong and Wang 2022, Proposition 10 and Theorem 9 (dominating pairs multiply); McSherry 2009, Theorem 4 (parallel
composition). Proofs: docs/notes/composition.md.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import weighted_sum_up
from privsample.accounting.engine.bounds import VIEWS, PrivacyBounds, View
from privsample.accounting.engine.envelope import BoundsEnvelope
from privsample.accounting.engine.tables import BUDGET, TabulatedPair, within_budget
from privsample.accounting.loss.pair import Envelope, LossPair, SmoothPair
from privsample.accounting.loss.product import ProductPair

Members = Sequence[tuple[PrivacyBounds, int]]
_ORDERS = 90.0  # that a search for the best order asks for, about
_DISCRETIZED = 1300.0  # values that a grid asks of an expensive pair, about
_ULP = float(np.finfo(np.float64).eps)


def compose(members: Members) -> PrivacyBounds:
    """Bounds of releases from the same records, each member so many times.

    A repeated member is as exact as one, except on a lattice; of several members each may be worst for other
    neighbours.
    """
    if len(members) == 1 and members[0][1] == 1:
        return members[0][0]
    groups, closed_form = _directions(members)
    pairs = [pair for group in groups for pair in group]
    exact: frozenset[View] = frozenset()
    if len(members) == 1:
        exact = members[0][0].exact & (VIEWS if closed_form else frozenset({"rdp"}))
    numerical = any(isinstance(pair, (ProductPair, Envelope)) for pair in pairs)
    return PrivacyBounds(
        directions=groups,
        renyi=lambda orders: _sum_of_curves(members, orders),
        order_limit=min(bounds.order_limit for bounds, _ in members),
        infinity_mass=_infinity_mass(members),
        pure_epsilon=weighted_sum_up((bounds.pure_epsilon, times) for bounds, times in members),
        zcdp=weighted_sum_up((bounds.zcdp, times) for bounds, times in members),
        exact=exact,
        own_renyi_cost=sum(bounds.renyi_cost for bounds, _ in members),
        tabulated_renyi=lambda orders: _sum_of_curves(_by_tables(members), orders),
        tabulated_renyi_cost=sum(_by_table_cost(members)),
        tabulated=any(bounds.tabulated for bounds, _ in members),
        # an envelope's Rényi curve, which is exact, may compose to less than its privacy curve does
        curve_is_least=bool(groups) and not any(pair.joint for pair in pairs),
        inverts_exactly=closed_form or not groups,
        curve_name=_name(closed_form=closed_form) if numerical else "privacy curve",
    )


def _infinity_mass(members: Members) -> float:
    with np.errstate(divide="ignore"):  # one, which a long composition rounds to
        log_finite = sum(times * np.log1p(-bounds.infinity_mass) for bounds, times in members)
    return min(float(-np.expm1(log_finite)) * (1.0 + 8 * _ULP), 1.0)  # rounded up


def _name(*, closed_form: bool) -> str:
    return f"composed loss, {'by contour integral' if closed_form else 'on a lattice'}"


def _sum_of_curves(members: Members, orders: FloatArray) -> FloatArray:
    """Rounded up: a product and a sum lose at most half a unit in the last place; of one, its own margin covers it."""
    total = sum((times * bounds.renyi(orders) for bounds, times in members), start=np.zeros_like(orders))
    return total * (1.0 + (len(members) - 1) * 2 * _ULP)


def _by_tables(members: Members) -> Members:
    """The members, each of which costs more than its part of the budget as a table."""
    return [(within_budget(bounds, renyi=_ORDERS * len(members)), times) for bounds, times in members]


def _by_table_cost(members: Members) -> Iterator[float]:
    """Of one value of each member's curve, once those that cost more than their part are tables."""
    most = BUDGET / (_ORDERS * len(members))
    return (bounds.renyi_cost if bounds.renyi_cost <= most else 1.0 for bounds, _ in members)


def _directions(members: Members) -> tuple[tuple[tuple[LossPair, ...], ...], bool]:
    """Products, one group for each direction, and whether all are in closed form; none where a Rényi curve rules.

    Two members with several pairs, even equal ones, may be worst for opposite neighbours: their pairs do not
    compose one by one, so each is first dominated by one pair, in each direction that is told apart. Where only one
    member has several pairs, and is charged once, the others' single pairs join each of them.
    """
    if not all(bounds.pairs and bounds.composes_by_pairs for bounds, _ in members):
        return (), False
    width = max(len(bounds.directions) for bounds, _ in members)
    several = [place for place, (bounds, _) in enumerate(members) if _single(bounds, 0) is None]
    if width == 1 and [members[place][1] for place in several] == [1]:
        one, others = members[several[0]][0], [*members[: several[0]], *members[several[0] + 1 :]]
        if (joined := _joined(one.pairs, [_member(*entry, 0) for entry in others])) is not None:
            return (joined,), True
    sides = [_affordable([_member(*entry, side) for entry in members]) for side in range(width)]
    products = [_product(side) for side in sides]
    return tuple((product.simplified,) for product in products), all(product.smooth for product in products)


def _joined(pairs: tuple[LossPair, ...], others: list[tuple[LossPair, int]]) -> tuple[LossPair, ...] | None:
    """Each pair with all others, where every part is smooth; None otherwise."""
    if not all(_smooth(pair) for pair, _ in others):
        return None
    found: list[LossPair] = []
    for pair in pairs:
        product: LossPair | None = None
        if isinstance(pair, Envelope):
            product = pair.product(others)
        elif _smooth(pair):
            product = _product([(pair, 1), *others]).simplified
        if product is None:
            return None
        found.append(product)
    return tuple(found)


def _smooth(pair: LossPair) -> bool:
    return all(isinstance(part, SmoothPair) for part, _ in ProductPair.of(pair, 1).members)


def _single(bounds: PrivacyBounds, side: int) -> LossPair | None:
    """The pair that stands for the account alone in this direction, if there is one that is no envelope."""
    group = bounds.directions[min(side, len(bounds.directions) - 1)]
    return group[0] if len(group) == 1 and not isinstance(group[0], Envelope) else None


def _member(bounds: PrivacyBounds, times: int, side: int) -> tuple[LossPair, int]:
    """The account's one pair in this direction, or one that dominates its releases, each by itself."""
    if (pair := _single(bounds, side)) is not None:
        return pair, times
    each, count = bounds.per_release or (bounds, 1)
    return BoundsEnvelope(bounds=each), times * count


def _affordable(members: list[tuple[LossPair, int]]) -> list[tuple[LossPair, int]]:
    """The members, the most expensive ones as tables until a grid, which asks each for many values, is affordable."""
    while True:
        costs = [_DISCRETIZED * pair.curve_cost if pair.dear else 0.0 for pair, _ in members]
        if sum(costs) <= BUDGET or _product(members).smooth:
            return members
        worst = int(np.argmax(costs))
        pair, times = members[worst]
        parts = ProductPair.of(pair, times).members
        tables = [(TabulatedPair(pair=part) if part.dear else part, own) for part, own in parts]
        members = [*members[:worst], *tables, *members[worst + 1 :]]


def _product(members: Iterable[tuple[LossPair, int]]) -> ProductPair:
    products = [ProductPair.of(pair, times).members for pair, times in members]
    return ProductPair(members=tuple(itertools.chain(*products)))


def _undominated(pairs: Sequence[LossPair]) -> tuple[LossPair, ...]:
    """The pairs without those that another one dominates."""
    kept: list[LossPair] = []
    for pair in pairs:
        if not any(other.dominates(pair) for other in kept):
            kept = [*(other for other in kept if not pair.dominates(other)), pair]
    return tuple(kept)


def side_by_side(parts: Sequence[PrivacyBounds]) -> PrivacyBounds:
    """Bounds of releases from disjoint parts of the records: the largest of the parts' in every view."""
    found = [part.pairs if not any(isinstance(pair, Envelope) for pair in part.pairs) else () for part in parts]
    listed = tuple(dict.fromkeys(pair for pairs in found for pair in pairs)) if all(found) else ()
    pairs = _undominated([pair for pair in listed if pair.max_loss > 0.0] or listed[:1])  # zero loss: any dominates

    def renyi(orders: FloatArray) -> FloatArray:
        result: FloatArray = np.max([part.renyi(orders) for part in parts], axis=0)
        return result

    return PrivacyBounds(
        directions=(pairs,) if pairs else (),
        renyi=renyi,
        order_limit=min(part.order_limit for part in parts),
        infinity_mass=max(part.infinity_mass for part in parts),
        pure_epsilon=max(part.pure_epsilon for part in parts),
        zcdp=max(part.zcdp for part in parts),
        exact=frozenset.intersection(*(part.exact for part in parts)),
        curve_is_least=bool(pairs),
        own_renyi_cost=sum(part.renyi_cost for part in parts),
        tabulated=any(part.tabulated for part in parts),
        parts=tuple(parts),
    )
