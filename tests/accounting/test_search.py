"""Random accounts of each family against the truth at eighty digits; the cases where accounts were below it."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import privsample as ps
from privsample.accounting.loss import planner
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.product import ProductPair
from tests.accounting.search.check import search
from tests.accounting.search.families import FAMILIES
from tests.properties import is_thorough

ROUNDING = 1e-15  # of a logarithm that is a double
# Families whose accounts or truths take long: settings in the lanes `test` and `long`. Of the others 6 and 2000.
FEW = {
    "laplace": (2, 500),
    "kernel": (1, 300),
    "conjugate": (1, 500),
    "noisy_statistics": (3, 1000),
    "few_sampled_gaussians": (0, 200),
    "many_sampled_gaussians": (0, 100),
    "thresholded_steps": (1, 200),
    "discrete_noise": (1, 500),
    "shuffled": (2, 2000),
    "selected_response": (2, 1000),
    "bounded_range": (3, 1000),
}


@pytest.mark.parametrize("family", [family for family in FAMILIES if FEW.get(family, (6, 2000))[0]])
def test_no_account_is_below_the_truth(family):
    settings = FEW.get(family, (6, 2000))[0]
    found = search(family, settings, 0, ROUNDING)
    assert found.below == []
    assert found.comparisons >= settings


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_no_account_of_many_is_below_the_truth(family):
    seed = int(np.random.default_rng().integers(2**31)) if is_thorough() else 1
    found = search(family, FEW.get(family, (6, 2000))[1], seed, ROUNDING)
    assert found.below == [], f"seed {seed}"


def test_a_search_finds_an_account_below_the_truth(monkeypatch):
    """A mutant: the account of one record in place of a group."""
    monkeypatch.setattr(ps.GaussianAccountant, "group", lambda self, _size: self)
    assert len(search("gaussian", 40, 0, ROUNDING).below) >= 5


@pytest.mark.parametrize("size", [2, 3, 5, 7, 11])
def test_groups_are_rounded_up(size):
    for x in (0.1, 0.3, 1 / 3, 0.7, 1e-9 / 7):
        pure = ps.PureAccountant(stated_epsilon=x).group(size)
        assert Fraction(pure.stated_epsilon) >= size * Fraction(x)
        assert Fraction(ps.ZCDPAccountant(rho=x).group(size).rho) >= size * size * Fraction(x)
        assert Fraction(ps.BoundedRangeAccountant(loss_range=x).group(size).loss_range) >= size * Fraction(x)
        for account in (
            ps.LaplaceAccountant(sensitivity=x, scale=1.0),
            ps.GaussianAccountant(sensitivity=x, noise_std=1),
        ):
            assert Fraction(account.group(size).sensitivity) >= size * Fraction(x)
        approximate = ps.ApproximateAccountant(stated_epsilon=x, stated_delta=1e-9)
        with mpmath.workdps(40):
            truth = mpmath.mpf(1e-9) * mpmath.expm1(size * mpmath.mpf(x)) / mpmath.expm1(mpmath.mpf(x))
            assert truth <= approximate.group(size).stated_delta <= truth * (1 + 1e-14)


def test_compositions_of_renyi_curves_are_rounded_up():
    for times in (3, 7, 1234):
        for rho in (0.1, 0.3, 1 / 7):
            orders = 1.0 + np.array([0.001341755536841755, 0.3, 17.7])
            reported = (times * ps.ZCDPAccountant(rho=rho)).rdp(orders)
            for order, value in zip(orders, reported, strict=True):
                assert Fraction(float(value)) >= times * Fraction(rho) * Fraction(float(order))


def test_squares_of_noisy_statistics_are_rounded_up():
    for vector in ([0.1, 0.7], [0.3], [0.2, 0.2, 1 / 3]):
        for noise_std in (0.3, 1.7, 11.1):
            differences = ps.RecordSensitivity(differences=[vector])
            account = ps.StatisticsAccountant(
                differences=differences, n=5, noise=ps.GaussianNoise(noise_std=noise_std), draws=3, group_size=5
            )
            square = sum(Fraction(x) ** 2 for x in vector) * 25 * 3 / Fraction(noise_std) ** 2 / 2
            assert square <= Fraction(account.zcdp) <= square * (1 + Fraction(1, 10**14))
            assert Fraction(float(account.rdp(1.7))) >= square * Fraction(1.7)


def test_a_search_along_the_contour_that_begins_at_zero_is_over():
    """The Rényi conversion is 0 at a large delta, from where no secant leads further down."""
    product = ProductPair(members=((GaussianPair(mu=0.01), 60),))
    assert planner.least_epsilon(product, math.log(0.9)).epsilon == 0.0


def test_tails_of_a_gaussian_beyond_fifty_standard_deviations():
    """The asymptotic series of a Mills ratio ended before a positive term, and lay 2.4e-11 below."""
    for mu, z in ((0.003, 50.5), (0.003, 52.0), (0.09, 70.0), (0.01, 51.0), (0.003, 49.5)):
        epsilon = z * mu
        with mpmath.workdps(50):
            shift, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
            tails = [mpmath.erfc((e / shift + side * shift / 2) / mpmath.sqrt(2)) / 2 for side in (-1, 1)]
            truth = mpmath.log(tails[0] - mpmath.exp(e) * tails[1])
            excess = float(GaussianPair(mu=mu).log_delta(np.array([epsilon]))[0] - truth)
        assert 0.0 <= excess <= 1e-10
