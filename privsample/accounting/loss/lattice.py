"""Privacy curves of losses that add up: each becomes a discrete loss on a lattice that dominates it, and all convolve.

The convolution is that of masses tilted by e^{c loss}, c near the saddle point, so that its rounding is small beside
the tail that is asked for, however small that is. Whatever is cut off, folded back or rounded is added.
Source: Koskela, Jalko and Honkela 2020 (Fourier accountant); Doroshenko et al. 2022 (domination); notes, lattice.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from privsample._checks import FloatArray, check_memory
from privsample._logspace import log1mexp
from privsample.accounting.loss.lattice_plan import (
    NEGLIGIBLE,
    Range,
    chernoff,
    infinite,
    lattice_step,
    least_bound,
    window,
)
from privsample.accounting.loss.pair import LossPair

Members = Sequence[tuple[LossPair, int]]

_EPS = float(np.finfo(np.float64).eps)
_LEAST = -1e4  # log delta below which nothing is told apart
_FAR = 300.0  # nats by which losses, and logarithms of their masses, are told apart from the centre's


@dataclass(frozen=True, slots=True)
class Composition:
    """The privacy curve of the summed loss at lattice nodes, (nodes,), rounded up; linear in e^epsilon between them.

    delta(nodes) = e^scale delta + e^log_beyond; its slope below a node, in e^{epsilon - centre}, is -e^scale tail.
    """

    nodes: FloatArray
    delta: FloatArray
    tail: FloatArray
    step: float
    centre: float
    scale: float
    log_beyond: float
    reach: float
    drift: float

    def log_delta(self, epsilon: float) -> float:
        """log delta at epsilon; 0 more than a step below the first node, where it is not known; +inf without nodes."""
        if not len(self.nodes):  # the step is longer than what is told apart
            return np.inf
        at = int(np.searchsorted(self.nodes, epsilon - self.drift))
        if epsilon - self.drift < self.nodes[0] - self.step:
            return 0.0
        rest = self.delta[-1]
        if at < len(self.nodes):
            below = -np.expm1(epsilon - self.drift - self.nodes[at]) * np.exp(self.nodes[at] - self.centre)
            rest = self.delta[at] + self.tail[at] * below
        with np.errstate(divide="ignore"):
            near = self.scale + np.log(rest) + 8 * _EPS * (1 + abs(self.scale))
            return float(np.logaddexp(near, self.log_beyond)) + 8 * _EPS

    def epsilon(self, log_delta: float) -> float:
        """The least epsilon >= 0 with at most this log delta; +inf where what lies beyond the window is more."""
        if not log_delta > self.log_beyond:
            return np.inf
        goal = np.exp(min(log_delta - self.scale, 2 * _FAR)) * -np.expm1(self.log_beyond - log_delta)
        at = int((~(self.delta <= goal)).sum())  # what is no number counts as too high
        if at >= len(self.nodes):
            return np.inf
        with np.errstate(over="ignore"):  # a share above one, however large, says that epsilon lies below this node
            share = (goal - self.delta[at]) / max(self.tail[at] * np.exp(self.nodes[at] - self.centre), 1e-300)
        epsilon = self.nodes[at] + (np.log1p(-share) if share < 1.0 else -np.inf)
        epsilon = max(float(epsilon), float(self.nodes[at]) - self.step, 0.0) + self.drift
        return epsilon * (1 + 4 * _EPS) + 8 * _EPS * (1 + abs(self.scale))


def at_epsilon(members: Members, epsilon: float) -> Composition:
    """The composition that is sharp around this epsilon."""
    log_delta, floor = -NEGLIGIBLE, max(_log_lost(members) - NEGLIGIBLE, 4 * _LEAST)
    while True:  # how far the tails matter depends on how small delta is
        ranges = [Range.of(pair, times, log_delta) for pair, times in members]
        c, _ = least_bound(ranges, lambda c, height: np.maximum(height - c * epsilon, floor))
        found = float(np.clip(chernoff(ranges, np.array([c]))[0] - c * epsilon, floor, 0.0))
        if found >= log_delta or log_delta < _LEAST:
            break
        log_delta = 2 * found
    made = _compose(ranges, c, epsilon, found)
    return replace(made, reach=np.inf) if found == floor else made  # from here on only infinite losses matter


def _log_lost(members: Members) -> float:
    """About the log mass of infinite losses."""
    return float(log1mexp(sum(times * _log_finite(infinite(pair)) for pair, times in members)))


def at_log_delta(members: Members, log_delta: float) -> Composition:
    """The composition that is sharp around the epsilon of this log delta."""
    rest = log_delta + float(log1mexp(min(_log_lost(members) - log_delta, -1e-6)))  # beside infinite losses
    ranges = [Range.of(pair, times, rest) for pair, times in members]
    _, centre = least_bound(ranges, lambda c, height: (height - rest) / c, 0.0)
    c, _ = least_bound(ranges, lambda c, height: height - c * centre)
    return _compose(ranges, c, max(centre, 0.0), rest)


def _compose(ranges: Sequence[Range], c: float, centre: float, log_delta: float) -> Composition:
    deviation = float(np.sqrt(sum(member.times * member.variance(c) for member in ranges)))
    low, high, beyond = window(ranges, c, deviation, log_delta)
    low, high = min(low, centre - deviation), max(high, centre + deviation)
    step = lattice_step(ranges, c, deviation, high - low)
    dotted = [_Dotted.of(member, step, c) for member in ranges]
    from scipy.fft import next_fast_len

    first, count = int(np.floor(low / step)), sum(member.times for member in ranges)
    size, last, least = int((high - low) / step) + 2, _last(dotted), sum(d.times * d.first for d in dotted)
    if least < first and last - least < size + count:  # each member's start is rounded down, its end up
        first = least
    whole = last - first + 1
    size = next_fast_len(whole if size <= whole <= size + count else size, real=True)
    masses, lost = _convolved(dotted, size, first)
    nodes = step * (first + np.arange(size))
    masses = (masses + lost) * (1.0 + 2 * _EPS * (2.0 + c * (np.abs(nodes) + abs(centre))))
    p = masses * np.exp(np.clip(-c * (nodes - centre), -_FAR, 2 * _FAR))  # what is far above is rounded up
    used = (nodes >= max(centre - _FAR / (c + 1.0), -step)) & (nodes <= centre + _FAR)
    far = float(p[nodes > centre + _FAR].sum())
    p, nodes = p[used], nodes[used]
    tail = np.cumsum((p * np.exp(centre - nodes))[::-1])[::-1]
    falls = tail * np.exp(nodes - centre) * -np.expm1(-step)
    delta = np.append(np.cumsum(falls[:0:-1])[::-1], 0.0) + far
    slack = 1.0 + 4 * _EPS * len(nodes)
    sizes = abs(c * centre) + sum(d.times * (2.0 + abs(d.log_moment)) for d in dotted)
    scale = sum(d.times * d.log_moment for d in dotted) - c * centre + 8 * _EPS * sizes
    return Composition(
        nodes=nodes,
        delta=delta * slack,
        tail=tail * slack,
        step=step,
        centre=centre,
        scale=scale,
        log_beyond=_log_beyond(dotted, beyond, first + size - 1, step),
        reach=min(1.5 * deviation, _FAR / max(c, 1.0)),
        drift=_EPS * sum(d.times * float(np.abs(d.nodes[[0, -1]]).max()) for d in dotted),
    )


@dataclass(frozen=True, slots=True)
class _Dotted:
    """A member on the lattice: its tilted masses, which add up to one, from index `first` on."""

    times: int
    first: int
    nodes: FloatArray
    log_p: FloatArray
    tilted: FloatArray
    log_moment: float
    log_infinite: float

    @classmethod
    def of(cls, member: Range, step: float, c: float) -> "_Dotted":
        first, last = int(np.floor(member.low(c) / step)), int(np.ceil(member.nodes[-1] / step - 1e-9))
        nodes = np.arange(first, max(last, first + 1) + 1) * np.float64(step)
        log_p, log_infinite = member.pair.discretize(nodes)
        height = log_p + c * nodes
        top = height.max()
        spread = np.minimum(top - height, 1e3)
        rounding = 2.0 + abs(top) + spread + 2 * c * np.abs(nodes)  # of the exponents
        mass = np.exp(-spread) * (1.0 + 2 * _EPS * rounding)
        total = float(mass.sum())
        return cls(
            times=member.times,
            first=first,
            nodes=nodes,
            log_p=log_p,
            tilted=mass / total,
            log_moment=float(top + np.log(total)),
            log_infinite=log_infinite,
        )


def _convolved(dotted: Sequence[_Dotted], size: int, first: int) -> tuple[FloatArray, float]:
    """Tilted masses of the sum at first, first + 1, ... modulo `size`, and what rounding may take from each."""
    from scipy.fft import irfft, rfft

    noise = 8 * _EPS * np.log2(size)
    check_memory(size, lower="how many draws or releases are put together")
    log_total = np.zeros(size // 2 + 1, dtype=np.complex128)
    log_noisy = np.zeros(size // 2 + 1)
    for member in dotted:
        folded = np.bincount(np.arange(len(member.tilted)) % size, member.tilted, size)
        transform = rfft(folded)
        log_total += member.times * np.log(np.where(transform == 0.0, 1e-300, transform))
        log_noisy += member.times * np.log(np.abs(transform) + noise)
    count = sum(member.times for member in dotted)
    total = np.exp(log_total)
    height = np.exp(log_total.real)
    lost = 2.0 / size * float((np.exp(log_noisy) - height).sum() + (noise + 4 * _EPS * count) * height.sum())
    start = sum(member.times * member.first for member in dotted)
    return np.maximum(np.roll(irfft(total, size), (start - first) % size), 0.0), lost


def _last(dotted: Sequence[_Dotted]) -> int:
    """The index of the largest finite sum."""
    return sum(d.times * (d.first + len(d.nodes) - 1) for d in dotted)


def _log_finite(log_share: float) -> float:
    """log of what is left of one when this share is lost."""
    return float(np.log1p(-np.exp(log_share))) if log_share < 0.0 else -np.inf


def _log_beyond(dotted: Sequence[_Dotted], tilt: float, last: int, step: float) -> float:
    """log of a bound on the mass of sums above the window, whose last index is given, and of infinite ones."""
    masses = [float(np.logaddexp(np.logaddexp.reduce(d.log_p), d.log_infinite)) for d in dotted]
    excess = sum(d.times * max(mass, 0.0) for d, mass in zip(dotted, masses, strict=True))
    finite = sum(d.times * _log_finite(d.log_infinite - mass) for d, mass in zip(dotted, masses, strict=True))
    beyond = [excess + float(log1mexp(finite)) + 8 * _EPS]
    if last < _last(dotted):
        moments = [d.times * float(np.logaddexp.reduce(d.log_p + tilt * d.nodes)) for d in dotted]
        beyond.append(sum(moments) - tilt * step * last)
    return float(np.logaddexp.reduce(beyond))
