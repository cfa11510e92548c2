"""Sources of rows as a stream of Arrow record batches: files, tables, readers, datasets, and whatever speaks Arrow."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from typing import Any

from privsample._data import decoded, prefetch, unreadable, value_type
from privsample.engines.parts import parquet_parts
from privsample.engines.protocol import Columns, check_columns

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
    """The columns of a source as a stream. Raises SchemaError if one is missing, and TypeError if it is no source."""
    import pyarrow as pa

    if is_path(source):
        files = parquet_parts(source, columns)
        return Stream(empty=files.empty, batches=_decoded(_file_batches(files.names, columns), files.empty.schema))
    try:
        names = names_of(source)
    except Exception as error:  # noqa: BLE001 (of any library: its message may show data)
        raise unreadable("the source", error) from None
    if names is not None:
        check_columns(names, columns)
    try:
        reader = _reader(source, list(columns.names))
    except TypeError:
        raise
    except Exception as error:  # noqa: BLE001
        raise unreadable("the source", error) from None
    check_columns(reader.schema.names, columns)
    fields = [reader.schema.field(name) for name in columns.names]
    schema = pa.schema([field.with_type(value_type(field.type)) for field in fields])
    return Stream(empty=schema.empty_table(), batches=_decoded(prefetch(reader), schema))


def names_of(source: Any) -> list[str] | None:
    """The names of the columns of a source, as far as they are known before it is read."""
    if hasattr(source, "collect_schema"):  # a Polars LazyFrame
        return list(source.collect_schema().names())
    if hasattr(source, "schema") and hasattr(source.schema, "names"):  # of PyArrow
        return list(source.schema.names)
    return list(map(str, source.columns)) if hasattr(source, "columns") else None


def _reader(source: Any, names: list[str]) -> Any:
    """An Arrow reader of the columns of these names, and of others where a library cannot leave them out."""
    import pyarrow as pa
    from pyarrow.dataset import Dataset

    if isinstance(source, Dataset):
        return source.scanner(columns=names, batch_size=_ROWS).to_reader()
    if hasattr(source, "collect_batches"):
        return _lazy_reader(select(source, names))
    if is_relation(source):
        return source.project(", ".join(map(quoted, names))).to_arrow_reader(_ROWS)
    if not hasattr(source, "__arrow_c_stream__"):
        raise TypeError(f"source must be {_NAMED}, got {type(source).__name__}")
    if isinstance(source, (pa.Table, pa.RecordBatch)):
        source = source.select(names)
    elif hasattr(source, "columns"):  # a DataFrame of Polars or pandas
        source = source[names]
    return pa.RecordBatchReader.from_stream(source)


def is_relation(source: Any) -> bool:
    """Whether a source is a DuckDB relation."""
    return type(source).__name__ == "DuckDBPyRelation"


def quoted(name: str) -> str:
    """A name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def select(frame: Any, names: Iterable[str]) -> Any:
    """The columns of a Polars frame, by their names as they are: `select` would read some names as patterns."""
    from polars import selectors

    return frame.select(selectors.by_name(*names))


def _lazy_reader(frame: Any) -> Any:
    """The rows of a Polars LazyFrame, which streams them."""
    import pyarrow as pa

    empty = frame.head(0).collect().to_arrow()
    batches = (batch for part in frame.collect_batches(chunk_size=_ROWS) for batch in part.to_arrow().to_batches())
    return pa.RecordBatchReader.from_batches(empty.schema, batches)


def _file_batches(files: list[str], columns: Columns) -> Iterator[Any]:
    """The record batches of Parquet files, one file after the other."""
    import pyarrow.parquet as pq

    for path in files:
        with pq.ParquetFile(path) as file:
            yield from prefetch(file.iter_batches(batch_size=_ROWS, columns=list(columns.names)))


def _decoded(batches: Iterator[Any], schema: Any) -> Iterator[Any]:
    """The columns of a schema of each record batch, values in place of dictionaries. Raises SchemaError."""
    import pyarrow as pa

    names = schema.names
    try:
        for batch in batches:
            columns = [decoded(batch.column(name)) for name in names]
            yield pa.record_batch(columns, schema=schema)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 (of any library: its message may show data)
        raise unreadable("the source", error) from None
