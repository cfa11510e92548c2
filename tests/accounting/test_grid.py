"""Compositions on a grid, compared with sums at 50 digits, nested integrals and closed forms."""

import itertools
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

from privsample.accounting.curves.conversion import log_delta_from_renyi
from privsample.accounting.loss import grid
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.accounting.loss.pair import DiscretePair, binary_pair
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.posterior.beta import BetaPair

pytestmark = pytest.mark.filterwarnings("error")
LOOSE = 1e-6


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


def discrete(p, q):
    with np.errstate(divide="ignore"):
        return DiscretePair(log_p=np.log(np.array(p) / np.sum(p)), log_q=np.log(np.array(q) / np.sum(q)))


def binomial(epsilon, times):
    """Exact delta of `times` randomized responses; the loss is (times - 2j) epsilon if j of them are flipped."""
    loss = mp.mpf(epsilon)
    log_right = -mp.log1p(mp.exp(-loss))

    def delta(at):
        j = min(int(mp.floor((times - mp.mpf(at) / loss) / 2)), times)
        if j < 0:
            return mp.mpf(0)
        log_choose = mp.loggamma(times + 1) - mp.loggamma(j + 1) - mp.loggamma(times - j + 1)
        mass, total = mp.exp(log_choose + times * log_right - j * loss), mp.mpf(0)
        odds = mp.exp(loss)
        while j >= 0 and (total == 0 or mass > total * mp.mpf(10) ** -30):
            total -= mass * mp.expm1(at - (times - 2 * j) * loss)
            mass *= j / mp.mpf(times - j + 1) * odds
            j -= 1
        return total

    return delta


def outcomes(pair, times=1):
    """(P mass, Q mass) of every outcome of repeated discrete releases; equal losses are not merged."""
    single = [(mp.exp(p), mp.exp(q)) for p, q in zip(pair.log_p, pair.log_q, strict=True)]
    return [(mp.fprod(p for p, _ in o), mp.fprod(q for _, q in o)) for o in itertools.product(single, repeat=times)]


def brute(*members):
    """Exact delta by enumeration."""
    joint = [(mp.mpf(1), mp.mpf(1))]
    for pair, times in members:
        joint = [(p * r, q * s) for p, q in joint for r, s in outcomes(pair, times)]
    return lambda at: mp.fsum(max(p - mp.exp(at) * q, mp.mpf(0)) for p, q in joint)


def gaussian(mu):
    def delta(at):
        return mp.ncdf(mu / 2 - at / mu) - mp.exp(at) * mp.ncdf(-mu / 2 - at / mu)

    return lambda at: delta(mp.mpf(at))


def laplace(shift):
    def delta(at):
        if at >= shift:
            return mp.mpf(0)
        return -mp.expm1((at - shift) / 2) if at > -shift else -mp.expm1(at)

    return lambda at: delta(mp.mpf(at))


def with_laplace(shift, delta, cuts=()):
    """Compose with one Laplace release: loss atoms at +-shift and density e^{(l - shift)/2}/4 between them."""
    shift = mp.mpf(shift)

    def result(at):
        kinks = sorted({x for cut in cuts for x in [mp.mpf(at) - cut] if -shift < x < shift})
        inside = mp.quad(
            lambda x: mp.exp((x - shift) / 2) / 4 * delta(at - x), [-shift, *kinks, shift], method="gauss-legendre"
        )
        return delta(at - shift) / 2 + mp.exp(-shift) / 2 * delta(at + shift) + inside

    return result


def with_finite(pair, delta):
    """Compose with a discrete loss: E delta(at - L)."""
    single = outcomes(pair)
    return lambda at: mp.fsum(p * (delta(at - mp.log(p / q)) if q else 1) for p, q in single if p)


def settles(members, truth, log_delta, loose=LOOSE, flat=0.0):
    """Check that epsilon (with `flat`, delta) is at least the exact value and exceeds it only slightly."""
    found, goal = ProductPair(members=tuple(members)).least_epsilon(log_delta), mp.exp(log_delta)
    most = mp.fsum(times * mp.mpf(pair.max_divergence) for pair, times in members)
    assert truth(found) <= goal * (1 + mp.mpf(10) ** -9) or most > found >= most * (1 - 1e-15)  # a sum of floats
    assert found <= 1e-11 or truth(found - loose) > goal * (1 - flat)


@pytest.mark.parametrize("log_delta", [np.log(0.3), np.log(1e-6), np.log(1e-12), np.log(1e-300)])
@pytest.mark.parametrize(("epsilon", "times"), [(1.0, 1), (0.3, 50), (2.0, 7), (0.01, 10**4), (1e-9, 1000), (50.0, 4)])
def test_randomized_response(epsilon, times, log_delta):
    settles([(binary_pair(epsilon), times)], binomial(epsilon, times), log_delta)


