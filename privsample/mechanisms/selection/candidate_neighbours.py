"""Worst neighbours of selections among candidates, found by comparing the selection probabilities."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.mechanisms.codes import code_loss, worst_rows
from privsample.mechanisms.neighbours import Dataset, Neighbours, pair_recipes
from privsample.relations import ReplaceOne

_SIZES, _MOST = (1, 2, 3, 5, 9), 64  # numbers of common records under AddRemove, and of pairs for each of them
_Case = tuple[tuple[str, str], tuple[Dataset, Dataset]]


def candidate_neighbours(mechanism: Any, group: int) -> tuple[Neighbours, ...]:
    """The cases with the largest privacy loss and with the largest total variation distance.

    Raises TypeError if no extreme records are known for the utility, and ValueError for groups larger than the data.
    """
    one = replace(mechanism, draws=1)
    records = one.utility.extreme_records(one.candidates)
    cases = list(_stated(one, group) if records is None else _of_records(one, records, group))
    built = [tuple(make() for make in datasets) for _, datasets in cases]
    chances = np.array([[one.probabilities(one._statistic(data)) for data in pair] for pair in built])
    ends = np.arange(2 * len(cases)).reshape(-1, 2)
    worst = worst_rows(chances.reshape(2 * len(cases), -1), ends)
    return tuple(
        Neighbours(
            account=one.accountant,
            descriptions=cases[at // 2][0],
            datasets=cases[at // 2][1],
            draw=one._many_draws(one),
            loss=code_loss(*chances[at // 2]),
        )
        for at, _ in worst
    )


def _stated(one: Any, group: int) -> Iterator[_Case]:
    """Utilities of which the first rises and the others fall by the sensitivity, unless the utility is monotone."""
    utility, count = one.utility, len(one.candidates)
    if getattr(utility, "function", None) is not None:
        raise TypeError("worst neighbours of a function are not known: pass datasets=(first, second)")
    low, high = utility.bounds or (-np.inf, np.inf)
    first, middle = np.arange(count) == 0, 0.0 if utility.bounds is None else (low + high) / 2
    size = utility.change_range(one.relation)
    change = np.where(first, size, 0.0) - (0.0 if utility.monotone else size / 2)
    if utility.changes is not None:
        change = utility.changes[np.ptp(utility.changes, axis=1).argmax()]
        first = change == change.max()
    moved = group * np.ptp(change)
    for tilt in (0.0, -moved / 2, -moved / 2 + one._unit * np.log(max(count / first.sum() - 1.0, 1e-3))):
        before = np.where(first, tilt, 0.0) + middle
        before, after = np.clip(before, low, high), np.clip(before + group * change, low, high)
        yield (_in_words(before), _in_words(after)), (_builder(before), _builder(after))


def _in_words(utilities: FloatArray) -> str:
    return f"utilities of {utilities[0]:.4g} and, for the others, {utilities[-1]:.4g}"


def _builder(data: Any) -> Dataset:
    return lambda: data


def _of_records(one: Any, records: list[Any], group: int) -> Iterator[_Case]:
    """Datasets made of a utility's extreme records."""

    def make(held: list[Any]) -> Any:
        return one.utility.dataset(held, one.candidates)

    replaced = isinstance(one.relation, ReplaceOne)
    for common in (None,) if replaced else _SIZES:
        size = None if common is None else common + group - 1
        for recipe in pair_recipes(len(records), one.relation, size=size, group=group, most=_MOST):
            places = [recipe.places(side, len(records)) for side in (0, 1)]
            yield (
                (_counted(places[0]), _counted(places[1])),
                (_rows(make, records, places[0]), _rows(make, records, places[1])),
            )


def _rows(make: Callable[[list[Any]], Any], records: list[Any], places: Any) -> Dataset:
    return lambda: make([records[place] for place in places])


def _counted(places: Any) -> str:
    counts = np.bincount(places)
    return (
        "extreme records "
        + ", ".join(f"{count:,} times number {number + 1}" for number, count in enumerate(counts) if count)
        if len(places)
        else "no records"
    )
