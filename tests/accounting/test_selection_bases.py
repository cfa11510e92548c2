"""The best of a random number of runs of any base: failures, extremes, dominating pairs; and what is refused."""

import copy
import itertools
import json
import pickle

import numpy as np
import pytest

import privsample as ps
from privsample._value import frozen_value
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import DiscretePair
from privsample.accounting.selection import renyi as selection_renyi
from privsample.accounting.selection.ranks import RenyiPair, ResolvedPair, ordered_pairs
from tests.accounting.selected import BASE, DISTRIBUTIONS, GEOMETRIC, LOGARITHMIC, MU, POISSON, selected
from tests.accounting.selection_reference import all_orders, hockey_stick, renyi
from tests.accounting.strategies import Finite


@frozen_value
class Apart(Finite):
    """Two pairs, one for each direction."""

    def _bounds(self):
        return PrivacyBounds.from_pairs(*((pair,) for pair in self.listed))


BASES = {
    "pure": ps.PureAccountant(stated_epsilon=0.5),
    "approximate": ps.ApproximateAccountant(stated_epsilon=0.5, stated_delta=1e-7),
    "zCDP": ps.ZCDPAccountant(rho=0.1),
    "failing curve": ps.ApproximateAccountant(stated_epsilon=0.3, stated_delta=1e-7) + ps.ZCDPAccountant(rho=0.01),
    "bounded range": ps.BoundedRangeAccountant(loss_range=0.8),
    "Laplace": ps.LaplaceAccountant(sensitivity=1, scale=2),
    "posterior": ps.DiffusedPosterior(
        model=ps.GammaPoisson(shape=6, rate=12, upper=2), n=50, data_weight=0.5
    ).accountant,
    "family": ps.DiffusedPosterior(model=ps.BetaBernoulli(alpha=6, beta=12), n=20, data_weight=0.3).accountant,
}


@pytest.mark.parametrize("name", BASES)
def test_any_base(name):
    base = BASES[name]
    # Each base with one distribution, and a pure, a failing and a discretized one with several.
    several = name in ("pure", "approximate", "Laplace")
    for distribution in (LOGARITHMIC, POISSON, DISTRIBUTIONS[6]) if several else (LOGARITHMIC,):
        account = selected(distribution, base)
        assert account.relation == base.relation
        assert account.assumptions == base.assumptions | {ps.Assumption.TIMING}
        assert base.source in account.source
        assert account.infinity_mass == pytest.approx(
            np.exp(distribution.log_rank_probability(np.array(base.infinity_mass))) if base.infinity_mass else 0
        )
        epsilon = float(account.epsilon(1e-5))
        assert base.epsilon(1e-5) <= epsilon < 12
        assert account.log_delta(epsilon) <= np.log(1e-5) + 1e-6
        assert {account.kind(view) for view in ("rdp", "delta", "epsilon")} == {"upper bound"}
        assert account.pure_epsilon >= base.pure_epsilon
        if np.isfinite(base.pure_epsilon):
            assert account.delta(account.pure_epsilon) <= account.infinity_mass * (1 + 1e-9)
            assert account.epsilon(1e-12 + account.infinity_mass) <= account.pure_epsilon


def test_a_pure_base_costs_at_most_two_plus_eta_times():
    for eta in (-0.5, 0.0, 1.0, 3.0):
        account = selected(
            ps.TruncatedNegativeBinomial.from_mean(mean=50, eta=eta), ps.PureAccountant(stated_epsilon=1e-3)
        )
        assert 1e-3 < account.pure_epsilon <= (2 + eta) * 1e-3
    assert selected(POISSON, ps.PureAccountant(stated_epsilon=0.0)).pure_epsilon == 0.0
    twice = ps.TruncatedRepetitions(distribution=ps.Poisson(mean=1), maximum=2)
    assert selected(twice, ps.PureAccountant(stated_epsilon=3.0)).pure_epsilon <= 6.0