def test_a_million_randomized_responses():
    settles([(binary_pair(0.01), 10**6)], binomial(0.01, 10**6), np.log(1e-300))


@pytest.mark.parametrize(
    ("epsilon", "times", "at"),
    [
        (1.0, 3, [-5.0, -0.5, 0.0, 0.5, 1.0, 2.9, 3 - 1e-6]),
        (1.0, 10, [9.0, 10 - 1e-7, 10 - 1e-10]),
        (0.5, 2000, [400.0, 430.0, 460.0, 500.0, 990.0]),
        (50.0, 4, [-3.0, 0.0, 100.0, 199.9]),
        (1e-9, 1000, [0.0, 1e-9, 1e-8, 1e-7]),
    ],
)
def test_the_curve_of_randomized_response(epsilon, times, at):
    found = ProductPair(members=((binary_pair(epsilon), times),)).log_delta(np.array(at))
    truth = binomial(epsilon, times)
    for x, log_delta in zip(at, found, strict=True):
        assert log_delta >= float(mp.log(truth(x))) - 1e-12
        assert truth(x - LOOSE) * (1 + mp.mpf(10) ** -9) >= mp.exp(log_delta)


def test_losses_far_above_the_centre_are_resolved_on_further_grids():
    """Tilted masses span more than the exponents of a float; masses that underflow must not be dropped."""
    truth, members = binomial(0.5, 40_000), ((binary_pair(0.5), 40_000),)
    at = np.array([9700.0, 9800.0, 9900.0, 10_000.0])
    found = ProductPair(members=members).log_delta(at)
    for x, log_delta in zip(at, found, strict=True):
        assert 0 <= log_delta - float(mp.log(truth(x))) <= 1.0
    sharp = grid.compose_at_epsilon(members, 9700.0)
    for x in (9700.0, 10_000.0, 10_400.0, 12_000.0):
        assert sharp.log_delta(x) >= float(mp.log(truth(x)))


LAPLACES = ((1.0, 1.0), (1.0, 1.7), (0.01, 2.0))


@pytest.mark.parametrize(
    ("shifts", "delta"),
    [
        pytest.param(
            shifts,
            delta,
            marks=[] if (shifts, delta) in ((LAPLACES[1], 1e-200), (LAPLACES[2], 1e-6)) else pytest.mark.long,
        )
        for shifts in LAPLACES
        for delta in (0.3, 1e-6, 1e-200)
    ],
)
def test_two_laplace_releases(shifts, delta):
    first, second = shifts
    truth = with_laplace(first, laplace(second), (-second, second))
    settles([(LaplacePair(shift=first), 1), (LaplacePair(shift=second), 1)], truth, np.log(delta))


def test_fifty_laplace_releases_by_an_independent_sum():
    found = ProductPair(members=((LaplacePair(shift=0.5), 50),)).least_epsilon(float(np.log(1e-6)))
    assert -1e-9 <= found - 18.7546813882 <= LOOSE


def gaussian_cases():
    """One delta for each number of releases, one number of releases for each delta; the others in the long lane."""
    for (mu, times), delta in itertools.product(
        ((1.0, 1), (0.1, 100), (0.003, 10**4), (5.0, 3)), (0.1, 1e-6, 1e-12, 1e-300)
    ):
        marks = [] if times == 100 or delta == 1e-6 else pytest.mark.long
        yield pytest.param(mu, times, np.log(delta), marks=marks)


@pytest.mark.parametrize(("mu", "times", "log_delta"), list(gaussian_cases()))
def test_gaussians_have_a_closed_form(mu, times, log_delta):
    members, truth = [(GaussianPair(mu=mu), times)], gaussian(mp.mpf(mu) * mp.sqrt(times))
    found = grid.compose_at_log_delta(members, log_delta).epsilon(log_delta)
    assert truth(found) <= mp.exp(log_delta) * (1 + mp.mpf(10) ** -9)
    assert truth(found - (LOOSE if log_delta > -28 else 1e-4)) > mp.exp(log_delta)


def test_large_losses_composed_with_a_small_loss():
    """Losses of half a million, composed with one so small that no grid resolves it."""
    at, truth = np.array([5e5 + 1200]), gaussian(mp.mpf(1000))
    found = ProductPair(members=((GaussianPair(mu=1000.0), 1), (binary_pair(1e-9), 1))).log_delta(at)
    for x, log_delta in zip(at, found, strict=True):
        assert 0 <= log_delta - float(mp.log(truth(x))) <= 1e-5


