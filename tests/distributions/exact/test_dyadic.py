"""The whole dyadic tree of the inverse method, and of rejection in one dimension, against masses of 50 digits."""

import math
from fractions import Fraction
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from flint import arb
from scipy import special, stats

from privsample.distributions.exact.balls import WorkingPrecision, dyadic_ball, enclose
from privsample.distributions.exact.gammas import GammaProposal, GammaSampler
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.quantiles import (
    QuantileSampler,
    beta_cdf,
    gamma_cdf,
    laplace_cdf,
    normal_cdf,
    truncated_cdf,
)
from privsample.distributions.exact.truncated import truncated_beta_sampler, truncated_gamma_sampler
from privsample.distributions.exact.words import WordStream

DEPTH = 40
EIGHTH, FINE = Grid(pitch=2.0**-3), Grid(pitch=2.0**-6, low=0.0, high=1.0)
POSITIVE = Grid(pitch=2.0**-3, low=0.0)


def laplace50(x):
    return mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2


def exactly(fraction):
    """A fraction at the precision of the caller: what is computed at import has 15 digits."""
    return mp.mpf(fraction.numerator) / fraction.denominator


def beta50(a, b):
    return lambda x: mp.betainc(exactly(a), exactly(b), 0, x, regularized=True)


def gamma50(shape):
    return lambda x: mp.gammainc(exactly(shape), 0, x, regularized=True)


SAMPLERS = {
    "normal": (QuantileSampler(normal_cdf, special.ndtri, EIGHTH, first=-33, last=32), mp.ncdf, 6.967224, 5.047883),
    "laplace": (
        QuantileSampler(laplace_cdf, stats.laplace.ppf, EIGHTH, first=-33, last=32),
        laplace50,
        7.314453,
        5.362044,
    ),
    "beta": (
        QuantileSampler(beta_cdf(Fraction(5, 2), Fraction(3, 10)), stats.beta(2.5, 0.3).ppf, FINE),
        beta50(Fraction(5, 2), Fraction(3, 10)),
        5.686966,
        4.025124,
    ),
    "gamma": (
        QuantileSampler(gamma_cdf(Fraction(7, 10)), stats.gamma(0.7).ppf, POSITIVE, last=80),
        gamma50(Fraction(7, 10)),
        5.847836,
        4.033182,
    ),
}


def masses50(cdf, pitch, first, last):
    """The probabilities of the cells first, ..., last, of 50 digits; those outermost hold what is beyond."""
    ends = [Fraction(0)]
    for index in range(first + 1, last + 1):
        end = (index - Fraction(1, 2)) * pitch
        value = cdf(exactly(end))
        ends.append(Fraction(int(value * mp.mpf(2) ** 160), 2**160))
    ends.append(Fraction(1))
    return {first + place: after - before for place, (before, after) in enumerate(pairwise(ends))}


def tree(sampler, depth):
    """The expected number of bits, and the mass of the nodes of the dyadic tree that lie in one cell."""
    bits, masses, nodes = Fraction(0), {}, [(0, 0)]
    while nodes:
        value, count = nodes.pop()
        cell = sampler.cell(value, count)
        if cell is not None:
            masses[cell] = masses.get(cell, 0) + Fraction(1, 2**count)
            continue
        bits += Fraction(1, 2**count)
        if count < depth:
            nodes += [(2 * value, count + 1), (2 * value + 1, count + 1)]
    return bits, masses


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(50):
        yield


@pytest.mark.parametrize("name", SAMPLERS)
def test_whole_tree_of_the_inverse_method(name):
    sampler, cdf, bits, entropy = SAMPLERS[name]
    found, masses = tree(sampler, DEPTH)
    truth = masses50(cdf, sampler.pitch, sampler.first, sampler.last)
    assert float(found) == pytest.approx(bits, abs=1e-6)
    own = -sum(float(mass) * math.log2(mass) for mass in truth.values())
    assert own == pytest.approx(entropy, abs=1e-6)
    assert found <= own + 3
    assert set(masses) <= set(truth)
    assert all(0 <= mass - masses.get(cell, 0) < Fraction(1, 2**38) for cell, mass in truth.items())


def test_a_wrong_distribution_fails_the_tree():
    sampler = QuantileSampler(gamma_cdf(Fraction(7, 10) + Fraction(1, 10**9)), stats.gamma(0.7).ppf, POSITIVE, last=80)
    _, masses = tree(sampler, DEPTH)
    truth = masses50(gamma50(Fraction(7, 10)), sampler.pitch, sampler.first, sampler.last)
    assert not all(0 <= mass - masses.get(cell, 0) < Fraction(1, 2**38) for cell, mass in truth.items())


@pytest.mark.parametrize(("bits", "point", "needed"), [("0110100110010110", -0.25, 6), ("1111111100000000", 2.625, 12)])
def test_traces(bits, point, needed):
    sampler = QuantileSampler(normal_cdf, special.ndtri, EIGHTH)
    index, count = sampler.index(map(int, bits))
    assert (EIGHTH.point(index), count) == (point, needed)
    with pytest.raises(ValueError, match=f"bits must decide a cell, got {needed - 1} bits"):
        sampler.index(map(int, bits[: needed - 1]))


