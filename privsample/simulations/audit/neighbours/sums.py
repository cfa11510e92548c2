"""Noisy sums of records."""

from dataclasses import replace
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.noise import GaussianNoise, LaplaceNoise, Noise
from privsample.mechanisms.noise.sums import ClippedSum, ColumnSum, LaplaceSum, NoisySum
from privsample.relations import Relation, ReplaceOne
from privsample.simulations.audit.base import Dataset, Neighbours, neighbours
from privsample.simulations.audit.neighbours.noise import shifted
from privsample.simulations.audit.pairs import sized


@neighbours.register
def _(mechanism: NoisySum, group: int = 1) -> tuple[Neighbours, ...]:
    """Under ReplaceOne all records at one end and `group` of them at the other; else `group` records, and none."""
    one: Any = replace(mechanism, draws=1)  # type: ignore[type-var]
    size = size_of(one.relation)
    common, first, second = extremes(one)
    if size is None:
        datasets: tuple[Dataset, Dataset] = (lambda: many(first, group), lambda: many(first, 0))
        words, totals = (records(group, first), "no records"), (group * first, 0 * first)
    else:
        rest = sized(size, group)
        datasets = (
            lambda: np.concatenate([many(common, rest), many(first, group)]),
            lambda: np.concatenate([many(common, rest), many(second, group)]),
        )
        others = f"{records(rest, common)} and "
        words = (others + records(group, first), others + records(group, second))
        totals = (rest * common + group * first, rest * common + group * second)
    return (
        Neighbours(
            account=one.accountant,
            words=words,
            datasets=datasets,
            draw=lambda data, count, rng: replace(one, draws=count).release(data, rng=rng)["sum"],
            loss=shifted(law_of(one), *totals),
            width=int(np.size(first)),
        ),
    )


def extremes(mechanism: NoisySum) -> tuple[FloatArray, FloatArray, FloatArray]:
    """What the other records hold, and the two that move the sum most; under AddRemove only the first counts."""
    replaced = isinstance(mechanism.relation, ReplaceOne)
    if isinstance(mechanism, ClippedSum):
        end = mechanism.norm * np.eye(1, mechanism.width)[0]
        return (-end, end, -end) if replaced else (0 * end, end, 0 * end)
    assert isinstance(mechanism, ColumnSum)
    low, high = mechanism.bounds
    if replaced:
        return _numbers(low, high, low)
    return _numbers(mechanism.domain.missing, max(low, high, key=abs), 0.0)


def least(mechanism: NoisySum) -> FloatArray:
    """The record that adds least to the sum."""
    if isinstance(mechanism, ClippedSum):
        return np.zeros(mechanism.width)
    assert isinstance(mechanism, ColumnSum)
    return np.asarray(mechanism.domain.missing)


def _numbers(common: float, first: float, second: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    return np.asarray(common), np.asarray(first), np.asarray(second)


def law_of(mechanism: Any) -> Noise:
    """Of the noise."""
    if isinstance(mechanism, LaplaceSum):
        return LaplaceNoise(scale=mechanism.scale)
    return GaussianNoise(noise_std=mechanism.noise_std)


def size_of(relation: Relation | None) -> int | None:
    """The public number of records, if there is one."""
    return relation.n if isinstance(relation, ReplaceOne) else None


def many(record: FloatArray, count: int) -> FloatArray:
    """Copies of a record, (count, ...)."""
    return np.broadcast_to(record, (count, *np.shape(record)))


def records(count: int, record: FloatArray) -> str:
    """In words."""
    largest = float(np.abs(record).max()) or 1.0  # its square may be no number
    number = largest * np.linalg.norm(record / largest) * (np.sign(np.ravel(record)[0]) or 1)
    return f"{count:,} {'record' if count == 1 else 'records'} of {number:g}"
