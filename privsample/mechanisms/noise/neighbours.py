"""Neighbours of mechanisms that add noise: statistics at the distance that the sensitivity allows, and their losses."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray
from privsample.accounting.base import Accountant
from privsample.distributions.models.moments import MomentModel
from privsample.distributions.noise import Noise
from privsample.mechanisms.neighbours import Dataset, Draw, Loss, Neighbours, others_beside


def shifted_loss(noise: Noise, first: ArrayLike, second: ArrayLike) -> Loss:
    """The log density ratio of noise around `first` over noise around `second`, each of shape () or (width,).

    Returns: a function from outputs (draws, width) to (draws,).
    """
    here, there = np.asarray(first), np.asarray(second)
    return lambda noisy: (noise.log_mass(noisy - here) - noise.log_mass(noisy - there)).sum(axis=1)


def moved_statistic(shape: tuple[int, ...], shift: float) -> tuple[Dataset, Dataset]:
    """A statistic of zero, and one whose first coordinate is moved by `shift`; the rest is the same."""

    def dataset(first: float) -> Dataset:
        def build() -> FloatArray:
            statistic = np.zeros(shape)
            statistic.flat[0] = first
            return statistic

        return build

    return dataset(0.0), dataset(shift)


def moved_words(shift: float) -> tuple[str, str]:
    """Such statistics in words."""
    return "a statistic of 0", f"a statistic of {shift:g}"


def moment_neighbours(
    *,
    model: MomentModel,
    noise: Noise,
    n: int,
    group: int,
    account: Accountant,
    draw: Draw,
) -> tuple[Neighbours, ...]:
    """A record at all upper bounds, and one at the lower: farthest in L2. And the one between, which is so in L1.

    With all d numbers of a record at radius r and of the other at -ur, the moments are r d (1 + u) +
    r^2 d ((d - 1) / 2 + square) (1 - u^2) apart in L1, most at u = 1 / (r (d - 1 + 2 square)). What the records in
    common hold does not change the loss.
    """
    moments, rest = model.moments, others_beside(group, n)
    low, high = np.array(moments.bounds).T
    between = 1.0 / (moments.radius * (len(low) - 1 + 2 * moments.square))

    def record(height: float) -> FloatArray:
        return np.asarray(low + (1.0 + height) / 2.0 * (high - low))

    def total(height: float) -> FloatArray:
        return np.asarray(
            rest * moments.sums(record(1.0)[None]) + group * moments.sums(record(height)[None]), dtype=np.float64
        )

    def dataset(height: float) -> Dataset:
        def build() -> Any:
            rows = np.tile(record(1.0), (n, 1))
            rows[rest:] = record(height)
            return model.to_data(rows)

        return build

    def words(height: float) -> str:
        at = {1.0: "at the upper bounds", -1.0: "at the lower"}.get(height, f"at {(1 + height) / 2:.3g} of the way up")
        return f"{group:,} of {n:,} records {at}"

    return tuple(
        Neighbours(
            account=account,
            words=(words(1.0), words(other)),
            datasets=(dataset(1.0), dataset(other)),
            draw=draw,
            loss=shifted_loss(noise, total(1.0), total(other)),
            width=len(model.empty),
        )
        for other in (-1.0, -between)
    )
