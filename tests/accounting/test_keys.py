"""Accounts of keys that are not public, against enumerations, a linear programme and rational arithmetic."""

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.optimize import linprog

import privsample as ps
from privsample.accounting.keys.optimal import composed_responses
from privsample.accounting.keys.threshold import moved_counts
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.one_sided_failure import OneSidedFailurePair
from privsample.accounting.noise.discrete_gaussian_sum import discrete_gaussian_sum
from privsample.accounting.stated.exact import exponential
from privsample.distributions import keep_probabilities as module
from privsample.distributions.keep_probabilities import keep_probabilities
from privsample.distributions.noise import LaplaceNoise

GOLDEN = {
    (1.0, 1e-5): {
        1: 1e-5,
        2: 3.71828182846e-5,
        10: 0.128183080505,
        12: 0.760310996923,
        13: 0.911827022287,
        20: 0.999925411112,
    },
    (1.0, 0.01): {5: 0.7505515269},
    (0.5, 0.001): {10: 0.2272365124},
}


@pytest.mark.parametrize(("parameters", "expected"), GOLDEN.items())
def test_probabilities(parameters, expected):
    table = keep_probabilities(*parameters)
    for units, probability in expected.items():
        assert table[units] == pytest.approx(probability, rel=2e-10)
    assert keep_probabilities(1.0, 1e-5)[-1] == 1.0


@pytest.mark.parametrize("parameters", [(1.0, 1e-5), (0.1, 1e-6), (0.0, 0.01), (3.0, 0.7), (1.0, 1e-25), (8.0, 1e-9)])
def test_doubles_satisfy_both_inequalities_exactly(parameters):
    delta, table = Fraction(parameters[1]), list(map(Fraction, keep_probabilities(*parameters).tolist()))
    grown = exponential(parameters[0])
    for a, b in itertools.pairwise(table):
        assert a < b <= grown * a + delta
        assert (1 - a) <= grown * (1 - b) + delta


def test_no_selection_keeps_more():
    epsilon, delta, count = 0.7, 0.003, 25
    rows, limits = [], []
    for n in range(count):
        low, high = np.eye(count + 1)[[n, n + 1]]
        rows += [high - np.exp(epsilon) * low, np.exp(epsilon) * high - low, low - np.exp(epsilon) * high]
        limits += [delta, delta + np.exp(epsilon) - 1.0, delta]
    for n in (1, 7, count):
        best = linprog(-np.eye(count + 1)[n], rows, limits, bounds=[(0, 0)] + [(0, 1)] * count)
        table = keep_probabilities(epsilon, delta)
        assert -best.fun == pytest.approx(table[min(n, len(table) - 1)], rel=1e-7)


def largest_delta(pairs, count, epsilon):
    """The largest delta over all multisets of Bernoulli pairs, in both directions."""
    best = 0.0
    for chosen in itertools.combinations_with_replacement(pairs, count):
        for flip in (1, -1):
            total = 0.0
            for kept in itertools.product((0, 1), repeat=count):
                p, q = (
                    np.prod([one[side] if k else 1 - one[side] for one, k in zip(chosen, kept, strict=True)])
                    for side in (1, 0)[::flip]
                )
                total += max(p - np.exp(epsilon) * q, 0.0)
            best = max(best, total)
    return best


@pytest.mark.parametrize(("fields", "epsilon"), [((0.7, 0.02, 1), 0.3), ((0.7, 0.02, 2), 1.0), ((1.2, 0.05, 3), 2.0)])
def test_the_optimal_account_is_the_largest_over_all_numbers_of_units(fields, epsilon):
    table = [*keep_probabilities(*fields[:2]).tolist()]
    true = largest_delta(list(itertools.pairwise(table)), fields[2], epsilon)
    account = ps.OptimalKeysAccountant(key_epsilon=fields[0], key_delta=fields[1], keys_per_unit=fields[2])
    assert true <= account.delta(epsilon) <= true * (1 + 1e-9)
    assert account.group(2).delta(epsilon) > account.delta(epsilon)


@pytest.mark.parametrize(
    ("given", "expected"), [((0.7, 0.02, 2, 1.0), 0.180964948673), ((1.2, 0.05, 3, 2.0), 0.453226574700)]
)
def test_composed_responses(given, expected):
    pair = composed_responses(*given[:3])
    assert np.exp(pair.log_delta(np.array(given[3]))) == pytest.approx(expected, rel=1e-11)


def test_many_keys_per_unit():
    account = ps.OptimalKeysAccountant(key_epsilon=0.1, key_delta=1e-7, keys_per_unit=10)
    pair = composed_responses(0.1, 1e-7, 10)
    assert account.delta(0.5) == pytest.approx(float(np.exp(pair.log_delta(np.array(0.5)))), rel=1e-12)
    assert account.kind("delta") == "upper bound"


