"""Statistics at the distance that their sensitivity allows, and answers to one question."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.mechanisms.additive import AdditiveNoise, GaussianMechanism, LaplaceMechanism
from privsample.mechanisms.randomized import RandomizedResponse
from privsample.relations import ReplaceOne
from privsample.simulations.neighbours.base import Dataset, Neighbours, neighbours


@neighbours.register
def _(mechanism: GaussianMechanism, group: int = 1) -> tuple[Neighbours, ...]:
    shift, std = group * mechanism.sensitivity, mechanism.noise_std
    return (_additive_pair(mechanism, shift, lambda noisy: (noisy - shift / 2) * -shift / std**2),)


@neighbours.register
def _(mechanism: LaplaceMechanism, group: int = 1) -> tuple[Neighbours, ...]:
    shift, scale = group * mechanism.sensitivity, mechanism.scale
    return (_additive_pair(mechanism, shift, lambda noisy: (np.abs(noisy - shift) - np.abs(noisy)) / scale),)


def _additive_pair(mechanism: AdditiveNoise, shift: float, loss: Callable[[FloatArray], FloatArray]) -> Neighbours:
    """A statistic of zero, and one whose first coordinate is moved by `shift`; the rest tells nothing."""
    one: Any = replace(mechanism, draws=1)  # type: ignore[type-var]

    def dataset(first: float) -> Dataset:
        def build() -> FloatArray:
            statistic = np.zeros(one.shape)
            statistic.flat[0] = first
            return statistic

        return build

    return Neighbours(
        account=one.accountant,
        words=("a statistic of 0", f"a statistic of {shift:g}"),
        datasets=(dataset(0.0), dataset(shift)),
        draw=lambda data, count, rng: replace(one, draws=count).release(data, rng=rng)["statistic"].reshape(count, -1),
        loss=lambda noisy: loss(noisy[:, 0]),
        width=int(np.prod(one.shape)),
    )


@neighbours.register
def _(mechanism: RandomizedResponse, group: int = 1) -> tuple[Neighbours, ...]:
    """One answer. Records answer independently, so one release of many equal records gives as many draws."""
    if group != 1:
        raise ValueError(f"one answer is audited, whatever the group: group must be 1, got {group}")
    if not isinstance(mechanism.relation, ReplaceOne) and mechanism.slots != 1:
        raise ValueError("answers in random order are not audited here; audit the same mechanism with slots = 1")

    def draw(data: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
        many = replace(mechanism, relation=ReplaceOne(n=count), slots=None)
        return many.release(np.broadcast_to(data, (count,)), rng=rng)["answers"][0]

    odds = mechanism.log_odds
    return (
        Neighbours(
            account=mechanism.accountant,
            words=("a record of 0", "a record of 1"),
            datasets=(lambda: np.zeros(1), lambda: np.ones(1)),
            draw=draw,
            loss=lambda answers: np.where(answers == 0, odds, np.where(answers == 1, -odds, 0.0))[:, 0],
        ),
    )
