"""Division of rows by their unit, so that each part holds complete units and fits in memory."""

import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample.engines.sources import Stream
from privsample.mechanisms.groups.columns import indices_of, read_keys

_MOST = 1 << 22  # rows that are held at a time
_FILES = 64  # parts of more rows


def whole_units(stream: Stream, unit: str) -> Iterator[Any]:
    """Tables that hold all rows of a stream, each with all rows of its units; temporary files hold many rows.

    Raises SchemaError.
    """
    tables = stream.tables(_MOST)
    first = next(tables)
    if first.num_rows < _MOST:  # all of the source
        yield first
        return
    with TemporaryDirectory() as folder:
        yield from _divided(first, tables, unit, Path(folder))


def _divided(first: Any, others: Iterator[Any], unit: str, folder: Path) -> Iterator[Any]:
    """The rows by the hash of their unit, one file for each value of the hash."""
    import pyarrow as pa

    paths = [folder / f"{place}.arrow" for place in range(_FILES)]
    writers = [pa.ipc.new_file(str(path), first.schema) for path in paths]
    try:
        for table in chain([first], others):
            _write(table, unit, writers)
    finally:
        for writer in writers:
            writer.close()
    for path in paths:
        with pa.ipc.open_file(str(path)) as file:
            yield file.read_all()
        path.unlink()


def _write(table: Any, unit: str, writers: list[Any]) -> None:
    """Write each row of a table to the file of its unit."""
    parts = _hashed(table.column(unit))
    order = np.argsort(parts, kind="stable")
    ends = np.cumsum(np.bincount(parts, minlength=len(writers)))
    ordered = table.take(order)
    for place, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        writers[place].write_table(ordered.slice(start, end - start))


def _hashed(column: Any) -> NDArray[np.int64]:
    """The number of the part of each unit: a function of its value alone. Raises SchemaError."""
    found = read_keys(column, "unit column", unlisted="drop")  # the mechanism refuses what it does not drop
    if found.numbers is not None:
        return (found.numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(58)).astype(np.int64)
    if found.arrow is None:  # no unit at all
        return np.zeros(len(found), np.int64)
    encoded = found.arrow.dictionary_encode().unify_dictionaries()  # without nulls, which have no index
    values = encoded.chunks[0].dictionary.to_pylist()
    parts = np.array([zlib.crc32(str(value).encode(errors="surrogatepass")) % _FILES for value in values])
    return np.concatenate([parts[indices_of(chunk)] for chunk in encoded.chunks])
