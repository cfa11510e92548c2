"""Frozen values that compare and hash by content, and properties cached in them."""

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform, final

import numpy as np

T = TypeVar("T")
_LOCK = threading.Lock()


class Memo:
    """A base class of values that store the results of their `cached` properties.

    The store is not a field: equality, `dataclasses.replace`, copies and pickles ignore it.
    """

    __slots__ = ("_memo",)
    _memo: dict[str, Any]

    def __getstate__(self) -> Any:
        state = object.__getstate__(self)
        if isinstance(state, tuple):  # (dictionary, slots) of a class without `frozen_value`
            state[1].pop("_memo", None)
        return state


def _memo(instance: Any) -> dict[str, Any]:
    try:
        return instance._memo
    except AttributeError:
        with _LOCK:  # two threads must not make two memos: every reader gets the same object
            if not hasattr(instance, "_memo"):
                object.__setattr__(instance, "_memo", {})
        return instance._memo


if TYPE_CHECKING:
    cached = property
else:

    class cached(property):  # noqa: N801 - used as `property` is
        """A property of a `Memo` that is computed once per object; exceptions are not stored.

        Two threads may compute it at the same time; both get the result that was stored first.
        """

        def __set_name__(self, owner: type, name: str) -> None:
            # A property that overrides another and reads it must not read its own result back: one key per class.
            self.key = f"{owner.__qualname__}.{name}"

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            try:
                return instance._memo[self.key]
            except (AttributeError, KeyError):
                pass
            return _memo(instance).setdefault(self.key, self.fget(instance))


def _content(item: Any) -> Hashable:
    """Arrays by shape, type and bytes, dicts by their sorted items, everything else as it is."""
    if isinstance(item, np.ndarray):
        return (item.shape, item.dtype.str, item.tobytes())
    if isinstance(item, dict):
        return tuple((key, _content(item[key])) for key in sorted(item))
    return item


def _key(value: Any) -> tuple[Hashable, ...]:
    found = []
    for each in fields(value):
        if each.compare:
            item = getattr(value, each.name)
            found.append(_content(item) if isinstance(item, (np.ndarray, dict)) else item)
    return tuple(found)


def _equal(self: Any, other: object) -> bool:
    if other is self:
        return True
    if type(other) is not type(self):
        return NotImplemented
    return _key(self) == _key(other)


def _hash(self: Any) -> int:
    if not isinstance(self, Memo):
        return hash((type(self).__qualname__, _key(self)))
    try:
        return self._memo["__hash__"]
    except (AttributeError, KeyError):
        pass
    return int(_memo(self).setdefault("__hash__", hash((type(self).__qualname__, _key(self)))))


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=True, field_specifiers=(field,))
def frozen_value(cls: type[T]) -> type[T]:
    """Turn a class into a final, frozen, slotted dataclass that compares and hashes by content.

    Fields are keyword-only, except those declared with `field(kw_only=False)`, whose order every reader knows.
    """
    made: Any = dataclass(frozen=True, slots=True, kw_only=True, eq=False)(cls)
    made.__eq__ = _equal
    made.__hash__ = _hash
    return final(made)


def set_fields(instance: object, **fields_: Any) -> None:
    """Store normalised fields in `__post_init__`; cached results are deleted if a field changes."""
    for name, item in fields_.items():
        if isinstance(instance, Memo) and hasattr(instance, "_memo") and getattr(instance, name, None) is not item:
            object.__delattr__(instance, "_memo")
        object.__setattr__(instance, name, item)
