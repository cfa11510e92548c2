"""Frozen values that compare and hash by content."""

from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform, final

import numpy as np

T = TypeVar("T")


def _content(item: Any) -> Hashable:
    """Arrays count by shape, type and bytes; mappings by their sorted entries; all else as it is."""
    if isinstance(item, np.ndarray):
        return (item.shape, item.dtype.str, item.tobytes())
    if isinstance(item, dict):
        return tuple((key, _content(item[key])) for key in sorted(item))
    return item


def _key(value: Any) -> tuple[Hashable, ...]:
    return tuple(_content(getattr(value, field.name)) for field in fields(value) if field.compare)


def _equal(self: Any, other: object) -> bool:
    if type(other) is not type(self):
        return NotImplemented
    return _key(self) == _key(other)


def _hash(self: Any) -> int:
    return hash((type(self).__qualname__, _key(self)))


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=True)
def value(cls: type[T]) -> type[T]:
    """Turn a class into a final, frozen, slotted, keyword-only dataclass that compares and hashes by content."""
    made: Any = dataclass(frozen=True, slots=True, kw_only=True, eq=False)(cls)
    made.__eq__ = _equal
    made.__hash__ = _hash
    return final(made)


def put(instance: object, **fields_: Any) -> None:
    """Store normalised fields; only for `__post_init__`."""
    for name, item in fields_.items():
        object.__setattr__(instance, name, item)
