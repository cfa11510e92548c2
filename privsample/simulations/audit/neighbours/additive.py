"""A statistic at the distance that its sensitivity allows."""

from dataclasses import replace
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.noise import GaussianNoise, LaplaceNoise, Noise
from privsample.mechanisms.noise.additive import AdditiveNoise, GaussianMechanism, LaplaceMechanism
from privsample.simulations.audit.base import Dataset, Neighbours, neighbours
from privsample.simulations.audit.neighbours.noise import shifted


@neighbours.register
def _(mechanism: GaussianMechanism, group: int = 1) -> tuple[Neighbours, ...]:
    return (_additive_pair(mechanism, group, GaussianNoise(noise_std=mechanism.noise_std)),)


@neighbours.register
def _(mechanism: LaplaceMechanism, group: int = 1) -> tuple[Neighbours, ...]:
    return (_additive_pair(mechanism, group, LaplaceNoise(scale=mechanism.scale)),)


def statistics(shape: tuple[int, ...], shift: float) -> tuple[Dataset, Dataset]:
    """A statistic of zero, and one whose first coordinate is moved by `shift`; the rest tells nothing."""

    def dataset(first: float) -> Dataset:
        def build() -> FloatArray:
            statistic = np.zeros(shape)
            statistic.flat[0] = first
            return statistic

        return build

    return dataset(0.0), dataset(shift)


def words(shift: float) -> tuple[str, str]:
    """Of such statistics."""
    return "a statistic of 0", f"a statistic of {shift:g}"


def _additive_pair(mechanism: AdditiveNoise, group: int, law: Noise) -> Neighbours:
    one: Any = replace(mechanism, draws=1)  # type: ignore[type-var]
    shift = group * one.sensitivity
    loss = shifted(law, 0.0, shift)
    return Neighbours(
        account=one.accountant,
        words=words(shift),
        datasets=statistics(one.shape, shift),
        draw=lambda data, count, rng: replace(one, draws=count).release(data, rng=rng)["statistic"],
        loss=lambda noisy: loss(noisy[:, :1]),
        width=int(np.prod(one.shape)),
    )
