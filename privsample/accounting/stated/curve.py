"""An account of points of a privacy curve."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray, positive_integer, real_array
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.stated.base import EXACT, STATED, StatedAccountant, bounds_of_tables, in_order
from privsample.accounting.stated.exact import Masses, Point, exponential, lower_hull, normalised
from privsample.relations import AddRemove, Relation, related

_LARGEST = 1e5


@frozen_value
class CurveAccountant(StatedAccountant):
    """Cost of any mechanism that is (epsilon, delta)-DP at every one of `points`.

    Of such mechanisms one is the worst at every epsilon: its privacy curve joins the points by straight lines in
    e^epsilon, is constant beyond the last point, and is symmetric in the neighbours' order. With one point it is
    ApproximateAccountant's. A point above the lines that join others says nothing and is left out.

    Parameters
    ----------
    points : array, shape (points, 2)
        Rows (epsilon, delta), in any order: an upper bound delta of the privacy curve at epsilon, for neighbours in
        both orders. The smallest delta is the mass of infinite privacy loss.
    reverse_points : array, shape (points, 2), optional
        Points that hold for neighbours in the other order; `points` then hold for the first order only.
    relation : AddRemove, ReplaceOne or ProfileEdge, default AddRemove()
        Which datasets are neighbours.
    ordered : bool, optional
        Whether the relation tells which of two neighbours comes first; as in PairAccountant. It matters only beside
        `reverse_points`: under AddRemove, unless said otherwise, `points` compare a dataset that holds the record
        with one that lacks it.
    group_size : int, default 1
        By how many units neighbours differ; set by `group`.
    assumptions : frozenset of Assumption, default {STATED}
        What the account takes for granted.

    Raises
    ------
    ValueError
        For NaN, a delta outside [0, 1], a delta below 1 - e^epsilon at a negative epsilon, which no mechanism has, or
        points of which every delta is 1: nothing is promised.

    Notes
    -----
    Checked: that some mechanism has these points. Taken on trust (STATED): that the mechanism is below them.

    Source: Zhu, Dong and Wang 2022, section 3 (every such curve has a pair); Kairouz, Oh and Viswanath 2015, Theorem 2
    (one point); docs/notes/stated.md, section 5. Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.CurveAccountant(points=[(0.5, 1e-2), (1.0, 1e-4), (2.0, 1e-7)])
    >>> f"{float(account.epsilon(1e-4)):.4f} {float((4 * account).epsilon(1e-4)):.4f}"
    '1.0000 2.9875'
    """

    points: FloatArray
    reverse_points: FloatArray | None = None
    relation: Relation = AddRemove()
    ordered: bool | None = None
    group_size: int = 1
    assumptions: frozenset[Assumption] = STATED

    def __post_init__(self) -> None:
        relation = related(self.relation)
        points = _checked(points=self.points)
        back = None if self.reverse_points is None else _checked(reverse_points=self.reverse_points)
        set_fields(
            self, points=points, reverse_points=back, relation=relation, ordered=in_order(self.ordered, relation)
        )
        set_fields(self, group_size=positive_integer(group_size=self.group_size))
        self.bounds  # noqa: B018 - building them refuses what promises nothing

    def _stated_bounds(self) -> PrivacyBounds:
        points, back = self.points, self.points if self.reverse_points is None else self.reverse_points
        table = _worst(points, back)
        held = bounds_of_tables([table], ordered=bool(self.ordered), group_size=self.group_size)
        if self.group_size == 1:  # both are stated, and known better than from sums of logarithms
            ends = [_end(points), _end(back)]
            mass, pure = (max(column) for column in zip(*ends, strict=True))
            held = replace(held, infinity_mass=min(held.infinity_mass, mass), pure_epsilon=min(held.pure_epsilon, pure))
        return held

    @property
    def source(self) -> str:
        """The theorems that a curve's numbers rest on."""
        return "Zhu, Dong and Wang 2022, section 3; Kairouz, Oh and Viswanath 2015, Theorem 2"

    @property
    def _outcomes(self) -> int:
        both = 2 * len(self.points) if self.reverse_points is None else len(self.points) + len(self.reverse_points)
        return min(both + 2, EXACT)


def _checked(**named: ArrayLike) -> FloatArray:
    """Points of a privacy curve, read-only. Raises: ValueError."""
    ((name, _),) = named.items()
    points = real_array(**named).copy()
    if points.ndim != 2 or points.shape[1] != 2 or not len(points):
        raise ValueError(f"{name} must have shape (points, 2), rows (epsilon, delta), got {points.shape}")
    epsilon, delta = points.T
    if not np.all(np.abs(epsilon) <= _LARGEST):
        raise ValueError(f"{name} must have epsilons within {_LARGEST:g} of zero, got {float(np.abs(epsilon).max())!r}")
    possible = (delta >= 0.0) & (delta <= 1.0) & (delta >= -np.expm1(np.minimum(epsilon, 0.0)) * (1 - 1e-15))
    if not possible.all():
        first = int(np.flatnonzero(~possible)[0])
        raise ValueError(
            f"{name} must have a delta in [0, 1], and of at least 1 - e^epsilon at a negative epsilon, "
            f"got ({float(epsilon[first])!r}, {float(delta[first])!r})"
        )
    if np.all(delta == 1.0):
        raise ValueError(f"{name} must have a delta below 1: nothing is promised")
    points.flags.writeable = False
    return points


def _end(points: FloatArray) -> tuple[float, float]:
    """The least delta that is stated, which bounds the mass of infinite loss, and the least epsilon that has it."""
    epsilon, delta = points.T
    least = float(delta.min())
    return least, max(float(epsilon[delta == least].min()), 0.0)


def _worst(forward: FloatArray, backward: FloatArray) -> Masses:
    """The pair whose curve is the largest convex one below the points: docs/notes/stated.md, section 5.

    h(x) = D_x(P || Q) at x = e^epsilon; the curve of (Q, P) at y is (h(1/y) - 1 + 1/y) y. Q has a mass where the slope
    of h changes, P that mass times x.
    """
    hull = lower_hull([(Fraction(0), Fraction(1)), *_ahead(forward), *_behind(backward)])
    falling = [hull[0], *(right for left, right in itertools.pairwise(hull) if right[1] < left[1])]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(falling)] + [Fraction(0)]
    jumps = zip(falling[1:], slopes, slopes[1:], strict=False)
    masses = [(x * (after - before), after - before) for (x, _), before, after in jumps]
    return normalised([(Fraction(0), 1 + slopes[0]), *masses, (falling[-1][1], Fraction(0))])


def _ahead(points: FloatArray) -> Iterator[Point]:
    for epsilon, delta in points.tolist():
        x = exponential(epsilon)
        yield x, max(1 - x, Fraction(delta))  # no mechanism is below 1 - x; the float of it may be


def _behind(points: FloatArray) -> Iterator[Point]:
    for epsilon, delta in points.tolist():
        x = exponential(-epsilon)
        yield x, max(1 - x + x * Fraction(delta), Fraction(0))
