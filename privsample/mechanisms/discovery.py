"""Lookup of classes: the public ones of privsample, and those that other packages register."""

from functools import cache
from importlib import import_module
from inspect import isabstract
from typing import Any

from privsample._registry import load_extensions, registered_classes, registration_of
from privsample.mechanisms.base import Mechanism

_ROOMS = ("privsample.mechanisms.", "privsample.distributions.", "privsample.interop.")


def mechanism_classes() -> tuple[type[Mechanism], ...]:
    """All concrete mechanism classes: public ones, and those that installed packages register.

    Raises ImportError if an installed package that extends privsample cannot be imported.
    """
    installed = load_extensions()
    return tuple(cls for cls in classes_of(Mechanism) if _is_own(cls) or registration_of(cls).package in installed)


def classes_of(kind: type) -> tuple[type[Any], ...]:
    """The concrete subclasses of a class and itself: public ones, then registered ones, by module and name."""
    return _classes_of(kind, registered_classes())


@cache
def _classes_of(kind: type, registered: tuple[type, ...]) -> tuple[type[Any], ...]:
    package: Any = import_module("privsample")  # its attributes are imported lazily
    public = [getattr(package, name) for name, home in package._HOME.items() if home.startswith(_ROOMS)]
    classes = [cls for cls in (*public, *registered, kind) if isinstance(cls, type) and issubclass(cls, kind)]
    named = {(not _is_own(cls), cls.__module__, cls.__name__): cls for cls in classes}
    return tuple(named[name] for name in sorted(named) if not isabstract(named[name]))


def _is_own(cls: type) -> bool:
    return cls.__module__.startswith("privsample.")
