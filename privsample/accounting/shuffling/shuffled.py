"""Account of local responses that a shuffler puts in random order (privacy amplification by shuffling)."""

from dataclasses import replace

import numpy as np

from privsample._checks import nonnegative_integer, positive_integer
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Group
from privsample.accounting.engine.bounds import PrivacyBounds, View
from privsample.accounting.loss.alternatives import one_of_pairs
from privsample.accounting.loss.codes import code_distributions_of
from privsample.accounting.loss.pair import LossPair
from privsample.accounting.randomized import RandomizedResponseAccountant
from privsample.accounting.shuffling.blanket import blanket_pair
from privsample.accounting.shuffling.datasets import exact_pair
from privsample.accounting.shuffling.two_outcomes import TwoOutcomePair
from privsample.errors import RelationMismatch
from privsample.relations import Relation, ReplaceOne

_ULP = float(np.finfo(np.float64).eps)
_MOST_PERSONS = 1000  # largest number of persons for all datasets of responses with two outcomes
_MOST_PAIRS = 16  # more pairs of records are replaced by a pair for all responses with the same pure guarantee


@frozen_value
class ShuffledAccountant(Accountant):
    """Local responses in uniformly random order: each of n persons gives one response, and a shuffler mixes them.

    Only the number of responses of each kind can be seen. The relation is ReplaceOne(n).

    - If the account of the base knows the distributions of a response (`RandomizedResponseAccountant`, or a
      `KernelAccountant` of it) and there are few datasets, the account is exact: all datasets are enumerated.
    - For two outcomes and up to 1000 persons the privacy curve is exact: the number of ones has a closed recurrence.
    - Otherwise each of the other persons' responses is decomposed into a part that does not depend on the record, the
      blanket, and the rest, which is revealed. The account is the exact one of this decomposition.
    - For any other base with a pure guarantee, the account is that of the worst response with this guarantee.

    Parameters
    ----------
    base : Accountant
        The account of one response, under ReplaceOne(1) or ReplaceOne(n): a pure guarantee, without infinity mass.
    n : int, optional
        Number of persons, >= 1. None takes the n of the base's relation.
    assumptions : frozenset of Assumption, default frozenset()
        Assumptions of the guarantee. Those of the base are added.

    Raises
    ------
    TypeError
        If `base` is not an account.
    RelationMismatch
        If the base is not under ReplaceOne about one record, or its n is neither 1 nor `n`.
    ValueError
        If the base has no pure guarantee.

    Notes
    -----
    Source: Balle, Bell, Gascón and Nissim 2019, Lemma 5.3 (blanket); Feldman, McMillan and Talwar 2023 (any response
    with a pure guarantee); docs/notes/shuffling.md.

    Kind: exact for few datasets, exact privacy curve for two outcomes of up to 1000 persons, otherwise upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> local = ps.RandomizedResponseAccountant(log_odds=2.0, categories=4, relation=ps.ReplaceOne(n=1000))
    >>> account = ps.ShuffledAccountant(base=local)
    >>> round(float(local.epsilon(1e-6)), 3), round(float(account.epsilon(1e-6)), 3)
    (2.0, 0.352)
    """

    base: Accountant
    n: int | None = None
    assumptions: frozenset[Assumption] = frozenset()

    def __post_init__(self) -> None:
        if not isinstance(self.base, Accountant):
            raise TypeError(f"base must be an account, got {type(self.base).__name__}; use mechanism.accountant")
        own = self.base.relation
        if not isinstance(own, ReplaceOne) or own.members > 1:
            raise RelationMismatch(
                f"base must be the account of one person's response under ReplaceOne, got a base under {own}"
            )
        n = own.n if self.n is None else positive_integer(n=self.n)
        if own.n not in {1, n}:
            raise RelationMismatch(f"base must be under ReplaceOne(1) or ReplaceOne({n}), got a base under {own}")
        if not (np.isfinite(self.base.pure_epsilon) and self.base.infinity_mass == 0.0):
            raise ValueError(
                "base must have a pure guarantee: without one, the response of a single person may reveal the record, "
                "and shuffling does not hide it"
            )
        set_fields(self, n=n, assumptions=self.assumptions | self.base.assumptions)

    @property
    def relation(self) -> Relation:  # type: ignore[override]
        """ReplaceOne(n), with the unit of the base."""
        assert self.n is not None
        return replace(self._local, n=self.n)

    @property
    def _local(self) -> ReplaceOne:
        assert isinstance(self.base.relation, ReplaceOne)
        return self.base.relation

    @property
    def source(self) -> str:
        """The theorem, and the source of the base."""
        return f"Balle, Bell, Gascón and Nissim 2019, Lemma 5.3; docs/notes/shuffling.md; {self.base.source}"

    def _bounds(self) -> PrivacyBounds:
        """The worst of all datasets, or the pairs of the decomposition; the pure guarantee is that of one response."""
        pure = self.base.pure_epsilon
        exact = self._exact_pair
        if exact is not None:
            return PrivacyBounds.from_pairs([exact], pure_epsilon=pure, exact=self.base.bounds.exact)
        counted = self._counted
        if counted is not None:
            whole = self.base.bounds.exact - {"rdp"} if counted.n == self.n else frozenset[View]()
            return PrivacyBounds.from_pairs([counted], pure_epsilon=pure, exact=whole)
        return PrivacyBounds.from_pairs([one_of_pairs(self._decomposed)], pure_epsilon=pure, exact=frozenset())

    @cached
    def _exact_pair(self) -> LossPair | None:
        assert self.n is not None
        known = code_distributions_of(self.base)
        return None if known is None else exact_pair(known, self.n)

    @cached
    def _counted(self) -> TwoOutcomePair | None:
        """The pair for two outcomes: exact for few persons, and for fewer persons where the decomposition is larger."""
        assert self.n is not None
        known = code_distributions_of(self.base)
        if known is None or known.distributions.shape[1] != 2:
            return None
        ones = known.distributions[:, 1]
        high, low = float(ones.max()), float(ones.min())
        if not 0.0 < low < high < 1.0:
            return None
        largest = max(
            1.0 / (one * (1.0 - one)) for one in (high, low)
        )  # variances of the loss, times n, up to a factor
        ratio = (1.0 / low + 1.0 / (1.0 - high)) / largest
        return (
            None if self.n > ratio * _MOST_PERSONS else TwoOutcomePair(high=high, low=low, n=min(self.n, _MOST_PERSONS))
        )

    @property
    def _decomposed(self) -> tuple[LossPair, ...]:
        """One pair for each ordered pair of records, or one, its own reverse, for all of them."""
        assert self.n is not None
        known = code_distributions_of(self.base)
        if isinstance(self.base, RandomizedResponseAccountant):
            return (_answers(self.base.log_odds, self.base.categories, self.n),)
        if known is None or len(known.exchanged) > _MOST_PAIRS:
            return (_answers(self.base.pure_epsilon, 2, self.n),)
        rows = known.distributions
        slack = _ULP * (rows.shape[1] + 16)
        least = rows.min(axis=0)
        both = np.concatenate([known.exchanged, known.exchanged[:, ::-1]])
        return tuple(blanket_pair(rows[a], rows[b], least, self.n, slack) for a, b in both)

    def with_relation(self, relation: Relation) -> Group:
        """The same curves under another relation, which is not validated; the number of persons is unchanged."""
        return Group(base=self, size=1, relation=relation)

    def for_sizes(self, low: int, high: int) -> "ShuffledAccountant":
        """The account for the smallest number of persons: more responses reveal less about one of them."""
        nonnegative_integer(high=high)
        n = max(nonnegative_integer(low=low), 1)
        return replace(self, base=self.base.with_relation(replace(self._local, n=1)), n=n)


def _answers(log_odds: float, categories: int, n: int) -> LossPair:
    """The pair of two records under randomized response; all other categories are one outcome."""
    true = 1.0 / (1.0 + (categories - 1) * np.exp(-log_odds))
    false = true * np.exp(-log_odds)
    rest = [false * (categories - 2)]
    first, second, blanket = (np.array([*one, *rest]) for one in ((true, false), (false, true), (false, false)))
    slack = 8 * _ULP * (1.0 + log_odds)
    return blanket_pair(first, second, blanket, n, slack)
