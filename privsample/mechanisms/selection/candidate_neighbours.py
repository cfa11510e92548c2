"""Worst neighbours of selections among candidates, found by comparing the selection probabilities."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.mechanisms.codes import code_loss
from privsample.mechanisms.neighbours import Dataset, Neighbours, pair_recipes, public_size, records_outside_group
from privsample.mechanisms.selection.utilities import StatedUtility, SummedUtility
from privsample.relations import AddRemove

_LEVELS = (0.13, 0.4, 0.58, 0.7)  # parts of the loss range at which a worst case is sought
_TILTS = np.linspace(-1.0, 1.0, 121)  # of the log-odds of two candidates, in parts of the largest tilt
_DEEP = 30.0  # log-odds by which all other candidates are worse
_SIZES, _MOST = (1, 2, 3, 5, 9), 64  # numbers of common records under AddRemove, and of pairs for each of them
_MOST_RATINGS = 5_000  # rows that tilt, and rows that lower the other candidates, where their number is not public
_Case = tuple[tuple[str, str], tuple[Dataset, Dataset], FloatArray]  # descriptions, data, and utilities of both


def candidate_neighbours(mechanism: Any, group: int) -> tuple[Neighbours, ...]:
    """The cases with the largest privacy curve, each at one of several epsilons.

    Raises TypeError if no extreme records are known for the utility, and ValueError for groups larger than the data.
    """
    one = replace(mechanism, draws=1)
    cases = list(_cases(one, group))
    chances = np.array([[one.probabilities(utilities) for utilities in case[2]] for case in cases])
    worst = dict.fromkeys(_largest(chances, level * group * one.loss_range) for level in _LEVELS)
    return tuple(
        Neighbours(
            account=one.accountant,
            descriptions=cases[at][0],
            datasets=cases[at][1],
            draw=one._many_draws(one),
            loss=code_loss(*chances[at]),
        )
        for at in worst
    )


def _largest(chances: FloatArray, epsilon: float) -> int:
    """The case with the largest privacy curve at epsilon in either order; `chances`: shape (cases, 2, candidates)."""
    reverse, grown = chances[:, ::-1], np.exp(epsilon)
    curves = [np.maximum(both[:, 0] - grown * both[:, 1], 0.0).sum(axis=1) for both in (chances, reverse)]
    return int(np.max(curves, axis=0).argmax())


def _cases(one: Any, group: int) -> Iterator[_Case]:
    """Neighbouring data with their descriptions and utilities."""
    match one.utility:
        case StatedUtility():
            return _stated(one, group)
        case SummedUtility():
            return _summed(one, group)
        case _:
            return _of_records(one, group)


def _tilts(one: Any, group: int) -> FloatArray:
    """Differences of the utilities of two candidates to try, in the unit of the utilities."""
    return np.asarray(one._unit * (group * one.loss_range + 2.0) * _TILTS)


def _stated(one: Any, group: int) -> Iterator[_Case]:
    """Utilities of which one rises and another falls by as much as one record allows; all others are far below."""
    utility = one.utility
    if utility.function is not None:
        raise TypeError("worst neighbours of a function are not known: pass datasets=(first, second)")
    size, places = utility.change_range(one.relation), np.arange(len(one.candidates))
    change = np.where(places == 0, size, 0.0) - (0.0 if utility.monotone else size / 2)
    if utility.changes is not None:
        change = utility.changes[np.ptp(utility.changes, axis=1).argmax()]
    up, down = int(change.argmax()), int(change.argmin())
    low, high = utility.bounds or (-np.inf, np.inf)
    middle = 0.0 if utility.bounds is None else (low + high) / 2
    depth = _DEEP * one._unit + float(_tilts(one, group)[-1])
    for tilt in _tilts(one, group):
        before = np.full(len(places), middle - depth)
        before[[up, down]] = middle + tilt, middle
        before, after = np.clip(before, low, high), np.clip(before + group * change, low, high)
        yield (_in_words(before, up), _in_words(after, up)), (_held(before), _held(after)), np.stack([before, after])


def _in_words(utilities: FloatArray, place: int) -> str:
    others = np.delete(utilities, place)
    return f"utilities of {utilities[place]:.4g} for candidate {place}, and at most {others.max():.4g} for the others"


def _held(data: Any) -> Dataset:
    return lambda: data


def _summed(one: Any, group: int) -> Iterator[_Case]:
    """Ratings that tilt the first two candidates, low ratings of all others, and a group that favours the first."""
    (low, high), count, n = one.utility.bounds, len(one.candidates), public_size(one.relation)
    width, others = high - low, np.where(np.arange(len(one.candidates)) < 2, high, low)
    first, second = (np.where(np.arange(count) == place, low, others) for place in (1, 0))
    free = _MOST_RATINGS if n is None else records_outside_group(group, n)
    deep = min(int(np.ceil(_DEEP * one._unit / width)), _MOST_RATINGS) if count > 2 else 0
    for tilt in _tilts(one, group):
        steps = int(min(np.ceil(abs(tilt) / width), free))
        share = min(abs(tilt) / width / steps, 1.0) if steps else 0.0
        toward = others.copy()
        toward[int(tilt > 0)] = high - share * width
        common = [(toward, steps), (others, deep if n is None else free - steps)]
        sides = [[*common, (first, group)], common if n is None else [*common, (second, group)]]
        said = f"{steps:,} ratings that tilt by {np.sign(tilt) * share * width:.4g}"
        yield (
            (f"{said}, {group:,} for the first candidate", f"{said}, {'no others' if n is None else 'the second'}"),
            (_repeated(sides[0], count), _repeated(sides[1], count)),
            np.stack([_totals(one, side) for side in sides]),
        )


def _repeated(parts: list[tuple[FloatArray, int]], count: int) -> Dataset:
    """Rows, each as often as its number says."""
    return lambda: np.concatenate([np.empty((0, count)), *(np.tile(row, (times, 1)) for row, times in parts)])


def _totals(one: Any, parts: list[tuple[FloatArray, int]]) -> FloatArray:
    """The utilities of repeated rows."""
    each = [times * one.utility.totals(row[None], one.candidates, AddRemove()) for row, times in parts]
    return np.asarray(np.sum(each, axis=0))


def _of_records(one: Any, group: int) -> Iterator[_Case]:
    """Datasets made of a utility's extreme records."""
    records, n = one.utility.extreme_records(one.candidates), public_size(one.relation)
    if records is None:
        raise TypeError(f"{type(one.utility).__name__} defines no extreme records: pass datasets=(first, second)")
    if n is not None:
        records_outside_group(group, n)
    for common in (None,) if n is not None else _SIZES:
        size = None if common is None else common + group - 1
        for recipe in pair_recipes(len(records), one.relation, size=size, group=group, most=_MOST):
            places = [recipe.places(side, len(records)) for side in (0, 1)]
            built = [_chosen(one, records, side) for side in places]
            yield (
                (_counted(places[0], records), _counted(places[1], records)),
                (built[0], built[1]),
                np.stack([one.utility.totals(make(), one.candidates, one.relation) for make in built]),
            )


def _chosen(one: Any, records: list[Any], places: Any) -> Dataset:
    return lambda: one.utility.dataset([records[place] for place in places], one.candidates)


def _counted(places: Any, records: list[Any]) -> str:
    """How often each record occurs."""
    counts = np.bincount(places, minlength=len(records))
    held = [f"{count:,} of {record}" for record, count in zip(records, counts, strict=True) if count]
    return ", ".join(held) or "no records"
