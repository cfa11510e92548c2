"""Privacy curves of compositions on a grid: each privacy loss is discretized to a grid, and the losses are convolved.

The masses are tilted by e^{c loss} before the convolution, with c near the saddle point, so that its rounding error is
small relative to the requested tail, however small that tail is. Truncated mass, aliased mass and rounding errors are
bounded and added. Koskela, Jälkö and Honkela 2020 (Fourier accountant); Doroshenko et al. 2022 (dominating
discretization); proof in grid.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import log1mexp
from privsample.accounting.loss.convolution import GridMasses, convolve
from privsample.accounting.loss.grid_plan import (
    NEGLIGIBLE,
    ApproxLoss,
    approx_log_infinity_mass,
    best_tilt,
    grid_step,
    log_tail_bound,
    truncation_bounds,
)
from privsample.accounting.loss.pair import LossPair

Members = Sequence[tuple[LossPair, int]]

_EPS = float(np.finfo(np.float64).eps)
_LEAST = -1e4  # log delta below which tails are not resolved
_FAR = 300.0  # distance from the centre, in nats, up to which losses and log masses are represented


@dataclass(frozen=True, slots=True)
class Composition:
    """Privacy curve of the summed loss at grid nodes, (nodes,), rounded up; linear in e^epsilon between the nodes.

    The curve at the nodes is e^scale delta + e^log_beyond. Its slope below a node with respect to e^{epsilon - centre}
    is -e^scale tail. `valid_radius` is the distance above `centre` up to which the curve is tight; `loss_rounding`
    bounds the rounding error of the summed grid losses in nats.
    """

    nodes: FloatArray
    delta: FloatArray
    tail: FloatArray
    step: float
    centre: float
    scale: float
    log_beyond: float
    valid_radius: float
    loss_rounding: float

    def log_delta(self, epsilon: float) -> float:
        """Log delta at epsilon, rounded up; 0 more than a step below the first node, +inf if there are no nodes."""
        if not len(self.nodes):  # the step exceeds the representable range
            return np.inf
        # Losses are reduced by their rounding error before the lookup, which increases delta.
        at = int(np.searchsorted(self.nodes, epsilon - self.loss_rounding))
        if epsilon - self.loss_rounding < self.nodes[0] - self.step:
            return 0.0
        rest = self.delta[-1]
        if at < len(self.nodes):
            below = -np.expm1(epsilon - self.loss_rounding - self.nodes[at]) * np.exp(self.nodes[at] - self.centre)
            rest = self.delta[at] + self.tail[at] * below
        with np.errstate(divide="ignore"):
            near = self.scale + np.log(rest) + 8 * _EPS * (1 + abs(self.scale))
            return float(np.logaddexp(near, self.log_beyond)) + 8 * _EPS

    def epsilon(self, log_delta: float) -> float:
        """Smallest epsilon >= 0 with at most this log delta, rounded up; +inf if the truncated mass alone exceeds it.

        The interpolation is solved for e^epsilon (grid.md, section 6).
        """
        if not log_delta > self.log_beyond:
            return np.inf
        goal = np.exp(min(log_delta - self.scale, 2 * _FAR)) * -np.expm1(self.log_beyond - log_delta)
        at = int((~(self.delta <= goal)).sum())  # NaN counts as too large
        if at >= len(self.nodes):
            return np.inf
        with np.errstate(over="ignore"):  # any share above 1 means that epsilon lies below this node
            share = (goal - self.delta[at]) / max(self.tail[at] * np.exp(self.nodes[at] - self.centre), 1e-300)
        epsilon = self.nodes[at] + (np.log1p(-share) if share < 1.0 else -np.inf)
        epsilon = max(float(epsilon), float(self.nodes[at]) - self.step, 0.0) + self.loss_rounding
        return epsilon * (1 + 4 * _EPS) + 8 * _EPS * (1 + abs(self.scale))


def compose_at_epsilon(members: Members, epsilon: float) -> Composition:
    """Compose with a grid and a tilt that make the curve tight around this epsilon."""
    log_delta, floor = -NEGLIGIBLE, max(_approx_log_infinity_mass(members) - NEGLIGIBLE, 4 * _LEAST)
    while True:  # the truncation bounds depend on delta, which is found by iteration
        losses = [ApproxLoss.of(pair, times, log_delta) for pair, times in members]
        c, _ = best_tilt(losses, lambda c, height: np.maximum(height - c * epsilon, floor))
        found = float(np.clip(log_tail_bound(losses, np.array([c]))[0] - c * epsilon, floor, 0.0))
        if found >= log_delta or log_delta < _LEAST:
            break
        log_delta = 2 * found
    made = _compose(losses, c, epsilon, found)
    # At the floor only the infinity mass is left, so that the curve is tight at every larger epsilon too.
    return replace(made, valid_radius=np.inf) if found == floor else made


def _approx_log_infinity_mass(members: Members) -> float:
    """Approximate log infinity mass of the composition."""
    return float(log1mexp(sum(times * _log_complement(approx_log_infinity_mass(pair)) for pair, times in members)))


def compose_at_log_delta(members: Members, log_delta: float) -> Composition:
    """Compose with a grid and a tilt that make the curve tight around the epsilon at this log delta."""
    infinite = _approx_log_infinity_mass(members)
    rest = log_delta + float(log1mexp(min(infinite - log_delta, -1e-6)))  # delta less the infinity mass
    losses = [ApproxLoss.of(pair, times, rest) for pair, times in members]
    _, centre = best_tilt(losses, lambda c, height: (height - rest) / c, 0.0)
    c, _ = best_tilt(losses, lambda c, height: height - c * centre)
    return _compose(losses, c, max(centre, 0.0), rest)


def _compose(losses: Sequence[ApproxLoss], c: float, centre: float, log_delta: float) -> Composition:
    """Discretize, convolve and sum up, with tilt c, around the loss `centre` (grid.md, sections 2, 4, 5 and 6)."""
    deviation = float(np.sqrt(sum(member.times * member.variance(c) for member in losses)))
    low, high, beyond = truncation_bounds(losses, c, deviation, log_delta)
    low, high = min(low, centre - deviation), max(high, centre + deviation)
    step = grid_step(losses, c, deviation, high - low)
    grid_losses = [_GridLoss.of(member, step, c) for member in losses]
    from scipy.fft import next_fast_len

    first, count = int(np.floor(low / step)), sum(member.times for member in losses)
    size, last, least = (
        int((high - low) / step) + 2,
        _last_index(grid_losses),
        sum(d.times * d.first for d in grid_losses),
    )
    # If the whole support nearly fits, take all of it: nothing is aliased then. Rounding the ends of each member
    # outward lengthens the support by up to `count` nodes.
    if least < first and last - least < size + count:
        first = least
    whole = last - first + 1
    size = next_fast_len(whole if size <= whole <= size + count else size, real=True)
    # Each member counts from its first node, which keeps the phases of the transform small.
    members = [GridMasses(d.times, np.arange(len(d.tilted)), d.tilted) for d in grid_losses]
    masses, lost = convolve(members, size, first - least)
    nodes = step * (first + np.arange(size))
    # Section 5: add the rounding error of the transform, then that of the exponents c * node.
    masses = (masses + lost) * (1.0 + 2 * _EPS * (2.0 + c * (np.abs(nodes) + abs(centre))))
    # Remove the tilt. The exponent is clipped from below, which rounds masses far above the centre up.
    p = masses * np.exp(np.clip(-c * (nodes - centre), -_FAR, 2 * _FAR))
    used = (nodes >= max(centre - _FAR / (c + 1.0), -step)) & (nodes <= centre + _FAR)
    far = float(p[nodes > centre + _FAR].sum())  # counts in full at every epsilon, as an infinite loss would
    p, nodes = p[used], nodes[used]
    # Section 6: Q masses above each node, and delta as a sum of positive differences.
    tail = np.cumsum((p * np.exp(centre - nodes))[::-1])[::-1]
    falls = tail * np.exp(nodes - centre) * -np.expm1(-step)
    delta = np.append(np.cumsum(falls[:0:-1])[::-1], 0.0) + far
    slack = 1.0 + 4 * _EPS * len(nodes)  # rounding error of the cumulative sums
    sizes = abs(c * centre) + sum(d.times * (2.0 + abs(d.log_moment)) for d in grid_losses)
    scale = sum(d.times * d.log_moment for d in grid_losses) - c * centre + 8 * _EPS * sizes  # rounded up
    return Composition(
        nodes=nodes,
        delta=delta * slack,
        tail=tail * slack,
        step=step,
        centre=centre,
        scale=scale,
        log_beyond=_log_beyond(grid_losses, beyond, first + size - 1, step),
        valid_radius=min(1.5 * deviation, _FAR / max(c, 1.0)),
        loss_rounding=_EPS * sum(d.times * float(np.abs(d.nodes[[0, -1]]).max()) for d in grid_losses),
    )


@dataclass(frozen=True, slots=True)
class _GridLoss:
    """A member's loss on the grid: nodes from index `first` on, log P masses, and tilted masses that add up to 1."""

    times: int
    first: int
    nodes: FloatArray
    log_p: FloatArray
    tilted: FloatArray
    log_moment: float
    log_infinite: float

    @classmethod
    def of(cls, member: ApproxLoss, step: float, c: float) -> "_GridLoss":
        """Discretize one member with the given step and tilt its masses by e^{c loss}."""
        first, last = int(np.floor(member.low(c) / step)), int(np.ceil(member.nodes[-1] / step - 1e-9))
        nodes = np.arange(first, max(last, first + 1) + 1) * np.float64(step)
        log_p, log_infinite = member.pair.discretize(nodes)
        height = log_p + c * nodes
        top = height.max()
        spread = np.minimum(top - height, 1e3)
        rounding = 2.0 + abs(top) + spread + 2 * c * np.abs(nodes)  # sizes of the exponents, in units of their ulp
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


