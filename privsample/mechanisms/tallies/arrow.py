"""Tallies as Arrow tables: a column of keys, one of counts, and sums as decimals; the rest is in the metadata."""

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privsample._optional import require
from privsample.errors import SchemaError
from privsample.mechanisms.tallies.fingerprints import FORMAT, file_digest

if TYPE_CHECKING:
    from privsample.mechanisms.tallies.tally import Tally

_METADATA = b"privsample_tally"
_DIGITS = 38  # of a decimal of 128 bits
_KEYS, _COUNTS, _SUMS = "key", "count", "sum_"


def to_table(tally: "Tally") -> Any:
    """A tally as a pyarrow.Table. Raises ImportError, or SchemaError if a sum has more digits than a decimal."""
    pa = _pyarrow()
    columns = {} if tally.keys is None else {_KEYS: pa.array(tally.keys)}
    columns |= {_COUNTS: pa.array(tally.counts)}
    columns |= {f"{_SUMS}{j}": _decimals(column) for j, column in enumerate(np.ascontiguousarray(tally.sums.T))}
    content = {
        "format": FORMAT,
        "mechanism": tally.mechanism,
        "parts": sorted(tally.parts),
        "digest": file_digest(tally),
    }
    return pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(content).encode()})


def fields_of_table(data: Any) -> tuple[dict[str, Any], str]:
    """The fields of a tally from an Arrow table or record batch, and the digest of its content. Raises SchemaError."""
    table = _table(data)
    content = _content(table.schema.metadata)
    names, keyed = table.column_names, _KEYS in table.column_names
    width = len(names) - 1 - keyed
    if names != [*([_KEYS] * keyed), _COUNTS, *(f"{_SUMS}{j}" for j in range(width))]:
        raise _broken(f"expected the columns {_KEYS} (with groups), {_COUNTS}, {_SUMS}0, {_SUMS}1, ...")
    if any(column.null_count for column in table.columns):
        raise _broken("expected no null")
    columns = [_whole(table.column(f"{_SUMS}{j}")) for j in range(width)]
    sums = np.stack(columns, axis=1) if columns else np.zeros((table.num_rows, 0), dtype=np.int64)
    found = {
        "mechanism": content["mechanism"],
        "sums": sums,
        "counts": _indices(table.column(_COUNTS)),
        "keys": _indices(table.column(_KEYS)) if keyed else None,
        "parts": frozenset(content["parts"]),
    }
    return found, content["digest"]


def to_file(tally: "Tally") -> bytes:
    """A tally as the content of an Arrow file. Raises ImportError, SchemaError."""
    pa, table = _pyarrow(), to_table(tally)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_file(content: bytes) -> Any:
    """The table in an Arrow file. Raises SchemaError if the file is not whole."""
    pa = _pyarrow()
    try:
        return pa.ipc.open_file(pa.BufferReader(content)).read_all()
    except (pa.ArrowException, OSError):
        raise _broken("expected an Arrow file that is whole") from None


def _pyarrow() -> Any:
    require("pyarrow", "files", "a tally as an Arrow table")
    import pyarrow as pa

    return pa


def _broken(expected: str) -> SchemaError:
    return SchemaError(
        f"this is not a whole table of a tally: {expected}; use the table of tally.to_arrow(), or make the tally again"
    )


def _table(data: Any) -> Any:
    """An Arrow table from a table, a record batch, or an object that gives one as Arrow data."""
    pa = _pyarrow()
    if not (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")):
        raise TypeError(f"table must be an Arrow table or record batch, got {type(data).__name__}")
    try:
        return pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else pa.table(data)
    except (TypeError, ValueError):
        raise _broken("expected an Arrow table or record batch") from None


def _content(metadata: Any) -> dict[str, Any]:
    """The metadata of a tally, of types that its fields can have. Raises SchemaError."""
    try:
        content = json.loads((metadata or {})[_METADATA])
        number = content["format"]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise _broken(f"expected the metadata {_METADATA.decode()!r} in the schema") from None
    if type(number) is not int or number != FORMAT:
        raise SchemaError(
            f"this tally must have the format {FORMAT}, got {number!r}: make it with this version of privsample"
        )
    parts = content.get("parts")
    if not isinstance(parts, list) or not all(isinstance(name, str) for name in parts):
        raise _broken("expected the names of its parts in the metadata")
    return {"mechanism": content.get("mechanism"), "parts": parts, "digest": content.get("digest")}


def _decimals(numbers: NDArray[Any]) -> Any:
    """Integers as decimals of 38 digits. Raises SchemaError if one has more."""
    pa = _pyarrow()
    kind = pa.decimal128(_DIGITS, 0)
    if numbers.dtype == object:
        if any(abs(number) >= 10**_DIGITS for number in numbers):
            raise SchemaError(
                f"the sums must have at most {_DIGITS} digits for Arrow, got a longer one: pickle the tally, or use a "
                "coarser grid or narrower bounds"
            )
        return pa.array([Decimal(number) for number in numbers], kind)
    halves = np.stack([numbers, numbers >> 63], axis=1).astype("<i8")  # two's complement of 128 bits
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(halves)])


def _whole(column: Any) -> NDArray[Any]:
    """The integers of a column of decimals: in 64 bits, or as Python integers. Raises SchemaError."""
    pa = _pyarrow()
    if column.type != pa.decimal128(_DIGITS, 0):
        raise _broken(f"expected sums of the type decimal128({_DIGITS}, 0), got {column.type}")
    try:
        return np.asarray(column.cast(pa.int64()).to_numpy())
    except pa.ArrowInvalid:
        return np.array([int(number) for number in column.to_pylist()], dtype=object)


def _indices(column: Any) -> NDArray[Any]:
    """A column of 64-bit integers. Raises SchemaError."""
    pa = _pyarrow()
    if column.type != pa.int64():
        raise _broken(f"expected keys and counts of the type int64, got {column.type}")
    return np.asarray(column.to_numpy())
