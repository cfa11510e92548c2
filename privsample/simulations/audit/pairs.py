"""Pairs of neighbouring datasets made of a few records, for an audit to search where nobody knows the worst."""

from typing import Any

import numpy as np

from privsample._checks import positive_integer
from privsample.mechanisms.neighbours import MOST_PAIRS, MOST_RECORDS, PairRecipe, pair_recipes
from privsample.relations import Relation
from privsample.simulations.audit.distance import row_keys


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

    >>> from privsample import ReplaceOne
    >>> first, second = neighbouring_pairs([0.0, 1.0], ReplaceOne(n=3))[0]
    >>> first.tolist(), second.tolist()
    ([0.0, 0.0, 0.0], [0.0, 0.0, 1.0])
    """
    columns = [np.asarray(part) for part in (records if isinstance(records, tuple) else (records,))]
    if (
        not columns
        or any(column.ndim == 0 or len(column) != len(columns[0]) for column in columns)
        or not len(columns[0])
    ):
        raise ValueError("records must be an array with a record in each row, or a tuple of equally long arrays")
    rows = list(zip(*map(row_keys, columns), strict=True))
    places = np.sort(list({row: at for at, row in reversed(list(enumerate(rows)))}.values()))
    most, group = positive_integer(most=most), positive_integer(group=group)
    found = pair_recipes(len(places), relation, size=size, group=group, most=most)
    if 2 * len(found) * (found[0].shared + group) > MOST_RECORDS:
        raise ValueError(f"{len(found)} pairs hold more than {MOST_RECORDS:,} records: lower most, or n")

    def dataset(recipe: PairRecipe, side: int) -> Any:
        taken = tuple(column[places[recipe.places(side, len(places))]] for column in columns)
        return taken if isinstance(records, tuple) else taken[0]

    return [(dataset(recipe, 0), dataset(recipe, 1)) for recipe in found]
