"""Catalogue of the examples of all mechanisms, and audits of the examples and their mutants."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.discovery import mechanism_classes
from privsample.mechanisms.examples import Example
from privsample.simulations.audit.audit import audit
from privsample.simulations.audit.sequential_verdict import SequentialVerdict
from privsample.simulations.audit.verdict import Verdict


def catalogue() -> Mapping[str, Example]:
    """Return all examples by their name on the command line, grouped by module.

    Raises: TypeError, for a class that returns examples of another class; ValueError, for a duplicate name.
    """
    found: dict[str, Example] = {}
    for cls in mechanism_classes():
        for example in _examples_of(cls):
            if example.name in found:
                other = type(found[example.name].mechanism).__name__
                raise ValueError(
                    f"the example {example.name!r} of {cls.__name__} has the name of one of {other}; rename one, "
                    "because `privsample audit` identifies examples by name"
                )
            found[example.name] = example
    return found


@cache
def _examples_of(cls: type[Mechanism]) -> tuple[Example, ...]:
    examples: tuple[Any, ...] = cls.examples()
    for example in examples:
        if not isinstance(example, Example) or type(example.mechanism) is not cls:
            raise TypeError(f"{cls.__name__}.examples() must return a tuple of Example(...) of {cls.__name__}")
    return examples


def audit_example(
    example: Example, *, mutant: bool = False, samples: int | None = None, **options: Any
) -> Verdict | SequentialVerdict:
    """Audit the mechanism or its mutant with the options of `audit`, against the account of the mechanism."""
    subject = example.mutant if mutant else example.mechanism
    found: Verdict | SequentialVerdict = audit(
        subject, claim=example.claim, samples=example.samples if samples is None else samples, **options
    )
    return found
