"""Neighbouring relations: which two datasets a guarantee compares. Only guarantees under equal relations compose."""

from abc import ABC, abstractmethod
from collections.abc import Sequence, Sized
from dataclasses import field
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from privsample._checks import count_noun, positive_integer
from privsample._value import frozen_value, set_fields


class Relation(ABC):
    """A neighbouring relation: the set of pairs of datasets that a privacy guarantee compares.

    `AddRemove`, `ReplaceOne` and `ProfileEdge` are its subclasses.

    Examples
    --------
    >>> import privsample as ps
    >>> relation = ps.ReplaceOne(n=100)
    >>> isinstance(relation, ps.Relation)
    True
    >>> relation.group(2)
    ReplaceOne(n=100, unit='record', members=2)
    """

    __slots__ = ()

    @property
    @abstractmethod
    def description(self) -> str:
        """The pairs of neighbours as a noun phrase that completes the sentence "Neighbouring datasets are ..."."""

    @property
    @abstractmethod
    def change(self) -> str:
        """What differs between two neighbours, as a clause."""

    @abstractmethod
    def group(self, size: int) -> "Relation":
        """The relation that allows `size` times as many units to differ.

        Parameters
        ----------
        size : int
            Factor by which the number of differing units grows, >= 1.

        Returns
        -------
        Relation
            The relation for groups.
        """


def _text(unit: object) -> str:
    """Check that `unit` is a nonempty string."""
    if not isinstance(unit, str) or not unit:
        raise TypeError(f"unit must be the name of the protected unit, got {type(unit).__name__}")
    return unit


def related(relation: object) -> Relation:
    """Check that `relation` is a `Relation` and return it. Raises TypeError otherwise."""
    if not isinstance(relation, Relation):
        raise TypeError(f"relation must be AddRemove(...) or ReplaceOne(...), got {type(relation).__name__}")
    return relation


def _number_of(unit: str, members: int) -> str:
    """How many units differ: "one record", or "at most 3 records" for groups."""
    return f"one {unit}" if members == 1 else f"at most {count_noun(members, unit)}"


def _name(relation: str, members: int) -> str:
    """The name of the relation, with the size of groups."""
    return relation if members == 1 else f"{relation}, groups of {members}"


@frozen_value
class AddRemove(Relation):
    """One unit is added or removed; the number of units is not public.

    Parameters
    ----------
    unit : str, default "record"
        Name of the protected unit, such as "record" or "household".
    members : int, default 1
        Largest number of units in which two neighbours differ, >= 1; above 1 for groups.

    Raises
    ------
    TypeError
        If `unit` is not a non-empty string, or `members` is not a number.
    ValueError
        If `members` is not a whole number >= 1.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.AddRemove(unit="household").change
    'one household is added or removed'
    """

    unit: str = "record"
    members: int = 1

    def __post_init__(self) -> None:
        set_fields(self, unit=_text(self.unit), members=positive_integer(members=self.members))

    @property
    def change(self) -> str:
        """What differs between two neighbours, as a clause."""
        return f"{_number_of(self.unit, self.members)} {'is' if self.members == 1 else 'are'} added or removed"

    @property
    def description(self) -> str:
        """The pairs of neighbours as a noun phrase that completes the sentence "Neighbouring datasets are ..."."""
        differing = _number_of(self.unit, self.members)
        return f"datasets that differ by the addition or removal of {differing} ({_name('add/remove', self.members)})"

    def group(self, size: int) -> "AddRemove":
        """The relation that allows `size` times as many units to be added or removed."""
        return AddRemove(unit=self.unit, members=self.members * positive_integer(size=size))


