"""Worst neighbours of regressions drawn by Langevin chains: longest rows with extreme targets, among rows that push.

The gradient of a record is slope times row. A row with either extreme target moves the state in opposite directions;
other rows that push the state away from 0 make the slope of the differing record larger (langevin.md, section 4).
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.mechanisms.neighbours import Dataset, Neighbours, records_outside_group
from privsample.relations import ReplaceOne

if TYPE_CHECKING:
    from privsample.mechanisms.posterior.langevin import LangevinPosterior

_TILT = 0.15 * np.pi  # between mirrored rows and the direction that the other rows push along


@frozen_value
class _Record:
    """A row by its first two entries, and its target."""

    row: tuple[float, float]
    target: float

    def __str__(self) -> str:
        numbers = ", ".join(f"{entry:.4g}" for entry in self.row if entry) or "0"
        return f"({numbers}) with target {self.target:g}"


def langevin_neighbours(mechanism: "LangevinPosterior", group: int) -> tuple[Neighbours, ...]:
    """The longest row with either extreme target, or with and without it; and rows whose slopes others push up."""
    one, most = replace(mechanism, draws=1), mechanism._most_records
    rest = records_outside_group(group, most)
    return tuple(_pair(one, rest, group, *records) for records in _records(one, rest))


def _records(one: "LangevinPosterior", rest: int) -> Iterator[tuple[_Record | None, _Record, _Record | None]]:
    """The common record, None for rows of zeros with both targets in turn, and the two that differ, None for none."""
    first, second = one.likelihood.extreme_targets
    high, low = _Record(row=(one.norm, 0.0), target=first), _Record(row=(one.norm, 0.0), target=second)
    if not isinstance(one.relation, ReplaceOne):
        yield None, high, None
        if rest:
            yield low, high, None
        return
    yield None, high, low
    if rest and one.features > 1:
        across, along = one.norm * np.cos(_TILT), one.norm * np.sin(_TILT)
        mirrored = [_Record(row=(float(side * across), -float(along)), target=first) for side in (1.0, -1.0)]
        yield _Record(row=(0.0, one.norm), target=first), mirrored[0], mirrored[1]


def _pair(
    one: "LangevinPosterior", rest: int, group: int, common: _Record | None, first: _Record, second: _Record | None
) -> Neighbours:
    among = f"{group:,} of {one._most_records:,} rows "
    return Neighbours(
        account=one.accountant,
        descriptions=(f"{among}{first}", f"{among}{second}" if second else f"the other {rest:,} rows"),
        datasets=(_dataset(one, rest, group, common, first), _dataset(one, rest, group, common, second)),
        draw=partial(rows_of_draws, one),
        width=one._dimension,
    )


def _dataset(one: "LangevinPosterior", rest: int, group: int, common: _Record | None, own: _Record | None) -> Dataset:
    """`rest` common records, and `group` times the record `own` unless it is None."""

    def build() -> tuple[FloatArray, FloatArray]:
        size = rest + (group if own else 0)
        table, targets = np.zeros((size, one.features)), np.empty(size)
        targets[:rest] = np.resize(one.likelihood.extreme_targets, rest)
        for part, record in ((slice(0, rest), common), (slice(rest, size), own)):
            if record is not None:
                table[part, :2] = record.row[: one.features]
                targets[part] = record.target
        return table, targets

    return build


def rows_of_draws(one: "LangevinPosterior", data: Any, count: int, rng: np.random.Generator) -> FloatArray:
    """`count` independent draws in rows, by as many chains of one release."""
    draws = replace(one, draws=count).release(data, rng=rng).draws
    return np.column_stack([np.reshape(draws[name], (count, -1)) for name in sorted(draws)])
