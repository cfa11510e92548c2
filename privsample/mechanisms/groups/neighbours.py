"""Worst neighbours of a release for groups: those of the base, in each group to which a unit contributes."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, positive_integer
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.neighbours import Draw, Loss, Neighbours


def grouped_neighbours(mechanism: Any, group: int) -> tuple[Neighbours, ...]:
    """The neighbours of the base in as many groups as `group` units change, beside one group that they do not change.

    Raises TypeError if the base knows none.
    """
    group = positive_integer(group=group)
    bounds = mechanism.contribution
    changed = 1 if bounds is None else min(bounds.groups, len(mechanism.keys))
    records = group * (1 if bounds is None else bounds.records_per_group)
    keys = mechanism.keys[: changed + 1]
    sizes = None if mechanism.sizes is None else mechanism.sizes[: changed + 1]
    one = replace(mechanism, base=replace(mechanism.base, draws=1), keys=keys, sizes=sizes)
    first = one._base_of(0)
    return tuple(
        _in_groups(one, pair, changed=changed, units=group, bounded=bounds is not None)
        for pair in first.worst_neighbours(records)
    )


def _in_groups(one: Any, pair: Neighbours, *, changed: int, units: int, bounded: bool) -> Neighbours:
    """A pair of datasets of the base, in each of the first groups."""
    where = f"in {changed} {'group' if changed == 1 else 'groups'}: "

    def dataset(side: int) -> Any:
        own, other = (_read(one.base, pair.datasets[place]()) for place in (side, 1 - side))
        rest = [] if len(one.keys) == changed else [_read(one.base, _ordinary(one, changed))]
        parts = [own] * changed + rest
        sizes = [len(part) for part in parts]
        places = np.repeat(np.arange(len(parts)), sizes)
        records = one.base.record_format.to_data(np.concatenate(parts))
        groups = np.array(one.keys)[places]
        if not bounded:
            return groups if one.sizes is None else groups.tolist(), records
        return _units(len(own), len(other), changed, sum(sizes), units), groups.tolist(), records

    return Neighbours(
        account=one.accountant,
        descriptions=(where + pair.descriptions[0], where + pair.descriptions[1]),
        datasets=(lambda: dataset(0), lambda: dataset(1)),
        draw=_many(one),
        loss=None if pair.loss is None else _total(pair.loss, changed, pair.width),
        width=pair.width * len(one.keys),
    )


def _ordinary(one: Any, place: int) -> Any:
    """Records of a group that does not change: as many as are public, or none."""
    base: Mechanism = one._base_of(place)
    return one._no_records if one.sizes is None else base.worst_neighbours()[0].datasets[0]()


def _read(base: Mechanism, data: Any) -> NDArray[Any]:
    assert base.record_format is not None
    return base.record_format.read(data)


def _units(own: int, other: int, changed: int, total: int, units: int) -> list[str]:
    """The unit of each record: those beyond the other dataset's are of the units that are added, all others alone."""
    common = min(own, other)
    each = np.arange(own)
    added = [f"u{place % units}" if place >= common else None for place in each.tolist()]
    names = [name for _ in range(changed) for name in added] + [None] * (total - changed * own)
    return [f"v{place}" if name is None else name for place, name in enumerate(names)]


def _many(one: Any) -> Draw:
    """Many outputs at once: those of every group, one after the other."""

    def draw(data: Any, count: int, rng: np.random.Generator) -> FloatArray:
        sums, counts = one._statistic(data)
        each = []
        for place in range(len(counts)):
            rows = np.repeat(sums[place : place + 1], count, axis=0)
            found = one._base_of(place)._draw_groups(rows, np.repeat(counts[place], count), rng)
            each += [array[0].reshape(count, -1) for array in found.values()]
        return np.concatenate(each, axis=1).astype(np.float64)

    return draw


def _total(loss: Loss, changed: int, width: int) -> Loss:
    """The sum of the losses of the groups that change, which come first."""
    return lambda outputs: np.sum(
        [loss(outputs[:, place * width : (place + 1) * width]) for place in range(changed)], axis=0
    )
