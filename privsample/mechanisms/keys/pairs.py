"""Numbers of units of each key, from rows of units and keys: each unit counts for a bounded number of its own keys."""

from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privsample.errors import SchemaError
from privsample.mechanisms.keys.columns import Codes, read_codes, read_labels


class KeyCounts(NamedTuple):
    """Distinct keys in the order of their texts, and the number of units of each, shape (keys,), >= 0."""

    keys: tuple[str, ...]
    units: Codes


class Rows(NamedTuple):
    """Rows in which neither the unit nor the key is missing, as codes, and how many rows were left out."""

    units: Codes
    keys: Codes
    texts: tuple[str, ...]
    missing: int


class Pairs(NamedTuple):
    """The distinct pairs of a unit and a key, sorted, and the number of rows of each."""

    units: Codes
    keys: Codes
    rows: Codes


def read_rows(data: Any) -> Rows:
    """Read `(units, keys)`, two columns of equal length. Raises SchemaError, whose text shows no record."""
    if not (isinstance(data, (tuple, list)) and len(data) == 2):
        raise SchemaError("data must be (units, keys), two columns of equal length: which unit has which key")
    units, keys = read_codes(data[0], "units"), read_labels(data[1], "keys")
    if len(units) != len(keys.codes):
        raise SchemaError("units and keys must have the same length: one unit and one key in each row")
    there = (units >= 0) & (keys.codes >= 0)
    missing = len(there) - int(there.sum())
    if not missing:
        return Rows(units, keys.codes, keys.texts, 0)
    return Rows(units[there], keys.codes[there], keys.texts, missing)


def distinct_pairs(rows: Rows) -> Pairs:
    """The distinct pairs of a unit and a key: a unit counts once for a key, however many rows it has."""
    width = max(len(rows.texts), 1)
    units = rows.units
    if int(units.max(initial=0)) >= 2**63 // width:  # the code of a pair would not fit
        units = np.unique(units, return_inverse=True)[1]
    pairs, count = np.unique(units * width + rows.keys, return_counts=True)
    return Pairs(pairs // width, pairs % width, count)


def bounded_counts(rows: Rows, keys_per_unit: int) -> KeyCounts:
    """The number of units of each key, where each unit counts for its `keys_per_unit` keys with the most rows.

    Ties are broken by a public mixing of the keys. Which keys of a unit count depends on its own rows alone (keys.md,
    section 4).
    """
    pairs = distinct_pairs(rows)
    sizes = keys_of_units(pairs)
    keys = pairs.keys
    if int(sizes.max(initial=0)) > keys_per_unit:
        crowded = np.flatnonzero(np.repeat(sizes > keys_per_unit, sizes))
        mixed = _mixed(rows.texts)[keys[crowded]]
        order = crowded[np.lexsort((mixed, -pairs.rows[crowded], pairs.units[crowded]))]
        own = sizes[sizes > keys_per_unit]
        rank = np.arange(len(order)) - np.repeat(np.cumsum(own) - own, own)
        keys = np.delete(keys, order[rank >= keys_per_unit])
    return KeyCounts(rows.texts, np.bincount(keys, minlength=len(rows.texts)).astype(np.int64))


def keys_of_units(pairs: Pairs) -> Codes:
    """The number of distinct keys of each unit, in the order of the pairs."""
    ends = np.flatnonzero(np.append(pairs.units[1:] != pairs.units[:-1], True)) if len(pairs.units) else pairs.units
    return np.diff(ends, prepend=-1)


def _mixed(texts: tuple[str, ...]) -> NDArray[np.uint64]:
    """A fixed public number of each key, so that no part of an alphabet is preferred."""
    digests = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)
