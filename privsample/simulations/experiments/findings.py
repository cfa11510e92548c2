"""What a sentence says of its data: its numbers and its comparisons by name, so that each can be tested anew."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from privsample._checks import FloatArray

CLEAR = 3.0  # standard errors: a simulated difference that is smaller is not stated
_EXACT = 1e-9  # a computed difference that is smaller, relative to one, may be rounding
Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Finding:
    """A number that a sentence states, with the standard error of its simulation: 0 where it is computed.

    `compared`: the sentence says that the number is above zero, as of a difference.
    """

    name: str
    value: float
    standard_error: float = 0.0
    compared: bool = False

    @property
    def clear(self) -> bool:
        """Whether the number is above zero by more than chance or rounding explain."""
        return self.value > max(CLEAR * self.standard_error, _EXACT)


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence about a table, and the findings that it states."""

    sentence: str
    findings: tuple[Finding, ...]


def compared(name: str, difference: float, standard_error: float = 0.0) -> Finding:
    """A difference as a finding: a comparison if it is clear, else only a number."""
    found = Finding(name, float(difference), float(standard_error))
    return Finding(name, found.value, found.standard_error, compared=found.clear)


def rows_where(columns: Columns, **values: Any) -> dict[str, NDArray[Any]]:
    """The rows of a table in which these columns have these values, column by column."""
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    length = len(next(iter(arrays.values())))
    kept = np.ones(length, dtype=bool)
    for name, value in values.items():
        kept &= arrays[name] == value
    return {name: column[kept] for name, column in arrays.items()}


def value_at(x: NDArray[Any], y: NDArray[Any], place: float) -> float:
    """The value of y at the x that is nearest to `place`."""
    return float(y[np.abs(np.asarray(x, dtype=float) - place).argmin()])


def maximum_between(function: Callable[[float], float], points: FloatArray) -> float:
    """Where a function is largest: between the neighbours of the best of these rising points, by Brent's method.

    The best point itself is returned where nothing between its neighbours is better, as at an end.
    """
    values = [function(float(x)) for x in points]
    best = int(np.argmax(values))
    low, high = float(points[max(best - 1, 0)]), float(points[min(best + 1, len(points) - 1)])
    found = optimize.minimize_scalar(
        lambda x: -function(x), bounds=(low, high), method="bounded", options={"xatol": 1e-9 * (high - low)}
    )
    return float(found.x) if -found.fun > values[best] else float(points[best])


def in_words(names: Sequence[str]) -> str:
    """Names as a list in a sentence: a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
