"""Sums of small tables over a large one, and marginal tables of a large one, without a full pass for each of them."""

from collections.abc import Sequence

import numpy as np

from privsample._checks import FloatArray

Axes = tuple[int, ...]


def add_up(shape: tuple[int, ...], axes: Sequence[Axes], tables: Sequence[FloatArray]) -> FloatArray:
    """The table of this shape whose cell is the sum of the cells of small tables; `axes`: those of each table, sorted.

    An axis that most tables lack is added last, so that most of the work is done on smaller tables.
    """
    if not axes:
        return np.zeros(shape)
    return _expanded(tuple(range(len(shape))), shape, list(zip(axes, tables, strict=True)))


def _expanded(over: Axes, shape: tuple[int, ...], parts: list[tuple[Axes, FloatArray]]) -> FloatArray:
    axis = _rarest(over, [axes for axes, _ in parts])
    if axis is None:
        return np.sum([table for _, table in parts], axis=0)
    lacking = [part for part in parts if axis not in part[0]]
    having = [part for part in parts if axis in part[0]]
    place = over.index(axis)
    rest = _expanded(over[:place] + over[place + 1 :], shape[:place] + shape[place + 1 :], lacking)
    spread = np.expand_dims(rest, place)
    return _expanded(over, shape, having) + spread if having else np.broadcast_to(spread, shape)


def marginals(table: FloatArray, wanted: Sequence[Axes]) -> list[FloatArray]:
    """The sums of a table over all axes but those wanted, for each wanted set of axes, which are sorted."""
    found: list[FloatArray] = [np.empty(0)] * len(wanted)
    _sum_out(table, tuple(range(table.ndim)), list(enumerate(wanted)), found)
    return found


def _sum_out(table: FloatArray, over: Axes, wanted: list[tuple[int, Axes]], found: list[FloatArray]) -> None:
    axis = _rarest(over, [axes for _, axes in wanted])
    if axis is None:
        for place, _ in wanted:
            found[place] = table
        return
    lacking = [item for item in wanted if axis not in item[1]]
    having = [item for item in wanted if axis in item[1]]
    place = over.index(axis)
    _sum_out(table.sum(axis=place), over[:place] + over[place + 1 :], lacking, found)
    if having:
        _sum_out(table, over, having, found)


def _rarest(over: Axes, wanted: list[Axes]) -> int | None:
    """The axis that the fewest sets have, among those that some set lacks; None if all sets have all axes."""
    counts = [(sum(axis in axes for axes in wanted), axis) for axis in over]
    count, axis = min(counts, default=(len(wanted), -1))
    return None if count == len(wanted) else axis
