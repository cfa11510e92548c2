"""The best of a random number of runs: every bound against enumeration and against the theorems."""

import itertools

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import DiscretePair
from tests.accounting.selected import DISTRIBUTIONS, GEOMETRIC, LOGARITHMIC, MU, POISSON, selected
from tests.accounting.selection_reference import all_orders, hockey_stick, ordered, renyi, sandwich
from tests.accounting.strategies import Finite
from tests.counting import PACKAGE, counted

EPSILONS = np.array([0.0, 0.1, 0.5, 1.0, 2.0, -0.5])
ORDERS = np.array([1.01, 1.5, 2.0, 4.0, 20.0, 1e3])


@pytest.mark.parametrize(
    ("distribution", "reach"),
    [(LOGARITHMIC, 2.5197), (GEOMETRIC, 2.6677), (POISSON, 3.4084), (ps.Binomial(maximum=20, rate=0.5), 3.8075)],
)
def test_reach(distribution, reach):
    account = selected(distribution)
    epsilon = float(account.epsilon(1e-5))
    assert epsilon == pytest.approx(reach, abs=1e-4)
    assert epsilon <= reach
    assert account.explain(1e-5)[0].name == "pointwise bound"
    assert account.delta(epsilon) <= 1e-5 * (1 + 1e-6)


def test_an_answer_takes_few_calls_and_little_memory():
    def answer(mean):
        selected(ps.TruncatedNegativeBinomial.logarithmic(mean=mean)).epsilon(1e-5)

    answer(8.0)  # imports what is counted below
    for mean in (9.0, 10.0, 11.0):
        with counted(folder=PACKAGE) as cost:
            answer(mean)
        assert cost.calls.total() < 8000
        assert cost.numbers < 10_000_000


@pytest.mark.parametrize(
    ("distribution", "floor", "top"), [(LOGARITHMIC, 2.508, -1.3), (GEOMETRIC, 2.649, -0.9), (POISSON, 3.3777, 0.0)]
)
def test_the_sandwich_order_nearly_attains_the_bound(distribution, floor, top):
    assert sandwich(distribution, MU, floor, top) >= 1e-5
    account = selected(distribution)
    for epsilon in (0.0, 0.3, 1.0, floor, 5.0):
        for place in (-2.0, top, 0.5):  # the reference adds thousands of rounded differences
            assert sandwich(distribution, MU, epsilon, place) <= account.delta(epsilon) + 1e-11
        assert ordered(distribution, MU, epsilon) <= account.delta(epsilon) + 1e-11


def small_bases(rng, count):
    """Pairs of distributions on two to four outcomes, not mirror images of each other."""
    for _ in range(count):
        size = int(rng.integers(2, 5))
        p = np.maximum(rng.dirichlet(np.full(size, 2.0)), 1e-4)
        q = np.maximum(rng.dirichlet(np.full(size, 2.0)), 1e-4)
        yield p / p.sum(), q / q.sum()


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda distribution: type(distribution).__name__)
def test_every_order_of_scores_is_dominated(distribution):
    for p, q in small_bases(np.random.default_rng(7), 1):
        pair = DiscretePair(log_p=np.log(p), log_q=np.log(q))
        account = selected(distribution, Finite(listed=(pair, pair.reverse())))
        delta, divergence, pure = account.delta(EPSILONS), account.rdp(ORDERS), account.pure_epsilon
        for x, y in itertools.chain(all_orders(distribution, p, q), all_orders(distribution, q, p)):
            for epsilon, bound in zip(EPSILONS, delta, strict=True):
                assert hockey_stick(x, y, epsilon) <= bound + 1e-12
            for order, bound in zip(ORDERS[:-1], divergence, strict=False):
                assert renyi(x, y, order) <= bound + 1e-9
            used = x > 1e-12
            assert np.log(x[used] / y[used]).max() <= pure + 1e-9


def test_no_run_at_all_is_common_to_both():
    """The printed Lemma 7 gives -2.80 here, the truth is 0.011 (P(K = 0) > 0)."""
    account = selected(ps.Poisson(mean=0.05), ps.GaussianAccountant(sensitivity=0.447, noise_std=1.0))
    x = np.linspace(-7, 7.4, 2001)
    p, q = np.diff(stats.norm.cdf(x - 0.447)), np.diff(stats.norm.cdf(x))
    distribution = account.repetitions
    best = [
        -np.diff(np.exp(distribution.log_rank_probability(np.append(np.cumsum(m[::-1])[::-1], 0.0).clip(0, 1))))
        for m in (p, q)
    ]
    best = [np.append(m, np.exp(distribution.log_zero_probability)) for m in best]
    assert 0.009 < renyi(*best, 2.0) <= account.rdp(2.0)


@pytest.mark.parametrize(
    "distribution", [LOGARITHMIC, GEOMETRIC, ps.TruncatedNegativeBinomial.from_mean(mean=10, eta=-0.5)]
)
def test_never_above_theorem_2(distribution):
    def printed(order):
        h = np.geomspace(1.0, 1e3, 20001)
        cost = ((1 + distribution.eta) * ((1 - 1 / h) * 0.1 * h + np.log(1 / distribution.gamma) / h)).min()
        return 0.1 * order + cost + np.log(distribution.mean) / (order - 1)

    orders = 1 + np.geomspace(1e-3, 1e5, 60)
    closed = np.minimum.accumulate(printed(orders)[::-1])[::-1]
    assert (selected(distribution).rdp(orders) <= closed * (1 + 1e-9)).all()


def test_theorem_2_at_minus_one_half():
    routes = {
        r.name: r.epsilon for r in selected(ps.TruncatedNegativeBinomial.from_mean(mean=10, eta=-0.5)).explain(1e-6)
    }
    assert 3.06556 < routes["Theorem 2"] <= 3.0657419824
    assert min(routes.values()) < routes["Theorem 2"]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS[:6])
def test_renyi_curve(distribution):
    orders = 1 + np.geomspace(1e-5, 1e6, 40)
    values = selected(distribution).rdp(orders)
    assert (np.diff(values) >= -1e-12).all()
    assert (values >= 0).all()
    assert np.isfinite(values).all()
    if distribution.mean >= 1:
        assert values[-1] >= 0.1 * orders[-1]  # no better than the base at high orders
    assert selected(distribution).rdp(np.full((2, 3), 2.0)).shape == (2, 3)


def test_every_run_released_is_the_mixture_of_compositions():
    """At small epsilon and low orders the whole list of runs costs less than any bound on the choice."""
    account = selected(POISSON)
    routes = account.explain(0.3)
    assert routes[0].name == "release of all runs"
    k = np.arange(1.0, 60.0)
    mixture = sum(
        np.exp(POISSON.log_mass(n)) * np.exp(GaussianPair(mu=MU * n**0.5).log_delta(np.array(1.0))) for n in k
    )
    (bound,) = (bound for bound in account.bounds.curve_bounds if bound.name == "release of all runs")
    assert np.exp(bound.log_delta(1.0, -np.inf)) == pytest.approx(mixture, rel=1e-9)
    assert np.exp(bound.log_delta(1.0, -np.inf)) >= mixture
    assert account.rdp(1.001) == pytest.approx(1.001, abs=1e-3)  # Theorem 2 and 6 give 2 and more
