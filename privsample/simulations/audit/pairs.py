"""Pairs of neighbouring datasets made of a few records, for an audit to search where nobody knows the worst."""

from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import positive_integer
from privsample._value import value
from privsample.relations import AddRemove, Relation, ReplaceOne
from privsample.simulations.audit.distance import keys

MOST_RECORDS = 20_000_000
MOST_PAIRS = 64


@value
class Recipe:
    """Two neighbours, by the places of their records in a list: `shared` of them in both, and then `group` more.

    common: the place of all shared records, or None: all records in turn. second: None where the others are left out.
    """

    common: int | None
    first: int
    second: int | None
    shared: int
    group: int

    def places(self, side: int, count: int) -> NDArray[np.int64]:
        """Of the records of the first (0) or the second (1) dataset; the list has `count` records."""
        common = np.arange(self.shared) % count if self.common is None else np.full(self.shared, self.common)
        own = (self.first, self.second)[side]
        return common if own is None else np.append(common, np.full(self.group, own))


def recipes(count: int, relation: Relation, *, size: int | None, group: int, most: int) -> list[Recipe]:
    """As `neighbouring_pairs`, of `count` records. Raises: TypeError, ValueError."""
    replaced = isinstance(relation, ReplaceOne)
    if isinstance(relation, ReplaceOne):
        if size is not None:
            raise TypeError(f"size goes with AddRemove: under ReplaceOne the relation says it, n = {relation.n}")
        n, pairs = relation.n, count * (count - 1) // 2
    elif isinstance(relation, AddRemove):
        if size is None:
            raise TypeError("size must be given under AddRemove: how many records the larger dataset holds")
        n, pairs = positive_integer(size=size), count
    else:
        raise TypeError(f"relation must be ReplaceOne or AddRemove, got {relation!r}")
    if not pairs:
        raise ValueError("two different records are needed at least: one is replaced by the other")
    if group > n:
        raise ValueError(f"a group must be no larger than n = {n}, got {group}")
    shared = n - group
    commons = 1 if shared == 0 else count if min(count, shared) == 1 else count + 1

    def recipe(place: int) -> Recipe:
        common, at = divmod(place, pairs)
        second = (1 + isqrt(1 + 8 * at)) // 2 if replaced else None  # of the pairs in order of their later record
        first = at if second is None else at - second * (second - 1) // 2
        return Recipe(
            common=None if common == count else common, first=first, second=second, shared=shared, group=group
        )

    total = pairs * commons
    chosen = np.random.default_rng(0).choice(total, most, replace=False) if total > most else np.arange(total)
    return [recipe(place) for place in np.sort(chosen).tolist()]


def neighbouring_pairs(
    records: Any, relation: Relation, *, size: int | None = None, group: int = 1, most: int = MOST_PAIRS
) -> list[tuple[Any, Any]]:
    """Pairs of neighbouring datasets made of these records, to be passed to `audit` as `datasets`.

    Parameters:
    records: the most telling that are allowed, as far as you know: ends of bounds, each category, a missing one. An
        array with a record in each row, or a tuple of such arrays, as the datasets will be.
    relation: ReplaceOne(n): one record becomes another; AddRemove(): one is left out of `size`.
    group: how many records differ; they are equal, and the last ones.
    most: how many pairs; where there are more, a choice that is the same each time.
    The shared records are all equal, or all of `records` in turn. Raises: TypeError, ValueError.

    >>> first, second = neighbouring_pairs([0.0, 1.0], ReplaceOne(n=3))[0]
    >>> first.tolist(), second.tolist()
    ([0.0, 0.0, 0.0], [0.0, 0.0, 1.0])
    """
    columns = [np.asarray(part) for part in (records if isinstance(records, tuple) else (records,))]
    if any(column.ndim == 0 or len(column) != len(columns[0]) for column in columns) or not len(columns[0]):
        raise ValueError("records must be an array with a record in each row, or a tuple of equally long arrays")
    rows = list(zip(*map(keys, columns), strict=True))
    places = np.sort(list({row: at for at, row in reversed(list(enumerate(rows)))}.values()))
    most, group = positive_integer(most=most), positive_integer(group=group)
    found = recipes(len(places), relation, size=size, group=group, most=most)
    if 2 * len(found) * (found[0].shared + group) > MOST_RECORDS:
        raise ValueError(f"{len(found)} pairs hold more than {MOST_RECORDS:,} records: lower most, or n")

    def dataset(recipe: Recipe, side: int) -> Any:
        taken = tuple(column[places[recipe.places(side, len(places))]] for column in columns)
        return taken if isinstance(records, tuple) else taken[0]

    return [(dataset(recipe, 0), dataset(recipe, 1)) for recipe in found]


def sized(n: int, group: int) -> int:
    """How many of n records are left beside a group. Raises: ValueError, none are, or too many to simulate."""
    counted(n)
    if group > n:
        raise ValueError(f"a group must be no larger than n = {n}, got {group}")
    return n - group


def counted(size: int) -> None:
    """Refuse to build datasets of too many records. Raises: ValueError."""
    if size > MOST_RECORDS:
        raise ValueError(f"n = {size} records are too many to simulate; audit with n = {MOST_RECORDS} or fewer")
