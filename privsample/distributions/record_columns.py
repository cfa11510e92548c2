"""Columns of records for models of the user: their types, shapes and bounds, and the public rule that cleans them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, flag, interval, listed, mapping, positive_integer
from privsample._data import category_names, chunks, codes_of_names
from privsample._value import frozen_value, set_fields
from privsample.distributions.rows import table
from privsample.errors import SchemaError

_NO_NAME = -1.0  # the code of a text that is none of the names
_MOST_INTEGER = 2.0**53  # larger floats are not converted to 64-bit integers exactly, or not at all


@frozen_value
class RecordColumn:
    """One named column of records: a number, a row of numbers or a category for each record.

    The public rule: a number outside `bounds` becomes the nearer bound, and whole numbers are rounded. A record with a
    missing value, or a value that is not a finite number, is invalid in all columns; a mechanism ignores it.

    Parameters
    ----------
    width : int, optional
        Length of a record's row of numbers, >= 1: the column has shape (n, width). None, the default, means one number:
        the column has shape (n,).
    bounds : tuple (low, high), optional
        Smallest and largest number, finite, low < high. None, the default, allows every finite number.
    integer : bool, default False
        True if the numbers are whole, such as positions in another array. They then need `bounds`.
    names : tuple of str, default ()
        Names of categories, for a column of text or of codes 0, 1, ...; it implies `integer` and the bounds of the
        codes. A text that is no name is invalid.

    Raises
    ------
    ValueError
        If a field is outside its range, or whole numbers have no bounds.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.RecordColumn(names=("north", "south")).bounds
    (0.0, 1.0)
    """

    width: int | None = None
    bounds: tuple[float, float] | None = None
    integer: bool = False
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.width is not None:
            set_fields(self, width=positive_integer(width=self.width))
        set_fields(self, integer=flag(integer=self.integer))
        if names := listed(names=self.names):
            if self.bounds not in (None, (0, len(names) - 1)) or self.width is not None or len(names) < 2:
                raise ValueError("names must be at least two, and be given without width and bounds")
            set_fields(self, names=category_names(names, len(names)), integer=True, bounds=(0.0, len(names) - 1.0))
        if self.bounds is not None:
            set_fields(self, bounds=interval(bounds=self.bounds))
        if self.integer and self.bounds is None:
            raise ValueError(
                "bounds must be given for a column of whole numbers, such as (0, 7) for positions in an array of "
                "length 8: a number outside must not cause an error"
            )
        if self.integer and any(bound != round(bound) for bound in self.bounds or ()):
            raise ValueError(f"bounds must be whole numbers for a column of whole numbers, got {self.bounds}")
        if self.integer and not max(map(abs, self.bounds or ())) <= _MOST_INTEGER:
            raise ValueError(f"bounds of a column of whole numbers must lie within +-2**53, got {self.bounds}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one record's entry: () for one number, else (width,)."""
        return () if self.width is None else (self.width,)

    def read(self, column: Any) -> FloatArray:
        """The column as floats before the public rule.

        Parameters
        ----------
        column : array of shape (n,) or (n, width)
            The column, as it was passed to `release`.

        Returns
        -------
        numpy.ndarray of float
            The column, shape (n,) or (n, width); what is not a number is NaN.

        Raises
        ------
        SchemaError
            If the column has another shape or type.
        """
        found = self._numbers(column)
        return np.where(found == _NO_NAME, np.nan, found) if self.names else found

    def _numbers(self, column: Any) -> FloatArray:
        """The column as floats, where a text that is no name is `_NO_NAME`. Raises SchemaError."""
        if self.width is not None:
            return table(column, self.width)
        return np.concatenate([np.empty(0), *chunks(codes_of_names(column, self.names))])

    def count_invalid(self, column: Any) -> dict[str, int]:
        """Count the invalid entries by reason. For the curator only.

        Parameters
        ----------
        column : array of shape (n,) or (n, width)
            The column, as it was passed to `release`.

        Returns
        -------
        dict of str to int
            The numbers of records whose entry is "not among the names", "missing or not a number", or "not finite"
            (one reason for each record, the first of these); reasons without records are left out.

        Raises
        ------
        SchemaError
            If the column has another shape or type.
        """
        found = self._numbers(column)
        unnamed = (found == _NO_NAME) if self.names else np.zeros(found.shape, dtype=bool)
        within = tuple(range(1, found.ndim))
        infinite, missing = np.isinf(found).any(axis=within), np.isnan(found).any(axis=within)
        counts = {
            "not among the names": int(unnamed.sum()),
            "missing or not a number": int(missing.sum()),
            "not finite": int((infinite & ~missing).sum()),
        }
        return {reason: count for reason, count in counts.items() if count}

    def clean(self, numbers: FloatArray) -> NDArray[Any]:
        """Apply the public rule to finite numbers.

        Parameters
        ----------
        numbers : numpy.ndarray of float
            Finite numbers of any shape.

        Returns
        -------
        numpy.ndarray
            The numbers within the bounds, as integers if the column is one of whole numbers.
        """
        inside = numbers if self.bounds is None else np.clip(numbers, *self.bounds)
        return np.rint(inside).astype(np.int64) if self.integer else inside

    def changed(self, numbers: FloatArray) -> int:
        """Number of finite entries that the public rule changes. For the curator only.

        Parameters
        ----------
        numbers : numpy.ndarray of float
            What `read` returned.

        Returns
        -------
        int
            The count.
        """
        finite = np.where(np.isfinite(numbers), numbers, np.float64(0.0 if self.bounds is None else self.bounds[0]))
        return int((self.clean(finite) != finite).sum())


