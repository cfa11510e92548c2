"""The Gaussian on a Poisson sample: its curves and their composition, against quadrature and other accountants."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from privsample.accounting.curves.conversion import crossing, log_delta_from_renyi
from privsample.accounting.loss.contour import summed_log_delta
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.subsampling.gaussian import PoissonGaussianPair, base_epsilon


def pair(mu, rate, removed=True):
    return PoissonGaussianPair(mu=mu, rate=rate, removed=removed)


def mp_log_w(mu, rate, z):
    return mp.log(1 - mp.mpf(rate) + rate * mp.exp(mu * z - mp.mpf(mu) ** 2 / 2))


def mp_log_delta(mu, rate, removed, epsilon):
    """From the two normal tails beyond the threshold, at 60 digits and more."""
    with mp.workdps(400):
        mu, q, e = mp.mpf(mu), mp.mpf(rate), mp.exp(mp.mpf(epsilon))
        ratio = (e - 1 + q) / q if removed else (1 / e - 1 + q) / q
        if ratio <= 0:
            return mp.log(1 - e) if removed else mp.ninf
        z = mp.log(ratio) / mu + mu / 2
        tail0, tail1 = (mp.erfc(z / mp.sqrt(2)) / 2, mp.erfc((z - mu) / mp.sqrt(2)) / 2)
        if removed:
            return mp.log((1 - q) * tail0 + q * tail1 - e * tail0)
        return mp.log((1 - tail0) - e * ((1 - q) * (1 - tail0) + q * (1 - tail1)))


@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize("rate", [1e-8, 0.01, 0.9])
@pytest.mark.parametrize("mu", [0.01, 1.0, 10.0])
def test_the_curve_has_a_closed_form(mu, rate, removed):
    own = pair(mu, rate, removed)
    top = min(own.max_divergence, 30 * mu + mu * mu / 2)
    for epsilon in [-3.0, -0.7 * rate, 0.0, 1e-3 * top, 0.3 * top, 0.9 * top]:
        truth = mp_log_delta(mu, rate, removed, epsilon)
        excess = float(own.log_delta(np.float64(epsilon)) - truth)
        assert -1e-16 <= excess <= 1e-8 * max(1.0, abs(float(truth)))


def test_the_curve_at_its_ends():
    removed, added = pair(1.0, 0.25), pair(1.0, 0.25, False)
    assert removed.reverse() == added
    assert removed.max_divergence == np.inf
    assert added.max_divergence == -np.log(0.75)
    assert removed.log_delta(np.log(0.5)) == pytest.approx(np.log(0.5))
    assert added.log_delta(added.max_divergence) == -np.inf
    assert removed.log_delta(np.float64(50.0)) < -700
    assert np.all(np.isfinite(removed.log_delta(np.array([-800.0, 800.0]))))


def test_below_zero_the_two_directions_meet():
    removed, added = pair(0.7, 0.2), pair(0.7, 0.2, False)
    for e in (-0.6, -0.1, 0.05, 0.2):
        both = 1 - np.exp(e) + np.exp(e + added.log_delta(np.float64(-e)))
        assert np.exp(removed.log_delta(np.float64(e))) == pytest.approx(both, rel=1e-11)
        assert base_epsilon(np.float64(e), 0.2, removed=True)[0] == np.log(0.2)


def mp_renyi(mu, rate, removed, order):
    with mp.workdps(40):
        s = mp.mpf(order) if removed else 1 - mp.mpf(order)

        def excess(z):
            return mp.npdf(z) * (
                mp.expm1(s * mp_log_w(mu, rate, z)) - s * rate * mp.expm1(mu * z - mp.mpf(mu) ** 2 / 2)
            )

        peak = max(float(s) * mu, 0.0)
        ends = sorted({-14.0, -5.0, 0.0, 5.0, 2 * mu, 2 * mu + 14, peak - 7, peak, peak + 7, peak + 14})
        return mp.log1p(mp.quad(excess, [x for x in ends if x >= -14])) / (mp.mpf(order) - 1)


@pytest.mark.parametrize(
    ("mu", "rate", "removed", "order"),
    [
        (0.01, 1e-8, True, 1 + 1e-6),
        (1.0, 1e-8, False, 1 + 1e-6),
        pytest.param(1.0, 1e-8, True, 35.5, marks=pytest.mark.long),
        (3.0, 0.1, False, 7.3),
        pytest.param(3.0, 0.9, True, 1.5, marks=pytest.mark.long),
        (5.0, 1e-3, True, 2.5),
        pytest.param(5.0, 0.9, False, 9.0, marks=pytest.mark.long),
    ],
)
def test_the_renyi_divergence_by_quadrature(mu, rate, removed, order):
    got = pair(mu, rate, removed).renyi(np.array([order]))[0]
    assert -1e-15 <= float(got / mp_renyi(mu, rate, removed, order) - 1) <= 1e-12


@pytest.mark.parametrize(
    ("mu", "rate", "order"),
    [*itertools.product((0.02, 1.0, 3.0), (0.3,), (2, 3, 30)), (1.0, 1e-6, 2), (1.0, 0.01, 30), (3.0, 0.5, 1500)],
)
def test_whole_orders_have_a_binomial_sum(mu, rate, order):
    with mp.workdps(60):
        q, factor = mp.mpf(rate), mp.mpf(mu) ** 2 / 2
        terms = (
            mp.binomial(order, k) * (1 - q) ** (order - k) * q**k * mp.exp(factor * k * (k - 1))
            for k in range(order + 1)
        )
        truth = mp.log(mp.fsum(terms)) / (order - 1)
    got = pair(mu, rate).renyi(np.array([[order]]))
    assert got.shape == (1, 1)
    assert -1e-14 <= float(got[0, 0] / truth - 1) <= 1e-11


@pytest.mark.parametrize("mu", [1e-4, 0.01, 1.0, 10.0])
@pytest.mark.parametrize("rate", [1e-8, 0.1])
def test_large_orders_stay_right(mu, rate):
    """Between one term of the binomial sum and the divergence without sampling."""
    orders = np.array([1e3, 3e4, 1e6])
    got = pair(mu, rate).renyi(orders)
    assert np.all(
        got >= np.maximum(orders / (orders - 1) * (np.log(rate) + (orders - 1) * mu * mu / 2), 0.0) * (1 - 1e-14)
    )
    assert np.all(got <= GaussianPair(mu=mu).renyi(orders))
    added = pair(mu, rate, False).renyi(orders)
    assert np.all((added > 0) & (added <= -np.log1p(-rate) * (1 + 1e-9)))


def fine_mgf(mu, rate, removed, t):
    """In 80-bit floats, on a grid far finer than the turns."""
    z = np.linspace(np.longdouble(-12), np.longdouble(12 + 2 * mu), 20_001)
    log_w = np.log1p(rate * np.expm1(mu * z - np.longdouble(mu) ** 2 / 2))
    mass = np.exp(-z * z / 2) * (z[1] - z[0]) / np.sqrt(2 * np.longdouble("3.14159265358979323846"))
    return np.sum(mass * np.exp((1 + t if removed else -t) * log_w))


@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize(("mu", "rate"), [(0.5, 0.01), (1.5, 0.4)])
def test_complex_moments_with_their_error(mu, rate, removed):
    own, t = pair(mu, rate, removed), np.array([0.8, 0.8 + 0.1j, 0.8 - 7j, 0.8 + 300j])
    log_m, error = own.log_mgf_with_error(t)
    assert np.array_equal(own.log_mgf(t), log_m)
    for got, off, at in zip(log_m, error, t, strict=True):
        truth = fine_mgf(mu, rate, removed, np.clongdouble(at))
        assert off < 1e-10
        assert abs(np.exp(got) / truth - 1) <= off + 1e-15


def test_tiny_moments_keep_their_relative_precision():
    own, t = pair(1.0, 1e-7), 2.0 + 3.0j
    with mp.workdps(50):
        s, q = 1 + mp.mpc(t), mp.mpf(1e-7)
        integrand = lambda z: mp.npdf(z) * (mp.expm1(s * mp_log_w(1.0, 1e-7, z)) - s * q * mp.expm1(z - 0.5))  # noqa: E731
        truth = complex(mp.log1p(mp.quad(integrand, [-15, -5, 0, 5, 10, 20])))
    (got,), (error,) = own.log_mgf_with_error(np.array([t]))
    assert abs(got - truth) <= error + 1e-13 * abs(truth)
    assert error <= 1e-7 * abs(truth)


@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize(("mu", "rate", "c"), [(0.3, 0.01, 3.0), (1.0, 0.01, 3.0), (1.0, 0.9, 0.5), (4.0, 0.3, 0.2)])
def test_the_bound_of_the_fall_lies_above_all_that_follows(mu, rate, c, removed):
    own = pair(mu, rate, removed)
    widths = np.geomspace(1e-2, 300.0, 200) / mu
    log_m = own.log_mgf(np.append(c, c + 1j * widths)).real
    fall = own.log_decay(c, widths)
    assert np.all(fall >= np.maximum.accumulate((log_m[1:] - log_m[0])[::-1])[::-1])
    assert np.all(np.diff(fall) <= 1e-12)
    assert fall[0] < 0.25 * (log_m[1] - log_m[0])  # within a factor of two in width of the truth


def test_what_takes_too_long_is_not_claimed():
    own = pair(1.0, 0.3)
    assert np.isnan(own.log_mgf(1.0 + 1j * np.linspace(1e3, 1e4, 100_000))).all()
    assert by_contour(((pair(1.0, 1e-3), 1),), 0.1) == np.inf
    assert own.log_mgf(np.array([1e9 + 0j, 2.0]))[0] < np.inf
    between = pair(1e-4, 1e-8)  # two modes, 4e5 standard deviations apart at this order
    order = 2 * np.log(1e8) / 1e-8
    assert between.renyi(np.array([order])) == np.inf
    assert between.log_decay(order - 1, np.array([1.0])) == 0.0


def by_contour(members, epsilon):
    return summed_log_delta(members, np.inf, epsilon)


def test_ten_thousand_steps_of_private_gradient_descent():
    """Reference: the same integral in 80-bit floats on another grid, for three values of c."""
    members = ((pair(1.0, 0.01), 10_000),)
    truth = np.log(9.999999986930999e-06)
    assert 0 <= by_contour(members, 6.1877123904) - truth <= 1e-11
    product = ProductPair(members=members)
    epsilon = crossing(lambda e: float(product.log_delta(np.float64(e))) - np.log(1e-5), 6.0)
    assert epsilon == pytest.approx(6.1877123904, abs=5e-10)
    assert by_contour(((pair(1.0, 0.01, False), 10_000),), epsilon) < np.log(1e-5)


@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize(("mu", "rate"), [(1.0, 0.9), (1.0, 0.5), (0.5, 0.3)])
def test_two_steps_by_direct_integration(mu, rate, removed):
    """Given the first loss, the second has to exceed what is left: integrate its curve over the
    first's distribution.
    """
    own = pair(mu, rate, removed)
    z = np.linspace(-13, 13 + mu, 40_001)
    log_w = np.log1p(rate * np.expm1(mu * z - mu * mu / 2))
    mass = (z[1] - z[0]) * stats.norm.pdf(z) * (np.exp(log_w) if removed else 1.0)
    for epsilon in (0.1, 0.5):
        direct = np.log(mass @ np.exp(own.log_delta(epsilon - (log_w if removed else -log_w))))
        assert by_contour(((own, 2),), epsilon) == pytest.approx(direct, abs=3e-11)


@pytest.mark.parametrize(("mu", "rate", "times"), [(0.5, 0.1, 200), (2.0, 0.02, 1000), (1.0, 0.9, 30)])
@pytest.mark.parametrize("removed", [True, False])
def test_against_a_brute_force_convolution(mu, rate, times, removed):
    """The loss on a grid, rounded up and rounded down, convolved by the Fourier transform."""
    epsilon = {200: 1.2, 1000: 2.5, 30: 8.0}[times]
    h, size = 2e-4 if times > 30 else 2e-3, 2**20
    z = np.linspace(-12, 12 + mu, 400_001)
    log_w = np.log1p(rate * np.expm1(mu * z - mu * mu / 2))
    cells = np.diff(stats.norm.cdf(z) * (1 - rate) + rate * stats.norm.cdf(z - mu) if removed else stats.norm.cdf(z))
    low, high = (log_w[:-1], log_w[1:]) if removed else (-log_w[1:], -log_w[:-1])
    curves = []
    for at in (np.floor(low / h), np.ceil(high / h)):
        distribution = np.zeros(size)
        np.add.at(distribution, at.astype(int) % size, cells)
        total = np.fft.irfft(np.fft.rfft(distribution) ** times, size)
        loss = h * ((np.arange(size) + size // 2) % size - size // 2)
        curves.append(np.sum(total * -np.expm1(np.minimum(epsilon - loss, 0.0))))
    found = np.exp(by_contour(((pair(mu, rate, removed), times),), epsilon))
    assert curves[0] - 1e-13 <= found <= curves[1] + 1e-13


@pytest.mark.parametrize(
    ("mu", "rate", "times", "epsilon"),
    [(1.0, 0.01, 1000, 1.5), pytest.param(2.0, 0.001, 3000, 1.0, marks=pytest.mark.long)],
)
def test_between_the_two_estimates_of_another_library(mu, rate, times, epsilon):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    found = max(by_contour(((pair(mu, rate, removed), times),), epsilon) for removed in (True, False))
    above, below = (
        pld.from_gaussian_mechanism(
            1 / mu, sampling_prob=rate, value_discretization_interval=2e-4, pessimistic_estimate=pessimistic
        )
        .self_compose(times)
        .get_delta_for_epsilon(epsilon)
        for pessimistic in (True, False)
    )
    assert below < np.exp(found) < above


@pytest.mark.parametrize(
    ("mu", "rate", "times", "log_delta"),
    [
        (0.01, 1e-4, 10**7, -230),
        (0.3, 1e-4, 10**5, -30),
        (1.0, 1e-4, 10**7, -5),
        (2.0, 0.3, 1000, -230),
        (10.0, 0.3, 100, -30),
    ],
)
def test_from_few_records_to_many_steps_it_lies_below_the_renyi_bound(mu, rate, times, log_delta):
    own = pair(mu, rate)
    bound = lambda e: log_delta_from_renyi(lambda a: times * own.renyi(a), np.inf, e)  # noqa: E731
    epsilon = crossing(lambda e: bound(e) - log_delta, times * float(own.renyi(np.array([1 + 1e-9]))[0]))
    found = by_contour(((own, times),), epsilon)
    assert log_delta - 14 <= found <= log_delta + 1e-6


def test_with_noise_of_another_kind():
    """Small rates of a strong member against the same with plain Gaussian noise added, by integrating over it."""
    own, noise = pair(1.0, 0.05), GaussianPair(mu=0.8)
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    losses = 0.8 * nodes + 0.32  # of N(0.8, 1) against N(0, 1), under the first
    epsilon = 3.0
    alone = np.array([np.exp(ProductPair(members=((own, 400),)).log_delta(np.float64(epsilon - x))) for x in losses])
    direct = np.log(weights @ alone / np.sqrt(2 * np.pi))
    assert by_contour(((own, 400), (noise, 1)), epsilon) == pytest.approx(direct, abs=1e-6)


@pytest.mark.parametrize(("mu", "rate"), [(0.0, 0.1), (np.nan, 0.1), (1.0, 0.0), (1.0, 1.0), (1.0, np.nan)])
def test_parameters_are_checked(mu, rate):
    with pytest.raises(ValueError, match=r"(mu|rate) must"):
        pair(mu, rate)
