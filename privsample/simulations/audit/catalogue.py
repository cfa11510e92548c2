"""The examples of all mechanisms, found by themselves, and audits of these and of their mutants."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.discovery import mechanism_classes
from privsample.mechanisms.examples import Example
from privsample.simulations.audit.audit import audit
from privsample.simulations.audit.verdict import Verdict


def catalogue() -> Mapping[str, Example]:
    """All examples by the name for the command line, those of one room next to each other.

    Raises: TypeError, for a class whose `examples` are none of its own; ValueError, for a name that two examples share.
    """
    found: dict[str, Example] = {}
    for cls in mechanism_classes():
        for example in _examples_of(cls):
            if example.name in found:
                other = type(found[example.name].mechanism).__name__
                raise ValueError(
                    f"the example {example.name!r} of {cls.__name__} has the name of one of {other}: names must "
                    "differ, as `privsample audit` knows examples by them; rename one"
                )
            found[example.name] = example
    return found


@cache
def _examples_of(cls: type[Mechanism]) -> tuple[Example, ...]:
    examples: tuple[Any, ...] = cls.examples()
    for example in examples:
        if not isinstance(example, Example) or type(example.mechanism) is not cls:
            raise TypeError(f"{cls.__name__}.examples() must give a tuple of Example(...) of {cls.__name__}")
    return examples


def audit_example(example: Example, *, mutant: bool = False, samples: int | None = None, **options: Any) -> Verdict:
    """Audit the mechanism, or its mutant, with the options of `audit`; both are held to the mechanism's account."""
    subject = example.mutant if mutant else example.mechanism
    return audit(subject, claim=example.claim, samples=example.samples if samples is None else samples, **options)