def test_a_failure_too_small_for_a_double_is_one_still():
    base = ps.ApproximateAccountant(stated_epsilon=1, stated_delta=1e-305)
    account = ps.SelectionAccountant(base=base, repetitions=ps.Poisson(mean=1e-30))
    assert account.infinity_mass > 0
    assert np.isinf([account.rdp(2.0), account.epsilon(0.0), account.zcdp]).all()


def test_runs_that_almost_surely_fail():
    base = ps.ApproximateAccountant(stated_epsilon=0.5, stated_delta=0.03)
    account = ps.SelectionAccountant(base=base, repetitions=ps.Binomial(maximum=5000, rate=0.5))
    assert account.infinity_mass == 1 - 2.0**-53
    assert account.delta([0.0, 0.5, 1e9]) == pytest.approx(1.0, abs=1e-12)
    assert account.epsilon(0.999) == np.inf


FAILING = ps.ApproximateAccountant(stated_epsilon=0.5, stated_delta=1e-3)
SAMPLED = ps.PoissonSampling(rate=0.3)


@pytest.mark.parametrize(
    "base",
    [
        ps.SubsampledAccountant(base=FAILING, scheme=SAMPLED).group(2),
        ps.SubsampledAccountant(base=FAILING | ps.GaussianAccountant(sensitivity=1, noise_std=2), scheme=SAMPLED),
    ],
    ids=["group", "sample"],
)
def test_bases_without_any_order(base):
    """They have a privacy curve alone: nothing is known beside their failure."""
    assert base.bounds.order_limit == 1.0
    best = ps.SelectionAccountant(base=base, repetitions=ps.TruncatedNegativeBinomial.geometric(mean=2))
    good = ps.ConditionalAccountant(base=base, event_probability=0.5)
    for account in (best, good):
        assert np.isinf(account.rdp([1.5, 30.0])).all()
        assert base.delta(1.0) < account.delta(1.0) < 10 * base.delta(1.0)
        assert base.epsilon(0.01) < account.epsilon(0.01) < 3 * base.epsilon(0.01)
        assert np.isinf(account.bounds.renyi(np.array([2.0]))).all()


def test_failures_of_the_base():
    """Lemma 20: the distribution of the number of runs is thinned by those that fail."""
    base = ps.ApproximateAccountant(stated_epsilon=0.5, stated_delta=0.01)
    account = selected(ps.Poisson(mean=3), base)
    beside = selected(ps.Poisson(mean=3 * 0.99), ps.PureAccountant(stated_epsilon=0.5))
    assert account.infinity_mass == pytest.approx(-np.expm1(-0.03))
    assert account.infinity_mass >= -np.expm1(-0.03)
    assert account.pure_epsilon == pytest.approx(beside.pure_epsilon, rel=1e-9)
    assert np.isinf(account.rdp(2.0))
    assert np.isinf(account.epsilon(1e-3))


def test_extremes():
    account = selected(LOGARITHMIC)
    assert 17.0 < account.epsilon(1e-300) < 17.5
    assert account.log_delta(20.0) < -700
    assert account.log_delta(100.0) < -2000
    assert account.epsilon(0.0) == np.inf
    assert account.epsilon(0.999) == 0.0
    assert account.delta(-1.0) >= -np.expm1(-1.0)
    tiny = selected(POISSON, ps.GaussianAccountant(sensitivity=1e-9, noise_std=1.0))
    assert 0 < tiny.epsilon(1e-12) < 1e-7
    large = selected(ps.Poisson(mean=1e9), ps.GaussianAccountant(sensitivity=1.0, noise_std=1.0))
    assert large.epsilon(1e-6) > 10


def test_values(tmp_path):
    account = selected(ps.TruncatedRepetitions(distribution=POISSON, maximum=15))
    copied = ps.Accountant.from_dict(json.loads(json.dumps(account.to_dict(), allow_nan=False)))
    assert copied == account
    assert hash(copied) == hash(account)
    assert copied.epsilon(1e-5) == account.epsilon(1e-5)
    assert account.group(2) == selected(account.repetitions, BASE.group(2))
    assert account.to(ps.ReplaceOne(n=5)).relation == ps.ReplaceOne(n=5)
    assert (2 * account).rdp(3.0) == pytest.approx(2 * account.rdp(3.0))


