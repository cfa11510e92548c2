"""Account of randomized response over any number of categories."""

from dataclasses import replace

import numpy as np

from privsample._checks import positive, positive_integer
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Composed, SizeFreeAccountant
from privsample.accounting.curves import zcdp
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.codes import CodeDistributions
from privsample.accounting.loss.pair import DiscretePair
from privsample.relations import Relation, ReplaceOne, related


@frozen_value
class RandomizedResponseAccountant(SizeFreeAccountant):
    """Randomized response: the answer for a record is its true category or, with smaller probability, another one.

    The true category is reported with e^log_odds times the probability of each other category.

    Parameters
    ----------
    log_odds : float
        Log of the ratio of the two probabilities, in nats, finite and > 0. It is the pure epsilon of one answer.
    categories : int
        Number of categories, >= 2.
    relation : Relation
        Neighbouring relation; usually `ReplaceOne(n=...)`.
    assumptions : frozenset of Assumption, default {IDEAL_REALS}
        Assumptions of the guarantee.

    Notes
    -----
    Source: Warner 1965; Kairouz, Bonawitz and Ramage 2016, section 3 (more than two categories).

    Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.RandomizedResponseAccountant(log_odds=1.0, categories=4, relation=ps.ReplaceOne(n=100))
    >>> account.pure_epsilon, round(float(account.delta(0.5)), 4)
    (1.0, 0.187)
    """

    log_odds: float
    categories: int
    relation: Relation
    assumptions: frozenset[Assumption] = frozenset({Assumption.IDEAL_REALS})

    def __post_init__(self) -> None:
        set_fields(self, relation=related(self.relation))
        categories = positive_integer(categories=self.categories)
        if not categories >= 2:
            raise ValueError(f"categories must be at least 2, got {categories}")
        set_fields(self, log_odds=positive(log_odds=self.log_odds), categories=categories)

    @property
    def source(self) -> str:
        """Author, year and section of the mechanism."""
        return "Warner 1965; Kairouz, Bonawitz and Ramage 2016, section 3 (k-ary)"

    def _bounds(self) -> PrivacyBounds:
        """The pair of two distinct categories, with all other categories as one outcome; it is its own reverse."""
        others = np.log(self.categories - 1.0)
        log_true = -np.logaddexp(0.0, others - self.log_odds)
        log_false = log_true - self.log_odds
        rest = [np.log(self.categories - 2.0) + log_false] if self.categories > 2 else []
        log_p, log_q = np.array([log_true, log_false, *rest]), np.array([log_false, log_true, *rest])
        loss = np.array([self.log_odds, -self.log_odds, *(0.0 for _ in rest)])
        rho = zcdp.of_response(self.log_odds, self.categories)
        return PrivacyBounds.from_pairs([DiscretePair(log_p=log_p, log_q=log_q, loss=loss)], zcdp=rho)

    def code_distributions(self) -> CodeDistributions:
        """The answer's distribution given the true category, for post-processing by Markov kernels.

        Returns
        -------
        CodeDistributions
            One distribution for each true category, and all pairs of categories as neighbours.
        """
        count = self.categories
        distributions = np.exp(np.where(np.eye(count) > 0, 0.0, -self.log_odds))
        exchanged = np.argwhere(np.triu(np.ones((count, count)), 1))
        return CodeDistributions(
            distributions=distributions / distributions.sum(axis=1, keepdims=True), exchanged=exchanged
        )

    def group(self, size: int) -> Accountant:
        """The account for groups: `size` records change `size` independent answers (docs/notes/composition.md).

        Kind: exact.
        """
        size = positive_integer(size=size)
        answers = min(size, self.relation.n) if isinstance(self.relation, ReplaceOne) else size
        each = replace(self, relation=self.relation.group(size))
        return each if answers == 1 else Composed(entries=((each, answers),))
