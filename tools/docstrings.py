"""Check the docstrings of all public names: python tools/docstrings.py; part of `make lint`.

Every public class documents each of its fields. Every public function documents its parameters and its return value.
Both have an example, which the tests execute. numpydoc validates the docstrings; the script prints one line for each
missing section and fails if there is any.
"""

import inspect
import sys
from collections.abc import Iterator
from enum import Enum
from importlib import import_module

from numpydoc.validate import validate  # type: ignore[import-untyped]

import privsample

BESIDE = (
    "interop.pymc.noisy_observation",
    "interop.pymc.noisy_count",
    "pymc.NoisyCount",
    "pymc.NoisyMoments",
    "pymc.NoisyMultinomial",
    "pymc.NoisyPoisson",
    "pymc.NoisyRegressionMoments",
    "pymc.NoisySum",
    "pymc.likelihood",
    "testing.check_mechanism",
    "testing.check_accountant",
)
OF_CLASSES = {"GL08", "PR01", "PR02", "PR04", "EX01"}
OF_FUNCTIONS = OF_CLASSES | {"RT01"}
OF_METHODS = {"GL08", "PR01", "PR02", "RT01"}
OF_VALUES = {"GL08"}


def public_names() -> Iterator[tuple[str, object]]:
    """The names at the top of the package, and those beside it that the reference lists."""
    for name in privsample.__all__:
        yield f"privsample.{name}", getattr(privsample, name)
    for path in BESIDE:
        module, _, name = f"privsample.{path}".rpartition(".")
        yield f"{module}.{name}", getattr(import_module(module), name)


def members(owner: type) -> Iterator[tuple[str, object]]:
    """The public methods and properties that the class, or a class of privsample above it, is the first to define."""
    own = [base for base in owner.__mro__ if base.__module__.startswith("privsample")]
    first = {name: base for base in own for name in vars(base) if not name.startswith("_")}
    for name, base in first.items():
        yield f"{base.__module__}.{base.__qualname__}.{name}", vars(base)[name]


def findings() -> Iterator[str]:
    """One line for each section that is missing."""
    seen: set[str] = set()

    def of(path: str, codes: set[str]) -> Iterator[str]:
        if path not in seen:
            seen.add(path)
            found = validate(path)["errors"]
            yield from (f"{path}: {message} ({code})" for code, message in found if code in codes)

    for path, item in public_names():
        if not inspect.isclass(item):
            yield from of(path, OF_FUNCTIONS)
            continue
        yield from of(path, OF_VALUES if issubclass(item, Enum) else OF_CLASSES)
        for name, member in members(item):
            if isinstance(member, property):
                yield from of(name, OF_VALUES)
            elif inspect.isfunction(member) or isinstance(member, (classmethod, staticmethod)):
                yield from of(name, OF_METHODS)


def main() -> None:
    """Print what is missing; the exit code tells whether anything is."""
    found = sorted(findings())
    print(*found, sep="\n")
    sys.exit(f"{len(found)} sections of public docstrings are missing" if found else 0)


if __name__ == "__main__":
    main()
