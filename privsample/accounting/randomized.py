"""The account of randomized response over any number of categories. Kind: exact."""

from dataclasses import replace

import numpy as np

from privsample._checks import positive, positive_integer
from privsample._value import put, value
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.composition.composed import Composed
from privsample.accounting.loss import DiscretePair, LossPair
from privsample.relations import Relation, ReplaceOne, related


@value
class RandomizedResponseAccountant(Accountant):
    """One record's answer is e^epsilon times as likely to be the truth as any one other category."""

    log_odds: float
    categories: int
    relation: Relation
    assumptions: frozenset[Assumption] = frozenset({Assumption.IDEAL_REALS})

    def __post_init__(self) -> None:
        put(self, relation=related(self.relation))
        categories = positive_integer(categories=self.categories)
        if not categories >= 2:
            raise ValueError(f"categories must be at least 2, got {categories}")
        put(self, log_odds=positive(log_odds=self.log_odds), categories=categories)

    @property
    def source(self) -> str:
        """The mechanism; the curves are those of two laws on three outcomes."""
        return "Warner 1965; Kairouz, Bonawitz and Ramage 2016, section 3 (k-ary)"

    @property
    def pairs(self) -> tuple[LossPair, ...]:
        """Two records that differ: their two categories and, as one outcome, all the others. Its own reverse."""
        others = np.log(self.categories - 1.0)
        log_true = -np.logaddexp(0.0, others - self.log_odds)
        log_false = log_true - self.log_odds
        rest = [np.log(self.categories - 2.0) + log_false] if self.categories > 2 else []
        log_p, log_q = np.array([log_true, log_false, *rest]), np.array([log_false, log_true, *rest])
        loss = np.array([self.log_odds, -self.log_odds, *(0.0 for _ in rest)])
        return (DiscretePair(log_p=log_p, log_q=log_q, loss=loss),)

    def group(self, size: int) -> Accountant:
        """`size` answers change, each by itself: as many releases of one. Kind: exact (docs/notes/composition.md)."""
        size = positive_integer(size=size)
        answers = min(size, self.relation.n) if isinstance(self.relation, ReplaceOne) else size
        each = replace(self, relation=self.relation.group(size))
        return each if answers == 1 else Composed(entries=((each, answers),))
