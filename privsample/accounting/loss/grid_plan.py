"""Choice of the grid for a composition: truncation bounds of each loss, tilt, truncation bounds of the sum, step.

Approximate values suffice here: every choice gives a valid upper bound, and a poor choice gives a loose one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import log1mexp
from privsample.accounting.loss.pair import DiscretePair, LossPair

NEGLIGIBLE = 36.0  # a share e^-36 of the result may lie beyond the truncation bounds

_EPS = float(np.finfo(np.float64).eps)
_TOLERANCE = 3e-7  # discretization error of epsilon in nats, which determines the step (grid.md, section 3)
_NODES, _MOST_NODES = 1025, 2**22  # nodes of the approximation of one loss; largest size of a grid
_MANY, _SHORT = 32, 30.0  # members from which a tree convolves them; largest losses of members planned together
_MOST_IN_ALL = 1e7  # largest number of nodes of all lattices in a tree: about four seconds
_FEWEST_NODES, _PLANNED = 129, 512  # nodes of the approximation of one of many losses; members evaluated together
FAR = 300.0  # distance from the centre, in nats, up to which losses and log masses are represented
LEAST_LOG_DELTA = -1e4  # log delta below which tails are not resolved
_NEAR = 0.01  # relative excess over the smallest bound that is accepted for a smaller tilt
_LOSSES = np.geomspace(1e-12, 1e7, 39)  # first scan for the truncation bounds


@dataclass(frozen=True, slots=True)
class ApproxLoss:
    """Approximate masses of one member's loss on a coarse grid between its truncation bounds."""

    pair: LossPair
    times: int
    nodes: FloatArray
    log_p: FloatArray

    @classmethod
    def of(cls, pair: LossPair, times: int, log_delta: float, count: int = _NODES) -> "ApproxLoss":
        """Discretize a pair for a composition with `times` releases and about this log delta, to `count` nodes."""
        goal = log_delta - float(np.log(times)) - NEGLIGIBLE
        reverse, high = pair.reverse(), upper_truncation(pair, goal)
        nodes = np.linspace(-high if reverse == pair else -upper_truncation(reverse, goal), high, count)
        return cls(pair=pair, times=times, nodes=nodes, log_p=pair.approx_discretize(nodes))

    def log_mgf(self, tilts: FloatArray) -> FloatArray:
        """Approximate log moment generating function at each tilt."""
        return np.logaddexp.reduce(self.log_p + tilts[:, None] * self.nodes, axis=1)

    def low(self, c: float) -> float:
        """Lower truncation bound at tilt c: the tilted mass below it is negligible even when moved up to it."""
        moved = np.logaddexp.accumulate(self.log_p) + c * self.nodes
        most = self.log_mgf(np.array([c]))[0] - np.log(self.times) - NEGLIGIBLE
        return float(self.nodes[max(int(np.argmax(moved > most)) - 1, 0)])

    @property
    def excess_mass(self) -> float:
        """Excess of the total mass over 1, which rounding up causes, times the squared step.

        The excess is inversely proportional to the squared step, so that the product applies to every step.
        """
        return max(float(np.expm1(np.logaddexp.reduce(self.log_p))), 0.0) * float(self.nodes[1] - self.nodes[0]) ** 2

    def variance(self, c: float) -> float:
        """Approximate variance of the tilted loss."""
        log_mass = self.log_p + c * self.nodes
        mass = np.exp(log_mass - log_mass.max())
        mass /= mass.sum()
        return float(mass @ (self.nodes - mass @ self.nodes) ** 2)


@dataclass(frozen=True, slots=True)
class ShortLosses:
    """Many members with a `largest_loss`, which are planned from their moments; together they count once."""

    members: Sequence[tuple[LossPair, int]]
    times: int = 1
    known: dict[bytes, FloatArray] = field(default_factory=dict)

    def log_mgf(self, tilts: FloatArray) -> FloatArray:
        """Sum of the log moment generating functions at each tilt > 0; computed once for the same tilts."""
        key = tilts.tobytes()
        if key not in self.known:
            total = np.zeros_like(tilts)
            for same, times in self._parts():
                total += times @ same[0].approx_log_mgf(same, tilts)
            self.known[key] = total
        return self.known[key]

    def split_releases(self, c: float) -> float:
        """Approximate number of releases, each weighted with its tilted mass that does not lie on the largest loss."""
        total = 0.0
        for same, times in self._parts():
            log_moments = same[0].approx_log_mgf(same, np.array([c]))[:, 0]
            at_top = np.array([pair.log_top_mass + c * pair.max_divergence for pair in same]) - log_moments
            total += float(times @ -np.expm1(np.minimum(at_top, 0.0)))
        return total

    def _parts(self) -> Iterator[tuple[list[LossPair], FloatArray]]:
        """Members of one class, a few hundred at a time, and their multiplicities."""
        for kind in dict.fromkeys(type(pair) for pair, _ in self.members):
            same = [(pair, times) for pair, times in self.members if type(pair) is kind]
            for first in range(0, len(same), _PLANNED):
                pairs, times = zip(*same[first : first + _PLANNED], strict=True)
                yield list(pairs), np.array(times, dtype=np.float64)


