"""Columns of keys: text or whole numbers that name the group or the unit of each record."""

from collections.abc import Callable, Iterable, Sequence
from hashlib import md5
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privsample._data import arrow_name, readable_dtype
from privsample._optional import require
from privsample._value import frozen_value
from privsample.errors import SchemaError

Unlisted = Literal["refuse", "drop"]  # what happens to a record whose key is not listed
_ADVICE = "give each record its key as text or as a whole number"
FEW_RECORDS = 20_000  # records of text that a dictionary of Python looks up, without PyArrow
_LARGEST = 2**63
_LARGEST_FLOAT = 2.0**53  # below it, floats hold each whole number
Key = str | int | None  # of a record: text, a whole number of 64 bits, or None without a key


@frozen_value
class KeyColumn:
    """A column of keys: whole numbers, a list, or text as an Arrow column. One of the three is not None.

    `absent` says which records have no key; None means that all have one. `typed` says that keys of the other type are
    an error of the column, because its container declares the type or because no record is dropped.
    """

    numbers: NDArray[Any] | None = None
    items: Sequence[Key] | None = None
    arrow: Any = None
    absent: NDArray[np.bool_] | None = None
    typed: bool = False

    def __len__(self) -> int:
        column: Any = next(each for each in (self.numbers, self.items, self.arrow) if each is not None)
        return len(column)

    def codes(self) -> NDArray[np.int64]:
        """A whole number for each record, equal for equal keys and for no others."""
        if self.numbers is not None:
            return self.numbers.astype(np.int64)  # wraps unsigned numbers around, without collisions
        if self.arrow is None:
            assert self.items is not None
            return _codes_of_values(self.items)
        return self._looked_up(lambda values: _codes_of_values(values.to_pylist()))

    def seeds(self) -> NDArray[np.uint64]:
        """A public hash of 64 bits for each record, a function of its key alone: of text, a part of its MD5."""
        if self.numbers is not None:
            return self.numbers.astype(np.int64).view(np.uint64)
        if self.arrow is None:
            assert self.items is not None
            known = {key: place for place, key in enumerate(dict.fromkeys(self.items))}
            places = np.fromiter((known[key] for key in self.items), np.int64, len(self.items))
            return _hashes(known).view(np.uint64)[places]
        return self._looked_up(lambda values: _hashes(values.to_pylist())).view(np.uint64)

    def _looked_up(self, of_values: Callable[[Any], NDArray[np.int64]]) -> NDArray[np.int64]:
        """What a function gives for the dictionary of an Arrow column, for each record."""
        chunks = self.arrow.dictionary_encode().unify_dictionaries().chunks
        return joined(of_values(chunk.dictionary)[indices_of(chunk)] for chunk in chunks)


def read_keys(data: Any, name: str, *, unlisted: Unlisted = "refuse") -> KeyColumn:
    """Read a column of keys; `name` says in messages what they are. No message shows a key.

    With `unlisted="drop"`, a record has no key if its entry is missing, or is neither text nor a whole number that fits
    in 64 bits. A float without fraction counts as a whole number, because tables turn whole numbers into floats when
    one of them is missing.

    Raises SchemaError if the column is of a type that holds neither text nor whole numbers, and with
    `unlisted="refuse"` if any entry is not a key.
    """
    column = _read(data, name, drop=unlisted == "drop")
    if unlisted == "refuse" and column.absent is not None and column.absent.any():
        raise missing_keys(name)
    return column


def missing_keys(name: str) -> SchemaError:
    """The error for a record without a key."""
    return SchemaError(f"the {name} must have no missing entries; leave such records out, or give them a public key")


def _read(data: Any, name: str, *, drop: bool) -> KeyColumn:
    if isinstance(data, (list, tuple)):
        return _of_objects(data, name, drop=drop)
    if type(data).__module__.startswith("pyarrow") or not (
        isinstance(getattr(data, "dtype", None), np.dtype) or not hasattr(data, "__arrow_c_stream__")
    ):
        return _of_arrow(data, name, drop=drop)
    try:
        array = np.asanyarray(data)
    except Exception:  # noqa: BLE001 - the library's own message may show a key
        raise SchemaError(f"the {name} must be one column; it could not be read as an array") from None
    if array.ndim != 1:
        raise SchemaError(f"the {name} must be one column, shape (n,), got shape {array.shape}; {_ADVICE}")
    masked = np.ma.getmaskarray(array) if np.ma.is_masked(array) else None
    if array.dtype.kind in "iu":
        return KeyColumn(numbers=np.asarray(array), absent=masked, typed=True)
    if array.dtype.kind == "f" and drop:
        return _of_floats(np.asarray(array), masked)
    if array.dtype.kind in "UTO":
        if masked is not None and not drop:
            raise missing_keys(name)
        return _of_objects(array.tolist(), name, drop=drop, typed=array.dtype.kind in "UT")
    got = "bytes" if array.dtype.kind == "S" else readable_dtype(array.dtype)
    raise SchemaError(f"the {name} must be text or whole numbers, got {got}; {_ADVICE}")


