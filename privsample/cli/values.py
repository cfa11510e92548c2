"""Columns to numbers, each record by itself: what one record holds never changes how another is read."""

from collections.abc import Sequence
from typing import Any

from privsample.cli.errors import DataProblem

_SPACE = "[ \t\r]*"
_NUMBER = rf"(?i)^{_SPACE}[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity){_SPACE}$"
_TRUE, _FALSE = rf"(?i)^{_SPACE}true{_SPACE}$", rf"(?i)^{_SPACE}false{_SPACE}$"


def is_text(kind: Any) -> bool:
    """Whether an Arrow type holds text or bytes."""
    from pyarrow import types

    tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary, types.is_string_view)
    return any(test(kind) for test in tests)


def check_type(kind: Any, column: str, *, categories: bool) -> None:
    """Refuse columns that cannot become numbers. Raises: DataProblem."""
    from pyarrow import types

    if categories:
        if not (is_text(kind) or types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind)):
            raise DataProblem(f"column {column!r} has type {kind}; --categories needs text, whole numbers or booleans")
    elif is_text(kind):
        raise DataProblem(
            f"column {column!r} holds text (type {kind}); store it as numbers, "
            "or name its categories with --categories and --model dirichlet-categorical"
        )
    else:
        accepted = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_null)
        if not any(accept(kind) for accept in accepted):
            raise DataProblem(f"column {column!r} has type {kind}; expected numbers or booleans")


def parsed(array: Any) -> Any:
    """Text to numbers: true and false are 1 and 0; whatever is no number is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    number = pc.match_substring_regex(array, _NUMBER)
    if not pc.all(number).as_py():
        for pattern, digit in ((_TRUE, b"1"), (_FALSE, b"0")):
            array = pc.if_else(pc.match_substring_regex(array, pattern), pa.scalar(digit, array.type), array)
        array = pc.if_else(pc.match_substring_regex(array, _NUMBER), array, pa.scalar(None, array.type))
    return pc.utf8_trim_whitespace(array.cast(pa.string())).cast(pa.float64())


def coded(array: Any, names: Sequence[str]) -> Any:
    """Names to their places in the public list; unknown ones to -1, missing or empty ones to null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = (array if is_text(array.type) else array.cast(pa.string())).cast(pa.binary()).dictionary_encode()
    name = pc.replace_substring_regex(text.dictionary, rf"^{_SPACE}|{_SPACE}$", "")
    places = pc.index_in(name, value_set=pa.array([known.encode() for known in names], pa.binary()))
    places = pc.fill_null(places, -1).cast(pa.int64())
    places = pc.if_else(pc.equal(name, pa.scalar(b"", pa.binary())), pa.scalar(None, pa.int64()), places)
    return places.take(text.indices)
