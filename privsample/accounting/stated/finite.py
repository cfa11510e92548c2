"""Dominating pairs on finite sets: large tables, chains for groups, and pairs conditional on a finite loss."""

from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._logspace import log1mexp
from privsample._value import frozen_value, set_fields
from privsample.accounting.loss.exact import CertifiedPair
from privsample.accounting.loss.pair import DiscretePair, LossPair

LARGE = 1024  # number of outcomes above which cumulative sums are stored in extended precision
_ULP = float(np.finfo(np.float64).eps)
_WIDE = np.longdouble
_WIDE_ULP = float(np.finfo(_WIDE).eps)
_BLOCK = 1 << 20


@frozen_value
class LargeTable(LossPair):
    """A DiscretePair with many outcomes, whose privacy curve at its own losses is computed once.

    Between two losses the curve is linear in e^epsilon. From the largest loss downwards it grows by positive terms, so
    nothing cancels. The rounding error of the sums is added. Kind: exact, rounded up.
    """

    table: DiscretePair
    _loss: FloatArray = field(init=False, repr=False, compare=False)
    _log_tail_q: FloatArray = field(init=False, repr=False, compare=False)
    _log_curve: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        used = np.isfinite(self.table.loss)
        order = np.argsort(self.table.loss[used], kind="stable")
        loss, log_p = self.table.loss[used][order], self.table.log_p[used][order]
        tail = np.logaddexp.accumulate((np.asarray(log_p, dtype=_WIDE) - loss)[::-1])[::-1]
        steps = tail[1:] + loss[1:] + log1mexp(loss[:-1] - loss[1:])
        beyond = np.logaddexp.reduce(self.table.log_p[np.isposinf(self.table.loss)], initial=-np.inf)
        curve = np.logaddexp.accumulate(np.append(_WIDE(beyond), steps[::-1]))[::-1]
        set_fields(self, _loss=loss, _log_tail_q=_raised(tail), _log_curve=_raised(curve))

    @property
    def max_divergence(self) -> float:
        """The largest loss."""
        return self.table.max_divergence

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The value at the next larger loss, extended linearly in e^epsilon."""
        e = np.asarray(epsilon, dtype=np.float64)
        at = np.searchsorted(self._loss, e, side="right")
        above = np.minimum(at, len(self._loss) - 1)
        gap = np.minimum(e - self._loss[above], 0.0)
        # the rounding of the two losses widens the gap, which raises delta
        gap = gap - np.where(gap < 0.0, _ULP * (np.abs(self._loss[above]) + np.abs(e)), 0.0)
        grown = np.logaddexp(self._log_curve[above], self._log_tail_q[above] + self._loss[above] + log1mexp(gap))
        found = np.where(at < len(self._loss), grown, self._log_curve[-1])
        return np.minimum(found + 4 * _ULP * (1.0 + np.abs(np.maximum(found, -1e300))), 0.0)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The Rényi curve of the table, computed for a few orders at a time to bound the memory."""
        a = np.asarray(orders, dtype=np.float64)
        parts = np.array_split(a.ravel(), max(a.size * len(self.table.loss) // _BLOCK, 1))
        return np.concatenate([self.table.renyi(part) for part in parts]).reshape(a.shape)

    def reverse(self) -> "LargeTable":
        """The pair with exchanged distributions."""
        return LargeTable(table=self.table.reverse())

    def certified_pair(self) -> CertifiedPair:
        """The table."""
        return self.table.certified_pair()

    def discretize(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """Split the mass of each outcome between the two nodes around its loss."""
        return self.table.discretize(nodes)


def _raised(values: NDArray[np.longdouble]) -> FloatArray:
    """Round logarithms of sums up to doubles by more than the error of the sums."""
    size = 2.0 + np.abs(np.where(np.isfinite(values), values, 0.0))
    return np.asarray(values + (len(values) * _WIDE_ULP + 4 * _ULP) * size, dtype=np.float64)


def finite_pair(table: DiscretePair) -> LossPair:
    """The table as a DiscretePair if it is small, and as a LargeTable otherwise."""
    return table if len(table.loss) <= LARGE else LargeTable(table=table)


def rounded_table(p: FloatArray, q: FloatArray) -> DiscretePair:
    """The pair of masses >= 0 in floating point: columns are divided by their sums, outcomes of equal loss are merged.

    The loss of nearly equal masses is computed from their difference, so that small losses keep their digits.
    """
    used = (p > 0) | (q > 0)
    p, q = p[used], q[used]
    total_p, total_q = np.sum(p, dtype=_WIDE), np.sum(q, dtype=_WIDE)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        log_p, log_q, ratio = np.log(p), np.log(q), p / q
        far = np.where((ratio > 1e-300) & (ratio < 1e300), np.log(ratio), log_p - log_q)
        loss = np.where(np.abs(ratio - 1.0) < 0.5, np.log1p((p - q) / q), far)
    loss = np.where(p > 0, np.where(q > 0, loss - float(np.log1p((total_p - total_q) / total_q)), np.inf), -np.inf)
    return merged_table(log_p - float(np.log(total_p)), log_q - float(np.log(total_q)), loss)


def merged_table(log_p: FloatArray, log_q: FloatArray, loss: FloatArray) -> DiscretePair:
    """The pair with outcomes sorted by loss and outcomes of equal loss merged; masses are rounded up."""
    there = ~(np.isneginf(log_p) & np.isneginf(log_q))
    each, where = np.unique(loss[there], return_inverse=True)
    masses = []
    for log_mass in (log_p[there], log_q[there]):
        merged = np.full(len(each), -np.inf)
        np.logaddexp.at(merged, where, log_mass)
        masses.append(merged + 2 * _ULP * (1.0 + np.abs(np.where(np.isfinite(merged), merged, 0.0))))
    return DiscretePair(log_p=masses[0], log_q=masses[1], loss=each)


def chain(pair: DiscretePair, size: int) -> DiscretePair:
    """The worst pair (P_0, P_size) of distributions P_0, ..., P_size of which consecutive ones are dominated by `pair`.

    `pair` must be its own reverse. Source: Dong, Roth and Su 2022, Theorem 2.14; attained: stated.md, section 4.
    """
    result = pair
    for _ in range(size - 1):
        result = _link(result, pair)
    return result


def _link(first: DiscretePair, second: DiscretePair) -> DiscretePair:
    """The worst pair (P, R) of P, M, R for which (P, M) and (M, R) are dominated: comonotone likelihood ratios.

    Both pairs divide M's unit interval. Lengths are counted from the nearer end, so that the tails keep their relative
    accuracy; masses are raised by the rounding error.
    """
    lengths, losses = (np.exp(first.log_q), np.exp(second.log_p)), (first.loss, second.loss)
    pieces = []
    for side in (slice(None), slice(None, None, -1)):
        ends = [np.cumsum(length[side]) for length in lengths]
        cuts = np.unique(np.concatenate([[0.0], *(end[end < 0.5] for end in ends), [0.5]]))
        middle = (cuts[:-1] + cuts[1:]) / 2
        at = [np.minimum(np.searchsorted(end, middle), len(end) - 1) for end in ends]
        own = [loss[side][place] for loss, place in zip(losses, at, strict=True)]
        pieces.append((np.log(np.diff(cuts)), *own))
    log_m, before, after = (np.concatenate(column) for column in zip(*pieces, strict=True))
    with np.errstate(invalid="ignore"):
        loss = before + after  # NaN where only M has mass
    there = ~np.isnan(loss)
    # error of the cumulative sums of lengths
    rounding = 4 * _ULP * (len(log_m) + 2)
    only_p = np.logaddexp.reduce(first.log_p[np.isposinf(first.loss)], initial=-np.inf)
    only_r = np.logaddexp.reduce(second.log_q[np.isneginf(second.loss)], initial=-np.inf)
    log_p = np.concatenate([log_m[there] + before[there], [only_p, -np.inf]])
    log_r = np.concatenate([log_m[there] - after[there], [-np.inf, only_r]])
    return merged_table(log_p + rounding, log_r + rounding, np.concatenate([loss[there], [np.inf, -np.inf]]))


def infinity_mass(table: DiscretePair) -> float:
    """P's mass where Q has none, rounded up."""
    log_mass = float(np.logaddexp.reduce(table.log_p[np.isposinf(table.loss)], initial=-np.inf))
    return float(np.exp(log_mass) * (1.0 + 8 * _ULP * (1.0 - log_mass))) if log_mass > -np.inf else 0.0


def largest_finite_loss(table: DiscretePair) -> float:
    """The pure epsilon conditional on a finite loss, rounded up."""
    return max(float(table.loss[np.isfinite(table.loss)].max(initial=0.0)), 0.0) * (1.0 + 2 * _ULP)


def given_finite_loss(table: DiscretePair) -> LossPair:
    """A pair (P', Q') whose Rényi curve bounds that of (P, Q) conditional on a finite loss.

    With f = P(Q is 0), P = f X + (1 - f) P', and Q >= (1 - f) Q' for Q' = Q/(1 - f) on the support of P'. If Q' has
    mass above 1 it is scaled down, which only raises the curve (stated.md, section 3).
    """
    if not np.isposinf(table.loss).any():
        return finite_pair(table)
    both = np.isfinite(table.loss)
    kept, shared = (float(np.logaddexp.reduce(masses[both])) for masses in (table.log_p, table.log_q))
    scale = max(kept, shared)
    with np.errstate(divide="ignore"):
        rest = np.log(max(-np.expm1(shared - scale), 0.0))
    log_p, log_q = np.append(table.log_p[both] - kept, -np.inf), np.append(table.log_q[both] - scale, rest)
    return finite_pair(merged_table(log_p, log_q, np.append(table.loss[both] + (scale - kept), -np.inf)))
