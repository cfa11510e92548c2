"""Neighbouring relations: which two datasets a guarantee compares. Equal relations compose, others raise."""

from abc import ABC, abstractmethod
from collections.abc import Sequence, Sized
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from privsample._checks import count_noun, positive_integer
from privsample._value import frozen_value, set_fields


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


@frozen_value
class AddRemove(Relation):
    """One unit more or one less; the number of units is not public. `unit` names what is protected.

    `members`: how many units may differ, 1 unless groups are protected.
    """

    unit: str = "record"
    members: int = 1

    def __post_init__(self) -> None:
        set_fields(self, unit=_text(self.unit), members=positive_integer(members=self.members))

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
        return AddRemove(unit=self.unit, members=self.members * positive_integer(size=size))


@frozen_value
class ReplaceOne(Relation):
    """One of `n` units replaced by another; `n` is public. `unit` names what is protected.

    `members`: how many units may differ, 1 unless groups are protected; n of them are all.
    """

    n: int
    unit: str = "record"
    members: int = 1

    def __post_init__(self) -> None:
        n = positive_integer(n=self.n)
        set_fields(self, n=n, unit=_text(self.unit), members=min(positive_integer(members=self.members), n))

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
        return ReplaceOne(n=self.n, unit=self.unit, members=self.members * positive_integer(size=size))


def check_single_record_relation(relation: object) -> AddRemove | ReplaceOne:
    """The relation, if neighbours differ in one record. Raises: ValueError."""
    if not isinstance(relation, (AddRemove, ReplaceOne)):
        raise ValueError(f"relation must be ReplaceOne or AddRemove, got {relation}")
    if relation.members > 1:
        k = relation.members
        raise ValueError(f"relation must be about one record, got members = {k}; accountant.group({k}) prices groups")
    return relation


class Confusable(Sized, Protocol):
    """A graph of profiles: privsample's ProfileGraph."""

    @property
    def edges(self) -> Sequence[tuple[str | int, str | int]]:
        """The pairs of profiles that are to be confused."""

    @property
    def ends(self) -> NDArray[np.int64]:
        """The positions of the pairs' profiles, (edges, 2)."""

    def within(self, distance: int) -> Self:
        """The same profiles, joined wherever at most `distance` edges lie between them."""


@frozen_value
class ProfileEdge(Relation):
    """One choice of profile exchanged for another that an edge of `graph`, a ProfileGraph, joins to it.

    What is protected is the source of an observation, not the observation: it is drawn anew from the other profile.
    """

    graph: Confusable

    def __post_init__(self) -> None:
        if not callable(getattr(self.graph, "within", None)):
            raise TypeError(f"graph must be a ProfileGraph, got {type(self.graph).__name__}")

    @property
    def change(self) -> str:
        """What a neighbour changes."""
        return "one profile is exchanged for another that an edge joins to it"

    @property
    def words(self) -> str:
        """The relation in plain words."""
        size = f"{count_noun(len(self.graph), 'profile')} with {count_noun(len(self.graph.edges), 'edge')}"
        return f"one profile behind the observations of one is joined by an edge to that of the other ({size})"

    def group(self, size: int) -> "ProfileEdge":
        """Profiles with up to `size` edges between them."""
        return ProfileEdge(graph=self.graph.within(positive_integer(size=size)))
