"""Gaussian, Laplace, randomized response and stated guarantees against their definitions, in 60 digits."""

import math

import mpmath as mp
import numpy as np
import pytest

from privsample import (
    ApproximateAccountant,
    BoundedRangeAccountant,
    GaussianAccountant,
    LaplaceAccountant,
    PureAccountant,
    RandomizedResponseAccountant,
    ReplaceOne,
    ZCDPAccountant,
)
from tests.accounting.golden import reference

RELATIVE = 1e-6
ORDERS = [1 + 1e-6, 1.01, 2.0, 7.5, 300.0, 1e6]


def check_curve(account, epsilon, truth):
    """delta is at most a relative 1e-6 above the truth and never below; log delta too, up to rounding."""
    log_delta = account.log_delta(epsilon)
    if truth <= 0:
        assert log_delta == -np.inf or log_delta < -36 + math.log1p(abs(epsilon))
        return
    excess = float(mp.mpf(float(log_delta)) - mp.log(truth))
    assert -4 * np.spacing(1 + abs(log_delta)) <= excess <= RELATIVE, (epsilon, excess)
    assert truth <= mp.mpf(float(account.delta(epsilon))), (epsilon, excess)


def check_renyi(account, truth):
    values = account.rdp(np.array(ORDERS))
    assert (values >= 0).all()
    assert (np.diff(values) >= -1e-12 * values[1:]).all()
    for order, value in zip(ORDERS, values, strict=True):
        assert abs(mp.mpf(float(value)) / truth(order) - 1) <= 1e-10, order


def hockey_stick(epsilon, p, q):
    return mp.fsum(max(x - mp.exp(mp.mpf(epsilon)) * y, 0) for x, y in zip(p, q, strict=True))


@pytest.mark.parametrize("mu", [1e-9, 1e-5, 0.01, 0.09, 0.11, 1.0, 3.0, 30.0, 1e3])
def test_gaussian(mu):
    account = GaussianAccountant(sensitivity=mu, noise_std=1.0)
    with reference.at(400):
        for depth in (-30, -1, -0.01, 0.0, 1e-3, 0.7, 6, 25, 37):
            epsilon = float(depth * mu + mu * mu / 2)
            truth = mp.exp(reference.log_delta_normal(epsilon, mu))
            check_curve(account, epsilon, truth)
        check_renyi(account, lambda order: reference.renyi_normal(order, mu, 1))
        assert account.zcdp == pytest.approx(mu * mu / 2, rel=1e-15)


@pytest.mark.parametrize("shift", [1e-9, 1e-3, 0.5, 3.0, 40.0])
def test_laplace(shift):
    account = LaplaceAccountant(sensitivity=shift, scale=1.0)
    with reference.at(60):
        z = mp.mpf(shift)

        def density(x, at):
            return mp.exp(-abs(x - at)) / 2

        for share in (-1.5, -1.0, -0.3, 0.0, 0.5, 0.999):
            epsilon = float(share * shift)
            cut = [-mp.inf, *sorted({mp.mpf(0), z, min(max((z - mp.mpf(epsilon)) / 2, 0), z)}), mp.inf]
            if shift >= 0.5:  # the integral itself
                e = mp.mpf(epsilon)
                truth = mp.quad(lambda x, e=e: max(density(x, 0) - mp.exp(e) * density(x, z), 0), cut)
            else:
                truth = 1 - mp.exp((mp.mpf(epsilon) - z) / 2) if share >= -1 else 1 - mp.exp(mp.mpf(epsilon))
            check_curve(account, epsilon, truth)

        def renyi(order):
            a = mp.mpf(order)
            pieces = (mp.exp((a - 1) * z), mp.exp(-a * z))
            inside = (pieces[0] - pieces[1]) / (
                2 * a - 1
            )  # integral over (0, z) of e^{-ax + (a-1)(x - z)...} both sides
            return mp.log((pieces[0] + pieces[1] + inside) / 2) / (a - 1)

        check_renyi(account, renyi)
        assert account.pure_epsilon == shift
        assert account.epsilon(0.0) == shift


@pytest.mark.parametrize(("log_odds", "categories"), [(1e-9, 2), (0.3, 2), (3.0, 5), (40.0, 2), (690.0, 1000)])
def test_randomized_response(log_odds, categories):
    account = RandomizedResponseAccountant(log_odds=log_odds, categories=categories, relation=ReplaceOne(n=3))
    with reference.at(400):
        weight = mp.exp(mp.mpf(log_odds))
        total = weight + categories - 1
        p = [weight / total, 1 / total, *[1 / total] * (categories - 2)]
        q = [p[1], p[0], *p[2:]]
        for share in (-2.0, -1.0, -0.4, 0.0, 0.7, 0.999):
            check_curve(account, share * log_odds, hockey_stick(share * log_odds, p, q))
        check_renyi(account, lambda order: reference.renyi_discrete(order, p, q))
        assert account.epsilon(0.0) == pytest.approx(log_odds, rel=1e-14)


