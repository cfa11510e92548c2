"""Requirements on mechanisms and accountants: how one is checked, and how a violation is reported."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from privsample._value import frozen_value

S = TypeVar("S")


class RequirementViolated(AssertionError):
    """A mechanism or an accountant violates a requirement of its interface.

    Attributes
    ----------
    requirement : str
        The name of the requirement.
    subject : str
        Description of the mechanism or accountant that violates it.
    seen : str
        The failing case: the input, the result and the expected result.
    advice : str
        How to correct it.

    Examples
    --------
    >>> from privsample.testing import RequirementViolated
    >>> str(RequirementViolated("files", "MyMechanism()", "it cannot be saved", "register the class"))
    "MyMechanism() violates the requirement 'files': it cannot be saved. What to do: register the class."
    """

    def __init__(self, requirement: str, subject: str, seen: str, advice: str) -> None:
        super().__init__(requirement, subject, seen, advice)
        self.requirement, self.subject, self.seen, self.advice = requirement, subject, seen, advice

    def __str__(self) -> str:
        seen = self.seen.removesuffix(".")
        return f"{self.subject} violates the requirement {self.requirement!r}: {seen}. What to do: {self.advice}."


@frozen_value
class CheckedRequirement:
    """Result of one check: no violation was found, or the requirement does not apply.

    Parameters
    ----------
    requirement : str
        The name of the requirement.
    applied : bool
        Whether the requirement was checked.
    note : str, default ""
        Why it was not checked.

    Examples
    --------
    >>> from privsample.testing import CheckedRequirement
    >>> CheckedRequirement(requirement="files", applied=False, note="skipped by the caller").applied
    False
    """

    requirement: str
    applied: bool
    note: str = ""


class Violation(Exception):
    """Raised by a check: the failing case and the advice. `check_requirements` turns it into `RequirementViolated`."""

    def __init__(self, seen: str, advice: str) -> None:
        super().__init__(seen, advice)
        self.seen, self.advice = seen, advice


class NotApplicable(Exception):
    """Raised by a check if the requirement does not apply to this subject; the message says why."""


@dataclass(frozen=True, slots=True)
class Requirement(Generic[S]):
    """A named requirement. `check` raises Violation or NotApplicable; `advice` is for other errors."""

    name: str
    check: Callable[[S], None]
    advice: str


def require(condition: Any, seen: str, advice: str) -> None:
    """Raise Violation unless the condition holds."""
    if not condition:
        raise Violation(seen, advice)


def check_requirements(
    requirements: Sequence[Requirement[S]], subject: S, description: str, skip: Collection[str]
) -> tuple[CheckedRequirement, ...]:
    """Check each requirement in turn. Raises RequirementViolated for the first violation."""
    found = []
    for requirement in requirements:
        if requirement.name in skip:
            found.append(CheckedRequirement(requirement=requirement.name, applied=False, note="skipped by the caller"))
            continue
        try:
            requirement.check(subject)
        except NotApplicable as reason:
            found.append(CheckedRequirement(requirement=requirement.name, applied=False, note=str(reason)))
        except Violation as broken:
            raise RequirementViolated(requirement.name, description, broken.seen, broken.advice) from broken.__cause__
        except Exception as error:
            seen = f"the check raised {type(error).__name__}: {error}"
            raise RequirementViolated(requirement.name, description, seen, requirement.advice) from error
        else:
            found.append(CheckedRequirement(requirement=requirement.name, applied=True))
    return tuple(found)


def check_skipped(skip: Collection[str], requirements: Sequence[Requirement[Any]]) -> frozenset[str]:
    """Return the names to skip. Raises TypeError for a single string and ValueError for an unknown name."""
    if isinstance(skip, str):
        raise TypeError(f"skip must be a list of requirement names, got {skip!r}: write skip=[{skip!r}]")
    names = [requirement.name for requirement in requirements]
    for name in skip:
        if name not in names:
            raise ValueError(f"skip must name requirements, got {name!r}; the requirements are {', '.join(names)}")
    return frozenset(skip)


def short(item: Any, limit: int = 160) -> str:
    """Return the repr of a value, truncated."""
    text = " ".join(repr(item).split())
    return text if len(text) <= limit else f"{text[:limit]} ..."
