"""Base class of the accounts that are stated as finite tables, and bounds from pairs for each order of neighbours."""

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
    chain,
    finite_pair,
    given_finite_loss,
    infinity_mass,
    largest_finite_loss,
)
from privsample.relations import AddRemove, Relation, ReplaceOne

STATED = frozenset({Assumption.STATED})
EXACT = 4096  # largest number of outcomes for which tables use exact rational arithmetic


def stated_bounds(first: Sequence[DiscretePair], second: Sequence[DiscretePair], *, ordered: bool) -> PrivacyBounds:
    """Bounds from pairs that dominate neighbours in the first order, and pairs for the second order.

    `second` is empty if `first` dominates in both orders. The Rényi curve, conditional on a finite loss, is at most the
    pure epsilon. Raises ValueError if there is no guarantee.
    """
    tables = tuple(dict.fromkeys([*first, *second]))
    lost = max(map(infinity_mass, tables))
    if not lost < 1.0:
        raise ValueError("the two distributions have no outcome in common: there is no guarantee")
    ways = (one_of_pairs(map(finite_pair, first)), *([one_of_pairs(map(finite_pair, second))] if second else []))
    pure = max(map(largest_finite_loss, tables))
    conditional = tuple(map(given_finite_loss, tables))
    return PrivacyBounds.from_pairs(
        *([way] for way in (ways if ordered else (one_of_pairs(ways),))),
        renyi=lambda orders: np.minimum(worst_renyi(conditional, orders), pure),
        order_limit=np.inf,
        infinity_mass=lost,
        pure_epsilon=pure,
    )


def bounds_of_tables(tables: Sequence[Masses], *, ordered: bool, group_size: int) -> PrivacyBounds:
    """Bounds of neighbours of which one order is dominated by one of the tables and the other order by its reverse.

    A group is bounded by a chain of the one pair that dominates all tables in both orders, because members may be added
    and removed in one group (stated.md, section 4).
    """
    listed = tuple(dict.fromkeys(tables))
    if group_size > 1:
        chained = chain(table_of(envelope(listed)), group_size)
        if not infinity_mass(chained) < 1.0:
            raise ValueError(
                f"group_size must be smaller than {group_size}: the output distributions have no outcome in common, "
                "so there is no guarantee"
            )
        return stated_bounds([chained], [], ordered=False)
    forward = [table_of(table) for table in listed]
    alike = set(listed) == {swapped(table) for table in listed}
    return stated_bounds(forward, [] if alike else [pair.reverse() for pair in forward], ordered=ordered)


def check_ordered(ordered: object, relation: Relation) -> bool:
    """Return `ordered` as a bool; None is True under AddRemove and False otherwise. Raises TypeError."""
    if ordered is None:
        return isinstance(relation, AddRemove)
    if not isinstance(ordered, bool):
        raise TypeError(f"ordered must be True, False or None, got {ordered!r}")
    return ordered


class StatedAccountant(SizeFreeAccountant):
    """An account of finite tables that a user stated; `group_size` is the number of units in which neighbours differ.

    A subclass checks its fields and then computes its bounds, which raises an error for tables without a guarantee. The
    guarantee holds for every number of records.
    """

    __slots__ = ()
    group_size: int

    @abstractmethod
    def _stated_bounds(self) -> PrivacyBounds:
        """The bounds of the tables. Raises ValueError if there is no guarantee."""

    def _bounds(self) -> PrivacyBounds:
        """Bounds that are exact for the worst mechanism with these tables; an upper bound for groups."""
        found = self._stated_bounds()
        return found if self.group_size == 1 else replace(found, exact=frozenset())

    @property
    @abstractmethod
    def _outcomes(self) -> int:
        """The number of outcomes of all tables together."""

    def group(self, size: int) -> Accountant:
        """The guarantee for groups: the worst chain of neighbours, or the general bound if the tables are large.

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
        """The same tables under another relation.

        The other relation may not determine the order of neighbours; then one bound is used for both orders.
        """
        if len(self.bounds.directions) > 1:
            return Group(base=self, size=1, relation=relation)
        return replace(self, relation=relation)  # type: ignore[type-var]
