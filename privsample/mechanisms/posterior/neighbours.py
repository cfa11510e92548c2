"""Worst neighbours of mechanisms on one column of records."""

from collections.abc import Callable
from math import prod

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.base import Accountant
from privsample.distributions.domains import Domain
from privsample.distributions.models.base import Model, Records
from privsample.mechanisms.neighbours import Dataset, Draw, Loss, Neighbours

LogDensity = Callable[[FloatArray], FloatArray]


def in_column(records: Records, model: Domain, column: Domain) -> Records:
    """Records of the model in the unit of the column: a query on [0, 1] reads a column within its own bounds."""
    stretch = (column.high - column.low) / (model.high - model.low)
    common, first, second = (column.low + stretch * (record - model.low) for record in records)
    return common, first, second


def column_pair(
    *,
    model: Model,
    n: int,
    domain: Domain,
    account: Accountant,
    draw: Draw,
    records: Records,
    group: int,
    log_density: Callable[[FloatArray], LogDensity] | None,
    raised: int = 0,
) -> Neighbours:
    """Two columns of n records that differ in `group` records.

    log_density: maps the statistic of the data to the log density of an output; None if an audit must learn the score.
    raised: number of common records that are equal to the last of `records` in place of the first.
    """
    rest = n - group
    shared, here, there = (model.statistic(np.array([x])) for x in records)
    others = (rest - raised) * shared + raised * there
    common, first, second = in_column(records, model.domain, domain)
    loss = None
    if log_density is not None:
        loss = _loss(log_density(others + group * here), log_density(others + group * there))

    def dataset(record: float) -> Dataset:
        return lambda: np.repeat([common, second, record], [rest - raised, raised, group])

    def describe(record: float) -> str:
        few = "one" if group == 1 else f"{group:,}"
        if rest == 0:
            return f"{few} {'record' if group == 1 else 'records'} of {record:g}"
        if raised:
            return f"{rest - raised:,} of {common:g}, {raised:,} of {second:g} and {few} of {record:g}"
        if record == common:
            return f"{n:,} records, all {record:g}"
        return f"{rest:,} {'records' if rest > 1 else 'record'} of {common:g} and {few} of {record:g}"

    return Neighbours(
        account=account,
        descriptions=(describe(first), describe(second)),
        datasets=(dataset(first), dataset(second)),
        draw=draw,
        loss=loss,
        width=prod(model.draw_shape),
    )


def _loss(above: LogDensity, below: LogDensity) -> Loss:
    return lambda drawn: above(drawn) - below(drawn)
