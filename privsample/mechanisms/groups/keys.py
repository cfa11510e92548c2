"""The public list of the keys of groups, and the place in it of each record's key."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import check_memory, is_encodable, listed
from privsample._optional import is_installed
from privsample.errors import SchemaError
from privsample.mechanisms.groups.columns import FEW_RECORDS, Key, KeyColumn, indices_of, joined

Keys = tuple[str, ...] | tuple[int, ...]
_LARGEST = 2**63
_NUMBERS_PER_KEY = 16  # doubles that take as much memory as a Python object and its entries in tables
_ROOM = 1 << 20  # entries of a table of places beyond eight for each key


def checked_keys(keys: Any) -> Keys:
    """The keys: distinct texts, or distinct whole numbers. Raises TypeError or ValueError."""
    if isinstance(keys, (set, frozenset)) or getattr(keys, "ndim", 1) != 1:
        raise TypeError(f"keys must be one list in a fixed order, such as sorted(keys), got {type(keys).__name__}")
    if isinstance(keys, range):
        count = max(-((keys.start - keys.stop) // keys.step), 0)  # `len` fails for ranges beyond 64 bits
        check_memory(_NUMBERS_PER_KEY * count, lower="the number of keys")
    elif hasattr(keys, "__len__"):
        check_memory(_NUMBERS_PER_KEY * len(keys), lower="the number of keys")
    as_list = next((getattr(keys, name) for name in ("to_pylist", "tolist", "to_list") if hasattr(keys, name)), None)
    given: tuple[Any, ...] = listed(keys=keys if as_list is None else as_list())
    if not given:
        raise ValueError("keys must hold at least one key")
    kinds = set(map(type, given))
    if all(issubclass(kind, str) for kind in kinds):
        found: tuple[Any, ...] = given if kinds == {str} else tuple(map(str, given))
        if not all(map(is_encodable, found)):
            raise ValueError("keys must be texts that UTF-8 can encode, got lone surrogates")
    elif all(issubclass(kind, (int, np.integer)) and not issubclass(kind, bool) for kind in kinds):
        found = given if kinds == {int} else tuple(map(int, given))
        if not -_LARGEST <= min(found) <= max(found) < _LARGEST:
            raise ValueError("keys must be whole numbers that fit in 64 bits")
    else:
        raise TypeError(
            "keys must be texts, or whole numbers, all of one type, without missing ones, got "
            f"{', '.join(sorted(kind.__name__ for kind in kinds))}"
        )
    if len(set(found)) != len(found):
        raise ValueError(f"keys must be distinct, got {len(found) - len(set(found)):,} repetitions")
    return found


class KeyIndex:
    """The places of keys in a public list, with the tables that make looking them up fast; read-only after use."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def places(self, column: KeyColumn, name: str) -> NDArray[np.int64]:
        """The place of each record's key, -1 if it is absent or not listed.

        Raises SchemaError for a column that is declared to hold keys of another type.
        """
        if len(column) == 0:
            return np.empty(0, np.int64)
        self.check_type(column, name)
        found = self._places(column)
        return found if column.absent is None else np.where(column.absent, -1, found)

    def check_type(self, column: KeyColumn, name: str) -> None:
        """Check that the column is not declared to hold keys of another type. Raises SchemaError."""
        of_numbers = isinstance(self._keys[0], int)
        if of_numbers != (column.numbers is not None) and column.typed:
            wanted, got = ("whole numbers", "text") if of_numbers else ("text", "whole numbers")
            raise SchemaError(f"the {name} must be {wanted}, as the public keys are, got {got}")

    def _places(self, column: KeyColumn) -> NDArray[np.int64]:
        if column.numbers is not None:
            return self._places_of_numbers(column.numbers)
        if column.items is not None:
            return self._places_of_items(column.items)
        return self._places_of_arrow(column.arrow)

    def _places_of_numbers(self, numbers: NDArray[Any]) -> NDArray[np.int64]:
        low, table, order = self._number_table
        whole = numbers.astype(np.int64, copy=False)
        if order is None:  # the keys lie close together: `table` holds the place of each number
            with np.errstate(over="ignore"):
                offsets = whole - low
            inside = (offsets >= 0) & (offsets < len(table)) & (whole >= low)
            found = np.where(inside, table[np.where(inside, offsets, 0)], -1)
        else:
            at = np.minimum(np.searchsorted(table, whole), len(table) - 1)
            found = np.where(table[at] == whole, order[at], -1)
        too_large = numbers > _LARGEST - 1 if numbers.dtype == np.uint64 else False
        return np.where(too_large, -1, found)

    @cached_property
    def _number_table(self) -> tuple[int, NDArray[np.int64], NDArray[np.int64] | None]:
        """The least key, with a table of places by number; or with the sorted keys, and their places."""
        keys = np.array(self._keys, dtype=np.int64)
        low, width = int(min(self._keys)), int(max(self._keys)) - int(min(self._keys)) + 1
        if width > 8 * len(keys) + _ROOM:
            order = np.argsort(keys)
            return low, keys[order], order
        table = np.full(width, -1, np.int64)
        table[keys - low] = np.arange(len(keys))
        return low, table, None

    @cached_property
    def _table(self) -> dict[Any, int]:
        return {key: place for place, key in enumerate(self._keys)}

    @cached_property
    def _arrow_keys(self) -> Any:
        import pyarrow as pa

        return pa.array(self._keys, pa.large_string())

    def _places_of_items(self, items: Sequence[Key]) -> NDArray[np.int64]:
        if len(items) > FEW_RECORDS and isinstance(self._keys[0], str) and is_installed("pyarrow"):
            import pyarrow as pa  # its hash table is faster

            try:
                return self._places_of_arrow(pa.chunked_array([pa.array(items, pa.large_string())]))
            except (UnicodeEncodeError, pa.ArrowTypeError):
                pass  # text that Arrow cannot hold, or whole numbers among text
        places = self._table
        return np.fromiter((places.get(key, -1) for key in items), np.int64, len(items))

    def _places_of_arrow(self, column: Any) -> NDArray[np.int64]:
        import pyarrow as pa

        if pa.types.is_dictionary(column.type):
            chunks = column.unify_dictionaries().chunks
            table = self._places_of_values(pa.chunked_array([chunks[0].dictionary]))
            return joined(table[indices_of(chunk)] for chunk in chunks)
        return self._places_of_values(column)

    def _places_of_values(self, values: Any) -> NDArray[np.int64]:
        import pyarrow as pa
        import pyarrow.compute as pc

        found = pc.index_in(values.cast(pa.large_string()), value_set=self._arrow_keys)
        places: NDArray[np.int64] = pc.fill_null(found, -1).to_numpy().astype(np.int64)
        return places
