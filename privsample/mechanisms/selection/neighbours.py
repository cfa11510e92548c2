"""Worst neighbours of selections: scores that nearly attain the account, tested on draws with known losses.

The construction is in docs/notes/selection.md.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample.distributions.repetitions import RepetitionDistribution
from privsample.mechanisms.draws import one_draw, release_row
from privsample.mechanisms.neighbours import Draw, Loss, Neighbours
from privsample.mechanisms.privacy_curves import excess, two_worst
from privsample.mechanisms.release import Release

_PILOT = 2_000  # draws from each dataset, on which scores are compared
_SHARES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0)

Place = Callable[[FloatArray], FloatArray]  # from losses to scores
Chosen = Callable[
    [FloatArray, FloatArray], FloatArray
]  # from scores and probabilities to the probabilities of being released


def best_of_runs(runs: RepetitionDistribution) -> Chosen:
    """The probability that each output is the best of the runs."""

    def chosen(scores: FloatArray, chances: FloatArray) -> FloatArray:
        _, place = np.unique(-scores, return_inverse=True)
        each = np.bincount(place, chances)
        best = np.exp(runs.log_rank_probability(np.minimum(np.cumsum(each), 1.0)))
        return np.asarray(np.diff(best, prepend=0.0)[place] * chances / np.where(each > 0.0, each, 1.0)[place])

    return chosen


def low_losses_first(losses: FloatArray) -> list[Place]:
    """Scores that rank low losses highest and then decrease with the loss, and their mirror images."""
    cuts = np.quantile(losses, _SHARES, method="higher")
    falling = [partial(_accept_first, cut=float(cut), sign=1.0) for cut in cuts]
    return [*falling, *(partial(_accept_first, cut=-float(cut), sign=-1.0) for cut in cuts)]


def first_accepted(threshold: float, stop_probability: float, *, after: bool = False) -> Chosen:
    """The probability that each output is the first accepted one; the last entry is the probability of no output.

    With `after`, the random stop is decided after each run that is not accepted.
    """

    def chosen(scores: FloatArray, chances: FloatArray) -> FloatArray:
        kept = np.where(scores >= threshold, chances, 0.0)
        if after:
            stopped = stop_probability * max(1.0 - kept.sum(), 0.0)
            return np.append(kept, stopped) / (kept.sum() + stopped)
        return np.append((1.0 - stop_probability) * kept, stop_probability) / (
            stop_probability + (1.0 - stop_probability) * kept.sum()
        )

    return chosen


def accept_extremes(threshold: float) -> Callable[[FloatArray], list[Place]]:
    """Scores that accept the lowest losses, which makes one dataset stop earlier, and the highest losses."""

    def places(losses: FloatArray) -> list[Place]:
        cuts = [-np.inf, *np.quantile(losses, _SHARES, method="higher"), np.inf]
        ends = [(low, high) for low in cuts for high in cuts if low < high]
        return [partial(_accepted, low=float(low), high=float(high), threshold=threshold) for low, high in ends]

    return places


def _accept_first(losses: FloatArray, *, cut: float, sign: float) -> FloatArray:
    return np.where(sign * losses <= cut, 1e300, sign * losses)


def _accepted(losses: FloatArray, *, low: float, high: float, threshold: float) -> FloatArray:
    return np.where((losses <= low) | (losses >= high), threshold, threshold - 1.0 - abs(threshold))


def neighbours_by_score(
    mechanism: Any, group: int, places: Callable[[FloatArray], list[Place]], chosen: Chosen
) -> tuple[Neighbours, ...]:
    """The base's pairs of datasets, with the scores under which outputs differ most.

    The account holds for every score, so the worst scores are used; if no loss is known, the mechanism's own score is
    used.
    """
    base = one_draw(mechanism.base)
    cases = base.worst_neighbours(group)
    candidates: list[tuple[Neighbours, Any, FloatArray]] = []
    for case in cases:
        if case.loss is not None:
            losses, p, q = _pilot(case)
            candidates += [
                (case, place, excess(chosen(place(losses), p), chosen(place(losses), q))) for place in places(losses)
            ]
    found: list[tuple[Neighbours, Any]] = [(case, replace(mechanism, base=base)) for case in cases]
    if candidates:
        table = np.array([curve for *_, curve in candidates])
        found = [
            (case, replace(mechanism, base=base, score=_score(case.loss, place)))
            for case, place, _ in (candidates[at] for at in two_worst(table))
            if case.loss is not None
        ]
    return tuple(
        Neighbours(
            account=one.accountant,
            descriptions=case.descriptions,
            datasets=case.datasets,
            draw=_padded(one, case.width + 1),
            width=case.width + 1,
        )
        for case, one in found
    )


def _pilot(case: Neighbours) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Losses of outputs drawn from both distributions, and their probabilities under the first and the second."""
    assert case.loss is not None
    rng = np.random.default_rng(0)
    draws = np.concatenate([case.draw(data(), _PILOT, rng).reshape(_PILOT, -1) for data in case.datasets])
    losses = np.asarray(case.loss(draws), dtype=np.float64)
    p, q = special.expit(losses), special.expit(-losses)
    return losses, p / p.sum(), q / q.sum()


def _score(loss: Loss, place: Place) -> Callable[[Release], float]:
    return lambda release: float(place(np.asarray(loss(release_row(release)[None, :-1])))[0])


def _padded(mechanism: Any, width: int) -> Draw:
    """Releases as rows of `width` numbers, zeros without draws; the last number is 1 if there are draws."""

    def draw(data: Any, count: int, rng: np.random.Generator) -> FloatArray:
        table = np.zeros((count, width))
        for row in table:
            numbers = release_row(mechanism.release(data, rng=rng))
            row[-1] = numbers[-1]
            row[: len(numbers) - 1] = numbers[:-1]
        return table

    return draw
