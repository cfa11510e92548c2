"""Posterior accounts at the limits of their parameters: an error that states the range, or a valid number."""

import mpmath as mp
import numpy as np
import pytest

from privsample import (
    BetaBernoulli,
    DiffusedPosterior,
    DirectPosterior,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalKnownVariance,
    PosteriorAccountant,
)
from privsample.accounting.curves import quadrature
from privsample.accounting.posterior.beta import BetaPair
from privsample.accounting.posterior.gamma import GammaRatePair, GammaShapePair
from privsample.errors import NumericalFailure

ORDERS = np.array([1.5, 20.0])


def models(prior):
    return [
        BetaBernoulli(alpha=prior, beta=prior),
        DirichletCategorical(alpha=(prior, prior, prior)),
        GammaPoisson(shape=prior, rate=1.0, upper=3),
        GammaExponential(shape=1.0, rate=prior, upper=3.0),
        NormalKnownVariance(mean=0.0, variance=prior, noise_variance=1.0, bounds=(0.0, 1.0)),
    ]


@pytest.mark.parametrize("weight", [1e-310, 9e-301, 5e-324])
def test_a_weight_too_small_is_refused(weight):
    for model in models(2.0):
        with pytest.raises(ValueError, match=r"data_weight must lie in \[1e-300, 1\]"):
            PosteriorAccountant(model=model, n=10, data_weight=weight)
    with pytest.raises(ValueError, match=r"data_weight must lie in \[1e-300, 1\]"):
        DiffusedPosterior(model=models(2.0)[0], n=10, data_weight=weight)


@pytest.mark.parametrize("prior", [5e-324, 1e-300, 9e-151, 1e17, 1e200, 1e308])
def test_a_prior_so_large_that_records_are_rounded_away_is_refused(prior):
    for model in models(prior)[:3]:
        with pytest.raises(ValueError, match=r"the prior's parameters must lie in \[1e-150, 1e\+16\]"):
            PosteriorAccountant(model=model, n=10)
        with pytest.raises(ValueError, match=r"the prior's parameters must lie in \[1e-150, 1e\+16\]"):
            DirectPosterior(model=model, n=10)
    with pytest.raises(ValueError, match=r"must lie in \[1e-150, 1e\+16\]"):
        PosteriorAccountant(model=BetaBernoulli(alpha=1.0, beta=prior), n=10)


@pytest.mark.parametrize("prior", [0.5, 2.0, 1e12, 1e16])
def test_within_the_range_small_weights_have_a_small_positive_cost(prior):
    """To leading order the divergence of order a is a/2 times the squared step times the information."""
    for model in models(prior):
        for weight in (1e-300, 1e-200, 1e-100):
            cost = PosteriorAccountant(model=model, n=10, data_weight=weight).rdp(ORDERS)
            assert np.all((cost > 0.0) & (cost < 1e-150))
    beta = PosteriorAccountant(model=BetaBernoulli(alpha=prior, beta=prior), n=10, data_weight=1e-100)
    information = float(2 * mp.psi(1, mp.mpf(prior)))
    assert beta.rdp(ORDERS) == pytest.approx(ORDERS / 2 * information * 1e-200, rel=1e-9)


@pytest.mark.parametrize("prior", [1e12, 1e16])
def test_at_large_priors_the_renyi_curve_is_the_normal_limits(prior):
    """Beta(a + 1, b) against Beta(a, b + 1): a/2 times (1/a + 1/b) at a = b, for large a."""
    account = PosteriorAccountant(model=BetaBernoulli(alpha=prior, beta=prior), n=1)
    assert account.rdp(ORDERS) == pytest.approx(ORDERS / 2 * 2 / prior, rel=1e-6)
    assert 0.0 <= account.epsilon(1e-3) < 1e-3


@pytest.mark.parametrize(
    ("prior", "group"),
    [
        (1e-150, 1),
        (1e-17, 1),
        (1e-17, 3),
        *(
            pytest.param(prior, group, marks=pytest.mark.long)
            for prior, group in ((1e-150, 3), (1e-100, 1), (1e-100, 3))
        ),
    ],
)
def test_a_tiny_prior_has_nearly_infinite_cost(prior, group):
    """P is nearly concentrated at 1 and Q at 0."""
    for model in models(prior)[:3]:
        account = PosteriorAccountant(model=model, n=group).group(group)
        assert account.epsilon(0.5) > 0.1 / prior  # and larger at a smaller delta
        assert np.isinf(account.rdp(2.0))


