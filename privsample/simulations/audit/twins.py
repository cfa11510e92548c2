"""Mechanisms that are broken on purpose, where no wrong parameter would do."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import log_expit

from privsample._checks import FloatArray, generator
from privsample._logspace import log1mexp
from privsample._value import value
from privsample.accounting.selection.repetition import SelectionAccountant
from privsample.distributions.runs import Runs
from privsample.mechanisms.base import Mechanism, charged
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.randomized import RandomizedResponse
from privsample.mechanisms.release import Release
from privsample.relations import ReplaceOne
from privsample.simulations.audit.base import Neighbours, neighbours
from privsample.simulations.audit.draws import released


@value
class TellingSelection(Mechanism):
    """The highest of K answers to one record, and K: its account holds only while K stays secret."""

    base: RandomizedResponse
    runs: Runs

    @property
    def accountant(self) -> SelectionAccountant:
        """As if K were secret."""
        return SelectionAccountant(base=self.base.accountant, runs=self.runs)

    def release(self, data: Any, *, rng: np.random.Generator | None = None) -> Release:
        """Returns: draws "answers" and "runs"."""
        source = generator(rng)
        runs = self.runs.sample(source)
        answers = self._asked(runs).release(np.broadcast_to(data, (runs,)), rng=source)["answers"]
        draws = {"answers": answers.max(axis=1), "runs": np.array([runs])}
        return Release(mechanism=self, draws=draws, account=charged(self, rng))

    def _asked(self, runs: int) -> RandomizedResponse:
        return replace(self.base, relation=ReplaceOne(n=runs), slots=None)

    def validate(self, data: Any) -> CuratorNotes:
        """The base's."""
        return self.base.validate(data)


@neighbours.register
def _(mechanism: TellingSelection, group: int = 1) -> tuple[Neighbours, ...]:
    del group
    log_p, log_q = log_expit(mechanism.base.log_odds), log_expit(-mechanism.base.log_odds)

    def loss(drawn: FloatArray) -> FloatArray:
        answers, runs, _ = drawn.T
        return np.where(answers == 0, runs * (log_p - log_q), log1mexp(runs * log_p) - log1mexp(runs * log_q))

    case = Neighbours(
        account=mechanism.accountant,
        words=("a record of 0", "a record of 1"),
        datasets=(lambda: np.zeros(1), lambda: np.ones(1)),
        draw=released(mechanism),
        loss=loss,
        width=3,
    )
    return (case,)
