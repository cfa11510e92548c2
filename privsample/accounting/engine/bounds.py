"""What an account knows of the privacy loss: the one answer from which the engine computes every view."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from privsample._checks import FloatArray, number
from privsample._logspace import half_square
from privsample.accounting.curves.conversion import Curve
from privsample.accounting.loss.pair import Envelope, LossPair, worst_renyi

Kind = Literal["exact", "upper bound"]
View = Literal["rdp", "delta", "epsilon"]
VIEWS: frozenset[View] = frozenset({"rdp", "delta", "epsilon"})
_CONVERSION, _CALL = 80, 10.0  # orders that one conversion tries, and what asking for one order costs at least
Directions = tuple[tuple[LossPair, ...], ...]


@dataclass(frozen=True, slots=True)
class CurveBound:
    """An upper bound on the privacy curve, named by how it is derived.

    Parameters
    ----------
    name
        Shown by `Accountant.explain`.
    log_delta
        `(epsilon, needed) -> log delta` at one epsilon >= 0, in either direction of the relation, rounded up. Values
        below `needed` need not be resolved: any valid value below it will do. `-inf` asks for the best value.
    """

    name: str
    log_delta: Callable[[float, float], float]


@dataclass(frozen=True, slots=True)
class RenyiBound:
    """An upper bound on the Rényi divergence conditional on no failure, named by how it is derived.

    Parameters
    ----------
    name
        Shown by `Accountant.explain`.
    renyi
        Orders, any shape, > 1 and below the order limit, to nats.
    explained_only
        True where another listed bound is never above this one: it then appears in `explain` and is skipped elsewhere.
    """

    name: str
    renyi: Curve
    explained_only: bool = False


@dataclass(frozen=True, slots=True)
class RenyiTable:
    """A Rényi bound that is computed at a few orders only, because each value is expensive.

    Parameters
    ----------
    name
        Shown by `Accountant.explain`.
    table
        Returns orders and divergences (nats, conditional on no failure), both of shape (orders,).
    """

    name: str
    table: Callable[[], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrivacyBounds:
    """Everything that an account knows about the privacy loss between neighbouring datasets.

    Where several bounds are known they are listed, and every view is the least of them. Make one with `from_pairs` or
    `from_renyi`, which fill in what follows from the pairs or from the curve.

    Parameters
    ----------
    directions
        Dominating pairs. One group where a pair may stand for either order of the neighbours; under AddRemove, when
        removal and addition are told apart, two groups in this order. Two accounts can be worst for the same
        neighbours only in the same group, so composition multiplies pairs within a group. Empty where only a Rényi
        curve is known.
    renyi
        Rényi curve conditional on no failure: orders, any shape, > 1, to nats. +inf from `order_limit` on.
    order_limit
        `renyi` is finite below it.
    infinity_mass
        Probability mass of infinite privacy loss, in [0, 1). The Rényi curve and the pure guarantee hold conditional on
        that event not happening.
    pure_epsilon
        Max divergence conditional on no failure, in nats; +inf where there is no pure guarantee.
    zcdp
        The least rho known with renyi(a) <= rho a at every order; +inf where there is none (Bun and Steinke 2016).
    exact
        The views that are attained by some pair of neighbours, up to rounding; the others are upper bounds.
    curve_bounds, renyi_bounds, renyi_tables
        Further bounds, by name. They are used in every view where there are no pairs; beside pairs
        they are listed by `explain` only. Compositions do not use them.
    curve_is_least
        True where no conversion of the Rényi curve can be below the privacy curve.
    composes_by_pairs
        False where one value of the pairs' privacy curve is so expensive that compositions add Rényi curves instead.
    inverts_exactly
        True if `epsilon` inverts `delta` exactly; numerical composition rounds each of the two up separately.
    curve_name
        How the privacy curve is computed, for `explain`.
    per_release
        A cheaper account and a multiplicity whose composition upper-bounds this one; used where exact composition is
        expensive.
    parts
        Parallel composition: every view is the largest of these bounds' views.
    own_curve_cost, own_renyi_cost
        About how long one value of `curve_bounds`, all together, and of `renyi` takes, in values of a closed form.
        By default what the pairs' curves cost.
    tabulated
        Whether tables stand in for curves that these bounds rest on, because exact values are too expensive.
    tabulated_renyi, tabulated_renyi_cost
        A Rényi curve never below `renyi` that is affordable where that is not, and its cost; None where only a table of
        `renyi` is.
    """

    directions: Directions = ()
    renyi: Curve
    order_limit: float
    infinity_mass: float = 0.0
    pure_epsilon: float
    zcdp: float
    exact: frozenset[View] = frozenset()
    curve_bounds: tuple[CurveBound, ...] = ()
    renyi_bounds: tuple[RenyiBound, ...] = ()
    renyi_tables: tuple[RenyiTable, ...] = ()
    curve_is_least: bool = True
    composes_by_pairs: bool = True
    inverts_exactly: bool = True
    curve_name: str = "privacy curve"
    per_release: "tuple[PrivacyBounds, int] | None" = None
    parts: "tuple[PrivacyBounds, ...]" = ()
    own_curve_cost: float | None = None
    own_renyi_cost: float | None = None
    tabulated: bool = False
    tabulated_renyi: Curve | None = None
    tabulated_renyi_cost: float = 1.0
    memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    pairs: tuple[LossPair, ...] = field(init=False)

    def __post_init__(self) -> None:
        given: Any = self.directions
        if not (isinstance(given, tuple) and all(isinstance(group, tuple) for group in given)):
            raise TypeError(f"directions must be a tuple of tuples of LossPair, got {self.directions!r}")
        for name in ("order_limit", "infinity_mass", "pure_epsilon", "zcdp"):
            number(**{name: getattr(self, name)})
        pairs = tuple(itertools.chain.from_iterable(self.directions))
        if len(self.directions) > 2 or not all(self.directions) or not all(isinstance(p, LossPair) for p in pairs):
            raise ValueError(f"directions must be at most two groups of LossPair, none empty, got {self.directions!r}")
        if not 0.0 <= self.infinity_mass <= 1.0:  # one: what a long composition rounds to
            raise ValueError(f"infinity_mass must lie in [0, 1], got {self.infinity_mass!r}")
        if not self.order_limit >= 1.0:
            raise ValueError(f"order_limit must be at least 1, got {self.order_limit!r}")
        if not (self.pure_epsilon >= 0.0 and self.zcdp >= 0.0):
            raise ValueError(f"pure_epsilon and zcdp must be >= 0, got {self.pure_epsilon!r} and {self.zcdp!r}")
        exact: Any = self.exact
        if not (isinstance(exact, frozenset) and exact <= VIEWS):
            raise ValueError(f"exact must be a frozenset of 'rdp', 'delta' and 'epsilon', got {self.exact!r}")
        object.__setattr__(self, "pairs", pairs)

    @classmethod
    def from_pairs(cls, *groups: Sequence[LossPair], **known: Any) -> Self:
        """Bounds by dominating pairs, one group for each direction of the relation that is told apart.

        Parameters
        ----------
        groups
            As `directions`; at least one pair in all.
        known
            Any other field, where it is better known than from the pairs. Without: the Rényi curve is the largest of
            the pairs', the pure guarantee their largest max divergence, zCDP what the pure guarantee implies, and
            every view is exact.

        Examples
        --------
        >>> from privsample.accounting.loss.laplace import LaplacePair
        >>> PrivacyBounds.from_pairs([LaplacePair(shift=0.5)]).pure_epsilon
        0.5
        """
        given: Any = groups
        if not given or not all(isinstance(group, Sequence) and len(group) for group in given):
            raise ValueError(
                f"groups must be sequences of at least one LossPair, as in from_pairs([pair]), got {groups!r}"
            )
        directions = tuple(map(tuple, groups))
        pairs = tuple(itertools.chain.from_iterable(directions))
        if not all(isinstance(pair, LossPair) for pair in pairs):
            raise TypeError(f"groups must hold values of LossPair, got {groups!r}")
        pure = known.get("pure_epsilon", max([pair.max_loss for pair in pairs]))
        filled: dict[str, Any] = {
            "renyi": lambda orders: worst_renyi(pairs, orders),
            "order_limit": min([pair.order_limit for pair in pairs]),
            "pure_epsilon": pure,
            "zcdp": half_square(pure) if known.get("infinity_mass", 0.0) == 0.0 else np.inf,
            "exact": VIEWS,
        }
        return cls(directions=directions, **filled | known)

    @classmethod
    def from_renyi(cls, renyi: Curve, **known: Any) -> Self:
        """Bounds of which only a Rényi curve is known.

        Parameters
        ----------
        renyi
            As the field of this name.
        known
            Any other field. Without: no order limit, no pure guarantee, and the Rényi curve is exact.

        Examples
        --------
        >>> PrivacyBounds.from_renyi(lambda orders: 0.5 * orders, zcdp=0.5).infinity_mass
        0.0
        """
        pure = known.get("pure_epsilon", np.inf)
        filled: dict[str, Any] = {
            "order_limit": np.inf,
            "pure_epsilon": pure,
            "zcdp": half_square(pure) if known.get("infinity_mass", 0.0) == 0.0 else np.inf,
            "exact": frozenset({"rdp"}),
            "curve_is_least": False,
        }
        return cls(renyi=renyi, **filled | known)

    @property
    def has_curve(self) -> bool:
        """Whether a privacy curve is known beside what the Rényi curve implies."""
        return bool(self.pairs or self.curve_bounds)

    @property
    def renyi_cost(self) -> float:
        """About how long one value of the Rényi curve takes, in values of a closed form; see `LossPair.curve_cost`."""
        if self.own_renyi_cost is not None:
            return self.own_renyi_cost
        return sum([pair.renyi_cost for pair in self.pairs]) or 0.2

    @property
    def curve_cost(self) -> float:
        """About how long one value of the privacy curve takes, conversions of the Rényi curve included."""
        if self.parts:
            return sum(part.curve_cost for part in self.parts)
        found = sum([pair.curve_cost for pair in self.pairs])
        if self.curve_bounds and not self.pairs:
            found = _CALL * len(self.curve_bounds) if self.own_curve_cost is None else self.own_curve_cost
        if not self.pairs or not self.curve_is_least:
            found += _CONVERSION * (_CALL + self.renyi_cost)
        return found

    @property
    def from_table(self) -> bool:
        """Whether a table stands in for a curve that these bounds rest on."""
        return self.tabulated or any(pair.from_table for pair in self.pairs)

    @property
    def single_pairs(self) -> tuple[LossPair, ...] | None:
        """The one pair of each direction, where each has one that is no envelope; else None."""
        if not self.pairs or any(len(group) != 1 or isinstance(group[0], Envelope) for group in self.directions):
            return None
        return self.pairs

    def kind(self, view: View) -> Kind:
        """Whether a view is exact or an upper bound."""
        return "exact" if view in self.exact else "upper bound"
