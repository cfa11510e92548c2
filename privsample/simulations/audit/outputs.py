"""The audit of outputs: scores of the outputs, and events {score > threshold} chosen on draws of their own."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from privsample._checks import FloatArray, check_memory
from privsample.mechanisms.neighbours import Neighbours
from privsample.simulations.audit.draws import draw_both_outputs, draw_outputs
from privsample.simulations.audit.evaluation import make_verdict
from privsample.simulations.audit.events import Choice, most_informative_events, strongest_tests
from privsample.simulations.audit.renyi import clipped_lower_limit
from privsample.simulations.audit.scores import Score, learn_scores, score_values
from privsample.simulations.audit.search import Scores, select_pair
from privsample.simulations.audit.task import AuditTask
from privsample.simulations.audit.verdict import Verdict

_LEARNING, _CHOOSING, _CHOOSING_KNOWN = 0.25, 0.15, 0.1


@dataclass(frozen=True, kw_only=True)
class _ScoredCase:
    """A pair of neighbouring datasets, a score function, and the scores of the selection draws."""

    case: Neighbours
    score: Score
    choosing: Scores

    def strongest_tests(self, epsilons: FloatArray, claims: FloatArray) -> tuple[Choice, ...]:
        """Return the events at which the claims look weakest on the selection draws."""
        return strongest_tests(*self.choosing, epsilons, claims, loss=self.case.loss is not None)

    def renyi_limits(self, evidence: Scores, order: float, level: float) -> list[float]:
        """Return lower bounds on the Rényi divergence in both directions, if the losses are known."""
        if self.case.loss is None:
            return []
        first, second = evidence
        return [
            clipped_lower_limit(order, losses, float(np.quantile(pilot, 0.995)), level)
            for losses, pilot in ((first, self.choosing[0]), (-second, -self.choosing[1]))
        ]


def audit_outputs(task: AuditTask) -> Verdict:
    """Audit the outputs as real numbers. Raises: the errors of `audit`."""
    count, rng = task.samples, task.rng
    check_memory(count * max(case.width for case in task.cases), lower="samples")
    points, claims = task.epsilons, task.claims
    cases = select_pair(task.cases, count, points, claims, lambda case, few: search_scores(case, few, rng))
    offered = [(one, one.strongest_tests(points, claims)) for case in cases for one in _score_case(case, count, rng)]
    scored, choices = max(offered, key=lambda pair: pair[1][0].strength)
    share = _discarded_fraction(scored.case)
    held = max(count - round(count * share), 1)
    first, second = (
        score_values(scored.score, draw_outputs(scored.case, data, held, rng)) for data in scored.case.datasets
    )
    forward, backward = (
        most_informative_events(*scored.choosing, np.exp(points), swapped) for swapped in (False, True)
    )
    return make_verdict(
        task,
        scored.case,
        choices,
        (first, second),
        draws=(len(first), len(second)),
        informative=(forward, backward),
        overhead=1 / (1 - share),
        renyi=partial(scored.renyi_limits, (first, second)),
    )


def _discarded_fraction(case: Neighbours) -> float:
    """Return the fraction of an audit's draws that are used for training and selection."""
    return _LEARNING + _CHOOSING if case.loss is None else _CHOOSING_KNOWN


def _score_case(case: Neighbours, samples: int, rng: np.random.Generator) -> list[_ScoredCase]:
    """Return each score function of a case, with the scores of the selection draws."""
    if case.loss is not None:
        few = max(round(samples * _CHOOSING_KNOWN), 1)
        scores: tuple[Score, ...] = (case.loss,)
    else:
        teaching = max(round(samples * _LEARNING), 20)
        few = max(round(samples * _CHOOSING), 1)
        scores = learn_scores(*draw_both_outputs(case, teaching, rng))
    outputs = draw_both_outputs(case, few, rng)
    return [
        _ScoredCase(case=case, score=score, choosing=(score_values(score, outputs[0]), score_values(score, outputs[1])))
        for score in scores
    ]


def search_scores(case: Neighbours, draws: int, rng: np.random.Generator) -> list[Scores]:
    """Return the scores of `draws` selection draws from each dataset; training draws come in addition."""
    return [found.choosing for found in _score_case(case, round(draws / _discarded_fraction(case)), rng)]
