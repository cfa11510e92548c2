"""Candidate pairs of neighbouring datasets, for audits of mechanisms whose worst pair is not known."""

from typing import Any

import numpy as np

from privsample._checks import positive_integer
from privsample.mechanisms.neighbours import MOST_PAIRS, MOST_RECORDS, PairRecipe, pair_recipes
from privsample.relations import Relation
from privsample.simulations.audit.distance import row_keys


def neighbouring_pairs(
    records: Any, relation: Relation, *, size: int | None = None, group: int = 1, most: int = MOST_PAIRS
) -> list[tuple[Any, Any]]:
    """Build pairs of neighbouring datasets from a few extreme records, to be passed to `audit` as `datasets`.

    Each pair shares all records but `group`. The shared records are all equal, or cycle through all of `records`. The
    `group` records in which the datasets differ are equal to one another and come last.

    Parameters
    ----------
    records : array_like or tuple of array_like
        The records that are expected to be most revealing: ends of bounds, each category, a missing value. An array
        with a record in each row, or a tuple of equally long arrays; the datasets have the same form.
    relation : Relation
        The neighbouring relation: `ReplaceOne(n=...)`, where records are replaced, or `AddRemove()`, where records are
        left out.
    size : int, optional
        Number of records of the larger dataset under `AddRemove`; not allowed under `ReplaceOne`, whose n is the size.
    group : int, default 1
        Number of records in which the datasets differ, >= 1.
    most : int, default 64
        Maximum number of pairs, >= 1. If there are more, a fixed selection of them is returned.

    Returns
    -------
    list of tuple
        Pairs (first, second) of datasets.

    Raises
    ------
    TypeError
        If the relation is not one of the two, or `size` is missing under `AddRemove` or given under `ReplaceOne`.
    ValueError
        If `records` is empty or ragged, or the pairs would hold too many records.

    Examples
    --------
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
