"""Dominating pairs of an epoch in which each record takes part in a secret random choice of the steps.

Statement and proofs: docs/notes/allocation.md.
"""

from math import comb, factorial, prod

import numpy as np

from privsample._checks import FloatArray
from privsample._value import cached, frozen_value, stored
from privsample.accounting.curves.chords import CurveChords
from privsample.accounting.loss.enumeration import outcome_counts
from privsample.accounting.loss.pair import DiscretePair, LossPair, delta_below_zero
from privsample.accounting.subsampling.allocation_losses import LossTable
from privsample.accounting.subsampling.chorded import ChordedPair
from privsample.accounting.subsampling.mean_plan import CoarseLaw
from privsample.accounting.subsampling.mean_tail import MeanTail
from privsample.accounting.subsampling.ratio_law import RatioCurves
from privsample.distributions.exact.balls import WorkingPrecision, flint

# Log delta relative to its value at epsilon 0, between which one lattice each is used; beyond the last, coarse bounds.
_LEVELS = (-2.0, -6.0, -16.0, -40.0, -80.0)
# Largest difference and ratio of the epsilons of one lattice where one large ratio makes the mean large: its step suits
# the smallest epsilon, its window the largest.
_WIDEST, _RATIO = 0.6, 1.8
# Error of epsilon that a lattice may cause, relative to epsilon, and for delta below e^_DEEP of that at epsilon 0.
_TOLERANCE, _DEEP_TOLERANCE, _DEEP = 1e-7, 2e-6, -35.0
# Largest epsilon of removal, whose e^epsilon times the number of steps must not overflow, and of addition, whose
# e^-epsilon is the difference of a lattice point from 1. Above, the curve of the base is used.
_MOST_REMOVING, _MOST_ADDING = 500.0, 20.0
_FAR_VALUES, _HALVINGS = 24, 55  # values of the table of far bounds; steps of a search for epsilon
_MOST_OUTCOMES = 20_000  # of an enumeration
_BITS = 192  # of the balls of an enumeration: losses above 1e-30 keep the precision of doubles
_ULP = float(np.finfo(np.float64).eps)


