"""Accounts put together: one after the other on the same records, or side by side on parts of them."""

import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import Self

import numpy as np

from privsample._checks import FloatArray, Real, positive_integer
from privsample._value import put, value
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import (
    Accountant,
    Kind,
    Route,
    View,
    all_assumptions,
    composable,
    same_relation,
    same_units,
)
from privsample.accounting.composition.dominating import DominatingPair
from privsample.accounting.composition.product import ProductPair
from privsample.accounting.loss import LossPair, SmoothPair
from privsample.accounting.posterior.family import BetaFamily
from privsample.errors import RelationMismatch
from privsample.relations import AddRemove, ProfileEdge, Relation, ReplaceOne


@value
class Composed(Accountant):
    """Accounts of releases from the same records, each with how often. Renyi curves add; Gaussian pairs add exactly.

    Valid for mechanisms fixed beforehand and, by Renyi curve, for ones chosen adaptively within fixed curves.
    Source: Mironov 2017, Proposition 1; Dong, Roth and Su 2022, Corollary 3.3 (Gaussian pairs).
    """

    entries: tuple[tuple[Accountant, int], ...]
    assumptions: frozenset[Assumption] = frozenset()

    def __post_init__(self) -> None:
        counts: dict[Accountant, int] = {}
        for account, times in self.entries:
            inner = account.entries if isinstance(account, Composed) else ((account, 1),)
            for member, own in inner:
                counts[member] = counts.get(member, 0) + own * positive_integer(times=times)
        if not counts:
            raise ValueError("entries must name at least one account")
        own_assumptions = [a.assumptions for a, _ in self.entries if isinstance(a, Composed)]
        same_relation(tuple(counts))
        if sum(counts.values()) > 1:
            composable(tuple(counts), self.assumptions)
        union = self.assumptions.union(all_assumptions(tuple(counts)), *own_assumptions)
        put(self, entries=tuple(counts.items()), assumptions=union)

    @property
    def relation(self) -> Relation:  # type: ignore[override]
        """The members' relation."""
        return self.entries[0][0].relation

    @property
    def source(self) -> str:
        """The rule and the members' sources."""
        members = dict.fromkeys(account.source for account, _ in self.entries)
        return "; ".join(["Mironov 2017, Proposition 1 (composition)", *members])

    @property
    def pairs(self) -> tuple[LossPair, ...]:
        """The one member's; else products, one for each direction or for each pair of the one member with several."""
        return self.entries[0][0].pairs if self._once else tuple(pair.simplified for pair in self._products)

    @property
    def directions(self) -> tuple[tuple[LossPair, ...], ...]:
        """The one member's, or one product in each."""
        if self._once:
            return self.entries[0][0].directions
        return tuple((pair,) for pair in self.pairs) if self._width > 1 else tuple(filter(None, (self.pairs,)))

    @property
    def _once(self) -> bool:
        return len(self.entries) == 1 and self.entries[0][1] == 1

    @property
    def _width(self) -> int:
        return max(len(account.directions) for account, _ in self.entries)

    @property
    def _products(self) -> tuple[ProductPair, ...]:
        """None where a member has a Renyi curve only.

        Two members with several pairs, even equal ones, may be worst for opposite neighbours: their pairs do not
        compose one by one, so each is first dominated by one pair, in each direction that is told apart.
        """
        if not all(account._adds_by_curve for account, _ in self.entries):
            return ()
        if (several := self._with_several) is not None:
            others = [_member(*entry, 0) for entry in self.entries if entry[0] != several]
            return tuple(_product([(pair, 1), *others]) for pair in several.pairs)
        return tuple(_product(_member(*entry, side) for entry in self.entries) for side in range(self._width or 1))

    @property
    def _with_several(self) -> Accountant | None:
        """The member with several pairs, if it is the only one, charged once: the others' single pairs join each."""
        several = [(account, times) for account, times in self.entries if _one_pair(account, 0) is None]
        single = self._width == 1 and [times for _, times in several] == [1]
        return several[0][0] if single and several[0][0].pairs and self._smooth else None

    @property
    def _smooth(self) -> bool:
        return all(
            isinstance(part, SmoothPair)
            for account, _ in self.entries
            for pair in account.pairs
            for part, _ in ProductPair.of(pair, 1).members
        )

    @property
    def _curve_is_least(self) -> bool:
        """Not where a member was dominated by one pair: its Renyi curve may compose better than that."""
        return self._has_curve and not any(product.joint for product in self._products)

    @property
    def _one_curve(self) -> bool:
        return self._once or self._in_closed_form or not self._has_curve

    @property
    def _curve_name(self) -> str:
        if self._once or not any(isinstance(pair, ProductPair) for pair in self.pairs):
            return "privacy curve"
        return f"composed loss, {'by contour integral' if self._in_closed_form else 'on a lattice'}"

    @property
    def family(self) -> BetaFamily | None:
        """The one member's that has one, where the pairs are its own with all others'."""
        member = self.entries[0][0] if self._once else self._with_several
        return member.family if member is not None and self.pairs else None

    def _family_curve(self, a: FloatArray, b: FloatArray, step: Real, epsilon: FloatArray) -> FloatArray:
        """Of the product in which the one member has this pair."""
        match self.pairs[0]:
            case ProductPair() as product:
                return product.with_beta(a, b, step, epsilon)
            case _:
                return Accountant._family_curve(self, a, b, step, epsilon)

    @property
    def failure(self) -> float:
        """One minus the probability that no member fails."""
        return float(-np.expm1(sum(times * np.log1p(-account.failure) for account, times in self.entries)))

    @property
    def _renyi_limit(self) -> float:
        return min(account._renyi_limit for account, _ in self.entries)

    @property
    def max_loss(self) -> float:
        """The sum: basic composition."""
        return sum(times * account.max_loss for account, times in self.entries)

    @property
    def zcdp(self) -> float:
        """The sum."""
        return sum(times * account.zcdp for account, times in self.entries)

    def _kind(self, view: View) -> Kind:
        """A repeated member is as exact as one, but on a lattice; several may be worst for different neighbours."""
        if len(self.entries) > 1 or (view != "rdp" and not self._once and not self._in_closed_form):
            return "upper bound"
        return self.entries[0][0].kind(view)

    @property
    def _in_closed_form(self) -> bool:
        """Whether there is a privacy curve and no lattice in it."""
        return bool(self.pairs) and all(pair.smooth for pair in self._products)

    def _renyi(self, orders: FloatArray) -> FloatArray:
        return sum((times * account._renyi(orders) for account, times in self.entries), start=np.zeros_like(orders))

    def group(self, size: int) -> "Composed":
        """Each member's own group guarantee, composed."""
        return replace(self, entries=tuple((account.group(size), times) for account, times in self.entries))

    def _under(self, relation: Relation) -> Self:
        return replace(self, entries=tuple((account._under(relation), times) for account, times in self.entries))


