"""Accounts of tables against enumeration of every outcome, 50-digit sums, and tables that are broken on purpose."""

import itertools
import json

import mpmath as mp
import numpy as np
import pytest

import privsample as ps
from privsample.accounting.loss.alternatives import OneOfPairs, one_of_pairs
from privsample.accounting.loss.enumeration import enumerate_product
from privsample.accounting.loss.pair import DiscretePair
from privsample.accounting.noise.additive import LaplacePair
from privsample.accounting.stated.finite import LARGE, LargeTable, given_finite_loss
from tests.accounting.strategies import Finite

TABLES = {
    "no zeros": ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]),
    "lopsided": ([0.7, 0.2, 0.1], [0.4, 0.35, 0.25]),
    "q lacks an outcome": ([0.5, 0.4, 0.1], [0.6, 0.4, 0.0]),
    "p lacks an outcome": ([0.6, 0.4, 0.0], [0.3, 0.6, 0.1]),
    "both lack one": ([0.5, 0.45, 0.05, 0.0], [0.3, 0.5, 0.0, 0.2]),
    "two outcomes": ([0.9, 0.1], [0.5, 0.5]),
}
EPSILONS = np.array([-0.7, 0.0, 0.4, 1.3])
ORDERS = np.array([1.001, 1.5, 2.0, 8.0, 60.0])
IDS = list(TABLES)
EACH = pytest.mark.parametrize("pq", TABLES.values(), ids=IDS)


def product(masses):
    result = np.ones(1)
    for each in masses:
        result = np.outer(result, each).ravel()
    return result


def divergence(p, q, epsilon):
    return np.maximum(p - np.exp(np.asarray(epsilon))[..., None] * q, 0.0).sum(axis=-1)


def either(p, q, epsilon):
    return np.maximum(divergence(p, q, epsilon), divergence(q, p, epsilon))


def within(found, truth, relative):
    """Never below the truth, and above it by a share of it at most."""
    return bool(np.all((found >= truth * (1 - 1e-13) - 1e-16) & (found <= truth * (1 + relative) + 1e-15)))


@EACH
@pytest.mark.parametrize("relation", [ps.AddRemove(), ps.ReplaceOne(n=3)], ids=["add", "replace"])
def test_one_release_is_the_table(pq, relation):
    account = ps.PairAccountant(p=pq[0], q=pq[1], relation=relation)
    assert within(account.delta(EPSILONS), either(*map(np.array, pq), EPSILONS), 1e-13)
    assert {account.kind(view) for view in ("rdp", "delta", "epsilon")} == {"exact"}


@EACH
def test_six_releases_under_add_remove_are_enumerated(pq):
    p, q = (product([masses] * 6) for masses in pq)
    account = 6 * ps.PairAccountant(p=pq[0], q=pq[1])
    assert within(account.delta(EPSILONS), either(p, q, EPSILONS), 1e-11)


@EACH
def test_releases_under_replace_one_may_be_worst_in_any_order(pq):
    p, q = pq
    truth = [divergence(product([p] * k + [q] * (4 - k)), product([q] * k + [p] * (4 - k)), EPSILONS) for k in range(5)]
    account = 4 * ps.PairAccountant(p=p, q=q, relation=ps.ReplaceOne(n=5))
    assert within(account.delta(EPSILONS), np.max(truth, axis=0), 1e-6)
    same = 4 * ps.PairAccountant(p=p, q=q, relation=ps.ReplaceOne(n=5), ordered=True)
    assert within(same.delta(EPSILONS), np.maximum(truth[0], truth[4]), 1e-6)


def test_two_releases_worst_in_opposite_orders_cost_more_than_two_in_one():
    p, q = [0.2562, 0.7437, 0.0001], [0.0799, 0.9197, 0.0004]
    at = {"relation": ps.ReplaceOne(n=2)}
    assert float((2 * ps.PairAccountant(p=p, q=q, **at)).delta(1.0)) == pytest.approx(0.0742, rel=1e-2)
    assert float((2 * ps.PairAccountant(p=p, q=q, ordered=True, **at)).delta(1.0)) == pytest.approx(0.0483, rel=1e-2)
    mixed = ps.PairAccountant(p=p, q=q, **at) + ps.PairAccountant(p=q, q=p, **at)
    opposite = divergence(product([p, q]), product([q, p]), 1.0)
    assert float(mixed.delta(1.0)) >= opposite > 0.074


