"""Neighbouring posteriors of a user's exponential family: the Rényi curve of the worst pair.

Geumlek 2020, Theorem 10 (worst pairs under a convexity condition) and Lemma 17 (bounded covariance). Proofs, also of
the form without cancellation: families.md.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._value import Memo, cached, frozen_value
from privsample.accounting.loss.pair import checked_divergence
from privsample.accounting.posterior.family_tails import check_tails
from privsample.accounting.posterior.natural_pair import NaturalPair
from privsample.distributions.parametric.natural import LogNormalizer
from privsample.distributions.posterior_shifts import NaturalShifts
from privsample.errors import NumericalFailure

_FEW_PAIRS, _MOST_NUMBERS = 8, 1 << 22  # pairs that are all integrated; numbers that are held at once
_MOST_PAIRS = 64  # pairs whose privacy curves are computed
_CHECKED_PAIRS = 6  # pairs whose tails are compared with the log normalizer
_MOST_VERTICES = 24  # the pairs grow with the cube of this number
_MOST_PANELS = 1 << 12  # panels of one integral; more are taken for a divergence
_ULP = float(np.finfo(np.float64).eps)
_ORDER_ROUNDING, _ROUNDING = 64 * _ULP, 2.0**-43  # see families.md, section 3
_LINES, _PLACES = 48, 5  # lines and triples of points on which the convexity condition is checked
_LONGEST_LINE = 64.0  # distance, in differences of two records, up to which a line without boundary is checked
_CONVEXITY_TOLERANCE = 1e-7  # relative to the covariances
_WAY_POINTS, _HESSIAN_TOLERANCE = 9, 1e-7  # places where a stated bound on the Hessian is checked; relative tolerance


class Rule(NamedTuple):
    """Two Gauss-Legendre rules on [0, 1], and the part of an integral by which they may differ on one panel."""

    nodes: FloatArray
    fine: FloatArray
    coarse: FloatArray
    error: float


def _rule(fine: int, coarse: int, error: float) -> Rule:
    """The rules with these numbers of nodes, all nodes of the finer rule first."""
    (x, v), (y, w) = (np.polynomial.legendre.leggauss(count) for count in (fine, coarse))
    return Rule((np.concatenate([x, y]) + 1.0) / 2, v / 2, w / 2, error)


_ACCURATE, _FAST = _rule(20, 14, 1e-12), _rule(10, 6, 1e-3)
_UNSEEN = 1e-3  # part of a panel's variance that may be missing before the panel is halved
_SELECTED = 0.02  # pairs whose fast integral is within this part of the largest are integrated accurately


@frozen_value
class NaturalNeighbours(Memo):
    """All pairs of posteriors that can be the worst, for n records of which `group_size` are replaced.

    P has the natural parameter `first`, Q has `second`, and `step` is their difference; the weights of prior and data
    are w and r. With more than one moved record, the shifts must have two vertices (families.md, section 4).
    """

    shifts: NaturalShifts
    n: int
    data_weight: float
    prior_weight: float
    group_size: int = 1

    def __post_init__(self) -> None:
        if len(self._vertices) > _MOST_VERTICES:
            raise ValueError(
                f"vertices must be at most {_MOST_VERTICES} contributions, got {len(self._vertices)}: the pairs of "
                "neighbours grow with the cube of their number; give fewer that contain them in their convex hull"
            )
        if self.group_size > 1 and len(self._vertices) > 2:
            raise ValueError(
                f"the worst posteriors of groups are known for two vertices only, got {len(self._vertices)}; let "
                "supports_groups return False"
            )
        inside = self._normalizer.contains(np.concatenate([self.first, self.second]))
        if not inside.all():
            raise ValueError(
                "the natural parameters of all neighbouring posteriors must be normalizable; strengthen the prior"
            )

    @property
    def _normalizer(self) -> LogNormalizer:
        return self.shifts.normalizer

    @cached
    def _vertices(self) -> FloatArray:
        return np.unique(self.shifts.vertices, axis=0)

    @property
    def exact(self) -> bool:
        """True if each pair is one of posteriors of two datasets."""
        return self.shifts.attained and self.shifts.hessian_bound is None

    @cached
    def _pairs(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """`first`, `second` and `step` (families.md, section 2)."""
        r, moved, vertices = self.data_weight, self.group_size, self._vertices
        prior = self.prior_weight * self.shifts.prior
        i, j = np.array(list(itertools.permutations(range(len(vertices)), 2))).T
        step = r * moved * (vertices[i] - vertices[j])  # not the difference of two sums, which would lose its digits
        if self.shifts.attained or len(vertices) == 2:
            common = np.unique(prior + r * (self.n - moved) * vertices, axis=0)[:, None]
            first, second = (common + r * moved * vertices[at] for at in (i, j))
        else:  # product of the two convex hulls: also pairs whose Q is no posterior, which only raises the bound
            posterior = (prior + r * self.n * vertices)[:, None]
            first = np.broadcast_to(posterior, (len(vertices), len(i), prior.size))
            second = posterior - step
        rows = (np.broadcast_to(each, first.shape).reshape(-1, prior.size) for each in (first, second, step))
        return next(rows), next(rows), next(rows)

    @property
    def first(self) -> FloatArray:
        """Natural parameters of P, shape (pairs, k)."""
        return self._pairs[0]

    @property
    def second(self) -> FloatArray:
        """Natural parameters of Q, shape (pairs, k)."""
        return self._pairs[1]

    @property
    def step(self) -> FloatArray:
        """Differences of the natural parameters of P and Q, shape (pairs, k)."""
        return self._pairs[2]

    @cached
    def _reaches(self) -> FloatArray:
        """For each pair, the largest a - 1 for which the blend P + (a - 1)(P - Q) is normalizable, shape (pairs,)."""
        return self._normalizer.distances_to_boundary(self.first, self.step)

    @cached
    def order_limit(self) -> float:
        """Order below which the Rényi divergences of all pairs are finite."""
        return float(1.0 + self._reaches.min())

    def renyi_of(self, pair: int, orders: FloatArray) -> FloatArray:
        """The Rényi curve of one pair, at orders of any shape."""
        flat = np.asarray(orders, dtype=np.float64).ravel()
        found, below = np.full(len(flat), np.inf), flat < self.limit_of(pair)
        found[below] = self._divergences(flat[below], np.full(int(below.sum()), pair), _ACCURATE)
        return checked_divergence(found).reshape(np.shape(orders))

    def limit_of(self, pair: int) -> float:
        """The order limit of one pair."""
        return 1.0 + float(self._reaches[pair])

    @cached
    def pairs(self) -> tuple[NaturalPair, ...]:
        """All pairs as dominating pairs, if the user gives the tails of the loss; otherwise none."""
        tails = self.shifts.log_tails
        if tails is None or self.shifts.hessian_bound is not None:
            return ()
        if len(self.first) > _MOST_PAIRS:
            raise ValueError(
                f"log_tails are evaluated for at most {_MOST_PAIRS} pairs of neighbours, got {len(self.first)}: leave "
                "them out, or give fewer vertices"
            )
        ends = np.concatenate([self.first, self.second], axis=1), np.concatenate([self.second, self.first], axis=1)
        places = {tuple(row): k for k, row in enumerate(ends[0].tolist())}
        unit, found = self.data_weight * self.group_size, []
        for k, step in enumerate(self.step):
            sign = 1.0 if tuple(step) > tuple(-step) else -1.0  # both orders of a pair have the same direction
            logs = self._normalizer.values(np.array([self.first[k], self.second[k]]))
            reverse = places[tuple(ends[1][k].tolist())]
            offset = self._offset(k) if sign > 0 else -self._offset(reverse)
            found.append(
                NaturalPair(
                    family=self,
                    place=k,
                    reverse_place=reverse,
                    direction=sign * step / unit + 0.0,
                    scale=sign * unit,
                    offset=offset,
                    offset_error=float(16 * _ULP * np.abs(logs).sum() + abs(logs[0] - logs[1] - offset)),
                    log_tails=tails,
                )
            )
        checked = np.unique(np.linspace(0, len(found) - 1, _CHECKED_PAIRS).astype(int)).tolist()
        compared = {(tuple(self.first[k]), tuple(found[k].direction)) for k in checked}
        for natural, direction in sorted(compared):
            check_tails(self._normalizer, tails, np.array(natural), np.array(direction))
        return tuple(found)

    def _offset(self, pair: int) -> float:
        """C(P) - C(Q), as the integral of the mean of the loss's linear part; its difference to the values is an error.

        The values of C may cancel inside a user's function, which their size does not show.
        """
        t = _ACCURATE.nodes[: len(_ACCURATE.fine), None]
        means = self._normalizer.gradients(self.second[pair] + t * self.step[pair]) @ self.step[pair]
        return float(means @ _ACCURATE.fine)

    @property
    def known_for_each_epsilon(self) -> bool:
        """True if the pairs are proven the worst for the privacy curve: no maximum over common records is taken."""
        return self.n == self.group_size and self.exact

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Largest Rényi divergence at each order, any shape; +inf at and above the order limit."""
        flat = np.asarray(orders, dtype=np.float64).ravel()
        found, below = np.full(len(flat), np.inf), flat < self.order_limit
        if self.shifts.hessian_bound is not None:
            found[below] = [self._bounded(order) for order in flat[below].tolist()]
        elif below.any():
            found[below] = self._largest(flat[below])
        return checked_divergence(found).reshape(np.shape(orders))

    def _bounded(self, order: float) -> float:
        """Lemma 17 with its constant 1/2: order/2 |P - Q|^2 times the bound on the Hessian (families.md, section 5)."""
        bound = self._hessian_bound_at(order)
        return float(order / 2 * (self.step**2).sum(axis=1).max() * bound * (1 + _ROUNDING))

    def check_hessian_bound(self) -> None:
        """Compare the stated bound with the Hessian, as at order 2. Raises ValueError or NumericalFailure."""
        self._hessian_bound_at(1.0 + min(1.0, (self.order_limit - 1.0) / 2))

    def _hessian_bound_at(self, order: float) -> float:
        """The stated bound on the Hessian over the convex hull of all Q and blends, compared with Hessians in it."""
        bound: Any = self.shifts.hessian_bound
        blend = self.first + (order - 1.0) * self.step
        if callable(bound):
            try:
                bound = float(bound(np.concatenate([self.second, blend])))
            except Exception as error:
                raise NumericalFailure(
                    f"hessian_bound must return a number >= 0, but failed: {type(error).__name__}: {error}"
                ) from error
            if not bound >= 0.0:
                raise NumericalFailure(f"hessian_bound must return a number >= 0, got {bound!r}")
        ends, shares = np.concatenate([self.second, blend]), np.linspace(0.0, 1.0, _WAY_POINTS)[:, None, None]
        ways = np.concatenate(
            [self.second + shares * (blend - self.second), ends + shares * (ends.mean(axis=0) - ends)], axis=1
        )
        points = ways.reshape(-1, blend.shape[1])
        hessians = self._normalizer.hessians(points)
        known = np.isfinite(hessians).all(axis=(1, 2))
        largest = np.linalg.eigvalsh(hessians[known])[:, -1]
        if not largest.max(initial=0.0) <= bound * (1 + _HESSIAN_TOLERANCE):
            raise ValueError(
                "hessian_bound must be at least the largest eigenvalue of the Hessian, which is "
                f"{largest.max():.6g} at {_readable(points[known][largest.argmax()])}, got {bound:.6g}; correct "
                "hessian_bound or the hessian of the normalizer"
            )
        return float(bound)

    def _largest(self, orders: FloatArray) -> FloatArray:
        """Largest divergence of all pairs at orders of shape (orders,).

        If there are many pairs, coarse integrals leave those that cannot be the largest out. Differences of the log
        normalizer would be cheaper, but their rounding error is unknown: a user's function may cancel inside.
        """
        order, pairs = (axis.ravel() for axis in np.indices((len(orders), len(self.first))))
        if len(self.first) > _FEW_PAIRS:
            coarse = self._by_blocks(orders[order], pairs, _FAST)
            least = np.zeros(len(orders))
            np.maximum.at(least, order, coarse)
            kept = ~(coarse < least[order] * (1.0 - _SELECTED))
            order, pairs = order[kept], pairs[kept]
        result = np.zeros(len(orders))
        np.maximum.at(result, order, self._by_blocks(orders[order], pairs, _ACCURATE))
        return result

    def _by_blocks(self, orders: FloatArray, pairs: NDArray[np.intp], rule: Rule) -> FloatArray:
        """Divergences of pairs, each at its order, in blocks whose covariance matrices fit into memory."""
        size = max(1, _MOST_NUMBERS // (len(rule.nodes) * self.first.shape[1] ** 2))
        blocks = np.array_split(np.arange(len(pairs)), -(-len(pairs) // size))
        return np.concatenate([self._divergences(orders[rows], pairs[rows], rule) for rows in blocks])

    def _divergences(self, orders: FloatArray, pairs: NDArray[np.intp], rule: Rule) -> FloatArray:
        """Rényi divergences of pairs, each at its order, as integrals of variances (families.md, section 3).

        With G'' the variance of the loss at Q + t (P - Q), it is the integral of t G'' over [0, 1], and that of
        (a - t)/(a - 1) G'' over [1, a], which is parametrized by a - t to keep the digits near the blend.
        """
        first, second, step = self.first[pairs], self.second[pairs], self.step[pairs]
        s = (orders - 1.0) * (1 + _ORDER_ROUNDING)
        # from Q to P; from the blend half way to P; from P half way to the blend, where t is the distance from P
        starts = np.concatenate([second, first + s[:, None] * step, first])
        steps = np.concatenate([step, -step, step])
        length = np.concatenate([np.ones(len(pairs)), s / 2, s / 2])
        offset, sign = np.repeat([0.0, 0.0, 1.0], len(pairs)) * np.tile(s, 3), np.repeat([1.0, 1.0, -1.0], len(pairs))
        parts = _integrals(
            lambda at, t: self._variances(starts[at], steps[at], t),
            lambda at, t: self._means(starts[at], steps[at], t),
            lambda at, t: offset[at][:, None] + sign[at][:, None] * t,
            length,
            rule,
        ).reshape(3, -1)
        return (parts[0] + (parts[1] + parts[2]) / s) * (1 + _ROUNDING)

    def _variances(self, start: FloatArray, step: FloatArray, t: FloatArray) -> FloatArray:
        """The variance of the loss at start + t step, for t of shape (rows, nodes)."""
        rows, nodes = t.shape
        points = start[:, None] + t[:, :, None] * step[:, None]
        directions = np.broadcast_to(step[:, None], points.shape).reshape(rows * nodes, -1)
        return self._normalizer.variances(points.reshape(rows * nodes, -1), directions).reshape(rows, nodes)

    def _means(self, start: FloatArray, step: FloatArray, t: FloatArray) -> FloatArray:
        """The mean of step . T at start + t step, for t of shape (rows,): its derivative in t is the variance."""
        return np.asarray((step * self._normalizer.gradients(start + t[:, None] * step)).sum(axis=1))

    @property
    def needs_convexity(self) -> bool:
        """Whether a maximum over common records is taken, which rests on the convexity condition."""
        return not (self.n == self.group_size and self.shifts.attained)

    def check_convexity(self) -> None:
        """Check the condition of Geumlek 2020, Theorem 10, on lines through the possible posteriors.

        Along every difference of two records, the covariance matrix of T(theta), restricted to such differences, must
        be a convex function (families.md, section 2). Raises ValueError that names the natural parameters where it is
        not.
        """
        points, share = self._lines()
        matrices = self._normalizer.hessians(points.reshape(-1, points.shape[-1])).reshape(*points.shape, -1)
        basis = _basis(self._vertices[1:] - self._vertices[0])
        below, middle, above = np.einsum("ia,...ij,jb->...ab", basis, matrices, basis)
        excess = share[..., None, None] * above + (1 - share[..., None, None]) * below - middle
        if not np.isfinite(excess).all():
            raise NumericalFailure("hessian returned a value that is not finite at a normalizable natural parameter")
        scale = np.abs(below).max(axis=(-1, -2)) + np.abs(above).max(axis=(-1, -2))
        least = np.linalg.eigvalsh((excess + np.swapaxes(excess, -1, -2)) / 2)[..., 0]
        if (wrong := least < -_CONVEXITY_TOLERANCE * scale).any():
            line, place = np.argwhere(wrong)[0]
            ends = [_readable(points[k, line, place]) for k in (0, 1, 2)]
            raise ValueError(
                "the family fails the convexity condition of Geumlek 2020, Theorem 10, so the worst neighbours are not "
                f"known: between the natural parameters {ends[0]} and {ends[2]} the variance of T(theta) exceeds its "
                f"chord at {ends[1]}; state hessian_bound, whose account needs no convexity, or choose another prior"
            )

    def _lines(self) -> tuple[FloatArray, FloatArray]:
        """Triples of points on lines, shape (3, lines, places, k), and the share of the third in the second.

        The lines lead through posteriors along the steps of pairs, from Q towards the boundary of the natural
        parameters, as the blends of all orders do. The points are public and the same in every run.
        """
        rng = np.random.default_rng(0)
        vertices = self._vertices
        shares = rng.dirichlet(np.full(len(vertices), 0.5), _LINES)
        shares[: len(vertices)] = np.eye(len(vertices))[:_LINES]
        start = self.prior_weight * self.shifts.prior + self.data_weight * self.n * shares @ vertices
        step = self.step[rng.integers(len(self.step), size=_LINES)]
        ahead = 0.999 * np.minimum(self._normalizer.distances_to_boundary(start, step), _LONGEST_LINE)
        back = 0.999 * np.minimum(self._normalizer.distances_to_boundary(start, -step), 1.0)
        high, low = (reach[:, None] * rng.random((_LINES, _PLACES)) for reach in (ahead, back))
        high[:, 0], low[:, 0] = np.minimum(ahead, 1.0), back
        places = np.stack([-low, np.zeros_like(low), high])
        return start[None, :, None] + places[..., None] * step[None, :, None], low / (low + high)


def _basis(differences: FloatArray) -> FloatArray:
    """Orthonormal basis of the span of the rows, as columns."""
    _, sizes, rows = np.linalg.svd(differences)
    return rows[: int((sizes > 1e-12 * sizes[0]).sum())].T


def _readable(natural: FloatArray) -> str:
    """A natural parameter in a message."""
    return "(" + ", ".join(f"{float(x):.6g}" for x in natural) + ")"


def _integrals(
    function: Callable[[NDArray[np.intp], FloatArray], FloatArray],
    antiderivative: Callable[[NDArray[np.intp], FloatArray], FloatArray],
    weight: Callable[[NDArray[np.intp], FloatArray], FloatArray],
    length: FloatArray,
    rule: Rule,
) -> FloatArray:
    """Integrals of weight times function, both >= 0, over [0, length], plus the estimated quadrature error.

    `function(rows, t)` and `weight(rows, t)` evaluate some rows at t, shape (rows, nodes), `antiderivative(rows, t)` at
    t of shape (rows,). Panels are halved until two rules agree, and the finer one sees the increase of the
    antiderivative: all nodes may miss a narrow peak. An integral that needs too many panels is +inf.
    """
    total, error = np.zeros(len(length)), np.zeros(len(length))
    rows, low, high = np.arange(len(length)), np.zeros(len(length)), np.array(length)
    panels, size = np.ones(len(length)), len(rule.fine)
    while len(rows):
        width = high - low
        t = low[:, None] + width[:, None] * rule.nodes
        with np.errstate(invalid="ignore", over="ignore"):  # infinite where rounding puts a blend on the boundary
            plain = function(rows, t)
            values = weight(rows, t) * plain
            fine = values[:, :size] @ rule.fine * width
            gap = np.abs(fine - values[:, size:] @ rule.coarse * width)
            start, end = antiderivative(rows, low), antiderivative(rows, high)
            rounding = 64 * _ULP * (np.abs(start) + np.abs(end))
            missed = end - start > plain[:, :size] @ rule.fine * width * (1 + _UNSEEN) + rounding
        pending = np.bincount(rows, fine, minlength=len(length))
        settled = (gap <= rule.error * (total + pending)[rows]) & ~missed
        np.add.at(total, rows[settled], fine[settled])
        np.add.at(error, rows[settled], gap[settled])
        middle = low + width / 2
        panels += np.bincount(rows[~settled], minlength=len(length))
        lost = ~np.isfinite(fine) | (panels[rows] > _MOST_PANELS) | (middle <= low) | (middle >= high)
        total[rows[~settled & lost]] = np.inf
        more = ~settled & ~lost
        rows, low, middle, high = rows[more], low[more], middle[more], high[more]
        rows, low, high = np.tile(rows, 2), np.concatenate([low, middle]), np.concatenate([middle, high])
    return total + error
