"""Drawing until an output is good enough: against enumeration of all sets, and the paper."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.accounting.loss.pair import DiscretePair
from privsample.accounting.selection.conditional import log_growth, log_growth_with_stopping
from tests.accounting.selection_reference import hockey_stick, renyi
from tests.accounting.strategies import Finite

BASE = ps.GaussianAccountant(sensitivity=0.2**0.5, noise_std=1.0)
EPSILONS = np.array([0.0, 0.5, -0.5])
ORDERS = np.array([1.01, 1.5, 2.0, 4.0, 20.0, 1e3])


def conditional(floor, base=BASE, *, stops=False, stop="before"):
    return ps.ConditionalAccountant(base=base, event_probability=floor, geometric_stopping=stops, stop=stop)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_every_set_is_dominated(seed):
    p, q = np.maximum(np.random.default_rng(seed).dirichlet(np.ones(3), 2), 1e-3)
    p, q = p / p.sum(), q / q.sum()
    pair = DiscretePair(log_p=np.log(p), log_q=np.log(q))
    base = Finite(listed=(pair, pair.reverse()))
    for size in (1, 2):
        for chosen in map(list, itertools.combinations(range(3), size)):
            account = conditional(min(p[chosen].sum(), q[chosen].sum()), base)
            delta, divergence = account.delta(EPSILONS), account.rdp(ORDERS)
            for one, other in ((p, q), (q, p)):
                x, y = one[chosen] / one[chosen].sum(), other[chosen] / other[chosen].sum()
                for epsilon, bound in zip(EPSILONS, delta, strict=True):
                    assert hockey_stick(x, y, epsilon) <= bound + 1e-12
                for order, bound in zip(ORDERS[:-1], divergence, strict=False):
                    assert renyi(x, y, order) <= bound + 1e-9
                assert np.log(x / y).max() <= account.pure_epsilon + 1e-9


@pytest.mark.parametrize("stop", ["before", "after"])
@pytest.mark.parametrize(("seed", "floor"), [(0, 0.02), (1, 0.3), (2, 0.9)])
def test_every_set_beside_stops_is_dominated(seed, floor, stop):
    """Sets of outputs, whole and in part: what is released, the output or nothing, against the account."""
    rng = np.random.default_rng(seed)
    p, q = np.maximum(rng.dirichlet(np.ones(4) / (seed + 1), 2), 1e-3)
    p, q = p / p.sum(), q / q.sum()
    pair = DiscretePair(log_p=np.log(p), log_q=np.log(q))
    account = conditional(floor, Finite(listed=(pair, pair.reverse())), stops=True, stop=stop)
    epsilons = np.array([0.0, 0.05, 0.3, 1.0, 2.0, -0.5])
    delta, divergence = account.delta(epsilons), account.rdp(ORDERS)
    wholes = np.array(list(itertools.product([0.0, 1.0], repeat=4)))
    for accepted in [*wholes, *rng.uniform(size=(16, 4))]:
        distributions = [np.append((1 - floor) * distribution * accepted, floor) for distribution in (p, q)]
        if stop == "after":
            distributions = [np.append(one * accepted, floor * (one @ (1 - accepted))) for one in (p, q)]
        for one, other in (distributions, distributions[::-1]):
            kept = one > 0
            x, y = one[kept] / one.sum(), other[kept] / other.sum()
            for epsilon, bound in zip(epsilons, delta, strict=True):
                assert hockey_stick(x, y, epsilon) <= bound + 1e-12
            for order, bound in zip(ORDERS[:-1], divergence, strict=False):
                assert renyi(x, y, order) <= bound + 1e-9
            assert np.log(x / y).max() <= account.pure_epsilon + 1e-9


def beside_stops(mu, floor, epsilon):
    """The largest delta over acceptance of both tails of a Gaussian run; the worst sets are such (docs/notes)."""
    cuts = np.concatenate([[-np.inf], np.linspace(-7, 8, 300), [np.inf]])
    low, high = (cuts[at] for at in np.triu_indices(len(cuts)))
    centres = mu / 2, -mu / 2  # the other direction is the mirror image
    chances = [floor + (1 - floor) * (stats.norm.cdf(low - m) + stats.norm.sf(high - m)) for m in centres]
    shift = epsilon + np.log(chances[0] / chances[1])

    def beyond(start):
        at = np.maximum(start, shift / mu)
        there, here = (stats.norm.sf(at - m) for m in centres)
        return there - np.exp(shift) * here

    inside = beyond(high) + np.maximum(beyond(-np.inf) - beyond(low), 0.0)
    stopped = floor * np.maximum(-np.expm1(shift), 0.0)
    return float((((1 - floor) * inside + stopped) / chances[0]).max())


@pytest.mark.parametrize(("mu", "floor", "least"), [(0.25, 0.5, 0.6), (0.25, 0.05, 0.2), (1.0, 0.2, 0.4)])
def test_gaussian_runs_with_stops_cost_little_less(mu, floor, least):
    account = conditional(floor, ps.GaussianAccountant(sensitivity=mu, noise_std=1), stops=True)
    for epsilon in (0.0, 0.2, 0.8):
        assert beside_stops(mu, floor, epsilon) <= account.delta(epsilon) + 1e-11
    far = account.epsilon(1e-4)
    assert least * 1e-4 < beside_stops(mu, floor, far) <= 1e-4
    assert far < conditional(floor, account.base).epsilon(1e-4)
    assert (account.rdp(ORDERS) <= conditional(floor, account.base).rdp(ORDERS)).all()


def test_growth_beside_stops():
    """The largest quotient over all thresholds."""
    for floor in (0.9, 0.5, 1e-3, 1e-9):
        at = np.linspace(-9, 9, 200_001)
        p, q = stats.norm.cdf(at), stats.norm.cdf(at + 0.2**0.5)
        exact = np.log((floor + (1 - floor) * q) / (floor + (1 - floor) * p)).max()
        assert exact <= log_growth_with_stopping(BASE.pairs[0], floor) <= exact * (1 + 1e-6)
        assert exact < log_growth(BASE.pairs[0], floor)
    assert log_growth_with_stopping(BASE.pairs[0], 1.0) == 0.0


@pytest.mark.parametrize("floor", [0.3, 1 - 1e-6, 1 - 1e-12])
def test_the_renyi_bound_beside_stops_keeps_its_digits(floor):
    account, base = conditional(floor, stops=True), BASE.rdp(ORDERS)
    with mp.workdps(50):
        growth = mp.mpf(log_growth_with_stopping(BASE.pairs[0], floor))
        for order, one, found in zip(ORDERS.tolist(), base.tolist(), account._by_growth(ORDERS).tolist(), strict=True):
            s, f = mp.mpf(order) - 1, mp.mpf(floor)
            truth = growth + mp.log1p((1 - f) / f * mp.exp(s * mp.mpf(one))) / s
            assert truth <= found <= truth * (1 + mp.mpf("1e-11"))


def test_one_run_that_stops_afterwards_costs_no_more_than_the_run():
    account = conditional(1.0, stops=True, stop="after")
    assert account.epsilon(1e-5) == pytest.approx(BASE.epsilon(1e-5), rel=1e-9)
    assert account.rdp(ORDERS) == pytest.approx(BASE.rdp(ORDERS), rel=1e-9)


def test_stops_after_runs_cost_a_little_more_than_stops_before():
    for floor in (0.5, 0.1, 0.01):
        before, after, stated = (
            conditional(floor, stops=True),
            conditional(floor, stops=True, stop="after"),
            conditional(floor),
        )
        for delta in (1e-2, 1e-5, 1e-9):
            assert before.epsilon(delta) <= after.epsilon(delta) <= stated.epsilon(delta) * (1 + 1e-12)
        assert (before.rdp(ORDERS) <= after.rdp(ORDERS) * (1 + 1e-12)).all()
        assert (after.rdp(ORDERS) <= stated.rdp(ORDERS) * (1 + 1e-12)).all()


def test_the_best_sets_of_a_run_attain_nearly_the_bound_with_stops_after_runs():
    """The worst sets are two tails of the loss; the enumeration is that of a fine grid of outcomes."""
    mu, floor = 0.25, 0.1
    account = conditional(floor, ps.GaussianAccountant(sensitivity=mu, noise_std=1), stops=True, stop="after")
    epsilon = account.epsilon(1e-4)
    low, high = np.meshgrid(np.linspace(-4, 1, 60), np.linspace(0.5, 7, 60))
    worst = 0.0
    for one, other in ((mu, 0.0), (0.0, mu)):
        sign = 1.0 if one else -1.0
        accepted = [stats.norm.cdf(low - sign * m) + stats.norm.sf(high - sign * m) for m in (one, other)]
        total = [a + floor * (1 - a) for a in accepted]
        shift = epsilon + np.log(total[0] / total[1])
        cut = np.maximum(high, shift / mu + mu / 2) if one else np.maximum(high, shift / mu - mu / 2)
        here, there = (stats.norm.sf(cut - sign * m) for m in (one, other))
        worst = max(worst, float(((here - np.exp(shift) * there) / total[0]).max()))
    assert 0.2e-4 < worst <= 1e-4


@pytest.mark.parametrize("stop", ["before", "after"])
def test_a_wrong_time_of_stopping(stop):
    with pytest.raises(ValueError, match="stop must be 'before' or 'after' each run, got 'then'"):
        conditional(0.1, stops=True, stop="then")
    assert conditional(0.1, stops=True, stop=stop).stop == stop
    with pytest.raises(ValueError, match="stop must be left out unless geometric_stopping"):
        conditional(0.1, stop="after")


def test_what_stops_at_once_costs_nothing():
    account = conditional(1.0, stops=True)
    assert (account.epsilon(1e-300), account.delta(0.0), account.pure_epsilon) == (0.0, 0.0, np.inf)
    assert account.rdp(3.0) == pytest.approx(0.0, abs=1e-12)


def test_pure_bases_and_bases_with_infinity_mass_with_geometric_stopping():
    pure = conditional(0.1, ps.PureAccountant(stated_epsilon=0.5), stops=True)
    odds = np.exp(0.5)
    there, here = 0.9 * odds / (1 + odds), 0.9 / (1 + odds)  # chances of a run and of the likelier answer
    assert pure.pure_epsilon == pytest.approx(0.5 + np.log((0.1 + there) / (0.1 + here)), rel=1e-9)
    failing = conditional(0.1, ps.ApproximateAccountant(stated_epsilon=0.5, stated_delta=1e-4), stops=True)
    assert failing.infinity_mass == pytest.approx(1e-3)
    assert pure.pure_epsilon - 0.01 < failing.epsilon(2e-3) < failing.epsilon(1.01e-3) < pure.pure_epsilon + 0.01
    assert np.isinf(failing.rdp(2.0))
    later = conditional(0.1, failing.base, stops=True, stop="after")
    assert later.infinity_mass == failing.infinity_mass
    assert failing.epsilon(2e-3) <= later.epsilon(2e-3) < 2 * 0.5


def test_proposition_15_at_low_orders():
    """Below order 2 the middle term as printed is negative, and the bound false."""
    p, q = np.array([0.30, 0.30, 0.40]), np.array([0.2825, 0.3175, 0.40])
    x, y = p[:2] / p[:2].sum(), q[:2] / q[:2].sum()
    pair = DiscretePair(log_p=np.log(p), log_q=np.log(q))
    assert renyi(x, y, 1.1) <= conditional(0.6, Finite(listed=(pair, pair.reverse()))).rdp(1.1)


def test_routes_and_the_papers_corollary():
    account = conditional(0.1)
    routes = {route.name: route.epsilon for route in account.explain(1e-5)}
    assert (
        routes["privacy curve of the base"] < routes["growth of the event, by Rényi curve"] < routes["Proposition 15"]
    )
    assert account.epsilon(1e-5) == pytest.approx(2.69785, abs=1e-4)
    orders = np.array([3.0, 5.0, 12.0])
    second = 0.1 * orders + (orders - 2) / (orders - 1) * 0.1 * (orders - 1) + 2 / (orders - 1) * np.log(10)
    assert (account.rdp(orders) <= second * (1 + 1e-12)).all()
    assert account.log_delta(account.epsilon(1e-5)) <= np.log(1e-5) + 1e-9
    assert account.delta(-1.0) >= -np.expm1(-1.0)


def test_exact_gaussian_case_is_dominated():
    """Given that an output exceeds a threshold."""
    mu, x = 0.2**0.5, np.linspace(-8, 9, 20001)
    p, q = np.diff(stats.norm.cdf(x - mu)), np.diff(stats.norm.cdf(x))
    for threshold in (-1.0, 0.5, 2.0):
        good = x[:-1] >= threshold
        account = conditional(min(p[good].sum(), q[good].sum()))
        first, second = p[good] / p[good].sum(), q[good] / q[good].sum()
        for epsilon in (0.0, 0.5, 1.5):
            bound = account.delta(epsilon) + 1e-11
            assert max(hockey_stick(first, second, epsilon), hockey_stick(second, first, epsilon)) <= bound


def test_growth_of_a_gaussian_set():
    for floor in (0.9, 0.5, 1e-3, 1e-9):
        exact = stats.norm.logcdf(stats.norm.ppf(floor) + 0.2**0.5) - np.log(floor)
        found = log_growth(BASE.pairs[0], floor)
        assert exact <= found <= exact * (1 + 1e-4)
    assert log_growth(BASE.pairs[0], 1.0) == 0.0


def test_a_certain_set_costs_what_the_base_costs():
    account = conditional(1.0)
    assert account.epsilon(1e-5) == pytest.approx(BASE.epsilon(1e-5), rel=1e-9)
    assert account.rdp(3.0) == pytest.approx(0.3)
    assert conditional(1.0, ps.PureAccountant(stated_epsilon=0.0)).pure_epsilon == 0.0


def test_pure_bases_and_bases_with_infinity_mass():
    pure = conditional(0.1, ps.PureAccountant(stated_epsilon=0.5))
    assert pure.pure_epsilon == pytest.approx(1.0)
    assert pure.pure_epsilon <= 1.0
    failing = conditional(0.1, ps.ApproximateAccountant(stated_epsilon=0.5, stated_delta=1e-4))
    assert failing.infinity_mass == pytest.approx(1e-3)
    assert 0.9 < failing.epsilon(2e-3) <= 1.0
    assert np.isinf(failing.rdp(2.0))
    both = conditional(
        0.1, ps.ApproximateAccountant(stated_epsilon=0.5, stated_delta=1e-7) + ps.ZCDPAccountant(rho=0.01)
    )
    assert 1.0 < both.epsilon(1e-5) < 3.0
    limited = ps.DirectPosterior(model=ps.GammaPoisson(shape=6, rate=12, upper=2), n=50).accountant
    assert (np.isinf(conditional(0.2, limited).rdp(ORDERS)) == (limited.order_limit <= ORDERS)).all()


def test_values():
    account = conditional(0.1)
    assert ps.Accountant.from_dict(account.to_dict()) == account
    assert account.group(2) == conditional(0.1, BASE.group(2))
    assert account.to(ps.ReplaceOne(n=5)).relation == ps.ReplaceOne(n=5)
    assert account.kind("delta") == "upper bound"
    assert account.assumptions == BASE.assumptions | {ps.Assumption.TIMING}
    assert "Proposition 15" in account.source
    assert account.epsilon(0.0) == np.inf


@pytest.mark.parametrize("bad", [0.0, -0.1, 1.1, np.nan])
def test_a_floor_that_is_no_probability(bad):
    with pytest.raises(ValueError, match="event_probability"):
        conditional(bad)


def test_bad_input():
    with pytest.raises(TypeError, match="event_probability"):
        conditional(True)
    with pytest.raises(ValueError, match="there is no guarantee"):
        conditional(0.01, ps.ApproximateAccountant(stated_epsilon=1, stated_delta=0.01))
    with pytest.raises(TypeError, match="geometric_stopping must be True or False"):
        conditional(0.1, stops=1)
    with pytest.raises(TypeError, match="account of one run"):
        ps.ConditionalAccountant(base=None, event_probability=0.1)
