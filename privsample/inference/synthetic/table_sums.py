"""Sums of small tables over a large one, and marginal tables of a large one, without a full pass for each of them.

Tables have a first axis for several distributions at once; "axes" are those after it.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from privsample._checks import FloatArray

Axes = tuple[int, ...]


class _Plan(NamedTuple):
    """The axis that the fewest sets of axes have, and the plans of those that lack it and of those that have it.

    axis: its place among the axes of the table, None if all sets have all axes. sets: the places of the sets.
    """

    axis: int | None
    sets: tuple[int, ...]
    lacking: "_Plan | None" = None
    having: "_Plan | None" = None


@cache
def _plan(over: Axes, wanted: tuple[tuple[int, Axes], ...]) -> _Plan:
    """The order of the work: axes that most sets lack are summed out first, or spread last, on small tables."""
    sets = tuple(place for place, _ in wanted)
    count, axis = min(((sum(axis in axes for _, axes in wanted), axis) for axis in over), default=(len(wanted), -1))
    if count == len(wanted):
        return _Plan(None, sets)
    lacking = tuple(item for item in wanted if axis not in item[1])
    having = tuple(item for item in wanted if axis in item[1])
    rest = tuple(other for other in over if other != axis)
    return _Plan(over.index(axis), sets, _plan(rest, lacking), _plan(over, having) if having else None)


def add_up(axes: Sequence[Axes], tables: Sequence[FloatArray], sizes: tuple[int, ...]) -> FloatArray:
    """The table whose cell is the sum of the cells of small tables; `axes`: those of each table, sorted.

    The result may be a read-only view.
    """
    plan = _plan(tuple(range(len(sizes))), tuple(enumerate(axes)))
    return _expanded(plan, tables, sizes)


def _expanded(plan: _Plan, tables: Sequence[FloatArray], sizes: tuple[int, ...]) -> FloatArray:
    if plan.axis is None:
        found = tables[plan.sets[0]]
        for place in plan.sets[1:]:
            found = found + tables[place]
        return found
    assert plan.lacking is not None
    rest = _expanded(plan.lacking, tables, sizes[: plan.axis] + sizes[plan.axis + 1 :])
    spread = np.expand_dims(rest, plan.axis + 1)
    if plan.having is not None:
        return _expanded(plan.having, tables, sizes) + spread
    return np.broadcast_to(spread, (len(rest), *sizes))


def marginals(table: FloatArray, wanted: Sequence[Axes]) -> list[FloatArray]:
    """The sums of a table over all axes but those wanted, for each wanted set of axes, which are sorted."""
    found: list[FloatArray] = [table] * len(wanted)
    if wanted:
        _sum_out(_plan(tuple(range(table.ndim - 1)), tuple(enumerate(wanted))), table, found)
    return found


def _sum_out(plan: _Plan, table: FloatArray, found: list[FloatArray]) -> None:
    if plan.axis is None:
        for place in plan.sets:
            found[place] = table
        return
    assert plan.lacking is not None
    _sum_out(plan.lacking, table.sum(axis=plan.axis + 1), found)
    if plan.having is not None:
        _sum_out(plan.having, table, found)
