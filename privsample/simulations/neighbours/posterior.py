"""The neighbours that conjugate posteriors tell apart best."""

from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.families import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    Model,
    NormalKnownVariance,
)
from privsample.mechanisms.posterior import PosteriorMechanism
from privsample.simulations.neighbours.base import Dataset, Neighbours, counted, neighbours

Records = tuple[float, float, float]  # what all other records hold, x and x'


@neighbours.register
def _(mechanism: PosteriorMechanism, group: int = 1) -> tuple[Neighbours, ...]:
    counted(mechanism.n)
    if group > mechanism.n:
        raise ValueError(f"a group must be no larger than n = {mechanism.n}, got {group}")
    return tuple(_posterior_pair(mechanism, records, group) for records in extreme_records(mechanism.model))


def _posterior_pair(mechanism: PosteriorMechanism, records: Records, group: int) -> Neighbours:
    """All drawing goes through `release` on real records; the densities come from the model, by its own formula."""
    one: Any = replace(mechanism, draws=1)  # type: ignore[type-var]
    model, rest, (weight, divisor) = one.model, one.n - group, one._weights
    others = rest * model.statistic(np.array(records[:1]))
    p, q = (
        model.posterior(
            others + group * model.statistic(np.array([x])), one.n, data_weight=weight, prior_divisor=divisor
        )
        for x in records[1:]
    )
    common, first, second = _in_the_column(one, records)

    def dataset(record: float) -> Dataset:
        return lambda: np.append(np.full(rest, common), np.full(group, record))

    def words(record: float) -> str:
        few = "one" if group == 1 else f"{group:,}"
        if rest == 0:
            return f"{few} {'record' if group == 1 else 'records'} of {record:g}"
        if record == common:
            return f"{one.n:,} records, all {record:g}"
        return f"{rest:,} {'records' if rest > 1 else 'record'} of {common:g} and {few} of {record:g}"

    width = int(np.size(p.mean))

    def shaped(drawn: FloatArray) -> FloatArray:
        return drawn if np.ndim(p.mean) else drawn[:, 0]

    return Neighbours(
        account=one.accountant,
        words=(words(first), words(second)),
        datasets=(dataset(first), dataset(second)),
        draw=lambda data, count, rng: replace(one, draws=count).release(data, rng=rng)[one.parameter],
        loss=lambda drawn: p.log_density(shaped(drawn)) - q.log_density(shaped(drawn)),
        width=width,
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