def test_a_wrong_guess_costs_time_only(rng):
    word = int(rng.integers(2**63))
    for grid in (Grid(pitch=2.0**-40), Grid(pitch=2.0**-5)):
        right = QuantileSampler(normal_cdf, special.ndtri, grid).cell(word, 63)
        for guess in (lambda level: 30.0, lambda level: -(level**3), special.ndtr):
            assert QuantileSampler(normal_cdf, guess, grid).cell(word, 63) == right


def test_quantiles_equal_the_closed_form(rng):
    """The same random words give the same cell of an exponential number by both methods."""
    grid = Grid(pitch=2.0**-30, low=0.0)
    sampler = QuantileSampler(lambda x: 1 - (-x).exp(), stats.expon.ppf, grid)
    for _ in range(50):
        word = int(rng.integers(2**63))
        with WorkingPrecision(128):
            closed = grid.index(-dyadic_ball(word, -63).log())
        # 1 - U has the complementary bits.
        assert sampler.cell(2**63 - 1 - word, 63) == closed


def test_relative_cells_are_refused():
    with pytest.raises(ValueError, match="grid must have absolute cells for quantiles"):
        QuantileSampler(gamma_cdf(1), stats.expon.ppf, Grid(pitch=2.0**-9, low=0.0, relative=True))


@pytest.mark.parametrize(
    ("cdf", "x", "value"),
    [
        (beta_cdf(Fraction(5, 2), Fraction(3, 10)), Fraction(127, 128), "0.673106007351247229271399944848"),
        (beta_cdf(Fraction(1, 100), 3), Fraction(1, 10**30), "0.508730101493362732890827577398"),
        (gamma_cdf(Fraction(7, 10)), Fraction(5, 4), "0.821833987933116860286234567401"),
        (gamma_cdf(Fraction(1, 100)), Fraction(1, 10**30), "0.504047272859995459624499030787"),
        (gamma_cdf(Fraction(24001, 2)), 12100, "0.818280111038027553306024108115"),
        (beta_cdf(Fraction(10001, 2), Fraction(28001, 4)), Fraction(2, 5), "0.0000991999695329093761358849517922"),
    ],
)
def test_distribution_functions(cdf, x, value):
    with WorkingPrecision(200):
        found = cdf(enclose(Fraction(x)))
        assert abs(found - enclose(Fraction(value))) < 2e-30


@pytest.mark.parametrize("name", SAMPLERS)
def test_masses_are_enclosed(name):
    sampler, cdf, *_ = SAMPLERS[name]
    ends = [-1, 0, 3, 5] if sampler.first < 0 else [1, 3, 5, 60]
    with WorkingPrecision(120):
        for index in ends:
            end = mp.mpf(2 * index - 1) / 2 * float(sampler.pitch)
            truth = Fraction(int(cdf(end) * mp.mpf(2) ** 160), 2**160)
            ball = sampler.below(index)
            assert ball.rad() < 1e-25
            assert abs(ball - enclose(truth)) < 1e-29


class Box:
    """All uniform numbers that begin with these bits; it is never refined."""

    def __init__(self, value, count):
        self.value, self.count = value, count

    def ball(self, bits):
        return dyadic_ball(self.value, -self.count)


class Point(Box):
    """The uniform number with these bits and zeros after them."""

    def ball(self, bits):
        return arb((self.value, -self.count))


def accepted_heights(trial, place, depth):
    """How many of the 2^depth boxes of the second number are certainly accepted at a point of the first one."""
    if place == 0:
        return 0
    across = Point(place, depth)
    low, high = 0, 2**depth
    while low < high:  # the test compares the second number with a threshold
        middle = (low + high) // 2
        low, high = (middle + 1, high) if trial(across, Box(middle, depth))[1](64) else (low, middle)
    return low


def cells_of(trial, grid, box, cuts):
    """The parts of a box of the first number that lie in one cell, as (cell or None, area)."""
    cell = grid.index(trial(box, Box(0, 0))[0].ball(64))
    if cell is not None or cuts == 0:
        return [(cell, 2.0**-box.count)]
    halves = (Box(2 * box.value + side, box.count + 1) for side in (0, 1))
    return [part for half in halves for part in cells_of(trial, grid, half, cuts - 1)]


def enumerated(parts, grid, depth):
    """For each cell, bounds on the probability that a proposal falls into it and is accepted.

    The acceptance probability is unimodal in the first number (exact_draws.md, steps 5 and 7): on a box it is at least
    that of the lower end, and at most that of the higher end unless the mode lies in the box.
    """
    bounds = {}
    with WorkingPrecision(64):
        for weight, trial in parts:
            counts = [accepted_heights(trial, place, depth) for place in range(2**depth + 1)]
            top = max(counts)
            for place, (before, after) in enumerate(pairwise(counts)):
                least = min(before, after)
                most = 2**depth if max(before, after) >= top - 1 else max(before, after) + 1
                for cell, area in cells_of(trial, grid, Box(place, depth), cuts=12):
                    low, high = bounds.get(cell, (0.0, 0.0))
                    part = weight * area / 2.0**depth
                    bounds[cell] = (low + part * least, high + part * most)
    return bounds


