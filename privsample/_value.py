"""Frozen values that compare and hash by content, and properties cached in them."""

import threading
from collections.abc import Callable, Hashable
from dataclasses import MISSING, dataclass, field, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform, final

import numpy as np

from privsample._repr import value_repr

T = TypeVar("T")
_INTERNAL = ("privsample.accounting.loss", "privsample.accounting.engine")  # values that users do not make themselves
_TARGETS = frozenset({"epsilon", "delta", "target", "rho", "order", "rdp_epsilon"})  # what a privacy target consists of
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
    """The store of cached results, created at the first use."""
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


def stored(instance: Memo, key: str, make: Callable[[], T]) -> T:
    """What `make` returns, computed once per object and kept beside its `cached` properties."""
    store = _memo(instance)
    if key not in store:
        store.setdefault(key, make())
    found: T = store[key]
    return found


def remember(instance: Memo, results: dict[str, Any]) -> None:
    """Keep results under their keys, as `stored` does, in an object that is being made."""
    object.__setattr__(instance, "_memo", results)


def recalled(instance: Memo, key: str) -> Any:
    """What `stored` keeps under a key; None if there is nothing."""
    try:
        return instance._memo.get(key)
    except AttributeError:
        return None


def forget(instance: Memo, key: str) -> None:
    """Remove what `stored` keeps under a key."""
    instance._memo.pop(key, None)


def _content(item: Any) -> Hashable:
    """Arrays by shape, type and bytes (or objects), dicts by their sorted items, everything else as it is."""
    if isinstance(item, np.ndarray):
        if item.dtype.hasobject:
            return (item.shape, item.dtype.str, *item.ravel().tolist())
        return (item.shape, item.dtype.str, item.tobytes())
    if isinstance(item, dict):
        return tuple((key, _content(item[key])) for key in sorted(item))
    return item


def _key(value: Any) -> tuple[Hashable, ...]:
    """The compared fields of a value, in hashable form."""
    found = []
    for name in type(value)._compared_fields:
        item = getattr(value, name)
        found.append(_content(item) if isinstance(item, (np.ndarray, dict)) else item)
    return tuple(found)


def _equal(self: Any, other: object) -> bool:
    """Equality by class and by content of the compared fields."""
    if other is self:
        return True
    if type(other) is not type(self):
        return NotImplemented
    return _key(self) == _key(other)


def _hash(self: Any) -> int:
    """Hash by class and content; cached in values that have a store."""
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
    made: Any = dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)(cls)
    if "__repr__" not in cls.__dict__:
        made.__repr__ = value_repr
    made._compared_fields = tuple(each.name for each in fields(made) if each.compare)
    made.__eq__ = _equal
    made.__hash__ = _hash
    if not cls.__module__.startswith(_INTERNAL):
        made.__init__ = _named_fields(made)
    return final(made)


def _named_fields(cls: Any) -> Any:
    """The `__init__` of a dataclass, whose error about missing or unknown fields names the fields of the class."""
    original = cls.__init__

    @wraps(original)
    def __init__(self: Any, *positional: Any, **given: Any) -> None:  # noqa: N807
        try:
            original(self, *positional, **given)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # from a check inside
                raise
            raise TypeError(_misnamed_fields(cls, positional, given)) from None

    return __init__


def _misnamed_fields(cls: Any, positional: tuple[Any, ...], given: dict[str, Any]) -> str:
    """What is wrong with the arguments of a dataclass: fields that it does not have, or that are missing."""
    known = [one for one in fields(cls) if one.init]
    ordered = [one.name for one in known if not one.kw_only]
    bound = {*given, *ordered[: len(positional)]}
    required = [one.name for one in known if one.default is MISSING and one.default_factory is MISSING]
    unknown = [name for name in given if name not in {one.name for one in known}]
    twice = [name for name in ordered[: len(positional)] if name in given]
    missing = [name for name in required if name not in bound]
    problems = []
    if len(positional) > len(ordered):
        most = f"at most {len(ordered)} positional arguments" if ordered else "keyword arguments only"
        problems.append(f"{cls.__name__} takes {most}, got {len(positional)} positional ones")
    if twice:
        problems.append(f"{' and '.join(twice)} must be given once")
    if missing:
        problems.append(f"{' and '.join(missing)} must be given")
    if unknown:
        problems.append(f"{' and '.join(unknown)} {'is' if len(unknown) == 1 else 'are'} not among the fields")
    advice = ""
    free = getattr(cls, "free_parameters", ())
    if free and {*unknown} & _TARGETS:
        advice = (
            f"; to choose {free[0].decides} by a privacy target, call {cls.__name__}.calibrate(..., "
            "target=DP(epsilon=..., delta=...))"
        )
    names = ", ".join(one.name for one in known) or "no fields"
    return f"{'; '.join(problems)}: {cls.__name__} has {names}{advice}"


def set_fields(instance: object, **fields_: Any) -> None:
    """Store normalised fields in `__post_init__`; cached results are deleted if a field changes."""
    for name, item in fields_.items():
        if isinstance(instance, Memo) and hasattr(instance, "_memo") and getattr(instance, name, None) is not item:
            object.__delattr__(instance, "_memo")
        object.__setattr__(instance, name, item)