def _one_pair(account: Accountant, side: int) -> LossPair | None:
    """The pair that stands for the account alone in this direction."""
    groups = account.directions
    group = groups[min(side, len(groups) - 1)] if groups else ()
    return group[0] if len(group) == 1 and account.family is None else None


def _member(account: Accountant, times: int, side: int) -> tuple[LossPair, int]:
    """The account's one pair in this direction, or one that dominates its releases, each by itself."""
    if (pair := _one_pair(account, side)) is not None:
        return pair, times
    each, count = account._each
    return DominatingPair(account=each), times * count


def _product(members: Iterable[tuple[LossPair, int]]) -> ProductPair:
    products = [ProductPair.of(pair, times).members for pair, times in members]
    return ProductPair(members=tuple(itertools.chain(*products)))


@value
class Parallel(Accountant):
    """Accounts of releases from disjoint parts of the records: the worst of the parts at every order and epsilon.

    Under AddRemove a record lies in one part, wherever its contents put it. Under ReplaceOne the parts must be fixed by
    public positions (assumption FIXED_PARTS); a record that can move between parts touches two: account for that
    with AddRemove parts and `.to(ReplaceOne(n=...))`: the worse of two parts added and one part's group of two.
    Under ProfileEdge the parts come from independent choices of a profile (assumption INDEPENDENT_PROFILES;
    Geumlek 2020, Observation 9). Source: McSherry 2009, Theorem 4; docs/notes/composition.md.
    """

    parts: tuple[Accountant, ...]
    assumptions: frozenset[Assumption] = frozenset()
    moved: bool = False

    def __post_init__(self) -> None:
        flat = [p.parts if isinstance(p, Parallel) and not p.moved else (p,) for p in self.parts]
        parts = tuple(part for group in flat for part in group)
        if not parts:
            raise ValueError("parts must name at least one account")
        if not self.moved and any(getattr(part.relation, "members", 1) > 1 for part in parts):
            raise RelationMismatch(
                "members of a group may lie in several parts: put single accounts side by side, then .group"
            )
        more: frozenset[Assumption] = frozenset()
        if all(isinstance(part.relation, ReplaceOne) for part in parts) and not self.moved:
            more = frozenset({Assumption.FIXED_PARTS})
            units = {str(getattr(part.relation, "unit", "")) for part in parts}
            if len(units) != 1:
                raise RelationMismatch(f"parts must protect one unit, got {sorted(units)}")
        elif isinstance(same_relation(parts), ProfileEdge):
            more = frozenset({Assumption.INDEPENDENT_PROFILES})
        put(self, parts=parts, assumptions=self.assumptions.union(all_assumptions(parts), more))

    @property
    def _kinds(self) -> tuple[Accountant, ...]:
        """The parts that differ."""
        return tuple(dict.fromkeys(self.parts))

    @property
    def relation(self) -> Relation:  # type: ignore[override]
        """The parts' relation; under ReplaceOne their sizes add up."""
        first = self.parts[0].relation
        if isinstance(first, ReplaceOne) and not self.moved:
            sizes = [part.relation.n for part in self.parts if isinstance(part.relation, ReplaceOne)]
            return ReplaceOne(n=sum(sizes), unit=first.unit)
        return first

    @property
    def source(self) -> str:
        """The rule and the parts' sources."""
        members = dict.fromkeys(part.source for part in self.parts)
        return "; ".join(["McSherry 2009, Theorem 4 (parallel composition)", *members])

    @property
    def pairs(self) -> tuple[LossPair, ...]:
        """All parts' pairs, where every part has some."""
        found = [part.pairs if part.family is None else () for part in self._kinds]
        listed = tuple(dict.fromkeys(pair for pairs in found for pair in pairs)) if all(found) else ()
        return tuple(pair for pair in listed if pair.max_loss > 0.0) or listed[:1]  # equal laws: any pair dominates

    @property
    def failure(self) -> float:
        """The worst part's."""
        return max(part.failure for part in self.parts)

    @property
    def _renyi_limit(self) -> float:
        return min(part._renyi_limit for part in self.parts)

    @property
    def max_loss(self) -> float:
        """The worst part's."""
        return max(part.max_loss for part in self.parts)

    @property
    def zcdp(self) -> float:
        """The worst part's."""
        return max(part.zcdp for part in self.parts)

    def _kind(self, view: View) -> Kind:
        """Exact where every part is."""
        return "exact" if all(part.kind(view) == "exact" for part in self.parts) else "upper bound"

    def _renyi(self, orders: FloatArray) -> FloatArray:
        result: FloatArray = np.max([part._renyi(orders) for part in self._kinds], axis=0)
        return result

    def log_delta(self, epsilon: object) -> FloatArray:
        """The worst part's."""
        result: FloatArray = np.max([part.log_delta(epsilon) for part in self._kinds], axis=0)  # type: ignore[arg-type]
        return result[()]

    def _routes(self, delta: float, *, every: bool = False) -> list[Route]:
        """The routes of the part that costs most at this delta."""
        by_part = [part._routes(delta, every=every) for part in self._kinds]
        return max(by_part, key=lambda routes: min(route.epsilon for route in routes))

    def _under(self, relation: Relation) -> Self:
        return replace(self, parts=tuple(part._under(relation) for part in self.parts), moved=True)

    def to(self, relation: Relation) -> Accountant:
        """ReplaceOne(n) from AddRemove: a replaced record leaves one part and enters another, or the same."""
        mine = self.relation
        if not (isinstance(mine, AddRemove) and isinstance(relation, ReplaceOne) and same_units(mine, relation)):
            return Accountant.to(self, relation)
        kinds = self._kinds
        twice = [(part, part) for part in kinds if self.parts.count(part) > 1]
        within = [part.to(relation) for part in kinds]
        between = [(one + other)._under(relation) for one, other in [*itertools.combinations(kinds, 2), *twice]]
        return Parallel(parts=(*within, *between), assumptions=self.assumptions, moved=True)

    def group(self, size: int) -> Accountant:
        """Members of a group may lie in different parts: the general bound."""
        return Accountant.group(self, size)
