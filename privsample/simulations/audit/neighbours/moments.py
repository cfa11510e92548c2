"""Noisy moments of bounded numbers: records at the upper bounds against two others."""

from dataclasses import replace
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.models.moments import MomentModel
from privsample.mechanisms.noise.statistics import NoisyStatistics
from privsample.simulations.audit.base import Dataset, Neighbours
from privsample.simulations.audit.neighbours.noise import shifted
from privsample.simulations.audit.pairs import sized


def moment_pairs(mechanism: NoisyStatistics, group: int) -> tuple[Neighbours, ...]:
    """A record at all upper bounds, and one at the lower: farthest in L2. And the one between, which is so in L1.

    With all d numbers of a record at radius r and of the other at -ur, the moments are r d (1 + u) +
    r^2 d ((d - 1) / 2 + square) (1 - u^2) apart in L1, most at u = 1 / (r (d - 1 + 2 square)). What the records in
    common hold is nothing to the noise.
    """
    one, model = replace(mechanism, draws=1), mechanism.model
    assert isinstance(model, MomentModel)
    moments, rest = model.moments, sized(one.n, group)
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
            rows = np.tile(record(1.0), (one.n, 1))
            rows[rest:] = record(height)
            return model.to_data(rows)

        return build

    def place(height: float) -> str:
        at = {1.0: "at the upper bounds", -1.0: "at the lower"}.get(height, f"at {(1 + height) / 2:.3g} of the way up")
        return f"{group:,} of {one.n:,} records {at}"

    return tuple(
        Neighbours(
            account=one.accountant,
            words=(place(1.0), place(other)),
            datasets=(dataset(1.0), dataset(other)),
            draw=lambda data, count, rng: replace(one, draws=count).release(data, rng=rng)["statistic"],
            loss=shifted(one.law, total(1.0), total(other)),
            width=len(model.empty),
        )
        for other in (-1.0, -between)
    )