@pytest.mark.parametrize("delta", [1e-6, *(pytest.param(delta, marks=pytest.mark.long) for delta in (0.2, 1e-12))])
def test_randomized_response_composed_with_two_kinds_of_noise(delta):
    mu, shift, loss = 0.8, 1.0, 0.6
    truth = with_laplace(shift, gaussian(mp.mpf(mu)))
    for _ in range(3):
        truth = with_finite(binary_pair(loss), truth)
    members = [(binary_pair(loss), 3), (LaplacePair(shift=shift), 1), (GaussianPair(mu=mu), 1)]
    settles(members, truth, np.log(delta))


FINITE = [
    discrete([0.5, 0.3, 0.2, 0.0], [0.0, 0.1, 0.6, 0.3]),
    discrete([0.6, 0.4, 0.0], [0.2, 0.5, 0.3]),
    discrete([0.01, 0.5, 0.49], [0.3, 0.3, 0.4]),
    discrete([1e-9, 1.0], [1.0, 1e-9]),
    discrete([1.0, 1.0 + 1e-9], [1.0 + 1e-9, 1.0]),
    binary_pair(0.7),
    binary_pair(2.1),
    discrete([1.0, 2.0], [1.0, 2.0]),
]


@pytest.mark.parametrize("seed", range(6))
def test_finite_mechanisms_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    chosen = [FINITE[i] for i in rng.integers(len(FINITE), size=3)]
    if seed % 2:
        p, q = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3)) * (rng.random(3) > 0.3)
        chosen[0] = discrete(p, q + (q.sum() == 0))
    members = [(chosen[0], 1), (chosen[1], 2), (chosen[2], 1)]
    for turned in (members, [(pair.reverse(), times) for pair, times in members])[:: 1 if seed < 3 else 2]:
        truth, product = brute(*turned), ProductPair(members=tuple(turned))
        for at in (-3.0, 0.0, 0.35, 1.3, 30.0):
            log_delta = float(product.log_delta(np.float64(at)))
            assert mp.exp(log_delta) >= truth(at) * (1 - mp.mpf(10) ** -12)
            assert mp.exp(log_delta) <= truth(at - 2 * LOOSE) + 4 * LOOSE
        infinite, total = float(truth(1e6)), float(truth(0.0))
        for share in (0.0, 0.3, 0.99):
            delta = infinite + max(share * (total - infinite), 1e-5)
            settles(turned, truth, np.log(min(delta, 0.999)), 2 * LOOSE, flat=1e-5)


def test_multiples_of_one_loss_that_rounding_places_above_their_node():
    """3 * 0.7 is below 2.1 in floats; the mass must not become infinity mass."""
    members = [(binary_pair(0.7), 200), (binary_pair(2.1), 1)]

    def truth(at):
        right = 1 / (1 + mp.exp(-mp.mpf(2.1)))
        answers = binomial(0.7, 200)
        return right * answers(at - mp.mpf(2.1)) + (1 - right) * answers(at + mp.mpf(2.1))

    settles(members, truth, np.log(1e-30))


def test_a_tiny_loss_among_large_ones_needs_no_huge_grid():
    answer, noise = (binary_pair(1.0), binomial(1.0, 1)), (GaussianPair(mu=1.0), gaussian(mp.mpf(1)))
    for pair, (other, truth) in ((binary_pair(1e-9), answer), (LaplacePair(shift=1e-9), noise)):
        found = ProductPair(members=((pair, 1), (other, 1))).least_epsilon(np.log(0.02))
        assert truth(found) <= 0.02
        assert truth(found - 2 * LOOSE) > 0.02


def test_many_tiny_losses_keep_their_relative_precision():
    members, log_delta = [(binary_pair(1e-9), 10**5)], np.log(1e-9)
    settles(members, binomial(1e-9, 10**5), log_delta, loose=1e-9)
    found = ProductPair(members=((LaplacePair(shift=1e-9), 10**5),)).least_epsilon(log_delta)
    assert found == pytest.approx(ProductPair(members=tuple(members)).least_epsilon(log_delta), rel=1e-2)


def test_a_composition_of_zero_losses_has_zero_delta():
    members = ((binary_pair(0.0), 3), (discrete([1.0, 2.0], [1.0, 2.0]), 2))
    product = ProductPair(members=members)
    assert product.least_epsilon(np.log(1e-9)) <= 1e-12
    assert product.log_delta(np.array([-1.0, 0.0, 1.0])) == pytest.approx([np.log(-np.expm1(-1)), -np.inf, -np.inf])


