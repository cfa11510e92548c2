"""Text of frozen values: as Python code, or in one short line."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

WIDTH = 110  # characters of a repr at most
_UNSHOWN = "..."


@dataclass(frozen=True, slots=True)
class _Detail:
    """How much of a value is written: levels of nesting, members of a sequence, and fields equal to their default."""

    depth: int
    members: int
    defaults: bool = False
    assumptions: bool = False


_CODE = _Detail(depth=50, members=1 << 40, defaults=True, assumptions=True)
_LEVELS = (
    _Detail(depth=6, members=12, defaults=True, assumptions=True),
    _Detail(depth=6, members=12, assumptions=True),
    _Detail(depth=6, members=6),
    _Detail(depth=2, members=3),
    _Detail(depth=1, members=2),
)


def value_repr(self: Any) -> str:
    """The `__repr__` of frozen values: Python code if it is short, otherwise an abbreviation in one line."""
    return short_repr(self, WIDTH)


def short_repr(value: Any, width: int = WIDTH) -> str:
    """The value in one line of at most `width` characters; it computes nothing and never raises."""
    text = ""
    try:
        for level in _LEVELS:
            text = _written(value, level)
            if len(text) <= width:
                return text
    except Exception:  # noqa: BLE001 - a repr appears in messages about broken values, and must not raise itself
        text = f"{type(value).__name__}({_UNSHOWN})"
    return text if len(text) <= width else f"{text[: width - 4].rstrip(', ')}{_UNSHOWN})"


def code_repr(value: Any) -> str:
    """The value as Python code with all its fields, however long."""
    return _written(value, _CODE)


def _written(item: Any, level: _Detail) -> str:
    if is_dataclass(item) and not isinstance(item, type):
        return _dataclass(item, level)
    if isinstance(item, np.ndarray):
        return _array(item, level)
    if isinstance(item, np.generic):
        return repr(item.item())
    if isinstance(item, Enum):
        return f"{type(item).__name__}.{item.name}"
    if isinstance(item, (set, frozenset)):
        if not item:
            return f"{type(item).__name__}()"
        return f"{type(item).__name__}({{{_members(sorted(item, key=repr), level)}}})"
    if isinstance(item, Mapping):
        entries = [f"{_written(key, level)}: {_written(entry, level)}" for key, entry in _first(item.items(), level)]
        return f"{{{_joined(entries, len(item))}}}"
    if isinstance(item, list):
        return f"[{_members(item, level)}]"
    if isinstance(item, tuple):
        return f"({_members(item, level)}{',' if len(item) == 1 else ''})"
    return repr(item)


def _dataclass(item: Any, level: _Detail) -> str:
    if type(item).__dict__.get("__repr__") is not value_repr:  # a class that shows itself in its own way
        return repr(item) if level is _CODE or level.depth > 0 else f"{type(item).__name__}({_UNSHOWN})"
    name = type(item).__name__
    if level.depth == 0:
        return f"{name}({_UNSHOWN})"
    inner = _Detail(level.depth - 1, level.members, level.defaults, level.assumptions)
    parts, left_out = [], False
    for field in fields(item):
        if not (field.repr and field.init) or not hasattr(item, field.name):  # not there before __init__ has ended
            continue
        found = getattr(item, field.name)
        if field.name == "assumptions" and not level.assumptions:
            left_out = left_out or not found <= (frozenset() if field.default is MISSING else field.default)
        elif not _is_default(field, found) or (level.defaults and found != ()):  # names of categories, mostly absent
            parts.append(f"{field.name}={_written(found, inner if level is not _CODE else _CODE)}")
    return f"{name}({', '.join([*parts, *([_UNSHOWN] if left_out else [])])})"


def _is_default(field: Any, found: Any) -> bool:
    default = field.default
    if default is MISSING or isinstance(found, np.ndarray):
        return False
    return type(found) is type(default) and bool(found == default)


def _array(item: Any, level: _Detail) -> str:
    if level is _CODE:
        return f"np.array({item.tolist()!r})"
    if item.size <= level.members:
        return f"array({item.tolist()!r})"
    return f"array of shape {item.shape}"


def _members(items: Any, level: _Detail) -> str:
    return _joined([_written(one, level) for one in _first(items, level)], len(items))


def _first(items: Any, level: _Detail) -> list[Any]:
    """The members that are written, without a walk over all of them."""
    return [one for one, _ in zip(items, range(min(len(items), level.members)), strict=False)]


def _joined(texts: list[str], count: int) -> str:
    more = count - len(texts)
    return ", ".join([*texts, f"{_UNSHOWN} {more} more"] if more > 0 else texts)
