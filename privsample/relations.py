"""Neighbouring relations: which two datasets a guarantee compares. Equal relations compose, others raise."""

from abc import ABC, abstractmethod

from privsample._checks import positive_integer
from privsample._value import put, value


class Relation(ABC):
    """A neighbouring relation; `words` says it as an end of the sentence 'two datasets are neighbours when ...'."""

    __slots__ = ()

    @property
    @abstractmethod
    def words(self) -> str:
        """The relation in plain words."""

    @property
    @abstractmethod
    def change(self) -> str:
        """What a neighbour changes, as a clause."""

    @abstractmethod
    def group(self, size: int) -> "Relation":
        """The same relation for groups of `size` units."""


def _text(unit: object) -> str:
    if not isinstance(unit, str) or not unit:
        raise TypeError(f"unit must be a word for what is protected, got {type(unit).__name__}")
    return unit


def related(relation: object) -> Relation:
    """The relation. Raises: TypeError, for anything else."""
    if not isinstance(relation, Relation):
        raise TypeError(f"relation must be AddRemove(...) or ReplaceOne(...), got {type(relation).__name__}")
    return relation


def _words(unit: str, members: int) -> str:
    return unit if members == 1 else f"group of {members} ({unit})"


@value
class AddRemove(Relation):
    """One unit more or one less; the number of units is not public. `unit` names what is protected.

    `members`: how many units may differ, 1 unless groups are protected.
    """

    unit: str = "record"
    members: int = 1

    def __post_init__(self) -> None:
        put(self, unit=_text(self.unit), members=positive_integer(members=self.members))

    @property
    def change(self) -> str:
        """What a neighbour changes."""
        return f"one {_words(self.unit, self.members)} is added or removed"

    @property
    def words(self) -> str:
        """The relation in plain words."""
        return f"one holds one {_words(self.unit, self.members)} more than the other"

    def group(self, size: int) -> "AddRemove":
        """Neighbours that differ by up to `size` units."""
        return AddRemove(unit=self.unit, members=self.members * size)


@value
class ReplaceOne(Relation):
    """One of `n` units replaced by another; `n` is public. `unit` names what is protected.

    `members`: how many units may differ, 1 unless groups are protected; n of them are all.
    """

    n: int
    unit: str = "record"
    members: int = 1

    def __post_init__(self) -> None:
        n = positive_integer(n=self.n)
        put(self, n=n, unit=_text(self.unit), members=min(positive_integer(members=self.members), n))

    @property
    def change(self) -> str:
        """What a neighbour changes."""
        return f"one {_words(self.unit, self.members)} is replaced by another"

    @property
    def words(self) -> str:
        """The relation in plain words."""
        return f"both are of one size, {self.n}, and one {_words(self.unit, self.members)} was replaced by another"

    def group(self, size: int) -> "ReplaceOne":
        """Neighbours that differ in up to `size` units."""
        return ReplaceOne(n=self.n, unit=self.unit, members=self.members * size)
