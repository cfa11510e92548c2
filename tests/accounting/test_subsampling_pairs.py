"""Pairs of subsampled mechanisms and their Rényi curves, against independent quadrature."""

import itertools

import mpmath as mp
import numpy as np
import pytest

from privsample import (
    BetaBernoulli,
    Poisson,
    PoissonSampling,
    PosteriorAccountant,
    PureAccountant,
    ReplaceOne,
    SelectionAccountant,
    SubsampledAccountant,
    WithoutReplacement,
    WithReplacement,
)
from privsample.accounting.curves import renyi_integral
from privsample.accounting.curves.renyi_integral import renyi_from_curves
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.accounting.loss.pair import DiscretePair, LossPair
from privsample.accounting.posterior.beta import BetaPair
from privsample.accounting.subsampling.gaussian import PoissonGaussianPair
from privsample.accounting.subsampling.pairs import (
    MixturePair,
    PoissonPair,
    ReplacedRecordPair,
    amplified,
    poisson_pair,
)
from privsample.distributions.count_blocks import count_blocks

ORDERS = np.array([1 + 1e-6, 1.01, 1.5, 2.0, 8.0, 32.0, 300.0, 1e4, 1e6])
EPSILONS = np.array([-40.0, -3, -0.2, -1e-3, -1e-9, 0, 1e-9, 1e-3, 0.1, 1, 5, 30, 300])


@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize(("mu", "rate"), [(1, 0.01), (0.5, 1e-3), (0.1, 0.5), (1e-3, 1e-6), (1.0, 0.999), (1.0, 1e-12)])
def test_the_general_pair_is_the_gaussian_one(mu, rate, removed):
    general = PoissonPair(base=GaussianPair(mu=mu), rate=rate, removed=removed)
    own = PoissonGaussianPair(mu=mu, rate=rate, removed=removed)
    assert np.allclose(general.log_delta(EPSILONS), own.log_delta(EPSILONS), rtol=1e-12, atol=1e-12)
    assert np.allclose(general.renyi(ORDERS), own.renyi(ORDERS), rtol=1e-8)
    assert (general.renyi(ORDERS) >= own.renyi(ORDERS) * (1 - 1e-10)).all()
    assert general.max_divergence == pytest.approx(own.max_divergence)
    assert general.reverse().reverse() == general


@pytest.mark.parametrize("removed", [True, False])
def test_the_sampled_laplace_by_quadrature_of_its_densities(removed):
    shift, rate = 1.5, 0.2
    pair = PoissonPair(base=LaplacePair(shift=shift), rate=rate, removed=removed)
    with mp.workdps(20):

        def q(x):
            return mp.e ** -abs(x) / 2

        def p(x):
            return (1 - rate) * q(x) + rate * mp.e ** -abs(x - shift) / 2

        one, other = (p, q) if removed else (q, p)
        for order in (1.5, 20):
            moment = mp.quad(lambda x: one(x) ** order * other(x) ** (1 - order), [-mp.inf, 0, shift, mp.inf])  # noqa: B023
            assert float(pair.renyi(np.array(order))) == pytest.approx(float(mp.log(moment) / (order - 1)), rel=1e-9)


def test_the_order_limit_is_kept():
    base = BetaPair(a=3.0, b=4.0, step=1.0)
    removal = PoissonPair(base=base, rate=0.1, removed=True)
    orders = np.array([3.0, base.order_limit, 100.0])
    assert np.isfinite(removal.renyi(orders)[:1]).all()
    assert np.isinf(removal.renyi(orders)[1:]).all()
    assert np.isinf(removal.renyi(orders[1:])).all()
    addition = removal.reverse()
    assert addition.order_limit == np.inf
    assert np.isfinite(addition.renyi(orders)).all()
    assert (removal.renyi(orders[:1]) <= base.renyi(orders[:1])).all()


def test_nothing_released_costs_nothing():
    curve = lambda e: np.full(np.shape(e), -np.inf)  # noqa: E731
    assert (renyi_from_curves((curve, curve), np.ones_like, 0.0, np.inf, ORDERS) == 0).all()


def test_what_does_not_settle_goes_up(monkeypatch):
    pair = PoissonPair(base=LaplacePair(shift=1.0), rate=0.1, removed=True)
    orders = np.array([1.5, 8.0, 300.0])
    complete = pair.renyi(orders)
    for rounds in (0, 1, 3):
        monkeypatch.setattr(renyi_integral, "_ROUNDS", rounds)
        assert (pair.renyi(orders) >= complete * (1 - 1e-12)).all()
    monkeypatch.setattr(renyi_integral, "_MOST_PANELS", 1)
    assert (pair.renyi(orders) >= complete * (1 - 1e-12)).all()


@pytest.mark.parametrize(
    "pair",
    [
        PoissonPair(base=GaussianPair(mu=1.0), rate=0.05, removed=True),
        PoissonPair(base=LaplacePair(shift=2.0), rate=0.05, removed=False),
        ReplacedRecordPair(base=GaussianPair(mu=1.0), rates=np.array([0.1, 0.3]), log_weights=np.log([0.5, 0.4])),
        MixturePair(members=(GaussianPair(mu=1.0), LaplacePair(shift=1.0)), log_weights=np.log([0.3, 0.2])),
    ],
    ids=lambda pair: type(pair).__name__,
)
def test_the_discretization_dominates(pair: LossPair):
    nodes = np.linspace(-12.0, 12.0, 4001)
    log_p, infinite = pair.discretize(nodes)
    for epsilon in (-2.0, -0.03, 0.0, 0.01, 0.5, 3.0):
        made = np.sum(np.exp(log_p) * np.maximum(-np.expm1(epsilon - nodes), 0.0)) + np.exp(infinite)
        truth = float(np.exp(pair.log_delta(np.array(epsilon))))
        assert truth * (1 - 1e-12) <= made <= truth + 1e-4
    assert np.logaddexp.reduce(np.append(log_p, infinite)) >= -1e-12


