"""From Rényi curves to (epsilon, delta): against high precision, and never above a pure guarantee."""

import itertools

import mpmath as mp
import numpy as np
import pytest

from privsample import (
    BetaBernoulli,
    GammaPoisson,
    LaplaceAccountant,
    PosteriorAccountant,
    PureAccountant,
    RandomizedResponseAccountant,
    ReplaceOne,
    ZCDPAccountant,
)
from privsample.accounting.curves.conversion import epsilon_from_renyi, log_delta_from_renyi
from tests.accounting.golden import reference
from tests.cases import in_one_test

RELATIVE = 1e-6
DELTAS = [0.3, 1e-10, 1e-300]
FEW = {"30 Laplace": [1e-10], "mixture": [1e-300]}  # their curves take most of the time


def least(objective, limit):
    """The minimum of a unimodal function of log(order - 1): a coarse grid, then golden section."""
    top = mp.log(limit - 1) if limit < mp.inf else mp.mpf(38)
    grid = [mp.mpf(-24) + (top + 24) * k / 60 for k in range(60)]
    values = [objective(1 + mp.exp(x)) for x in grid]
    at = values.index(min(values))
    low, high = grid[max(at - 1, 0)], grid[at + 1] if at + 1 < len(grid) else top
    golden = (mp.sqrt(5) - 1) / 2
    inner = [high - golden * (high - low), low + golden * (high - low)]
    inside = [objective(1 + mp.exp(x)) for x in inner]
    for _ in range(62):
        if inside[0] <= inside[1]:
            high, inner[1], inside[1] = inner[1], inner[0], inside[0]
            inner[0] = high - golden * (high - low)
            inside[0] = objective(1 + mp.exp(inner[0]))
        else:
            low, inner[0], inside[0] = inner[0], inner[1], inside[1]
            inner[1] = low + golden * (high - low)
            inside[1] = objective(1 + mp.exp(inner[1]))
    return min(*values, *inside)


def best_epsilon(curve, limit, delta):
    """The least over all orders a of R(a) + log((a-1)/a) - (log delta + log a)/(a-1)."""
    return max(
        0, least(lambda a: curve(a) + mp.log((a - 1) / a) - (mp.log(mp.mpf(delta)) + mp.log(a)) / (a - 1), limit)
    )


def best_delta(curve, limit, epsilon):
    """The least over all orders a of exp((a-1)(R(a) - epsilon))/a (1 - 1/a)^(a-1)."""
    return mp.exp(least(lambda a: (a - 1) * (curve(a) - epsilon + mp.log(1 - 1 / a)) - mp.log(a), limit))


def laplace(order):
    up, down = mp.exp((order - 1) / 2), mp.exp(-order / 2)
    return mp.log((order * up + (order - 1) * down) / (2 * order - 1)) / (order - 1)


def response(order):
    true = 1 / (1 + mp.exp(mp.mpf(-2)))
    return reference.renyi_discrete(order, [true, 1 - true], [1 - true, true])


def beta(order):
    return max(reference.renyi_beta(order, (7, 12), (6, 13)), reference.renyi_beta(order, (6, 13), (7, 12)))


POSTERIOR = PosteriorAccountant(model=BetaBernoulli(alpha=6, beta=12), n=1)
CASES = {
    "zCDP": (ZCDPAccountant(rho=0.125), lambda a: a / 8, mp.inf),
    "tiny zCDP": (ZCDPAccountant(rho=2.0**-40), lambda a: a * mp.mpf(2) ** -40, mp.inf),
    "huge zCDP": (ZCDPAccountant(rho=5000), lambda a: a * 5000, mp.inf),
    "30 Laplace": (30 * LaplaceAccountant(sensitivity=1, scale=2), lambda a: 30 * laplace(a), mp.inf),
    "7 posteriors": (7 * POSTERIOR, lambda a: 7 * beta(a), mp.mpf(7)),
    "mixture": (
        (LaplaceAccountant(sensitivity=1, scale=2, relation=ReplaceOne(n=1)) * 3)
        + 2 * RandomizedResponseAccountant(log_odds=2.0, categories=2, relation=ReplaceOne(n=1))
        + POSTERIOR,
        lambda a: 3 * laplace(a) + 2 * response(a) + beta(a),
        mp.mpf(7),
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name == "7 posteriors" else ()) for name in CASES]
)
def test_best_order(name):
    """By Rényi curve alone; an account that knows its composed loss gives less."""
    account, curve, limit = CASES[name]
    with reference.at(40):
        for delta in FEW.get(name, DELTAS):
            truth = best_epsilon(curve, limit, delta)
            routes = {route.name: mp.mpf(float(route.epsilon)) for route in account.explain(delta)}
            value = routes["Rényi curve at its best order"]
            assert truth * (1 - mp.mpf(10) ** -30) <= value <= truth * (1 + mp.mpf(RELATIVE)) + mp.mpf(10) ** -13
            assert min(routes.values()) <= min(value, mp.mpf(account.pure_epsilon))
            if 0 < truth < account.pure_epsilon:
                log_delta = mp.log(best_delta(curve, limit, truth))
                found = log_delta_from_renyi(account.bounds.renyi, account.order_limit, float(truth))
                assert abs(mp.mpf(found) - log_delta) <= RELATIVE


@in_one_test(itertools.product([1e-12, 0.1, 0.2, 1.0, 3.0, 600.0], [0.0, 1e-300, 1e-12, 0.1, 0.999]))
def test_a_pure_guarantee_is_never_exceeded(stated, delta):
    assert PureAccountant(stated_epsilon=stated).epsilon(delta) <= stated
    assert (3 * PureAccountant(stated_epsilon=stated)).epsilon(delta) <= 3 * stated
    assert LaplaceAccountant(sensitivity=stated, scale=1.0).epsilon(delta) <= stated


def test_the_order_is_found_near_a_tight_limit():
    """Orders from a limit of 1.001 on are excluded; the best one lies between."""
    account = 2 * PosteriorAccountant(model=GammaPoisson(shape=0.001, rate=1.0, upper=1), n=5)
    assert account.order_limit == pytest.approx(1.001)

    def curve(order):
        one, other = (mp.mpf(0.001) + 1, 1), (mp.mpf(0.001), 1)
        return 2 * max(reference.renyi_gamma(order, one, other), reference.renyi_gamma(order, other, one))

    with reference.at(40):
        truth = best_epsilon(curve, 1 + mp.mpf(0.001), 1e-6)
        assert truth <= mp.mpf(float(account.epsilon(1e-6))) <= truth * (1 + mp.mpf(10) ** -6)


def test_shapes_are_kept():
    account = CASES["30 Laplace"][0]
    grid = np.array([[1e-3, 1e-6], [1e-9, 0.5]])
    assert account.epsilon(grid).shape == (2, 2)
    assert account.delta(grid).shape == (2, 2)
    assert account.epsilon(grid)[0, 1] == account.epsilon(1e-6)
    assert account.rdp(1 + grid).shape == (2, 2)


@pytest.mark.parametrize("cost", [1e99, 1e101, 1e250])
def test_a_search_over_orders_ends_no_lower_than_its_curve(cost):
    assert epsilon_from_renyi(lambda orders: np.full_like(orders, cost), np.inf, np.log(1e-3)) >= cost
    assert log_delta_from_renyi(lambda orders: np.full_like(orders, 1e300), np.inf, 1e250) == 0.0
