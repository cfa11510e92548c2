"""What all accounts that are stated as finite tables have in common: which pair bounds which order of neighbours."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from privsample._checks import positive_integer
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Group, SizeFreeAccountant
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.alternatives import one_of_pairs
from privsample.accounting.loss.pair import DiscretePair, worst_renyi
from privsample.accounting.stated.exact import Masses, envelope, swapped, table_of
from privsample.accounting.stated.finite import (
    beside_infinity,
    chained,
    finite_pair,
    infinity_mass,
    largest_finite_loss,
)
from privsample.relations import AddRemove, Relation, ReplaceOne

STATED = frozenset({Assumption.STATED})
EXACT = 4096  # outcomes up to which tables are kept in exact arithmetic


def stated_bounds(first: Sequence[DiscretePair], second: Sequence[DiscretePair], *, ordered: bool) -> PrivacyBounds:
    """The bounds by the pairs of which one bounds neighbours in the first order, and those of the second order.

    `second` is empty where `first` holds for both orders. The Rényi curve, conditional on no infinite loss, is never
    above the pure guarantee. Raises: ValueError, where nothing is promised.
    """
    tables = tuple(dict.fromkeys([*first, *second]))
    lost = max(map(infinity_mass, tables))
    if not lost < 1.0:
        raise ValueError("the two distributions have no outcome in common: nothing is promised")
    ways = (one_of_pairs(map(finite_pair, first)), *([one_of_pairs(map(finite_pair, second))] if second else []))
    pure = max(map(largest_finite_loss, tables))
    conditional = tuple(map(beside_infinity, tables))
    return PrivacyBounds.from_pairs(
        *([way] for way in (ways if ordered else (one_of_pairs(ways),))),
        renyi=lambda orders: np.minimum(worst_renyi(conditional, orders), pure),
        order_limit=np.inf,
        infinity_mass=lost,
        pure_epsilon=pure,
    )


def bounds_of_tables(tables: Sequence[Masses], *, ordered: bool, group_size: int) -> PrivacyBounds:
    """The bounds of neighbours of which one order is bounded by one of the tables, the other by its reverse.

    A group is bounded by a chain of the one pair that dominates all tables in both orders: members may be added and
    removed in one group.
    """
    listed = tuple(dict.fromkeys(tables))
    if group_size > 1:
        chain = chained(table_of(envelope(listed)), group_size)
        if not infinity_mass(chain) < 1.0:
            raise ValueError(f"a group of {group_size} has no outcome in common: nothing is promised to it")
        return stated_bounds([chain], [], ordered=False)
    forward = [table_of(table) for table in listed]
    alike = set(listed) == {swapped(table) for table in listed}
    return stated_bounds(forward, [] if alike else [pair.reverse() for pair in forward], ordered=ordered)


def in_order(ordered: object, relation: Relation) -> bool:
    """Whether the two orders of neighbours are told apart; unless said so, under AddRemove. Raises: TypeError."""
    if ordered is None:
        return isinstance(relation, AddRemove)
    if not isinstance(ordered, bool):
        raise TypeError(f"ordered must be True, False or None, got {ordered!r}")
    return ordered


class StatedAccountant(SizeFreeAccountant):
    """An account of finite tables that a user stated. `group_size`: how many units neighbours of the tables differ by.

    A subclass checks its fields, then builds its bounds, which refuses tables that promise nothing. The bounds are
    kept as those of all accounts are: they are no field, and a pickled account computes them anew. A statement holds
    for every number of records: it names none.
    """

    __slots__ = ()
    group_size: int

    @abstractmethod
    def _stated_bounds(self) -> PrivacyBounds:
        """The bounds of the tables. Raises: ValueError, where nothing is promised."""

    def _bounds(self) -> PrivacyBounds:
        """Exact for the worst mechanism that keeps the statement; for groups an upper bound."""
        found = self._stated_bounds()
        return found if self.group_size == 1 else replace(found, exact=frozenset())

    @property
    @abstractmethod
    def _outcomes(self) -> int:
        """The number of outcomes of all tables together."""

    def group(self, size: int) -> Accountant:
        """Groups of `size` units: the worst chain of neighbours, exact given the tables; the general bound if large.

        Source: Dong, Roth and Su 2022, Theorem 2.14.
        """
        size = positive_integer(size=size)
        relation, steps = self.relation.group(size), size * self.group_size
        if isinstance(relation, ReplaceOne):
            steps = min(steps, relation.n)
        if self._outcomes > EXACT or steps * self._outcomes > 4 * EXACT:
            return Accountant.group(self, size)
        return replace(self, group_size=steps, relation=relation)  # type: ignore[type-var]

    def with_relation(self, relation: Relation) -> Accountant:
        """Another relation may not tell the orders apart as this one does: then both are bounded alike."""
        if len(self.bounds.directions) > 1:
            return Group(base=self, size=1, relation=relation)
        return replace(self, relation=relation)  # type: ignore[type-var]
