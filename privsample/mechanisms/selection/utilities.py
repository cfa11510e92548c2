"""Utilities of candidates: how records rate them, and how far one record can move the ratings."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, flag, function, interval, number, positive, real_array
from privsample._data import as_float, codes_of_names, readable_dtype
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption, drawing_assumptions
from privsample.distributions.record_format import ColumnFormat, RecordFormat, RowFormat
from privsample.distributions.rows import table
from privsample.errors import SchemaError
from privsample.mechanisms.columns import read_column
from privsample.mechanisms.selection.ranking import without_warnings
from privsample.relations import Relation, ReplaceOne

Candidates = tuple[float, ...] | tuple[str, ...]
_LARGEST = float(np.finfo(np.float64).max) / 4  # differences of two utilities stay finite
_STEPS = 24  # ratings are rounded to multiples of 2^-24 of a power of two up to the width of their bounds
_LEAST_WIDTH = 1e-290  # the steps of narrower bounds would not be doubles
_QUANTILE_STEPS = 1 << _STEPS
_MOST_RECORDS = 1 << 36  # of which each adds at most 2^25 to a sum


class ExactTotals(NamedTuple):
    """Utilities as exact numbers: `numbers`, of shape (candidates,) and type int64 or float64, times `unit`."""

    numbers: NDArray[Any]
    unit: Fraction


class Utility(ABC):
    """How good each candidate of a selection is for a dataset, and how far one record can move it.

    A subclass is a frozen dataclass of public parameters.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.SummedUtility(bounds=(0, 1)).change_range(ps.AddRemove())
    1.0
    """

    __slots__ = ()

    @abstractmethod
    def change_range(self, relation: Relation) -> float:
        """Largest difference between the changes of two candidates' utilities, over all neighbours.

        Parameters
        ----------
        relation : Relation
            The neighbouring relation.

        Returns
        -------
        float
            The largest max - min over the candidates of u(c, second dataset) - u(c, first dataset), > 0.
        """

    @abstractmethod
    def totals(self, data: Any, candidates: Candidates, relation: Relation) -> FloatArray:
        """The utilities of all candidates. No value of a record can cause an error.

        Parameters
        ----------
        data : object
            The data, as for `release`.
        candidates : tuple of float or str
            The candidates.
        relation : Relation
            The neighbouring relation; under ReplaceOne the number of records is checked.

        Returns
        -------
        numpy.ndarray of float
            Finite utilities, shape (candidates,).

        Raises
        ------
        SchemaError
            If the data have another shape or type.
        """

    def exact_totals(self, data: Any, candidates: Candidates, relation: Relation) -> ExactTotals:
        """The utilities from which an exact choice is made; by default, the floating-point `totals` as they are.

        A utility of your own whose totals are rounded may change by more than `change_range` because of the rounding:
        it has the assumption IDEAL_REALS, until it defines this method and `assumptions`.

        Parameters
        ----------
        data : object
            The data, as for `release`.
        candidates : tuple of float or str
            The candidates.
        relation : Relation
            The neighbouring relation.

        Returns
        -------
        ExactTotals
            The utilities as exact numbers.

        Raises
        ------
        SchemaError
            If the data have another shape or type.
        """
        return ExactTotals(self.totals(data, candidates, relation), Fraction(1))

    def _integers(self, data: Any, candidates: Candidates) -> tuple[NDArray[np.int64], int]:
        """Sums over the records of integers, of which `_from_integers` makes the utilities, and the number of records.

        A utility that defines both has tallies.
        """
        del data, candidates
        raise TypeError(
            f"a selection by {type(self).__name__} has no tallies: its utilities are not sums of integers; call "
            "release with all of the data"
        )

    def _from_integers(self, sums: NDArray[np.int64]) -> ExactTotals:
        """The utilities, from the integers of all data."""
        raise NotImplementedError

    # The number of integers for each candidate.
    _sums_for_each: ClassVar[int] = 1

    @abstractmethod
    def problems(self, data: Any, candidates: Candidates) -> dict[str, int]:
        """Count the values that the public rule changes, by reason. For the curator only.

        Parameters
        ----------
        data : object
            The data, as for `release`.
        candidates : tuple of float or str
            The candidates.

        Returns
        -------
        dict of str to int
            The counts; they depend on the data.
        """

    def check(self, candidates: Candidates) -> None:
        """Check that the candidates suit this utility; by default all do.

        Parameters
        ----------
        candidates : tuple of float or str
            The candidates.

        Raises
        ------
        TypeError
            If the candidates do not suit the utility.
        """
        del candidates

    def record_format(self, candidates: Candidates) -> RecordFormat | None:
        """How the data hold records, for selections from samples of them; None, the default, if they hold none.

        Parameters
        ----------
        candidates : tuple of float or str
            The candidates.

        Returns
        -------
        RecordFormat or None
            The format. `release` must take what its `to_data` returns.
        """
        del candidates
        return None

    def extreme_records(self, candidates: Candidates) -> list[Any] | None:
        """Records that move the utilities most, for audits; None, the default, if none are known.

        Parameters
        ----------
        candidates : tuple of float or str
            The candidates.

        Returns
        -------
        list or None
            Records, of which the datasets of an audit are made.
        """
        del candidates
        return None

    def dataset(self, records: list[Any], candidates: Candidates) -> Any:
        """Data for `release` that hold these records.

        Parameters
        ----------
        records : list
            Some of the `extreme_records`, repeated as often as the dataset holds them.
        candidates : tuple of float or str
            The candidates.

        Returns
        -------
        object
            The data.
        """
        del candidates
        return np.array(records)

    @property
    def assumptions(self) -> frozenset[Assumption]:
        """What the guarantee of an exact choice assumes about the utility: by default, that totals are not rounded."""
        return drawing_assumptions(exact=False)


def _replaced(relation: Relation) -> bool:
    """Whether neighbours differ by a replacement, which removes one record and adds another."""
    return isinstance(relation, ReplaceOne)


def check_count(count: int, relation: Relation) -> None:
    """Check that the number of records is the declared one, and that sums over so many fit in 64 bits."""
    if isinstance(relation, ReplaceOne) and count != relation.n:
        raise SchemaError(f"n = {relation.n} records were declared, the data hold {count}")
    if not count <= _MOST_RECORDS:
        raise SchemaError(f"a selection takes at most {_MOST_RECORDS} records, the data hold more")


@frozen_value
class SummedUtility(Utility):
    """Each record rates every candidate with a number, and the ratings of all records add up.

    `release` takes an array of shape (records, candidates). A rating outside `bounds` counts as the nearer bound; one
    that is missing or no number counts as the lower bound.

    Parameters
    ----------
    bounds : tuple (low, high), default (0.0, 1.0)
        Smallest and largest rating, finite, low < high, in units of the utility.

    Raises
    ------
    ValueError
        If `bounds` are not finite or not increasing.

    Notes
    -----
    The changes of two candidates' utilities differ by at most high - low under AddRemove, and by at most 2 (high - low)
    under ReplaceOne. Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> utility = ps.SummedUtility(bounds=(-1, 1))
    >>> utility.change_range(ps.AddRemove()), utility.change_range(ps.ReplaceOne(n=10))
    (2.0, 4.0)
    """

    bounds: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        set_fields(self, bounds=interval(bounds=self.bounds))
        if not self.bounds[1] - self.bounds[0] >= _LEAST_WIDTH:
            raise ValueError(f"bounds must be at least {_LEAST_WIDTH:g} apart, got {self.bounds}: rescale the ratings")

    def change_range(self, relation: Relation) -> float:
        """The width of the bounds, twice under ReplaceOne."""
        width = self.bounds[1] - self.bounds[0]
        return 2 * width if _replaced(relation) else width

    def totals(self, data: Any, candidates: Candidates, relation: Relation) -> FloatArray:
        """The sum of the clipped ratings less the lower bound, which is the same for all candidates."""
        with np.errstate(over="ignore"):
            ratings = _ratings(data, len(candidates))
            check_count(len(ratings), relation)
            return np.minimum(self._above(ratings).sum(axis=0), _LARGEST)

    def exact_totals(self, data: Any, candidates: Candidates, relation: Relation) -> ExactTotals:
        """The sum of ratings that are rounded to a public grid, in its steps: the bounds are 2^24 to 2^25 steps apart.

        A rating is rounded inwards at the upper bound, so that no change exceeds `change_range`. Sums of whole numbers
        do not depend on the order of the records.
        """
        sums, count = self._integers(data, candidates)
        check_count(count, relation)
        return self._from_integers(sums)

    def _integers(self, data: Any, candidates: Candidates) -> tuple[NDArray[np.int64], int]:
        above = self._above(_ratings(data, len(candidates)))
        steps = np.rint(above / self._pitch).astype(np.int64)
        return np.minimum(steps, math.floor((self.bounds[1] - self.bounds[0]) / self._pitch)).sum(axis=0), len(above)

    def _from_integers(self, sums: NDArray[np.int64]) -> ExactTotals:
        return ExactTotals(sums, Fraction(self._pitch))

    @property
    def _pitch(self) -> float:
        """The distance of two rounded ratings."""
        return math.ldexp(1.0, math.frexp(self.bounds[1] - self.bounds[0])[1] - 1 - _STEPS)

    @property
    def assumptions(self) -> frozenset[Assumption]:
        """Nothing: the sums of rounded ratings are exact."""
        return frozenset()

    def _above(self, ratings: FloatArray) -> FloatArray:
        """The clipped ratings less the lower bound."""
        low, high = self.bounds
        return np.clip(np.where(np.isnan(ratings), low, ratings), low, high) - low

    def problems(self, data: Any, candidates: Candidates) -> dict[str, int]:
        """Count the ratings that are no number or lie outside the bounds."""
        ratings = _ratings(data, len(candidates))
        missing = np.isnan(ratings)
        outside = ~missing & ~((ratings >= self.bounds[0]) & (ratings <= self.bounds[1]))
        return {"missing": int(missing.sum()), "outside the bounds": int(outside.sum())}

    def record_format(self, candidates: Candidates) -> RecordFormat:
        """Rows of ratings, one for each candidate."""
        return RowFormat(width=len(candidates))

    def extreme_records(self, candidates: Candidates) -> list[Any]:
        """Ratings that favour the first candidate, and ratings that favour the others."""
        low, high = self.bounds
        first = np.arange(len(candidates)) == 0
        return [np.where(first, high, low), np.where(first, low, high)]

    def dataset(self, records: list[Any], candidates: Candidates) -> FloatArray:
        """The ratings as an array, which may have no rows."""
        return np.array(records, dtype=np.float64).reshape(len(records), len(candidates))


def _ratings(data: Any, count: int) -> FloatArray:
    """The ratings as floats, shape (records, count), NaN for what is no number. Raises SchemaError."""
    rule = f"ratings must have shape (records, {count}), one column for each candidate"
    if isinstance(data, (list, tuple)) and data and not any(np.iterable(row) for row in data):
        raise SchemaError(f"{rule}, got shape ({len(data)},)")
    return table(data, count, rule=rule)


@frozen_value
class StatedUtility(Utility):
    """The utilities of all candidates, whose sensitivity the caller states.

    `release` takes the utilities, an array of shape (candidates,), or the data from which `function` computes them.
    Utilities that are not finite count as 0; with `bounds`, the others are clipped. If the function fails, or returns
    anything else than one number for each candidate, all utilities count as 0: `release` raises no error, which could
    depend on a record, and `validate` tells the curator.

    Parameters
    ----------
    sensitivity : float
        Largest change of any candidate's utility between neighbours, finite and > 0, in units of the utility.
    monotone : bool, default False
        Whether a further record never moves two candidates in opposite directions, as when it can only raise
        utilities. The cost under AddRemove is then halved; a replacement can move them in opposite directions.
    bounds : tuple (low, high), optional
        Public bounds to which utilities are clipped, finite, low < high. None, the default, does not clip.
    changes : array, shape (changes, candidates), optional
        All changes of the utilities that one record can make, in either direction, if they are known: none exceeds the
        sensitivity. The cost is then that of the row with the largest range, max - min. None, the default, allows all
        changes up to the sensitivity.
    function : function of the data, optional
        Computes the utilities. None takes the utilities themselves. A mechanism with a function cannot be saved.

    Raises
    ------
    TypeError
        If `function` is no function of one argument, or `monotone` no bool.
    ValueError
        If a number lies outside its range.

    Notes
    -----
    The account depends on the stated sensitivity (TRUSTED_SENSITIVITY). Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.StatedUtility(sensitivity=1).change_range(ps.AddRemove())
    2.0
    >>> ps.StatedUtility(sensitivity=1, monotone=True).change_range(ps.AddRemove())
    1.0
    >>> ps.StatedUtility(sensitivity=1, changes=[[1, 0.5, 0.5], [0.5, 0.5, 1]]).change_range(ps.AddRemove())
    0.5
    """

    sensitivity: float
    monotone: bool = False
    bounds: tuple[float, float] | None = None
    changes: FloatArray | None = None
    function: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        set_fields(self, sensitivity=positive(sensitivity=self.sensitivity), monotone=flag(monotone=self.monotone))
        if self.sensitivity > _LARGEST:
            raise ValueError(f"sensitivity must be at most {_LARGEST:.3g}, got {self.sensitivity!r}")
        if self.bounds is not None:
            set_fields(self, bounds=interval(bounds=self.bounds))
        if self.changes is not None:
            set_fields(self, changes=_checked_changes(self.changes, self.sensitivity))
        if self.function is not None:
            function("data", function=self.function)

    def check(self, candidates: Candidates) -> None:
        """Known changes must have one number for each candidate."""
        if self.changes is not None and self.changes.shape[1] != len(candidates):
            raise ValueError(
                f"changes must have {len(candidates)} columns, one for each candidate, got {self.changes.shape[1]}"
            )

    def change_range(self, relation: Relation) -> float:
        """Twice the sensitivity, or the sensitivity if monotone; no change exceeds the width of the bounds.

        A replacement removes one record and adds another, so that utilities can move in both directions under it.
        """
        most = self.sensitivity if self.bounds is None else min(self.sensitivity, _difference_up(*self.bounds[::-1]))
        found = most if self.monotone and not _replaced(relation) else 2 * most
        if self.changes is None:
            return found
        return min(found, _largest_range(self.changes, clipped=self.bounds is not None))

    def totals(self, data: Any, candidates: Candidates, relation: Relation) -> FloatArray:
        """The utilities, with 0 for those that are not finite, clipped to the bounds."""
        del relation
        found = self._values(data, len(candidates))
        usual = np.where(np.isfinite(found), found, 0.0)
        low, high = (-_LARGEST, _LARGEST) if self.bounds is None else self.bounds
        return np.clip(usual, low, high)

    def problems(self, data: Any, candidates: Candidates) -> dict[str, int]:
        """Count the utilities that are not finite or lie outside the bounds."""
        found = self._values_or_none(data, len(candidates))
        if found is None:
            return {"function failed, so that utilities count as 0": len(candidates)}
        counts = {"not finite": int((~np.isfinite(found)).sum())}
        if self.bounds is not None:
            counts["outside the bounds"] = int(((found < self.bounds[0]) | (found > self.bounds[1])).sum())
        return counts

    @property
    def assumptions(self) -> frozenset[Assumption]:
        """That the stated sensitivity is correct."""
        return frozenset({Assumption.TRUSTED_SENSITIVITY})

    def _values(self, data: Any, count: int) -> FloatArray:
        """The utilities as floats, NaN where they are no numbers, or if the function fails; shape (count,)."""
        found = self._values_or_none(data, count)
        return np.full(count, np.nan) if found is None else found

    def _values_or_none(self, data: Any, count: int) -> FloatArray | None:
        """The utilities as floats, NaN where they are no numbers; None if the function fails."""
        if self.function is None:
            return _vector(data, count)
        try:
            with without_warnings():
                return _vector(self.function(data), count)
        except Exception:  # noqa: BLE001 - an error would show something of the data
            return None


def _checked_changes(given: Any, sensitivity: float) -> FloatArray:
    """A read-only copy of the known changes, of which one at least is not the same for all candidates."""
    found = real_array(changes=given).copy()
    if found.ndim != 2 or not found.size:
        raise ValueError(f"changes must have shape (changes, candidates), got {found.shape}")
    if not np.abs(found).max() <= sensitivity:
        raise ValueError(f"changes must not exceed the sensitivity {sensitivity:g}, got {np.abs(found).max():g}")
    if not _largest_range(found) > 0:
        raise ValueError("changes must differ between candidates: a change that is the same for all costs nothing")
    found.flags.writeable = False
    return found


def _largest_range(changes: FloatArray, *, clipped: bool = False) -> float:
    """The largest max - min of a row, rounded up; with `clipped` each change may also shrink, down to 0."""
    high, low = changes.max(axis=1), changes.min(axis=1)
    if clipped:  # a utility at a bound does not move
        high, low = np.maximum(high, 0.0), np.minimum(low, 0.0)
    return max(map(_difference_up, high.tolist(), low.tolist()))


def _difference_up(high: float, low: float) -> float:
    """high - low, rounded up."""
    exact = Fraction(high) - Fraction(low)
    found = float(exact)
    return found if Fraction(found) >= exact else math.nextafter(found, math.inf)


def _vector(data: Any, count: int) -> FloatArray:
    """One number for each candidate, NaN for what is no number. Raises SchemaError."""
    try:  # an object array: NumPy would convert a list with one string to strings only
        found = np.asarray(data, dtype=object if isinstance(data, (list, tuple)) else None)
    except Exception:  # noqa: BLE001 - the message could show the utilities
        raise SchemaError("the utilities must be an array of real numbers") from None
    if found.shape != (count,):
        raise SchemaError(f"the utilities must have shape ({count},), one for each candidate, got {found.shape}")
    if found.dtype.kind not in "biufO":
        raise SchemaError(f"the utilities must be an array of real numbers, got {readable_dtype(found.dtype)}")
    hidden = data.mask if isinstance(data, np.ma.MaskedArray) else False
    numbers = np.array([as_float(item) for item in found]) if found.dtype.kind == "O" else found
    with np.errstate(over="ignore"):
        return np.where(hidden, np.nan, numbers.astype(np.float64))


@frozen_value
class QuantileUtility(Utility):
    """Minus the distance, in records, between a candidate's rank and that of a quantile.

    With b records below a candidate and a records above it, its utility is -|(1 - q) b - q a|. `release` takes one
    column of numbers. A record that is missing or no number counts for no candidate.

    Parameters
    ----------
    quantile : float, default 0.5
        The quantile q, in [0, 1]; 0.5 is the median.

    Raises
    ------
    ValueError
        If `quantile` lies outside [0, 1].

    Notes
    -----
    Adding a record changes the utilities of two candidates by amounts that differ by at most 2 max(q, 1 - q), replacing
    one by at most 2 (docs/notes/exponential.md, section 5). Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> utility = ps.QuantileUtility(quantile=0.5)
    >>> utility.totals([1, 2, 3], (1.0, 2.0, 3.0), ps.AddRemove()).tolist()
    [-1.0, 0.0, -1.0]
    >>> utility.change_range(ps.AddRemove()), utility.change_range(ps.ReplaceOne(n=3))
    (1.0, 2.0)
    """

    quantile: float = 0.5
    _sums_for_each: ClassVar[int] = 2  # the numbers of records below and above it

    def __post_init__(self) -> None:
        if not 0.0 <= number(quantile=self.quantile) <= 1.0:
            raise ValueError(f"quantile must lie in [0, 1], got {self.quantile!r}")
        set_fields(self, quantile=number(quantile=self.quantile))

    def change_range(self, relation: Relation) -> float:
        """2 under ReplaceOne, 2 max(q, 1 - q) under AddRemove."""
        return 2.0 if _replaced(relation) else 2.0 * max(self.quantile, 1.0 - self.quantile)

    def check(self, candidates: Candidates) -> None:
        """The candidates must be numbers."""
        if any(isinstance(candidate, str) for candidate in candidates):
            raise TypeError("candidates must be numbers for QuantileUtility, got text")

    def totals(self, data: Any, candidates: Candidates, relation: Relation) -> FloatArray:
        """Minus the distances of the ranks."""
        below, above = self._ranks(data, candidates, relation)
        return 0.0 - np.abs((1.0 - self.quantile) * below - self.quantile * above)

    def _integers(self, data: Any, candidates: Candidates) -> tuple[NDArray[np.int64], int]:
        records = np.sort(read_column(data))  # NaN come last
        known = records[: int((~np.isnan(records)).sum())]
        points = np.array(candidates, dtype=np.float64)
        below = np.searchsorted(known, points, side="left")
        above = len(known) - np.searchsorted(known, points, side="right")
        return np.concatenate([below, above]).astype(np.int64), len(records)

    def exact_totals(self, data: Any, candidates: Candidates, relation: Relation) -> ExactTotals:
        """Minus the distances of the ranks in steps of 2^-24, with the quantile rounded to such a step towards 1/2.

        The rounding lowers the larger of q and 1 - q, so that no change exceeds `change_range`.
        """
        sums, count = self._integers(data, candidates)
        check_count(count, relation)
        return self._from_integers(sums)

    def _from_integers(self, sums: NDArray[np.int64]) -> ExactTotals:
        below, above = np.split(sums, 2)
        scaled = Fraction(self.quantile) * _QUANTILE_STEPS
        share = math.floor(scaled) if self.quantile > 0.5 else math.ceil(scaled)
        return ExactTotals(-np.abs((_QUANTILE_STEPS - share) * below - share * above), Fraction(1, _QUANTILE_STEPS))

    @property
    def assumptions(self) -> frozenset[Assumption]:
        """Nothing: the ranks are whole numbers."""
        return frozenset()

    def _ranks(self, data: Any, candidates: Candidates, relation: Relation) -> tuple[NDArray[Any], NDArray[Any]]:
        """The numbers of records below and above each candidate."""
        sums, count = self._integers(data, candidates)
        check_count(count, relation)
        below, above = np.split(sums, 2)
        return below, above

    def problems(self, data: Any, candidates: Candidates) -> dict[str, int]:
        """Count the records that are missing or no number."""
        del candidates
        return {"missing": int(np.isnan(read_column(data)).sum())}

    def record_format(self, candidates: Candidates) -> RecordFormat:
        """One column of numbers."""
        del candidates
        return ColumnFormat()

    def extreme_records(self, candidates: Candidates) -> list[Any]:
        """A record below all candidates, one above, and the candidates at the ends."""
        points = np.array(candidates, dtype=np.float64)
        low, high = float(points.min()), float(points.max())
        width = min(high - low, _LARGEST)
        return [low - width, high + width, low, high]


@frozen_value
class CountUtility(Utility):
    """The number of records that equal a candidate: the selection finds a frequent value, or a full histogram bin.

    `release` takes one column, of numbers if the candidates are numbers, else of text. A record that equals no
    candidate counts for none.

    Notes
    -----
    Adding a record raises one utility by 1; replacing one also lowers another by 1. Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> utility = ps.CountUtility()
    >>> utility.totals(["red", "blue", "red"], ("red", "green", "blue"), ps.AddRemove()).tolist()
    [2.0, 0.0, 1.0]
    >>> utility.change_range(ps.AddRemove()), utility.change_range(ps.ReplaceOne(n=3))
    (1.0, 2.0)
    """

    def change_range(self, relation: Relation) -> float:
        """1 under AddRemove, 2 under ReplaceOne."""
        return 2.0 if _replaced(relation) else 1.0

    def totals(self, data: Any, candidates: Candidates, relation: Relation) -> FloatArray:
        """The numbers of records that equal each candidate."""
        sums, count = self._integers(data, candidates)
        check_count(count, relation)
        return sums.astype(np.float64)

    def _integers(self, data: Any, candidates: Candidates) -> tuple[NDArray[np.int64], int]:
        places = self._places(data, candidates)
        return np.bincount(places[places >= 0], minlength=len(candidates)).astype(np.int64), len(places)

    def _from_integers(self, sums: NDArray[np.int64]) -> ExactTotals:
        return ExactTotals(sums.astype(np.float64), Fraction(1))

    @property
    def assumptions(self) -> frozenset[Assumption]:
        """Nothing: numbers of records are whole."""
        return frozenset()

    def problems(self, data: Any, candidates: Candidates) -> dict[str, int]:
        """Count the records that equal no candidate."""
        return {"equal to no candidate": int((self._places(data, candidates) < 0).sum())}

    def record_format(self, candidates: Candidates) -> RecordFormat:
        """One column: numbers, or names of which each becomes its place among the candidates."""
        return ColumnFormat(names=tuple(one for one in candidates if isinstance(one, str)))

    def extreme_records(self, candidates: Candidates) -> list[Any]:
        """Records that equal the first and the second candidate."""
        return list(candidates[:2])

    def _places(self, data: Any, candidates: Candidates) -> Any:
        """The place of each record among the candidates, -1 for none."""
        if isinstance(candidates[0], str):
            places = read_column(codes_of_names(data, [str(candidate) for candidate in candidates]))
            known = np.isin(places, np.arange(len(candidates)))
            return np.where(known, places, -1.0).astype(np.int64)
        records, points = read_column(data), np.array(candidates, dtype=np.float64)
        order = np.argsort(points)
        at = order[np.minimum(np.searchsorted(points, records, sorter=order), len(points) - 1)]
        return np.where(points[at] == records, at, -1)
