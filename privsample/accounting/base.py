"""The contract: an account is one value. Its bounds say what is known of the privacy loss; the engine does the rest."""

import inspect
import itertools
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import (
    FloatArray,
    count_noun,
    deltas,
    flag,
    listed,
    one_of,
    positive_integer,
    probability,
    real_array,
    renyi_orders,
)
from privsample._serial import decode, encode
from privsample._value import Memo, cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.engine import views
from privsample.accounting.engine.bounds import VIEWS, Kind, PrivacyBounds, View
from privsample.accounting.engine.compose import compose, side_by_side
from privsample.accounting.engine.group import group
from privsample.accounting.engine.routes import Route, affordable, routes
from privsample.accounting.engine.tables import within_budget
from privsample.accounting.loss.pair import Envelope, LossPair
from privsample.errors import NumericalFailure, RelationMismatch
from privsample.relations import AddRemove, ProfileEdge, Relation, ReplaceOne, related

_FEW, _ONE_GRID = 4.0, 0.5  # values that are affordable as they are, where one of the curve may serve many


class _FieldsSignature:
    """Signature of an account class for `help` and the reference: that of `__init__`, with all fields and defaults.

    Without it, documentation tools show the signature of `Accountant.__new__`, which accepts any field.
    """

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        if "__init__" not in vars(owner):  # an abstract class without fields
            return inspect.Signature()
        signature = inspect.signature(vars(owner)["__init__"])
        return signature.replace(parameters=list(signature.parameters.values())[1:])