@pytest.mark.parametrize(
    "pair",
    [
        BetaPair(a=1e-300, b=1e-300, step=1.0),
        BetaPair(a=1e-300, b=1e-300, step=2.0**53),
        GammaShapePair(shape=1e-300, step=1.0, rising=False),
        GammaShapePair(shape=1e-300, step=2.0**53, rising=False),
        GammaShapePair(shape=1e-300, step=2.0**53, rising=True),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_integral_beyond_the_floats_is_rounded_up(pair):
    """delta is nearly 1 there; a value that cannot be computed must not be small."""
    try:
        assert pair.log_delta(np.array([1.0]))[0] == 0.0
    except NumericalFailure as error:
        assert "no guarantee is stated" in str(error)  # noqa: PT017 - either end is right


def test_a_prior_too_small_for_a_renyi_curve():
    model = GammaExponential(shape=1.0, rate=1e-300, upper=1e300)
    with pytest.raises(NumericalFailure, match="exceeds 1e300"):
        PosteriorAccountant(model=model, n=3).rdp(2.0)


@pytest.mark.parametrize(("rate", "upper"), [(1e300, 1e-300), (1e200, 1e-200), (1e150, 1e-140)])
def test_a_tiny_ratio_of_rates_has_a_small_cost(rate, upper):
    account = PosteriorAccountant(model=GammaExponential(shape=1.0, rate=rate, upper=upper), n=3)
    assert 0.0 < account.rdp(2.0) < 1e-200
    assert 0.0 < account.delta(0.0) < 1e-200
    assert account.epsilon(1e-6) == 0.0


def test_a_huge_epsilon_has_a_small_delta():
    """The threshold of the loss overflows, and the density there is zero, not unknown."""
    pair = GammaRatePair(shape=3e-211, rate=1.0, step=1e-98, rising=False)
    values = pair.log_delta(np.array([0.0, 1e-3, 5.0, 1e5, 1e9]))
    assert (values < -500).all()
    assert (np.diff(values) <= 0).all()


def test_a_prior_precision_that_overflows_is_refused():
    model = NormalKnownVariance(mean=0.0, variance=1e-300, noise_variance=1.0, bounds=(0.0, 1.0))
    with pytest.raises(ValueError, match="must be finite and > 0"):
        PosteriorAccountant(model=model, n=3, prior_weight=1e300)


def gaussian_delta(mu, epsilon):
    """The privacy curve of the Gaussian mechanism at 60 digits: the limit for a prior of huge weight."""
    with mp.workdps(60):
        mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
        return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("weight", [1e12, 1e16, 1e18, 1e20, 1e24])
@pytest.mark.parametrize(
    ("model", "sensitivity", "loosest"),
    [
        (BetaBernoulli(alpha=1.0, beta=1.0), np.sqrt(2.0), 4.0),  # a bound by all numbers of ones, for huge weights
        (GammaExponential(shape=1.0, rate=1.0, upper=3.0), 3.0, 0.02),
    ],
)
def test_a_prior_of_huge_weight_costs_what_a_gaussian_costs(weight, model, sensitivity, loosest, monkeypatch):
    """The rounding of the log density grows with the weight; the quadrature must not try to resolve it."""
    monkeypatch.setattr(quadrature, "_MOST_PANELS", 2000)
    account, mu = PosteriorAccountant(model=model, n=100, prior_weight=weight), sensitivity / np.sqrt(weight)
    for epsilon in (0.0, mu, 4.0 * mu):
        excess = float(account.delta(epsilon) / gaussian_delta(mu, epsilon)) - 1.0
        assert -1e-9 < excess < loosest
    assert 0.0 < account.epsilon(1e-12) < 20.0 * mu or weight > 1e22


def test_a_peak_beyond_the_search_is_refused_without_a_warning():
    pair = BetaPair(a=1e100, b=1e50, step=1e-100)
    with pytest.raises(NumericalFailure, match="the peak of a privacy curve's integrand was not found"):
        pair.log_delta(np.array([0.0, 1e-50, 1e-8, 1.0, 50.0, 1e8, 1e50]))
