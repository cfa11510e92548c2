"""The neighbours that conjugate posteriors and noisy statistics tell apart best."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.models.base import Records
from privsample.distributions.models.moments import MomentModel
from privsample.mechanisms.noise.statistics import NoisyStatistics
from privsample.mechanisms.posterior.conjugate import ConjugateMechanism, PosteriorMechanism
from privsample.simulations.audit.base import Dataset, Neighbours, neighbours
from privsample.simulations.audit.neighbours.moments import moment_pairs
from privsample.simulations.audit.pairs import sized

Density = Callable[[FloatArray], FloatArray]


@neighbours.register
def _(mechanism: PosteriorMechanism, group: int = 1) -> tuple[Neighbours, ...]:
    model, (weight, divisor) = mechanism.model, mechanism._weights

    def density(statistic: FloatArray) -> Density:
        law = model.posterior(statistic, mechanism.n, data_weight=weight, prior_divisor=divisor)
        return lambda drawn: law.log_density(drawn if np.ndim(law.mean) else drawn[:, 0])

    return _pairs(mechanism, group, density)


@neighbours.register
def _(mechanism: NoisyStatistics, group: int = 1) -> tuple[Neighbours, ...]:
    if isinstance(mechanism.model, MomentModel):
        return moment_pairs(mechanism, group)
    law = mechanism.law
    return _pairs(mechanism, group, lambda at: lambda drawn: law.log_mass(drawn - at).sum(axis=1))


def _pairs(
    mechanism: ConjugateMechanism, group: int, density: Callable[[FloatArray], Density] | None
) -> tuple[Neighbours, ...]:
    sized(mechanism.n, group)
    return tuple(pair(mechanism, records, group, density) for records in mechanism.model.extreme_records)


def pair(
    mechanism: ConjugateMechanism,
    records: Records,
    group: int,
    density: Callable[[FloatArray], Density] | None,
    *,
    raised: int = 0,
) -> Neighbours:
    """All drawing goes through `release` on real records; the densities are of statistics worked out here.

    raised: how many of the others hold the last of `records` in place of the first.
    """
    one: Any = replace(mechanism, draws=1)  # type: ignore[type-var]
    model, rest = one.model, one.n - group
    shared, here, there = (model.statistic(np.array([x])) for x in records)
    others = (rest - raised) * shared + raised * there
    p, q = others + group * here, others + group * there
    common, first, second = in_the_column(one, records)
    loss = None
    if density is not None:
        above, below = density(p), density(q)
        loss = lambda drawn: above(drawn) - below(drawn)  # noqa: E731

    def own(rng: np.random.Generator) -> np.random.Generator | None:
        return None if getattr(one, "sampler", "numpy") == "opendp" else rng  # OpenDP draws from its own source

    def dataset(record: float) -> Dataset:
        return lambda: np.repeat([common, second, record], [rest - raised, raised, group])

    def words(record: float) -> str:
        few = "one" if group == 1 else f"{group:,}"
        if rest == 0:
            return f"{few} {'record' if group == 1 else 'records'} of {record:g}"
        if raised:
            return f"{rest - raised:,} of {common:g}, {raised:,} of {second:g} and {few} of {record:g}"
        if record == common:
            return f"{one.n:,} records, all {record:g}"
        return f"{rest:,} {'records' if rest > 1 else 'record'} of {common:g} and {few} of {record:g}"

    return Neighbours(
        account=one.accountant,
        words=(words(first), words(second)),
        datasets=(dataset(first), dataset(second)),
        draw=lambda data, count, rng: replace(one, draws=count).release(data, rng=own(rng))[one.parameter],
        loss=loss,
        width=int(np.size(model.empty)),
    )


def in_the_column(mechanism: ConjugateMechanism, records: Records) -> Records:
    """Records of the model as a column holds them: a query over [0, 1] reads a column within its own bounds."""
    own, column = mechanism.model.domain, mechanism.domain
    stretch = (column.high - column.low) / (own.high - own.low)
    common, first, second = (column.low + stretch * (record - own.low) for record in records)
    return common, first, second
