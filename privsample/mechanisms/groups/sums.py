"""Exact sums of records by group: each record becomes integers on a public grid, which are added for each group."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.distributions.exact.grid import Grid
from privsample.mechanisms.tallies.rule import RecordRule

_LARGEST = 2**62
_LIMB = 31  # bits: sums of 2^31 numbers of so many bits fit in 64 bits

Integers = NDArray[np.int64]


def record_offsets(rule: RecordRule, column: NDArray[Any]) -> Integers:
    """The index of each record on the grid of the rule, counted from `rule.first`: from 0 to 2^53."""
    cleaned = np.asarray(rule.domain.clean(column), dtype=np.float64)
    steps = cleaned if rule.pitch == 1 else np.ldexp(cleaned, -Grid(pitch=rule.pitch).exponent)
    low = float(rule.first)  # exact, as in `index_sum`
    found: Integers = (np.clip(np.rint(steps), low, float(rule.last)) - low).astype(np.int64)
    return found


def grouped_sums(
    rule: RecordRule, places: Integers, offsets: Integers, groups: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The integers of each group, shape (groups, k), and its number of records, shape (groups,)."""
    if rule.kind == "codes":
        codes = rule.last + 1
        tables = np.bincount(places * codes + (offsets + rule.first), minlength=groups * codes)
        return tables.reshape(groups, codes), tables.reshape(groups, codes).sum(axis=1)
    counts = np.bincount(places, minlength=groups)
    totals = sums_by_place(places, offsets, counts, rule.last - rule.first)
    most = int(counts.max(initial=0)) * max(abs(rule.first), abs(rule.last))
    if most < _LARGEST:
        return (totals + rule.first * counts)[:, None], counts
    shifts = counts.astype(object) * rule.first
    return (totals.astype(object) + shifts)[:, None], counts


def sums_by_place(places: Integers, numbers: Integers, counts: NDArray[np.int64], largest: int) -> NDArray[Any]:
    """The exact sum of whole numbers from 0 to `largest` for each place, of which each occurs `counts` times."""
    if int(counts.max(initial=0)) * largest < _LARGEST:
        return _added(places, numbers, len(counts))
    high, low = numbers >> _LIMB, numbers & ((1 << _LIMB) - 1)
    upper, lower = (_added(places, limb, len(counts)).astype(object) for limb in (high, low))
    found: NDArray[Any] = upper * (1 << _LIMB) + lower
    return found


def _added(places: Integers, numbers: Integers, groups: int) -> Integers:
    """Sums in 64 bits, which hold them."""
    total = np.zeros(groups, dtype=np.int64)
    np.add.at(total, places, numbers)
    return total


def sums_of_groups(mechanism: Any, places: Integers, records: FloatArray, groups: int) -> tuple[NDArray[Any], Integers]:
    """As `grouped_sums`, for a mechanism without a rule: its own integers of each record or each group with records."""
    if hasattr(mechanism, "_row_indices"):
        return _sums_of_rows(places, mechanism._row_indices(records), groups)
    order = np.argsort(places, kind="stable")
    counts = np.bincount(places, minlength=groups)
    ends = np.cumsum(counts)
    sorted_records = records[order]

    def integers(first: int, end: int) -> tuple[int, ...]:
        found: tuple[int, ...] = mechanism._integers(mechanism.record_format.to_data(sorted_records[first:end]))[0]
        return found

    nothing = integers(0, 0)
    rows = np.array([list(nothing)], dtype=object).repeat(groups, axis=0)
    for place in np.flatnonzero(counts).tolist():
        end = int(ends[place])
        rows[place] = integers(end - int(counts[place]), end)
    return rows, counts


def _sums_of_rows(places: Integers, rows: FloatArray, groups: int) -> tuple[NDArray[Any], Integers]:
    """As `grouped_sums`, for rows of whole numbers that doubles hold, shape (n, k)."""
    counts = np.bincount(places, minlength=groups)
    far = int(np.abs(rows).max(initial=0.0))
    totals = [sums_by_place(places, column.astype(np.int64) + far, counts, 2 * far) for column in rows.T]
    shifts = counts.astype(object) * far
    return np.stack([total.astype(object) - shifts for total in totals], axis=1), counts
