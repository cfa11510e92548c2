"""Privacy bounds of sequential composition (same records) and of parallel composition (disjoint parts).

Mironov 2017, Proposition 1 (Rényi curves add up); Dong, Roth and Su 2022, Corollary 3.3 (Gaussian pairs); Zhu, Dong and
Wang 2022, Theorem 9 and Proposition 10 (dominating pairs multiply); McSherry 2009, Theorem 4 (parallel composition).
Proofs: composition.md, sections 1 and 5; grid.md, section 7.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import product_up, weighted_sum_up
from privsample.accounting.engine.bounds import COMPOSED, VIEWS, PrivacyBounds, View
from privsample.accounting.engine.envelope import BoundsEnvelope
from privsample.accounting.engine.tables import BUDGET, TabulatedPair, within_budget
from privsample.accounting.loss.failure import FailurePair
from privsample.accounting.loss.pair import Envelope, LossPair, SmoothPair
from privsample.accounting.loss.product import ProductPair

Members = Sequence[tuple[PrivacyBounds, int]]
_ORDERS = 90.0  # approximate number of orders evaluated by a search for the best order
_DISCRETIZED = 1300.0  # approximate number of values of an expensive pair that one grid needs
_ULP = float(np.finfo(np.float64).eps)


def compose(members: Members) -> PrivacyBounds:
    """Bounds of the sequential composition of members, each with its multiplicity.

    The composition of one repeated member is exact in the views in which the member is, except where it is computed on
    a grid. Several members may be worst for different neighbours, so that their composition is an upper bound.
    """
    members = [entry for entry in members if not _is_constant(entry[0])] or members[:1]
    if len(members) == 1 and (members[0][1] == 1 or _is_constant(members[0][0])):
        return members[0][0]
    groups, closed_form = _directions(members)
    pairs = [pair for group in groups for pair in group]
    exact: frozenset[View] = frozenset()
    if len(members) == 1:
        exact = members[0][0].exact & (VIEWS if closed_form else frozenset({"rdp"}))
    numerical = any(isinstance(_given_no_failure(pair), (ProductPair, Envelope)) for pair in pairs)
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
        # The composed Rényi curve of an envelope may be tighter than its composed privacy curve (grid.md, section 7).
        curve_is_least=bool(groups) and not any(pair.is_envelope for pair in pairs),
        inverts_exactly=closed_form or not groups,
        curve_name=COMPOSED if numerical else "privacy curve",
    )


def _is_constant(bounds: PrivacyBounds) -> bool:
    """True if the privacy loss is known to be zero, so that the release adds nothing to a composition."""
    return bounds.pure_epsilon == 0.0 and bounds.infinity_mass == 0.0


def _infinity_mass(members: Members) -> float:
    """1 - product of (1 - infinity mass), rounded up; through logarithms, so that small masses do not cancel."""
    with np.errstate(divide="ignore"):  # log 0 for a mass of 1
        log_finite = sum(times * np.log1p(-bounds.infinity_mass) for bounds, times in members if bounds.infinity_mass)
    return min(0.0 - float(np.expm1(log_finite)) * (1.0 + 8 * _ULP), 1.0)  # rounded up


def _sum_of_curves(members: Members, orders: FloatArray) -> FloatArray:
    """Sum of the members' Rényi curves, rounded up.

    Each product is rounded up, and each sum has a rounding error of at most half an ulp.
    """
    total = sum(
        (product_up(float(times), bounds.renyi(orders)) for bounds, times in members), start=np.zeros_like(orders)
    )
    return total * (1.0 + (len(members) - 1) * 2 * _ULP)


def _by_tables(members: Members) -> Members:
    """The members, with a table in place of each that costs more than its part of the budget."""
    return [(within_budget(bounds, renyi=_ORDERS * len(members)), times) for bounds, times in members]


def _by_table_cost(members: Members) -> Iterator[float]:
    """Cost of one value of each member's Rényi curve after `_by_tables`."""
    most = BUDGET / (_ORDERS * len(members))
    return (bounds.renyi_cost if bounds.renyi_cost <= most else 1.0 for bounds, _ in members)


def _given_no_failure(pair: LossPair) -> LossPair:
    """The pair conditional on no failure."""
    return pair.base if isinstance(pair, FailurePair) else pair


def _directions(members: Members) -> tuple[tuple[tuple[LossPair, ...], ...], bool]:
    """`_products` conditional on no failure, each with the probability that some member fails.

    Failures of different members are independent, and the composition reveals nothing more if any of them happens.
    """
    failing = [
        all(isinstance(pair, FailurePair) for pair in bounds.pairs) and bool(bounds.pairs) for bounds, _ in members
    ]
    if not any(failing):
        return _products(members)
    groups, closed_form = _products(
        [
            (_bounds_given_no_failure(bounds) if fails else bounds, times)
            for fails, (bounds, times) in zip(failing, members, strict=True)
        ]
    )
    mass = _infinity_mass([member for fails, member in zip(failing, members, strict=True) if fails])
    return tuple(tuple(FailurePair(base=pair, mass=mass) for pair in group) for group in groups), closed_form