def test_many_orders_are_bounded_by_the_largest_curve():
    p, q = [0.7, 0.2, 0.1], [0.4, 0.35, 0.25]
    account = ps.PairAccountant(p=p, q=q, relation=ps.ReplaceOne(n=5))
    (product_pair,) = (70 * account).pairs
    assert product_pair.alternatives == (product_pair,)
    assert product_pair.is_envelope
    assert not (6 * account).pairs[0].is_envelope
    ordered = ps.PairAccountant(p=p, q=q, relation=ps.ReplaceOne(n=5), ordered=True)
    assert float((70 * account).epsilon(1e-6)) > float((70 * ordered).epsilon(1e-6))


@EACH
def test_directions_meet_those_of_other_accounts(pq):
    """Removal with removal: a table beside a subsampled one, whose two directions differ."""
    p, q = map(np.array, pq)
    base, rate = ps.PairAccountant(p=[0.8, 0.2], q=[0.3, 0.7]), 0.4
    a, b = np.array([0.8, 0.2]), np.array([0.3, 0.7])
    sampled = ps.SubsampledAccountant(base=base, scheme=ps.PoissonSampling(rate=rate))
    thin = (1 - rate) * b + rate * a
    assert within(sampled.delta(EPSILONS), either(thin, b, EPSILONS), 1e-12)
    both = ps.PairAccountant(p=p, q=q) + sampled
    assert within(both.delta(EPSILONS), either(product([p, thin]), product([q, b]), EPSILONS), 1e-6)


def test_renyi_curve_to_fifty_digits():
    p, q = [0.5, 0.3, 0.2, 0.0], [0.2, 0.3, 0.4, 0.1]
    account = ps.PairAccountant(p=p, q=q)
    assert account.infinity_mass == pytest.approx(0.1, rel=1e-14)
    assert np.all(np.isinf(account.rdp(ORDERS)))
    full = ps.PairAccountant(p=p[:3], q=[0.25, 0.35, 0.4])
    with mp.workdps(50):
        for order, found in zip(ORDERS, full.rdp(ORDERS), strict=True):
            a = mp.mpf(float(order))
            rows = [[mp.mpf(x) / mp.fsum(row) for x in row] for row in (p[:3], [0.25, 0.35, 0.4])]
            ways = [
                mp.log(mp.fsum(x**a * y ** (1 - a) for x, y in zip(*way, strict=True))) / (a - 1)
                for way in (rows, rows[::-1])
            ]
            assert max(ways) * (1 - mp.mpf(10) ** -13) <= found <= max(ways) * (1 + mp.mpf(10) ** -11)


@EACH
def test_a_renyi_curve_holds_beside_infinite_losses(pq):
    """Its conversion, with the infinity mass, bounds the curve of several releases."""
    account = ps.PairAccountant(p=pq[0], q=pq[1])
    p, q = (product([masses] * 3) for masses in pq)
    lost = 1 - (1 - account.infinity_mass) ** 3
    for order in (1.3, 2.0, 6.0):
        renyi = 3 * float(account.bounds.renyi(np.array([order]))[0])
        for epsilon in (0.1, 1.0):
            log_delta = (order - 1) * (renyi - epsilon) + (order - 1) * np.log1p(-1 / order) - np.log(order)
            assert lost + (1 - lost) * np.exp(log_delta) >= either(p, q, epsilon) - 1e-12


def test_losses_that_are_next_to_nothing_keep_their_digits():
    shift = 2.0**-45
    account = ps.PairAccountant(p=[0.5 + shift, 0.5 - shift], q=[0.5, 0.5])
    with mp.workdps(50):
        x = mp.mpf(2 * shift)
        top = max(mp.log(1 + x), -mp.log(1 - x))
        assert top <= account.pure_epsilon <= top * (1 + mp.mpf(10) ** -12)
        exact = mp.log(((1 + x) ** 2 + (1 - x) ** 2) / 2)
        assert exact * (1 - mp.mpf(10) ** -11) <= account.rdp(2.0) <= exact * (1 + mp.mpf(10) ** -3)


