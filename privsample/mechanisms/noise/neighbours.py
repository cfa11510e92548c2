"""Worst neighbours of mechanisms that add noise: statistics at the distance of the sensitivity, and their losses."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray
from privsample.accounting.base import Accountant
from privsample.distributions.models.moments import MomentModel
from privsample.distributions.noise import Noise
from privsample.mechanisms.neighbours import (
    Dataset,
    Draw,
    Loss,
    Neighbours,
    SumRecords,
    check_simulated,
    copies,
    describe_records,
    records_outside_group,
)


def shifted_loss(noise: Noise, first: ArrayLike, second: ArrayLike) -> Loss:
    """The log density ratio, in nats, of noise around `first` over noise around `second`, each of shape () or (width,).

    Returns a function from outputs (draws, width) to losses (draws,).
    """
    here, there = np.asarray(first), np.asarray(second)
    return lambda noisy: (noise.log_mass(noisy - here) - noise.log_mass(noisy - there)).sum(axis=1)


def moved_statistic(shape: tuple[int, ...], shift: float) -> tuple[Dataset, Dataset]:
    """A statistic of zeros, and one whose first coordinate is `shift` and whose other coordinates are 0."""

    def dataset(first: float) -> Dataset:
        def build() -> FloatArray:
            statistic = np.zeros(shape)
            statistic.flat[0] = first
            return statistic

        return build

    return dataset(0.0), dataset(shift)


def describe_moved_statistic(shift: float) -> tuple[str, str]:
    """Descriptions of the two statistics."""
    return "a statistic of 0", f"a statistic of {shift:g}"


def added_neighbours(
    record: FloatArray, added: FloatArray, group: int, noise: Noise, account: Accountant, draw: Draw
) -> tuple[Neighbours, ...]:
    """A group of equal records, of which each adds `added` to the statistic, and no records."""
    check_simulated(group)
    return (
        Neighbours(
            account=account,
            descriptions=(describe_records(group, record), "no records"),
            datasets=(lambda: copies(record, group), lambda: copies(record, 0)),
            draw=draw,
            loss=shifted_loss(noise, group * added, 0 * added),
            width=added.size,
        ),
    )


def moment_neighbours(
    *,
    model: MomentModel,
    noise: Noise,
    n: int,
    group: int,
    account: Accountant,
    draw: Draw,
) -> tuple[Neighbours, ...]:
    """Two pairs of records for moment statistics: the farthest apart in L2 and the farthest apart in L1.

    The first pair is a record at all upper bounds and one at all lower bounds. The second pair replaces the lower
    record by one between the bounds: with all d numbers of one record at radius r and those of the other at -u r, the
    moments are r d (1 + u) + r^2 d ((d - 1) / 2 + square) (1 - u^2) apart in L1, which is largest at u = 1 / (r (d - 1
    + 2 square)). The common records do not change the loss.
    """
    moments, rest = model.moments, records_outside_group(group, n)

    def record(height: float) -> FloatArray:
        return _moment_record(model, height)

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

    def describe(height: float) -> str:
        ends = {1.0: "at the upper bounds", -1.0: "at the lower bounds"}
        at = ends.get(height, f"at {(1 + height) / 2:.3g} of the way up")
        return f"{group:,} of {n:,} records {at}"

    return tuple(
        Neighbours(
            account=account,
            descriptions=(describe(1.0), describe(other)),
            datasets=(dataset(1.0), dataset(other)),
            draw=draw,
            loss=shifted_loss(noise, total(1.0), total(other)),
            width=len(model.empty),
        )
        for other in _moment_heights(model)
    )


def _moment_heights(model: MomentModel) -> tuple[float, float]:
    """The heights of the two records that a record at all upper bounds is exchanged for, in [-1, 1]."""
    moments = model.moments
    return -1.0, -1.0 / (moments.radius * (len(moments.bounds) - 1 + 2 * moments.square))


def _moment_record(model: MomentModel, height: float) -> FloatArray:
    """The record whose numbers are all at this height between their bounds, 1 at the upper and -1 at the lower."""
    low, high = np.array(model.moments.bounds).T
    return np.asarray(low + (1.0 + height) / 2.0 * (high - low))


def moment_records(model: MomentModel) -> tuple[SumRecords, ...]:
    """The records of `moment_neighbours`; those at the upper bounds are also the common records."""

    def read(height: float) -> FloatArray:
        return np.asarray(model.record_format.read(model.to_data(_moment_record(model, height)[None]))[0])

    def sums(height: float) -> FloatArray:
        return np.asarray(model.moments.sums(_moment_record(model, height)[None]), dtype=np.float64)

    return tuple(
        SumRecords(records=(read(1.0), read(1.0), read(other)), contributions=(sums(1.0), sums(1.0), sums(other)))
        for other in _moment_heights(model)
    )
