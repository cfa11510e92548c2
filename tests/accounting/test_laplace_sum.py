"""Laplace noise after Laplace noise: the curve of the sum against 40 digits, and what bounds it."""

import mpmath as mp
import numpy as np
import pytest

import privsample as ps
from privsample import LaplaceAccountant, LaplaceSumAccountant
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.postprocessing.convolution import noise_after
from privsample.accounting.postprocessing.laplace_sum import LaplaceSumPair
from privsample.distributions.parametric.laplace_sum import LaplaceSum

ORDERS = np.array([1.01, 2.0, 30.0])
RATIOS = (1.0, 1 + 1e-15, 1 + 1e-9, 1.3, 1e-3, 30.0, 1e5)


def density(a, b):
    """At x >= 0."""
    if a == b:
        return lambda x: (1 + x / a) * mp.exp(-x / a) / (4 * a)
    return lambda x: (a * mp.exp(-x / a) - b * mp.exp(-x / b)) / (2 * (a * a - b * b))


def tail(a, b, x):
    if x < 0:
        return 1 - tail(a, b, -x)
    if a == b:
        return (2 + x / a) * mp.exp(-x / a) / 4
    return (a * a * mp.exp(-x / a) - b * b * mp.exp(-x / b)) / (2 * (a * a - b * b))


def exact_delta(shift, a, b, epsilon):
    """By the printed density and its threshold, in 60 digits."""
    shift, a, b, epsilon = (mp.mpf(float(x)) for x in (shift, a, b, epsilon))
    if epsilon < 0:
        return 1 - mp.exp(epsilon) + mp.exp(epsilon) * exact_delta(shift, a, b, -epsilon)
    f = density(a, b)
    low, high = shift / 2, shift

    def loss(x):
        return mp.log(f(abs(x - shift)) / f(x))

    if epsilon >= shift / max(a, b):
        return mp.mpf(0)
    while loss(high) < epsilon:
        high = shift + 2 * (high - shift) + max(a, b)
    for _ in range(150):
        middle = (low + high) / 2
        low, high = (middle, high) if loss(middle) < epsilon else (low, middle)
    return tail(a, b, low - shift) - mp.exp(epsilon) * tail(a, b, low)


def test_the_curve_of_the_sum_in_sixty_digits(rng):
    with mp.workdps(60):
        for _ in range(40):
            shift, a = (float(10 ** rng.uniform(*range_)) for range_ in ((-4, 2), (-2, 2)))
            b = a * float(rng.choice(RATIOS))
            epsilon = float(rng.choice([-0.7, -1e-3, 0.0, 1e-3, 0.5, 0.9, 0.99])) * shift / max(a, b)
            pair = LaplaceSumPair(shift=shift, noise=LaplaceSum(scale=a, further_scale=b))
            got = mp.exp(mp.mpf(float(pair.log_delta(np.array(epsilon)))))
            truth = exact_delta(shift, a, b, epsilon)
            assert -1e-15 <= got / truth - 1 < 1e-9


def divergence(f, shift, order):
    points = [-80, -20, -5, -1, 0, shift / 2, shift, shift + 5, 60, 200]
    moment = mp.quad(lambda x: f(abs(x - shift)) ** order * f(abs(x)) ** (1 - order), points)
    return mp.log(moment) / (order - 1)


def test_the_renyi_divergence_of_the_sum():
    with mp.workdps(18):
        for shift, a, b in ((2.0, 1.0, 1.5), (0.3, 1.0, 1.0)):
            account = LaplaceSumAccountant(sensitivity=shift, scale=a, further_scale=b)
            f = density(mp.mpf(a), mp.mpf(b))
            for order, got in zip(ORDERS, account.rdp(ORDERS), strict=True):
                truth = divergence(f, shift, mp.mpf(float(order)))
                assert truth * (1 - mp.mpf(10) ** -12) <= got <= truth * (1 + mp.mpf(10) ** -8)


def test_the_shared_shift_is_above_the_sum_and_below_either_noise(rng):
    for _ in range(6):
        shift, a, b = (float(10 ** rng.uniform(-1, 1)) for _ in range(3))
        account = LaplaceSumAccountant(sensitivity=shift, scale=a, further_scale=b)
        shared = account.split_shift_rdp(ORDERS)
        assert (shared >= account.rdp(ORDERS)).all()
        for scale in (a, b):
            assert (shared <= LaplaceAccountant(sensitivity=shift, scale=scale).rdp(ORDERS) * (1 + 1e-12)).all()
        parts = np.linspace(0.0, shift, 400)[:, None]  # a search that shares no code with golden section
        searched = min(
            float(renyi_of_laplace(part / a, 3.0) + renyi_of_laplace((shift - part) / b, 3.0)) for part in parts.ravel()
        )
        assert float(account.split_shift_rdp(np.array(3.0))) <= searched * (1 + 1e-9)


def renyi_of_laplace(z, order):
    """Mironov 2017, Proposition 6, as printed."""
    terms = order / (2 * order - 1) * np.exp((order - 1) * z) + (order - 1) / (2 * order - 1) * np.exp(-order * z)
    return np.log(terms) / (order - 1)