def _bounds_given_no_failure(bounds: PrivacyBounds) -> PrivacyBounds:
    """Bounds on the loss of a member all of whose pairs may fail, conditional on no failure."""
    directions = tuple(tuple(map(_given_no_failure, group)) for group in bounds.directions)
    return replace(bounds, directions=directions, infinity_mass=0.0, per_release=None)


def _products(members: Members) -> tuple[tuple[tuple[LossPair, ...], ...], bool]:
    """Product pairs, one group for each direction, and whether all are exact by a contour integral or a closed form.

    Two members with several pairs each, even equal ones, may be worst for opposite neighbours, so their pairs must not
    be multiplied one by one. Each member is therefore first dominated by one pair in each direction (grid.md, section
    7). If only one member has several pairs and a multiplicity of 1, each of its pairs is multiplied with the single
    pairs of the others. The result is empty if a member has no pairs or composes by its Rényi curve only.
    """
    if not all(bounds.pairs and bounds.composes_by_pairs for bounds, _ in members):
        return (), False
    width = max(len(bounds.directions) for bounds, _ in members)
    several = [place for place, (bounds, _) in enumerate(members) if _single(bounds, 0) is None]
    if width == 1 and [members[place][1] for place in several] == [1]:
        one, others = members[several[0]][0], [*members[: several[0]], *members[several[0] + 1 :]]
        if (found := _product_of_each(one.pairs, [_pair_of_member(*entry, 0) for entry in others])) is not None:
            return (found,), True
    products = [
        _product(_affordable([_pair_of_member(*entry, direction) for entry in members])) for direction in range(width)
    ]
    return tuple((product.simplified,) for product in products), all(product.is_exact for product in products)


def _product_of_each(pairs: tuple[LossPair, ...], others: list[tuple[LossPair, int]]) -> tuple[LossPair, ...] | None:
    """The product of each pair with all others if every factor is smooth, otherwise None."""
    if not all(_is_smooth(pair) for pair, _ in others):
        return None
    found: list[LossPair] = []
    for pair in pairs:
        product: LossPair | None = None
        if isinstance(pair, Envelope):
            product = pair.product(others)
        elif _is_smooth(pair):
            product = _product([(pair, 1), *others]).simplified
        if product is None:
            return None
        found.append(product)
    return tuple(found)


def _is_smooth(pair: LossPair) -> bool:
    """True if every factor of the pair has a known moment generating function."""
    return all(isinstance(part, SmoothPair) for part, _ in ProductPair.of(pair, 1).members)


def _single(bounds: PrivacyBounds, direction: int) -> LossPair | None:
    """The only pair of an account in one direction (0 or 1); None if there are several or it is an envelope."""
    group = bounds.directions[min(direction, len(bounds.directions) - 1)]
    return group[0] if len(group) == 1 and not isinstance(group[0], Envelope) else None


def _pair_of_member(bounds: PrivacyBounds, times: int, direction: int) -> tuple[LossPair, int]:
    """The account's only pair in one direction, or an envelope of one release, with the multiplicity."""
    if (pair := _single(bounds, direction)) is not None:
        return pair, times
    release, count = bounds.per_release or (bounds, 1)
    return BoundsEnvelope(bounds=release), times * count


def _affordable(members: list[tuple[LossPair, int]]) -> list[tuple[LossPair, int]]:
    """The members, with tables in place of the most expensive ones until one grid of all members is affordable."""
    while True:
        costs = [_DISCRETIZED * pair.curve_cost if pair.is_expensive else 0.0 for pair, _ in members]
        if sum(costs) <= BUDGET or _product(members).smooth:
            return members
        worst = int(np.argmax(costs))
        pair, times = members[worst]
        parts = ProductPair.of(pair, times).members
        tables = [(TabulatedPair(pair=part) if part.is_expensive else part, own) for part, own in parts]
        members = [*members[:worst], *tables, *members[worst + 1 :]]


def _product(members: Iterable[tuple[LossPair, int]]) -> ProductPair:
    """The product of all members; products among them are flattened."""
    products = [ProductPair.of(pair, times).members for pair, times in members]
    return ProductPair(members=tuple(itertools.chain(*products)))


def _undominated(pairs: Sequence[LossPair]) -> tuple[LossPair, ...]:
    """The pairs that no other pair is known to dominate."""
    kept: list[LossPair] = []
    for pair in pairs:
        if not any(other.dominates(pair) for other in kept):
            kept = [*(other for other in kept if not pair.dominates(other)), pair]
    return tuple(kept)


def compose_parallel(parts: Sequence[PrivacyBounds]) -> PrivacyBounds:
    """Bounds of parallel composition: in every view the largest of the parts' bounds (composition.md, section 1)."""
    found = [part.pairs if not any(isinstance(pair, Envelope) for pair in part.pairs) else () for part in parts]
    listed = tuple(dict.fromkeys(pair for pairs in found for pair in pairs)) if all(found) else ()
    # A pair of zero loss is dominated by every pair; it is kept only if there is no other.
    pairs = _undominated([pair for pair in listed if pair.max_divergence > 0.0] or listed[:1])

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
