"""Compositions by contour integral, compared with closed forms, single curves and a direct integral."""

import numpy as np
import pytest

from privsample import (
    BetaBernoulli,
    DirichletCategorical,
    GammaPoisson,
    GaussianAccountant,
    LaplaceAccountant,
    NormalKnownVariance,
    PosteriorAccountant,
    ReplaceOne,
)
from privsample._logspace import complex_log1p_excess, complex_log_gamma_growth
from privsample.accounting.curves.conversion import log_delta_from_renyi
from privsample.accounting.engine.envelope import BoundsEnvelope
from privsample.accounting.loss import contour
from privsample.accounting.loss.contour import _truncation_width, summed_log_delta, summed_log_deltas
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.posterior.beta import BetaPair, BetaRows
from privsample.accounting.posterior.family import BetaEnvelope
from privsample.accounting.posterior.gamma import GammaRatePair, GammaShapePair

SMOOTH = [
    BetaPair(a=6.0, b=111.0, step=0.4),
    BetaPair(a=6.0, b=1e12, step=0.1),
    BetaPair(a=5e11, b=5e11, step=1.0),
    GammaShapePair(shape=30.0, step=2.0, rising=True),
    GammaShapePair(shape=30.0, step=2.0, rising=False),
    GammaRatePair(shape=40.0, rate=20.0, step=0.7, rising=True),
    GammaRatePair(shape=40.0, rate=20.0, step=0.7, rising=False),
]


@pytest.mark.parametrize("times", [1, 7, 100, 10**6])
@pytest.mark.parametrize("mu", [1e-5, 0.3, 20.0])
def test_gaussians_have_a_closed_form(mu, times):
    together = GaussianPair(mu=mu * np.sqrt(times))
    for share in (0.0, 1.0, 6.0, 30.0):
        epsilon = together.mu * share + together.mu**2 / 2
        excess = summed_log_delta([(GaussianPair(mu=mu), times)], np.inf, epsilon) - together.log_delta(epsilon)
        assert -1e-11 * (1 + abs(together.log_delta(epsilon))) <= excess <= 1e-9


@pytest.mark.parametrize("pair", SMOOTH, ids=str)
def test_one_draw_is_the_pair_itself(pair):
    product = ProductPair(members=((pair, 1),))
    assert product.order_limit == pair.order_limit
    assert product.max_divergence == pair.max_divergence
    scale = np.sqrt(2 * pair.renyi(np.array([1 + 1e-6]))[0])
    epsilons = np.array([-3.0, -0.5, 0.0, 0.3, 1.0, 3.0, 6.0]) * scale
    assert product.log_delta(epsilons) == pytest.approx(pair.log_delta(epsilons), abs=1e-7)
    assert product.renyi(np.array([1.5, 2.0])) == pytest.approx(pair.renyi(np.array([1.5, 2.0])))


@pytest.mark.parametrize("pair", SMOOTH, ids=str)
@pytest.mark.parametrize("times", [2, 30])
def test_the_contour_lies_below_the_renyi_bound(pair, times):
    product = ProductPair(members=((pair, times),))
    scale = np.sqrt(2 * times * pair.renyi(np.array([1 + 1e-6]))[0])
    for share in (0.5, 2.0, 6.0):
        by_order = log_delta_from_renyi(product.renyi, product.order_limit, share * scale)
        assert summed_log_delta(product.members, product.order_limit, share * scale) < by_order


def test_two_draws_by_direct_integration():
    """Given the loss l of the first draw, the second has to exceed e - l: integrate its curve over the first's
    distribution.
    """
    pair = BetaPair(a=3.0, b=8.0, step=0.7)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    y = 25.0 * nodes  # logit theta under P = Beta(a + step, b)
    logs = (pair.a + pair.step) * -np.log1p(np.exp(-y)) + pair.b * -np.log1p(np.exp(y))
    mass = np.exp(logs - logs.max()) * weights
    mass /= mass.sum()
    from scipy.special import gammaln

    growth = gammaln(pair.a) - gammaln(pair.a + pair.step) + gammaln(pair.b + pair.step) - gammaln(pair.b)
    for epsilon in (0.0, 0.4, 1.5, 4.0):
        direct = np.log(np.sum(mass * np.exp(pair.log_delta(epsilon - pair.step * y - growth))))
        assert ProductPair(members=((pair, 2),)).log_delta(np.float64(epsilon)) == pytest.approx(direct, abs=1e-9)


