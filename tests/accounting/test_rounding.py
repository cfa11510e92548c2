"""Rényi curves are rounded up: never below 130 digits computed from the stored doubles, also near the limit."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from privsample import (
    Accountant,
    BetaBernoulli,
    BoundedRangeAccountant,
    DirichletCategorical,
    GammaPoisson,
    GaussianAccountant,
    LaplaceAccountant,
    NormalKnownVariance,
    PosteriorAccountant,
    PureAccountant,
    ZCDPAccountant,
)
from privsample._logspace import exact_product, half_square, product_up
from privsample.accounting.posterior.pairs import (
    lower_product,
    lower_sum,
    upper_product,
    upper_sum,
)
from tests.accounting.golden import reference
from tests.accounting.rounding import FAMILIES, search, true_divergence

SLACK = 1e-9  # relative, at orders below 0.999 of the limit


@pytest.mark.parametrize(
    ("account", "group", "order", "old", "truth"),
    [
        (
            PosteriorAccountant(
                model=GammaPoisson(shape=0.02645375481744518, rate=58.96585661426223, upper=5),
                n=7,
                data_weight=0.5,
                prior_weight=71.5333546941134,
            ),
            1,
            1.7569303297440748,
            28.8731946518,
            28.8731946895,
        ),
        (
            PosteriorAccountant(
                model=DirichletCategorical(alpha=(0.0023818789891549056, 0.027635759887582954)),
                n=2,
                data_weight=0.0010021698989769398,
                prior_weight=1.0010010010010006,
            ),
            5,
            2.1895504189827664,
            16.0447127147,
            16.0447127419,
        ),
        (
            PosteriorAccountant(
                model=GammaPoisson(shape=1.1697664064828812, rate=1.2056969599280825, upper=5),
                n=4,
                data_weight=0.7145583247933315,
                prior_weight=5.255458493707392,
            ),
            3,
            1.5735625840978595,
            49.0270864797,
            49.0270865491,
        ),
    ],
    ids=["poisson", "two categories", "three records"],
)
def test_three_orders_next_to_the_limit_that_were_too_low(account, group, order, old, truth):
    with reference.at(50):
        exact = true_divergence(account, min(group, account.n), order)
        assert abs(exact - truth) < 1e-10
        for draws in (1, 3):
            several = PosteriorAccountant(
                model=account.model,
                n=account.n,
                data_weight=account.data_weight,
                prior_weight=account.prior_weight,
                draws=draws,
            ).group(group)
            for reported in (several.rdp(order), (several + several).rdp(order) / 2, (3 * several).rdp(order) / 3):
                assert mp.mpf(float(reported)) >= draws * exact
                assert float(reported) == pytest.approx(draws * truth, rel=1e-7)
        assert float(exact) > old * (1 + 1e-10)


@pytest.mark.parametrize("family", FAMILIES)
def test_random_accounts_are_never_below(family):
    found = list(search(family, 120, seed=2))
    near = [one for one in found if one.share > 0.999 and one.tight]
    finite = sum(np.isfinite(one.reported) for one in near)
    assert family is NormalKnownVariance or finite > max(10, len(near) / 2)
    for one in found:
        assert one.excess >= 0.0, one
        assert one.share > 0.999 or not one.tight or one.excess <= SLACK, one


def test_an_order_that_may_equal_the_limit_has_infinite_divergence():
    """w alpha is rounded, so the last digit of the limit, 13/3 for real numbers, is not known."""
    account = PosteriorAccountant(model=BetaBernoulli(alpha=0.7, beta=9.0), n=5, data_weight=0.7, prior_weight=1 / 0.3)
    order = 4.333333333333333
    with reference.at(50):
        assert not mp.isinf(true_divergence(account, 1, order))
    assert np.isposinf(account.rdp(order))
    assert account.rdp(order * (1 - 1e-14)) < np.inf


def test_unrounded_parameters_are_accurate_near_the_limit():
    account = PosteriorAccountant(model=BetaBernoulli(alpha=1.0, beta=9.0), n=5)
    order = 2.0 - 2.0**-52
    with reference.at(50):
        assert 0 <= mp.mpf(float(account.rdp(order))) / true_divergence(account, 1, order) - 1 <= 1e-14


def test_directed_rounding_of_parameters():
    rng = np.random.default_rng(5)
    for x, y in zip(rng.uniform(0, 50, 300).tolist(), rng.uniform(0, 1, 300).tolist(), strict=True):
        one, other = Fraction(x), Fraction(y)
        for lower, upper, exact in (
            (lower_product(x, y), upper_product(x, y), one * other),
            (lower_sum(x, y), upper_sum(x, y), one + other),
        ):
            assert lower <= exact <= upper
            assert upper - lower <= 2 * np.spacing(lower)
    assert lower_product(3.0, 1.0) == upper_product(1.0, 3.0) == 3.0
    assert lower_sum(0.5, 0.25) == upper_sum(0.5, 0.25) == 0.75
    assert lower_product(1e300, 1e300) == upper_product(1e300, 1e300) == upper_sum(1e308, 1e308) == np.inf


def test_weights_whose_square_underflows_have_a_positive_cost():
    """The divergence, 1e-100, is r^2 times a curvature of 1e300."""
    account = PosteriorAccountant(model=BetaBernoulli(alpha=1e-150, beta=1e-150), n=10, data_weight=1e-200)
    with reference.at(300):
        assert mp.mpf(float(account.rdp(1.5))) >= true_divergence(account, 1, 1.5)
    assert account.rdp(1.5) == pytest.approx(1.5e-100)


def _gaussian(rng, order):
    shift, noise_std = 10.0 ** rng.uniform(-6, 4, 2)
    return GaussianAccountant(sensitivity=shift, noise_std=noise_std), order * (
        mp.mpf(shift) / mp.mpf(noise_std)
    ) ** 2 / 2


def _zcdp(rng, order):
    rho = 10.0 ** rng.uniform(-8, 8)
    return ZCDPAccountant(rho=rho), order * mp.mpf(rho)


def _laplace(rng, order):
    shift, scale = 10.0 ** rng.uniform(-3, 1, 2)
    z = mp.mpf(shift) / mp.mpf(scale)
    moment = (order * mp.exp((order - 1) * z) + (order - 1) * mp.exp(-order * z)) / (2 * order - 1)
    return LaplaceAccountant(sensitivity=shift, scale=scale), mp.log(moment) / (order - 1)


def _pure(rng, order):
    epsilon = 10.0 ** rng.uniform(-6, 3)
    p, z = 1 / (1 + mp.exp(-mp.mpf(epsilon))), (order - 1) * mp.mpf(epsilon)
    return PureAccountant(stated_epsilon=epsilon), mp.log(p * mp.exp(z) + (1 - p) * mp.exp(-z)) / (order - 1)


def _bounded_range(rng, order):
    width = 10.0 ** rng.uniform(-4, 2.5)

    def growth(x):
        return mp.log(mp.sinh(x / 2) / (x / 2))

    z, s = mp.mpf(width), order - 1
    truth = growth(order * z) - growth(s * z) + (growth(order * z) - growth(z)) / s
    return BoundedRangeAccountant(loss_range=width), truth


@pytest.mark.parametrize("make", [_gaussian, _zcdp, _laplace, _pure, _bounded_range])
def test_closed_forms_are_never_below(make):
    rng = np.random.default_rng(3)
    with reference.at(150):
        for _ in range(200):
            order = 1 + 10.0 ** rng.uniform(-5, 5)
            account, truth = make(rng, mp.mpf(order))
            assert isinstance(account, Accountant)
            assert 0 <= mp.mpf(float(account.rdp(order))) / truth - 1 <= SLACK, (account, order)


def test_inexact_products_are_rounded_up():
    rng = np.random.default_rng(4)
    x, y = rng.uniform(0.0, 10.0, (2, 500))
    with reference.at(60):
        for up, lost, plain, one, other in zip(product_up(x, y), exact_product(x, y)[1], x * y, x, y, strict=True):
            exact = mp.mpf(one) * mp.mpf(other)
            assert mp.mpf(plain) + mp.mpf(lost) == exact
            assert exact <= mp.mpf(up)
            assert up in (plain, np.nextafter(plain, np.inf))
    assert product_up(0.25, np.array([1.5, 8.0])).tolist() == [0.375, 2.0]
    assert product_up(1e-200, 1e-200) > 0.0
    assert product_up(0.0, 3.0) == 0.0
    assert product_up(1e200, 1e200) == np.inf
    assert 2e305 <= product_up(1e305, 2.0) <= 2e305 * (1 + 1e-15)
    assert half_square(0.1) >= 0.005


def test_delta_covers_the_rounding_of_its_logarithm():
    """Of two neighbouring doubles for log delta near -700, the larger has a delta 5e-13 larger, to 50 digits."""
    account = GaussianAccountant(sensitivity=1.0, noise_std=1.0)
    for epsilon in (5.0, 20.0, 30.0, 37.0):
        log_delta = np.nextafter(account.log_delta(epsilon), np.inf)
        with mp.workdps(50):
            assert mp.mpf(float(account.delta(epsilon))) >= mp.exp(mp.mpf(float(log_delta)))
