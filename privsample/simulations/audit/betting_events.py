"""Events of bets: scores of the outputs, learned on past draws only, and thresholds chosen on past draws only."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privsample._checks import FloatArray
from privsample.mechanisms.neighbours import Neighbours
from privsample.simulations.audit.betting import Leader, Outcomes, Wealth
from privsample.simulations.audit.bits import learn_bit_scores
from privsample.simulations.audit.events import steepest_thresholds, strongest_thresholds
from privsample.simulations.audit.scores import Score, learn_scores, score_values
from privsample.simulations.audit.task import AuditTask

Rows = tuple[FloatArray, FloatArray]  # past draws of the two distributions, shape (pairs, width) each

_LEARNING = 0.6  # share of the past that learns scores; the rest chooses thresholds
_KINDS = 3  # thresholds at the claimed epsilons, and those that test the claims and bound epsilon best
_DIRECTIONS = (False, True)
_SCORES = 2  # scores that are learned if the density ratio is not known


@dataclass(frozen=True, kw_only=True)
class Events:
    """Families of events {score > t} and {score < t}: a score for each, and thresholds of shape (2, families, k).

    leader: the bet that looks best on the past, if any.
    """

    scores: tuple[Score, ...]
    thresholds: FloatArray
    leader: Leader | None = None

    def outcomes(self, first: FloatArray, second: FloatArray) -> Outcomes:
        """Return the outcomes of pairs of draws, shape (pairs, families, k)."""
        found = [
            8 * (x > high) + 4 * (y > high) + 2 * (y < low) + (x < low)
            for score, high, low in zip(self.scores, *self.thresholds, strict=True)
            for x, y in [(score_values(score, first)[:, None], score_values(score, second)[:, None])]
        ]
        return np.stack(found, axis=1).astype(np.uint8)


def read_rows(task: AuditTask, case: Neighbours, outputs: FloatArray) -> FloatArray:
    """Return what is kept of outputs, shape (pairs, width): their losses where these are known, else the outputs."""
    if _is_known(task, case):
        assert case.loss is not None
        return score_values(case.loss, outputs)[:, None]
    return outputs


def count_families(task: AuditTask, case: Neighbours) -> int:
    """Return the number of families: three for each score, which differ in how thresholds are chosen."""
    return _KINDS * (1 if _is_known(task, case) else _SCORES)


def first_events(task: AuditTask, case: Neighbours) -> Events | None:
    """Return the events before any draw: {loss > epsilon} if the loss is known, else None."""
    if not _is_known(task, case):
        return None
    fixed = _fixed_thresholds(task.epsilons)
    return Events(scores=_each_thrice([_only_column]), thresholds=np.stack([fixed] * _KINDS, axis=1))


def fit_events(task: AuditTask, case: Neighbours, past: Rows, wealth: Wealth) -> Events:
    """Learn scores on the first part of the past draws, and choose thresholds and the leader on the other part."""
    known = _is_known(task, case)
    teaching = 0 if known else round(len(past[0]) * _LEARNING)
    scores = (_only_column,) if known else _learn(task, case, (past[0][:teaching], past[1][:teaching]))
    choosing = (past[0][teaching:], past[1][teaching:])
    families = []
    for score in scores:
        first, second = (score_values(score, rows) for rows in choosing)
        strongest = [
            strongest_thresholds(first, second, task.epsilons, task.claims, swapped) for swapped in _DIRECTIONS
        ]
        steepest = [steepest_thresholds(first, second, task.claims, swapped) for swapped in _DIRECTIONS]
        families += [_fixed_thresholds(task.epsilons), np.array(strongest), np.array(steepest)]
    events = Events(scores=_each_thrice(scores), thresholds=np.stack(families, axis=1))
    leader = wealth.best_leader(events.outcomes(*choosing))
    return Events(scores=events.scores, thresholds=events.thresholds, leader=leader)


def _learn(task: AuditTask, case: Neighbours, past: Rows) -> Sequence[Score]:
    return learn_bit_scores(task, case, past, _SCORES) if task.view == "bits" else learn_scores(*past)


def _each_thrice(scores: Sequence[Score]) -> tuple[Score, ...]:
    return tuple(score for score in scores for _ in range(_KINDS))


def _is_known(task: AuditTask, case: Neighbours) -> bool:
    return case.loss is not None and task.view != "bits"


def _fixed_thresholds(epsilons: FloatArray) -> FloatArray:
    """Return the thresholds of {score > epsilon} and {score < -epsilon}, the best ones for the log density ratio."""
    return np.stack([epsilons, -epsilons])


def _only_column(rows: FloatArray) -> FloatArray:
    return rows[:, 0]
