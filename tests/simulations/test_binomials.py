"""Limits and tests for two binomials, against brute force."""

import itertools

import numpy as np
import pytest
from scipy import stats

from privsample.simulations.audit.binomials import (
    _Binomial,
    clopper_pearson,
    draws_needed,
    empirical_epsilon,
    excess_limits,
    excess_lower,
    excess_p_value,
    excess_refuted,
)


def test_limits_are_those_of_clopper_and_pearson():
    low, high = clopper_pearson(37, 100, 1e-3)
    assert stats.binom.sf(36, 100, low) == pytest.approx(1e-3)
    assert stats.binom.cdf(37, 100, high) == pytest.approx(1e-3)
    assert clopper_pearson(0, 100, 1e-3)[0] == 0.0
    assert clopper_pearson(100, 100, 1e-3)[1] == 1.0


@pytest.mark.parametrize(("factor", "excess"), [(1.0, 0.2), (2.5, 0.0), (0.7, 0.35)])
@pytest.mark.parametrize("hits", [(11, 2), (12, 0), (9, 3)])
def test_p_values_bound_every_distribution_that_the_claim_allows_and_are_nearly_reached(factor, excess, hits):
    n, m = 12, 15
    found = excess_p_value(hits, (n, m), factor, excess)
    seen = hits[0] / n - factor * hits[1] / m
    every = np.array(list(itertools.product(range(n + 1), range(m + 1))))
    xs, ys = every[every[:, 0] / n - factor * every[:, 1] / m >= seen - 1e-9].T
    worst = 0.0
    for p in np.linspace(0, 1, 801):
        q = (p - excess) / factor
        if q <= 1:
            worst = max(worst, float((stats.binom.pmf(xs, n, p) * stats.binom.pmf(ys, m, max(q, 0.0))).sum()))
    assert worst <= found + 1e-12 or seen <= excess
    assert found <= max(1.15 * worst, 1e-12) or seen <= excess
    assert found == 1.0 or seen > excess


@pytest.mark.parametrize(("factor", "excess"), [(1.0, 0.2), (2.5, 0.0), (0.7, 0.35)])
def test_what_is_refuted_has_a_p_value_of_at_most_the_level(factor, excess):
    for hits, level in itertools.product(itertools.product(range(1, 41, 3), range(0, 30, 7)), (0.3, 0.01, 1e-5)):
        p_value = excess_p_value(hits, (40, 30), factor, excess)
        assert excess_refuted(hits, (40, 30), factor, excess, level) == (p_value <= level)


def test_tails_of_many_draws_are_those_of_the_beta_function():
    ks = np.arange(310.0, 420.0, 3.0)
    found = _Binomial(1_200).at_most(ks, 0.3)
    true = stats.binom.cdf(ks, 1_200, 0.3)
    assert np.all(found >= true)
    assert found == pytest.approx(true, rel=1e-10)
    assert _Binomial(9).at_most(np.array([-3.0, -1.0, 5.0, 12.0]), 0.5).tolist() == pytest.approx([0, 0, 0.74609375, 1])


def test_p_values_are_as_often_small_as_they_say(rng):
    p, n = 0.7, 400
    hits = [(rng.binomial(n, p), rng.binomial(n, 1 - p)) for _ in range(100)]
    found = np.array([excess_p_value(pair, (n, n), 1.0, 0.4) for pair in hits])
    for level in (0.05, 0.2, 0.5):
        assert stats.binom.sf((found <= level).sum() - 1, 100, level) > 1e-6
        assert (found <= level).mean() > level / 3


@pytest.mark.parametrize("draws", [(5, 9), (9, 5), (10, 10)])
@pytest.mark.parametrize(("factor", "excess"), [(1.0, 0.0), (1.0, 0.6), (2.5, 0.1), (200.0, 1e-3)])
def test_no_distribution_that_the_claim_allows_is_refuted_more_often_than_the_level_says(draws, factor, excess):
    """By summing over all outcomes of both binomials; some levels are nearly reached."""
    (n, m), grid = draws, np.append(np.linspace(0, 1, 101), excess)
    every = list(itertools.product(range(n + 1), range(m + 1)))
    found = np.array([excess_p_value(hits, draws, factor, excess) for hits in every])
    for p in grid:
        q = max(p - excess, 0) / factor
        distribution = np.outer(stats.binom.pmf(range(n + 1), n, p), stats.binom.pmf(range(m + 1), m, q)).ravel()
        assert all(distribution[found <= level].sum() <= level for level in (0.01, 0.05, 0.2, 0.5))


