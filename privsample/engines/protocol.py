"""What an engine is: it computes the tally of the columns of a source. The checks of schemas, which all engines share.

A message of an engine names columns, types and files. It never shows a record, a key or a unit.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, Self

import numpy as np

from privsample._data import chunks
from privsample._value import frozen_value
from privsample.distributions.record_format import ColumnFormat, LabelledFormat, RowFormat
from privsample.errors import SchemaError
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.groups.grouped import GroupedMechanism
from privsample.mechanisms.tallies.tally import Tally


@frozen_value
class Columns:
    """The names of the columns of a source that a mechanism reads.

    Parameters
    ----------
    records : str or tuple of str
        The column of the records; for rows of several numbers, their columns in order, and the label last.
    group : str, optional
        The column of the group's key. None without groups.
    unit : str, optional
        The column of the unit. None without bounds on a unit's contribution.
    """

    records: str | tuple[str, ...]
    group: str | None = None
    unit: str | None = None

    @classmethod
    def of(cls, mechanism: Mechanism, columns: Any, *, by: Any = None, unit: Any = None) -> Self:
        """The checked names; `by` defaults to the name of a grouped mechanism. Raises TypeError or ValueError."""
        records = columns if isinstance(columns, str) else _names(columns)
        group = getattr(mechanism, "name", None) if hasattr(mechanism, "keys") else None
        if by is not None and group is None:
            raise TypeError(
                f"by must be left out for {type(mechanism).__name__}: wrap it in ps.by(name, mechanism, ...)"
            )
        if unit is not None and not hasattr(mechanism, "contribution"):
            raise TypeError(
                f"unit must be left out: {type(mechanism).__name__} does not bound the contribution of a unit; wrap it "
                "in ps.by(..., contribution=ps.Contribution(...)), or, for keys that are not public, call release "
                "with the columns of units and keys"
            )
        bounded = getattr(mechanism, "contribution", None) is not None
        if (unit is not None) != bounded:
            raise TypeError(
                "unit must name the column of the units, whose contribution the mechanism bounds"
                if bounded
                else "unit must be left out: the mechanism does not bound the contribution of a unit; give ps.by "
                "contribution=ps.Contribution(...)"
            )
        found = cls(
            records=records,
            group=group if by is None else _name(by=by),
            unit=None if unit is None else _name(unit=unit),
        )
        if len(set(found.names)) != len(found.names):
            raise ValueError(f"columns, by and unit must name different columns, got {', '.join(found.names)}")
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """All names: unit, group, records."""
        records = (self.records,) if isinstance(self.records, str) else self.records
        return (*(name for name in (self.unit, self.group) if name is not None), *records)

    def data(self, table: Any, mechanism: Mechanism) -> Any:
        """What `mechanism.tally` takes of an Arrow table or record batch that has these columns. Raises SchemaError."""
        records = self._records(table, getattr(mechanism, "base", mechanism))
        keys = [_column(table, name) for name in (self.unit, self.group) if name is not None]
        return (*keys, records) if keys else records

    def _records(self, table: Any, mechanism: Mechanism) -> Any:
        if isinstance(self.records, str):
            return _column(table, self.records)
        columns = {name: _column(table, name) for name in self.records}
        form = mechanism.record_format
        if not isinstance(form, (ColumnFormat, LabelledFormat, RowFormat)):
            return columns
        rows = np.column_stack([np.concatenate([np.empty(0), *chunks(column)]) for column in columns.values()])
        return (rows[:, :-1], rows[:, -1]) if isinstance(form, LabelledFormat) else rows


class Engine(Protocol):
    """Computes the tally of columns of a source. All engines return equal tallies for the same records."""

    def tally(self, source: Any, mechanism: Mechanism, columns: Columns) -> Tally:
        """The tally of all records of the source.

        Parameters
        ----------
        source : object
            The data, in the forms that the engine documents.
        mechanism : Mechanism
            A mechanism that has tallies.
        columns : Columns
            The columns that it reads.

        Returns
        -------
        Tally
            The tally, equal to `mechanism.tally` of all records at once.

        Raises
        ------
        SchemaError
            If a column is missing, has a type that the mechanism does not read, or the source cannot be read to its
            end. Nothing is drawn.
        """


def check_columns(present: Iterable[str], columns: Columns, where: str = "the data") -> None:
    """Check that a source has all columns, once each; `where` names it. Raises SchemaError."""
    found = list(present)
    if missing := [name for name in columns.names if name not in found]:
        raise SchemaError(f"column {missing[0]!r} is not in {where}; the columns are {_shown(found)}")
    if twice := [name for name in columns.names if found.count(name) > 1]:
        raise SchemaError(f"column {twice[0]!r} occurs more than once in {where}; rename one of the two")


def check_types(empty: Any, columns: Columns, mechanism: Mechanism) -> None:
    """Check the types of an empty Arrow table of the columns of a source. Raises SchemaError and TypeError."""
    mechanism.tally(columns.data(empty, mechanism))
    if isinstance(mechanism, GroupedMechanism) and columns.group is not None:
        mechanism._index.check_type(mechanism._read_keys(_column(empty, columns.group)), mechanism._column)


def check_same_types(types: Mapping[str, Mapping[str, str]], columns: Columns) -> None:
    """Check that all files give each column the same type; `types` maps file to column to type. Raises SchemaError."""
    first = next(iter(types), "")
    for file, kinds in types.items():
        check_columns(kinds, columns, f"file {file}")
        for name in columns.names:
            if kinds[name] != types[first][name]:
                raise SchemaError(
                    f"column {name!r} has the type {types[first][name]} in file {first}, and {kinds[name]} in file "
                    f"{file}; write all files with one type"
                )


def _shown(names: list[str]) -> str:
    """The first names, for a message."""
    return ", ".join(map(repr, names[:20])) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _column(table: Any, name: str) -> Any:
    """A column of a table or record batch as a chunked array, which is a stream."""
    import pyarrow as pa

    column = table.column(name)
    return pa.chunked_array([column]) if isinstance(column, pa.Array) else column


def _name(**named: Any) -> str:
    ((name, item),) = named.items()
    if not isinstance(item, str) or not item:
        raise TypeError(f"{name} must be the name of a column, got {item!r}")
    return item


def _names(columns: Any) -> tuple[str, ...]:
    if not isinstance(columns, (list, tuple)) or not columns:
        raise TypeError(f"columns must be the name of a column, or a tuple of names, got {columns!r}")
    return tuple(_name(columns=item) for item in columns)