Ranges = Sequence[ApproxLoss | ShortLosses]


def is_many(members: Sequence[tuple[LossPair, int]]) -> bool:
    """True if a composition has so many members that they are convolved in a tree."""
    return len(members) >= _MANY


def plan(members: Sequence[tuple[LossPair, int]], log_delta: float) -> Ranges:
    """Approximations for a composition with about this log delta; of many members, the short ones together."""
    if is_many(members):
        others = [entry for entry in members if not _is_short(entry[0])]
        count = max(_NODES * _MANY // max(len(others), _MANY), _FEWEST_NODES)
        short = ShortLosses(members=[entry for entry in members if _is_short(entry[0])])
        return [short, *(ApproxLoss.of(pair, times, log_delta, count) for pair, times in others)]
    return [ApproxLoss.of(pair, times, log_delta) for pair, times in members]


def _is_short(pair: LossPair) -> bool:
    """True if the pair has a largest loss that is small enough for a lattice on all its losses."""
    largest = pair.largest_loss
    return largest is not None and largest <= _SHORT


def tilted_deviation(ranges: Ranges, c: float) -> float:
    """Approximate standard deviation of the tilted sum, by a second difference of the log moments."""
    away = 0.1 * c
    low, middle, high = log_mgf(ranges, np.array([c - away, c, c + away]))
    return float(np.sqrt(max(high - 2 * middle + low, 0.0))) / away


def tree_step(ranges: Ranges, c: float, deviation: float) -> float:
    """As `grid_step`, for members whose lattices end at their largest losses.

    If all lattices together would have more than `_MOST_IN_ALL` nodes, the step and the error of epsilon are larger.
    """
    others = [loss for loss in ranges if isinstance(loss, ApproxLoss)]
    short = [loss for loss in ranges if isinstance(loss, ShortLosses)]
    count = sum(loss.split_releases(c) for loss in short) + sum(loss.times for loss in others)
    excess_mass = sum(member.times * member.excess_mass for member in others)
    wanted = max(12 * _TOLERANCE, np.sqrt(12 * count * excess_mass)) / (count * (c + 1))
    widths = [float(member.nodes[-1] - member.low(c)) for member in others]
    widths += [2 * (pair.largest_loss or 0.0) for loss in short for pair, _ in loss.members]
    least = max(max(widths) / _MOST_NODES, sum(widths) / _MOST_IN_ALL)
    return float(max(min(np.sqrt(wanted), max(deviation, 1e-12) / 512), least))


def approx_log_infinity_mass(pair: LossPair) -> float:
    """Approximate log infinity mass of one pair."""
    if _is_short(pair):
        return -np.inf
    return float(pair.approx_log_delta(_LOSSES[-1:])[0])


def approx_log_infinite(members: Sequence[tuple[LossPair, int]]) -> float:
    """Approximate log infinity mass of a composition."""
    return float(log1mexp(sum(times * log_complement(approx_log_infinity_mass(pair)) for pair, times in members)))


def log_complement(log_share: float) -> float:
    """log(1 - e^log_share); -inf if the share is 1 or more."""
    return float(np.log1p(-np.exp(log_share))) if log_share < 0.0 else -np.inf


def upper_truncation(pair: LossPair, goal: float) -> float:
    """A loss above which the finite part of delta is about e^goal, at most the max divergence."""
    losses, floor = _LOSSES, approx_log_infinity_mass(pair)
    enough = max(goal, floor - 30.0)
    for _ in range(4):
        curve = pair.approx_log_delta(losses)
        left = curve + log1mexp(np.minimum(np.maximum(floor, -1e300) - curve, 0.0)) > enough
        at = int(np.argmin(np.append(left, False)))
        losses = np.linspace(losses[max(at - 1, 0)], losses[min(at, len(losses) - 1)], 9)
    return float(min(losses[-1], pair.max_divergence))


def log_mgf(ranges: Ranges, tilts: FloatArray) -> FloatArray:
    """Approximate log moment generating function of the sum at each tilt."""
    return np.sum([member.times * member.log_mgf(tilts) for member in ranges], axis=0)


def log_tail_bound(ranges: Ranges, tilts: FloatArray) -> FloatArray:
    """Approximate logarithm of the smallest h with delta(e) <= h e^{-ce}, at each tilt c.

    Follows from 1 - e^{e-l} <= e^{c(l-e)} (c/(c+1))^c/(c+1).
    """
    return log_mgf(ranges, tilts) - np.log1p(tilts) - tilts * np.log1p(1 / tilts)


def best_tilt(
    ranges: Ranges, bound: Callable[[FloatArray, FloatArray], FloatArray], slack: float = _NEAR
) -> tuple[float, float]:
    """The smallest tilt whose bound is nearly the smallest, and that smallest bound.

    Nearly means within a relative `slack`, at most 2 nats. Every tilt is valid; a large tilt needs a small step.
    """
    x, tilt, least = np.linspace(-12.0, 18.0, 91), 1.0, np.inf
    for _ in range(2):
        values = bound(np.exp(x), log_tail_bound(ranges, np.exp(x)))
        best = int(np.argmax(values <= values.min() + min(slack * abs(float(values.min())), 2.0)))
        tilt, least = float(np.exp(x[best])), min(least, float(values.min()))
        x = np.linspace(x[max(best - 1, 0)], x[min(best + 1, len(x) - 1)], 17)
    return tilt, least


def tilt_at(ranges: Ranges, log_delta: float) -> tuple[float, float]:
    """The tilt near the saddle point of a log delta, and about the epsilon there."""
    _, centre = best_tilt(ranges, lambda c, height: (height - log_delta) / c, 0.0)
    tilt, _ = best_tilt(ranges, lambda c, height: height - c * centre)
    return tilt, centre


@dataclass(frozen=True, slots=True)
class TiltRange:
    """The tilt of a grid, the loss at its saddle point, and the largest tilt that the step allows for.

    `is_capped` is True if some log deltas of the range have larger tilts than that.
    """

    tilt: float
    centre: float
    largest: float
    is_capped: bool = False

    @classmethod
    def of(cls, ranges: Ranges, log_deltas: tuple[float, float, float], growth: float) -> "TiltRange":
        """For the first, the centre and the last of some log deltas; no tilt is above `growth` times the first."""
        first, middle, last = (tilt_at(ranges, log_delta) for log_delta in log_deltas)
        most = growth * first[0]
        if middle[0] <= most:
            largest = max(last[0], middle[0])
            return cls(middle[0], max(middle[1], 0.0), min(largest, most), is_capped=largest > most)
        tilts = most * np.array([0.99, 1.01])
        slope = float(np.diff(log_tail_bound(ranges, tilts))[0] / np.diff(tilts)[0])
        return cls(most, max(slope, 0.0), most, is_capped=True)


def truncation_bounds(
    ranges: Sequence[ApproxLoss], c: float, deviation: float, log_delta: float
) -> tuple[float, float, float]:
    """Truncation bounds (low, high) of the sum, and the tilt of the Chernoff bound on the mass above `high`.

    Sums below `low` have negligible tilted mass; sums above `high` have negligible tilted mass or a mass that is
    negligible relative to delta.
    """
    away = np.geomspace(0.1, 100.0, 61) / max(deviation, 1e-12)
    here, below, above = log_mgf(ranges, np.array([c]))[0], log_mgf(ranges, c - away), log_mgf(ranges, c + away)
    low = np.max((here - below - NEGLIGIBLE) / away)
    tilted = np.min((above - here + NEGLIGIBLE) / away)
    plain = (above - log_delta + NEGLIGIBLE) / (c + away)
    most = sum(member.times * member.nodes[-1] for member in ranges)
    least = sum(member.times * member.nodes[0] for member in ranges)
    return max(float(low), least), min(max(float(tilted), float(plain.min())), most), float(c + away[plain.argmin()])


def grid_step(ranges: Sequence[ApproxLoss], c: float, deviation: float, width: float) -> float:
    """Step of the grid: discretization adds step^2/6 to each variance, and (c+1)/2 of that to epsilon.

    The rounding error of the masses grows as the step decreases, so the step is not smaller than necessary.
    """
    count = sum(member.times for member in ranges)
    excess_mass = sum(member.times * member.excess_mass for member in ranges)  # times step^2
    wanted = max(12 * _TOLERANCE, np.sqrt(12 * count * excess_mass)) / (count * (c + 1))
    longest = max([width, *(member.nodes[-1] - member.low(c) for member in ranges)])
    least = longest / _MOST_NODES
    step = max(min(np.sqrt(wanted), max(deviation, 1e-12) / 512), least)
    enough = max(step / 16, least)
    anchor = max(
        ranges, key=lambda own: (own.times * (enough <= own.pair.max_divergence < np.inf), -own.pair.max_divergence)
    ).pair
    above = 1.0 + 8 * _EPS  # rounding must not place an atom above its node, where its mass would be split
    if isinstance(anchor, DiscretePair):  # if all losses are multiples of one, all atoms lie on nodes: no split at all
        losses = np.abs(anchor.loss[np.isfinite(anchor.loss) & (anchor.loss != 0.0)])
        unit = float(losses.min(initial=np.inf))
        others = [member.pair for member in ranges]
        if least <= unit < np.inf and all(isinstance(pair, DiscretePair) and _multiples(pair, unit) for pair in others):
            return unit * above
    if enough <= anchor.max_divergence < np.inf:
        step = anchor.max_divergence / np.ceil(anchor.max_divergence / step) * above
    return float(step)


def _multiples(pair: DiscretePair, unit: float) -> bool:
    """True if all finite losses are integer multiples of `unit`, up to rounding."""
    ratio = pair.loss[np.isfinite(pair.loss)] / unit
    return bool(np.all(np.abs(ratio - np.round(ratio)) <= 4 * _EPS * np.abs(ratio)))
