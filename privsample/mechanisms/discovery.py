"""Which classes there are: privsample's public ones, and those of other packages that were imported."""

import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from importlib.metadata import entry_points
from inspect import isabstract
from typing import Any

import privsample
from privsample.mechanisms.base import Mechanism

_GROUP = "privsample.extensions"  # entry points of packages that extend privsample
_ROOMS = ("privsample.mechanisms.", "privsample.distributions.")


def mechanism_classes() -> tuple[type[Mechanism], ...]:
    """Every mechanism that can be made: the public ones, then those of installed extensions and other packages."""
    return classes_of(Mechanism)


def classes_of(kind: type) -> tuple[type[Any], ...]:
    """The public, concrete classes of values below an abstract one (or itself), privsample's own first."""
    homes = {home for home in privsample._HOME.values() if home.startswith(_ROOMS)}
    for home in sorted(homes):
        import_module(home)
    for entry in entry_points(group=_GROUP):
        entry.load()
    found = [cls for cls in dict.fromkeys(_below(kind)) if _is_made(cls)]
    return tuple(sorted(found, key=lambda cls: (not cls.__module__.startswith("privsample."), cls.__name__)))


def _below(kind: type) -> Iterator[type[Any]]:
    yield kind
    for cls in type.__subclasses__(kind):
        yield from _below(cls)


def _is_made(cls: type[Any]) -> bool:
    """Whether values can be made of the class, and it is the one that its module shows under its name."""
    if isabstract(cls) or not is_dataclass(cls):
        return False
    if cls.__module__.startswith("privsample."):
        return privsample._HOME.get(cls.__name__) == cls.__module__ and getattr(privsample, cls.__name__) is cls
    return getattr(sys.modules.get(cls.__module__), cls.__name__, None) is cls
