"""Discretized pairs: their curves are upper bounds at every epsilon, and their total masses are right."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privsample.accounting.curves.discretize import (
    connect_the_dots,
    discretize_curve,
    discretize_density,
    discretize_exponential,
    split_mass,
)
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.accounting.loss.pair import DiscretePair, binary_pair
from privsample.accounting.posterior.beta import BetaPair
from tests.cases import in_one_test
from tests.properties import examples


def log_of(masses):
    with np.errstate(divide="ignore"):
        return np.log(np.array(masses, dtype=float))


def discrete(p, q):
    return DiscretePair(log_p=log_of(p), log_q=log_of(q))


PAIRS = [
    binary_pair(1.0),
    binary_pair(1e-9),
    binary_pair(50.0),
    discrete([0.5, 0.3, 0.2, 0.0], [0.0, 0.1, 0.6, 0.3]),
    discrete([0.999, 1e-3], [0.2, 0.8]),
    discrete([0.25, 0.75], [0.75 - 1e-12, 0.25 + 1e-12]),
    LaplacePair(shift=0.7),
    LaplacePair(shift=1e-6),
    LaplacePair(shift=30.0),
    GaussianPair(mu=0.5),
    GaussianPair(mu=8.0),
    BetaPair(a=3.0, b=8.0, step=0.7),
]
NODES = [
    np.linspace(-3.0, 3.0, 121),
    np.linspace(-0.9, 0.9, 2),
    np.array([-2.0, -0.11, 0.3, 0.31, 1.7, 5.0]),
    np.array([0.2, 0.4, 1.0]),
    np.array([-1.5, -1.0, -0.2]),
    np.array([0.0, 1e-7, 2e-7]),
    np.array([-60.0, -1.0, 0.0, 1.0, 60.0]),
    1e-9 * np.arange(-3, 4),
    np.array([-1e-3, 1e4]),
]


def curve(log_p, infinite, nodes, epsilon):
    """The discrete pair's privacy curve, in extended precision."""
    above = np.minimum(np.asarray(epsilon, dtype=np.longdouble)[:, None] - nodes, 0.0)
    return (np.exp(log_p.astype(np.longdouble)) * -np.expm1(above)).sum(axis=1) + np.exp(np.longdouble(infinite))


def around(nodes):
    """Epsilons at the nodes, between them, below and above all."""
    width = nodes[-1] - nodes[0]
    inside = [nodes[:-1] + share * np.diff(nodes) for share in (0.1, 0.5, 0.93)]
    return np.concatenate(
        [nodes, *inside, nodes[0] - width * np.array([1e-3, 0.4, 3.0]), nodes[-1] + width * np.ones(1)]
    )


def dominates(discretize, pair, nodes, epsilon):
    log_p, infinite = discretize
    assert not np.isnan(log_p).any()
    own = np.exp(pair.log_delta(epsilon).astype(np.longdouble))
    return bool(np.all(curve(log_p, infinite, nodes, epsilon) >= own * (1 - 1e-11)))  # own is rounded up too


@in_one_test(itertools.product(PAIRS, NODES))
def test_every_discretization_dominates(pair, nodes):
    epsilon = around(nodes)
    assert dominates(pair.discretize(nodes), pair, nodes, epsilon)
    assert dominates(discretize_curve(pair.log_delta, pair.reverse().log_delta, nodes), pair, nodes, epsilon)
    assert dominates(connect_the_dots(pair.log_delta, pair.reverse().log_delta, nodes, 64), pair, nodes, epsilon)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_connected_dots_equal_the_curve_at_the_nodes(pair):
    nodes = np.array([-2.0, -1.1, -0.4, 0.0, 0.3, 0.31, 1.7, 4.0])
    log_p, infinite = discretize_curve(pair.log_delta, pair.reverse().log_delta, nodes)
    own = np.exp(pair.log_delta(nodes).astype(np.longdouble))
    assert np.abs(curve(log_p, infinite, nodes, nodes) - own).max() <= 1e-12
    # below the first node the line leads to one at e^epsilon = 0: all of P, and of Q what is not at a loss of -infinity
    assert np.exp(log_p).sum() + np.exp(infinite) == pytest.approx(1.0, abs=1e-12)
    assert np.exp(log_p - nodes).sum() == pytest.approx(float((1.0 - own[0]) / np.exp(nodes[0])), abs=1e-12)


def test_the_rounding_error_of_a_change_of_slope_is_added():
    """No mass is below the exact second difference of the same values."""
    pair, nodes = LaplacePair(shift=1.0), 0.3 + 1e-3 * np.arange(50)
    log_p, _ = discretize_curve(pair.log_delta, pair.reverse().log_delta, nodes)
    with mp.workdps(60):
        delta, at = ([mp.mpf(float(x)) for x in values] for values in (pair.log_delta(nodes), nodes))
        delta = [mp.exp(x) for x in delta]
        for i in range(1, len(nodes) - 1):
            before, after = at[i] - at[i - 1], at[i + 1] - at[i]
            fall, later = delta[i - 1] - delta[i], delta[i] - delta[i + 1]
            exact = fall / -mp.expm1(-before) - later / mp.expm1(after)
            assert exact <= mp.exp(float(log_p[i])) <= exact + mp.mpf(10) ** -11


masses = st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1.0)), min_size=3, max_size=5)