def test_several_rows_are_one_of_several_pairs():
    rows = [TABLES["lopsided"], TABLES["no zeros"], TABLES["p lacks an outcome"]]
    account = ps.PairAccountant(p=[row[0] for row in rows], q=[row[1] for row in rows])
    truth = np.max([either(*map(np.array, row), EPSILONS) for row in rows], axis=0)
    assert within(account.delta(EPSILONS), truth, 1e-12)
    twice = [
        [divergence(product([x[0], y[0]]), product([x[1], y[1]]), EPSILONS) for x, y in itertools.product(way, way)]
        for way in (rows, [row[::-1] for row in rows])
    ]
    assert within((2 * account).delta(EPSILONS), np.max(twice, axis=(0, 1)), 1e-6)


def test_random_chains_of_neighbours_are_bounded_by_their_group(rng):
    """Any P, M, R whose neighbours are bounded by the rows; the group's own bound is reached by some."""
    for _ in range(10):
        p, m, r = rng.dirichlet([0.6] * 4, size=3)
        account = ps.PairAccountant(p=[p, m], q=[m, r])
        found = account.group(2).delta(EPSILONS)
        assert np.all(found >= either(p, r, EPSILONS) * (1 - 1e-12))
        assert np.all(found <= np.asarray(ps.Group(base=account, size=2).delta(EPSILONS)) * (1 + 1e-9))


def test_a_group_is_the_chain_of_the_trade_off_function():
    """Dong, Roth and Su 2022, Theorem 2.14: 1 - (1 - f)^k, for a table that is its own reverse."""
    p, q = np.array([0.05, 0.15, 0.2, 0.6, 0.0]), np.array([0.0, 0.6, 0.2, 0.15, 0.05])
    x, y = np.cumsum(p[[4, 1, 2, 3, 0]]), 1 - np.cumsum(q[[4, 1, 2, 3, 0]])
    x, y = np.append(0.0, x), np.append(1.0, y)
    fine = np.linspace(0.0, 1.0, 400_001)
    once = np.interp(fine, x, y)
    once[0] = y[1]  # a jump: what Q alone has
    chain = once
    for k in (2, 3):
        chain = np.interp(1 - chain, x, np.where(x == 0.0, y[1], y))
        truth = np.array([np.max(1 - chain - np.exp(e) * fine) for e in EPSILONS])
        found = ps.PairAccountant(p=p, q=q).group(k).delta(EPSILONS)
        assert np.allclose(found, truth, rtol=1e-4)
        assert np.all(found >= truth * (1 - 1e-12))


def test_groups_of_a_pure_guarantee_are_pure():
    odds = np.e / (1 + np.e)
    account = ps.PairAccountant(p=[odds, 1 - odds], q=[1 - odds, odds], relation=ps.ReplaceOne(n=3))
    group = account.group(2)
    assert group.pure_epsilon == pytest.approx(2.0, rel=1e-12)
    assert group.kind("delta") == "upper bound"
    assert np.all(group.delta([0.0, 1.0]) <= ps.PureAccountant(stated_epsilon=1.0).group(2).delta([0.0, 1.0]))
    assert account.group(5) == account.group(3) or account.group(5).group_size == 3
    assert group.group(2).group_size == 3
    replaced = ps.PairAccountant(p=[odds, 1 - odds], q=[1 - odds, odds]).to(ps.ReplaceOne(n=3))
    assert replaced.delta(0.5) == group.delta(0.5)


def test_a_moved_record_takes_either_order():
    """It leaves one part and enters another: removal beside addition."""
    p, q = [0.2562, 0.7437, 0.0001], [0.0799, 0.9197, 0.0004]
    one, other = ps.PairAccountant(p=p, q=q), ps.PairAccountant(p=p, q=q, assumptions=frozenset())
    moved = (one | other).to(ps.ReplaceOne(n=4))
    assert float(moved.delta(1.0)) >= divergence(product([p, q]), product([q, p]), 1.0)


