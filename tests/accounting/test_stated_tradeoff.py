"""Accounts of trade-off functions and of points of a privacy curve, against what they state and what is known of it."""

import copy
import json
import pickle
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import norm

import privsample as ps
from privsample.accounting.stated.exact import lower_hull, normalize_masses, trade_off

EPSILONS = np.array([-1.0, 0.0, 0.3, 1.0, 2.5])
KNOTS = {
    "symmetric": [(0, 1), (0.25, 0.25), (1, 0)],
    "skewed": [(0, 1), (0.1, 0.5), (0.4, 0.15), (1, 0)],
    "starts below one": [(0, 0.9), (0.3, 0.2), (1, 0)],
    "ends before one": [(0, 1), (0.3, 0.2), (0.8, 0)],
}
EACH = pytest.mark.parametrize("knots", KNOTS.values(), ids=list(KNOTS))


def of_tests(knots, epsilon):
    """The privacy curve by duality: the largest 1 - fnr - e^eps fpr, or with both errors exchanged."""
    x, y = np.array(knots, dtype=float).T
    x, y = np.append(x, 1.0), np.append(y, 0.0)
    e = np.exp(np.asarray(epsilon))[..., None]
    return np.maximum((1 - y - e * x).max(axis=-1), (1 - x - e * y).max(axis=-1)).clip(0.0)


def gaussian(x):
    return norm.cdf(norm.isf(x) - 1)


@EACH
def test_a_trade_off_function_is_its_own_dual(knots):
    account = ps.TradeoffAccountant(knots=knots)
    found, truth = account.delta(EPSILONS), of_tests(knots, EPSILONS)
    assert np.all(found >= truth * (1 - 1e-14))
    assert found == pytest.approx(truth, rel=1e-13)


@EACH
def test_a_trade_off_function_is_a_table(knots):
    x, y = np.array(knots, dtype=float).T
    p = np.concatenate([[0.0], np.diff(x), [1 - x[-1]]])
    q = np.concatenate([[1 - y[0]], -np.diff(y), [y[-1]]])
    for relation in (ps.AddRemove(), ps.ReplaceOne(n=4)):
        account = ps.TradeoffAccountant(knots=knots, relation=relation)
        table = ps.PairAccountant(p=p, q=q, relation=relation)
        for one, other in ((account, table), (3 * account, 3 * table), (account.group(2), table.group(2))):
            assert one.delta(EPSILONS) == pytest.approx(other.delta(EPSILONS), rel=1e-11)
            assert one.infinity_mass == pytest.approx(other.infinity_mass, rel=1e-12)


def test_a_function_is_bounded_from_below():
    """Every knot lies on or below the function; the account is above the Gaussian mechanism's, and close."""
    account = ps.TradeoffAccountant.from_function(gaussian)
    x, y = account.knots.T
    with mp.workdps(40):
        for a, b in zip(x[1:-1:97], y[1:-1:97], strict=True):
            z = mp.sqrt(2) * mp.erfinv(1 - 2 * mp.mpf(float(a)))
            assert b <= mp.ncdf(z - 1)
    exact = ps.GaussianAccountant(sensitivity=1, noise_std=1)
    for delta in (1e-2, 1e-5, 1e-8):
        assert float(exact.epsilon(delta)) <= float(account.epsilon(delta)) <= float(exact.epsilon(delta)) * 1.0005
    assert account.infinity_mass < 1e-11
    coarse = ps.TradeoffAccountant.from_function(gaussian, points=400)
    assert coarse.epsilon(1e-5) > account.epsilon(1e-5)


def test_a_function_of_straight_lines_is_met():
    knots = np.array(KNOTS["symmetric"])
    account = ps.TradeoffAccountant.from_function(lambda x: np.interp(x, *knots.T), relation=ps.ReplaceOne(n=3))
    assert account.delta(EPSILONS[1:]) == pytest.approx(of_tests(knots, EPSILONS[1:]), abs=1e-11)
    flat = ps.TradeoffAccountant.from_function(lambda x: 1 - x)
    assert flat.delta(0.0) < 1e-11


def test_groups_of_the_gaussian_mechanism():
    """Dong, Roth and Su 2022: mu for one is k mu for k."""
    account = ps.TradeoffAccountant.from_function(gaussian).group(2)
    exact = ps.GaussianAccountant(sensitivity=2, noise_std=1)
    assert float(exact.epsilon(1e-5)) <= float(account.epsilon(1e-5)) <= float(exact.epsilon(1e-5)) * 1.001


