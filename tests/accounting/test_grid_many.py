"""Compositions of many distinct members in a tree, compared with enumeration and contours at 30 digits."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from privsample import LaplaceAccountant
from privsample.accounting.loss import convolution_tree, grid
from privsample.accounting.loss.convolution_tree import Block, power_of_block, sum_of_blocks
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.accounting.loss.pair import DiscretePair, LossPair, binary_pair

pytestmark = pytest.mark.filterwarnings("error")
LOOSE = 5e-7  # more than the stated error of epsilon, 3e-7 nats


@pytest.fixture(autouse=True)
def thirty_digits():
    with mp.workdps(30):
        yield


def moment(pair):
    """E_P e^{t loss} of a pair, for complex t."""
    if isinstance(pair, GaussianPair):
        return lambda t: mp.exp(mp.mpf(pair.mu) ** 2 * t * (t + 1) / 2)
    if isinstance(pair, LaplacePair):
        z = mp.mpf(pair.shift)
        return lambda t: ((t + 1) * mp.exp(t * z) + t * mp.exp(-(t + 1) * z)) / (2 * t + 1)
    losses = [(mp.exp(float(p)), mp.mpf(float(loss))) for p, loss in zip(pair.log_p, pair.loss, strict=True)]
    return lambda t: mp.fsum(p * mp.exp(t * loss) for p, loss in losses)


def by_contour(members, c, points=130):
    """Exact delta by the trapezoidal rule on a contour; a Gaussian member makes it converge like e^{-points^2}."""
    moments = [(moment(pair), times) for pair, times in members]

    def log_moment(t):
        return mp.fsum(times * mp.log(m(t)) for m, times in moments)

    away = c / 50
    variance = (log_moment(c + away) - 2 * log_moment(c) + log_moment(c - away)) / away**2
    h = 14 / mp.sqrt(variance) / points
    contour = [mp.mpc(c, j * h) for j in range(points + 1)]
    values = [mp.fprod(m(t) ** times for m, times in moments) / (t * (t + 1)) for t in contour]
    return lambda at: (
        h
        / mp.pi
        * mp.fsum(
            (value * mp.exp(-t * at)).real / (1 if j else 2)
            for j, (t, value) in enumerate(zip(contour, values, strict=True))
        )
    )


def mixed():
    """Thirty-four kinds of Laplace noise and randomized response, some repeated, and two kinds of Gaussian noise."""
    rng = np.random.default_rng(5)
    members = [(GaussianPair(mu=0.6), 1), (GaussianPair(mu=0.8), 2)]
    for k, loss in enumerate(rng.uniform(0.02, 0.5, 34).tolist()):
        members.append((LaplacePair(shift=loss) if k % 2 else binary_pair(loss), 1 + k % 3))
    return members


@pytest.mark.parametrize("log_delta", [np.log(1e-6), -600.0])
def test_many_kinds_of_noise(log_delta):
    members = mixed()
    made = grid.compose_at_log_delta(members, log_delta)
    found, truth = made.epsilon(log_delta), by_contour(members, mp.mpf(made.tilt))
    assert truth(found) <= mp.exp(log_delta) * (1 + mp.mpf(10) ** -9)
    assert truth(found - LOOSE) > mp.exp(log_delta)
    for at in (found - made.valid_radius, found, found + made.valid_radius):
        assert 0 <= made.log_delta(at) - float(mp.log(truth(at))) <= LOOSE * 2 * (made.tilt + 1)
    made = grid.compose_at_epsilon(members, found)
    assert 0 <= made.log_delta(found) - float(mp.log(truth(found))) <= LOOSE * (made.tilt + 1)


def responses(unit, count):
    """Randomized responses with losses unit, 2 unit, ...; the second is repeated five times."""
    return [(binary_pair(unit * k), 5 if k == 2 else 1) for k in range(1, count + 1)]


def enumerated(members, unit):
    """Exact delta: all losses are multiples of a unit."""
    masses = {0: mp.mpf(1)}
    for pair, times in members:
        k = round(pair.max_divergence / unit)
        right = 1 / (1 + mp.exp(-mp.mpf(unit) * k))
        for _ in range(times):
            sums: dict[int, mp.mpf] = {}
            for loss, mass in masses.items():
                sums[loss + k] = sums.get(loss + k, mp.mpf(0)) + mass * right
                sums[loss - k] = sums.get(loss - k, mp.mpf(0)) + mass * (1 - right)
            masses = sums
    return lambda at: mp.fsum(
        -mass * mp.expm1(at - mp.mpf(unit) * loss) for loss, mass in masses.items() if loss * unit > at
    )


def test_many_randomized_responses_by_enumeration():
    unit = 0.0078125  # a power of two, so that its multiples are exact
    members = responses(unit, 34)
    truth = enumerated(members, unit)
    for log_delta in np.log([0.2, 1e-6, 1e-12]):
        found = grid.compose_at_log_delta(members, log_delta).epsilon(log_delta)
        assert truth(found) <= mp.exp(log_delta) * (1 + mp.mpf(10) ** -9)
        assert truth(found - LOOSE) > mp.exp(log_delta)
    for at in (0.0, 0.7, 2.5, 4.3):
        excess = grid.compose_at_epsilon(members, at).log_delta(at) - float(mp.log(truth(at)))
        assert 0 <= excess <= 1e-3


def test_many_members_with_an_infinity_mass():
    """Ten possible failures of 1e-7 each; far above the losses only they are left."""
    failing = DiscretePair(log_p=np.log([1e-7, 1 - 1e-7]), log_q=np.array([-np.inf, 0.0]))
    members = [*responses(0.0078125, 34), (failing, 10)]
    infinite = -mp.expm1(10 * mp.log1p(-(mp.mpf(10) ** -7)))
    truth = enumerated(responses(0.0078125, 34), 0.0078125)
    made = grid.compose_at_log_delta(members, np.log(1e-5))
    found = made.epsilon(np.log(1e-5))
    for at, loose in ((found, 0), (found - LOOSE, 1)):
        exact = infinite + (1 - infinite) * truth(at - 10 * mp.log1p(mp.mpf(-1e-7)))
        assert (exact > 1e-5) if loose else (exact <= mp.mpf(1e-5) * (1 + mp.mpf(10) ** -9))
    assert made.epsilon(np.log(0.99e-6)) == np.inf
    far = grid.compose_at_epsilon(members, 300.0)
    assert far.valid_radius == np.inf
    assert 0 <= far.log_delta(300.0) - float(mp.log(infinite)) <= 1e-9


def test_a_thousand_laplace_releases():
    """The exact value is that of a contour integral."""
    accounts = [LaplaceAccountant(sensitivity=1.0, scale=1 / loss) for loss in np.linspace(0.001, 0.02, 1000).tolist()]
    assert 0 <= sum(accounts).epsilon(1e-6) - 1.6351818343669 <= LOOSE


@pytest.mark.long
def test_ten_thousand_laplace_releases():
    accounts = [LaplaceAccountant(sensitivity=1.0, scale=1 / loss) for loss in np.linspace(0.001, 0.02, 10**4).tolist()]
    assert 0 <= sum(accounts).epsilon(1e-6) - 5.9133543199545 <= 1e-6


def test_gaussian_members_are_one_member():
    shifts = np.linspace(0.01, 0.1, 40)
    made = [(GaussianPair(mu=mu), 1) for mu in shifts.tolist()]
    merged = GaussianPair(mu=float(np.sqrt((shifts**2).sum())) * (1 + 1e-15))
    noise = (LaplacePair(shift=0.5), 2)
    found = [grid.compose_at_log_delta([*gaussian, noise], -14.0).epsilon(-14.0) for gaussian in (made, [(merged, 1)])]
    assert found[0] == pytest.approx(found[1], rel=1e-12)


def test_below_the_missing_mass_epsilon_is_infinite():
    made = grid.compose_at_log_delta(responses(0.0078125, 34), np.log(1e-6))
    assert made.epsilon(-1e5) == np.inf
    assert made.epsilon(np.log(1e-9)) < np.inf


def exact_sum(blocks):
    """The convolution of masses in rational numbers."""
    total = [Fraction(1)]
    for block in blocks:
        sums = [Fraction(0)] * (len(total) + len(block.masses) - 1)
        for i, mass in enumerate(total):
            for j, other in enumerate(block.masses.tolist()):
                sums[i + j] += mass * Fraction(other)
        total = sums
    return total


def lacking(found, exact):
    """The exact mass that an array lacks, summed over all values."""
    first = len(exact) - found.below_top - len(found.masses)
    total = Fraction(0)
    for i, mass in enumerate(exact):
        inside = first <= i < first + len(found.masses)
        total += max(mass - (Fraction(float(found.masses[i - first])) if inside else 0), 0)
    return total


def falling(rate, count):
    masses = np.exp(-rate * np.arange(count))
    return Block(masses=masses / masses.sum(), below_top=0, missing=0.0)


BLOCKS = [falling(0.1 * k, 12) for k in range(1, 6)]  # five blocks: one waits for the next level of the tree


def test_the_bound_on_missing_mass_covers_rounding():
    """Without the rounding errors of the transforms the bound is 0, which is less than what is missing."""
    found, power = sum_of_blocks(BLOCKS), power_of_block(BLOCKS[0], 5)
    assert 0 < lacking(found, exact_sum(BLOCKS)) <= Fraction(found.missing) < 1e-12
    assert 0 < lacking(power, exact_sum(BLOCKS[:1] * 5)) <= Fraction(power.missing) < 1e-12


def test_the_bound_on_missing_mass_covers_what_is_dropped(monkeypatch):
    """Without the dropped mass the bound is that of rounding alone, a billion times less than what is missing."""
    monkeypatch.setattr(convolution_tree, "_NEGLIGIBLE", 1e-3)
    found, power = sum_of_blocks(BLOCKS), power_of_block(BLOCKS[0], 5)
    assert len(found.masses) < 5 * 11
    assert found.below_top > 0
    assert 1e-4 < lacking(found, exact_sum(BLOCKS)) <= Fraction(found.missing) < 1e-3
    assert 1e-4 < lacking(power, exact_sum(BLOCKS[:1] * 5)) <= Fraction(power.missing) < 1e-3


@pytest.mark.parametrize(("shift", "step"), [(0.02, 0.0013), (0.02, 0.03), (3.0, 0.25), (0.5, 2.0), (1.0, 1 / 3)])
def test_the_lattice_of_laplace_noise_dominates_it(shift, step):
    """Its curve is that of the losses in pieces that are linear in e^epsilon, also between the nodes."""
    pair, c = LaplacePair(shift=shift), 2.0
    found, plain = pair.tilted_lattice(c, step, -shift, shift), LossPair.tilted_lattice(pair, c, step, -shift, shift)
    assert found.tilted == pytest.approx(plain.tilted, rel=1e-11)
    assert (found.log_moment, found.log_mass) == pytest.approx((plain.log_moment, plain.log_mass), abs=1e-11)
    nodes = [mp.mpf(shift) - mp.mpf(step) * k for k in reversed(range(len(found.tilted)))]
    scale = mp.exp(found.log_moment)
    masses = [scale * mass * mp.exp(-c * node) for mass, node in zip(found.tilted.tolist(), nodes, strict=True)]
    for at in np.linspace(-shift - step, shift, 41)[:-1].tolist():
        exact = -mp.expm1(min((at - mp.mpf(shift)) / 2, at) if at < -shift else (at - mp.mpf(shift)) / 2)
        delta = mp.fsum(-mass * mp.expm1(at - node) for mass, node in zip(masses, nodes, strict=True) if node > at)
        assert exact * (1 - mp.mpf(10) ** -14) <= delta <= exact + step
    assert mp.fsum(masses) >= 1