class Accountant(Memo, ABC):
    """The cost of one release, fixed before any data are seen: one value that answers one question, `bounds`.

    Every view is valid on its own; `rdp`, `delta` and `epsilon` never go below the truth. Numbers are in nats.

    A subclass is a frozen dataclass with the fields `relation` and `assumptions`. It says where its numbers come from
    (`source`) and has four hooks, of which only the first must be given:

    - `_bounds()`: what is known of the privacy loss; computed once and kept in the value.
    - `group(size)`: the guarantee for groups, where the mechanism is known to do better than the general bound.
    - `with_relation(relation)`: the same numbers under another relation, for accounts that hold other accounts.
    - `for_sizes(low, high)`: an account of the same mechanism that holds for every number of records in a range, so
      that it can run on Poisson samples of a public number of records.
    """

    __slots__ = ()
    relation: Relation
    assumptions: frozenset[Assumption]

    __signature__ = _FieldsSignature()

    def __new__(cls, *positional: Any, **fields: Any) -> Self:
        """Check the arguments that all accounts have in common, before the checks of the class. Raises TypeError."""
        if positional:
            raise TypeError(
                f"{cls.__name__} takes keyword arguments only, got {count_noun(len(positional), 'positional argument')}"
            )
        stated = fields.get("assumptions", frozenset())
        if not (isinstance(stated, frozenset) and all(isinstance(one, Assumption) for one in stated)):
            raise TypeError(f"assumptions must be a frozenset of Assumption's members, got {stated!r}")
        return super().__new__(cls)

    @property
    @abstractmethod
    def source(self) -> str:
        """Author, year and theorem that the numbers rest on."""

    @abstractmethod
    def _bounds(self) -> PrivacyBounds:
        """What is known of the privacy loss between neighbours, from the fields alone.

        `PrivacyBounds.from_pairs` for dominating pairs, `PrivacyBounds.from_renyi` for a Rényi curve.
        """

    @cached
    def bounds(self) -> PrivacyBounds:
        """Everything that this account knows of the privacy loss; every view and combination is computed from it."""
        found = self._bounds()
        if not isinstance(found, PrivacyBounds):
            raise TypeError(f"{type(self).__name__}._bounds must return PrivacyBounds, got {type(found).__name__}")
        return found

    @property
    def pairs(self) -> tuple[LossPair, ...]:
        """Ordered pairs that together dominate every pair of neighbours; empty where none are known one by one."""
        found = ((pair.members if isinstance(pair, Envelope) else (pair,)) for pair in self.bounds.pairs)
        return tuple(itertools.chain.from_iterable(found))

    @property
    def infinity_mass(self) -> float:
        """Probability mass of infinite privacy loss. The Rényi curve holds conditional on that event not happening."""
        return self.bounds.infinity_mass

    @property
    def order_limit(self) -> float:
        """`rdp` is finite below it and +inf at and above it."""
        return 1.0 if self.infinity_mass > 0 else self.bounds.order_limit

    @property
    def pure_epsilon(self) -> float:
        """Supremum of the privacy loss, in nats, conditional on a finite loss: epsilon at delta = `infinity_mass`.

        +inf where there is no pure guarantee.
        """
        return self.bounds.pure_epsilon

    @property
    def zcdp(self) -> float:
        """The least rho known with rdp(a) <= rho a at every order; +inf where there is none (Bun and Steinke 2016)."""
        return self.bounds.zcdp

    def kind(self, view: View) -> Kind:
        """Whether a view is exact (for the worst pair of neighbours, up to rounding upwards) or an upper bound."""
        if not one_of(view, VIEWS):
            raise ValueError(f"view must be 'rdp', 'delta' or 'epsilon', got {view!r}")
        return self.bounds.kind(view)

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Rényi differential privacy in nats: sup over neighbours, both directions.

        Parameters: orders, any shape, finite and > 1. Returns: same shape; +inf at and above `order_limit`.
        Raises: ValueError, for an order that is NaN, infinite or <= 1.
        """
        return views.rdp(within_budget(self.bounds, renyi=_FEW), renyi_orders(orders))[()]

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """log of `delta(epsilon)`: tells values apart that are too small for a float."""
        e = np.clip(real_array(epsilon=epsilon), -1e300, 1e300)  # as good as infinite
        return views.log_delta(affordable(within_budget(self.bounds, curve=_ONE_GRID)), e)[()]

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """The privacy curve, also called privacy profile: the least delta at epsilon over all routes, rounded up.

        Parameters: epsilon, any shape, any real number of nats. Returns: same shape, in [0, 1].
        Raises: ValueError, for NaN.
        """
        log_delta = self.log_delta(epsilon)
        with np.errstate(invalid="ignore"):
            lost = 4 * np.finfo(float).eps * (1.0 - log_delta)  # what exp loses of a logarithm
            rounded = np.minimum(np.nextafter(np.exp(log_delta) * (1.0 + lost), 1.0), 1.0)
        return np.where(np.isneginf(log_delta), 0.0, rounded)[()]

    def epsilon(self, delta: ArrayLike) -> FloatArray:
        """The least epsilon >= 0 at delta over all valid routes, rounded up.

        Parameters: delta in [0, 1), any shape. Returns: same shape, nats; +inf where nothing is promised at this delta.
        Raises: ValueError, for NaN, delta < 0 or delta >= 1.
        """
        d = deltas(delta)
        return np.array([self._least_epsilon(float(x)) for x in d.ravel()]).reshape(d.shape)[()]

    def _least_epsilon(self, delta: float) -> float:
        """The least over all routes, computed once for each delta."""
        known = self._known_epsilons
        if delta not in known:
            found = [route.epsilon for route in routes(self.bounds, delta)]
            if np.isnan(found).any():
                raise NumericalFailure("an epsilon came out as NaN; no guarantee is claimed")
            known[delta] = max(min(found), 0.0) + 0.0
        return known[delta]

    @cached
    def _known_epsilons(self) -> dict[float, float]:
        return {}

    def explain(self, delta: float) -> tuple[Route, ...]:
        """Every valid route to epsilon at this delta, the best first."""
        found = routes(self.bounds, probability(delta=delta), every=True)
        return tuple(sorted(found, key=lambda route: route.epsilon))

    def group(self, size: int) -> "Accountant":
        """The guarantee for groups of `size` units; accountants that know their mechanism do better than this one.

        Source: Mironov 2017, Proposition 11; Balle, Barthe and Gaboardi 2018, section 2 (group profile).
        """
        return Group(base=self, size=size)

    def with_relation(self, relation: Relation) -> "Accountant":
        """The same numbers under another relation. `relation` is not validated; use `to` for supported conversions."""
        return replace(self, relation=relation)  # type: ignore[type-var]

    def for_sizes(self, low: int, high: int) -> "Accountant":
        """An account of the same mechanism that holds for every number of records from low to high.

        Raises: TypeError, where the mechanism does not say what it costs for other numbers of records.
        """
        del low, high
        raise TypeError(
            f"{type(self).__name__} does not say what it costs for other numbers of records; "
            "WithoutReplacement(n=..., m=...) draws one number only"
        )

    def to(self, relation: Relation) -> "Accountant":
        """The guarantee under another relation: ReplaceOne(n) from AddRemove, as a group of two.

        Raises: RelationMismatch, where no such step is known.
        """
        if related(relation) == self.relation:
            return self
        mine = self.relation
        if isinstance(mine, AddRemove) and isinstance(relation, ReplaceOne) and same_units(mine, relation):
            return self.group(2).with_relation(relation)
        raise RelationMismatch(
            f"no step is known from {mine} to {relation}; only AddRemove goes to ReplaceOne, with the same unit"
        )

    def assuming(self, *more: Assumption) -> Self:
        """The same account with further assumptions."""
        if self.assumptions.issuperset(more):
            return self
        return replace(self, assumptions=self.assumptions | frozenset(more))  # type: ignore[type-var]

    def __add__(self, other: object) -> "Composed":
        return Composed(entries=((self, 1), (other, 1))) if isinstance(other, Accountant) else NotImplemented

    def __radd__(self, other: object) -> "Composed":
        return Composed(entries=((self, 1),)) if other == 0 else NotImplemented  # sum() starts at 0

    def __mul__(self, times: int) -> "Composed":
        return Composed(entries=((self, times),))

    __rmul__ = __mul__

    def __or__(self, other: object) -> "Parallel":
        return Parallel(parts=(self, other)) if isinstance(other, Accountant) else NotImplemented

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and text, from which `from_dict` makes an equal accountant."""
        return encode(self)

    @staticmethod
    def from_dict(document: dict[str, Any]) -> "Accountant":
        """The accountant that `to_dict` wrote. Raises: ValueError, for anything else."""
        try:
            made = decode(document)
        except (AttributeError, TypeError, RecursionError, OverflowError) as error:
            raise ValueError(f"the document does not describe an accountant: {error}") from None
        if not isinstance(made, Accountant):
            raise ValueError(f"the document describes a {type(made).__name__}, not an accountant")
        return made