def test_knots_off_by_rounding_are_replaced_by_their_hull():
    x = np.linspace(0, 1, 201)
    y = gaussian(x)
    y[50] += 3e-11
    account = ps.TradeoffAccountant(knots=np.stack([x, y], axis=1))
    y[50] -= 3e-11
    assert account.delta(0.5) == pytest.approx(ps.TradeoffAccountant(knots=np.stack([x, y], axis=1)).delta(0.5))


@pytest.mark.parametrize(
    ("knots", "words"),
    [
        (
            [(0, 1), (0.2, 0.5), (0.5, 0.45), (0.7, 0.0)],
            r"convex: the middle one lies above the line between the others: \(0.2, 0.5\), \(0.5, 0.45\), \(0.7, 0\)",
        ),
        ([(0, 1), (0.5, 0.6), (1, 0)], r"must not lie above 1 - fpr, the rate of random guessing, got \(0.5, 0.6\)"),
        ([(0, 0.5), (0.2, 0.6), (1, 0)], r"decreasing fnr, got \(0, 0.5\) before \(0.2, 0.6\)"),
        ([(0, 1), (0.5, 0.2), (0.5, 0.1), (1, 0)], r"increasing fpr, got \(0.5, 0.2\) before \(0.5, 0.1\)"),
        ([(0.1, 0.8), (1, 0)], r"must start at fpr 0, got \(0.1, 0.8\): add the knot \(0, f\(0\)\)"),
        ([(0, 1), (0.5, 0.2)], r"must end at fpr 1 or fnr 0, got \(0.5, 0.2\): add the knot \(1, 0\)"),
        ([(0, 1.2), (1, 0)], r"rates in \[0, 1\], got \(0, 1.2\)"),
        ([(0, 0), (1, 0)], "no outcome in common"),
        ([0.0, 1.0], r"shape \(at least 2, 2\), rows \(fpr, fnr\), got \(2,\)"),
        ([(0, 1), (0.5, np.nan), (1, 0)], "knots must not contain NaN"),
    ],
)
def test_bad_knots_are_refused(knots, words):
    with pytest.raises(ValueError, match=words):
        ps.TradeoffAccountant(knots=knots)


def test_bad_functions_are_refused():
    with pytest.raises(ValueError, match="knots must be convex"):
        ps.TradeoffAccountant.from_function(lambda x: np.where(x < 0.5, 1.0, 0.5) * (1 - x))
    with pytest.raises(ValueError, match="function must return one rate for each"):
        ps.TradeoffAccountant.from_function(lambda x: 0.5)


def test_one_point_is_an_approximate_guarantee():
    curve = ps.CurveAccountant(points=[(1.0, 1e-3)])
    known = ps.ApproximateAccountant(stated_epsilon=1.0, stated_delta=1e-3)
    orders = np.array([1.001, 2.0, 30.0])
    for times in (1, 3):
        one, other = times * curve, times * known
        assert one.delta(EPSILONS) == pytest.approx(other.delta(EPSILONS), rel=1e-11)
        assert one.epsilon([0.01, 0.1]) == pytest.approx(other.epsilon([0.01, 0.1]), rel=1e-9)
    assert curve.infinity_mass == pytest.approx(1e-3, rel=1e-13)
    assert len(curve.bounds.directions) == 1
    assert curve.bounds.renyi(orders) == pytest.approx(known.bounds.renyi(orders), rel=1e-12)
    group = curve.group(2)
    assert group.pure_epsilon == pytest.approx(2.0, rel=1e-12)
    assert group.infinity_mass == pytest.approx(1e-3 * (1 + np.e), rel=1e-12)
    assert np.all(group.delta(EPSILONS) <= np.asarray(known.group(2).delta(EPSILONS)) * (1 + 1e-12))


def test_points_of_a_pure_guarantee():
    curve = ps.CurveAccountant(points=[(0.8, 0.0)])
    pure = ps.PureAccountant(stated_epsilon=0.8)
    assert curve.infinity_mass == 0.0
    assert curve.rdp([1.5, 9.0]) == pytest.approx(pure.rdp([1.5, 9.0]), rel=1e-12)
    assert (4 * curve).delta(EPSILONS) == pytest.approx((4 * pure).delta(EPSILONS), rel=1e-9)


