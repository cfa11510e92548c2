"""Several dominating pairs of which one applies to each ordered pair of neighbours, without saying which."""

from collections.abc import Iterable

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value, set_fields
from privsample.accounting.loss.pair import LossPair, worst_log_delta, worst_renyi

_BLOCK = 4096  # epsilons that are held at once


@frozen_value
class OneOfPairs(LossPair):
    """Dominating pairs `members`: every ordered pair of neighbours is dominated by one of them.

    Its privacy curve and its Rényi curve are the largest of the members' own. Products keep the members apart as long
    as the choices are few (`ProductPair.alternatives`): a product of the largest curves is an upper bound only.
    Source: docs/notes/stated.md, section 2. Kind: exact.
    """

    members: tuple[LossPair, ...]

    def __post_init__(self) -> None:
        members = tuple(dict.fromkeys(pair for member in self.members for pair in member.alternatives))
        if not members:
            raise ValueError("members must name at least one pair")
        set_fields(self, members=members)

    @property
    def alternatives(self) -> tuple[LossPair, ...]:
        """The members."""
        return self.members

    @property
    def max_divergence(self) -> float:
        """The largest."""
        return max(pair.max_divergence for pair in self.members)

    @property
    def order_limit(self) -> float:
        """The least."""
        return min(pair.order_limit for pair in self.members)

    @property
    def is_envelope(self) -> bool:
        """It stands for several pairs."""
        return True

    @property
    def is_expensive(self) -> bool:
        """Where a member is."""
        return any(pair.is_expensive for pair in self.members)

    @property
    def curve_cost(self) -> float:
        """The sum of the members' costs."""
        return sum(pair.curve_cost for pair in self.members)

    @property
    def renyi_cost(self) -> float:
        """The sum of the members' costs."""
        return sum(pair.renyi_cost for pair in self.members)

    @property
    def from_table(self) -> bool:
        """Where a member is."""
        return any(pair.from_table for pair in self.members)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The largest."""
        e = np.asarray(epsilon, dtype=np.float64)
        parts = np.array_split(e.ravel(), e.size // _BLOCK + 1)
        return np.concatenate([worst_log_delta(self.members, part) for part in parts]).reshape(e.shape)

    def approx_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The largest of the members' drafts."""
        return np.max([pair.approx_log_delta(np.asarray(epsilon, dtype=np.float64)) for pair in self.members], axis=0)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The largest."""
        return worst_renyi(self.members, np.asarray(orders, dtype=np.float64))

    def least_epsilon(self, log_delta: float) -> float:
        """The largest."""
        return max(pair.least_epsilon(log_delta) for pair in self.members)

    def reverse(self) -> LossPair:
        """The members' reverses; itself where each member's reverse is a member."""
        reversed_members = tuple(pair.reverse() for pair in self.members)
        return self if set(reversed_members) == set(self.members) else OneOfPairs(members=reversed_members)


def one_of(pairs: Iterable[LossPair]) -> LossPair:
    """The pair itself where there is only one, else OneOfPairs."""
    found = OneOfPairs(members=tuple(pairs))
    return found.members[0] if len(found.members) == 1 else found