class SizeFreeAccountant(Accountant):
    """An account whose numbers do not depend on how many records there are."""

    __slots__ = ()

    def for_sizes(self, low: int, high: int) -> Accountant:
        """The account itself."""
        del low, high
        return self


@frozen_value
class Composed(Accountant):
    """Accounts of releases from the same records, each with how often. Rényi curves add; dominating pairs multiply.

    Valid for mechanisms fixed beforehand and, by Rényi curve, for ones chosen adaptively within fixed curves.
    Source: Mironov 2017, Proposition 1; Dong, Roth and Su 2022, Corollary 3.3 (Gaussian pairs);
    docs/notes/composition.md.
    """

    entries: tuple[tuple[Accountant, int], ...]
    assumptions: frozenset[Assumption] = frozenset()

    def __post_init__(self) -> None:
        counts: dict[Accountant, int] = {}
        for entry in listed(entries=self.entries):
            if not (isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], Accountant)):
                raise TypeError(f"entries must hold pairs (account, times), got {type(entry).__name__}")
            account, times = entry
            inner = account.entries if isinstance(account, Composed) else ((account, 1),)
            for member, own in inner:
                counts[member] = counts.get(member, 0) + own * positive_integer(times=times)
        if not counts:
            raise ValueError("entries must name at least one account")
        own_assumptions = [a.assumptions for a, _ in self.entries if isinstance(a, Composed)]
        same_relation(tuple(counts))
        if sum(counts.values()) > 1:
            composable(tuple(counts), self.assumptions)
        union = self.assumptions.union(all_assumptions(tuple(counts)), *own_assumptions)
        set_fields(self, entries=tuple(counts.items()), assumptions=union)

    @property
    def relation(self) -> Relation:  # type: ignore[override]
        """The members' relation."""
        return self.entries[0][0].relation

    @property
    def source(self) -> str:
        """The rule and the members' sources."""
        members = dict.fromkeys(account.source for account, _ in self.entries)
        return "; ".join(["Mironov 2017, Proposition 1 (composition)", *members])

    def _bounds(self) -> PrivacyBounds:
        return compose([(account.bounds, times) for account, times in self.entries])

    def group(self, size: int) -> "Composed":
        """Each member's own group guarantee, composed."""
        return replace(self, entries=tuple((account.group(size), times) for account, times in self.entries))

    def with_relation(self, relation: Relation) -> "Composed":
        """Each member's numbers under another relation."""
        return replace(self, entries=tuple((account.with_relation(relation), n) for account, n in self.entries))

    def for_sizes(self, low: int, high: int) -> Accountant:
        """Each member's, composed."""
        members = tuple((member.for_sizes(low, high), times) for member, times in self.entries)
        if members == self.entries:
            return self
        place = ReplaceOne(n=high)  # one for all: only their curves are used
        return replace(self, entries=tuple((Group(base=own, size=1, relation=place), times) for own, times in members))


