"""Reading an experiment's table, so that a sentence says what the numbers beside it hold."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np
from scipy import optimize

from privsample._checks import FloatArray
from privsample._value import frozen_value

AGREEMENT = 1e-12  # differences below this are rounding errors and are not told apart


@final
@frozen_value
class Table:
    """Columns of equal length by name, of which rows can be selected."""

    columns: Mapping[str, Any]

    def __getitem__(self, name: str) -> FloatArray:
        """A column of numbers, (rows,)."""
        return np.asarray(self.columns[name], dtype=np.float64)

    def __len__(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values())))

    def select(self, **wanted: Any) -> "Table":
        """The rows whose columns have these values."""
        kept = np.ones(len(self), dtype=bool)
        for name, entry in wanted.items():
            kept &= np.asarray(self.columns[name]) == entry
        return Table(columns={name: np.asarray(column)[kept] for name, column in self.columns.items()})

    def groups(self, *names: str) -> Iterator[tuple[tuple[Any, ...], "Table"]]:
        """The rows by what they have in these columns, in order of appearance."""
        keys = dict.fromkeys(zip(*(np.asarray(self.columns[name]).tolist() for name in names), strict=True))
        for key in keys:
            yield key, self.select(**dict(zip(names, key, strict=True)))

    def at(self, x: str, place: float, y: str) -> float:
        """y in the row where x is `place`. Raises: LookupError, where no row or several have it."""
        rows = np.flatnonzero(np.isclose(self[x], place, rtol=1e-12, atol=0.0))
        if len(rows) != 1:
            raise LookupError(f"{len(rows)} rows have {x} = {place:g}")
        return float(self[y][rows[0]])


def largest_at(function: Callable[[float], float], grid: FloatArray) -> float:
    """Where the function is largest: the grid's best point, refined between its neighbours by Brent's method."""
    grid = np.unique(grid)
    found = [function(float(x)) for x in grid]
    best = int(np.argmax(found))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    refined = optimize.minimize_scalar(
        lambda x: -function(x), bounds=(float(low), float(high)), method="bounded", options={"xatol": 1e-9}
    )
    return float(refined.x) if -refined.fun > found[best] else float(grid[best])


def agreement(difference: float) -> str:
    """How closely numbers agree, in words that rounding errors do not change."""
    return f"within {max(difference, AGREEMENT):.0e}".replace("e-0", "e-")


def listed(words: Sequence[str]) -> str:
    """Words joined by commas and a final "and"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
