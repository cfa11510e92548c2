"""Privacy curves of compositions of many distinct members: lattices of one step, convolved in a tree.

Each lattice ends at its member's largest loss, so that an atom there is not split. Proof: grid.md, section 8.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import log1mexp
from privsample.accounting.loss.convolution_tree import Block, power_of_block, sum_of_blocks
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.grid_curve import Composition, composition_of_masses, log_infinite_mass
from privsample.accounting.loss.grid_plan import (
    LEAST_LOG_DELTA,
    NEGLIGIBLE,
    ApproxLoss,
    Ranges,
    ShortLosses,
    TiltRange,
    approx_log_infinite,
    best_tilt,
    log_tail_bound,
    plan,
    tilt_at,
    tilted_deviation,
    tree_step,
)
from privsample.accounting.loss.lattice import LatticeLoss
from privsample.accounting.loss.pair import LossPair

Members = Sequence[tuple[LossPair, int]]

_SHARP = 15.0  # truncated mass is less than a share e^-15 of delta within the valid radius
_EPS = float(np.finfo(np.float64).eps)


def compose_many_at_epsilon(members: Members, epsilon: float) -> Composition:
    """Compose with a tilt that makes the curve tight around this epsilon."""
    log_delta, floor = -NEGLIGIBLE, max(approx_log_infinite(members) - NEGLIGIBLE, 4 * LEAST_LOG_DELTA)
    while True:  # the truncation bounds of unbounded losses depend on delta, which is found by iteration
        losses = plan(members, log_delta)
        c, _ = best_tilt(losses, lambda c, height: np.maximum(height - c * epsilon, floor))
        approx = float(np.clip(log_tail_bound(losses, np.array([c]))[0] - c * epsilon, floor, 0.0))
        if len(losses) == 1 or approx >= log_delta or log_delta < LEAST_LOG_DELTA:
            break
        log_delta = 2 * approx
    made = compose_many(losses, TiltRange(tilt=c, centre=epsilon, largest=c))
    # At the floor only the infinity mass is left, so that the curve is tight at every larger epsilon too.
    return replace(made, valid_radius=np.inf) if approx == floor else made


def compose_many_at_log_delta(members: Members, log_delta: float) -> Composition:
    """Compose with a tilt that makes the curve tight around the epsilon at this log delta."""
    rest = log_delta + float(log1mexp(min(approx_log_infinite(members) - log_delta, -1e-6)))  # without infinity mass
    losses = plan(members, rest)
    c, centre = tilt_at(losses, rest)
    return compose_many(losses, TiltRange(tilt=c, centre=max(centre, 0.0), largest=c))


def merge_gaussians(members: Members) -> Members:
    """The members, with one Gaussian pair in place of all: squared shifts add up, rounded up."""
    shifts = [(pair.mu, times) for pair, times in members if isinstance(pair, GaussianPair)]
    if len(shifts) < 2:
        return members
    largest = max(mu for mu, _ in shifts)
    total = math.fsum(times * (mu / largest) ** 2 for mu, times in shifts)
    merged = GaussianPair(mu=largest * math.sqrt(total) * (1.0 + 4 * _EPS))
    return [(merged, 1), *(entry for entry in members if not isinstance(entry[0], GaussianPair))]


def compose_many(losses: Ranges, tilts: TiltRange) -> Composition:
    """Discretize, convolve in a tree and sum up."""
    c, centre = tilts.tilt, tilts.centre
    deviation = tilted_deviation(losses, c)
    step = tree_step(losses, tilts.largest, deviation)
    lattices = [lattice for loss in losses for lattice in _lattices(loss, c, step)]
    total = sum_of_blocks([_block(lattice, times) for lattice, times in lattices])
    top = math.fsum(times * lattice.top for lattice, times in lattices)
    nodes: FloatArray = top - np.float64(step) * (total.below_top + np.arange(len(total.masses))[::-1])
    centre = min(centre, float(nodes[-1]))  # above all nodes the curve is constant
    sizes = abs(c * centre) + sum(times * (2.0 + abs(lattice.log_moment)) for lattice, times in lattices)
    log_moment = math.fsum(times * lattice.log_moment for lattice, times in lattices) + 8 * _EPS * sizes  # rounded up
    farthest = sum(
        times * max(abs(lattice.top), abs(lattice.top - step * (len(lattice.tilted) - 1)))
        for lattice, times in lattices
    )
    # Dropped and lost mass: (1 - e^{epsilon - l})_+ <= e^{c (l - epsilon)} (c / (c + 1))^c / (c + 1) for every l.
    height = log_moment - c * centre - float(np.log1p(c) + c * np.log1p(1 / c)) + 8 * _EPS * sizes
    with np.errstate(divide="ignore"):
        log_missing = float(np.log(total.missing)) + height
    return composition_of_masses(
        total.masses,
        nodes,
        step,
        tilt=c,
        centre=centre,
        log_moment=log_moment,
        log_beyond=log_infinite_mass((times, found.log_mass, found.log_infinite) for found, times in lattices),
        valid_radius=min(1.5 * deviation, (NEGLIGIBLE - _SHARP) / max(c, 1e-12)),
        loss_rounding=4 * _EPS * farthest,  # atoms, lattices and their sum are each rounded by at most this quarter
        log_missing=log_missing,
        log_rounding=log_missing,
    )


def _lattices(loss: ApproxLoss | ShortLosses, c: float, step: float) -> Iterator[tuple[LatticeLoss, int]]:
    """The lattices of the members that were planned together, with their multiplicities."""
    if isinstance(loss, ApproxLoss):
        yield loss.pair.tilted_lattice(c, step, loss.low(c), float(loss.nodes[-1])), loss.times
    else:
        for pair, times in loss.members:
            yield pair.tilted_lattice(c, step, -(pair.largest_loss or 0.0), pair.max_divergence), times


def _block(lattice: LatticeLoss, times: int) -> Block:
    """The sum of `times` copies of a lattice."""
    block = Block(masses=lattice.tilted, below_top=0, missing=0.0)
    return block if times == 1 else power_of_block(block, times)
