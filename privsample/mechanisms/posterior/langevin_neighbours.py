"""Worst neighbours of regressions drawn by Langevin chains: the longest row with either extreme target."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from privsample._checks import FloatArray
from privsample.mechanisms.neighbours import Dataset, Neighbours, records_outside_group
from privsample.relations import ReplaceOne

if TYPE_CHECKING:
    from privsample.mechanisms.posterior.langevin import LangevinPosterior


def langevin_neighbours(mechanism: "LangevinPosterior", group: int) -> tuple[Neighbours, ...]:
    """The longest row with either extreme target, among rows of zeros; or with it and without it under AddRemove."""
    one, most = replace(mechanism, draws=1), mechanism._most_records
    rest = records_outside_group(group, most)
    first, second = one.likelihood.extreme_targets
    among = f"{group:,} of {most:,} rows ({one.norm:.4g})"
    if isinstance(one.relation, ReplaceOne):
        descriptions = f"{among} with target {first:g}", f"{among} with target {second:g}"
        datasets = _dataset(one, rest, group, first), _dataset(one, rest, group, second)
    else:
        descriptions = f"{among} with target {first:g}", f"the other {rest:,} rows"
        datasets = _dataset(one, rest, group, first), _dataset(one, rest, 0, first)
    return (
        Neighbours(
            account=one.accountant,
            descriptions=descriptions,
            datasets=datasets,
            draw=partial(rows_of_draws, one),
            width=one._dimension,
        ),
    )


def _dataset(one: "LangevinPosterior", rest: int, group: int, target: float) -> Dataset:
    """`rest` rows of zeros, with both extreme targets in turn, and `group` longest rows with this target."""

    def build() -> tuple[FloatArray, FloatArray]:
        table, targets = np.zeros((rest + group, one.features)), np.empty(rest + group)
        targets[:rest] = np.resize(one.likelihood.extreme_targets, rest)
        table[rest:, 0], targets[rest:] = one.norm, target
        return table, targets

    return build


def rows_of_draws(one: "LangevinPosterior", data: Any, count: int, rng: np.random.Generator) -> FloatArray:
    """`count` independent draws in rows, by as many chains of one release."""
    draws = replace(one, draws=count).release(data, rng=rng).draws
    return np.column_stack([np.reshape(draws[name], (count, -1)) for name in sorted(draws)])