@pytest.mark.parametrize("scheme", [ps.WithoutReplacement(n=9, m=3), ps.WithReplacement(n=9, m=3)], ids=str)
def test_subsamples_and_selections_cost_what_the_same_table_costs_elsewhere(scheme):
    response = ps.RandomizedResponseAccountant(log_odds=1.1, categories=3, relation=ps.ReplaceOne(n=3))
    true, false = np.exp(1.1) / (np.exp(1.1) + 2), 1 / (np.exp(1.1) + 2)
    table = ps.PairAccountant(p=[true, false, false], q=[false, true, false], relation=ps.ReplaceOne(n=3))
    sampled = [ps.SubsampledAccountant(base=base, scheme=scheme) for base in (table, response)]
    if isinstance(scheme, ps.WithoutReplacement):  # else the sample holds groups, of which a table knows less
        assert sampled[0].delta(EPSILONS) == pytest.approx(sampled[1].delta(EPSILONS), rel=1e-9)
    assert np.all(sampled[0].delta(EPSILONS) >= sampled[1].delta(EPSILONS) * (1 - 1e-9))
    best = [ps.SelectionAccountant(base=base, repetitions=ps.Poisson(mean=3.0)) for base in (table, response)]
    assert best[0].epsilon(1e-3) == pytest.approx(best[1].epsilon(1e-3), rel=1e-9)
    sizes = [
        ps.SubsampledAccountant(base=base, scheme=ps.PoissonSampling(rate=0.3), relation=ps.ReplaceOne(n=3))
        for base in (table, response)
    ]
    assert sizes[0].delta(EPSILONS) == pytest.approx(sizes[1].delta(EPSILONS), rel=1e-9)


def test_orders_that_are_not_told_apart_are_sampled_and_selected_each():
    p, q = TABLES["lopsided"]
    loose = ps.PairAccountant(p=p, q=q, ordered=False)
    a, b, rate = np.array(p), np.array(q), 0.3
    sampled = ps.SubsampledAccountant(base=loose, scheme=ps.PoissonSampling(rate=rate))
    truth = np.maximum(either((1 - rate) * b + rate * a, b, EPSILONS), either((1 - rate) * a + rate * b, a, EPSILONS))
    assert within(sampled.delta(EPSILONS), truth, 1e-12)
    ordered = ps.PairAccountant(p=p, q=q)
    best = [
        ps.SelectionAccountant(base=base, repetitions=ps.Poisson(mean=3.0)).epsilon(1e-2) for base in (loose, ordered)
    ]
    assert best[0] == pytest.approx(best[1], rel=1e-9)


def test_tables_of_many_outcomes_agree_with_small_ones():
    rng = np.random.default_rng(3)
    p, q = rng.dirichlet([0.5] * (3 * LARGE), size=2)
    p[:5] = q[5:9] = 0.0
    p, q = p / p.sum(), q / q.sum()
    exact = ps.PairAccountant(p=p, q=q)
    (large,) = exact.bounds.directions[0]
    assert isinstance(large, LargeTable)
    e = np.array([-2.0, -0.3, 0.0, 0.7, 2.0, 50.0])
    assert np.allclose(large.log_delta(e), large.table.log_delta(e), rtol=1e-11, atol=1e-12)
    assert np.all(large.log_delta(e) >= np.log(np.maximum(divergence(p, q, e), 1e-300)) - 1e-12)
    finite = given_finite_loss(large.table)
    assert isinstance(finite, LargeTable)
    assert finite.renyi(ORDERS) == pytest.approx(finite.table.renyi(ORDERS))
    assert large.reverse().reverse() == large
    rounded = ps.PairAccountant(p=np.tile(p / 2, 2), q=np.tile(q / 2, 2))
    assert rounded.delta(e) == pytest.approx(exact.delta(e), rel=1e-9)
    assert isinstance(rounded.group(2), ps.Group)
    with pytest.raises(ValueError, match="group_size must be 1 for tables of more than"):
        ps.PairAccountant(p=np.tile(p / 2, 2), q=np.tile(q / 2, 2), group_size=2)


