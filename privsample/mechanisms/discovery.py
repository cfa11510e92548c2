"""Which mechanisms there are, found by themselves: nobody keeps a list of them."""

from importlib import import_module
from inspect import isabstract
from typing import Any

from privsample.mechanisms.base import Mechanism

_ROOM = "privsample.mechanisms."


def mechanism_classes() -> tuple[type[Mechanism], ...]:
    """All concrete classes of mechanisms among the public names of privsample, ordered by module and name."""
    package: Any = import_module("privsample")  # which knows the modules of its lazy names
    public = {getattr(package, name) for name, home in package._HOME.items() if home.startswith(_ROOM)}
    found = [cls for cls in public if isinstance(cls, type) and issubclass(cls, Mechanism) and not isabstract(cls)]
    return tuple(sorted(found, key=lambda cls: (cls.__module__, cls.__name__)))
