"""Columns of units or of keys: text or whole numbers, as codes and distinct texts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privsample._checks import is_encodable
from privsample._data import arrow_name, decoded, readable_dtype, value_type
from privsample._optional import require
from privsample.errors import SchemaError

_LEAST, _MOST = -(2**63), 2**64 - 1  # whole numbers of 64 bits
_EXACT = 2.0**53  # largest size up to which every whole number is a double

Codes = NDArray[np.int64]


class Labels(NamedTuple):
    """A column: codes >= 0 of its entries, -1 where one is missing, and the distinct texts that the codes number."""

    codes: Codes
    texts: tuple[str, ...]


def read_labels(column: Any, name: str) -> Labels:
    """The codes of a column of text or whole numbers, numbered in the order of the distinct texts.

    A whole number is read as its decimal text. These are missing: nulls, masked entries, text that is blank, holds a
    NUL character or cannot be encoded by UTF-8, numbers that are not whole or have more than 64 bits, and all other
    objects. Raises SchemaError for a column of another type or shape; no message shows an entry.
    """
    distinct, codes = _coded(column, name)
    texts = [text_of(item) for item in distinct]
    sorted_texts = tuple(sorted({text for text in texts if text is not None}))
    place = {text: code for code, text in enumerate(sorted_texts)}
    return Labels(np.array([*(-1 if text is None else place[text] for text in texts), -1])[codes], sorted_texts)


def read_codes(column: Any, name: str) -> Codes:
    """As the codes of `read_labels`, in any order and with gaps: whole numbers are read without their texts.

    Raises SchemaError.
    """
    if isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "iu" and len(column):
        low, high = int(column.min()), int(column.max())
        if high - low < 2**62 and not isinstance(column, np.ma.MaskedArray):
            wide = column.astype(np.int64) if high < 2**63 else (column - np.uint64(low)).astype(np.int64)
            return wide - low if high < 2**63 else wide
    return read_labels(column, name).codes


def text_of(item: object) -> str | None:
    """The text of an entry, None if it is missing; defined for every object."""
    if isinstance(item, str):
        return str(item) if item.strip() and "\0" not in item and is_encodable(item) else None
    if isinstance(item, bool):
        return None
    if isinstance(item, (float, np.floating)):
        number = float(item)
        return str(int(number)) if abs(number) < _EXACT and number.is_integer() else None
    return str(int(item)) if isinstance(item, (int, np.integer)) and _LEAST <= item <= _MOST else None


def _coded(column: Any, name: str) -> tuple[Sequence[Any], Codes]:
    """Distinct entries, and the place of each entry among them, -1 for a null. Raises SchemaError."""
    wanted = f"{name} must be one column of text or whole numbers"
    if isinstance(column, (list, tuple)):
        return _of_objects(column)
    if isinstance(column, (str, bytes)) or not (hasattr(column, "__array__") or hasattr(column, "__arrow_c_stream__")):
        raise SchemaError(f"{wanted}, got {type(column).__name__}")
    if hasattr(column, "__arrow_c_stream__") and not isinstance(getattr(column, "dtype", None), np.dtype):
        return _of_arrow(column, wanted)
    try:
        array = np.asanyarray(column)
    except Exception:  # noqa: BLE001 - the library's own message may show an entry
        raise SchemaError(f"{wanted}; it could not be read as an array") from None
    if array.ndim != 1:
        raise SchemaError(f"{wanted}, got shape {array.shape}")
    if array.dtype.kind not in "iufUTO":
        raise SchemaError(f"{wanted}, got {readable_dtype(array.dtype)}")
    masked = np.ma.getmaskarray(array) if isinstance(array, np.ma.MaskedArray) else None
    plain = np.asarray(array)
    distinct, codes = _of_numbers(plain) if plain.dtype.kind in "iuf" else _of_objects(plain.tolist())
    return distinct, codes if masked is None else np.where(masked, -1, codes)


def _of_numbers(array: NDArray[Any]) -> tuple[Sequence[Any], Codes]:
    distinct, codes = np.unique(array, return_inverse=True)
    return distinct.tolist(), codes


def _of_objects(items: Sequence[Any]) -> tuple[Sequence[Any], Codes]:
    """Entries of any type: text is looked up as it is, and all else by its text, as 1 and True are equal keys."""
    texts = items if set(map(type, items)) <= {str} else list(map(text_of, items))
    places = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    return list(places), np.fromiter(map(places.__getitem__, texts), dtype=np.int64, count=len(items))


def _of_arrow(column: Any, wanted: str) -> tuple[Sequence[Any], Codes]:
    """Entries of an Arrow array, a polars or a pandas Series, by the hash table of Arrow."""
    require("pyarrow", "files", "reading an Arrow column")
    import pyarrow as pa
    from pyarrow import types

    try:
        entries = pa.chunked_array(column)
    except Exception:  # noqa: BLE001 - the library's own message may show an entry
        raise SchemaError(f"{wanted}; it could not be read as an Arrow column") from None
    if types.is_dictionary(entries.type):
        entries = pa.chunked_array(map(decoded, entries.chunks), value_type(entries.type))
    accepted = (types.is_string, types.is_large_string, types.is_string_view, types.is_integer, types.is_floating)
    if not any(accept(entries.type) for accept in (*accepted, types.is_null)):
        raise SchemaError(f"{wanted}, got {arrow_name(entries.type)}")
    if types.is_null(entries.type):
        return [], np.full(len(entries), -1)
    if types.is_string_view(entries.type):
        entries = entries.cast(pa.large_string())
    coded = entries.combine_chunks().dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return coded.dictionary.to_pylist(), codes
