"""Equal-tailed intervals of arrays of draws, and the names of their axes and coordinates."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import islice
from math import prod
from typing import Any, final, overload

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, inner_probability, is_encodable, listed, mapping, positive_integer
from privsample.plots.draws import Coordinate

Names = Mapping[str, Sequence[str]]


def equal_tailed(draws: Mapping[str, NDArray[Any]], probability: float) -> dict[str, FloatArray]:
    """Equal-tailed intervals of draws of shape (draws, ...), by name: arrays of shape (2, ...), low ends first.

    Raises
    ------
    ValueError
        If `probability` does not lie in (0, 1), or there are no draws.
    TypeError
        If every array holds whole numbers, which may be codes without an order.
    """
    given = inner_probability(probability)
    if not any(len(array) for array in draws.values()):
        raise ValueError("there are no draws, so they have no interval")
    found = {
        name: quantiles(array, (1.0 - given) / 2, (1.0 + given) / 2)
        for name, array in draws.items()
        if array.dtype.kind == "f" and len(array)
    }
    if not found:
        raise TypeError("the draws are whole numbers, such as codes of categories, which have no interval; count them")
    return found


def quantiles(draws: NDArray[Any], *probabilities: float) -> FloatArray:
    """Quantiles along the first axis; between infinite draws they may be NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        found: FloatArray = np.quantile(draws, probabilities, axis=0)
    return found


def coordinates(draws: Mapping[str, NDArray[Any]], names: Names, most: int) -> tuple[list[Coordinate], int]:
    """The draws of the first real numbers with labels such as "theta" or "theta[yes]", and how many there are in all.

    Arrays without draws are left out. At most `most` coordinates are listed, since an array can have millions.
    """
    found: list[Coordinate] = []
    count = 0
    for name, array in draws.items():
        if array.dtype.kind != "f" or not array.size:
            continue
        columns = array.reshape(len(array), -1)
        count += columns.shape[1]
        inner = islice(coordinate_labels(array.shape[1:], names.get(name, ())), most - len(found))
        found += [Coordinate(name + label, columns[:, k]) for k, label in enumerate(inner)]
    return found, count


@final
class ProductNames(Sequence[str]):
    """The names of the coordinates of several axes, the last axis fastest, such as "a, x" and "a, y"."""

    def __init__(self, axes: Sequence[Sequence[str]]) -> None:
        self._axes, self._shape = axes, tuple(map(len, axes))

    def __len__(self) -> int:
        return prod(self._shape)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[k] for k in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        at = np.unravel_index(place % len(self), self._shape)
        return ", ".join(names[int(k)] for names, k in zip(self._axes, at, strict=True))


def axis_names(dims: Mapping[str, Sequence[str]], coords: Names, draws: Mapping[str, NDArray[Any]]) -> Names:
    """Draw name -> the names of its coordinates; an axis without names is numbered if another axis has names."""
    found: dict[str, Sequence[str]] = {}
    for name, axes in dims.items():
        given = [coords.get(axis, ()) for axis in axes]
        shape = draws[name].shape[1:] if name in draws else ()
        if len(axes) == 1:
            found[name] = given[0]
        elif len(axes) == len(shape) and any(given):
            sizes = zip(given, shape, strict=True)
            found[name] = ProductNames([own if len(own) == k else [str(i) for i in range(k)] for own, k in sizes])
    return found


def checked_coords(**named: Any) -> dict[str, tuple[str, ...]]:
    """Names of coordinates by axis, each a tuple of distinct texts.

    Raises
    ------
    TypeError
        If the argument is not a mapping of text to sequences of text.
    ValueError
        If two coordinates of one axis have the same name.
    """
    ((argument, _),) = named.items()
    found = {}
    for axis, names in mapping(**named).items():
        members = () if isinstance(names, str) else listed(**{f"{argument}[{axis!r}]": names})
        if isinstance(names, str) or not all(isinstance(name, str) for name in (axis, *members)):
            raise TypeError(f"{argument}[{axis!r}] must be a sequence of names, got {type(names).__name__}")
        if len(set(members)) != len(members):
            raise ValueError(f"{argument}[{axis!r}] must hold distinct names, got {len(members)} with repetitions")
        if not all(map(is_encodable, (axis, *members))):
            raise ValueError(f"{argument}[{axis!r}] must hold strings that UTF-8 can encode, got lone surrogates")
        found[axis] = members
    return found


def column_names(data: Any) -> tuple[str, ...]:
    """The names of the columns of a pandas, polars or Arrow table, if all are distinct text; () for other data.

    Names of columns are part of the public schema; they do not depend on any record.
    """
    columns = getattr(data, "column_names", None) or getattr(data, "columns", None)
    if columns is None or isinstance(columns, (str, bytes)) or callable(columns):
        return ()
    try:
        names = list(columns)
    except Exception:  # noqa: BLE001 - an attribute of this name need not be a list of names
        return ()
    named = all(isinstance(name, str) and is_encodable(name) for name in names) and len(set(names)) == len(names)
    return tuple(map(str, names)) if named else ()


def coordinate_labels(shape: tuple[int, ...], names: Sequence[str]) -> Iterator[str]:
    """What follows the name of an array for each of its coordinates: "", "[yes]" or "[0, 1]"."""
    if not shape:
        return iter([""])
    if len(names) == prod(shape):
        return (f"[{name}]" for name in names)
    return (f"[{', '.join(map(str, index))}]" for index in np.ndindex(*shape))


def named_axes(
    draws: Mapping[str, NDArray[Any]], dims: Mapping[str, Sequence[str]], coords: Names
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The arguments `dims` and `coords` of ArviZ: those that fit the shapes of the draws, and none that collide."""
    kept = {
        name: list(axes)
        for name, axes in dims.items()
        if name in draws and len(axes) == draws[name].ndim - 1 and not set(axes) & draws.keys()
    }
    sizes: dict[str, set[int]] = {}
    for name, axes in kept.items():
        for axis, size in zip(axes, draws[name].shape[1:], strict=True):
            sizes.setdefault(axis, set()).add(size)
    clashing = {axis for axis, found in sizes.items() if len(found) > 1}
    kept = {name: axes for name, axes in kept.items() if not clashing & set(axes)}
    used = {axis for axes in kept.values() for axis in axes}
    labels = {axis: list(names) for axis, names in coords.items() if axis in used and sizes[axis] == {len(names)}}
    return kept, labels


def divisor(count: int, **named: Any) -> int:
    """A number of chains that divides the number of draws. Raises ValueError."""
    ((name, item),) = named.items()
    chains = positive_integer(**named)
    if count % chains:
        raise ValueError(f"{name} must divide the number of draws, {count}, got {item}")
    return chains


def public_numbers(mechanism: Any) -> dict[str, float]:
    """The fields of a mechanism that are one finite number, except the number of draws, which the draws show."""
    found = {}
    for field in fields(mechanism) if is_dataclass(mechanism) else ():
        item = getattr(mechanism, field.name)
        given = isinstance(item, (int, float)) and not isinstance(item, bool)
        if given and field.name != "draws" and np.isfinite(item):
            found[field.name] = float(item)
    return found


def frozen_array(item: Any) -> NDArray[Any]:
    """A read-only copy of an array or a number."""
    copy = np.array(item)
    copy.flags.writeable = False
    return copy
