"""Account of stated points of a privacy curve."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray, positive, positive_integer, real_array
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.stated.base import EXACT, STATED, StatedAccountant, bounds_of_tables, check_ordered
from privsample.accounting.stated.exact import Masses, Point, exponential, lower_hull, normalize_masses
from privsample.relations import AddRemove, Relation, related

_LARGEST = 1e5
_NODES = 400  # points of a curve that is shifted; between them it is interpolated from above
_ROUNDING = 1e-14


@frozen_value
class CurveAccountant(StatedAccountant):
    """Any mechanism that is (epsilon, delta)-differentially private at every one of several stated points.

    Among these mechanisms one is the worst at every epsilon. Its privacy curve interpolates the points linearly in
    e^epsilon, is constant beyond the last point, and is the same for both orders of neighbours. With one point it is
    that of `ApproximateAccountant`. Points above the interpolation of other points are ignored.

    Parameters
    ----------
    points : array of float, shape (points, 2)
        Rows (epsilon, delta) in any order, epsilon in nats and delta in [0, 1]: an upper bound delta of the privacy
        curve at epsilon, for both orders of neighbours. The smallest delta is the probability mass of infinite privacy
        loss.
    reverse_points : array of float, shape (points, 2), optional
        Points for neighbours in the reverse order; `points` then hold for the first order only.
    relation : Relation, default AddRemove()
        Neighbouring relation of the guarantee.
    ordered : bool, optional
        Whether the relation determines which of two neighbours comes first, as for `PairAccountant`.
        It matters only with `reverse_points`: by default under AddRemove, `points` compare a dataset that contains the
        record with one that does not.
    group_size : int, default 1
        Number of units in which neighbours differ, >= 1; set by `group`.
    assumptions : frozenset of Assumption, default {STATED}
        Assumptions of the guarantee.

    Raises
    ------
    ValueError
        For NaN, a delta outside [0, 1], a delta below 1 - e^epsilon at a negative epsilon, which no mechanism attains,
        or points that all have delta 1, which give no guarantee.

    Notes
    -----
    The class checks that some mechanism has these points. It assumes (STATED) that the mechanism satisfies them.

    Source: Zhu, Dong and Wang 2022, section 3 (every such curve has a dominating pair); Kairouz, Oh and Viswanath 2015,
    Theorem 2 (one point); docs/notes/stated.md, section 5.

    Kind: exact for the worst such mechanism.

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
        points = check_points(points=self.points)
        back = None if self.reverse_points is None else check_points(reverse_points=self.reverse_points)
        set_fields(
            self, points=points, reverse_points=back, relation=relation, ordered=check_ordered(self.ordered, relation)
        )
        set_fields(self, group_size=positive_integer(group_size=self.group_size))
        self.bounds  # noqa: B018 - raises an error if there is no guarantee

    @classmethod
    def of_approximate_draws(cls, account: Accountant, *, distance: float) -> "CurveAccountant":
        """The account of draws that are made approximately, such as the last state of a Markov chain.

        Parameters
        ----------
        account : Accountant
            The account of the exact draws.
        distance : float
            Upper bound, for every dataset, on the total variation distance of the distribution of the draws from that
            of the exact draws; in (0, 1/2). For several draws that are independent and equally distributed, give the
            account and the distance of one, and compose.

        Returns
        -------
        CurveAccountant
            The account of the approximate draws. It assumes STATED, that the distance is right, in place of
            CONVERGED_CHAIN.

        Raises
        ------
        TypeError
            If `account` is not an account.
        ValueError
            If `distance` is out of its range, or leaves no guarantee.

        Notes
        -----
        delta(epsilon) of the exact draws grows by (1 + e^epsilon) distance (Geumlek 2020, Proposition 3, with a total
        variation distance); the curve of the result does not increase again at large epsilon. Kind: upper bound.

        Examples
        --------
        >>> import privsample as ps
        >>> exact = ps.PosteriorAccountant(model=ps.BetaBernoulli(1, 1), n=100, data_weight=0.1)
        >>> chain = ps.CurveAccountant.of_approximate_draws(exact, distance=1e-9)
        >>> f"{float(exact.epsilon(1e-6)):.4f} {float(chain.epsilon(1e-6)):.4f}"
        '1.0970 1.0974'
        """
        if not isinstance(account, Accountant):
            raise TypeError(f"account must be an accountant (mechanism.accountant), got {type(account).__name__}")
        distance = positive(distance=distance)
        if not distance < 0.5:
            raise ValueError(f"distance must lie in (0, 1/2), got {distance!r}: a larger one leaves no guarantee")
        # beyond this epsilon the sum grows: the added term alone exceeds 1, or delta is small beside it
        last = min(account.pure_epsilon, float(-np.log(distance)), float(account.epsilon(distance)) + 1.0)
        epsilons = np.linspace(0.0, last, _NODES)
        deltas = account.delta(epsilons) + (1.0 + np.exp(epsilons) * (1.0 + _ROUNDING)) * distance
        return cls(
            points=np.column_stack([epsilons, np.minimum(deltas * (1.0 + _ROUNDING), 1.0)]),
            relation=account.relation,
            assumptions=(account.assumptions - {Assumption.CONVERGED_CHAIN}) | STATED,
        )

    def _stated_bounds(self) -> PrivacyBounds:
        """The bounds of the worst pair below the points."""
        points, back = self.points, self.points if self.reverse_points is None else self.reverse_points
        table = _worst_masses(points, back)
        found = bounds_of_tables([table], ordered=bool(self.ordered), group_size=self.group_size)
        if self.group_size == 1:  # the stated values are more accurate than sums of logarithms
            ends = [_end(points), _end(back)]
            mass, pure = (max(column) for column in zip(*ends, strict=True))
            found = replace(
                found, infinity_mass=min(found.infinity_mass, mass), pure_epsilon=min(found.pure_epsilon, pure)
            )
        return found

    @property
    def source(self) -> str:
        """The theorems on privacy curves and on one point."""
        return "Zhu, Dong and Wang 2022, section 3; Kairouz, Oh and Viswanath 2015, Theorem 2"

    @property
    def _outcomes(self) -> int:
        """The number of outcomes of all tables."""
        both = 2 * len(self.points) if self.reverse_points is None else len(self.points) + len(self.reverse_points)
        return min(both + 2, EXACT)


