"""The box of parameter values that a confidence set is searched in: ranges, fixed numbers, and checks of values."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, finite, interval, mapping, real_array
from privsample.inference.simulated_statistics import Parameter, Theta


class ParameterBox(NamedTuple):
    """Parameters with the range of each coordinate, in one flat order; a coordinate of equal ends is fixed."""

    parameters: tuple[Parameter, ...]
    labels: tuple[str, ...]
    low: FloatArray
    high: FloatArray

    @property
    def free(self) -> NDArray[np.intp]:
        """The places of the coordinates that are not fixed."""
        return np.flatnonzero(self.low < self.high)

    def theta(self, flat: FloatArray) -> Theta:
        """The parameters by name, from their coordinates in one array."""
        found, at = {}, 0
        for name, shape, *_ in self.parameters:
            size = int(np.prod(shape))
            found[name] = np.asarray(flat[at : at + size]).reshape(shape)
            at += size
        return found

    def places(self, name: object) -> NDArray[np.intp]:
        """The places of a parameter or of one coordinate such as "theta[1]". Raises ValueError, TypeError."""
        if not isinstance(name, str):
            raise TypeError(f"name must be the name of a parameter, got {type(name).__name__}")
        if name in self.labels:
            return np.array([self.labels.index(name)])
        at = 0
        for parameter in self.parameters:
            size = int(np.prod(parameter.shape))
            if parameter.name == name:
                return np.arange(at, at + size)
            at += size
        raise ValueError(f"name must be one of {', '.join(self.labels)}, got {name!r}")

    def flat(self, given: Mapping[str, Any]) -> FloatArray:
        """The coordinates of values by name, which must lie in the box. Raises ValueError, TypeError."""
        names = [parameter.name for parameter in self.parameters]
        _check_names(given, names, "values", self._may_be_left_out)
        found, at = self.low.copy(), 0
        for name, shape, *_ in self.parameters:
            size = int(np.prod(shape))
            if name in given:
                values = real_array(**{name: given[name]})
                if values.shape != shape:
                    raise ValueError(f"{name} must be {_shape_text(shape)}, got one of shape {values.shape}")
                own = values.ravel()
                low, high = self.low[at : at + size], self.high[at : at + size]
                for label, x, a, b in zip(self.labels[at : at + size], own, low, high, strict=True):
                    if not a <= x <= b:
                        raise ValueError(f"{label} must lie in its range {range_text(a, b)}, got {float(x)!r}")
                found[at : at + size] = own
            at += size
        return found

    def as_given(self) -> dict[str, Any]:
        """The entries that make this box, as numbers, pairs and tuples of pairs."""
        found: dict[str, Any] = {}
        pairs = np.stack([self.low, self.high], axis=-1)
        for parameter in self.parameters:
            own = pairs[self.places(parameter.name)].reshape(*parameter.shape, 2)
            fixed = not parameter.shape and own[0] == own[1]
            found[parameter.name] = float(own[0]) if fixed else _as_tuples(own.tolist())
        return found

    @property
    def _may_be_left_out(self) -> set[str]:
        fixed = {parameter.name for parameter in self.parameters}
        free = set(self.free.tolist())
        return {name for name in fixed if not free & set(self.places(name).tolist())}


def parameter_box(given: object, parameters: tuple[Parameter, ...]) -> ParameterBox:
    """Check the ranges and the fixed numbers of all parameters.

    Raises ValueError or TypeError with the name of the wrong entry.
    """
    entries = mapping(parameters=given)
    _check_names(entries, [parameter.name for parameter in parameters], "parameters", set())
    labels, lows, highs = [], [], []
    for parameter in parameters:
        name = f"parameters[{parameter.name!r}]"
        ends = _ends(name, entries[parameter.name], parameter.shape)
        if parameter.name == "feature_root":  # a Cholesky factor: the numbers above the diagonal are 0
            ends[np.triu_indices(parameter.shape[0], 1)] = 0.0
        for index in np.ndindex(*parameter.shape):
            low, high = (float(end) for end in ends[index])
            if not (parameter.low <= low and high <= parameter.high):
                allowed = range_text(parameter.low, parameter.high)
                raise ValueError(f"{name} must lie in {allowed}, got {range_text(low, high)}")
            labels.append(parameter.name + (str(list(index)) if index else ""))
            lows.append(low)
            highs.append(high)
    box = ParameterBox(parameters, tuple(labels), np.array(lows), np.array(highs))
    if not len(box.free):
        raise ValueError("parameters must give a range (low, high) to at least one parameter, got fixed numbers only")
    return box


def range_text(low: float, high: float) -> str:
    """A range in a message."""
    return f"{low:g}" if low == high else f"[{low:g}, {high:g}]"


def _check_names(given: Mapping[Any, Any], names: list[str], what: str, optional: set[str]) -> None:
    """Check that the entries have these names. Raises ValueError."""
    unknown = [name for name in given if name not in names]
    missing = [name for name in names if name not in given and name not in optional]
    if unknown or missing:
        problems = [f"{', '.join(missing)} missing"] if missing else []
        problems += [f"{', '.join(map(repr, unknown))} unknown"] if unknown else []
        raise ValueError(f"{what} must be given for {', '.join(names)}: {'; '.join(problems)}")


def _ends(name: str, given: Any, shape: tuple[int, ...]) -> FloatArray:
    """The ends of the range of each coordinate, shape (*shape, 2)."""
    if isinstance(given, (str, bytes)):
        raise TypeError(f"{name} must be a pair (low, high) or a number, got {given!r}")
    if np.ndim(_safe(given)) == 0:
        return np.broadcast_to(finite(**{name: given}), (*shape, 2)).copy()
    if not isinstance(given, (Sequence, np.ndarray)):
        raise TypeError(f"{name} must be a pair (low, high) or a number, got {type(given).__name__}")
    if not shape or (len(given) == 2 and all(np.ndim(_safe(end)) == 0 for end in given)):
        return np.broadcast_to(np.array(_pair(name, given)), (*shape, 2)).copy()
    if len(given) != shape[0]:
        raise ValueError(
            f"{name} must be a pair (low, high), a number, or a list of {shape[0]} of these, got {len(given)} entries"
        )
    return np.array([_ends(f"{name}[{j}]", entry, shape[1:]) for j, entry in enumerate(given)])


def _pair(name: str, given: Any) -> tuple[float, float]:
    """The ends of a range; equal ends fix the coordinate."""
    if len(given) == 2 and all(np.ndim(_safe(end)) == 0 for end in given):
        low, high = finite(**{f"{name}[0]": given[0]}), finite(**{f"{name}[1]": given[1]})
        if low == high:
            return low, high
    return interval(**{name: given})


def _as_tuples(item: Any) -> Any:
    return tuple(_as_tuples(entry) for entry in item) if isinstance(item, list) else item


def _safe(item: Any) -> Any:
    """The item, or a list of its length if NumPy cannot make an array of it because its entries are uneven."""
    return [0.0] * len(item) if isinstance(item, (list, tuple)) else item


def _shape_text(shape: tuple[int, ...]) -> str:
    return f"an array of shape {shape}" if shape else "a number"
