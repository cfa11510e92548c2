"""Effects of a log-linear model in orthonormal contrasts, and what noisy marginal tables tell about each of them.

docs/notes/synthetic.md, steps 1 and 2.
"""

from functools import reduce
from itertools import combinations
from math import prod
from typing import NamedTuple

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.marginal_tables import MarginalTables

Columns = tuple[int, ...]

MOST_PARAMETERS = 4096  # several square matrices of as many rows are held at once


class HostTable(NamedTuple):
    """A table of the model that no other contains, with the effects that it determines.

    columns: its columns, in their order. basis: the statistics of each cell, shape (cells, effects). places: the places
    of the effects among all, shape (effects,).
    """

    columns: Columns
    basis: FloatArray
    places: slice


class Effects(NamedTuple):
    """The statistics t(x) of a record: products of contrasts of its categories, one set of columns after the other.

    sizes: categories of each column. sets: the sets of columns, each in a table of the model. starts: the place of the
    first statistic of each set, and their number at the end. hosts: the tables that no other contains.
    """

    sizes: tuple[int, ...]
    sets: tuple[Columns, ...]
    starts: tuple[int, ...]
    hosts: tuple[HostTable, ...]

    @property
    def width(self) -> int:
        """The number of statistics."""
        return self.starts[-1]

    def of_tables(self, tables: list[FloatArray]) -> FloatArray:
        """The sums of the statistics over the cells of host tables of shape (rows, ...): shape (rows, width)."""
        parts = [table.reshape(len(table), -1) @ host.basis for host, table in zip(self.hosts, tables, strict=True)]
        return np.concatenate(parts, axis=1)

    def log_tables(self, theta: FloatArray) -> list[FloatArray]:
        """The host tables of the log densities that parameters of shape (rows, width) define, shape (rows, ...)."""
        return [
            (theta[:, host.places] @ host.basis.T).reshape(-1, *(self.sizes[column] for column in host.columns))
            for host in self.hosts
        ]


def contrasts(size: int) -> FloatArray:
    """Orthonormal contrasts of categories, shape (size, size - 1): columns that add up to 0 (Helmert)."""
    found = np.zeros((size, size - 1))
    for k in range(1, size):
        found[:k, k - 1], found[k, k - 1] = 1.0, -k
        found[:, k - 1] /= np.sqrt(k * (k + 1.0))
    return found


def effects_of(layout: MarginalTables) -> Effects:
    """The effects of the tables: each nonempty subset of the columns of a table once, in the first that has it.

    Raises
    ------
    ValueError
        If there are more than 4096 effects. They are counted before any matrix is made.
    """
    sizes = layout.sizes
    hosts = [columns for columns in layout.places if not any(set(columns) < set(other) for other in layout.places)]
    _check_width(hosts, sizes)
    sets: list[Columns] = []
    starts, found = [0], []
    for columns in hosts:
        own = [part for part in _subsets(columns) if part and part not in sets]
        parts = [_statistics(columns, part, sizes) for part in own]
        first = starts[-1]
        starts += (first + np.cumsum([part.shape[1] for part in parts], dtype=int)).tolist()
        basis = np.concatenate([np.empty((prod(sizes[c] for c in columns), 0)), *parts], axis=1)
        found.append(HostTable(columns=columns, basis=basis, places=slice(first, starts[-1])))
        sets += own
    return Effects(sizes=sizes, sets=tuple(sets), starts=tuple(starts), hosts=tuple(found))


class Measured(NamedTuple):
    """What noisy tables tell about the sums of the statistics over all records.

    sums: estimates without bias, shape (width,). variances: of the noise in them, shape (width,). size, size_variance:
    the estimated number of records, and the variance of the noise in it.
    """

    sums: FloatArray
    variances: FloatArray
    size: float
    size_variance: float


def measure(effects: Effects, layout: MarginalTables, counts: FloatArray, noise_variance: float) -> Measured:
    """Combine all tables that measure an effect, by inverse variances. The noise of the estimates is independent.

    In orthonormal contrasts, and with factors 1/sqrt(size) for the columns that are summed over, the map from a table
    to its effects is a rotation: the noise stays independent (docs/notes/synthetic.md, step 2).
    """
    tables = [counts[first:last] for first, last in zip(layout.ends, layout.ends[1:], strict=False)]
    sums, weights = np.zeros(effects.width), np.zeros(effects.width)
    size = size_weight = 0.0
    for columns, table in zip(layout.places, tables, strict=True):
        for part in _subsets(columns):
            weight = 1.0 / prod(effects.sizes[column] for column in columns if column not in part)
            estimate = _statistics(columns, part, effects.sizes).T @ table
            if not part:
                size, size_weight = size + weight * float(estimate[0]), size_weight + weight
                continue
            k = effects.sets.index(part)
            place = slice(effects.starts[k], effects.starts[k + 1])
            sums[place] += weight * estimate
            weights[place] += weight
    return Measured(sums / weights, noise_variance / weights, size / size_weight, noise_variance / size_weight)


def _check_width(hosts: list[Columns], sizes: tuple[int, ...]) -> None:
    """Check the number of effects. A table of K cells has K - 1, so that few subsets of small tables are listed."""
    width = max(prod(sizes[column] for column in columns) - 1 for columns in hosts)
    if width <= MOST_PARAMETERS:
        parts = {part for columns in hosts for part in _subsets(columns) if part}
        width = sum(prod(sizes[column] - 1 for column in part) for part in parts)
    if not width <= MOST_PARAMETERS:
        raise ValueError(
            f"marginals must have fewer combinations of categories: the model would need at least {width:,} "
            f"parameters, at most {MOST_PARAMETERS:,}; leave out sets of columns, or merge categories"
        )


def _subsets(columns: Columns) -> list[Columns]:
    """All subsets, the empty set first."""
    return [part for count in range(len(columns) + 1) for part in combinations(columns, count)]


def _statistics(columns: Columns, part: Columns, sizes: tuple[int, ...]) -> FloatArray:
    """The statistics of a set of columns in each cell of a table, shape (cells, statistics)."""
    factors = [contrasts(sizes[column]) if column in part else np.ones((sizes[column], 1)) for column in columns]
    return reduce(lambda one, other: np.asarray(np.kron(one, other)), factors)
