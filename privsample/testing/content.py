"""Comparison of values by content, and datasets with unusual records."""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

_NUMBERS = (math.nan, math.inf, -math.inf, 1e308, -1e308, -1.0, 0.5, 1e-320)
_EXTREMES = (-1e300, 1e300)
_OBJECTS = (None, "text", b"bytes", 1j, 2**2000, -(2**2000), [2], math.nan)


def same_content(one: Any, other: Any) -> bool:
    """Return whether two values have equal types and contents; NaN equals NaN."""
    if one is other:
        return True
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            return False
        if one.dtype.hasobject:
            return all(map(same_content, one.ravel().tolist(), other.ravel().tolist()))
        return np.ma.getmaskarray(one).tobytes() == np.ma.getmaskarray(other).tobytes() and bool(
            np.array_equal(np.ma.getdata(one), np.ma.getdata(other), equal_nan=one.dtype.kind in "fc")
        )
    if type(one) is not type(other):
        return False
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same_content(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same_content, one, other))
    if is_dataclass(one):
        return all(same_content(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    return bool(np.all(one == other))


@dataclass(frozen=True, slots=True)
class OddCase:
    """A dataset with an unusual record, and one in the same container with ordinary records only."""

    description: str
    ordinary: Any
    odd: Any


def odd_cases(data: Any) -> Iterator[OddCase]:
    """Yield datasets of the same schema with unusual values; data are arrays, lists, numbers, or tuples of these."""
    if isinstance(data, tuple) and not all(isinstance(part, (int, float, str)) for part in data):
        for place, part in enumerate(data):
            for case in odd_cases(part):
                yield OddCase(
                    f"{case.description} in part {place}",
                    (*data[:place], case.ordinary, *data[place + 1 :]),
                    (*data[:place], case.odd, *data[place + 1 :]),
                )
        return
    if isinstance(data, Mapping):
        for key, part in data.items():
            for case in odd_cases(part) if isinstance(part, np.ndarray) else ():
                yield OddCase(f"{case.description} in {key!r}", {**data, key: case.ordinary}, {**data, key: case.odd})
        return
    try:
        array = np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError):
        return
    if array.size:
        yield from _odd_arrays(array)


def _odd_arrays(array: Any) -> Iterator[OddCase]:
    """Yield arrays with an unusual record in the first place, or only unusual records."""
    first = (0,) * array.ndim
    for number in _NUMBERS:
        yield OddCase(f"a record of {number!r}", array, _with(array, first, number))
    yield OddCase("all records NaN", array, np.full(array.shape, np.nan))
    yield OddCase("all records infinite", array, np.full(array.shape, np.inf))
    unmasked = np.ma.array(array, mask=np.zeros(array.shape, dtype=bool))
    masked = np.ma.array(array, mask=unmasked.mask.copy())
    masked[first] = np.ma.masked
    yield OddCase("a masked record", unmasked, masked)
    if not array.ndim:
        return  # a single number is the whole dataset: a string in its place violates the schema
    objects = array.astype(object)
    for item in _OBJECTS:
        changed = _with(objects, first, item)
        yield OddCase(f"a record {_description(item)} in an array of objects", objects, changed)
        yield OddCase(f"a record {_description(item)} in a list", objects.tolist(), changed.tolist())


def _with(array: Any, place: tuple[int, ...], item: Any) -> Any:
    """A copy of the array with another item at one place."""
    changed = array.copy()
    changed[place] = item
    return changed


def _description(item: Any) -> str:
    """Description of an unusual record."""
    return "of 2001 bits" if isinstance(item, int) else repr(item)


def without_records(data: Any) -> Any:
    """Return the dataset without records, or None if it is not an array of rows or a tuple of such arrays."""
    parts = data if isinstance(data, tuple) else (data,)
    if not parts or any(not isinstance(part, np.ndarray) or part.ndim == 0 for part in parts):
        return None
    empty = tuple(part[:0] for part in parts)
    return empty if isinstance(data, tuple) else empty[0]


def with_one_more(data: Any, record: float | None = None) -> Any:
    """Return the dataset with its first record repeated, or with one constant record added; None as above."""
    if without_records(data) is None or not all(len(part) for part in (data if isinstance(data, tuple) else (data,))):
        return None

    def longer(part: Any) -> Any:
        row = part[:1] if record is None else np.full(part[:1].shape, record)
        return np.concatenate([part, row])

    return tuple(map(longer, data)) if isinstance(data, tuple) else longer(data)


def record_pairs(data: Any, *, replaced: bool) -> Iterator[tuple[Any, Any]]:
    """Yield pairs of datasets that differ in one record: the data, and data of extreme records alone.

    Under `replaced` the first record becomes another; otherwise the second dataset has one record more.
    """
    if with_one_more(data) is None:
        return
    parts = data if isinstance(data, tuple) else (data,)
    kinds = [data, *(_same_form(data, [np.full(part.shape, extreme) for part in parts]) for extreme in _EXTREMES)]
    for base, record in itertools.product(kinds, (None, math.nan, *_EXTREMES)):
        longer = with_one_more(base, record)
        if not replaced:
            yield base, longer
        elif record is not None:
            columns = longer if isinstance(longer, tuple) else (longer,)
            yield base, _same_form(data, [np.concatenate([column[-1:], column[1:-1]]) for column in columns])


def _same_form(data: Any, parts: list[Any]) -> Any:
    """The parts as a tuple if the data are one, and alone otherwise."""
    return tuple(parts) if isinstance(data, tuple) else parts[0]
