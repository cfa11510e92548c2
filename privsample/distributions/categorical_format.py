"""Records of public categorical columns: rows of codes, or columns of names or codes by name."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._data import chunks, codes_of_names
from privsample._value import frozen_value
from privsample.distributions.record_format import RecordFormat
from privsample.distributions.rows import table
from privsample.errors import SchemaError


@frozen_value
class CategoricalFormat(RecordFormat):
    """Rows of codes, shape (n, columns), or a mapping or table of columns by name; a record is a row of codes.

    columns: the names of the columns with those of their categories.
    """

    columns: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.columns)

    def read(self, data: Any) -> NDArray[Any]:
        """The codes before the public rule, shape (n, columns): names that are not listed are -1, missing ones NaN."""
        by_name = _by_name(data)
        if by_name is None:
            return table(data, self.width)
        found = []
        for name, categories in self.columns:
            try:
                column = by_name[name]
            except Exception:  # noqa: BLE001 - the message could show a record
                raise SchemaError(f"the data must have the column {name!r}") from None
            parts = [np.asarray(part, dtype=np.float64) for part in chunks(codes_of_names(column, categories))]
            found.append(np.concatenate([np.empty(0), *parts]))
        if len({len(column) for column in found}) > 1:
            raise SchemaError("the columns of the data must be equally long")
        return np.column_stack(found)

    def to_data(self, records: NDArray[Any]) -> NDArray[Any]:
        """The records themselves."""
        return records


def _by_name(data: Any) -> Any:
    """The data if columns are looked up in them by name: a mapping, a table or a structured array; otherwise None."""
    if isinstance(data, Mapping) or getattr(getattr(data, "dtype", None), "names", None):
        return data
    return data if hasattr(data, "columns") and hasattr(data, "__getitem__") else None
