"""The tally of what a database returns: for each key, a sum of integers or a code, and a number of records."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.groups.columns import missing_keys
from privsample.mechanisms.groups.grouped import GroupedMechanism
from privsample.mechanisms.tallies.rule import RecordRule
from privsample.mechanisms.tallies.tally import Tally

MISSING_UNIT, MISSING_KEY, UNLISTED = 1, 2, 3  # what is wrong with a row whose contribution is bounded


def gathered(table: Any, mechanism: Mechanism, rule: RecordRule) -> Tally:
    """The tally of an Arrow table of rows (k, s, n), or (k, q, n) if the rule counts codes.

    k is the key of the group, and absent without groups; each k, or each pair (k, q), occurs once. s is the sum of the
    integers of the records, q a code, and n the number of records. In place of k, a row may have p, the place of a
    listed key, with `bad`, 0 or what is wrong with the rows.

    Raises SchemaError for keys that are missing or not listed.
    """
    places, numbers, counts = _listed_rows(table, mechanism, rule)
    keys, rows = (np.unique(places, return_inverse=True)) if _is_grouped(mechanism) else (None, places)
    size = 1 if keys is None else len(keys)
    totals = np.zeros(size, dtype=np.int64)
    np.add.at(totals, rows, counts)
    if rule.kind == "codes":
        sums: NDArray[Any] = np.zeros((size, rule.last + 1), dtype=np.int64)
        sums[rows, numbers.astype(np.int64)] = counts
    else:
        sums = np.zeros((size, 1), dtype=numbers.dtype)
        sums[rows, 0] = numbers
    return Tally(mechanism=mechanism._fingerprint, sums=sums, counts=totals, keys=keys)


def _is_grouped(mechanism: Mechanism) -> bool:
    return isinstance(mechanism, GroupedMechanism)


def _listed_rows(table: Any, mechanism: Mechanism, rule: RecordRule) -> tuple[NDArray[Any], ...]:
    """The places, the sums or codes, and the numbers of records of the rows whose keys are listed."""
    numbers = whole_numbers(table.column("q" if rule.kind == "codes" else "s"))
    counts = whole_numbers(table.column("n"))
    if not isinstance(mechanism, GroupedMechanism):
        return np.zeros(len(counts), dtype=np.int64), numbers, counts
    if "bad" in table.schema.names:
        wrong = whole_numbers(table.column("bad"))
        _check_rows(mechanism, wrong)
        places = whole_numbers(table.column("p").fill_null(-1))
        return places[wrong == 0], numbers[wrong == 0], counts[wrong == 0]
    places = mechanism._index.places(mechanism._read_keys(_text(table.column("k"))), mechanism._column)
    _check_rows(mechanism, np.where(places < 0, UNLISTED, 0))
    return places[places >= 0], numbers[places >= 0], counts[places >= 0]


def _check_rows(mechanism: GroupedMechanism, wrong: NDArray[Any]) -> None:
    """Raise the error of the mechanism for rows whose unit or key is missing, or that are not listed."""
    if mechanism.unlisted == "drop":
        return
    if (wrong == MISSING_UNIT).any():
        raise missing_keys(f"{mechanism._unit} column")
    if (wrong == MISSING_KEY).any():
        raise missing_keys(mechanism._column)
    if (wrong == UNLISTED).any():
        keys = mechanism.keys
        other = max(map(len, map(str, keys))) * "?" + "?" if isinstance(keys[0], str) else _other_number(keys)
        mechanism._columns(([other], [0.0]) if mechanism.contribution is None else ([0], [other], [0.0]))


def _other_number(keys: Any) -> int:
    """A whole number that is not among the keys."""
    listed = set(keys)
    return next(number for number in range(len(keys) + 1) if number not in listed)


def _text(column: Any) -> Any:
    """Bytes as the text that they encode; any other column as it is."""
    import pyarrow as pa

    column = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
    return column.cast(pa.large_string()) if pa.types.is_binary(column.type) else column


def whole_numbers(column: Any) -> NDArray[Any]:
    """A column of integers, or of decimals without fraction, as 64-bit integers, or as Python integers if need be."""
    import pyarrow as pa

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_decimal128(whole.type):
        found: NDArray[Any] = whole.to_numpy(zero_copy_only=False).astype(np.int64)
        return found
    words = np.frombuffer(whole.buffers()[1], dtype=np.int64)[2 * whole.offset : 2 * (whole.offset + len(whole))]
    low, high = words[::2], words[1::2]
    if (high == low >> 63).all():
        return low.copy()
    return high.astype(object) * 2**64 + low.view(np.uint64).astype(object)
