"""A set of dominating pairs such that each ordered pair of neighbours is dominated by at least one of them."""

import itertools
from collections.abc import Iterable

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value, set_fields
from privsample.accounting.loss.exact import CertifiedCase, CertifiedPair, Claims
from privsample.accounting.loss.pair import LossPair, largest_parts, worst_log_delta, worst_renyi

_BLOCK = 4096  # epsilons evaluated at once


@frozen_value
class OneOfPairs(LossPair):
    """Dominating pairs `members`, at least one of which dominates each ordered pair of neighbours.

    The privacy curve and the Rényi curve are the largest of the members' curves. Compositions keep the members separate
    as long as there are few combinations (`ProductPair.alternatives`), because the composition of the largest curves is
    only an upper bound (stated.md, section 2). Kind: exact.
    """

    members: tuple[LossPair, ...]

    def __post_init__(self) -> None:
        members = tuple(dict.fromkeys(pair for member in self.members for pair in member.alternatives))
        if not members:
            raise ValueError("members must name at least one pair")
        set_fields(self, members=members)

    @property
    def alternatives(self) -> tuple[LossPair, ...]:
        """All members."""
        return self.members

    @property
    def max_divergence(self) -> float:
        """Largest max divergence of the members, in nats."""
        return max(pair.max_divergence for pair in self.members)

    @property
    def gaussian_part(self) -> tuple[float, float]:
        """The largest shift and the largest remaining loss of the members."""
        return largest_parts(self.members)

    @property
    def order_limit(self) -> float:
        """Smallest order limit of the members."""
        return min(pair.order_limit for pair in self.members)

    @property
    def is_envelope(self) -> bool:
        """Always True."""
        return True

    @property
    def is_expensive(self) -> bool:
        """True if a member is expensive."""
        return any(pair.is_expensive for pair in self.members)

    @property
    def curve_cost(self) -> float:
        """Sum of the members' costs."""
        return sum(pair.curve_cost for pair in self.members)

    @property
    def renyi_cost(self) -> float:
        """Sum of the members' costs."""
        return sum(pair.renyi_cost for pair in self.members)

    @property
    def from_table(self) -> bool:
        """True if a member's curve is tabulated."""
        return any(pair.from_table for pair in self.members)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Largest log delta of the members at each epsilon."""
        e = np.asarray(epsilon, dtype=np.float64)
        parts = np.array_split(e.ravel(), e.size // _BLOCK + 1)
        return np.concatenate([worst_log_delta(self.members, part) for part in parts]).reshape(e.shape)

    def approx_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Largest approximate log delta of the members at each epsilon."""
        return np.max([pair.approx_log_delta(np.asarray(epsilon, dtype=np.float64)) for pair in self.members], axis=0)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Largest Rényi divergence of the members at each order."""
        return worst_renyi(self.members, np.asarray(orders, dtype=np.float64))

    def certified_cases(self, claims: Claims) -> tuple[CertifiedCase, ...]:
        """The cases of all members."""
        return tuple(itertools.chain.from_iterable(pair.certified_cases(claims) for pair in self.members))

    def certified_pair(self) -> CertifiedPair:
        """The maximum of the members in both orders."""
        return {"kind": "maximum", "pairs": [pair.certified_pair() for pair in self.members]}

    def least_epsilon(self, log_delta: float) -> float:
        """Largest epsilon of the members at this log delta."""
        return max(pair.least_epsilon(log_delta) for pair in self.members)

    def reverse(self) -> LossPair:
        """The members' reverses; this object itself if they are the same set of pairs."""
        reversed_members = tuple(pair.reverse() for pair in self.members)
        return self if set(reversed_members) == set(self.members) else OneOfPairs(members=reversed_members)


def one_of_pairs(pairs: Iterable[LossPair]) -> LossPair:
    """`OneOfPairs` of the given pairs; the pair itself if all are equal."""
    found = OneOfPairs(members=tuple(pairs))
    return found.members[0] if len(found.members) == 1 else found