def test_where_the_contour_has_no_tight_bound_the_grid_answers():
    pair = GammaShapePair(shape=0.003, step=0.004, rising=False)
    assert summed_log_delta([(pair, 1)], pair.order_limit, 7.0) == np.inf
    found, truth = ProductPair(members=((pair, 1),)).log_delta(np.float64(7.0)), pair.log_delta(np.float64(7.0))
    assert truth <= found <= truth + 5e-3 < log_delta_from_renyi(pair.renyi, pair.order_limit, 7.0)


def test_a_modulus_that_does_not_decrease_has_no_truncation_width():
    assert (
        _truncation_width([(GammaShapePair(shape=1.0, step=1e-30, rising=True), 1)], np.array([1e12]), np.array([3.0]))
        == np.inf
    )


def test_noise_and_a_posterior_below_zero():
    members = ((BetaPair(a=6.0, b=111.0, step=0.4), 2), (GaussianPair(mu=0.2), 3))
    product = ProductPair(members=members)
    below = product.log_delta(np.float64(-0.7))
    above = product.reverse().log_delta(np.float64(0.7))
    assert np.exp(below) == pytest.approx(1 - np.exp(-0.7) + np.exp(-0.7 + above))


def test_delta_is_zero_beyond_the_largest_loss():
    pair = GammaRatePair(shape=40.0, rate=20.0, step=0.7, rising=True)
    assert ProductPair(members=((pair, 3),)).log_delta(np.float64(3 * pair.max_divergence * (1 + 1e-14))) == -np.inf


def test_the_least_epsilon_is_found_along_the_contour():
    product = ProductPair(members=((GammaRatePair(shape=40.0, rate=20.0, step=0.7, rising=True), 3),))
    epsilon = product.least_epsilon(float(np.log(1e-6)))
    assert product.log_delta(np.float64(epsilon)) <= np.log(1e-6) < product.log_delta(np.float64(epsilon - 1e-8))


def test_draws_of_a_posterior_and_noise_compose_exactly():
    posterior = PosteriorAccountant(model=BetaBernoulli(alpha=6, beta=12), n=50, data_weight=0.5, draws=4)
    noise = GaussianAccountant(sensitivity=1, noise_std=9, relation=ReplaceOne(n=50))
    account = posterior + noise
    routes = {route.name: route.epsilon for route in account.explain(1e-6)}
    assert routes["composed loss, by contour integral"] < routes["Rényi curve at its best order"]
    assert account.epsilon(1e-6) == routes["composed loss, by contour integral"]
    assert account.delta(account.epsilon(1e-6)) <= 1e-6
    assert posterior.kind("epsilon") == "exact"
    assert account.kind("epsilon") == "upper bound"
    worst = max(pair.log_delta(np.float64(1.0)) for pair in account.pairs)
    assert account.log_delta(1.0) == pytest.approx(worst, abs=1e-12)


def test_real_valued_records_keep_their_slack():
    model = BetaBernoulli(alpha=6, beta=12, fractional=True)
    account = PosteriorAccountant(model=model, n=20, data_weight=0.5, draws=2)
    worst = max(pair.log_delta(np.float64(1.0)) for pair in account.pairs)
    assert 0 <= account.log_delta(1.0) - worst <= 1e-8


def dominated(account):
    """True if the account has one product pair with a member that dominates both orders of the neighbours."""
    (product,) = account.pairs
    return any(isinstance(part, BoundsEnvelope) for part, _ in product.members)


def test_members_that_may_be_worst_for_opposite_neighbours_are_dominated_first():
    one = PosteriorAccountant(model=BetaBernoulli(alpha=6, beta=12), n=8)
    other = PosteriorAccountant(model=GammaPoisson(shape=9, rate=1, upper=2), n=8)
    account = one + other
    assert dominated(account)
    assert not any(isinstance(pair, BetaEnvelope) for pair in account.bounds.pairs)
    assert account.epsilon(1e-6) == pytest.approx(account.explain(1e-6)[0].epsilon)
    assert dominated(one + LaplaceAccountant(sensitivity=1, scale=3, relation=ReplaceOne(n=8)))


def curve_of(account):
    """Privacy curves of all members of the family over which the account is maximized."""
    (envelope,) = account.bounds.pairs
    assert isinstance(envelope, BetaEnvelope)
    return envelope._curve


