"""A mutant of RepeatedSelection whose bug cannot be expressed by wrong parameter values."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from privsample._checks import FloatArray, positive_integer
from privsample._logspace import log1mexp
from privsample._value import frozen_value
from privsample.accounting.selection.repetition import SelectionAccountant
from privsample.distributions.repetitions import RepetitionDistribution
from privsample.mechanisms.base import Draws, Wrapper
from privsample.mechanisms.draws import one_by_one
from privsample.mechanisms.neighbours import Neighbours
from privsample.mechanisms.randomized import RandomizedResponse
from privsample.relations import ReplaceOne


@frozen_value
class SelectionWithCount(Wrapper):
    """The largest of K randomized responses to one record, released together with K.

    The bug: the account holds only if K stays secret. It releases "answers" and "runs".
    """

    base: RandomizedResponse
    repetitions: RepetitionDistribution
    _checks_entropy = False

    @property
    def accountant(self) -> SelectionAccountant:
        """The account of a selection that does not release K."""
        return SelectionAccountant(base=self.base.accountant, repetitions=self.repetitions)

    def _draw(self, statistic: NDArray[np.int64], rng: np.random.Generator) -> Draws:
        runs = self.repetitions.sample(rng)
        answers = self._repeated_responses(runs)._draw(np.broadcast_to(statistic, (runs,)), rng)["answers"]
        return {"answers": answers.max(axis=1), "runs": np.array([runs])}

    def _repeated_responses(self, runs: int) -> RandomizedResponse:
        return replace(self.base, relation=ReplaceOne(n=runs), slots=None)

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The two possible records, with the privacy loss of the pair (answer, number of runs)."""
        group = positive_integer(group=group)
        del group
        log_p, log_q = log_expit(self.base.log_odds), log_expit(-self.base.log_odds)

        def loss(outputs: FloatArray) -> FloatArray:
            answers, runs, _ = outputs.T
            return np.where(answers == 0, runs * (log_p - log_q), log1mexp(runs * log_p) - log1mexp(runs * log_q))

        return (
            Neighbours(
                account=self.accountant,
                descriptions=("a record of 0", "a record of 1"),
                datasets=(lambda: np.zeros(1), lambda: np.ones(1)),
                draw=one_by_one(self),
                loss=loss,
                width=3,
            ),
        )