@pytest.mark.parametrize("stated", [1e-9, 0.2, 5.0, 100.0])
def test_pure(stated):
    account = PureAccountant(stated_epsilon=stated)
    with reference.at(200):
        true = 1 / (1 + mp.exp(-mp.mpf(stated)))
        p, q = [true, 1 - true], [1 - true, true]
        for share in (-2.0, -1.0, -0.4, 0.0, 0.7, 0.999):
            check_curve(account, share * stated, hockey_stick(share * stated, p, q))
        check_renyi(account, lambda order: reference.renyi_discrete(order, p, q))
    for delta in (0.0, 1e-300, 1e-10, 0.5):
        assert account.epsilon(delta) <= stated
    assert account.delta(stated) == 0.0


@pytest.mark.parametrize(("stated", "infinity_mass"), [(0.0, 0.1), (0.5, 1e-8), (5.0, 0.3), (0.5, 0.0)])
def test_approximate(stated, infinity_mass):
    account = ApproximateAccountant(stated_epsilon=stated, stated_delta=infinity_mass)
    with reference.at(60):
        true, keep = 1 / (1 + mp.exp(-mp.mpf(stated))), 1 - mp.mpf(infinity_mass)
        p = [mp.mpf(infinity_mass), 0, keep * true, keep * (1 - true)]
        q = [0, mp.mpf(infinity_mass), keep * (1 - true), keep * true]
        for epsilon in (-1.0, 0.0, stated / 2, stated, stated + 1):
            truth = hockey_stick(epsilon, p, q)
            if truth:
                check_curve(account, epsilon, truth)
    assert account.epsilon(infinity_mass) <= stated
    assert np.isinf(account.epsilon(infinity_mass / 2)) == (infinity_mass > 0)
    assert np.isinf(account.rdp(2.0)) == (infinity_mass > 0)
    assert account.order_limit == (1.0 if infinity_mass else np.inf)


@pytest.mark.parametrize(
    "loss_range", [1e-6, 1.0, 50.0, *(pytest.param(loss, marks=pytest.mark.long) for loss in (0.1, 6.0))]
)
def test_bounded_range(loss_range):
    """The worst distribution of loss t and t - range, by brute force over t."""
    account = BoundedRangeAccountant(loss_range=loss_range)
    width = mp.mpf(loss_range)
    with reference.at(60):

        def pair(t):
            q = (1 - mp.exp(t - width)) / (mp.exp(t) - mp.exp(t - width))
            return [q * mp.exp(t), (1 - q) * mp.exp(t - width)], [q, 1 - q]

        def best(f):
            """The maximum over t in (0, range) of a unimodal function."""
            low, high = mp.mpf(0), width
            golden = (mp.sqrt(5) - 1) / 2
            for _ in range(160):
                one, other = high - golden * (high - low), low + golden * (high - low)
                low, high = (low, other) if f(one) >= f(other) else (one, high)
            return f((low + high) / 2)

        for share in (0.0, 0.3, 0.9):
            epsilon = share * loss_range
            truth = best(lambda t, e=epsilon: pair(t)[0][0] - mp.exp(mp.mpf(e)) * pair(t)[1][0])
            check_curve(account, epsilon, truth)
        check_curve(account, -2 * loss_range, 1 - mp.exp(-2 * width))
        for order in ORDERS:
            truth = best(lambda t, a=order: reference.renyi_discrete(a, *pair(t)))
            assert abs(float(account.rdp(order)) / truth - 1) <= 1e-10, order
    assert account.epsilon(0.0) == loss_range
    for order in ORDERS:
        assert account.rdp(order) <= min(order * account.zcdp, loss_range) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("account", "delta", "expected"),
    [
        (GaussianAccountant(sensitivity=1, noise_std=1e5), 1e-8, 2.71781e-5),
        (GaussianAccountant(sensitivity=1, noise_std=0.01), 1e-6, 5474.3655),
        (GaussianAccountant(sensitivity=1, noise_std=2), 0.5, 0.0),
        (100 * GaussianAccountant(sensitivity=1, noise_std=2), 1e-300, 197.448104881),
    ],
)
def test_cases_in_which_other_libraries_fail(account, delta, expected):
    digits = 12 if expected > 100 else 6
    assert account.epsilon(delta) == pytest.approx(expected, rel=10.0 ** -(digits - 1) if expected < 1 else 1e-8)


def test_integers_and_floats_give_the_same():
    whole, real = GaussianAccountant(sensitivity=1, noise_std=2), GaussianAccountant(sensitivity=1.0, noise_std=2.0)
    assert whole == real
    assert hash(whole) == hash(real)
    assert whole + real == 2 * real
    assert 3 * PureAccountant(stated_epsilon=1) == PureAccountant(stated_epsilon=1.0) + 2 * PureAccountant(
        stated_epsilon=1
    )
    assert (whole + real).epsilon(1e-6) == (2 * whole).epsilon(1e-6)
    assert LaplaceAccountant(sensitivity=2, scale=1).rdp(3) == LaplaceAccountant(sensitivity=2.0, scale=1.0).rdp(3.0)


def test_zcdp():
    account = ZCDPAccountant(rho=0.25)
    assert account.rdp(np.array([1.5, 8.0])).tolist() == [0.375, 2.0]
    assert np.isinf(account.epsilon(0.0))
    nothing = ZCDPAccountant(rho=0)
    assert nothing.epsilon(0.0) == 0.0
    assert nothing.epsilon(1e-9) == 0.0
