"""Groups: every route is valid and the least is taken; what knows its mechanism is never above what does not."""

import itertools

import numpy as np
import pytest

from privsample import (
    AddRemove,
    Composed,
    GaussianAccountant,
    Group,
    LaplaceAccountant,
    Parallel,
    PureAccountant,
    ZCDPAccountant,
)
from tests.accounting.test_brute_force import ORDERS, account, check, law

EPSILONS = np.array([-2.0, -0.3, 0.0, 0.2, 1.0, 3.0])


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_chain_of_laws_costs_at_most_its_group(size, rng):
    """Random chains P_0, ..., P_size: the account knows the neighbours, the truth is about the two ends."""
    for spread in (0.05, 0.5, 3.0):
        tilts = np.cumsum(spread * rng.standard_normal((size + 1, 4)), axis=0)
        chain = [np.exp(row - np.logaddexp.reduce(row)) for row in tilts]
        claim = account(list(itertools.pairwise(chain)), AddRemove())
        check(Group(base=claim, size=size), [(chain[0], chain[-1])])
        check(PureAccountant(stated_epsilon=claim.max_loss).group(size), [(chain[0], chain[-1])])


@pytest.mark.parametrize("size", [2, 4])
def test_groups_in_sums_and_of_sums(size, rng):
    """Two releases, each from a chain of its own: both ends of both."""
    chains = [[law(rng) for _ in range(size + 1)] for _ in range(2)]
    one, other = (account(list(itertools.pairwise(chain)), AddRemove()) for chain in chains)
    ends = [(np.outer(chains[0][0], chains[1][0]).ravel(), np.outer(chains[0][-1], chains[1][-1]).ravel())]
    for claim in (Group(base=one + other, size=size), Group(base=one, size=size) + other.group(size)):
        check(claim, ends)
    check((one | other).group(size), [(chain[0], chain[-1]) for chain in chains])


def test_the_least_route_is_taken():
    parts = ZCDPAccountant(rho=0.01) | ZCDPAccountant(rho=0.02)
    known = ZCDPAccountant(rho=0.02).group(10)
    group = parts.group(10)
    assert group.epsilon(1e-6) == pytest.approx(known.epsilon(1e-6), rel=1e-9)
    assert group.delta(5.0) == pytest.approx(known.delta(5.0), rel=1e-9)
    best, *others = group.explain(1e-6)
    assert best.name == "Renyi curve at its best order"
    assert {route.name: route.epsilon for route in others}["privacy curve"] == pytest.approx(13.3507, abs=1e-4)


def test_a_group_of_a_pure_mechanism_is_at_most_pure():
    base, stated = LaplaceAccountant(sensitivity=1, scale=4), PureAccountant(stated_epsilon=1.0)
    group = Group(base=base, size=4)
    assert (group.delta(EPSILONS) <= stated.delta(EPSILONS) * (1 + 1e-12)).all()
    assert (group.rdp(ORDERS) <= stated.rdp(ORDERS) * (1 + 1e-12)).all()
    assert group.epsilon(0.0) == group.max_loss == 1.0
    assert Group(base=PureAccountant(stated_epsilon=0.0), size=3).epsilon([0.0, 1e-6]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "base",
    [
        GaussianAccountant(sensitivity=1, noise_std=3),
        LaplaceAccountant(sensitivity=1, scale=4),
        ZCDPAccountant(rho=0.02),
        Composed(entries=((ZCDPAccountant(rho=0.02), 2), (LaplaceAccountant(sensitivity=1, scale=4), 1))),
        Parallel(parts=(ZCDPAccountant(rho=0.02), GaussianAccountant(sensitivity=1, noise_std=4))),
    ],
)
def test_groups_grow(base):
    """A larger group costs more by every view, and a group of one costs what the account does."""
    for made in (lambda size: Group(base=base, size=size), base.group):
        groups = [made(size) for size in (1, 2, 3, 5)]
        assert groups[0].epsilon(1e-6) == pytest.approx(base.epsilon(1e-6), rel=1e-9)
        assert np.allclose(groups[0].rdp(ORDERS), base.rdp(ORDERS), rtol=1e-9)
        for small, large in itertools.pairwise(groups):
            assert (large.rdp(ORDERS) >= small.rdp(ORDERS)).all()
            assert (large.delta(EPSILONS) >= small.delta(EPSILONS) * (1 - 1e-9)).all()
            assert large.epsilon(1e-6) > small.epsilon(1e-6)


@pytest.mark.parametrize(
    ("wrong", "error"), [(0, ValueError), (-1, ValueError), (np.nan, TypeError), (True, TypeError)]
)
def test_wrong_sizes(wrong, error):
    base = ZCDPAccountant(rho=0.02)
    for made in (lambda: Group(base=base, size=wrong), lambda: base.group(wrong), lambda: (base + base).group(wrong)):
        with pytest.raises(error, match="size"):
            made()
