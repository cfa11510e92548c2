"""Choices among runs, by the order of scores that attains most: the rest, then high losses, then low ones on top."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.mechanisms.release import Release
from privsample.mechanisms.repetition import ConditionalSelection, RepeatedSelection
from privsample.simulations.draws import Draw, flat, one_draw
from privsample.simulations.neighbours.base import Neighbours, neighbours

_PILOT = 2_000


@neighbours.register
def _(mechanism: RepeatedSelection, group: int = 1) -> tuple[Neighbours, ...]:
    """Low losses on top, as many as the best of an average number of runs leaves room for; then falling losses."""
    share = min(1.0 / (1.0 + mechanism.runs.mean), 0.5)

    def order(losses: FloatArray) -> Callable[[float], float]:
        low = float(np.quantile(losses, share))
        return lambda loss: 1e300 if loss <= low else loss

    return _chosen(mechanism, group, order)


@neighbours.register
def _(mechanism: ConditionalSelection, group: int = 1) -> tuple[Neighbours, ...]:
    """Accepted are the lower half of the losses, which makes a run stop sooner on one side, and the highest tenth."""
    accept = mechanism.accept

    def order(losses: FloatArray) -> Callable[[float], float]:
        low, high = np.quantile(losses, [0.5, 0.9])
        return lambda loss: accept if loss <= low or loss >= high else accept - 1.0 - abs(accept)

    return _chosen(mechanism, group, order)


def _chosen(
    mechanism: RepeatedSelection | ConditionalSelection,
    group: int,
    order: Callable[[FloatArray], Callable[[float], float]],
) -> tuple[Neighbours, ...]:
    """The account holds for every score, so the worst is taken; the mechanism's own where no loss is known."""
    base = one_draw(mechanism.base)
    found = []
    for case in neighbours(base, group):
        one: Any = replace(mechanism, base=base)
        if case.loss is not None:
            pilot = case.draw(case.datasets[0](), _PILOT, np.random.default_rng(0)).reshape(_PILOT, -1)
            one = replace(one, score=_score(case.loss, order(case.loss(pilot))))
        found.append(
            Neighbours(
                account=one.accountant,
                words=case.words,
                datasets=case.datasets,
                draw=_padded(one, case.width + 1),
                width=case.width + 1,
            )
        )
    return tuple(found)


def _score(loss: Callable[[FloatArray], FloatArray], place: Callable[[float], float]) -> Callable[[Release], float]:
    return lambda release: place(float(loss(flat(release)[None, :-1])[0]))


def _padded(mechanism: Any, width: int) -> Draw:
    """Releases in rows of `width` numbers, whether there were draws the last; zeros where there were none."""

    def draw(data: Any, count: int, rng: np.random.Generator) -> FloatArray:
        table = np.zeros((count, width))
        for row in table:
            numbers = flat(mechanism.release(data, rng=rng))
            row[-1] = numbers[-1]
            row[: len(numbers) - 1] = numbers[:-1]
        return table

    return draw