def test_lemma_22_is_never_better_than_the_truncated_trade_off():
    account = selected(ps.TruncatedRepetitions(distribution=LOGARITHMIC, maximum=30))
    routes = {route.name: route.epsilon for route in account.explain(1e-5)}
    assert routes["Lemma 7 over the base's trade-off function"] < routes["Theorem 2 and Lemma 22"] < 4


def test_orders_just_above_one_are_bounded_where_only_they_are_finite():
    """Rényi divergences increase with the order; those of this base are finite below order 1.12 alone."""
    base = ps.PosteriorAccountant(model=ps.BetaBernoulli(alpha=0.12, beta=0.12), n=4)
    account = selected(ps.TruncatedNegativeBinomial(eta=0, gamma=0.4), base)
    rdp = account.rdp(1.0 + 0.12 * np.array([0.001, 0.1]))
    assert (np.diff(rdp) > 0).all()
    assert np.isposinf(account.rdp(1.12))


@pytest.mark.parametrize("distribution", [LOGARITHMIC, GEOMETRIC])
def test_a_base_that_does_not_depend_on_the_data_costs_nothing(distribution):
    """All rows of the kernel are equal, so that every output of the selection has the same distribution."""
    account = selected(distribution, ps.AppliedKernelAccountant(base=BASE, ultra_mixing=0.0))
    assert account.rdp([1.5, 2.0, 30.0]).tolist() == [0.0, 0.0, 0.0]
    assert account.delta([0.0, 0.1]).tolist() == [0.0, 0.0]


def test_losses_beyond_the_last_node_count():
    """The sorted bound adds Chernoff's for what it left out: from coarse losses it is larger, never smaller."""
    account = selected(LOGARITHMIC)
    (fine,) = account._all_pairs(1)
    coarse = fine.refined(-6.0)
    for order in (1.5, 3.0, 8.0):
        bound, negligible = selection_renyi.sorted_bound(coarse, order)
        best, complete = selection_renyi.sorted_bound(fine, order)
        assert complete
        assert not negligible
        assert bound >= best


def test_a_renyi_curve_alone_gives_a_dominating_pair():
    account = ps.ZCDPAccountant(rho=0.1)
    pair = RenyiPair(bounds=account.bounds)
    e = np.array([-3.0, -1.0, 0.0, 1.0, 3.0, 1e3])
    assert pair.reverse() is pair
    assert pair.order_limit == np.inf
    assert (pair.log_delta(e) >= GaussianPair(mu=MU).log_delta(e)).all()
    assert pair.log_delta(e[2:]) == pytest.approx(account.log_delta(e[2:]), rel=2e-3, abs=1e-3)
    failing = RenyiPair(bounds=BASES["failing curve"].bounds)
    assert failing.order_limit == 1.0
    assert np.isinf(failing.renyi(np.array([2.0]))).all()
    assert np.isfinite(RenyiPair(bounds=BASES["failing curve"].bounds, failing=False).renyi(np.array([2.0]))).all()


