"""Records in: one column of anything with the array protocol or an Arrow stream, in chunks."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample.errors import SchemaError

ROWS = 1 << 18


def chunks(data: Any) -> Iterator[NDArray[Any]]:
    """Yield the records as one-dimensional arrays of bool, int or float; a missing or non-numeric entry is NaN.

    Raises: SchemaError, for a shape or type that is not one column of numbers. No message shows a record.
    """
    if _is_numpy(data) or not hasattr(data, "__arrow_c_stream__"):
        yield from _from_array(data)
    else:
        yield from _from_arrow(data)


def _is_numpy(data: Any) -> bool:
    return isinstance(getattr(data, "dtype", None), np.dtype)


def _from_array(data: Any) -> Iterator[NDArray[Any]]:
    if isinstance(data, np.ma.MaskedArray):
        data = np.ma.filled(data.astype(np.float64), np.nan)
    if isinstance(data, (str, bytes)) or not (hasattr(data, "__array__") or isinstance(data, (list, tuple))):
        raise SchemaError(f"data must be an array or an Arrow stream of one column, got {type(data).__name__}")
    try:
        array = np.asarray(data)
    except Exception:  # noqa: BLE001 - the library's own message may show a record
        raise SchemaError("data must be one column of numbers; it could not be read as an array") from None
    if array.ndim != 1:
        raise SchemaError(f"data must be one column, shape (n,), got shape {array.shape}; select a column first")
    if array.dtype.kind not in "biufO":
        raise SchemaError(f"data must be numbers or booleans, got {array.dtype}; encode it by a public rule first")
    for start in range(0, len(array), ROWS):
        yield _plain(array[start : start + ROWS])


def _plain(chunk: NDArray[Any]) -> NDArray[Any]:
    """Booleans as bytes, objects as floats with NaN where they are no number."""
    if chunk.dtype.kind == "b":
        return chunk.view(np.uint8)
    if chunk.dtype.kind == "O":
        return np.array([_float(item) for item in chunk])
    return chunk


def _float(item: Any) -> float:
    try:
        return float(item)
    except OverflowError:
        return np.inf if item > 0 else -np.inf
    except Exception:  # noqa: BLE001 - total: whatever a record holds, it is only not a number
        return np.nan


def _from_arrow(data: Any) -> Iterator[NDArray[Any]]:
    try:
        import pyarrow as pa
    except ImportError:
        raise ImportError("reading an Arrow stream needs pyarrow: pip install 'privsample[files]'") from None
    try:
        reader = pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowInvalid, TypeError, ValueError):
        column = pa.chunked_array(data)  # a stream of plain arrays: a polars or pandas Series, a ChunkedArray
        _check_type(column.type)
        arrays: Iterator[Any] = iter(column.chunks)
    else:
        if len(reader.schema) != 1:
            raise SchemaError(f"data must be one column, got {len(reader.schema)}: {reader.schema.names}; select one")
        _check_type(reader.schema.types[0])
        arrays = (batch.column(0) for batch in reader)
    for array in arrays:
        for start in range(0, len(array), ROWS):
            yield _numbers(array.slice(start, ROWS))


def _check_type(kind: Any) -> None:
    from pyarrow import types

    accepted = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    if not any(accept(kind) for accept in accepted):
        raise SchemaError(f"data must be numbers or booleans, got {kind}; encode it by a public rule first")


def _numbers(array: Any) -> NDArray[Any]:
    import pyarrow as pa

    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    elif not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        array = array.cast(pa.float64())
    chunk: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return chunk