@examples(60)
@given(
    st.tuples(masses, masses).filter(lambda pq: len(pq[0]) == len(pq[1]) and min(map(sum, pq)) > 0),
    st.lists(st.floats(-4.0, 4.0).map(lambda x: round(x, 4)), min_size=2, max_size=9, unique=True).map(sorted),
)
def test_random_pairs_and_random_nodes(pq, nodes):
    p, q = (np.array(masses) / np.sum(masses) for masses in pq)
    used = (p > 0) | (q > 0)
    pair, nodes = discrete(p[used], q[used]), np.array(nodes)
    for own in (pair, pair.reverse()):
        for discretize in (own.discretize(nodes), discretize_curve(own.log_delta, own.reverse().log_delta, nodes)):
            assert dominates(discretize, own, nodes, around(nodes))


def test_split_mass_preserves_both_masses():
    nodes, loss = np.array([-1.0, 0.5, 2.0]), np.array([-0.3, 0.5, 1.9, 2.7, np.inf, -5.0, -np.inf])
    p = np.array([0.1, 0.2, 0.05, 0.3, 0.15, 0.2, 0.0])
    log_p, infinite = split_mass(log_of(p), loss, nodes)
    p_below, q_below = p[5] * np.exp(-1.0 + 5.0), p[5] * np.exp(5.0)  # moved up to -1, its Q mass kept
    assert np.exp(infinite) == pytest.approx(0.15 + 0.3 * (1 - np.exp(2.0 - 2.7)), rel=1e-13)
    total_p, total_q = np.exp(log_p).sum() + np.exp(infinite), np.exp(log_p - nodes).sum()
    assert total_q == pytest.approx(np.sum(p[:4] * np.exp(-loss[:4])) + p[5] * np.exp(1.0), rel=1e-13)
    assert total_p == pytest.approx(1.0, rel=1e-13)
    assert p_below > p[5]
    assert q_below > p[5] * np.exp(1.0)


@pytest.mark.parametrize(
    "nodes",
    [
        np.linspace(-2.0, 2.0, 41),
        np.linspace(-1.3, 0.9, 12),
        np.linspace(-3000.0, 3000.0, 61),
        np.array([0.5, 0.6, 3.0]),
    ],
    ids=range(4),
)
def test_an_exponential_density_is_split_exactly(nodes):
    end = 1.4
    log_p, infinite = discretize_exponential(nodes, end)
    below, inside = np.clip(nodes[0], -end, end), np.clip(nodes[-1], -end, end)
    p, q = 2 * np.sinh(end / 2) * 2, 2 * (np.exp(-below / 2) - np.exp(-end / 2))
    above_p, above_q = 2 * (np.exp(end / 2) - np.exp(inside / 2)), 2 * (np.exp(-inside / 2) - np.exp(-end / 2))
    assert np.exp(log_p).sum() + np.exp(infinite) == pytest.approx(p, rel=1e-12)
    assert np.exp(infinite) == pytest.approx(above_p - np.exp(nodes[-1]) * above_q if inside < end else 0.0, abs=1e-13)
    if nodes[0] > -100:  # what is moved up to the first node keeps its P mass
        below_q = np.exp(-nodes[0]) * 2 * (np.exp(below / 2) - np.exp(-end / 2))
        assert np.exp(log_p - nodes).sum() == pytest.approx(q + below_q, rel=1e-12)


def test_a_density_is_integrated_with_both_masses():
    """Loss density l on [0, 1] times two: P mass one, Q mass 2 - 4/e, in closed form."""
    nodes = np.linspace(0.0, 1.0, 65)
    log_p = discretize_density(lambda loss: np.log(2 * loss), nodes, -np.inf, -np.inf)
    assert np.exp(log_p).sum() == pytest.approx(1.0, rel=1e-13)
    assert np.exp(log_p - nodes).sum() == pytest.approx(2 - 4 / np.e, rel=1e-13)


def test_narrow_gaussian_cells_dominate_in_the_tails():
    pair = GaussianPair(mu=0.3)
    nodes = np.linspace(-9.0, 9.0, 4001)
    log_p, infinite = pair.discretize(nodes)
    assert dominates((log_p, infinite), pair, nodes, around(nodes[::100]))
    assert np.exp(log_p).sum() == pytest.approx(1.0, abs=1e-11)
    assert np.exp(log_p - nodes).sum() == pytest.approx(1.0, abs=1e-11)


@pytest.mark.parametrize("count", [4, 7, 64])
def test_few_values_of_the_curve_suffice_for_many_nodes(count):
    pair = BetaPair(a=3.0, b=8.0, step=0.7)
    for nodes in (
        np.linspace(-3, 3, 501),
        np.linspace(-0.2, 4, 301),
        np.linspace(0.5, 2, 200),
        np.linspace(-4, -1, 99),
    ):
        for own in (pair, pair.reverse()):
            few = connect_the_dots(own.log_delta, own.reverse().log_delta, nodes, count)
            assert dominates(few, own, nodes, around(nodes[::50]))


def test_a_raised_curve_still_dominates():
    """A curve that belongs to no pair, with a bump where its slope would change sign, still gives an upper bound."""
    pair, nodes = LaplacePair(shift=1.0), np.linspace(-1.2, 1.2, 49)

    def bumped(epsilon):
        return np.minimum(pair.log_delta(epsilon) + 0.02 * (np.abs(epsilon - 0.4) < 0.06), 0.0)

    assert dominates(discretize_curve(bumped, pair.log_delta, nodes), pair, nodes, around(nodes))
