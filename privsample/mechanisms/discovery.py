"""Which classes of values there are: privsample's public ones, and those that other packages register."""

from functools import cache
from importlib import import_module
from inspect import isabstract
from typing import Any

from privsample._registry import load_extensions, registered_classes
from privsample.mechanisms.base import Mechanism

_ROOMS = ("privsample.mechanisms.", "privsample.distributions.")


def mechanism_classes() -> tuple[type[Mechanism], ...]:
    """All concrete classes of mechanisms: the public names of privsample, then what other packages registered.

    Raises: ImportError, where an installed package that extends privsample cannot be imported.
    """
    load_extensions()
    return classes_of(Mechanism)


def classes_of(kind: type) -> tuple[type[Any], ...]:
    """The concrete classes of mechanisms or of their parts below (or equal to) a class, ordered by module and name."""
    return _classes_of(kind, registered_classes())


@cache
def _classes_of(kind: type, registered: tuple[type, ...]) -> tuple[type[Any], ...]:
    package: Any = import_module("privsample")  # which knows the modules of its lazy names
    public = [getattr(package, name) for name, home in package._HOME.items() if home.startswith(_ROOMS)]
    classes = [cls for cls in (*public, *registered, kind) if isinstance(cls, type) and issubclass(cls, kind)]
    named = {(not cls.__module__.startswith("privsample."), cls.__module__, cls.__name__): cls for cls in classes}
    return tuple(named[name] for name in sorted(named) if not isabstract(named[name]))