def test_limits_of_an_event_are_as_often_wrong_as_they_say():
    draws, factor, level = (8, 8), 1.0, 0.2
    every = list(itertools.product(range(9), range(9)))
    lower = np.array([excess_lower(hits, draws, factor, level) for hits in every])
    both = np.array([excess_limits(hits, draws, factor, level) for hits in every])
    for p, q in itertools.product(np.linspace(0, 1, 21), np.linspace(0, 1, 21)):
        weights = np.outer(stats.binom.pmf(range(9), 8, p), stats.binom.pmf(range(9), 8, q)).ravel()
        true = min(max(p - factor * q, 0.0), 1.0)
        for wrong in (lower > true, both[:, 0] > true, both[:, 1] < true):
            assert weights[wrong].sum() <= level


def test_lower_limits_are_where_the_p_value_crosses_the_level():
    hits, draws = (700, 300), (1000, 1000)
    low = excess_lower(hits, draws, 1.0, 1e-3)
    assert excess_limits(hits, draws, 1.0, 1e-3)[0] <= low < 0.4
    assert excess_p_value(hits, draws, 1.0, low) <= 1e-3 < excess_p_value(hits, draws, 1.0, low + 0.005)
    assert excess_lower((5, 5), (10, 10), 1.0, 1e-3) == 0.0


@pytest.mark.parametrize(("hits", "level"), [((5, 0), 0.2), ((9, 0), 0.05)])
def test_no_lower_limit_is_given_that_the_test_does_not_refute(hits, level):
    """Clopper and Pearson's limits of both probabilities exceed it here: two limits to choose from would be wrong."""
    draws = (60, 60)
    guess = excess_limits(hits, draws, 1.0, level)[0]
    assert excess_p_value(hits, draws, 1.0, guess) > level
    low = excess_lower(hits, draws, 1.0, level)
    assert low == 0.0 or excess_p_value(hits, draws, 1.0, low) <= level
    assert low < guess


def test_draws_needed_are_those_of_perfect_separation():
    for factor, excess in ((1.0, 0.4), (2.7, 0.01), (20.0, 0.5)):
        n = int(draws_needed(factor, excess, 1e-4))
        assert excess_p_value((n, 0), (n, n), factor, excess) <= 1.2e-4
        assert excess_p_value((n // 2, 0), (n // 2, n // 2), factor, excess) > 1e-4
    assert draws_needed(1.0, 1.0, 1e-6) == np.inf
    assert draws_needed(0.1, 0.5, 1e-6) == 20  # only half of all draws can lie in the event


def _wrong(limit, p, q, n, m, deltas):
    """The exact chance that a lower limit of epsilon exceeds the truth at some delta."""
    with np.errstate(divide="ignore"):
        true = np.log(np.maximum((p - deltas) / q, 1.0))
    chances = np.outer(stats.binom.pmf(np.arange(n + 1), n, p), stats.binom.pmf(np.arange(m + 1), m, q))
    over = [[bool((limit((x, y)) > true + 1e-12).any()) for y in range(m + 1)] for x in range(n + 1)]
    return float(chances[np.array(over)].sum())


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.1), (0.9, 0.3), (0.3, 0.3), (0.05, 0.02)])
def test_empirical_epsilons_are_wrong_as_seldom_as_they_say(p, q):
    n, m, level, deltas = 30, 25, 0.02, np.array([0.3, 0.1, 0.01, 0.0])
    assert _wrong(lambda hits: empirical_epsilon(hits, (n, m), deltas, level), p, q, n, m, deltas) <= level

    def careless(hits):  # frequencies for probabilities
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(np.fmax((hits[0] / n - deltas) / (hits[1] / m), 1.0))

    assert _wrong(careless, p, q, n, m, deltas) > level


def test_empirical_epsilons_by_hand():
    (low, _), (_, high) = clopper_pearson(900, 1000, 5e-4), clopper_pearson(100, 1000, 5e-4)
    found = empirical_epsilon((900, 100), (1000, 1000), np.array([0.0, 0.2, 0.99]), 1e-3)
    assert found == pytest.approx([np.log(low / high), np.log((low - 0.2) / high), 0.0])
    assert empirical_epsilon((0, 0), (10, 10), np.array([0.0]), 1e-3) == 0.0