@frozen_value
class Parallel(Accountant):
    """Accounts of releases from disjoint parts of the records: the worst of the parts at every order and epsilon.

    Under AddRemove a record lies in one part, wherever its contents put it. Under ReplaceOne the parts must be fixed by
    public positions (assumption FIXED_PARTS); a record that can move between parts touches two: account for that
    with AddRemove parts and `.to(ReplaceOne(n=...))`: the worse of two parts added and one part's group of two.
    Under ProfileEdge the parts come from independent choices of a profile (assumption INDEPENDENT_PROFILES;
    Geumlek 2020, Observation 9). Source: McSherry 2009, Theorem 4; docs/notes/composition.md.
    """

    parts: tuple[Accountant, ...]
    assumptions: frozenset[Assumption] = frozenset()
    moved: bool = False

    def __post_init__(self) -> None:
        set_fields(self, moved=flag(moved=self.moved), parts=listed(parts=self.parts))
        for part in self.parts:
            checked_account(parts=part)
        flat = [p.parts if isinstance(p, Parallel) and not p.moved else (p,) for p in self.parts]
        parts = tuple(part for group in flat for part in group)
        if not parts:
            raise ValueError("parts must name at least one account")
        if not self.moved and any(getattr(part.relation, "members", 1) > 1 for part in parts):
            raise RelationMismatch(
                "members of a group may lie in several parts: put single accounts side by side, then .group"
            )
        more: frozenset[Assumption] = frozenset()
        if all(isinstance(part.relation, ReplaceOne) for part in parts) and not self.moved:
            more = frozenset({Assumption.FIXED_PARTS})
            units = {str(getattr(part.relation, "unit", "")) for part in parts}
            if len(units) != 1:
                raise RelationMismatch(f"parts must protect one unit, got {sorted(units)}")
        elif isinstance(same_relation(parts), ProfileEdge):
            more = frozenset({Assumption.INDEPENDENT_PROFILES})
        set_fields(self, parts=parts, assumptions=self.assumptions.union(all_assumptions(parts), more))

    @property
    def _kinds(self) -> tuple[Accountant, ...]:
        """The parts that differ."""
        return tuple(dict.fromkeys(self.parts))

    @property
    def relation(self) -> Relation:  # type: ignore[override]
        """The parts' relation; under ReplaceOne their sizes add up."""
        first = self.parts[0].relation
        if isinstance(first, ReplaceOne) and not self.moved:
            sizes = [part.relation.n for part in self.parts if isinstance(part.relation, ReplaceOne)]
            return ReplaceOne(n=sum(sizes), unit=first.unit)
        return first

    @property
    def source(self) -> str:
        """The rule and the parts' sources."""
        members = dict.fromkeys(part.source for part in self.parts)
        return "; ".join(["McSherry 2009, Theorem 4 (parallel composition)", *members])

    def _bounds(self) -> PrivacyBounds:
        return side_by_side([part.bounds for part in self._kinds])

    def with_relation(self, relation: Relation) -> "Parallel":
        """Each part's numbers under another relation."""
        return replace(self, parts=tuple(part.with_relation(relation) for part in self.parts), moved=True)

    def to(self, relation: Relation) -> Accountant:
        """ReplaceOne(n) from AddRemove: a replaced record leaves one part and enters another, or the same."""
        mine = self.relation
        if not (isinstance(mine, AddRemove) and isinstance(relation, ReplaceOne) and same_units(mine, relation)):
            return Accountant.to(self, relation)
        kinds = self._kinds
        twice = [(part, part) for part in kinds if self.parts.count(part) > 1]
        within = [part.to(relation) for part in kinds]
        between = [(one + other).with_relation(relation) for one, other in [*itertools.combinations(kinds, 2), *twice]]
        return Parallel(parts=(*within, *between), assumptions=self.assumptions, moved=True)

    def group(self, size: int) -> Accountant:
        """Members of a group may lie in different parts: the general bound."""
        return Accountant.group(self, size)


