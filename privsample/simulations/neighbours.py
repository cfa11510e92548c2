"""The neighbouring datasets on which each mechanism's account is attained, with a way to draw and the density ratio."""

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import value
from privsample.distributions.families import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    Model,
    NormalKnownVariance,
)
from privsample.mechanisms.additive import AdditiveNoise, GaussianMechanism, LaplaceMechanism
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.posterior import PosteriorMechanism
from privsample.mechanisms.randomized import RandomizedResponse
from privsample.relations import ReplaceOne

MOST_RECORDS = 20_000_000
Dataset = Callable[[], FloatArray]
Records = tuple[float, float, float]  # what all other records hold, x and x'


@value
class Neighbours:
    """Two neighbouring datasets in words and built on demand, `draw` from either, and the log density ratio `loss`.

    `mechanism` makes one draw; `draw(data, count, rng)` gives `count` independent ones, each of `width` numbers.
    """

    mechanism: Mechanism
    words: tuple[str, str]
    datasets: tuple[Dataset, Dataset]
    draw: Callable[[FloatArray, int, np.random.Generator], FloatArray]
    loss: Callable[[FloatArray], FloatArray]
    width: int = 1


@singledispatch
def neighbours(mechanism: Mechanism) -> tuple[Neighbours, ...]:
    """The pairs that the account of one draw rests on; each is audited in both directions.

    A new mechanism registers its own. Raises: TypeError, for one that has none; ValueError, too many records.
    """
    raise TypeError(f"the worst neighbours of {type(mechanism).__name__} are not known to the audit")


@neighbours.register
def _(mechanism: PosteriorMechanism) -> tuple[Neighbours, ...]:
    if mechanism.n > MOST_RECORDS:
        raise ValueError(f"n = {mechanism.n} records are too many to simulate; audit with n = {MOST_RECORDS} or fewer")
    return tuple(_posterior_pair(mechanism, records) for records in extreme_records(mechanism.model))


def _posterior_pair(mechanism: PosteriorMechanism, records: Records) -> Neighbours:
    """All drawing goes through `release` on real records; the densities come from the model, by its own formula."""
    one: Any = replace(mechanism, draws=1)  # type: ignore[type-var]
    model, rest, (weight, divisor) = one.model, one.n - 1, one._weights
    others = rest * model.statistic(np.array(records[:1]))
    p, q = (
        model.posterior(others + model.statistic(np.array([x])), one.n, data_weight=weight, prior_divisor=divisor)
        for x in records[1:]
    )
    common, first, second = _in_the_column(one, records)

    def dataset(record: float) -> Dataset:
        return lambda: np.append(np.full(rest, common), record)

    def words(record: float) -> str:
        if rest == 0:
            return f"one record of {record:g}"
        if record == common:
            return f"{one.n:,} records, all {record:g}"
        return f"{rest:,} {'records' if rest > 1 else 'record'} of {common:g} and one of {record:g}"

    return Neighbours(
        mechanism=one,
        words=(words(first), words(second)),
        datasets=(dataset(first), dataset(second)),
        draw=lambda data, count, rng: replace(one, draws=count).release(data, rng=rng)[one.parameter],
        loss=lambda drawn: p.log_density(drawn) - q.log_density(drawn),
        width=int(np.size(p.mean)),
    )


def _in_the_column(mechanism: PosteriorMechanism, records: Records) -> Records:
    """Records of the model as a column holds them: a query over [0, 1] reads a column within its own bounds."""
    own, column = mechanism.model.domain, mechanism.domain
    stretch = (column.high - column.low) / (own.high - own.low)
    common, first, second = (column.low + stretch * (record - own.low) for record in records)
    return common, first, second


@singledispatch
def extreme_records(model: Model) -> tuple[Records, ...]:
    """Records that make neighbouring posteriors differ most (MATH section 2, the table). Raises: TypeError."""
    raise TypeError(f"the worst neighbours of a {type(model).__name__} posterior are not known to the audit")


@extreme_records.register
def _(_: BetaBernoulli) -> tuple[Records, ...]:
    return (0.0, 1.0, 0.0), (1.0, 1.0, 0.0)


@extreme_records.register
def _(model: DirichletCategorical) -> tuple[Records, ...]:
    i, j, *others = (float(k) for k in np.argsort(model.alpha, kind="stable"))
    return ((others[-1], i, j),) if others else ((i, i, j), (j, i, j))


@extreme_records.register
def _(model: GammaPoisson | GammaExponential) -> tuple[Records, ...]:
    return ((0.0, 0.0, float(model.upper)),)


@extreme_records.register
def _(model: NormalKnownVariance) -> tuple[Records, ...]:
    low, high = model.bounds
    return ((low, low, high),)


@neighbours.register
def _(mechanism: GaussianMechanism) -> tuple[Neighbours, ...]:
    shift, std = mechanism.sensitivity, mechanism.noise_std
    return (_additive_pair(mechanism, lambda noisy: (noisy - shift / 2) * -shift / std**2),)


@neighbours.register
def _(mechanism: LaplaceMechanism) -> tuple[Neighbours, ...]:
    shift, scale = mechanism.sensitivity, mechanism.scale
    return (_additive_pair(mechanism, lambda noisy: (np.abs(noisy - shift) - np.abs(noisy)) / scale),)


def _additive_pair(mechanism: AdditiveNoise, loss: Callable[[FloatArray], FloatArray]) -> Neighbours:
    """A statistic of zero, and one whose first coordinate is moved by the whole sensitivity; the rest tells nothing."""
    one: Any = replace(mechanism, draws=1)  # type: ignore[type-var]

    def dataset(first: float) -> Dataset:
        def build() -> FloatArray:
            statistic = np.zeros(one.shape)
            statistic.flat[0] = first
            return statistic

        return build

    return Neighbours(
        mechanism=one,
        words=("a statistic of 0", f"a statistic of {one.sensitivity:g}"),
        datasets=(dataset(0.0), dataset(one.sensitivity)),
        draw=lambda data, count, rng: replace(one, draws=count).release(data, rng=rng)["statistic"].reshape(count, -1),
        loss=lambda noisy: loss(noisy[:, 0]),
        width=int(np.prod(one.shape)),
    )


@neighbours.register
def _(mechanism: RandomizedResponse) -> tuple[Neighbours, ...]:
    """One answer. Records answer independently, so one release of many equal records gives as many draws."""
    if not isinstance(mechanism.relation, ReplaceOne) and mechanism.slots != 1:
        raise ValueError("answers in random order are not audited here; audit the same mechanism with slots = 1")

    def draw(data: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
        many = replace(mechanism, relation=ReplaceOne(n=count), slots=None)
        return many.release(np.broadcast_to(data, (count,)), rng=rng)["answers"][0]

    odds = mechanism.log_odds
    return (
        Neighbours(
            mechanism=mechanism,
            words=("a record of 0", "a record of 1"),
            datasets=(lambda: np.zeros(1), lambda: np.ones(1)),
            draw=draw,
            loss=lambda answers: np.where(answers == 0, odds, np.where(answers == 1, -odds, 0.0)),
        ),
    )
