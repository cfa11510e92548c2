"""Accounts of profile-based privacy against the definitions at 50 digits, and what may be added to what."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privsample import (
    DP,
    Accountant,
    Assumption,
    Composed,
    LaplaceAccountant,
    Ledger,
    Parallel,
    ProfileAccountant,
    ProfileEdge,
    ProfileGraph,
    privacy_statement,
)
from privsample.accounting.curves.discretize import discretize_curve
from privsample.accounting.profiles import WorstPair
from privsample.errors import RelationMismatch

ORDERS = np.array([1 + 1e-6, 1.01, 1.5, 2.0, 7.0, 60.0, 1e4, 1e6])
DISTRIBUTIONS = [[0.5, 0.3, 0.2], [0.4, 0.35, 0.25], [0.45, 0.15, 0.4], [0.1, 0.1, 0.8]]
EDGES = [("a", "b"), ("b", "c"), ("a", "d")]


def graph_of(distributions, edges):
    return ProfileGraph(profiles=dict(zip("abcd", distributions, strict=False)), edges=edges)


def account_of(distributions=DISTRIBUTIONS, edges=EDGES, epsilon=3.0):
    """As if observations were released unchanged."""
    return ProfileAccountant(
        relation=ProfileEdge(graph=graph_of(distributions, edges)), distributions=distributions, stated_epsilon=epsilon
    )


def sides(account):
    """Both distributions of every edge, both ways, at 50 digits; the doubles add up to one only up to rounding."""
    distributions = [[mp.mpf(float(x)) for x in distribution] for distribution in account.distributions]
    distributions = [[x / mp.fsum(distribution) for x in distribution] for distribution in distributions]
    for a, b in account.relation.graph.ends.tolist():
        yield distributions[a], distributions[b]
        yield distributions[b], distributions[a]


def true_renyi(account, order):
    with mp.workdps(50):
        a = mp.mpf(float(order))
        found = [
            mp.log(mp.fsum(p**a * q ** (1 - a) for p, q in zip(*pair, strict=True) if p > 0)) / (a - 1)
            for pair in sides(account)
        ]
        return float(max(found))


def true_delta(account, epsilon):
    with mp.workdps(50):
        factor = mp.exp(mp.mpf(float(epsilon)))
        return float(
            max(mp.fsum(max(p - factor * q, 0) for p, q in zip(*pair, strict=True)) for pair in sides(account))
        )


masses = st.lists(st.floats(1e-3, 1.0), min_size=4, max_size=4).map(lambda x: np.array(x) / np.sum(x))


@given(st.lists(masses, min_size=4, max_size=4))
def test_curves_are_those_of_the_distributions_and_rounded_up(distributions):
    account = account_of(distributions, [("a", "b"), ("c", "d"), ("a", "c")], epsilon=10.0)
    renyi = np.array([true_renyi(account, order) for order in ORDERS])
    np.testing.assert_allclose(account.rdp(ORDERS), renyi, rtol=1e-7, atol=1e-13)
    assert np.all(account.rdp(ORDERS) >= renyi * (1 - 1e-15))
    epsilons = np.array([-2.0, -0.1, 0.0, 0.05, 0.4, 1.0])
    delta = np.array([true_delta(account, e) for e in epsilons])
    np.testing.assert_allclose(account.delta(epsilons), delta, rtol=1e-9, atol=1e-13)
    assert np.all(account.delta(epsilons) >= delta * (1 - 1e-15))


def test_requirements_of_every_exact_account():
    account = account_of()
    curve = account.rdp(ORDERS)
    assert np.all(np.diff(curve) >= 0)
    orders = np.linspace(1.1, 9, 40)
    assert np.all(np.diff((orders - 1) * account.rdp(orders), 2) >= -1e-12)
    assert account.pure_epsilon == pytest.approx(np.log(5), rel=1e-12)
    assert account.pure_epsilon >= np.log(5)
    assert account.order_limit == np.inf
    for view in ("rdp", "delta", "epsilon"):
        assert account.kind(view) == "exact"
    delta = float(account.delta(0.3))
    assert account.epsilon(delta) == pytest.approx(0.3, rel=1e-9)
    assert account.epsilon(0.0) == account.pure_epsilon
    assert account.rdp(ORDERS.reshape(2, 4)).shape == (2, 4)
    assert Accountant.from_dict(account.to_dict()) == account


def test_tiny_losses_keep_their_digits():
    base = np.array([0.25, 0.25, 0.5])
    moved = base + np.array([1.0, -1.0, 0.0]) * 2.0**-30
    account = account_of([base, moved], [("a", "b")])
    for order in (1.5, 2.0, 1e3):
        assert account.rdp(order) == pytest.approx(true_renyi(account, order), rel=1e-5)


def test_symbols_that_no_end_of_an_edge_gives_cost_nothing():
    plain = account_of([[0.5, 0.5], [0.4, 0.6]], [("a", "b")])
    padded = account_of([[0.5, 0.0, 0.5], [0.4, 0.0, 0.6]], [("a", "b")])
    np.testing.assert_allclose(plain.rdp(ORDERS), padded.rdp(ORDERS), rtol=1e-12)
    assert padded.pure_epsilon == pytest.approx(plain.pure_epsilon)


def test_a_symbol_that_one_end_never_gives_is_refused_with_the_edge():
    with pytest.raises(ValueError, match=r"on edge \('a', 'b'\) the privacy loss at symbol 1 is inf"):
        account_of([[0.5, 0.5], [1.0, 0.0]], [("a", "b")])


def test_a_loss_above_epsilon_is_refused_with_the_margin():
    with pytest.raises(
        ValueError, match=r"stated_epsilon = 1 .* on edge \('a', 'd'\) the privacy loss at symbol 0 is .* above it"
    ):
        account_of(epsilon=1.0)


def test_without_edges_nothing_is_promised_and_nothing_spent():
    account = account_of(edges=[])
    assert np.all(account.rdp(ORDERS) == 0)
    assert account.epsilon(0.0) == account.delta(0.0) == 0


def test_equal_distributions_cost_only_rounding():
    account = account_of([DISTRIBUTIONS[0], DISTRIBUTIONS[0]], [("a", "b")])
    assert account.pure_epsilon < 1e-14
    assert account.rdp(2.0) < 1e-27


def test_groups_walk_along_edges():
    account = account_of()
    assert account.group(1) == account_of(epsilon=3.0 * (1 + 4 * 2**-52))
    twice = account.group(2)
    assert set(twice.relation.graph.edges) == {("a", "b"), ("b", "c"), ("a", "d"), ("a", "c"), ("b", "d")}
    for order in (1.5, 4.0):
        assert twice.rdp(order) == pytest.approx(true_renyi(twice, order), rel=1e-12)
    assert twice.stated_epsilon == pytest.approx(6.0)


def test_one_observation_privatised_twice_has_no_account():
    account = account_of()
    for make in (lambda: account + account, lambda: 2 * account, lambda: sum([account, account])):
        with pytest.raises(ValueError, match=r"releases of one observation.*independent_observations"):
            make()
    assert (1 * account).rdp(2.0) == account.rdp(2.0)
    with pytest.raises(ValueError, match="releases of one observation"):
        account.assuming(Assumption.INDEPENDENT_OBSERVATIONS) + account


def test_every_part_must_be_of_independent_observations():
    account = account_of()
    stated = account.assuming(Assumption.INDEPENDENT_OBSERVATIONS)
    for half in (stated | account, (5 * stated) | account, (stated | account).group(2)):
        with pytest.raises(ValueError, match="releases of one observation"):
            2 * half
    assert (2 * (stated | 5 * stated)).pure_epsilon == 10 * account.pure_epsilon


def test_independent_observations_add():
    account = account_of()
    five = account.independent_observations(5)
    np.testing.assert_allclose(five.rdp(ORDERS), 5 * account.rdp(ORDERS))
    assert five.pure_epsilon == 5 * account.pure_epsilon
    assert Assumption.INDEPENDENT_OBSERVATIONS in five.assumptions
    other = account_of(epsilon=4.0).assuming(Assumption.INDEPENDENT_OBSERVATIONS)
    assert (five + other).rdp(2.0) == pytest.approx(6 * account.rdp(2.0))
    stated = Composed(entries=((account, 2),), assumptions=frozenset({Assumption.INDEPENDENT_OBSERVATIONS}))
    assert stated.rdp(2.0) == 2 * account.rdp(2.0)
    assert Accountant.from_dict(five.to_dict()) == five
    assert "independent, and each is privatised once" in privacy_statement(five, 0.0)


def test_independent_profiles_cost_the_larger():
    one, two = (
        account_of(epsilon=3.0),
        account_of([DISTRIBUTIONS[0], DISTRIBUTIONS[0], DISTRIBUTIONS[0], DISTRIBUTIONS[1]], EDGES, epsilon=3.0),
    )
    same = ProfileAccountant(relation=one.relation, distributions=two.distributions, stated_epsilon=3.0)
    both = one | same
    assert isinstance(both, Parallel)
    assert Assumption.INDEPENDENT_PROFILES in both.assumptions
    np.testing.assert_allclose(both.rdp(ORDERS), np.maximum(one.rdp(ORDERS), same.rdp(ORDERS)))
    assert both.delta(0.2) == max(one.delta(0.2), same.delta(0.2))


def test_other_relations_do_not_mix():
    account = account_of()
    more = account_of(edges=[("a", "b")]).assuming(Assumption.INDEPENDENT_OBSERVATIONS)
    with pytest.raises(RelationMismatch):
        account.assuming(Assumption.INDEPENDENT_OBSERVATIONS) + more
    with pytest.raises(RelationMismatch):
        account | LaplaceAccountant(sensitivity=1, scale=1)
    with pytest.raises(RelationMismatch, match="ProfileEdge"):
        ProfileAccountant(
            relation=LaplaceAccountant(sensitivity=1, scale=1).relation, distributions=DISTRIBUTIONS, stated_epsilon=3.0
        )


def test_a_ledger_takes_only_independent_observations(tmp_path):
    account = account_of()
    ledger = Ledger(tmp_path / "book", budget=DP(epsilon=20.0), relation=account.relation, dataset="jobs")
    with pytest.raises(ValueError, match="releases of one observation"):
        ledger.spend(account)
    ledger.spend(account.assuming(Assumption.INDEPENDENT_OBSERVATIONS))


@pytest.mark.parametrize(
    ("distributions", "words"),
    [
        ([[0.5, 0.5]], "one row for each of 2 profiles"),
        ([0.5, 0.5], "one row for each of 2 profiles"),
        ([[1.5, -0.5], [0.5, 0.5]], "must be probabilities"),
        ([[0.5, 0.4], [0.5, 0.5]], "must sum to 1"),
        ([[0.5, np.nan], [0.5, 0.5]], "NaN"),
    ],
)
def test_bad_distributions_are_refused(distributions, words):
    relation = ProfileEdge(graph=graph_of([[0.5, 0.5]] * 2, [("a", "b")]))
    with pytest.raises(ValueError, match=words):
        ProfileAccountant(relation=relation, distributions=distributions, stated_epsilon=1.0)


def test_relations_want_a_graph():
    with pytest.raises(TypeError, match="ProfileGraph"):
        ProfileEdge(graph="a-b")

    class Lookalike:
        def within(self, distance):
            return self

    with pytest.raises(TypeError, match="hold a ProfileGraph, got Lookalike"):
        ProfileAccountant(relation=ProfileEdge(graph=Lookalike()), distributions=[[1.0, 0.0]], stated_epsilon=1.0)
    words = ProfileEdge(graph=graph_of(DISTRIBUTIONS, EDGES))
    assert "4 profiles with 3 edges" in words.description
    assert "exchanged" in words.change
    assert words.group(3).graph.edges == tuple((a, b) for k, a in enumerate("abcd") for b in "abcd"[k + 1 :])


def test_the_worst_pair_is_one_pair():
    pair = account_of().pairs[0]
    assert pair.reverse().reverse() == pair
    nodes = np.linspace(-2, 2, 41)
    masses, infinite = pair.discretize(nodes)
    assert np.array_equal(masses, discretize_curve(pair.log_delta, pair.reverse().log_delta, nodes)[0])
    e = 0.35
    by_dots = np.sum(np.exp(masses) * np.maximum(1 - np.exp(e - nodes), 0)) + np.exp(infinite)
    assert by_dots == pytest.approx(np.exp(pair.log_delta(np.float64(e))), rel=0.01)
    assert by_dots >= np.exp(pair.log_delta(np.float64(e)))


def test_the_worst_pair_checks_its_distributions():
    with np.errstate(divide="ignore"):
        p, q = np.log([[0.5, 0.5, 0.0]]), np.log([[0.2, 0.3, 0.5]])
    pair = WorstPair(log_p=p, log_q=q)
    assert pair.renyi(np.array([2.0]))[0] == pytest.approx(np.log(0.25 / 0.2 + 0.25 / 0.3))
    assert pair.reverse().renyi(np.array([2.0]))[0] == np.inf
    assert pair.reverse().max_divergence == np.inf
    assert pair.reverse().log_delta(np.array(50.0)) == pytest.approx(np.log(0.5))
    near = WorstPair(log_p=np.log([[0.5, 0.5 - 1e-9, 1e-9]]), log_q=np.log([[0.5, 0.5, 1e-300]]) + 1e-12)
    assert near.max_divergence > 600
    for bad in ((p[0], q[0]), (p, q[:, :2]), (np.empty((0, 3)), np.empty((0, 3)))):
        with pytest.raises(ValueError, match="one shape"):
            WorstPair(log_p=bad[0], log_q=bad[1])
    with pytest.raises(ValueError, match="adding up to one"):
        WorstPair(log_p=p - 1, log_q=q)
