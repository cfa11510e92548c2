"""Which classes of values there are: privsample's public ones, and those that other packages register."""

from importlib import import_module
from inspect import isabstract
from typing import Any

from privsample._registry import registered_classes
from privsample.mechanisms.base import Mechanism

_ROOMS = ("privsample.mechanisms.", "privsample.distributions.")


def mechanism_classes() -> tuple[type[Mechanism], ...]:
    """All concrete classes of mechanisms: the public names of privsample, then what other packages registered."""
    return classes_of(Mechanism)


def classes_of(kind: type) -> tuple[type[Any], ...]:
    """The concrete classes of mechanisms or of their parts below (or equal to) a class, ordered by module and name."""
    package: Any = import_module("privsample")  # which knows the modules of its lazy names
    public = [getattr(package, name) for name, home in package._HOME.items() if home.startswith(_ROOMS)]
    found = dict.fromkeys(cls for cls in (*public, *registered_classes(), kind) if _is_below(cls, kind))
    return tuple(
        sorted(found, key=lambda cls: (not cls.__module__.startswith("privsample."), cls.__module__, cls.__name__))
    )


def _is_below(cls: Any, kind: type) -> bool:
    return isinstance(cls, type) and issubclass(cls, kind) and not isabstract(cls)
