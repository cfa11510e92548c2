"""Accountants: what a release costs, as views of its loss pairs or of its Renyi curve."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray, Real, deltas, real_array, renyi_orders
from privsample._logspace import LEAST_LOSS, half_square
from privsample._serial import decode, encode
from privsample._value import value
from privsample.accounting.assumptions import Assumption
from privsample.accounting.curves.conversion import epsilon_from_renyi, least_epsilon, log_delta_from_renyi, safe_side
from privsample.accounting.loss import LossPair, worst_log_delta, worst_renyi
from privsample.accounting.posterior.beta import beta_log_delta
from privsample.accounting.posterior.family import BetaFamily
from privsample.errors import RelationMismatch
from privsample.relations import AddRemove, ProfileEdge, Relation, ReplaceOne

if TYPE_CHECKING:
    from privsample.accounting.composition.composed import Composed, Parallel

Kind = Literal["exact", "upper bound"]
View = Literal["rdp", "delta", "epsilon"]
_LEAST_COST = LEAST_LOSS * LEAST_LOSS / 8


@value
class Route:
    """One valid way to a number: its name and the epsilon it gives at the delta asked for."""

    name: str
    epsilon: float
    kind: Kind


class Accountant(ABC):
    """The cost of one release, fixed before any data are seen.

    Every view is valid on its own; `rdp`, `delta` and `epsilon` never go below the truth. Numbers are in nats.
    """

    __slots__ = ()
    relation: Relation
    assumptions: frozenset[Assumption]

    def __new__(cls, **fields: Any) -> Self:
        """Checks what all accounts have, before their own checks. Raises: TypeError."""
        stated = fields.get("assumptions", frozenset())
        if not (isinstance(stated, frozenset) and all(isinstance(one, Assumption) for one in stated)):
            raise TypeError(f"assumptions must be a frozenset of Assumption's members, got {stated!r}")
        return super().__new__(cls)

    @property
    @abstractmethod
    def source(self) -> str:
        """Author, year and theorem that the numbers rest on."""

    @property
    def pairs(self) -> tuple[LossPair, ...]:
        """Ordered pairs that together dominate every pair of neighbours; empty where only a Renyi curve is known."""
        return ()

    @property
    def directions(self) -> tuple[tuple[LossPair, ...], ...]:
        """`pairs` in groups for composition: two accounts can be worst for the same neighbours only in the same group.

        One group where a pair may stand for either order of the neighbours; accounts under AddRemove that tell removal
        from addition give two, in this order.
        """
        return (self.pairs,) if self.pairs else ()

    @property
    def _each(self) -> "tuple[Accountant, int]":
        """An account and how often it is charged, together no less than this one: for compositions that are dear."""
        return self, 1

    @property
    def failure(self) -> float:
        """Probability with which nothing at all is promised, beside which the Renyi curve holds."""
        return 0.0

    @property
    def order_limit(self) -> float:
        """`rdp` is finite below it and +inf at and above it."""
        return 1.0 if self.failure > 0 else self._renyi_limit

    @property
    def _renyi_limit(self) -> float:
        """The limit of the curve beside `failure`."""
        return min((pair.order_limit for pair in self.pairs), default=np.inf)

    @property
    def max_loss(self) -> float:
        """The pure guarantee: epsilon at delta = `failure`; +inf where there is none."""
        return max((pair.max_loss for pair in self.pairs), default=np.inf)

    @property
    def zcdp(self) -> float:
        """The least rho known with rdp(a) <= rho a at every order; +inf where there is none (Bun and Steinke 2016)."""
        return half_square(self.max_loss) if self.failure == 0.0 else np.inf

    def kind(self, view: View) -> Kind:
        """Whether a view is exact (for the worst pair of neighbours, up to rounding upwards) or an upper bound."""
        if view not in ("rdp", "delta", "epsilon"):
            raise ValueError(f"view must be 'rdp', 'delta' or 'epsilon', got {view!r}")
        return self._kind(view)

    def _kind(self, view: View) -> Kind:
        return "exact" if view == "rdp" or self._has_curve else "upper bound"

    def _renyi(self, orders: FloatArray) -> FloatArray:
        """The Renyi curve beside `failure`; orders already checked."""
        return worst_renyi(self.pairs, orders)

    def _log_curve(self, epsilon: Real) -> FloatArray:
        """log of the privacy curve, certified over `family`; +inf where no loss pair is known."""
        e, draft, family = np.asarray(epsilon, dtype=np.float64), self._log_curve_draft(epsilon), self.family
        if family is None:
            return draft
        return family.log_delta(e.ravel(), np.ravel(draft), self._family_curve).reshape(e.shape)

    def _log_curve_draft(self, epsilon: Real) -> FloatArray:
        """log of the privacy curve of the loss pairs alone: it guides a search whose answer `_log_curve` checks."""
        if not self.pairs:
            return np.full(np.shape(epsilon), np.inf)
        slack = self.family.slack if self.family else 0.0
        return np.minimum(worst_log_delta(self.pairs, np.asarray(epsilon)) + slack, 0.0)

    @property
    def family(self) -> BetaFamily | None:
        """Further pairs that the privacy curve has to range over; None where `pairs` are proven to be the worst."""
        return None

    def _family_curve(self, a: FloatArray, b: FloatArray, step: Real, epsilon: FloatArray) -> FloatArray:
        """The privacy curve that one pair of the family, Beta(a + step, b) against Beta(a, b + step), gives."""
        return beta_log_delta(a, b, step, epsilon)

    @property
    def _has_curve(self) -> bool:
        return bool(self.pairs)

    @property
    def _adds_by_curve(self) -> bool:
        """Whether compositions use the privacy curve; without, or where it is too dear, Renyi curves are added."""
        return self._has_curve

    @property
    def _one_curve(self) -> bool:
        """Whether `epsilon` and `delta` read one curve; on a lattice each is rounded up by itself."""
        return True

    @property
    def _curve_name(self) -> str:
        return "privacy curve"

    @property
    def _curve_is_least(self) -> bool:
        """Whether the Renyi curve never gives less than the privacy curve; else every view takes the lesser."""
        return self._has_curve

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Renyi differential privacy in nats: sup over neighbours, both directions.

        Parameters: orders, any shape, finite and > 1. Returns: same shape; +inf at and above `order_limit`.
        Raises: ValueError, for an order that is NaN, infinite or <= 1.
        """
        alpha = renyi_orders(orders)
        if self.failure > 0:
            return np.full(alpha.shape, np.inf)[()]
        found = self._renyi(alpha)
        lost = found < _LEAST_COST  # where squares of losses vanish in a double
        return np.where(lost, np.minimum(self.zcdp * alpha, _LEAST_COST), found)[()] if lost.any() else found[()]

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """log of `delta(epsilon)`: tells values apart that are too small for a float."""
        e = np.clip(real_array(epsilon=epsilon), -1e300, 1e300)  # as good as infinite
        result = self._log_curve(e)
        if not self._curve_is_least:
            by_order = np.array([log_delta_from_renyi(self._renyi, self._renyi_limit, float(x)) for x in e.ravel()])
            result = np.minimum(result, self._beside_failure(by_order.reshape(e.shape), e))
        return np.minimum(result, 0.0)[()]

    def _beside_failure(self, log_delta: FloatArray, epsilon: FloatArray) -> FloatArray:
        """failure + (1 - failure) delta, where delta is zero from `max_loss` on."""
        with np.errstate(divide="ignore"):
            own, rest = np.log(self.failure), np.log1p(-self.failure)
        return np.logaddexp(own, rest + np.where(epsilon >= self.max_loss, -np.inf, log_delta))

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """The privacy curve: the least delta at epsilon over all valid routes, rounded up.

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
        least = [max(min(route.epsilon for route in self._routes(float(x))), 0.0) + 0.0 for x in d.ravel()]
        return np.array(least).reshape(d.shape)[()]

    def explain(self, delta: float) -> tuple[Route, ...]:
        """Every valid route to epsilon at this delta, the best first."""
        return tuple(sorted(self._routes(float(deltas(delta)), every=True), key=lambda route: route.epsilon))

    def _routes(self, delta: float, *, every: bool = False) -> list[Route]:
        pure = self.max_loss if delta >= self.failure else np.inf
        routes = [Route(name="pure guarantee", epsilon=pure, kind="exact")]
        if delta > self.failure:
            if self._has_curve:
                epsilon = self._curve_epsilon(delta)
                routes.append(Route(name=self._curve_name, epsilon=epsilon, kind=self.kind("epsilon")))
            if every or not self._curve_is_least:
                beside = np.log(delta - self.failure) - np.log1p(-self.failure)
                epsilon = epsilon_from_renyi(self._renyi, self._renyi_limit, beside)
                routes.append(Route(name="Renyi curve at its best order", epsilon=epsilon, kind="upper bound"))
        return routes

    def _curve_epsilon(self, delta: float) -> float:
        goal, family = float(np.log(delta)), self.family
        least, beside = 0.0, goal - (family.slack if family else 0.0)
        for pair in self.pairs:  # most often the first decides
            if least == 0.0 or (least < np.inf and not pair.log_delta(np.array([least]))[0] <= beside):
                least = max(pair.least_epsilon(beside), least)
        if family is None and self.pairs:
            return least
        if least == 0.0:
            return least_epsilon(self._log_curve, self._log_curve_draft, goal)
        return safe_side(lambda e: bool(self._log_curve(np.array([e]))[0] <= goal), least, upward=True)

    def group(self, size: int) -> "Accountant":
        """The guarantee for groups of `size` units; accountants that know their mechanism do better than this one.

        Source: Mironov 2017, Proposition 11; Balle, Barthe and Gaboardi 2018, section 2 (group profile).
        """
        from privsample.accounting.group import Group

        return Group(base=self, size=size)

    def to(self, relation: Relation) -> "Accountant":
        """The guarantee under another relation: ReplaceOne(n) from AddRemove, as a group of two.

        Raises: RelationMismatch, where no such step is known.
        """
        if relation == self.relation:
            return self
        mine = self.relation
        if isinstance(mine, AddRemove) and isinstance(relation, ReplaceOne) and same_units(mine, relation):
            return self.group(2)._under(relation)
        raise RelationMismatch(
            f"no step is known from {mine} to {relation}; only AddRemove goes to ReplaceOne, with the same unit"
        )

    def _under(self, relation: Relation) -> Self:
        return replace(self, relation=relation)  # type: ignore[type-var]

    def assuming(self, *more: Assumption) -> Self:
        """The same account with further assumptions."""
        return replace(self, assumptions=self.assumptions | frozenset(more))  # type: ignore[type-var]

    def __add__(self, other: object) -> "Composed":
        from privsample.accounting.composition.composed import Composed

        if not isinstance(other, Accountant):
            return NotImplemented
        return Composed(entries=((self, 1), (other, 1)))

    def __radd__(self, other: object) -> "Composed":
        from privsample.accounting.composition.composed import Composed

        return Composed(entries=((self, 1),)) if other == 0 else NotImplemented  # sum() starts at 0

    def __mul__(self, times: int) -> "Composed":
        from privsample.accounting.composition.composed import Composed

        return Composed(entries=((self, times),))

    __rmul__ = __mul__

    def __or__(self, other: object) -> "Parallel":
        from privsample.accounting.composition.composed import Parallel

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