def test_the_worst_curve_is_the_largest_that_keeps_the_points(rng):
    """Any table that keeps the points stays below; at the points that are no idle ones it is reached."""
    for _ in range(40):
        p, q = rng.dirichlet([0.5] * 5, size=2)
        table = ps.PairAccountant(p=p, q=q)
        at = np.sort(rng.uniform(0.0, 3.0, size=3))
        curve = ps.CurveAccountant(points=np.stack([at, table.delta(at)], axis=1)[::-1])
        assert np.all(curve.delta(EPSILONS) >= np.asarray(table.delta(EPSILONS)) * (1 - 1e-12))
        assert curve.delta(at) == pytest.approx(table.delta(at), rel=1e-9, abs=1e-15)
        twice = (2 * curve).delta(EPSILONS), np.asarray((2 * table).delta(EPSILONS))
        assert np.all(twice[0] >= twice[1] * (1 - 1e-6))


def test_between_points_the_curve_is_a_chord_and_beyond_them_constant():
    curve = ps.CurveAccountant(points=[(2.0, 1e-7), (0.5, 1e-2), (1.0, 1e-4), (0.8, 0.5)])
    x, left, right = np.exp(0.75), np.exp(0.5), np.exp(1.0)
    share = (x - left) / (right - left)
    assert curve.delta(0.75) == pytest.approx((1 - share) * 1e-2 + share * 1e-4, rel=1e-12)
    assert curve.delta([2.0, 7.0]) == pytest.approx([1e-7, 1e-7], rel=1e-12)
    rising = ps.CurveAccountant(points=[(0.5, 1e-3), (1.0, 1e-2)])
    assert rising.delta(1.0) == pytest.approx(1e-3, rel=1e-12)


def test_points_far_out_keep_their_digits():
    curve = ps.CurveAccountant(points=[(80.0, 1e-40), (900.0, 1e-300)])
    assert curve.log_delta(80.0) == pytest.approx(np.log(1e-40), rel=1e-13)
    assert curve.log_delta(900.0) == pytest.approx(np.log(1e-300), rel=1e-13)


def test_two_directions_are_told_apart():
    p, q = [0.7, 0.2, 0.1], [0.4, 0.35, 0.25]
    with mp.workdps(30):
        losses = [float(mp.log(mp.mpf(x) / mp.mpf(y))) for x, y in zip(p, q, strict=True)]
    forward = [(e, sum(max(x - np.exp(e) * y, 0) for x, y in zip(p, q, strict=True))) for e in losses if e > 0]
    back = [(-e, sum(max(y - np.exp(-e) * x, 0) for x, y in zip(p, q, strict=True))) for e in losses if e < 0]
    curve = ps.CurveAccountant(points=[*forward, (0.0, 0.3)], reverse_points=[*back, (0.0, 0.3)])
    assert len(curve.bounds.directions) == 2
    assert np.all(curve.delta(EPSILONS) >= np.asarray(ps.PairAccountant(p=p, q=q).delta(EPSILONS)) * (1 - 1e-9))
    both = ps.CurveAccountant(points=[*forward, *back, (0.0, 0.3)])
    assert len(both.bounds.directions) == 1
    assert float((5 * curve).delta(0.5)) >= float((5 * ps.PairAccountant(p=p, q=q)).delta(0.5)) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([(1.0, -1e-9)], r"points must have a delta in \[0, 1\].*got \(1.0, -1e-09\)"),
        ([(1.0, 1.5)], r"points must have a delta in \[0, 1\]"),
        ([(1.0, np.nan)], "points must not contain NaN"),
        ([(-1.0, 0.5)], r"at least 1 - e\^epsilon at a negative epsilon, got \(-1.0, 0.5\)"),
        ([(1.0, 1.0)], "points must have a delta below 1: there is no guarantee"),
        ([(np.inf, 0.1)], "epsilons within 100000 of zero"),
        ([1.0, 0.1], r"shape \(points, 2\), rows \(epsilon, delta\), got \(2,\)"),
    ],
)
def test_bad_points_are_refused(points, words):
    with pytest.raises(ValueError, match=words):
        ps.CurveAccountant(points=points)
    with pytest.raises(ValueError, match=f"reverse_{words}" if words.startswith("points") else words):
        ps.CurveAccountant(points=[(1.0, 0.1)], reverse_points=points)


@pytest.mark.parametrize(
    "account",
    [
        ps.TradeoffAccountant(knots=KNOTS["skewed"]),
        ps.TradeoffAccountant(knots=KNOTS["skewed"], relation=ps.ReplaceOne(n=3)).group(2),
        ps.CurveAccountant(points=[(0.5, 1e-2), (1.0, 1e-4)], reverse_points=[(0.7, 1e-3)]),
        2 * ps.CurveAccountant(points=[(0.5, 1e-2)], relation=ps.ReplaceOne(n=3, unit="patient")),
    ],
    ids=["knots", "group", "points", "composed"],
)
def test_what_is_saved_is_loaded(account):
    loaded = ps.Accountant.from_dict(json.loads(json.dumps(account.to_dict())))
    assert loaded == account
    assert np.array_equal(loaded.delta(EPSILONS), account.delta(EPSILONS))