@EACH
def test_what_is_saved_is_loaded(pq):
    for account in (
        ps.PairAccountant(p=pq[0], q=pq[1]),
        ps.PairAccountant(p=[pq[0]] * 2, q=[pq[1], pq[0]], relation=ps.ReplaceOne(n=9)).group(2),
        3 * ps.PairAccountant(p=pq[0], q=pq[1], relation=ps.ReplaceOne(n=9), ordered=True),
    ):
        loaded = ps.Accountant.from_dict(json.loads(json.dumps(account.to_dict())))
        assert loaded == account
        assert np.array_equal(loaded.delta(EPSILONS), account.delta(EPSILONS))


@EACH
def test_an_account_by_loss_pairs_gives_the_same(pq):
    with np.errstate(divide="ignore"):
        pair = DiscretePair(log_p=np.log(pq[0]), log_q=np.log(pq[1]))
    listed = Finite(listed=(pair, pair.reverse()))
    assert ps.PairAccountant(p=pq[0], q=pq[1]).delta(EPSILONS) == pytest.approx(listed.delta(EPSILONS), rel=1e-12)


@EACH
def test_a_broken_copy_is_seen_by_the_enumeration(pq):
    """A table with a share of another outcome's mass moved to where both agree promises too much."""
    p, q = map(np.array, pq)
    mixed = 0.99 * p + 0.01 * q
    broken = 6 * ps.PairAccountant(p=mixed, q=q)
    truth = either(product([p] * 6), product([q] * 6), EPSILONS)
    assert not within(broken.delta(EPSILONS), truth, 1e-6)
    assert np.any(broken.delta(EPSILONS) < truth)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"p": [0.5, 0.4], "q": [0.5, 0.5]}, r"p must sum to 1 within 1e-09, got 0.9; add an outcome with"),
        (
            {"p": [[0.5, 0.5], [1, 0]], "q": [[0.5, 0.5], [1, 1]]},
            r"q \(row 1\) must sum to 1.*divide frequencies by",
        ),
        ({"p": [0.5, 0.5], "q": [1.5, -0.5]}, r"q must be probabilities, got -0.5"),
        ({"p": [0.5, 0.5], "q": [np.nan, 1.0]}, r"q must not contain NaN"),
        ({"p": [0.5, 0.5], "q": [np.inf, 1.0]}, r"q must be probabilities, got inf"),
        ({"p": [0.5, 0.5], "q": [0.5, 0.25, 0.25]}, r"p and q must have one shape, got \(2,\) and \(3,\)"),
        ({"p": [], "q": []}, r"p must have shape \(outcomes,\) or \(pairs, outcomes\), got \(0,\)"),
        ({"p": [1.0, 0.0], "q": [0.0, 1.0]}, r"no outcome in common: there is no guarantee"),
        ({"p": [1.0], "q": [1.0], "group_size": 0}, r"group_size must be at least 1"),
    ],
)
def test_bad_tables_are_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        ps.PairAccountant(**fields)


def test_bad_types_are_refused():
    with pytest.raises(TypeError, match="relation must be AddRemove"):
        ps.PairAccountant(p=[1.0], q=[1.0], relation="add")
    with pytest.raises(TypeError, match="ordered must be True, False or None, got 1"):
        ps.PairAccountant(p=[1.0], q=[1.0], ordered=1)
    with pytest.raises(TypeError, match="p must be real numbers"):
        ps.PairAccountant(p=["a"], q=[1.0])


def test_equal_distributions_cost_nothing():
    account = ps.PairAccountant(p=[0.25, 0.75], q=[0.25, 0.75])
    assert account.epsilon(0.0) == account.pure_epsilon == 0.0
    assert (5 * account).delta(0.0) <= 1e-12
    assert account.zcdp == 0.0


def test_a_sum_that_is_off_by_rounding_is_divided_out():
    thirds = [1 / 3] * 3
    assert ps.PairAccountant(p=[x * (1 + 3e-10) for x in thirds], q=thirds).pure_epsilon <= 1e-15