def test_below_the_infinity_mass_epsilon_is_infinite():
    pair = discrete([1e-3, 0.0, 0.5, 0.4], [0.0, 1e-3, 0.4, 0.5])
    infinite = 1 - (1 - np.exp(pair.log_p[0])) ** 5
    product = ProductPair(members=((pair, 5),))
    assert product.least_epsilon(np.log(infinite * (1 - 1e-6))) == np.inf
    assert product.least_epsilon(np.log(infinite * (1 + 1e-6))) < 5.0
    assert np.exp(product.log_delta(np.float64(1e5))) == pytest.approx(infinite, rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e5, 1e7, 1e12])
def test_losses_further_apart_than_the_represented_range(epsilon):
    """No node of the grid lies within hundreds of nats of the requested epsilon."""
    product = ProductPair(members=((binary_pair(epsilon), 30),))
    assert (product.log_delta(epsilon * np.array([0.1, 0.5, 29.9])) >= -1e-9).all()
    assert product.least_epsilon(np.log(0.9)) == pytest.approx(30 * epsilon, rel=1e-6)
    made = grid.compose_at_epsilon(product.members, 29.9 * epsilon)
    assert len(made.nodes) == 0
    assert made.log_delta(29.9 * epsilon) == made.epsilon(-1.0) == np.inf


def test_where_the_grid_is_not_tight_the_renyi_conversion_is_used():
    product = ProductPair(members=((binary_pair(2e9), 30), (GaussianPair(mu=1.0), 1)))
    assert grid.compose_at_log_delta(product.members, np.log(1e-6)).epsilon(np.log(1e-6)) == np.inf
    assert 6e10 <= product.least_epsilon(np.log(1e-6)) <= 6e10 * (1 + 1e-6)


def test_nan_is_no_guarantee():
    made = replace(grid.compose_at_log_delta(((binary_pair(0.3), 50),), np.log(1e-8)), tail=np.array([]))
    assert replace(made, delta=made.delta * np.nan).epsilon(np.log(1e-8)) == np.inf


def test_the_composed_curve_is_an_upper_bound_everywhere():
    """Also far from its centre; log delta is 0 below the truncation bound."""
    members, truth = ((binary_pair(0.3), 50),), binomial(0.3, 50)
    for made in (grid.compose_at_epsilon(members, 4.0), grid.compose_at_log_delta(members, np.log(1e-8))):
        for at in np.linspace(-16.0, 16.0, 40):
            value = truth(at) if at > -15 else -mp.expm1(at)
            assert value == 0 or made.log_delta(float(at)) >= float(mp.log(value)) - 1e-12
        assert made.log_delta(-1e3) == 0.0
        assert made.epsilon(-1e5) >= 15.0
        nodes = [made.log_delta(float(x)) for x in np.linspace(0.0, 14.9, 60)]
        assert (np.diff(nodes) <= 1e-12).all()


@pytest.mark.parametrize(
    "members",
    [
        pytest.param(((binary_pair(1.0), 4), (LaplacePair(shift=0.4), 3)), marks=pytest.mark.long),
        ((FINITE[2], 3), (GaussianPair(mu=0.7), 2)),
        ((BetaPair(a=3.0, b=8.0, step=0.7), 2), (LaplacePair(shift=0.4), 3)),
    ],
    ids=range(3),
)
def test_grid_and_contour_agree_and_lie_below_the_renyi_bound(members):
    product = ProductPair(members=members)
    for delta in (0.05, 1e-10):
        epsilon = product.least_epsilon(np.log(delta))
        is_expensive = any(pair.is_expensive for pair, _ in members)  # shared out from a few values of the curve
        assert product.log_delta(np.float64(epsilon)) <= np.log(delta) + (1e-2 if is_expensive else 1e-5)
        assert product.log_delta(np.float64(epsilon + (1e-2 if is_expensive else LOOSE))) <= np.log(delta)
        assert np.log(delta) <= log_delta_from_renyi(product.renyi, product.order_limit, epsilon - LOOSE)
    grid = product.log_delta(np.linspace(-2.0, 6.0, 7))
    assert (np.diff(np.exp(grid)) <= 1e-9).all()
    turned = product.reverse().log_delta(np.array([0.7]))
    assert np.exp(product.log_delta(np.array([-0.7]))) == pytest.approx(1 - np.exp(-0.7) + np.exp(-0.7 + turned))


def test_below_the_truncated_mass_epsilon_is_infinite():
    made = grid.compose_at_log_delta(((GaussianPair(mu=60.0), 1),), np.log(1e-3))
    assert made.epsilon(np.log(1e-3)) < 2e3
    assert made.epsilon(-100.0) == np.inf
