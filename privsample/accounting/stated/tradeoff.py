"""Account of a stated trade-off function (f-DP), piecewise linear or bounded below by a piecewise linear function."""

from collections.abc import Callable
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray, positive_integer, real_array
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.stated.base import EXACT, STATED, StatedAccountant, bounds_of_tables, check_ordered
from privsample.accounting.stated.exact import Point, lower_hull, masses_of_trade_off
from privsample.relations import AddRemove, Relation, related

_TOLERANCE = 1e-9
_FINEST, _NOISE = 1e-15, 4e-16
_FEWEST = 100


@frozen_value
class TradeoffAccountant(StatedAccountant):
    """f-differential privacy: any mechanism whose neighbours have a trade-off function of at least f.

    f(x) is the least false negative rate of a test of M(D) against M(D') with false positive rate x. f holds for
    neighbours (D, D') in one order, and its inverse for the other order. A symmetric f, such as that of Gaussian noise,
    is its own inverse.

    Parameters
    ----------
    knots : array of float, shape (knots, 2)
        Rows (false positive rate, false negative rate) in [0, 1]; the first column increases from 0 and the second
        decreases to 0. f interpolates them linearly; it must be convex and nowhere above 1 - x. If f(0) < 1, the mass 1
        - f(0) has infinite privacy loss. For a function that is not piecewise linear use `from_function`.
    relation : Relation, default AddRemove()
        Neighbouring relation of the guarantee.
    ordered : bool, optional
        Whether the relation determines which of two neighbours comes first, as for `PairAccountant`. By
        default under AddRemove, f tests a dataset that contains the record against one that does not.
    group_size : int, default 1
        Number of units in which neighbours differ, >= 1; set by `group`.
    assumptions : frozenset of Assumption, default {STATED}
        Assumptions of the guarantee.

    Raises
    ------
    ValueError
        For knots that are not convex, that increase, that lie above 1 - x, or that do not cover all rates; the message
        names the first such knots. Knots that deviate by less than 1e-9 are replaced by their convex hull, which is
        never above.

    Notes
    -----
    The class checks that f is a trade-off function. It assumes (STATED) that the mechanism satisfies it. If f holds for
    every ordered pair of neighbours and is not symmetric, state the larger of f and its inverse.

    Source: Dong, Roth and Su 2022, Propositions 2.2 and 2.12, Theorem 2.14; docs/notes/stated.md.

    Kind: exact for the worst such mechanism.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.TradeoffAccountant(knots=[(0, 1), (0.25, 0.25), (1, 0)])
    >>> f"{account.pure_epsilon:.6f} {float(account.delta(0.0)):.6f}"
    '1.098612 0.500000'
    >>> from scipy.stats import norm
    >>> gaussian = ps.TradeoffAccountant.from_function(lambda x: norm.cdf(norm.isf(x) - 1))
    >>> f"{float(gaussian.epsilon(1e-5)):.3f}"
    '4.378'
    """

    knots: FloatArray
    relation: Relation = AddRemove()
    ordered: bool | None = None
    group_size: int = 1
    assumptions: frozenset[Assumption] = STATED

    def __post_init__(self) -> None:
        relation = related(self.relation)
        knots = check_knots(real_array(knots=self.knots))
        set_fields(self, knots=knots, relation=relation, ordered=check_ordered(self.ordered, relation))
        set_fields(self, group_size=positive_integer(group_size=self.group_size))
        self.bounds  # noqa: B018 - raises an error if there is no guarantee

    def _stated_bounds(self) -> PrivacyBounds:
        """The bounds of the table of the trade-off function, in exact arithmetic."""
        exact = [(Fraction(x), Fraction(y)) for x, y in self.knots.tolist()]
        table = masses_of_trade_off(lower_hull([*exact, (Fraction(1), Fraction(0))]))
        return bounds_of_tables([table], ordered=bool(self.ordered), group_size=self.group_size)

    @classmethod
    def from_function(
        cls,
        function: Callable[[FloatArray], ArrayLike],
        *,
        relation: Relation | None = None,
        ordered: bool | None = None,
        points: int = 2000,
    ) -> Self:
        """The account of a convex trade-off function, with knots on or below the function.

        Between two rates a convex function is nowhere below the lines through the neighbouring rates on either side;
        the knots are the intersections of these lines. An infinity mass of about 1e-12 may remain, because the function
        is not evaluated closer to its ends.

        Parameters
        ----------
        function : callable
            Maps an array of false positive rates in [0, 1] to false negative rates, accurate to 1e-15.
        relation : Relation, default AddRemove()
            As for the class.
        ordered : bool, optional
            As for the class.
        points : int, default 2000
            Approximate number of rates at which the function is evaluated, most of them near 0 and 1; >= 100.

        Returns
        -------
        TradeoffAccountant
            The account.

        Raises
        ------
        ValueError
            As for the class, for the values at these rates. Convexity between them is assumed.
        """
        if positive_integer(points=points) < _FEWEST:
            raise ValueError(f"points must be at least {_FEWEST}, got {points}")
        half = np.concatenate([np.geomspace(_FINEST, 0.01, points // 4), np.linspace(0.01, 0.5, points // 4)[1:]])
        x = np.unique(np.concatenate([[0.0], half, 1.0 - half, [1.0]]))
        values = real_array(function=function(x))
        if values.shape != x.shape:
            raise ValueError(f"function must return one rate for each of {x.shape} rates, got shape {values.shape}")
        knots = check_knots(np.stack([x, values], axis=1))
        return cls(knots=_knots_below(knots), relation=AddRemove() if relation is None else relation, ordered=ordered)

    @property
    def source(self) -> str:
        """The theorems on trade-off functions."""
        return "Dong, Roth and Su 2022, Propositions 2.2 and 2.12"

    @property
    def _outcomes(self) -> int:
        """The number of outcomes of all tables."""
        return min(len(self.knots) + 2, EXACT)


def check_knots(knots: FloatArray) -> FloatArray:
    """Check that a trade-off function interpolates the knots within the tolerance; return a copy. Raises ValueError."""
    if knots.ndim != 2 or knots.shape[1] != 2 or len(knots) < 2:
        raise ValueError(f"knots must have shape (at least 2, 2), rows (fpr, fnr), got {knots.shape}")
    x, y = knots.T
    if (outside := ~((knots >= 0.0) & (knots <= 1.0)).all(axis=1)).any():
        raise ValueError(f"knots must be rates in [0, 1], got {_format_knot(knots[outside][0])}")
    if not np.all(np.diff(x) > 0.0):
        at = int(np.flatnonzero(~(np.diff(x) > 0.0))[0])
        raise ValueError(
            f"knots must have increasing fpr, got {_format_knot(knots[at])} before {_format_knot(knots[at + 1])}"
        )
    if not x[0] == 0.0:
        raise ValueError(f"knots must start at fpr 0, got {_format_knot(knots[0])}: add the knot (0, f(0))")
    if not (x[-1] == 1.0 or y[-1] == 0.0):
        raise ValueError(f"knots must end at fpr 1 or fnr 0, got {_format_knot(knots[-1])}: add the knot (1, 0)")
    if not np.all(y <= 1.0 - x + _TOLERANCE):
        at = int(np.flatnonzero(~(y <= 1.0 - x + _TOLERANCE))[0])
        raise ValueError(
            f"knots must not lie above 1 - fpr, the rate of random guessing, got {_format_knot(knots[at])}"
        )
    if not np.all(np.diff(y) <= _TOLERANCE):
        at = int(np.flatnonzero(~(np.diff(y) <= _TOLERANCE))[0])
        raise ValueError(
            f"knots must have decreasing fnr, got {_format_knot(knots[at])} before {_format_knot(knots[at + 1])}"
        )
    hull = np.array(lower_hull((Fraction(a), Fraction(b)) for a, b in knots.tolist()), dtype=np.float64)
    above = y - np.interp(x, *hull.T) > _TOLERANCE
    if above.any():
        at = int(np.flatnonzero(above)[0])
        three = ", ".join(_format_knot(knot) for knot in knots[at - 1 : at + 2])
        raise ValueError(f"knots must be convex: the middle one lies above the line between the others: {three}")
    kept = knots.copy()
    kept.flags.writeable = False
    return kept


def _format_knot(knot: FloatArray) -> str:
    """The knot as text for messages."""
    return f"({float(knot[0]):g}, {float(knot[1]):g})"


def _knots_below(knots: FloatArray) -> FloatArray:
    """Knots of a piecewise linear function that is below every convex function through these knots."""
    hull: list[Point] = lower_hull((Fraction(x), Fraction(max(y - _NOISE, 0.0))) for x, y in knots.tolist())
    corners = [(Fraction(0), _line(hull[1], hull[2], Fraction(0)))] if len(hull) > 2 else [hull[0]]
    for one, left, right, other in zip(hull, hull[1:], hull[2:], hull[3:], strict=False):
        corners.append(_intersection((one, left), (right, other)))
    last = hull[-1][0]
    corners.append((last, _line(hull[-3], hull[-2], last)) if len(hull) > 2 else hull[-1])
    rounded = [(float(x), max(np.nextafter(float(y), -1.0) if x > 0 else float(y), 0.0)) for x, y in corners]
    kept = lower_hull([*((Fraction(x), Fraction(y)) for x, y in rounded), (Fraction(1), Fraction(0))])
    return np.array([(float(x), float(y)) for x, y in kept])


def _line(left: Point, right: Point, x: Fraction) -> Fraction:
    """Value at x of the line through two points."""
    return left[1] + (right[1] - left[1]) * (x - left[0]) / (right[0] - left[0])


def _intersection(before: tuple[Point, Point], after: tuple[Point, Point]) -> Point:
    """The intersection of the line through the points before an interval with that through the points after it."""
    (a, b), (c, d) = before, after
    first, second = ((b[1] - a[1]) / (b[0] - a[0])), ((d[1] - c[1]) / (d[0] - c[0]))
    x = (c[1] - second * c[0] - b[1] + first * b[0]) / (first - second)
    return x, _line(a, b, x)