@frozen_value
class Group(Accountant):
    """`base` for groups of `size`: of any account, from its bounds alone. Kind: upper bound.

    `relation` is not validated; use `Accountant.to` for supported conversions.
    Source: Mironov 2017, Proposition 11; Balle, Barthe and Gaboardi 2018, section 2; Kairouz, Oh and Viswanath 2015,
    Theorem 2; docs/notes/composition.md.
    """

    base: Accountant
    size: int
    relation: Relation | None = None  # type: ignore[assignment]
    assumptions: frozenset[Assumption] = frozenset()

    def __post_init__(self) -> None:
        size = positive_integer(size=self.size)
        checked_account(base=self.base)
        if self.relation is None:
            set_fields(self, relation=self.base.relation.group(size))
        if isinstance(self.base.relation, ReplaceOne):
            size = min(size, self.base.relation.n)
        set_fields(self, size=size, assumptions=self.assumptions | self.base.assumptions)

    @property
    def source(self) -> str:
        """The rule and the base's source."""
        return f"Mironov 2017, Proposition 11 (group privacy); {self.base.source}"

    def _bounds(self) -> PrivacyBounds:
        return group(self.base.bounds, self.size)

    def for_sizes(self, low: int, high: int) -> Accountant:
        """The base's, for groups."""
        return replace(self, base=self.base.for_sizes(low, high))


def checked_account(**named: Any) -> Accountant:
    """The account. Raises: TypeError, for anything else."""
    ((name, item),) = named.items()
    if not isinstance(item, Accountant):
        raise TypeError(f"{name} must be an accountant (mechanism.accountant), got {type(item).__name__}")
    return item


def same_relation(members: "tuple[Accountant, ...]") -> Relation:
    """The relation that all members share. Raises: RelationMismatch."""
    relations = {member.relation for member in members}
    if len(relations) != 1:
        names = ", ".join(sorted(map(str, relations)))
        raise RelationMismatch(f"only guarantees under one relation can be put together, got {names}; see .to(...)")
    return relations.pop()


def same_units(one: AddRemove, other: ReplaceOne) -> bool:
    """Whether both protect as many units of one kind."""
    return (one.unit, one.members) == (other.unit, other.members)


def all_assumptions(members: "tuple[Accountant, ...]") -> frozenset[Assumption]:
    """The union of what the members assume."""
    return frozenset().union(*(member.assumptions for member in members))


def composable(members: "tuple[Accountant, ...]", stated: frozenset[Assumption] = frozenset()) -> None:
    """Refuse to add accounts under ProfileEdge unless their observations were stated to be independent.

    Raises: ValueError. Source: Geumlek 2020, Observations 8 and 13.
    """
    needed = Assumption.INDEPENDENT_OBSERVATIONS
    for member in members:
        # what is put together carries the assumptions of any one part: each part has to carry this one
        inner = [account for account, _ in getattr(member, "entries", ())]
        composable((*inner, *getattr(member, "parts", ()), *filter(None, [getattr(member, "base", None)])), stated)
        if isinstance(member.relation, ProfileEdge) and needed not in member.assumptions | stated:
            raise ValueError(
                "nothing is known about privatising one observation twice: costs under ProfileEdge add only for "
                "independent observations of one profile. Where that is so, say it: account.independent_observations("
                "k), or add accounts made by .assuming(Assumption.INDEPENDENT_OBSERVATIONS); for independent choices "
                "of profiles use a | b"
            )
