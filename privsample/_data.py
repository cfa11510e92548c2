"""Reads one column of records from an array or an Arrow stream, in chunks."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import is_encodable, listed
from privsample._optional import require
from privsample.errors import SchemaError

ROWS = 1 << 18
_AHEAD = 2  # batches that are read while one is processed
_EXACT_DIGITS = 15  # decimals of as many digits are quotients of two doubles
_TEXT_BITS = 0x7FF8_0000_0000_7EB7
# The NaN that represents text, recognised by its bits.
TEXT = float(np.array(_TEXT_BITS, dtype=np.uint64).view(np.float64))


def text_mask(numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which entries were text: they are a NaN with its own bits, which only the curator's counts distinguish."""
    return np.ascontiguousarray(numbers).view(np.uint64) == _TEXT_BITS


def chunks(data: Any) -> Iterator[NDArray[Any]]:
    """Yield the records as one-dimensional arrays of bool, int or float; a missing or non-numeric entry is NaN.

    Text becomes the NaN that `text_mask` recognises. A column whose type is text is refused.

    Raises SchemaError if the data are not one column of numbers. No message shows a record.
    """
    if _is_numpy(data) or not hasattr(data, "__arrow_c_stream__"):
        yield from _from_array(data)
    else:
        yield from _from_arrow(data)


def codes_of_names(data: Any, names: Sequence[str]) -> Any:
    """A column of category names as codes 0, 1, ...: the place of each record in a public list of names.

    Text that is no name becomes -1, which lies outside every domain of codes, and empty text becomes NaN. A column of
    numbers is returned as it is. The result depends on each record alone, and is defined for every object.
    """
    if not names:
        return data
    if isinstance(data, (list, tuple)):
        records: Any = data
    elif hasattr(data, "__array__"):
        array = np.asarray(data)
        if array.ndim != 1 or array.dtype.kind not in "USTO":
            return data
        records = array.tolist()
    elif hasattr(data, "__arrow_c_stream__") and hasattr(data, "to_pylist"):
        records = data.to_pylist()
    else:
        return data
    places = {name: float(code) for code, name in enumerate(names)}
    found = (_place(item, places) if isinstance(item, str) else as_float(item) for item in records)
    return np.fromiter(found, dtype=np.float64, count=len(records))


def _place(text: str, places: Mapping[str, float]) -> float:
    return places.get(str(text), -1.0 if text.strip() else np.nan)


def category_names(names: Any, count: int) -> tuple[str, ...]:
    """Check the public names of `count` categories: distinct texts, or none at all. Raises TypeError or ValueError."""
    given = listed(names=names)
    if isinstance(names, str) or not all(isinstance(name, str) and name.strip() for name in given):
        raise TypeError("names must be a sequence of texts that are not empty, one for each category")
    if not all(map(is_encodable, given)):
        raise ValueError("names must be strings that UTF-8 can encode, got lone surrogates")
    if given and (len(given) != count or len(set(given)) != count):
        raise ValueError(f"names must hold {count} distinct names, one for each category, got {len(set(given))}")
    return tuple(map(str, given))


_TEXT_COLUMN = (
    "data must be numbers or booleans, but the column holds text; encode it by a public rule first, such as 1 for "
    "'yes' and 0 for all else"
)


def _is_numpy(data: Any) -> bool:
    """True if the data have a NumPy dtype."""
    return isinstance(getattr(data, "dtype", None), np.dtype)


def _from_array(data: Any) -> Iterator[NDArray[Any]]:
    """The chunks of an array or sequence."""
    if isinstance(data, (list, tuple)):
        array = np.fromiter((as_float(item) for item in data), dtype=np.float64, count=len(data))
    elif isinstance(data, (str, bytes)) or not hasattr(data, "__array__"):
        raise SchemaError(f"data must be an array or an Arrow stream of one column, got {type(data).__name__}")
    else:
        try:
            array = np.asanyarray(data)
        except Exception:  # noqa: BLE001 - the library's own message may show a record
            raise SchemaError("data must be one column of numbers; it could not be read as an array") from None
    if array.ndim != 1:
        raise SchemaError(f"data must be one column, shape (n,), got shape {array.shape}; select a column first")
    if array.dtype.kind in "UST":
        raise SchemaError(_TEXT_COLUMN)
    if array.dtype.kind not in "biufO":
        raise SchemaError(
            f"data must be numbers or booleans, got {readable_dtype(array.dtype)}; encode it by a public rule first"
        )
    for start in range(0, len(array), ROWS):
        yield _plain_numbers(array[start : start + ROWS])


def _plain_numbers(chunk: NDArray[Any]) -> NDArray[Any]:
    """Booleans as bytes; objects as floats, NaN where they are not numbers; masked entries as NaN."""
    masked = np.ma.getmaskarray(chunk) if isinstance(chunk, np.ma.MaskedArray) else None
    chunk = np.asarray(chunk)
    if chunk.dtype.kind == "O":
        chunk = np.array([as_float(item) for item in chunk])
    if masked is not None:
        return np.where(masked, np.nan, chunk.astype(np.float64))
    return chunk.view(np.uint8) if chunk.dtype.kind == "b" else chunk


def readable_dtype(kind: np.dtype[Any]) -> str:
    """The dtype for a message; text dtypes as "text", since their length reveals that of the longest record."""
    return "text" if kind.kind in "UST" else "fields" if kind.names else str(kind)


def arrow_name(kind: Any) -> str:
    """The name of an Arrow type for a message, without what is inside.

    The fields of a nested type may come from the keys of a record, and a length from the longest record.
    """
    return re.split(r"[<\[(]", str(kind), maxsplit=1)[0]


