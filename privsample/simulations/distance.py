"""Whether two datasets are neighbours: how many records apart they are."""

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from privsample.relations import AddRemove, Relation, ReplaceOne


def check_neighbours(relation: Relation, first: Any, second: Any, group: int) -> None:
    """Refuse datasets farther apart than `group` units of the relation.

    A dataset is an array with a record in each row, or a tuple of such arrays. Raises: ValueError.
    """
    if isinstance(relation, AddRemove):
        most, how = relation.members * group, "added or removed"
        apart = _added_or_removed(first, second)
    elif isinstance(relation, ReplaceOne):
        most, how = relation.members * group, "replaced"
        sizes = {_size(first), _size(second)}
        if sizes != {relation.n}:
            raise ValueError(
                f"both datasets must have the public n = {relation.n} records, got {_size(first)} and {_size(second)}"
            )
        apart = sum(one != other for one, other in zip(_records(first), _records(second), strict=True))
        apart = min(apart, _added_or_removed(first, second) // 2)
    else:
        return  # observations of profiles are not records: the mechanism itself checks their names
    if apart > most:
        raise ValueError(
            f"the datasets are not neighbours under {relation}: {apart} records must be {how} to go from one to the "
            f"other, at most {most} may; say group={-(-apart // relation.members)} to audit the claim for groups"
        )


def _added_or_removed(first: Any, second: Any) -> int:
    here, there = Counter(_records(first)), Counter(_records(second))
    return (here - there).total() + (there - here).total()


def _size(data: Any) -> int:
    return len(_columns(data)[0])


def _columns(data: Any) -> list[Any]:
    return [np.asarray(part) for part in (data if isinstance(data, tuple) else (data,))]


def _records(data: Any) -> Iterable[Hashable]:
    """Each record as bytes."""
    columns = _columns(data)
    if any(column.ndim == 0 or len(column) != len(columns[0]) for column in columns):
        raise ValueError("a dataset must be an array with a record in each row, or a tuple of equally long arrays")
    return zip(*([np.ascontiguousarray(row).tobytes() for row in column] for column in columns), strict=True)