@frozen_value
class AllocationPair(ChordedPair):
    """One of `steps` releases with the pair `base` = (A, B), the others with the same distribution for both datasets.

    With `removed`, the mixture (1/t) sum_i B^(i-1) A B^(t-i) against B^t; otherwise A^t against the mixture of
    A^(i-1) B A^(t-i). With S the mean of t copies of Y, removal has delta(e) = E(S - exp e)_+ for Y = dA/dB under B,
    and addition has delta(e) = E(1 - S exp e)_+ for Y = dB/dA under A (allocation.md, step 1). Kind: exact up to the
    error of a lattice, about 1e-6 of epsilon, which is rounded up.
    """

    base: LossPair
    steps: int
    removed: bool

    @property
    def max_divergence(self) -> float:
        """That of the base, which is attained if all steps have their largest loss."""
        return self.base.max_divergence

    @property
    def order_limit(self) -> float:
        """That of the base."""
        return self.base.order_limit

    @property
    def is_expensive(self) -> bool:
        """False: the lattices are cached, and compositions take the table of losses."""
        return False

    @property
    def curve_cost(self) -> float:
        """Cost of a look-up in the cached lattices, with a part of their making."""
        return 5.0

    @property
    def from_table(self) -> bool:
        """True if the base is tabulated."""
        return self.base.from_table

    def ceiling(self, orders: FloatArray) -> FloatArray:
        """The Rényi curve of the base."""
        return self.base.renyi(orders)

    def reverse(self) -> "AllocationPair":
        """The other direction, with the reverse of the base."""
        return self._reversed

    @cached
    def _reversed(self) -> "AllocationPair":
        """The reversed pair, created once, so that its lattices are kept; its own reverse is this pair."""
        made = AllocationPair(base=self.base.reverse(), steps=self.steps, removed=not self.removed)
        stored(made, "AllocationPair._reversed", lambda: self)
        return made

    def discretize(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """The table of losses, split among the nodes; beyond its end, dots of the curve are connected."""
        return self._table.discretize(nodes) if nodes[-1] <= self._table.end else LossPair.discretize(self, nodes)

    @cached
    def _table(self) -> LossTable:
        """Losses and their masses, both directions of which are taken from the lattices."""
        return LossTable.of(self)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Log delta from the lattice made for each epsilon >= 0; for epsilon < 0 from the reversed pair."""
        e = np.asarray(epsilon, dtype=np.float64)
        above = self._above_zero(np.maximum(e, 0.0).ravel()).reshape(e.shape)
        if not (e < 0.0).any():
            return above
        below = self.reverse()._above_zero(np.maximum(-e, 0.0).ravel()).reshape(e.shape)
        return np.where(e >= 0.0, above, delta_below_zero(e, below))

    def least_epsilon(self, log_delta: float) -> float:
        """Smallest epsilon at a log delta, by halving where the curve is that of one lattice, rounded up."""
        ends, goal = self._ends, log_delta
        at = sum(self._approximate(end) > goal for end in ends)
        while at > 0 and self._value(ends[at - 1]) <= goal:
            at -= 1
            if self._left(at) > goal:
                return ends[at]
        while at < len(ends) and self._left(at) > goal:
            at += 1
        low = (0.0, *ends)[at]
        high = float(np.nextafter(ends[at], 0.0)) if at < len(ends) else self._top
        if self._value(low) <= goal:
            return low
        if not (high == self.max_divergence or self._value(high) <= goal):
            return self.base.least_epsilon(goal)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self._value(middle) <= goal else (middle, high)
        return high

    def _left(self, at: int) -> float:
        """Log delta just below an end, from the lattice that ends there."""
        return self._value(float(np.nextafter(self._ends[at], 0.0)))

    def _value(self, epsilon: float) -> float:
        """Log delta at one epsilon >= 0."""
        return float(self._above_zero(np.array([epsilon]))[0])

    def _above_zero(self, epsilon: FloatArray) -> FloatArray:
        """Log delta at each epsilon >= 0, shape (epsilons,), non-increasing."""
        result, ends = np.full(epsilon.shape, -np.inf), np.array(self._ends)
        level = np.searchsorted(ends, epsilon, side="right")
        inside = epsilon < self.max_divergence
        for at in np.unique(level[inside]):
            rows = inside & (level == at)
            result[rows] = self._far(epsilon[rows]) if at == len(ends) else self._on_level(int(at), epsilon[rows])
        return np.minimum(result, 0.0)

    @property
    def _top(self) -> float:
        """The epsilon above which the curve of the base is used."""
        return min(self.max_divergence, _MOST_REMOVING if self.removed else _MOST_ADDING)

    @cached
    def _coarse(self) -> CoarseLaw:
        """The plan of all lattices."""
        pair = self.base if self.removed else self.base.reverse()
        return CoarseLaw.of(RatioCurves(pair=pair, above=self.removed), self.steps)

    @cached
    def _ends(self) -> tuple[float, ...]:
        """The epsilons up to which the lattices are used, in increasing order; any choice is valid."""
        top, low, last = self._top, 0.0, 0.0
        found: list[float] = []
        floor = self._approximate(top)
        for level in _LEVELS:
            goal, high = self._coarse.log_scale + level, top
            low = max(low, min(self._coarse.scale, top) * 1e-6)
            for _ in range(12 if floor < goal else 0):
                middle = float(np.sqrt(low * high))
                low, high = (middle, high) if self._approximate(middle) > goal else (low, middle)
            jumps = self.removed and self._coarse.jumps(float(self._threshold(np.array(high))))
            widest, ratio = (_WIDEST, _RATIO) if jumps else (4 * _WIDEST, np.inf)
            while high > (longer := min(last + widest, last * ratio if last else np.inf)):
                found.append(longer)
                last = longer
            found.append(high)
            last = low = high
            if high == top:
                break
        return tuple(found)

    def _approximate(self, epsilon: float) -> float:
        """Approximate log delta at one epsilon >= 0."""
        return self._coarse.log_excess(float(self._threshold(np.array(epsilon)))) + self._factor(epsilon)

    def _threshold(self, epsilon: FloatArray) -> FloatArray:
        """The threshold of the mean: S - 1 above e^epsilon - 1, or 1 - S above 1 - e^-epsilon; rounded down."""
        found = np.expm1(epsilon) if self.removed else -np.expm1(-epsilon)
        return np.asarray(found * (1.0 - 4 * _ULP))

    def _factor(self, epsilon: float) -> float:
        """Log of the factor of the excess over the threshold."""
        return 0.0 if self.removed else epsilon

    def _on_level(self, at: int, epsilon: FloatArray) -> FloatArray:
        """Log delta from one lattice."""
        found = self._lattices.get(at)
        if found is None:
            self._lattices[at] = found = self._lattice(at)
        factor = 0.0 if self.removed else epsilon
        return found.log_excess(self._threshold(epsilon)) + factor + 4 * _ULP * (1.0 + epsilon)

    def _lattice(self, at: int) -> MeanTail:
        """The lattice for the epsilons between two ends."""
        low, high = (0.0, *self._ends)[at : at + 2]
        ends = [float(self._threshold(np.array(e))) for e in (low, high)]
        ratios = [np.exp(e if self.removed else -e) for e in (low, high)]
        deep = self._approximate(low) < self._coarse.log_scale + _DEEP
        tolerance = (_DEEP_TOLERANCE if deep else _TOLERANCE) * max(low, self._ends[0] / 3)
        return MeanTail.of(self._coarse, ends[0], ends[1], (ratios[0], ratios[1]), tolerance)

    @cached
    def _lattices(self) -> dict[int, MeanTail]:
        """The lattices that have been made, by their place among the ends."""
        return {}

    def _far(self, epsilon: FloatArray) -> FloatArray:
        """Log delta beyond all lattices: at most the value at the last end, and the curve of the base."""
        known = np.minimum(self.base.log_delta(epsilon), self._left(len(self._ends) - 1))
        return np.asarray(np.minimum(known, self._far_chords(epsilon)))

    @cached
    def _far_chords(self) -> CurveChords:
        """A table of coarse bounds beyond the last end."""
        top = self._top
        nodes = np.unique(np.append(np.geomspace(self._ends[-1], top, _FAR_VALUES), top))
        bounds = [self._coarse.log_bound(float(self._threshold(e))) + self._factor(float(e)) for e in nodes]
        return CurveChords(nodes, np.minimum.accumulate(np.minimum(bounds, 0.0)))


def allocation_pair(base: LossPair, steps: int, *, removed: bool) -> LossPair:
    """The pair of one of `steps` releases: the base for one step, a table for a finite base, or an AllocationPair."""
    if steps == 1:
        return base
    if isinstance(base, DiscretePair) and comb(steps + len(base.loss) - 1, steps) <= _MOST_OUTCOMES:
        return _enumerated(base, steps) if removed else _enumerated(base.reverse(), steps).reverse()
    return AllocationPair(base=base, steps=steps, removed=removed)


def allocation_pairs(removal: LossPair, addition: LossPair, steps: int) -> tuple[LossPair, LossPair]:
    """The pairs of both directions; if the base's are each other's reverse, they share their lattices."""
    pair = allocation_pair(removal, steps, removed=True)
    if addition == removal.reverse():
        return pair, pair.reverse()
    return pair, allocation_pair(addition, steps, removed=False)


def _enumerated(base: DiscretePair, steps: int) -> DiscretePair:
    """Removal for a finite table: the numbers of each outcome among t draws of B, and the mean of their ratios.

    The mean of ratios near 1 loses all digits of its logarithm in doubles. Masses and losses are therefore computed by
    ball arithmetic and rounded once to doubles, an error that the curves of DiscretePair add.
    """
    finite = ~(np.isposinf(base.loss) | np.isneginf(base.log_q))
    log_q, loss = base.log_q[finite].tolist(), base.loss[finite].tolist()
    counts, _ = outcome_counts(len(loss), steps)
    arb = flint().arb
    masses, means = [], []
    with WorkingPrecision(_BITS):
        logs, ratios = [arb(x) for x in log_q], [arb(x).exp() if np.isfinite(x) else arb(0) for x in loss]
        for row in counts.tolist():
            drawn = [(count, j) for j, count in enumerate(row) if count]
            ways = factorial(steps) // prod(factorial(count) for count, _ in drawn)
            masses.append(float((arb(ways).log() + sum(count * logs[j] for count, j in drawn)).mid()))
            mean = sum((count * ratios[j] for count, j in drawn), start=arb(0)) / steps
            means.append(float(mean.log().mid()) if mean > 0 else -np.inf)
    log_mass, log_mean = np.array(masses), np.array(means)
    infinite = np.logaddexp.reduce(base.log_p[~finite], initial=-np.inf)
    more = [] if np.isneginf(infinite) else [float(infinite)]
    return DiscretePair(
        log_p=np.append(log_mass + log_mean, more),
        log_q=np.append(log_mass, np.full(len(more), -np.inf)),
        loss=np.append(log_mean, np.full(len(more), np.inf)),
    )