def as_float(item: Any) -> float:
    """A record as a float, NaN if it is not a real number, `TEXT` if it is text; defined for every object."""
    if isinstance(item, (str, bytes)):
        return TEXT if item.strip() else np.nan
    if isinstance(item, (complex, np.complexfloating, np.ndarray)):
        return np.nan
    try:
        return float(item)
    except OverflowError:
        return np.inf if isinstance(item, int) and item > 0 else -np.inf if isinstance(item, int) else np.nan
    except Exception:  # noqa: BLE001 - any record that cannot be converted is not a number
        return np.nan


def _from_arrow(data: Any) -> Iterator[NDArray[Any]]:
    """The chunks of an Arrow stream of tables or arrays with one column."""
    require("pyarrow", "files", "reading an Arrow stream")
    import pyarrow as pa

    try:
        if _is_one_column(data):  # Arrow reads a column of structs as a table
            raise TypeError
        reader = pa.RecordBatchReader.from_stream(data)
    except Exception:  # noqa: BLE001 - not a stream of tables, or one that cannot be made: its message may show a record
        try:
            column = pa.chunked_array(data)  # a stream of plain arrays: a polars or pandas Series, a ChunkedArray
        except Exception:  # noqa: BLE001
            raise SchemaError("data must be an Arrow stream of one column of numbers; select and encode it") from None
        _check_type(column.type)
        arrays: Iterator[Any] = iter(column.chunks)
    else:
        if len(reader.schema) != 1:
            raise SchemaError(f"data must be one column, got {len(reader.schema)}: {reader.schema.names}; select one")
        _check_type(reader.schema.types[0])
        arrays = (batch.column(0) for batch in _readable(prefetch(reader)))
    for array in arrays:
        for start in range(0, len(array), ROWS):
            yield _numbers(array.slice(start, ROWS))


def _is_one_column(data: Any) -> bool:
    """Whether the data are one column, such as a ChunkedArray, or a Series of polars or pandas, and not a table."""
    return (hasattr(data, "type") or hasattr(data, "dtype")) and not hasattr(data, "columns")


def _readable(batches: Iterable[Any]) -> Iterator[Any]:
    """The same batches. Raises SchemaError without the message of the source, which may show a record."""
    source = iter(batches)
    while True:
        failed, batch = None, None
        try:
            batch = next(source, None)
        except (MemoryError, SchemaError):
            raise
        except Exception as error:  # noqa: BLE001
            failed = error
        if failed is not None:  # outside the handler, so that the error does not keep the other one as its context
            raise unreadable("the stream of records", failed)
        if batch is None:
            return
        yield batch


def unreadable(where: str, error: BaseException) -> SchemaError:
    """The error for a source that cannot be read to its end; it hides the cause's message, which may hold data."""
    return SchemaError(
        f"{where} could not be read to its end ({type(error).__name__}); nothing was tallied or drawn. Check it with "
        "the tools of its source"
    )


def prefetch(batches: Iterable[Any]) -> Iterator[Any]:
    """The same batches; the next ones are read while the current one is processed."""
    from concurrent.futures import ThreadPoolExecutor

    source = iter(batches)
    with ThreadPoolExecutor(max_workers=1) as reader:
        coming = deque(reader.submit(next, source, None) for _ in range(_AHEAD))
        while (batch := coming.popleft().result()) is not None:
            coming.append(reader.submit(next, source, None))
            yield batch


def value_type(kind: Any) -> Any:
    """The type of the values of an Arrow column of dictionaries, and any other type as it is.

    Views of text become text: Arrow casts no dictionary to them.
    """
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.large_string() if pa.types.is_string_view(kind) else kind


def decoded(array: Any) -> Any:
    """An Arrow array of the `value_type` of its type: the values of a dictionary in their places."""
    import pyarrow as pa

    kind = value_type(array.type)
    if pa.types.is_dictionary(array.type):  # Arrow has neither a cast nor a look-up of views
        return array.dictionary.cast(kind).take(array.indices)
    return array.cast(kind)


def _check_type(kind: Any) -> None:
    """Raise SchemaError unless the Arrow type holds numbers or booleans."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    text = (types.is_string, types.is_large_string, types.is_string_view, types.is_binary, types.is_large_binary)
    if any(holds(kind) for holds in text):
        raise SchemaError(_TEXT_COLUMN)
    accepted = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    if not any(accept(kind) for accept in accepted):
        raise SchemaError(f"data must be numbers or booleans, got {arrow_name(kind)}; encode it by a public rule first")


def _numbers(array: Any) -> NDArray[Any]:
    """An Arrow array as a NumPy array of numbers; nulls become NaN."""
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    elif pa.types.is_decimal(array.type):
        return _from_decimals(array)
    elif pa.types.is_null(array.type):
        array = array.cast(pa.float64())
    if array.null_count:  # faster than the conversion to NumPy, which knows no nulls either
        array = array.cast(pa.float64(), safe=False).fill_null(np.nan)
    chunk: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return chunk


def _from_decimals(array: Any) -> NDArray[Any]:
    """Decimals as the nearest doubles; Arrow's own conversion is off by one bit now and then."""
    import pyarrow as pa

    kind = array.type
    if not (pa.types.is_decimal128(kind) and kind.precision <= _EXACT_DIGITS and 0 <= kind.scale <= _EXACT_DIGITS):
        return _numbers(array.cast(pa.string()).cast(pa.float64()))
    words = np.frombuffer(array.buffers()[1], dtype=np.int64)[: 2 * (array.offset + len(array))]
    units = words[2 * array.offset :: 2].astype(np.float64)  # below 10^15: exact, and so is the power of ten
    found: NDArray[Any] = units / 10.0**kind.scale
    if array.null_count:
        found[np.asarray(array.is_null())] = np.nan
    return found