def test_the_certified_search_does_not_change_the_other_members():
    """A Dirichlet posterior of equal priors has one Beta pair too, but not the sums of the other account's records."""
    beta = PosteriorAccountant(model=BetaBernoulli(alpha=0.2, beta=0.2), n=5)
    shares = PosteriorAccountant(model=DirichletCategorical(alpha=(5.0, 5.0, 5.0)), n=5)
    a, b, epsilon = np.array([1.2, 2.2]), np.array([3.2, 2.2]), np.array([0.5, 0.5])
    members = [
        ((BetaPair(a=x, b=y, step=1.0), 1), (BetaPair(a=5.0, b=5.0, step=1.0), 1)) for x, y in zip(a, b, strict=True)
    ]
    truth = [float(ProductPair(members=each).log_delta(np.float64(0.5))) for each in members]
    assert curve_of(beta + shares)(a, b, 1.0, epsilon) == pytest.approx(truth, abs=1e-9)
    assert curve_of(shares + beta)(a, b, 1.0, epsilon) == pytest.approx(truth, abs=1e-9)
    assert dominated(2 * beta + shares)
    assert (2 * beta + shares).log_delta(0.5) <= (2 * beta + 2 * shares).log_delta(0.5) + 1e-9


def test_normal_posteriors_stay_gaussian():
    model = NormalKnownVariance(mean=0, variance=1, noise_variance=4, bounds=(-1, 1))
    account = PosteriorAccountant(model=model, n=30, draws=5)
    assert len(account.pairs) == 1
    assert isinstance(account.pairs[0], GaussianPair)
    assert account == PosteriorAccountant(model=model, n=30, draws=5)
    assert account.epsilon(1e-6) == pytest.approx((5 * PosteriorAccountant(model=model, n=30)).epsilon(1e-6))


def test_two_releases_of_one_account_may_be_of_two_columns():
    one = PosteriorAccountant(model=BetaBernoulli(alpha=6, beta=12), n=8)
    assert dominated(2 * one)
    assert (2 * one).epsilon(1e-6) > PosteriorAccountant(model=one.model, n=8, draws=2).epsilon(1e-6)
    assert (2 * one).rdp(2.0) == PosteriorAccountant(model=one.model, n=8, draws=2).rdp(2.0)


def test_a_composition_of_one_release_is_that_release():
    one = PosteriorAccountant(model=BetaBernoulli(alpha=6, beta=12), n=50)
    assert (1 * one).log_delta(0.7) == one.log_delta(0.7)


def test_complex_functions_on_the_real_line_and_off_it():
    import mpmath as mp

    for x in (1e-3, 2.0, 15.0, 1e9):
        for w in (0.3 + 0j, 0.3 + 5j, 40 + 1e3j, -0.0005 + 1e-7j):
            truth = mp.loggamma(mp.mpf(x) + mp.mpc(w)) - mp.loggamma(x) - mp.mpc(w) * mp.log(x)
            with mp.workdps(50):
                truth = mp.loggamma(mp.mpf(x) + mp.mpc(w)) - mp.loggamma(mp.mpf(x)) - mp.mpc(w) * mp.log(mp.mpf(x))
            got = complex_log_gamma_growth(x, np.array([w]))[0][0]
            assert abs(complex(truth) - got) <= 1e-13 * (1 + abs(complex(truth)))
    assert complex_log1p_excess(np.array([1e-9 + 0j]))[0] == pytest.approx(5e-19)


def test_several_draws_of_a_posterior_have_a_bound_at_the_smallest_delta():
    """There the contour has no tight bound, and each member is bounded by its Rényi conversion."""
    account = PosteriorAccountant(model=BetaBernoulli(alpha=6, beta=12), n=60, data_weight=0.2, draws=4)
    (envelope,) = account.bounds.pairs
    least = max(pair.least_epsilon(np.log(1e-300)) for pair in envelope.members)
    assert account.epsilon(1e-300) == pytest.approx(least, rel=1e-12)
    assert least < 25


@pytest.mark.parametrize("at_once", [1, 1 << 18])
def test_rows_that_are_inverted_together_are_those_that_are_inverted_alone(monkeypatch, at_once):
    monkeypatch.setattr(contour, "_MOST_AT_ONCE", at_once)
    a, b = np.array([6.0, 6.0, 30.0, 0.5]), np.array([111.0, 12.0, 80.0, 2e3])
    epsilon, limits = np.array([0.1, 1.0, 3.0, 0.0]), 1.0 + b / 0.4
    beside = GaussianPair(mu=0.3)
    found = summed_log_deltas([(BetaRows(a=a, b=b, step=0.4), 3), (beside, 2)], limits, epsilon)
    alone = [
        summed_log_delta([(BetaPair(a=a[i], b=b[i], step=0.4), 3), (beside, 2)], limits[i], epsilon[i])
        for i in range(4)
    ]
    assert found == pytest.approx(alone, rel=1e-12)
    assert np.isfinite(found).all()
