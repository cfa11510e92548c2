"""Which mechanisms there are, found by themselves: nobody keeps a list of them."""

from importlib import import_module
from inspect import isabstract
from typing import Any

from privsample._registry import load_extensions, registered_classes, registration_of
from privsample.mechanisms.base import Mechanism

_ROOM = "privsample.mechanisms."


def mechanism_classes() -> tuple[type[Mechanism], ...]:
    """All concrete classes of mechanisms: public ones of privsample, and those that installed packages register.

    Ordered by module and name.
    Raises: ImportError, where an installed package that extends privsample cannot be imported.
    """
    package: Any = import_module("privsample")  # which knows the modules of its lazy names
    public = {getattr(package, name) for name, home in package._HOME.items() if home.startswith(_ROOM)}
    installed = load_extensions()
    theirs = {cls for cls in registered_classes() if registration_of(cls).package in installed}
    known = [cls for cls in public | theirs if isinstance(cls, type) and issubclass(cls, Mechanism)]
    return tuple(sorted((cls for cls in known if not isabstract(cls)), key=lambda cls: (cls.__module__, cls.__name__)))