def test_two_directions_may_have_pairs_of_their_own():
    """Under add and remove: each direction apart, so the worse of both alone."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.35, 0.45, 0.2])
    pair = DiscretePair(log_p=np.log(p), log_q=np.log(q))
    pairs = (pair, pair.reverse())
    apart, together = selected(GEOMETRIC, Apart(listed=pairs)), selected(GEOMETRIC, Finite(listed=pairs))
    assert len(ordered_pairs(apart.base.bounds)) == 2
    assert len(ordered_pairs(together.base.bounds)) == 1
    assert apart.delta(0.4) <= together.delta(0.4) * (1 + 1e-9)
    for x, y in itertools.chain(all_orders(GEOMETRIC, p, q), all_orders(GEOMETRIC, q, p)):
        assert hockey_stick(x, y, 0.4) <= apart.delta(0.4) + 1e-12
        assert renyi(x, y, 2.0) <= apart.rdp(2.0) + 1e-9


def test_one_sided_pairs_that_are_not_discrete():
    pairs = BASES["posterior"].pairs
    account = selected(LOGARITHMIC, Apart(listed=pairs))
    assert 0 < account.epsilon(1e-5) <= selected(LOGARITHMIC, BASES["posterior"]).epsilon(1e-5) * (1 + 1e-4)


def test_sure_losses_have_no_epsilon_below_their_mass():
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log([0.6, 0.4]), np.log([1.0, 0.0])
    pair = DiscretePair(log_p=log_p, log_q=log_q, loss=log_p - log_q)
    account = selected(POISSON, Finite(listed=(pair, pair.reverse())))
    assert account.epsilon(1e-5) == np.inf
    assert {route.epsilon for route in account.explain(1e-5)} == {np.inf}
    assert ps.ConditionalAccountant(base=account.base, event_probability=0.5).epsilon(1e-5) == np.inf


@pytest.mark.parametrize(
    "distribution",
    [
        LOGARITHMIC,
        ps.TruncatedNegativeBinomial(eta=1e5, gamma=1e-6),
        DISTRIBUTIONS[5],
        ps.BetaBinomial(maximum=999, alpha=1, beta=1),
        pytest.param(ps.BetaBinomial(maximum=9999, alpha=1, beta=1), marks=pytest.mark.long),
    ],
)
def test_tiny_losses_do_not_vanish_by_rounding(distribution):
    base, orders = ps.PureAccountant(stated_epsilon=1e-9), np.array([1.001, 1.5, 2.0, 10.0])
    composed = distribution.mean * base.rdp(
        orders
    )  # Jensen: no moment generating function is less than that of the mean
    assert np.all(selection_renyi.all_runs(base.bounds.renyi, distribution, orders) >= composed)
    assert np.all(selected(distribution, base).rdp(orders) >= base.rdp(orders))


def test_epsilon_may_be_huge():
    account = selected(LOGARITHMIC, ps.ZCDPAccountant(rho=0.1))
    assert account.delta([-1e308, 1e308]).tolist() == pytest.approx([1.0, 0.0])
    assert account.base.delta(1e308) <= 1e-300


def test_several_pairs_are_dominated_by_one():
    base = BASES["posterior"]
    (pair,) = ordered_pairs(base.bounds)
    resolved = ResolvedPair.of(pair, -32.0)
    assert (resolved.forward >= base.log_delta(resolved.losses) - 1e-9).all()


@pytest.mark.parametrize("bad", [10, True, 2.5, np.nan])
def test_a_fixed_number_is_refused_with_the_reason(bad):
    with pytest.raises(TypeError, match="fixed number is refused, since the best of k can cost as much"):
        ps.SelectionAccountant(base=BASE, repetitions=bad)


@pytest.mark.parametrize("bad", [None, "ten", (0.5, 0.5)])
def test_what_is_neither_a_distribution_nor_a_number_is_refused(bad):
    with pytest.raises(TypeError, match=f"got a {type(bad).__name__}: pass TabulatedRepetitions"):
        ps.SelectionAccountant(base=BASE, repetitions=bad)


def test_a_base_without_an_account_is_refused():
    for bad in (ps.GaussianMechanism(sensitivity=1, noise_std=1), None, 0.5):
        with pytest.raises(TypeError, match="account of one run"):
            ps.SelectionAccountant(base=bad, repetitions=POISSON)


def test_what_was_worked_out_travels_with_a_copy():
    account = selected(LOGARITHMIC)
    epsilon = account.epsilon(1e-5)
    for copied in (copy.deepcopy(account), pickle.loads(pickle.dumps(account))):  # as to another process
        assert copied == account
        assert copied.epsilon(1e-5) == epsilon


def test_a_base_that_hardly_tells_anything():
    account = selected(POISSON, ps.GaussianAccountant(sensitivity=1e-200, noise_std=1.0))
    assert 0.0 <= account.epsilon(0.1) < 1e-100
