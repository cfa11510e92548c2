"""What all accounts that are stated as finite tables have in common: which pair bounds which order of neighbours."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from privsample._checks import FloatArray, positive_integer
from privsample._value import value
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Kind, View
from privsample.accounting.composition.alternatives import one_of
from privsample.accounting.group import Group
from privsample.accounting.loss import DiscretePair, LossPair, worst_renyi
from privsample.accounting.stated.exact import Masses, envelope, swapped, table_of
from privsample.accounting.stated.finite import (
    beside_infinity,
    chained,
    finite_pair,
    infinity_mass,
    largest_finite_loss,
)
from privsample.accounting.subsampling.subsampled import over_sizes
from privsample.relations import AddRemove, Relation, ReplaceOne

STATED = frozenset({Assumption.STATED})
EXACT = 4096  # outcomes up to which tables are kept in exact arithmetic


@value
class StatedBounds:
    """What the stated pairs imply: dominating pairs by direction, and what holds beside infinite losses.

    directions: as `Accountant.directions`; infinity_mass: the largest of all pairs; pure_epsilon: the largest finite
    loss; conditional: pairs whose Renyi curves hold conditional on no infinite loss.
    """

    directions: tuple[tuple[LossPair, ...], ...]
    infinity_mass: float
    pure_epsilon: float
    conditional: tuple[LossPair, ...]

    @staticmethod
    def of(first: Sequence[DiscretePair], second: Sequence[DiscretePair], *, ordered: bool) -> "StatedBounds":
        """From the pairs of which one bounds neighbours in the first order, and those of the second order.

        `second` is empty where `first` holds for both orders. Raises: ValueError, where nothing is promised.
        """
        tables = tuple(dict.fromkeys([*first, *second]))
        lost = max(map(infinity_mass, tables))
        if not lost < 1.0:
            raise ValueError("the two distributions have no outcome in common: nothing is promised")
        ways = (one_of(map(finite_pair, first)), *([one_of(map(finite_pair, second))] if second else []))
        return StatedBounds(
            directions=tuple((way,) for way in ways) if ordered else ((one_of(ways),),),
            infinity_mass=lost,
            pure_epsilon=max(map(largest_finite_loss, tables)),
            conditional=tuple(map(beside_infinity, tables)),
        )


def bounds_of_tables(tables: Sequence[Masses], *, ordered: bool, group_size: int) -> StatedBounds:
    """The bounds of neighbours of which one order is bounded by one of the tables, the other by its reverse.

    A group is bounded by a chain of the one pair that dominates all tables in both orders: members may be added and
    removed in one group.
    """
    listed = tuple(dict.fromkeys(tables))
    if group_size > 1:
        chain = chained(table_of(envelope(listed)), group_size)
        if not infinity_mass(chain) < 1.0:
            raise ValueError(f"a group of {group_size} has no outcome in common: nothing is promised to it")
        return StatedBounds.of([chain], [], ordered=False)
    forward = [table_of(table) for table in listed]
    alike = set(listed) == {swapped(table) for table in listed}
    return StatedBounds.of(forward, [] if alike else [pair.reverse() for pair in forward], ordered=ordered)


def in_order(ordered: object, relation: Relation) -> bool:
    """Whether the two orders of neighbours are told apart; unless said so, under AddRemove. Raises: TypeError."""
    if ordered is None:
        return isinstance(relation, AddRemove)
    if not isinstance(ordered, bool):
        raise TypeError(f"ordered must be True, False or None, got {ordered!r}")
    return ordered


class StatedAccountant(Accountant):
    """An account of finite tables that a user stated. `group_size`: how many units neighbours of the tables differ by.

    A subclass computes its StatedBounds once, from its fields, and keeps them in `_held`.
    """

    __slots__ = ()
    group_size: int
    _held: StatedBounds

    @property
    def directions(self) -> tuple[tuple[LossPair, ...], ...]:
        """One group for each order of the neighbours, or one for both."""
        return self._held.directions

    @property
    def pairs(self) -> tuple[LossPair, ...]:
        """Of all directions."""
        return tuple(pair for group in self._held.directions for pair in group)

    @property
    def failure(self) -> float:
        """The largest mass of infinite privacy loss."""
        return self._held.infinity_mass

    @property
    def max_loss(self) -> float:
        """The largest finite loss."""
        return self._held.pure_epsilon

    @property
    def _renyi_limit(self) -> float:
        return np.inf

    def _renyi(self, orders: FloatArray) -> FloatArray:
        """The largest of the conditional pairs', and never above the pure guarantee."""
        return np.minimum(worst_renyi(self._held.conditional, orders), self.max_loss)

    def _kind(self, view: View) -> Kind:
        """Exact for the worst mechanism that keeps the statement; a Renyi curve for groups is an upper bound."""
        return "upper bound" if self.group_size > 1 else Accountant._kind(self, view)

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

    def _under(self, relation: Relation) -> Accountant:  # type: ignore[override]
        """Another relation may not tell the orders apart as this one does: then both are bounded alike."""
        if len(self.directions) > 1:
            return Group(base=self, size=1, relation=relation)
        return replace(self, relation=relation)  # type: ignore[type-var]


@over_sizes.register
def _(account: StatedAccountant, low: int, high: int) -> StatedAccountant:
    """A statement holds for every number of records: it names none."""
    del low, high
    return account