@frozen_value
class ReplaceOne(Relation):
    """One of `n` units is replaced by another; `n` is public.

    Parameters
    ----------
    n : int
        Number of units in either dataset, >= 1.
    unit : str, default "record"
        Name of the protected unit, such as "record" or "household".
    members : int, default 1
        Largest number of units in which two neighbours differ, >= 1; above 1 for groups. Values above `n` become `n`.

    Raises
    ------
    TypeError
        If `unit` is not a non-empty string, or `n` or `members` not a number.
    ValueError
        If `n` or `members` is not a whole number >= 1.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.ReplaceOne(n=100).change
    'one record is replaced by another'
    """

    n: int = field(kw_only=False)
    unit: str = "record"
    members: int = 1

    def __post_init__(self) -> None:
        n = positive_integer(n=self.n)
        set_fields(self, n=n, unit=_text(self.unit), members=min(positive_integer(members=self.members), n))

    @property
    def change(self) -> str:
        """What differs between two neighbours, as a clause."""
        if self.members > 1:
            return f"{_number_of(self.unit, self.members)} are replaced by others"
        return f"one {self.unit} is replaced by another"

    @property
    def description(self) -> str:
        """The pairs of neighbours as a noun phrase that completes the sentence "Neighbouring datasets are ..."."""
        size, differing = count_noun(self.n, self.unit), _number_of(self.unit, self.members)
        return f"datasets of {size} that differ in {differing} ({_name('replace-one', self.members)})"

    def group(self, size: int) -> "ReplaceOne":
        """The relation that allows `size` times as many units to be replaced, at most all `n`."""
        return ReplaceOne(n=self.n, unit=self.unit, members=self.members * positive_integer(size=size))


def check_single_record_relation(relation: object) -> AddRemove | ReplaceOne:
    """Check that `relation` is AddRemove or ReplaceOne with one differing record, and return it. Raises ValueError."""
    if not isinstance(relation, (AddRemove, ReplaceOne)):
        raise ValueError(f"relation must be ReplaceOne or AddRemove, got {relation}")
    if relation.members > 1:
        k = relation.members
        raise ValueError(f"relation must be about one record, got members = {k}; use accountant.group({k}) for groups")
    return relation


class Confusable(Sized, Protocol):
    """The part of `ProfileGraph` that `ProfileEdge` needs."""

    @property
    def edges(self) -> Sequence[tuple[str | int, str | int]]:
        """The pairs of names of profiles that must be indistinguishable."""

    @property
    def ends(self) -> NDArray[np.int64]:
        """The indices of the profiles of each edge, shape (edges, 2)."""

    def within(self, distance: int) -> Self:
        """The graph with an edge between any two profiles at most `distance` edges apart."""


@frozen_value
class ProfileEdge(Relation):
    """The source of an observation changes from one profile to another profile that shares an edge with it.

    The relation protects which profile an observation comes from, not the observation itself: the neighbour draws its
    observation anew from the other profile (profile-based privacy).

    Parameters
    ----------
    graph : ProfileGraph
        The public profiles, and the edges between profiles that must be indistinguishable.

    Raises
    ------
    TypeError
        If `graph` is not a ProfileGraph.

    Examples
    --------
    >>> import privsample as ps
    >>> graph = ps.ProfileGraph(profiles={"a": 0.8, "b": 0.4}, edges=[("a", "b")])
    >>> ps.ProfileEdge(graph=graph).change
    'one profile is exchanged for another that an edge joins to it'
    """

    graph: Confusable = field(kw_only=False)

    def __post_init__(self) -> None:
        if not callable(getattr(self.graph, "within", None)):
            raise TypeError(f"graph must be a ProfileGraph, got {type(self.graph).__name__}")

    @property
    def change(self) -> str:
        """What differs between two neighbours, as a clause."""
        return "one profile is exchanged for another that an edge joins to it"

    @property
    def description(self) -> str:
        """The pairs of neighbours as a noun phrase that completes the sentence "Neighbouring datasets are ..."."""
        size = f"{count_noun(len(self.graph), 'profile')} with {count_noun(len(self.graph.edges), 'edge')}"
        return f"observations from two profiles that an edge joins ({size})"

    def group(self, size: int) -> "ProfileEdge":
        """The relation that compares profiles at most `size` edges apart."""
        return ProfileEdge(graph=self.graph.within(positive_integer(size=size)))
