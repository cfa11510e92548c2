"""Columns of keys: text or whole numbers that name the group or the unit of each record."""

from collections.abc import Callable, Iterable, Sequence
from hashlib import md5
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._data import readable_dtype
from privsample._optional import require
from privsample._value import frozen_value
from privsample.errors import SchemaError

_ADVICE = "give each record its key as text or as a whole number"
FEW_RECORDS = 20_000  # records of text that a dictionary of Python looks up, without PyArrow


@frozen_value
class KeyColumn:
    """A column of keys: whole numbers, text as a list, or text as an Arrow column. One of the three is not None."""

    numbers: NDArray[Any] | None = None
    text: Sequence[str] | None = None
    arrow: Any = None

    def __len__(self) -> int:
        column: Any = next(item for item in (self.numbers, self.text, self.arrow) if item is not None)
        return len(column)

    def codes(self) -> NDArray[np.int64]:
        """A whole number for each record, equal for equal keys and for no others."""
        if self.numbers is not None:
            return self.numbers.astype(np.int64)  # wraps unsigned numbers around, without collisions
        if self.arrow is None:
            assert self.text is not None
            seen: dict[str, int] = {}
            return np.fromiter((seen.setdefault(key, len(seen)) for key in self.text), np.int64, len(self.text))
        return self._looked_up(_codes_of_values)

    def seeds(self) -> NDArray[np.uint64]:
        """A public hash of 64 bits for each record, a function of its key alone: of text, a part of its MD5."""
        if self.numbers is not None:
            return self.numbers.astype(np.int64).view(np.uint64)
        if self.arrow is None:
            assert self.text is not None
            known = {key: place for place, key in enumerate(dict.fromkeys(self.text))}
            places = np.fromiter((known[key] for key in self.text), np.int64, len(self.text))
            return _hashes(known).view(np.uint64)[places]
        return self._looked_up(lambda values: _hashes(values.to_pylist())).view(np.uint64)

    def _looked_up(self, of_values: Callable[[Any], NDArray[np.int64]]) -> NDArray[np.int64]:
        """What a function gives for the dictionary of an Arrow column, for each record."""
        chunks = self.arrow.dictionary_encode().unify_dictionaries().chunks
        return joined(of_values(chunk.dictionary)[indices_of(chunk)] for chunk in chunks)


def read_keys(data: Any, name: str) -> KeyColumn:
    """Read a column of keys; `name` says in messages what they are. No message shows a key.

    Raises SchemaError if the column holds anything but text or whole numbers, or has missing entries.
    """
    if isinstance(data, (list, tuple)):
        return _of_objects(data, name)
    if type(data).__module__.startswith("pyarrow") or not (
        isinstance(getattr(data, "dtype", None), np.dtype) or not hasattr(data, "__arrow_c_stream__")
    ):
        return _of_arrow(data, name)
    try:
        array = np.asanyarray(data)
    except Exception:  # noqa: BLE001 - the library's own message may show a key
        raise SchemaError(f"the {name} must be one column; it could not be read as an array") from None
    if array.ndim != 1:
        raise SchemaError(f"the {name} must be one column, shape (n,), got shape {array.shape}; {_ADVICE}")
    if np.ma.is_masked(array):
        raise _missing(name)
    if array.dtype.kind in "iu":
        return KeyColumn(numbers=np.asarray(array))
    if array.dtype.kind in "UTO":
        return _of_objects(array.tolist(), name)
    got = "bytes" if array.dtype.kind == "S" else readable_dtype(array.dtype)
    raise SchemaError(f"the {name} must be text or whole numbers, got {got}; {_ADVICE}")


def _of_objects(items: Sequence[Any], name: str) -> KeyColumn:
    """A list of text, or of whole numbers."""
    kinds = set(map(type, items))
    if kinds <= {str}:
        return KeyColumn(text=items)
    if any(kind is type(None) for kind in kinds) or any(_is_missing(item) for item in items):
        raise _missing(name)
    if all(issubclass(kind, str) for kind in kinds):
        return KeyColumn(text=[str(item) for item in items])
    if not all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds):
        raise SchemaError(f"the {name} must be text or whole numbers, all of one type; {_ADVICE}")
    try:
        return KeyColumn(numbers=np.fromiter(items, np.int64, len(items)))
    except OverflowError:
        raise SchemaError(f"the {name} must be whole numbers that fit in 64 bits; {_ADVICE}") from None


def _is_missing(item: Any) -> bool:
    """Whether an item is NaN, or a marker of pandas for missing entries."""
    not_a_number = isinstance(item, (float, np.floating)) and bool(np.isnan(item))
    return not_a_number or type(item).__name__ in {"NAType", "NaTType"}


def _missing(name: str) -> SchemaError:
    return SchemaError(f"the {name} must have no missing entries; leave such records out, or give them a public key")


def _of_arrow(data: Any, name: str) -> KeyColumn:
    """An Arrow column, array or stream of one column."""
    require("pyarrow", "files", "reading an Arrow column")
    import pyarrow as pa

    try:
        column = _chunked(data, pa)
    except Exception:  # noqa: BLE001 - the library's own message may show a key
        raise SchemaError(f"the {name} must be one Arrow column of text or whole numbers") from None
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if column.null_count or pa.types.is_null(kind):
        raise _missing(name)
    if pa.types.is_integer(kind):
        plain = column.cast(kind) if pa.types.is_dictionary(column.type) else column
        if plain.null_count:
            raise _missing(name)
        return KeyColumn(numbers=plain.to_numpy())
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if not any(holds(kind) for holds in text):
        raise SchemaError(f"the {name} must be text or whole numbers, got {kind}; {_ADVICE}")
    if not pa.types.is_dictionary(column.type):
        return KeyColumn(arrow=column.cast(pa.large_string()))
    if any(
        chunk.dictionary.null_count
        and np.isin(indices_of(chunk), np.flatnonzero(~chunk.dictionary.is_valid().to_numpy(False))).any()
        for chunk in column.chunks
    ):
        raise _missing(name)
    return KeyColumn(arrow=column)


def _chunked(data: Any, pa: Any) -> Any:
    """A chunked array of PyArrow."""
    if isinstance(data, pa.ChunkedArray):
        return data
    if isinstance(data, pa.Array):
        return pa.chunked_array([data])
    try:
        return pa.chunked_array(data)
    except Exception:  # noqa: BLE001 - not a stream of arrays: one of tables
        (column,) = pa.RecordBatchReader.from_stream(data).read_all().columns
        return column


def indices_of(chunk: Any) -> NDArray[np.int64]:
    """The indices of a dictionary-encoded array."""
    found: NDArray[np.int64] = chunk.indices.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


def _codes_of_values(values: Any) -> NDArray[np.int64]:
    """A code for each value of a dictionary, equal for equal values."""
    seen: dict[Any, int] = {}
    items = values.to_pylist()
    return np.fromiter((seen.setdefault(item, len(seen)) for item in items), np.int64, len(items))


def _hashes(texts: Iterable[str]) -> NDArray[np.int64]:
    """The last eight bytes of the MD5 of each text, little-endian, as DuckDB's md5_number_lower gives them."""
    digests = (md5(text.encode(errors="surrogatepass"), usedforsecurity=False).digest()[8:] for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)


def joined(parts: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *parts])
