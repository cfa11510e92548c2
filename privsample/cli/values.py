"""Conversion of columns to numbers. Each record is converted independently of all others."""

from collections.abc import Mapping, Sequence
from typing import Any

from privsample._data import TEXT, arrow_name
from privsample.cli.errors import DataProblem

_SPACE = "[ \t\r]*"
_NUMBER = rf"(?i)^{_SPACE}[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity){_SPACE}$"
_NOTHING = rf"(?i)^{_SPACE}(nan|na|n/a|null|none)?{_SPACE}$"
_TRUE, _FALSE = rf"(?i)^{_SPACE}true{_SPACE}$", rf"(?i)^{_SPACE}false{_SPACE}$"


TEXT_HINT = (
    "write numbers like 12.5 or 1e-3, or assign a number to each value of the text, as in --map yes=1,no=0; for a "
    "model of categories give --categories"
)


def is_text(kind: Any) -> bool:
    """Return True if an Arrow type holds text or bytes."""
    from pyarrow import types

    tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary, types.is_string_view)
    return any(test(kind) for test in tests)


def check_type(kind: Any, column: str, *, categories: bool, mapped: bool) -> None:
    """Check that the column can be converted to numbers. Raises: DataProblem."""
    from pyarrow import types

    if categories:
        if not (is_text(kind) or types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind)):
            raise DataProblem(
                f"column {column!r} has type {arrow_name(kind)}; --categories needs text, whole numbers or booleans"
            )
    elif is_text(kind):
        if not mapped:
            raise DataProblem(f"column {column!r} holds text (type {kind}), expected numbers or booleans; {TEXT_HINT}")
    else:
        accepted = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_null)
        if not any(accept(kind) for accept in accepted):
            raise DataProblem(f"column {column!r} has type {arrow_name(kind)}; expected numbers or booleans")


def parse_numbers(array: Any, mapping: Mapping[str, float | None] | None = None) -> Any:
    """Convert text to numbers: by `mapping` (None: missing), true to 1, false to 0, any other text to `TEXT`.

    Empty text, NA, N/A, NaN, null and none are missing.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    array = _trimmed(array.cast(pa.binary())) if mapping else array.cast(pa.binary())
    if mapping:
        places = pc.index_in(array, value_set=pa.array([word.encode() for word in mapping], pa.binary()))
        known = pc.is_valid(places)
        mapped = pa.array(list(mapping.values()), pa.float64()).take(places)
        return pc.if_else(known, mapped, parse_numbers(pc.if_else(known, pa.scalar(None, array.type), array)))
    number = pc.match_substring_regex(array, _NUMBER)
    text = pa.scalar(False)
    if not pc.all(number).as_py():
        for pattern, digit in ((_TRUE, b"1"), (_FALSE, b"0")):
            array = pc.if_else(pc.match_substring_regex(array, pattern), pa.scalar(digit, array.type), array)
        number = pc.match_substring_regex(array, _NUMBER)
        text = pc.fill_null(pc.invert(pc.or_(number, pc.match_substring_regex(array, _NOTHING))), False)
        array = pc.if_else(number, array, pa.scalar(None, array.type))
    return pc.if_else(text, TEXT, pc.utf8_trim_whitespace(array.cast(pa.string())).cast(pa.float64()))


def encode_categories(array: Any, names: Sequence[str]) -> Any:
    """Convert names to their index in the public list, unknown names to -1, missing or empty ones to null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = (array if is_text(array.type) else array.cast(pa.string())).cast(pa.binary()).dictionary_encode()
    name = _trimmed(text.dictionary)
    places = pc.index_in(name, value_set=pa.array([known.encode() for known in names], pa.binary()))
    places = pc.fill_null(places, -1).cast(pa.int64())
    places = pc.if_else(pc.equal(name, pa.scalar(b"", pa.binary())), pa.scalar(None, pa.int64()), places)
    return places.take(text.indices)


def _trimmed(array: Any) -> Any:
    import pyarrow.compute as pc

    return pc.replace_substring_regex(array, rf"^{_SPACE}|{_SPACE}$", "")