def _last_index(grid_losses: Sequence[_GridLoss]) -> int:
    """Index of the largest finite sum."""
    return sum(d.times * (d.first + len(d.nodes) - 1) for d in grid_losses)


def _log_complement(log_share: float) -> float:
    """log(1 - e^log_share); -inf if the share is 1 or more."""
    return float(np.log1p(-np.exp(log_share))) if log_share < 0.0 else -np.inf


def _log_beyond(grid_losses: Sequence[_GridLoss], tilt: float, last: int, step: float) -> float:
    """Logarithm of a bound on the mass of sums above the grid's last index and of infinite sums (grid.md, section 4).

    Chernoff's bound with the given tilt covers the finite sums. `excess` accounts for masses that were rounded up to a
    total above 1.
    """
    masses = [float(np.logaddexp(np.logaddexp.reduce(d.log_p), d.log_infinite)) for d in grid_losses]
    excess = sum(d.times * max(mass, 0.0) for d, mass in zip(grid_losses, masses, strict=True))
    finite = sum(d.times * _log_complement(d.log_infinite - mass) for d, mass in zip(grid_losses, masses, strict=True))
    beyond = [excess + float(log1mexp(finite)) + 8 * _EPS]
    if last < _last_index(grid_losses):
        moments = [d.times * float(np.logaddexp.reduce(d.log_p + tilt * d.nodes)) for d in grid_losses]
        beyond.append(sum(moments) - tilt * step * last)
    return float(np.logaddexp.reduce(beyond))
