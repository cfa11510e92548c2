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
from privsample.accounting.loss.grid_curve import (
    Composition,
    composition_of_masses,
    log_infinite_mass,
)
from privsample.accounting.loss.grid_many import (
    compose_many,
    compose_many_at_epsilon,
    compose_many_at_log_delta,
    merge_gaussians,
)
from privsample.accounting.loss.grid_plan import (
    FAR,
    LEAST_LOG_DELTA,
    NEGLIGIBLE,
    ApproxLoss,
    TiltRange,
    approx_log_infinite,
    best_tilt,
    grid_step,
    is_many,
    log_tail_bound,
    plan,
    tilt_at,
    truncation_bounds,
)
from privsample.accounting.loss.pair import LossPair

Members = Sequence[tuple[LossPair, int]]

_EPS = float(np.finfo(np.float64).eps)


def compose_at_epsilon(members: Members, epsilon: float) -> Composition:
    """Compose with a grid and a tilt that make the curve tight around this epsilon."""
    members = merge_gaussians(members) if is_many(members) else members
    if is_many(members):
        return compose_many_at_epsilon(members, epsilon)
    log_delta, floor = -NEGLIGIBLE, max(approx_log_infinite(members) - NEGLIGIBLE, 4 * LEAST_LOG_DELTA)
    while True:  # the truncation bounds depend on delta, which is found by iteration
        losses = [ApproxLoss.of(pair, times, log_delta) for pair, times in members]
        c, _ = best_tilt(losses, lambda c, height: np.maximum(height - c * epsilon, floor))
        found = float(np.clip(log_tail_bound(losses, np.array([c]))[0] - c * epsilon, floor, 0.0))
        if found >= log_delta or log_delta < LEAST_LOG_DELTA:
            break
        log_delta = 2 * found
    made = _compose(losses, c, epsilon, found, c)
    # At the floor only the infinity mass is left, so that the curve is tight at every larger epsilon too.
    return replace(made, valid_radius=np.inf) if found == floor else made


def compose_at_log_delta(members: Members, log_delta: float) -> Composition:
    """Compose with a grid and a tilt that make the curve tight around the epsilon at this log delta."""
    members = merge_gaussians(members) if is_many(members) else members
    if is_many(members):
        return compose_many_at_log_delta(members, log_delta)
    infinite = approx_log_infinite(members)
    rest = log_delta + float(log1mexp(min(infinite - log_delta, -1e-6)))  # delta less the infinity mass
    losses = [ApproxLoss.of(pair, times, rest) for pair, times in members]
    c, centre = tilt_at(losses, rest)
    return _compose(losses, c, max(centre, 0.0), rest, c)


def compose_for_range(members: Members, log_deltas: tuple[float, float, float], growth: float) -> Composition:
    """Compose for all log deltas of a range, less the infinity mass: its first, its centre and its last, decreasing.

    The tilt is that of the centre, and the step that of the largest tilt in the range, but at most `growth` times that
    of the first: next to the max divergence tilts grow without bound, and other grids answer there.
    """
    members = merge_gaussians(members) if is_many(members) else members
    losses = plan(members, log_deltas[2])
    tilts = TiltRange.of(losses, log_deltas, growth)
    if is_many(members):
        made = compose_many(losses, tilts)
    else:
        parts = [loss for loss in losses if isinstance(loss, ApproxLoss)]
        made = _compose(parts, tilts.tilt, tilts.centre, log_deltas[2], tilts.largest)
    return replace(made, largest_tilt=tilts.largest) if tilts.is_capped else made


def _compose(losses: Sequence[ApproxLoss], c: float, centre: float, log_delta: float, largest: float) -> Composition:
    """Discretize, convolve and sum up, with tilt c, around the loss `centre` (grid.md, sections 2, 4, 5 and 6).

    The step is that of the tilt `largest`.
    """
    deviation = float(np.sqrt(sum(member.times * member.variance(c) for member in losses)))
    low, high, beyond = truncation_bounds(losses, c, deviation, log_delta)
    low, high = min(low, centre - deviation), max(high, centre + deviation)
    step = grid_step(losses, largest, deviation, high - low)
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
    # The rounding error of the transform is added to each mass (section 5).
    sizes = sum(d.times * (2.0 + abs(d.log_moment)) for d in grid_losses)
    log_moment = sum(d.times * d.log_moment for d in grid_losses) + 8 * _EPS * sizes  # rounded up
    with np.errstate(divide="ignore"):
        log_lost = float(np.log(lost * min(1 / (c * step), size) / (c + 1.0)))
    return composition_of_masses(
        masses + lost,
        nodes,
        step,
        tilt=c,
        centre=centre,
        log_moment=log_moment,
        log_beyond=_log_beyond(grid_losses, beyond, first + size - 1, step),
        valid_radius=min(1.5 * deviation, FAR / max(c, 1.0)),
        loss_rounding=_EPS * sum(d.times * float(np.abs(d.nodes[[0, -1]]).max()) for d in grid_losses),
        log_rounding=log_lost + log_moment - c * centre,
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


def _log_beyond(grid_losses: Sequence[_GridLoss], tilt: float, last: int, step: float) -> float:
    """Logarithm of a bound on the mass of sums above the grid's last index and of infinite sums (grid.md, section 4).

    Chernoff's bound with the given tilt covers the finite sums.
    """
    beyond = [log_infinite_mass((d.times, float(np.logaddexp.reduce(d.log_p)), d.log_infinite) for d in grid_losses)]
    if last < _last_index(grid_losses):
        moments = [d.times * float(np.logaddexp.reduce(d.log_p + tilt * d.nodes)) for d in grid_losses]
        beyond.append(sum(moments) - tilt * step * last)
    return float(np.logaddexp.reduce(beyond))