def check_points(**named: ArrayLike) -> FloatArray:
    """Check points of a privacy curve and return a read-only copy. Raises ValueError."""
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
        raise ValueError(f"{name} must have a delta below 1: there is no guarantee")
    points.flags.writeable = False
    return points


def _end(points: FloatArray) -> tuple[float, float]:
    """The least stated delta, which bounds the infinity mass, and the least epsilon at which it is stated."""
    epsilon, delta = points.T
    least = float(delta.min())
    return least, max(float(epsilon[delta == least].min()), 0.0)


def _worst_masses(forward: FloatArray, backward: FloatArray) -> Masses:
    """The pair whose curve is the largest convex curve below the points (stated.md, section 5).

    h(x) = D_x(P || Q) at x = e^epsilon; the curve of (Q, P) at y is (h(1/y) - 1 + 1/y) y. Q has an atom where the slope
    of h changes, and P has x times its mass.
    """
    hull = lower_hull([(Fraction(0), Fraction(1)), *_forward_points(forward), *_reverse_points(backward)])
    falling = [hull[0], *(right for left, right in itertools.pairwise(hull) if right[1] < left[1])]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(falling)] + [Fraction(0)]
    jumps = zip(falling[1:], slopes, slopes[1:], strict=False)
    masses = [(x * (after - before), after - before) for (x, _), before, after in jumps]
    return normalize_masses([(Fraction(0), 1 + slopes[0]), *masses, (falling[-1][1], Fraction(0))])


def _forward_points(points: FloatArray) -> Iterator[Point]:
    """Points (x, h(x)) of the first order, in exact arithmetic."""
    for epsilon, delta in points.tolist():
        x = exponential(epsilon)
        yield x, max(1 - x, Fraction(delta))  # 1 - x is a lower bound that the rounded delta may violate


def _reverse_points(points: FloatArray) -> Iterator[Point]:
    """Points (x, h(x)) implied by points of the reverse order, in exact arithmetic."""
    for epsilon, delta in points.tolist():
        x = exponential(-epsilon)
        yield x, max(1 - x + x * Fraction(delta), Fraction(0))