def enclosed(parts, truth, grid, depth):
    """Whether the masses of accepted boxes enclose the true ones, and the largest width of an enclosure."""
    bounds = enumerated(parts, grid, depth)
    _, unknown = bounds.pop(None, (0.0, 0.0))
    least, most = (sum(bound[side] for bound in bounds.values()) for side in (0, 1))
    right, width = True, 0.0
    for cell, mass in truth.items():
        low, high = bounds.get(cell, (0.0, 0.0))
        low, high = low / (low + most - high + unknown), (high + unknown) / (high + unknown + least - low)
        right &= low - 1e-12 <= float(mass) <= high + 1e-12  # 1e-12 for the sums of doubles
        width = max(width, high - low)
    return right, width


def gamma_parts(shape, broken=None):
    """The two signs of Marsaglia and Tsang's method."""
    sampler = GammaSampler(shape)

    def trial(sign):
        def made(across, height):
            proposal = GammaProposal(sampler, sign, across, height)
            return proposal, (broken or (lambda test: test))(proposal.accepted)

        return made

    return [(0.5, trial(0)), (0.5, trial(1))]


def tangent_parts(sampler, broken=None):
    """The pieces under the tangents, with their weights."""

    def trial(index):
        def made(across, height):
            number, accepted = sampler.proposal(index, across, height)
            return number, (broken or (lambda test: test))(accepted)

        return made

    with WorkingPrecision(128):
        weights = np.array([float(sampler.weight(index, 128).mid()) for index in range(len(sampler.pieces))])
    return [(weight, trial(index)) for index, weight in enumerate(weights / weights.sum())]


def accept_all(test):
    """A broken copy: every proposal is accepted."""
    return lambda bits: True


@pytest.mark.parametrize(
    ("shape", "broken", "correct"),
    [
        (Fraction(1), None, True),
        (Fraction(1), accept_all, False),
        (Fraction(5, 2), None, True),
        (Fraction(5, 2), accept_all, False),
        (Fraction(40), None, True),
    ],
)
def test_boxes_of_the_gamma_method(shape, broken, correct):
    pitch = 2.0 ** round(math.log2(float(shape) ** 0.5 / 4))
    grid, last = Grid(pitch=pitch, low=0.0), int((shape + 8) * 4 / Fraction(pitch))
    truth = masses50(gamma50(shape), Fraction(pitch), 0, last)
    del truth[last]
    right, width = enclosed(gamma_parts(shape, broken), truth, grid, depth=10)
    assert right == correct
    assert width < 5e-3


TRUNCATED = {
    "beta": (
        truncated_beta_sampler(Fraction(5, 2), Fraction(3, 10), Fraction(1, 8), Fraction(7, 8)),
        beta_cdf(Fraction(5, 2), Fraction(3, 10)),
        beta50(Fraction(5, 2), Fraction(3, 10)),
        Grid(pitch=2.0**-4, low=0.125, high=0.875),
    ),
    "gamma": (
        truncated_gamma_sampler(Fraction(7, 10), 1, Fraction(1, 4), 4),
        gamma_cdf(Fraction(7, 10)),
        gamma50(Fraction(7, 10)),
        Grid(pitch=0.25, low=0.25, high=4.0),
    ),
}


@pytest.mark.parametrize("name", TRUNCATED)
@pytest.mark.parametrize(("broken", "correct"), [(None, True), (accept_all, False)])
def test_boxes_under_tangents(name, broken, correct):
    draw, _, cdf, grid = TRUNCATED[name]
    below, above = cdf(mp.mpf(grid.low)), cdf(mp.mpf(grid.high))
    first, last = round(grid.low / grid.pitch), round(grid.high / grid.pitch)
    truth = masses50(lambda x: (cdf(x) - below) / (above - below), Fraction(grid.pitch), first, last)
    right, width = enclosed(tangent_parts(draw.__self__, broken), truth, grid, depth=10)
    assert right == correct
    assert width < 5e-3


@pytest.mark.parametrize("name", TRUNCATED)
def test_truncated_quantiles(name, rng):
    _, cdf, truth, grid = TRUNCATED[name]
    sampler = QuantileSampler(truncated_cdf(cdf, Fraction(grid.low), Fraction(grid.high)), lambda level: grid.low, grid)
    below, above = truth(mp.mpf(grid.low)), truth(mp.mpf(grid.high))
    masses = masses50(lambda x: (truth(x) - below) / (above - below), sampler.pitch, sampler.first, sampler.last)
    _, found = tree(sampler, 24)
    assert all(0 <= mass - found.get(cell, 0) < Fraction(1, 2**22) for cell, mass in masses.items())
    assert sampler.first <= sampler.draw(WordStream(rng)) <= sampler.last