def enumerated(noise, threshold, count, epsilon, counts):
    """The largest delta over numbers of units of each key, by all outputs of discrete noise."""
    outputs = np.arange(threshold + 1, threshold + 120)

    def law(units):
        if units == 0:
            return np.append(np.zeros(len(outputs)), 1.0)
        mass = np.exp(noise.log_mass(outputs - units))
        return np.append(mass, 1.0 - mass.sum())

    best = 0.0
    for chosen in itertools.combinations_with_replacement(counts, count):
        p, q = np.ones(1), np.ones(1)
        for units in chosen:
            p, q = np.outer(p, law(units + 1)).ravel(), np.outer(q, law(units)).ravel()
        for one, other in ((p, q), (q, p)):
            best = max(best, float(np.maximum(one - np.exp(epsilon) * other, 0.0).sum()))
    return best


@pytest.mark.parametrize("noise", [ps.DiscreteLaplaceNoise(scale=1.5), ps.DiscreteGaussianNoise(noise_std=2.0)])
@pytest.mark.parametrize(("count", "epsilon"), [(1, 0.3), (1, 0.0), (2, 0.8), (2, 1.2)])
def test_the_threshold_account_is_the_largest_over_all_numbers_of_units(noise, count, epsilon):
    account = ps.ThresholdKeysAccountant(noise=noise, threshold=4.0, keys_per_unit=count)
    true = enumerated(noise, 4, count, epsilon, (0, 1, 2, 4, 60))
    assert true <= account.delta(epsilon) * (1 + 1e-12)
    # the tail of discrete Gaussian noise is an upper bound
    slack = 1e-6 if isinstance(noise, ps.DiscreteLaplaceNoise) else 0.05
    assert account.delta(epsilon) <= true * (1 + slack)


@pytest.mark.parametrize(
    "noise", [ps.GaussianNoise(noise_std=6.0), ps.LaplaceNoise(scale=3.0), ps.DiscreteGaussianNoise(noise_std=6.0)]
)
@pytest.mark.parametrize("count", [1, 2, *(pytest.param(count, marks=pytest.mark.long) for count in (3, 20))])
def test_views_agree(noise, count):
    account = ps.ThresholdKeysAccountant(noise=noise, threshold=30.0, keys_per_unit=count)
    delta = 0.01
    assert account.delta(account.epsilon(delta)) <= delta * (1 + 1e-6)
    assert 0.0 < account.infinity_mass < 1e-2
    assert np.isinf(account.rdp(2.0))
    both = account + ps.GaussianAccountant(sensitivity=1, noise_std=8.0)
    assert account.epsilon(delta) <= both.epsilon(delta) < account.epsilon(delta) + 1.0
    assert np.isfinite((2 * account).epsilon(delta))
    assert account.to(ps.ReplaceOne(n=5)).epsilon(0.2) >= account.epsilon(0.2)


def test_gaussian_threshold_against_fifty_digits():
    mpmath.mp.dps = 50
    account = ps.ThresholdKeysAccountant(noise=ps.GaussianNoise(noise_std=5.0), threshold=20.0, keys_per_unit=2)
    p, found = mpmath.erfc(mpmath.mpf(19) / 5 / mpmath.sqrt(2)) / 2, []
    for new in range(3):
        f, mu = 1 - (1 - p) ** new, mpmath.sqrt(2 - new) / 5
        for sign in (-1, 1):
            e = mpmath.mpf(0.4) + sign * mpmath.log(1 - f)
            curve = (
                mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu) if mu else mpmath.mpf(0)
            )
            found.append(f + (1 - f) * curve if sign < 0 else curve)
    assert float(max(found)) <= account.delta(0.4) <= float(max(found)) * (1 + 1e-9)


def test_one_sided_failure():
    base = GaussianPair(mu=0.5)
    pair, nodes = OneSidedFailurePair(base=base, mass=0.01), np.linspace(-6.0, 6.0, 4001)
    assert pair.reverse().reverse() == pair
    assert (pair.order_limit, pair.max_divergence, pair.reverse().order_limit) == (1.0, np.inf, np.inf)
    for one in (pair, pair.reverse()):
        log_p, infinite = one.discretize(nodes)
        found = np.exp(infinite) + (np.exp(log_p) * np.maximum(-np.expm1(0.3 - nodes), 0.0)).sum()
        exact = float(np.exp(one.log_delta(np.array(0.3))))
        assert exact <= found * (1 + 1e-9) <= exact * (1 + 1e-3)
        assert np.allclose(one.approx_log_delta(nodes), one.log_delta(nodes))
        assert (one.is_expensive, one.from_table, one.curve_cost, one.renyi_cost) == (
            base.is_expensive,
            base.from_table,
            base.curve_cost,
            base.renyi_cost,
        )
        assert len(one.certified_cases(())[0]) == 2
        assert one.certified_pair()["kind"] == "mixture"
    assert np.isinf(pair.renyi(np.array(2.0)))
    assert pair.reverse().renyi(np.array(2.0)) == pytest.approx(0.25 - np.log(0.99))