def test_broken_hulls_are_seen():
    """A hull that leaves a vertex out, or reads the points as a step function, fails the tests above."""
    points = [(Fraction(x), Fraction(y)) for x, y in ((0, 1), (0.25, 0.25), (0.5, 0.24), (1, 0))]
    assert lower_hull(points) == [points[0], points[1], points[3]]
    masses = normalize_masses([(Fraction(1, 4), Fraction(3, 4)), (Fraction(3, 4), Fraction(1, 4))])
    assert trade_off(masses)[1] == (Fraction(1, 4), Fraction(1, 4))
    skipped = ps.TradeoffAccountant(knots=[KNOTS["skewed"][0], *KNOTS["skewed"][2:]])
    assert np.any(skipped.delta(EPSILONS) < of_tests(KNOTS["skewed"], EPSILONS) * (1 - 1e-3))


def test_the_last_point_is_kept_as_it_is_stated():
    account = ps.CurveAccountant(points=[(0.5, 1e-3), (1.0, 1e-6)])
    assert (account.infinity_mass, account.pure_epsilon) == (1e-6, 1.0)
    assert account.epsilon(1e-6) == 1.0
    assert 1e-6 <= account.delta(1.0) <= 1e-6 * (1 + 1e-12)
    other = ps.CurveAccountant(points=[(1.0, 1e-6)], reverse_points=[(2.0, 1e-7)])
    assert (other.infinity_mass, other.pure_epsilon) == (1e-6, 2.0)


@pytest.mark.parametrize("points", [-4, 0, 1, 3, 99])
def test_a_function_is_asked_at_enough_rates(points):
    """With the two ends alone the knots would lie above the function, and nothing would be said to cost anything."""
    with pytest.raises(ValueError, match="points must be at least"):
        ps.TradeoffAccountant.from_function(lambda x: (1 - x) ** 2, points=points)
    asked = ps.TradeoffAccountant.from_function(lambda x: (1 - x) ** 2, points=100)
    assert float(asked.delta(0.0)) == pytest.approx(0.25, rel=1e-2)
    assert float(asked.delta(0.0)) >= 0.25


@pytest.mark.parametrize("epsilon", [1e-300, 1e-150, 1e-100, 1e-40, 1e-33, 1e-20, 1e-10])
def test_points_next_to_nothing_are_told_from_nothing(epsilon):
    account = ps.CurveAccountant(points=[(epsilon, 0.0)])
    with mp.workdps(700):
        x = mp.exp(mp.mpf(epsilon))
        assert mp.mpf(float(account.delta(0.0))) >= (x - 1) / (x + 1)
        assert mp.mpf(float(account.rdp(2.0))) >= mp.log((x * x + 1 / x) / (1 + x))
    assert account.pure_epsilon >= epsilon
    assert account.pure_epsilon == pytest.approx(epsilon, rel=1e-14)


def test_the_least_delta_of_all_mechanisms_may_be_stated():
    """At a negative epsilon it is 1 - e^epsilon, which a float may lie below."""
    for factor in (1.0, 1 - 0.9e-15):
        account = ps.CurveAccountant(points=[(-1.0, -np.expm1(-1.0) * factor), (1.0, 0.0)])
        assert account.delta(-1.0) >= -np.expm1(-1.0)


@pytest.mark.parametrize(
    "account",
    [
        ps.PairAccountant(p=[0.6, 0.4, 0.0], q=[0.3, 0.6, 0.1]),
        ps.TradeoffAccountant(knots=KNOTS["skewed"]),
        ps.CurveAccountant(points=[(0.5, 1e-2), (1.0, 1e-4)]),
        ps.LossDistributionAccountant(
            first=ps.LossDistribution(losses=[-0.5, 0.5], masses=[0.35, 0.55], infinity_mass=0.1)
        ),
    ],
    ids=lambda account: type(account).__name__,
)
def test_stated_accounts_go_to_other_processes(account):
    for one in (account, 3 * account, account.group(2)):
        before = one.delta(EPSILONS)
        for copied in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert copied == one
            assert np.array_equal(copied.delta(EPSILONS), before)