def _of_objects(items: Sequence[Any], name: str, *, drop: bool, typed: bool = False) -> KeyColumn:
    """A list of text, or of whole numbers."""
    kinds = set(map(type, items))
    if kinds <= {str}:
        return KeyColumn(items=items, typed=typed or not drop)
    if drop:
        keys = list(map(_key, items))
        return KeyColumn(items=keys, absent=np.array([key is None for key in keys]))
    if any(kind is type(None) for kind in kinds) or any(_is_missing(item) for item in items):
        raise missing_keys(name)
    if all(issubclass(kind, str) for kind in kinds):
        return KeyColumn(items=[str(item) for item in items], typed=True)
    if not all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds):
        raise SchemaError(f"the {name} must be text or whole numbers, all of one type; {_ADVICE}")
    try:
        return KeyColumn(numbers=np.fromiter(items, np.int64, len(items)), typed=True)
    except OverflowError:
        raise SchemaError(f"the {name} must be whole numbers that fit in 64 bits; {_ADVICE}") from None


def _key(item: Any) -> Key:
    """What an entry of a list is: text, a whole number that fits in 64 bits, or None."""
    if isinstance(item, str):
        return str(item)
    if isinstance(item, bool) or not isinstance(item, (int, np.integer, float, np.floating)):
        return None
    if isinstance(item, (float, np.floating)) and not abs(float(item)) < _LARGEST_FLOAT:
        return None
    whole = int(item)
    if whole != item:
        return None
    return whole if -_LARGEST <= whole < _LARGEST else None


def _of_floats(array: NDArray[Any], masked: NDArray[np.bool_] | None) -> KeyColumn:
    """The whole numbers of an array of floats; all other numbers are no keys."""
    is_key = (np.abs(array) < _LARGEST_FLOAT) & (np.trunc(array) == array)
    if masked is not None:
        is_key &= ~masked
    return KeyColumn(numbers=np.where(is_key, array, 0).astype(np.int64), absent=~is_key, typed=True)


def _is_missing(item: Any) -> bool:
    """Whether an item is NaN, or a marker of pandas for missing entries."""
    not_a_number = isinstance(item, (float, np.floating)) and bool(np.isnan(item))
    return not_a_number or type(item).__name__ in {"NAType", "NaTType"}


def _of_arrow(data: Any, name: str, *, drop: bool) -> KeyColumn:
    """An Arrow column, array or stream of one column."""
    require("pyarrow", "files", "reading an Arrow column")
    import pyarrow as pa

    try:
        column = _chunked(data, pa)
    except Exception:  # noqa: BLE001 - the library's own message may show a key
        raise SchemaError(f"the {name} must be one Arrow column of text or whole numbers") from None
    encoded = pa.types.is_dictionary(column.type)
    kind = column.type.value_type if encoded else column.type
    if pa.types.is_null(kind):
        if drop or not len(column):
            return KeyColumn(items=[None] * len(column), absent=np.ones(len(column), np.bool_))
        raise missing_keys(name)
    if pa.types.is_floating(kind) and drop:
        floats = column.cast(kind).cast(pa.float64()).fill_null(np.nan)
        return _of_floats(floats.to_numpy(), None)
    if pa.types.is_integer(kind):
        plain = column.cast(kind) if encoded else column
        return KeyColumn(numbers=plain.fill_null(0).to_numpy(), absent=_nulls(plain), typed=True)
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if not any(holds(kind) for holds in text):
        raise SchemaError(f"the {name} must be text or whole numbers, got {arrow_name(kind)}; {_ADVICE}")
    if encoded and not any(chunk.dictionary.null_count for chunk in column.chunks) and not column.null_count:
        return KeyColumn(arrow=column, typed=True)
    plain = column.cast(pa.large_string())
    return KeyColumn(arrow=plain.fill_null(""), absent=_nulls(plain), typed=True)


def _nulls(column: Any) -> NDArray[np.bool_] | None:
    """Which entries of an Arrow column are null; None if none is."""
    return column.is_null().to_numpy() if column.null_count else None


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


def _codes_of_values(values: Iterable[Key]) -> NDArray[np.int64]:
    """A code for each value, equal for equal values."""
    seen: dict[Key, int] = {}
    return np.fromiter((seen.setdefault(item, len(seen)) for item in values), np.int64)


def _hashes(keys: Iterable[Key]) -> NDArray[np.int64]:
    """A whole number as it is; of a text the last eight bytes of its MD5, as DuckDB's md5_number_lower gives them."""
    return np.frombuffer(b"".join(map(_hash, keys)), dtype="<i8").astype(np.int64)


def _hash(key: Key) -> bytes:
    """The eight bytes of the hash of a key, little-endian; zeros without a key."""
    if isinstance(key, str):
        return md5(key.encode(errors="surrogatepass"), usedforsecurity=False).digest()[8:]
    return (key or 0).to_bytes(8, "little", signed=True)


def joined(parts: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *parts])
