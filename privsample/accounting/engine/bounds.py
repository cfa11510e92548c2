"""The privacy bounds of an account, from which the engine computes every view (Rényi curve, delta, epsilon)."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from privsample._checks import FloatArray, number
from privsample.accounting.curves import zcdp
from privsample.accounting.curves.conversion import Curve
from privsample.accounting.loss.pair import Envelope, LossPair, worst_renyi

Kind = Literal["exact", "upper bound"]
View = Literal["rdp", "delta", "epsilon"]
VIEWS: frozenset[View] = frozenset({"rdp", "delta", "epsilon"})
_CONVERSION, _CALL = 80, 10.0  # orders evaluated by one conversion, and the least cost of evaluating one order
COMPOSED = "composed loss"  # name of the privacy curve of a composition; a route adds how it was computed
Directions = tuple[tuple[LossPair, ...], ...]


@dataclass(frozen=True, slots=True)
class CurveBound:
    """A named upper bound on the privacy curve.

    Parameters
    ----------
    name : str
        How the bound is derived; shown by `Accountant.explain`.
    log_delta : callable
        `(epsilon, needed) -> log delta` at one epsilon >= 0 (nats), valid for both directions of the relation, rounded
        up. If the result is below `needed`, any valid value below `needed` may be returned; `needed = -inf` asks for
        the smallest value.

    Examples
    --------
    >>> bound = CurveBound(name="pure guarantee", log_delta=lambda epsilon, needed: 0.0 if epsilon < 1 else -np.inf)
    >>> bound.log_delta(0.5, -np.inf)
    0.0
    """

    name: str
    log_delta: Callable[[float, float], float]


@dataclass(frozen=True, slots=True)
class RenyiBound:
    """A named upper bound on the Rényi divergence, conditional on the event of infinite loss not happening.

    Parameters
    ----------
    name : str
        How the bound is derived; shown by `Accountant.explain`.
    renyi : callable
        Maps orders (array, any shape, > 1 and below the order limit) to divergences in nats, same shape.
    explained_only : bool, default False
        True if another listed bound is at most this one at every order. The bound is then shown by `explain` and not
        evaluated elsewhere.

    Examples
    --------
    >>> float(RenyiBound(name="Gaussian", renyi=lambda orders: orders / 2).renyi(np.array(3.0)))
    1.5
    """

    name: str
    renyi: Curve
    explained_only: bool = False


@dataclass(frozen=True, slots=True)
class RenyiTable:
    """A named Rényi bound that is evaluated at a few orders only, because each value is expensive.

    Parameters
    ----------
    name : str
        How the bound is derived; shown by `Accountant.explain`.
    table : callable
        `() -> (orders, divergences)`, both arrays of shape (orders,): orders > 1, and divergences in nats conditional
        on the event of infinite loss not happening.

    Examples
    --------
    >>> orders, divergences = RenyiTable(name="search", table=lambda: (np.array([2.0]), np.array([0.5]))).table()
    >>> float(divergences[0])
    0.5
    """

    name: str
    table: Callable[[], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrivacyBounds:
    """All upper bounds that an account knows on the privacy loss between neighbouring datasets.

    If several bounds are known, every view is their minimum. Construct an object with `from_pairs` or `from_renyi`,
    which derive the remaining fields from the pairs or from the curve.

    Parameters
    ----------
    directions : tuple of tuples of LossPair, default ()
        Dominating pairs, in groups by direction of the relation. One group if each pair may apply to either order of
        the neighbours; two groups (remove, add) if the directions are known apart. Two accounts can be worst for the
        same neighbours only in the same direction, so composition multiplies pairs within a group. Empty if only a
        Rényi curve is known.
    renyi : callable
        Rényi curve conditional on the event of infinite loss not happening: maps orders (array, any shape, > 1) to
        divergences in nats, same shape; +inf at and above `order_limit`.
    order_limit : float
        Order below which `renyi` is finite, >= 1; may be +inf.
    infinity_mass : float, default 0.0
        Probability mass of infinite privacy loss, in [0, 1). The Rényi curve and the pure guarantee hold conditional on
        that event not happening.
    pure_epsilon : float
        Max divergence in nats, conditional on the same event, >= 0; +inf if there is no pure guarantee.
    zcdp : float
        Smallest known rho with renyi(a) <= rho a at every order, in nats, >= 0; +inf if there is none (Bun and Steinke
        2016). As the Rényi curve, it holds conditional on the event of infinite loss not happening.
    exact : frozenset of {"rdp", "delta", "epsilon"}, default frozenset()
        Views that some pair of neighbours attains, up to rounding; the other views are upper bounds.
    curve_bounds : tuple of CurveBound, default ()
        Further bounds on the privacy curve. They enter every view if there are no pairs; otherwise only `explain` lists
        them. Compositions do not use them. The same holds for `renyi_bounds` and `renyi_tables`.
    renyi_bounds : tuple of RenyiBound, default ()
        Further bounds on the Rényi curve.
    renyi_tables : tuple of RenyiTable, default ()
        Further bounds on the Rényi curve at a few orders.
    curve_is_least : bool, default True
        True if no conversion of the Rényi curve can be smaller than the privacy curve.
    composes_by_pairs : bool, default True
        False if the pairs' privacy curve is so expensive that compositions add Rényi curves instead.
    inverts_exactly : bool, default True
        True if `epsilon` inverts `delta` exactly; numerical composition rounds each of the two up separately.
    curve_name : str, default "privacy curve"
        How the privacy curve is computed; shown by `explain`.
    per_release : (PrivacyBounds, int) or None, default None
        A cheaper account and a multiplicity whose composition upper-bounds this one; used where exact composition is
        expensive.
    parts : tuple of PrivacyBounds, default ()
        Parallel composition: every view is the largest of the views of these bounds.
    own_curve_cost : float or None, default None
        Approximate cost of one value of all `curve_bounds` together, in units of one closed form (about a microsecond).
        None takes the cost of the pairs' curves.
    own_renyi_cost : float or None, default None
        Approximate cost of one value of `renyi`, in the same unit. None takes the cost of the pairs' curves.
    listed_renyi_cost : float or None, default None
        Approximate cost of one value of all `renyi_bounds` together, in the same unit; conversions evaluate these where
        there are no pairs. None takes the cost of `renyi`.
    tabulated : bool, default False
        True if tables replace curves that these bounds are computed from, because exact values are too expensive.
    tabulated_renyi : callable or None, default None
        An upper bound on `renyi` that is affordable where `renyi` is not. None if only a table of `renyi` is.
    tabulated_renyi_cost : float, default 1.0
        Approximate cost of one value of `tabulated_renyi`, in the same unit.

    Examples
    --------
    >>> from privsample.accounting.loss.gaussian import GaussianPair
    >>> bounds = PrivacyBounds.from_pairs([GaussianPair(mu=1.0)], zcdp=0.5)
    >>> bounds.pure_epsilon, bounds.kind("delta")
    (inf, 'exact')
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
    listed_renyi_cost: float | None = None
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
            if type(getattr(self, name)) is not float:  # accounts are composed by the thousand: floats need no check
                number(**{name: getattr(self, name)})
        pairs = tuple(itertools.chain.from_iterable(self.directions))
        if len(self.directions) > 2 or not all(self.directions) or not all(isinstance(p, LossPair) for p in pairs):
            raise ValueError(f"directions must be at most two groups of LossPair, none empty, got {self.directions!r}")
        if not 0.0 <= self.infinity_mass <= 1.0:  # a long composition can round it up to 1
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
        """Construct bounds from dominating pairs.

        Parameters
        ----------
        *groups : sequence of LossPair
            One group for both directions of the relation together, or two groups: remove, add. Each has at least one
            pair.
        **known : any
            Other fields that are known more accurately than from the pairs. By default the Rényi curve is the largest
            of the pairs' curves, the pure guarantee is their largest max divergence, zCDP follows from the pure
            guarantee, and every view is exact.

        Returns
        -------
        PrivacyBounds
            The bounds with all fields filled in.

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
        pure = known["pure_epsilon"] if "pure_epsilon" in known else max([pair.max_divergence for pair in pairs])
        filled: dict[str, Any] = {
            "renyi": lambda orders: worst_renyi(pairs, orders),
            "order_limit": min([pair.order_limit for pair in pairs]),
            "pure_epsilon": pure,
            "exact": VIEWS,
        }
        if "zcdp" not in known:
            filled["zcdp"] = zcdp.of_pure(pure)
        return cls(directions=directions, **filled | known)

    @classmethod
    def from_renyi(cls, renyi: Curve, **known: Any) -> Self:
        """Construct bounds from a Rényi curve alone.

        Parameters
        ----------
        renyi : callable
            As the field of this name.
        **known : any
            Other fields. By default there is no order limit and no pure guarantee, and the Rényi curve is exact.

        Returns
        -------
        PrivacyBounds
            The bounds with all fields filled in.

        Examples
        --------
        >>> PrivacyBounds.from_renyi(lambda orders: 0.5 * orders, zcdp=0.5).infinity_mass
        0.0
        """
        pure = known.get("pure_epsilon", np.inf)
        filled: dict[str, Any] = {
            "order_limit": np.inf,
            "pure_epsilon": pure,
            "zcdp": zcdp.of_pure(pure),
            "exact": frozenset({"rdp"}),
            "curve_is_least": False,
        }
        return cls(renyi=renyi, **filled | known)

    @property
    def has_curve(self) -> bool:
        """True if a privacy curve is known that is not a conversion of the Rényi curve."""
        return bool(self.pairs or self.curve_bounds)

    @property
    def renyi_cost(self) -> float:
        """Approximate cost of one value of the Rényi curve, in the unit of `LossPair.curve_cost`."""
        if self.own_renyi_cost is not None:
            return self.own_renyi_cost
        return sum([pair.renyi_cost for pair in self.pairs]) or 0.2

    @property
    def curve_cost(self) -> float:
        """Approximate cost of one value of the privacy curve, including conversions of the Rényi curve."""
        if self.parts:
            return sum(part.curve_cost for part in self.parts)
        found = sum([pair.curve_cost for pair in self.pairs])
        if self.curve_bounds and not self.pairs:
            found = _CALL * len(self.curve_bounds) if self.own_curve_cost is None else self.own_curve_cost
        if not self.pairs or not self.curve_is_least:
            listed = None if self.pairs else self.listed_renyi_cost
            found += _CONVERSION * (_CALL + (self.renyi_cost if listed is None else listed))
        return found

    @property
    def from_table(self) -> bool:
        """True if a table replaces a curve that these bounds are computed from."""
        return self.tabulated or any(pair.from_table for pair in self.pairs)

    @property
    def single_pairs(self) -> tuple[LossPair, ...] | None:
        """The pairs if each direction has exactly one and it is not an envelope; otherwise None."""
        if not self.pairs or any(len(group) != 1 or isinstance(group[0], Envelope) for group in self.directions):
            return None
        return self.pairs

    def kind(self, view: View) -> Kind:
        """Kind of the numbers that a view reports.

        Parameters
        ----------
        view : {"rdp", "delta", "epsilon"}
            The view.

        Returns
        -------
        {"exact", "upper bound"}
            "exact" if some pair of neighbours attains the numbers up to rounding.
        """
        return "exact" if view in self.exact else "upper bound"