@pytest.mark.parametrize("rate", [1.0, 0.3, 1e-12, 1e-15, 1e-300])
def test_diluted_losses(rate):
    with mp.workdps(400):
        for loss in (-800.0, -1.0, -0.5, -1e-9, 0.0, 1e-9, 0.99, 1.0, 3.7, 30.0, 699.0, 700.0, 800.0):
            truth = float(mp.log1p(mp.mpf(rate) * mp.expm1(loss)))
            assert float(amplified(loss, rate)) == pytest.approx(truth, rel=1e-13, abs=0.0)
    assert amplified(np.inf, rate) == np.inf


@pytest.mark.parametrize(("trials", "rate"), [(1, 0.2), (10, 0.3), (1000, 0.01), (10**6, 0.01), (10**7, 0.5), (5, 1.0)])
def test_blocks_of_counts_cover_all(trials, rate):
    blocks = count_blocks(trials, rate)
    assert blocks[0][0] == 1 or rate == 1.0
    assert blocks[-1][1] == trials
    assert all(one[1] + 1 == other[0] for one, other in itertools.pairwise(blocks))
    assert len(blocks) < 1200
    total = np.exp(np.logaddexp.reduce([weight for *_, weight in blocks]))
    assert total == pytest.approx(-np.expm1(trials * np.log1p(-rate)) if rate < 1 else 1.0, rel=1e-11)


def test_many_sizes_of_a_posterior():
    """Blocks of sizes: near the cost at the mean size, above what it costs exactly there."""
    n, rate = 200_000, 0.01
    base = PosteriorAccountant(model=BetaBernoulli(alpha=20, beta=20), n=n)
    account = SubsampledAccountant(base=base, scheme=PoissonSampling(rate=rate), relation=ReplaceOne(n=n))
    assert account.pairs
    assert account.order_limit > 1.0


def test_a_mixture_asks_only_the_members_that_count():
    shifts = [0.5 * k for k in range(1, 60)]
    weights = np.array([-0.1 * (k - 20) ** 2 - 2.5 for k in range(1, 60)])
    pair = MixturePair(members=tuple(GaussianPair(mu=mu) for mu in shifts), log_weights=weights)
    whole = [weight + member.log_delta(EPSILONS) for weight, member in zip(weights, pair.members, strict=True)]
    above = EPSILONS >= 0
    assert np.allclose(pair.log_delta(EPSILONS)[above], np.logaddexp.reduce(whole)[above], rtol=1e-13, atol=1e-13)
    assert (pair.log_delta(EPSILONS) >= np.logaddexp.reduce(whole) - 1e-15)[above].all()
    certain = MixturePair(members=(LaplacePair(shift=1.0), Untouched()), log_weights=np.log([0.5, 1e-30]))
    assert certain.log_delta(np.array(0.5)) == pytest.approx(np.log(-np.expm1(-0.25) / 2), rel=1e-14)


class Untouched(LossPair):
    """Fails when it is asked."""

    max_divergence = 0.0
    log_delta = renyi = reverse = property(lambda self: pytest.fail("was asked"))


@pytest.mark.parametrize("place", [0.999, 0.5 + 1e-3, 0.7, 0.25 * (1 + 1e-3)])
@pytest.mark.parametrize("removed", [True, False])
def test_curves_that_bend_just_before_a_panel_ends(place, removed):
    """A finite pair's curve has a bend at each loss; between the last node and the end of a panel no rule sees it."""
    losses = 3.0 * np.array([1.0, place])
    q = np.array([0.01, 0.02])
    p = np.exp(losses) * q
    base = DiscretePair(log_p=np.log([*p, 1 - p.sum()]), log_q=np.log([*q, 1 - q.sum()]))
    orders = np.array([1 + 1e-6, 1.01, 2.0, 30.0])
    exact = poisson_pair(base, 0.9, removed=removed).renyi(orders)
    found = PoissonPair(base=base, rate=0.9, removed=removed).renyi(orders)
    assert (found >= exact * (1 - 1e-14)).all()
    assert found == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("scheme", [WithoutReplacement(n=4, m=4), WithReplacement(n=4, m=4)])
def test_pairs_whose_masses_lack_nothing_can_be_turned_round(scheme):
    """No outcome of mass zero stands for the rest: its loss would have no sign, and selections turn pairs round."""
    base = SubsampledAccountant(base=PureAccountant(stated_epsilon=0.009, relation=ReplaceOne(n=4)), scheme=scheme)
    for pair in base.pairs:
        assert not np.isneginf(pair.log_p + pair.log_q).any()
        assert pair.reverse().reverse() == pair
    best = SelectionAccountant(base=base, repetitions=Poisson(mean=2))
    assert best.epsilon(1e-9) >= base.epsilon(1e-9) > 0