def test_long_sums_of_discrete_gaussians_are_products():
    assert discrete_gaussian_sum(300.0, 40).members[0][1] == 40


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ps.OptimalKeysAccountant(key_epsilon=1, key_delta=1), "key_delta must be below 1"),
        (
            lambda: ps.OptimalKeysAccountant(key_epsilon=1, key_delta=0.1, keys_per_unit=10**5),
            "keys_per_unit must be at most",
        ),
        (
            lambda: ps.OptimalKeysAccountant(key_epsilon=1, key_delta=0.1, relation=ps.ReplaceOne(n=3)),
            "relation must be AddRemove",
        ),
        (
            lambda: ps.ThresholdKeysAccountant(noise=ps.GaussianNoise(noise_std=1), threshold=0.5),
            "threshold must be at least 1",
        ),
        (lambda: keep_probabilities(601.0, 0.1), "key_epsilon must be at most"),
        (lambda: ps.OptimalKeysAccountant(key_epsilon=601.0, key_delta=0.1), "key_epsilon must be at most"),
    ],
)
def test_errors(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_what_an_account_names():
    optimal = ps.OptimalKeysAccountant(key_epsilon=1, key_delta=1e-5)
    threshold = ps.ThresholdKeysAccountant(noise=ps.GaussianNoise(noise_std=6.0), threshold=30.0)
    assert "Desfontaines" in optimal.source
    assert "Wilkins" in threshold.source
    assert optimal.with_relation(ps.ReplaceOne(n=5)).relation == ps.ReplaceOne(n=5)
    with pytest.raises(TypeError, match="noise must be a noise distribution"):
        ps.ThresholdKeysAccountant(noise=1.0, threshold=3.0)


@pytest.mark.parametrize("scale", [0.1, 7.0, 11.0, 14.0])
def test_the_distance_that_counts_move_is_rounded_up(scale):
    """Laplace noise: k counts that move by one are dominated by one that moves by k, in rational arithmetic."""
    for times in range(3, 9):
        assert Fraction(moved_counts(LaplaceNoise(scale=scale), times).shift) >= times / Fraction(scale)


@pytest.mark.parametrize(
    ("rule", "keys"),
    [
        ("gaussian", 49),
        pytest.param("gaussian", 300, marks=pytest.mark.long),
        ("laplace", 60),
        ("laplace", 300),
        ("discrete laplace", 49),
    ],
)
def test_many_keys_of_a_unit_are_no_error(rule, keys):
    """A search for a threshold starts where one of so many keys appears with a probability that rounds to one."""
    account = ps.private_keys(ps.DP(1, 1e-6), rule=rule, keys_per_unit=keys).accountant
    assert 0.999 < account.epsilon(1e-6) <= 1.0
    certain = ps.ThresholdKeysAccountant(noise=account.noise, threshold=1.0, keys_per_unit=keys + 20)
    assert certain.delta(50.0) == certain.infinity_mass == pytest.approx(1.0)
    assert certain.delta(1.0) >= 1 - 2.0 ** -(keys + 20)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-4, 1e-10), (3e-4, 1e-10), (1e-3, 1e-12)])
def test_small_losses_need_many_units_and_are_charged_what_they_cost(epsilon, delta):
    """The table of probabilities goes on to 1, and the curve is that of the dominating pairs of its neighbours."""
    table = keep_probabilities(epsilon, delta)
    assert len(table) > 20_000
    assert table[-1] > 1 - 2 * delta
    account = ps.OptimalKeysAccountant(key_epsilon=epsilon, key_delta=delta)
    for share in (0.5, 0.9, 1.0):
        a, b = table[:-1], table[1:]
        grown = np.exp(share * epsilon)
        truth = max(np.max(b - grown * a), np.max((1 - a) - grown * (1 - b)))
        assert truth * (1 - 1e-9) <= account.delta(share * epsilon) <= truth * (1 + 1e-4) + 1e-15


def test_a_table_that_ends_early_is_charged_for_its_own_probabilities(monkeypatch):
    """More units have a constant probability, which loses nothing."""
    monkeypatch.setattr(module, "MOST_UNITS", 1_000)
    monkeypatch.setattr(module, "_table", module._table.__wrapped__)
    epsilon, delta = 1e-4, 1e-10
    table = keep_probabilities(epsilon, delta)
    assert len(table) == 1_001
    account = ps.OptimalKeysAccountant(key_epsilon=epsilon, key_delta=delta)
    for at in (0.0, epsilon / 3, epsilon, 1.0):
        steps = np.max(table[1:] - np.exp(at) * table[:-1])
        left_out = np.max((1 - table[:-1]) - np.exp(at) * (1 - table[1:]))
        truth = max(steps, left_out, delta)
        assert truth * (1 - 1e-9) <= account.delta(at) <= truth * (1 + 1e-4) + 1e-15
