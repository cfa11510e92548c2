"""How to lay a lattice for losses that add up: where each loss matters, the tilt, the window and the step.

Nothing here is certified or has to be: any choice gives a valid result, a bad one a loose result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import log1mexp
from privsample.accounting.loss.pair import DiscretePair, LossPair

NEGLIGIBLE = 36.0  # e^-36 of the result may lie outside the window

_EPS = float(np.finfo(np.float64).eps)
_TOLERANCE = 3e-7  # of epsilon: sets the step of the lattice
_NODES, _MOST_NODES = 1025, 2**22
_NEAR = 0.01
_LOSSES = np.geomspace(1e-12, 1e7, 39)


@dataclass(frozen=True, slots=True)
class Range:
    """One member: where its loss matters, and about its masses there, on few nodes."""

    pair: LossPair
    times: int
    nodes: FloatArray
    log_p: FloatArray

    @classmethod
    def of(cls, pair: LossPair, times: int, log_delta: float) -> "Range":
        goal = log_delta - float(np.log(times)) - NEGLIGIBLE
        reverse, high = pair.reverse(), reach(pair, goal)
        nodes = np.linspace(-high if reverse == pair else -reach(reverse, goal), high, _NODES)
        return cls(pair=pair, times=times, nodes=nodes, log_p=pair.approx_discretize(nodes))

    def height(self, tilts: FloatArray) -> FloatArray:
        """log M at each tilt, about."""
        return np.logaddexp.reduce(self.log_p + tilts[:, None] * self.nodes, axis=1)

    def low(self, c: float) -> float:
        """A loss up to which all smaller ones may be moved: their tilted mass is next to nothing even there."""
        moved = np.logaddexp.accumulate(self.log_p) + c * self.nodes
        most = self.height(np.array([c]))[0] - np.log(self.times) - NEGLIGIBLE
        return float(self.nodes[max(int(np.argmax(moved > most)) - 1, 0)])

    @property
    def noise(self) -> float:
        """By how much the masses add up to more than one, times the squared step, which it falls with."""
        return max(float(np.expm1(np.logaddexp.reduce(self.log_p))), 0.0) * float(self.nodes[1] - self.nodes[0]) ** 2

    def variance(self, c: float) -> float:
        """Of the tilted loss, about."""
        log_mass = self.log_p + c * self.nodes
        mass = np.exp(log_mass - log_mass.max())
        mass /= mass.sum()
        return float(mass @ (self.nodes - mass @ self.nodes) ** 2)


def infinite(pair: LossPair) -> float:
    """About the log mass of infinite losses."""
    return float(pair.approx_log_delta(_LOSSES[-1:])[0])


def reach(pair: LossPair, goal: float) -> float:
    """A loss above which little more than e^goal is left, beside what is lost at an infinite one."""
    losses, floor = _LOSSES, infinite(pair)
    enough = max(goal, floor - 30.0)
    for _ in range(4):
        curve = pair.approx_log_delta(losses)
        left = curve + log1mexp(np.minimum(np.maximum(floor, -1e300) - curve, 0.0)) > enough
        at = int(np.argmin(np.append(left, False)))
        losses = np.linspace(losses[max(at - 1, 0)], losses[min(at, len(losses) - 1)], 9)
    return float(min(losses[-1], pair.max_divergence))


def height(ranges: Sequence[Range], tilts: FloatArray) -> FloatArray:
    """log M of the sum, about."""
    return np.sum([member.times * member.height(tilts) for member in ranges], axis=0)


def chernoff(ranges: Sequence[Range], tilts: FloatArray) -> FloatArray:
    """log of about the least h with delta(e) <= h e^{-ce}: 1 - e^{e-l} <= e^{c(l-e)} (c/(c+1))^c/(c+1)."""
    return height(ranges, tilts) - np.log1p(tilts) - tilts * np.log1p(1 / tilts)


def least_bound(
    ranges: Sequence[Range], bound: Callable[[FloatArray, FloatArray], FloatArray], slack: float = _NEAR
) -> tuple[float, float]:
    """The smallest tilt whose bound (nats) is the least but for a share `slack` of it, at most 2 nats; and the least.

    Any tilt is valid; a large one is dear.
    """
    x, tilt, least = np.linspace(-12.0, 18.0, 91), 1.0, np.inf
    for _ in range(2):
        values = bound(np.exp(x), chernoff(ranges, np.exp(x)))
        best = int(np.argmax(values <= values.min() + min(slack * abs(float(values.min())), 2.0)))
        tilt, least = float(np.exp(x[best])), min(least, float(values.min()))
        x = np.linspace(x[max(best - 1, 0)], x[min(best + 1, len(x) - 1)], 17)
    return tilt, least


def window(ranges: Sequence[Range], c: float, deviation: float, log_delta: float) -> tuple[float, float, float]:
    """Sums outside (low, high) hardly matter, by tilted mass or, above, beside delta; the tilt that bounds those."""
    away = np.geomspace(0.1, 100.0, 61) / max(deviation, 1e-12)
    here, below, above = height(ranges, np.array([c]))[0], height(ranges, c - away), height(ranges, c + away)
    low = np.max((here - below - NEGLIGIBLE) / away)
    tilted = np.min((above - here + NEGLIGIBLE) / away)
    plain = (above - log_delta + NEGLIGIBLE) / (c + away)
    most = sum(member.times * member.nodes[-1] for member in ranges)
    least = sum(member.times * member.nodes[0] for member in ranges)
    return max(float(low), least), min(max(float(tilted), float(plain.min())), most), float(c + away[plain.argmin()])


def lattice_step(ranges: Sequence[Range], c: float, deviation: float, width: float) -> float:
    """The lattice's step: joining by lines adds step^2/6 to each variance, and (c+1)/2 of that to epsilon.

    Rounding, which matters the more the smaller the step is, keeps it from being smaller than it has to be.
    """
    count = sum(member.times for member in ranges)
    noise = sum(member.times * member.noise for member in ranges)  # over step^2: what rounding up adds to the masses
    wanted = max(12 * _TOLERANCE, np.sqrt(12 * count * noise)) / (count * (c + 1))
    longest = max([width, *(member.nodes[-1] - member.low(c) for member in ranges)])
    least = longest / _MOST_NODES
    step = max(min(np.sqrt(wanted), max(deviation, 1e-12) / 512), least)
    enough = max(step / 16, least)
    anchor = max(
        ranges, key=lambda own: (own.times * (enough <= own.pair.max_divergence < np.inf), -own.pair.max_divergence)
    ).pair
    above = 1.0 + 8 * _EPS  # so that rounding leaves no atom above its node
    if isinstance(anchor, DiscretePair):  # its atoms fall on nodes: where all are multiples of one, nothing is lost
        losses = np.abs(anchor.loss[np.isfinite(anchor.loss) & (anchor.loss != 0.0)])
        unit = float(losses.min(initial=np.inf))
        others = [member.pair for member in ranges]
        if least <= unit < np.inf and all(isinstance(pair, DiscretePair) and _multiples(pair, unit) for pair in others):
            return unit * above
    if enough <= anchor.max_divergence < np.inf:
        step = anchor.max_divergence / np.ceil(anchor.max_divergence / step) * above
    return float(step)


def _multiples(pair: DiscretePair, unit: float) -> bool:
    ratio = pair.loss[np.isfinite(pair.loss)] / unit
    return bool(np.all(np.abs(ratio - np.round(ratio)) <= 4 * _EPS * np.abs(ratio)))
