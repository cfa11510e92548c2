"""Bounds on what one unit, such as a patient with several records, contributes to a release for groups."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, interval, positive_integer
from privsample._value import frozen_value, set_fields
from privsample.distributions.domains import Domain
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.records import index_ends, record_grid
from privsample.relations import AddRemove

_CARRY = 31  # bits of the lower part of an index
_FARTHEST = 2**62 - 2**10  # largest index of a record before the sums of units are clipped: a double below 2^62
_LARGEST_BOUND = 2**52  # largest index of a bound, so that every sum within the bounds is an exact double

Integers = NDArray[np.int64]
Seeds = NDArray[np.uint64]


@frozen_value
class Contribution:
    """What one unit with several records contributes: to at most `groups` groups, with bounded records in each.

    Of the groups of a unit, those with most of its records count, and of equal ones those that a hash of the unit puts
    first. In each of them, at most `records` of its records count, chosen as if uniformly at random by a public hash of
    the unit, so that the choice prefers no value; or its records are added up, the sum is clipped to `clip`, and counts
    as one record. What counts depends on the unit's own records alone, and not on their order. All records of a unit
    must be in one dataset or one part of a tally.

    The records that count are those of units with few records first of all: a mean over the records that count is
    nearer to a mean over units than to one over records, the more so the smaller `records` is.

    Parameters
    ----------
    groups : int, default 1
        Largest number of groups to which a unit contributes, >= 1.
    records : int, optional
        Largest number of records of a unit in one group, >= 1. None means 1, unless `clip` is given.
    clip : tuple of (float, float), optional
        Lower and upper bound of the sum of a unit's records in one group, finite, in the unit of the column. Missing
        values count as 0; if all are missing, so is the sum. None, the default, counts records.
    unit : str, default "unit"
        What one unit is, for example "patient". The privacy statement uses this word.

    Raises
    ------
    ValueError
        If a number is outside its range, or both `records` and `clip` are given.

    Notes
    -----
    docs/notes/groups.md, steps 2 and 6. The account is that of the release: `GroupedAccountant`.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> bounds = ps.Contribution(groups=1, records=2, unit="patient")
    >>> units, places, values = np.array([0, 0, 0, 0, 1]), np.array([3, 5, 5, 5, 3]), np.array([1, 7, 7, 7, 2])
    >>> int(bounds.bounded(units, places, values).sum())
    3
    """

    groups: int = 1
    records: int | None = None
    clip: tuple[float, float] | None = None
    unit: str = "unit"

    def __post_init__(self) -> None:
        if self.records is not None and self.clip is not None:
            raise ValueError("records must be None if clip is given: the clipped sum of a unit counts as one record")
        records = 1 if self.records is None and self.clip is None else self.records
        set_fields(
            self,
            groups=positive_integer(groups=self.groups),
            records=None if records is None else positive_integer(records=records),
            clip=None if self.clip is None else interval(clip=self.clip),
            unit=AddRemove(unit=self.unit).unit,
        )
        if self.clip is not None and max(map(abs, self._ends)) > _LARGEST_BOUND:
            raise ValueError(
                f"clip must not lie so far from 0 for its width, got {self.clip}: subtract a public number from the "
                "column first"
            )

    @property
    def records_per_group(self) -> int:
        """Largest number of records that a unit contributes to one group; a clipped sum is one record."""
        return self.records or 1

    @property
    def description(self) -> str:
        """What counts, as a clause without the name of the groups: "with at most 3 records in each"."""
        if self.clip is not None:
            return f"with one sum in each, clipped to [{self.clip[0]:g}, {self.clip[1]:g}]"
        return f"with at most {self.records} {'record' if self.records == 1 else 'records'} in each"

    @property
    def _grid(self) -> Grid:
        assert self.clip is not None
        low, high = self.clip
        return record_grid(Domain(low=low, high=high, missing=low))

    @property
    def _ends(self) -> tuple[int, int]:
        """The indices of the first and the last grid point within `clip`."""
        assert self.clip is not None
        low, high = self.clip
        return index_ends(Domain(low=low, high=high, missing=low), self._grid)

    def bounded(
        self, units: Integers, places: Integers, values: NDArray[np.generic], *, seeds: Seeds | None = None
    ) -> NDArray[np.bool_]:
        """Which records count; all records of each unit must be given.

        Parameters
        ----------
        units : numpy.ndarray of int
            The unit of each record, as any whole number, shape (n,).
        places : numpy.ndarray of int
            The group of each record: the place of its key in the public list, shape (n,).
        values : numpy.ndarray of int or float
            What each record is, shape (n,) or (n, width): integers on a grid, or numbers after the public rule. They
            must not depend on other records.
        seeds : numpy.ndarray of uint64, optional
            A public hash of the unit of each record, shape (n,), which decides what counts. None uses `units`.

        Returns
        -------
        numpy.ndarray of bool
            True for the records that count, shape (n,). Records of one unit and group with equal values are alike.
        """
        cells = _Cells.of(units, places, seeds)
        counted = cells.within(self.groups)[cells.cell]
        if self.clip is None and int(cells.sizes.max(initial=0)) > self.records_per_group:
            counted &= _ranks(cells, values) < self.records_per_group
        return counted

    def summed(
        self, units: Integers, places: Integers, values: FloatArray, *, seeds: Seeds | None = None
    ) -> tuple[Integers, FloatArray]:
        """One record for each counted unit and group: the sum of the unit's records in the group, clipped.

        Parameters
        ----------
        units, places : numpy.ndarray of int
            As for `bounded`.
        values : numpy.ndarray of float
            The records, shape (n,); NaN where they are missing.
        seeds : numpy.ndarray of uint64, optional
            As for `bounded`.

        Returns
        -------
        places : numpy.ndarray of int
            The group of each sum.
        values : numpy.ndarray of float
            The sums, each in `clip`; NaN if all records of the unit in the group are missing.
        """
        cells = _Cells.of(units, places, seeds)
        present = ~np.isnan(values)
        with np.errstate(over="ignore"):
            steps = np.ldexp(np.where(present, values, 0.0), -self._grid.exponent)
        indices = np.clip(np.rint(steps), -_FARTHEST, _FARTHEST).astype(np.int64)
        upper, lower = (np.zeros(len(cells.sizes), dtype=np.int64) for _ in range(2))
        np.add.at(upper, cells.cell, indices >> _CARRY)
        np.add.at(lower, cells.cell, indices & ((1 << _CARRY) - 1))
        upper += lower >> _CARRY
        lower &= (1 << _CARRY) - 1
        small = np.abs(upper) < 1 << _CARRY
        first, last = self._ends
        total = np.clip(np.where(small, (upper << _CARRY) + lower, np.sign(upper) * _FARTHEST), first, last)
        sums = np.ldexp(total.astype(np.float64), self._grid.exponent)
        sums[np.bincount(cells.cell, weights=present, minlength=len(sums)) == 0] = np.nan
        chosen = cells.within(self.groups)
        return cells.places[chosen], sums[chosen]


@frozen_value
class _Cells:
    """The pairs of a unit and a group that have records, by unit and then by group: cell of each record, sizes."""

    cell: Integers
    units: Integers
    places: Integers
    sizes: Integers
    hashes: Seeds

    @classmethod
    def of(cls, units: Integers, places: Integers, seeds: Seeds | None) -> "_Cells":
        """The cells of records; the hash of a cell is one of its unit and its group."""
        hashes = mix(mix(bits_of(units) if seeds is None else seeds) ^ mix(bits_of(places)))
        order = np.lexsort((places, units))
        own, there = units[order], places[order]
        starts = np.ones(len(order), dtype=bool)
        starts[1:] = (own[1:] != own[:-1]) | (there[1:] != there[:-1])
        cell = np.empty(len(order), dtype=np.int64)
        cell[order] = np.cumsum(starts) - 1
        sizes = np.bincount(cell)
        return cls(cell=cell, units=own[starts], places=there[starts], sizes=sizes, hashes=hashes[order][starts])

    def within(self, most: int) -> NDArray[np.bool_]:
        """For each cell, whether it is among the `most` largest of its unit, ties in the order of the hashes."""
        order = np.lexsort((self.places, self.hashes, -self.sizes, self.units))
        chosen = np.empty(len(order), dtype=bool)
        chosen[order] = _places_in_run(self.units[order]) < most
        return chosen


def _ranks(cells: _Cells, values: NDArray[np.generic]) -> Integers:
    """The rank of each record within its cell, by a hash of the cell, its values, and its number among equal ones.

    The numbers make each of the records equally likely to be first; equal records are alike, so that any order of them
    gives the same sums (groups.md, step 2).
    """
    columns = [bits_of(column) for column in values.reshape(len(values), -1).T]
    hashes = cells.hashes[cells.cell]
    for column in columns:
        hashes = mix(hashes ^ column)
    hashes = mix(hashes ^ _ranks_in_runs((*columns, cells.cell), len(columns) + 1).view(np.uint64))
    return _ranks_in_runs((*columns, hashes, cells.cell), 1)


def _ranks_in_runs(columns: tuple[NDArray[Any], ...], same: int) -> Integers:
    """The rank of each row in the order of the columns, the last one first, among rows whose last `same` agree."""
    order = np.lexsort(columns)
    starts = np.ones(len(order), dtype=bool)
    starts[1:] = np.logical_or.reduce([np.diff(column[order]) != 0 for column in columns[-same:]])
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = _since(starts)
    return ranks


def _places_in_run(sorted_codes: Integers) -> Integers:
    """The place of each entry within its run of equal codes."""
    starts = np.ones(len(sorted_codes), dtype=bool)
    starts[1:] = sorted_codes[1:] != sorted_codes[:-1]
    return _since(starts)


def _since(starts: NDArray[np.bool_]) -> Integers:
    """The number of entries since the last start."""
    at = np.arange(len(starts))
    found: Integers = at - np.maximum.accumulate(np.where(starts, at, 0))
    return found


def bits_of(column: NDArray[np.generic]) -> NDArray[np.uint64]:
    """The bits of each number, equal for equal numbers."""
    if column.dtype.kind == "f":
        plain = np.where(np.isnan(column), np.nan, column).astype(np.float64) + 0.0  # one NaN, and no negative zero
        return plain.view(np.uint64)
    return column.astype(np.int64).view(np.uint64)


def mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A public bijection of 64 bits without a visible order (splitmix64, Steele, Lea and Flood 2014)."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