Columns = tuple[tuple[str, RecordColumn], ...]


def checked_columns(columns: Any) -> dict[str, RecordColumn]:
    """The columns by name. Raises TypeError or ValueError."""
    found = mapping(columns=columns)
    for name, column in found.items():
        if not isinstance(name, str) or not isinstance(column, RecordColumn):
            raise TypeError(f"columns must map names to RecordColumn(...), got {name!r}: {type(column).__name__}")
    if not found:
        raise ValueError("columns must name at least one column of the data")
    return found


def read_columns(columns: Columns, data: Any) -> dict[str, FloatArray]:
    """The columns of a mapping or table by name, before the public rule, all of one length. Raises SchemaError."""
    names = ", ".join(name for name, _ in columns)
    known = _names(data)
    if known is None:
        raise SchemaError(f"data must be a mapping or table with the columns {names}, got {type(data).__name__}")
    if missing := [name for name, _ in columns if name not in known]:
        raise SchemaError(f"data must have the columns {names}; {', '.join(missing)} not found")
    found = {}
    for name, column in columns:
        try:
            found[name] = column.read(data[name])
        except SchemaError as error:
            raise SchemaError(f"column {name}: {error}") from None
    sizes = {name: len(array) for name, array in found.items()}
    if len(set(sizes.values())) != 1:
        raise SchemaError(f"the columns must have one entry for each record, got the lengths {sizes}")
    return found


def _names(data: Any) -> set[Any] | None:
    """The names of the columns of a mapping or table; None for anything else."""
    if isinstance(data, Mapping):
        return set(data)
    listed = getattr(data, "columns", None)
    return None if listed is None or callable(listed) or not hasattr(data, "__getitem__") else set(map(str, listed))


def clean_records(columns: Columns, numbers: Mapping[str, FloatArray]) -> tuple[dict[str, NDArray[Any]], int]:
    """The valid records after the public rule, by column, and the number of invalid ones.

    A record with an entry that is not a finite number is left out: each record is judged by itself.
    """
    size = len(next(iter(numbers.values())))
    valid = np.ones(size, dtype=bool)
    for array in numbers.values():
        valid &= np.isfinite(array).all(axis=tuple(range(1, array.ndim)))
    return {name: column.clean(numbers[name][valid]) for name, column in columns}, size - int(valid.sum())


def example_records(columns: Columns, count: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Random records of the public schema, to check a model with: uniform within bounds, else standard normal."""
    found = {}
    for name, column in columns:
        shape = (count, *column.shape)
        numbers = rng.standard_normal(shape) if column.bounds is None else rng.uniform(*column.bounds, shape)
        found[name] = column.clean(numbers)
    return found
