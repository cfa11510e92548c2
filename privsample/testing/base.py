"""What a law is, how it is checked, and how a broken one is reported."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from privsample._value import frozen_value

S = TypeVar("S")


class LawBroken(AssertionError):
    """A mechanism or an accountant breaks a law that all of them must obey.

    Attributes
    ----------
    law : str
        The name of the law.
    subject : str
        What breaks it: a mechanism or an accountant.
    seen : str
        The case in which it was broken: what was done, what came out, and what was expected.
    advice : str
        What to do.
    """

    def __init__(self, law: str, subject: str, seen: str, advice: str) -> None:
        super().__init__(law, subject, seen, advice)
        self.law, self.subject, self.seen, self.advice = law, subject, seen, advice

    def __str__(self) -> str:
        return f"{self.subject} breaks the law {self.law!r}: {self.seen.removesuffix('.')}. What to do: {self.advice}."


@frozen_value
class CheckedDistribution:
    """A law that was checked and holds, as far as the check can tell, or that says nothing about this subject.

    Parameters
    ----------
    law : str
        The name of the law.
    applied : bool
        Whether the law could be checked.
    note : str
        Why it could not, or what was checked.
    """

    law: str
    applied: bool
    note: str = ""


class Broken(Exception):
    """A law found its case: what was seen, and what to do. Becomes a `LawBroken`."""

    def __init__(self, seen: str, advice: str) -> None:
        super().__init__(seen, advice)
        self.seen, self.advice = seen, advice


class NotApplicable(Exception):
    """A law says nothing about this subject; the message says why."""


@dataclass(frozen=True, slots=True)
class Law(Generic[S]):
    """A law by its name; `check` raises Broken or NotApplicable, and `advice` is for what it raises beside these."""

    name: str
    check: Callable[[S], None]
    advice: str


def require(condition: Any, seen: str, advice: str) -> None:
    """Raise Broken unless the condition holds."""
    if not condition:
        raise Broken(seen, advice)


def check_distributions(
    laws: Sequence[Law[S]], subject: S, words: str, skip: Collection[str]
) -> tuple[CheckedDistribution, ...]:
    """Check each law in turn. Raises: LawBroken, for the first that is broken."""
    found = []
    for law in laws:
        if law.name in skip:
            found.append(CheckedDistribution(law=law.name, applied=False, note="skipped by the caller"))
            continue
        try:
            law.check(subject)
        except NotApplicable as reason:
            found.append(CheckedDistribution(law=law.name, applied=False, note=str(reason)))
        except Broken as broken:
            raise LawBroken(law.name, words, broken.seen, broken.advice) from broken.__cause__
        except Exception as error:
            seen = f"the check was ended by {type(error).__name__}: {error}"
            raise LawBroken(law.name, words, seen, law.advice) from error
        else:
            found.append(CheckedDistribution(law=law.name, applied=True))
    return tuple(found)


def check_names(skip: Collection[str], laws: Sequence[Law[Any]]) -> frozenset[str]:
    """The laws to be skipped. Raises: TypeError, for a single text; ValueError, for a law that there is not."""
    if isinstance(skip, str):
        raise TypeError(f"skip must be a list of names of laws, got {skip!r}: write skip=[{skip!r}]")
    names = [law.name for law in laws]
    for name in skip:
        if name not in names:
            raise ValueError(f"skip must name laws, got {name!r}; the laws are {', '.join(names)}")
    return frozenset(skip)


def short(item: Any, limit: int = 160) -> str:
    """A value as it prints, cut short."""
    text = " ".join(repr(item).split())
    return text if len(text) <= limit else f"{text[:limit]} ..."
