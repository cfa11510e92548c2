"""Sources of rows as a stream of Arrow record batches: files, tables, readers, datasets, and whatever speaks Arrow."""

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from typing import Any

from privsample._data import _prefetch
from privsample.engines.parts import parquet_parts
from privsample.engines.protocol import Columns, check_columns, unreadable
from privsample.errors import SchemaError

_ROWS = 1 << 18  # of a record batch
_NAMED = (
    "a path, a list of paths, an Arrow table, reader or dataset, a DuckDB relation, or a Polars or pandas DataFrame"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The columns of a source: an empty Arrow table of them, and their record batches, which can be read once."""

    empty: Any
    batches: Iterator[Any]

    def tables(self, rows: int) -> Iterator[Any]:
        """The rows as tables of at least `rows` rows, except the last; one empty table for a source without rows."""
        import pyarrow as pa

        held, count, empty = list[Any](), 0, True
        for batch in self.batches:
            held.append(batch)
            count += batch.num_rows
            if count >= rows:
                yield pa.Table.from_batches(held)
                held, count, empty = [], 0, False
        if held or empty:
            yield pa.Table.from_batches(held, schema=self.empty.schema)


def is_path(source: Any) -> bool:
    """Whether a source is a path, a glob, or a list of these."""
    return isinstance(source, (str, PathLike)) or (
        isinstance(source, (list, tuple)) and all(isinstance(item, (str, PathLike)) for item in source)
    )


def open_stream(source: Any, columns: Columns) -> Stream:
    """The columns of a source as a stream. Raises SchemaError if one is missing, and TypeError for no source."""
    import pyarrow as pa
    from pyarrow.dataset import Dataset

    if is_path(source):
        parts, empty = parquet_parts(source, columns)
        files = list(dict.fromkeys(part.file for part in parts))
        return Stream(empty=empty, batches=_guarded(_file_batches(files, empty.schema)))
    if isinstance(source, Dataset):
        check_columns(source.schema.names, columns)
        reader = source.scanner(columns=list(columns.names), batch_size=_ROWS).to_reader()
    elif type(source).__module__.startswith("polars") and hasattr(source, "collect_batches"):
        check_columns(_names_of(source), columns)
        reader = _lazy_batches(source.select(list(columns.names)))
    elif hasattr(source, "__arrow_c_stream__"):
        if hasattr(source, "columns") and hasattr(source, "select"):  # a DuckDB relation or a Polars DataFrame
            reader = _selected(source, columns)
        else:
            reader = _reader(source)
    else:
        raise TypeError(f"source must be {_NAMED}, got {type(source).__name__}")
    check_columns(reader.schema.names, columns)
    schema = pa.schema([reader.schema.field(name) for name in columns.names])
    names = list(columns.names)
    return Stream(empty=schema.empty_table(), batches=_guarded(batch.select(names) for batch in _prefetch(reader)))
