"""Tables of an experiment's numbers, and what a sentence reads from them."""

from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.simulations.report.findings import Columns

AGREEMENT = 1e-12  # smaller differences are rounding errors and are not distinguished


@final
@frozen_value
class Table:
    """Columns of equal length by name, of which rows can be selected."""

    columns: Columns

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A column, (rows,)."""
        return np.asarray(self.columns[name])

    def __len__(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values())))

    def select(self, **wanted: Any) -> "Table":
        """Return the rows whose columns have these values."""
        kept = np.ones(len(self), dtype=bool)
        for name, entry in wanted.items():
            kept &= self[name] == entry
        return Table(columns={name: self[name][kept] for name in self.columns})

    def groups(self, *names: str) -> Iterator[tuple[tuple[Any, ...], "Table"]]:
        """Yield the rows by their values in these columns, in order of appearance."""
        keys = dict.fromkeys(zip(*(self[name].tolist() for name in names), strict=True))
        whole = Table(columns={name: self[name] for name in self.columns})  # each list becomes an array once
        for key in keys:
            yield key, whole.select(**dict(zip(names, key, strict=True)))

    def at(self, x: str, place: float, y: str) -> float:
        """Return y in the row where x equals `place`. Raises: LookupError, unless there is exactly one."""
        rows = np.flatnonzero(np.isclose(self[x], place, rtol=1e-12, atol=0.0))
        if len(rows) != 1:
            raise LookupError(f"{len(rows)} rows have {x} = {place:g}")
        return float(self[y][rows[0]])


def value_at(x: NDArray[Any], y: NDArray[Any], place: float) -> float:
    """Return the value of y at the x nearest to `place`."""
    return float(y[np.abs(np.asarray(x, dtype=float) - place).argmin()])


def largest_at(function: Callable[[float], float], grid: FloatArray) -> float:
    """Return the maximizer of a function between the neighbours of the best grid point, by Brent's method.

    Returns the best grid point itself if no point between its neighbours is better.
    """
    points = np.unique(grid)
    values = [function(float(x)) for x in points]
    best = int(np.argmax(values))
    low, high = float(points[max(best - 1, 0)]), float(points[min(best + 1, len(points) - 1)])
    found = optimize.minimize_scalar(
        lambda x: -function(x), bounds=(low, high), method="bounded", options={"xatol": 1e-9 * min(high - low, 1.0)}
    )
    return float(found.x) if -found.fun > values[best] else float(points[best])


def agreement(difference: float) -> str:
    """Describe how closely numbers agree; rounding errors do not change the text."""
    return f"within {max(difference, AGREEMENT):.0e}".replace("e-0", "e-")