def test_one_of_several_pairs():
    pair = ps.PairAccountant(p=[0.7, 0.2, 0.1], q=[0.4, 0.35, 0.25]).pairs[0]
    both = OneOfPairs(members=(pair, pair.reverse()))
    assert both.reverse() is both
    assert both.order_limit == np.inf
    assert not both.is_expensive
    laplace = LaplacePair(shift=2.0)
    wider = OneOfPairs(members=(both, laplace))
    assert wider.members == (pair, pair.reverse(), laplace)
    assert OneOfPairs(members=(pair, laplace)).reverse().members == (pair.reverse(), laplace)
    assert wider.max_divergence == 2.0
    assert one_of_pairs([laplace, laplace]) == laplace
    assert wider.approx_log_delta(EPSILONS) == pytest.approx(wider.log_delta(EPSILONS))
    with pytest.raises(ValueError, match="at least one pair"):
        OneOfPairs(members=())


def test_each_account_names_its_source():
    accounts = [
        ps.PairAccountant(p=[0.5, 0.5], q=[0.4, 0.6]),
        ps.TradeoffAccountant(knots=[(0, 1), (0.25, 0.25), (1, 0)]),
        ps.CurveAccountant(points=[(1.0, 0.1)]),
        ps.LossDistributionAccountant(first=ps.LossDistribution(losses=[0.0], masses=[1.0])),
    ]
    assert all("2022" in account.source for account in accounts)


def test_tables_whose_sums_are_not_told_apart_are_not_enumerated():
    pair = ps.PairAccountant(p=[0.7, 0.3], q=[0.4, 0.6]).pairs[0]
    wide = ps.PairAccountant(p=[1e-200, 1.0], q=[1.0, 1e-200]).pairs[0]
    assert enumerate_product([(pair, 3), (LaplacePair(shift=1.0), 1)]) is None
    assert enumerate_product([(pair, 65)]) is None
    assert enumerate_product([(wide, 60)]) is None
    found = enumerate_product([(pair, 3)])
    p, q = product([[0.7, 0.3]] * 3), product([[0.4, 0.6]] * 3)
    assert within(np.exp(found.log_delta(EPSILONS)), divergence(p, q, EPSILONS), 1e-13)


@pytest.mark.parametrize("distance", [1e-9, 1e-3, 0.1])
def test_approximate_draws_cost_the_distance_more(distance):
    """Randomized response whose distributions move apart by the distance each attains Proposition 3."""
    exact = ps.PureAccountant(stated_epsilon=1.0)
    account = ps.CurveAccountant.of_approximate_draws(exact, distance=distance)
    up = 1.0 / (1.0 + np.exp(-1.0))
    for epsilon in (0.0, 0.3, 0.7):
        truth = up + distance - np.exp(epsilon) * (1.0 - up - distance)
        assert truth * (1 - 1e-13) <= account.delta(epsilon) <= truth * (1 + 1e-4)
        assert account.delta(epsilon) > exact.delta(epsilon) + 1.9 * distance  # one distance for each distribution
    assert account.delta(50.0) >= 2.0 * distance  # it does not fall below the smallest point
    assert np.isinf(account.epsilon(distance))


def test_approximate_draws_state_their_distance():
    chain = ps.GaussianAccountant(
        sensitivity=1, noise_std=1, assumptions=frozenset({ps.Assumption.CONVERGED_CHAIN, ps.Assumption.RNG_FRESH})
    )
    account = ps.CurveAccountant.of_approximate_draws(chain, distance=1e-6)
    assert account.assumptions == {ps.Assumption.STATED, ps.Assumption.RNG_FRESH}
    epsilons = np.linspace(0.0, 4.0, 41)
    above = chain.delta(epsilons) + (1.0 + np.exp(epsilons)) * 1e-6
    assert (account.delta(epsilons) >= above * (1 - 1e-12)).all()
    assert (account.delta(epsilons) <= above * 1.001).all()
    assert ps.Accountant.from_dict(account.to_dict()) == account
    with pytest.raises(TypeError, match="account must be an accountant"):
        ps.CurveAccountant.of_approximate_draws(1.0, distance=0.1)
    for wrong in (0.0, 0.5, -1.0, np.nan):
        with pytest.raises(ValueError, match="distance must"):
            ps.CurveAccountant.of_approximate_draws(chain, distance=wrong)