def test_several_coordinates():
    one = LaplaceSumAccountant(sensitivity=2, scale=1, further_scale=1.5)
    many = LaplaceSumAccountant(sensitivity=2, scale=1, further_scale=1.5, coordinates=3)
    wide = LaplaceAccountant(sensitivity=2, scale=1.5)
    assert (one.kind("delta"), many.kind("delta")) == ("exact", "upper bound")
    assert (many.rdp(ORDERS) == one.split_shift_rdp(ORDERS)).all()
    for delta in (1e-2, 1e-5):
        assert one.epsilon(delta) <= many.epsilon(delta) <= wide.epsilon(delta) * (1 + 1e-12)
    assert many.pure_epsilon == one.pure_epsilon
    assert many.group(2).sensitivity == 4
    assert "Lemma 3" in one.source
    halves = LaplaceSumPair(shift=1.0, noise=LaplaceSum(scale=1.0, further_scale=1.5))  # two coordinates move by one
    assert (2 * halves.renyi(ORDERS) <= many.rdp(ORDERS)).all()
    assert halves.reverse() == halves
    assert np.logaddexp.reduce(halves.discretize(np.linspace(-0.7, 0.7, 9))[0]) >= 0.0
    assert one.bounds.curve_name == "density of the sum"
    assert halves.is_expensive
    assert one.delta(0.5) < many.delta(0.5) <= wide.delta(0.5) * (1 + 1e-12)


def test_noise_after():
    normal = GaussianAccountant(sensitivity=1, noise_std=3)
    assert noise_after(normal, 4.0) == GaussianAccountant(sensitivity=1, noise_std=5)
    laplace = LaplaceAccountant(sensitivity=1, scale=2)
    both = noise_after(laplace, 3.0, coordinates=2)
    assert both == LaplaceSumAccountant(sensitivity=1, scale=2, further_scale=3, coordinates=2)
    assert noise_after(3 * laplace, 3.0, coordinates=2) == 3 * both
    assert 0 < both.split_shift_rdp(np.array(2.0)) < laplace.rdp(2.0)
    for wrong in (both, ps.PureAccountant(stated_epsilon=1)):
        with pytest.raises(TypeError, match="further noise"):
            noise_after(wrong, 1.0)


def test_the_distribution_of_the_sum():
    noise = LaplaceSum(scale=1.0, further_scale=0.4)
    x = np.linspace(-60, 60, 600_001)
    assert np.trapezoid(np.exp(noise.log_density(x)), x) == pytest.approx(1.0, abs=1e-7)
    assert np.trapezoid(x * x * np.exp(noise.log_density(x)), x) == pytest.approx(2 * (1 + 0.16), abs=1e-6)
    for bad in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="further_scale"):
            LaplaceSum(scale=1.0, further_scale=bad)


@pytest.mark.parametrize("coordinates", [1, 3])
@pytest.mark.parametrize(("sensitivity", "further"), [(5e-324, 1.0), (1e-310, 3.0), (1e-200, 1.0), (1.0, 1e200)])
def test_a_shift_that_vanishes_beside_the_noise_is_not_free(sensitivity, further, coordinates):
    account = LaplaceSumAccountant(sensitivity=sensitivity, scale=1.0, further_scale=further, coordinates=coordinates)
    assert min(account.delta(0.0), account.zcdp, account.pure_epsilon, account.rdp([1.5, 1e6]).min()) > 0.0


@pytest.mark.parametrize(
    ("sensitivity", "scale", "further", "coordinates"),
    [
        (1e308, 1e308, 1e308, 1),
        (1e308, 1e308, 1e308, 3),
        (1e308, 1e308, 1.0, 1),
        pytest.param(1e308, 1e308, 1.0, 3, marks=pytest.mark.long),
        (1.0, 1.0, 5e-324, 1),
        pytest.param(1.0, 1.0, 5e-324, 3, marks=pytest.mark.long),
        (1e308, 5e-324, 1e308, 1),
        pytest.param(1e308, 5e-324, 1e308, 3, marks=pytest.mark.long),
        (1e308, 1e-300, 1e8, 1),
        pytest.param(1e308, 1e-300, 1e8, 3, marks=pytest.mark.long),
    ],
)
def test_at_the_ends_of_the_floats_nothing_overflows_and_all_fails_upwards(sensitivity, scale, further, coordinates):
    account = LaplaceSumAccountant(sensitivity=sensitivity, scale=scale, further_scale=further, coordinates=coordinates)
    near = min(scale, further) > max(scale, further) * 1e-300
    shift = min(sensitivity / max(scale, further), 1e4)  # of the same noise in another unit, or of less
    less = LaplaceSumAccountant(
        sensitivity=shift,
        scale=1.0,
        further_scale=min(scale, further) / max(scale, further) if near else 1e-9,
        coordinates=coordinates,
    )
    orders, epsilons = np.array([1.01, 2.0, 1e6]), np.array([0.0, 0.1, 0.9, 3.0])
    assert np.all(account.rdp(orders) >= less.rdp(orders) * (1 - 1e-6))
    assert np.all(account.log_delta(epsilons) >= less.log_delta(epsilons) - 1e-6)
    assert account.epsilon(1e-3) >= less.epsilon(1e-3) * (1 - 1e-6)
    assert account.pure_epsilon >= sensitivity / max(scale, further)


def test_laplace_noise_on_numbers_near_the_largest_float():
    one = ps.LaplaceAccountant(sensitivity=1e308, scale=1.0)
    assert one.rdp(2.0) == one.epsilon(0.1) == 1e308
    assert one.delta(0.1) == 1.0
