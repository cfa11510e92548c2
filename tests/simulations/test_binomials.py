"""Limits and tests for two binomials, against brute force."""

import itertools

import numpy as np
import pytest
from scipy import stats

from privsample.simulations.binomials import (
    clopper_pearson,
    draws_needed,
    excess_limits,
    excess_lower,
    excess_p_value,
)


def test_limits_are_those_of_clopper_and_pearson():
    low, high = clopper_pearson(37, 100, 1e-3)
    assert stats.binom.sf(36, 100, low) == pytest.approx(1e-3)
    assert stats.binom.cdf(37, 100, high) == pytest.approx(1e-3)
    assert clopper_pearson(0, 100, 1e-3)[0] == 0.0
    assert clopper_pearson(100, 100, 1e-3)[1] == 1.0


@pytest.mark.parametrize(("factor", "excess"), [(1.0, 0.2), (2.5, 0.0), (0.7, 0.35)])
@pytest.mark.parametrize("hits", [(11, 2), (12, 0), (9, 3)])
def test_p_values_bound_every_law_that_the_claim_allows_and_are_nearly_reached(factor, excess, hits):
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


def test_p_values_are_as_often_small_as_they_say(rng):
    p, n = 0.7, 400
    hits = [(rng.binomial(n, p), rng.binomial(n, 1 - p)) for _ in range(100)]
    found = np.array([excess_p_value(pair, (n, n), 1.0, 0.4) for pair in hits])
    for level in (0.05, 0.2, 0.5):
        assert stats.binom.sf((found <= level).sum() - 1, 100, level) > 1e-6
        assert (found <= level).mean() > level / 3


def test_lower_limits_are_where_the_p_value_crosses_the_level():
    hits, draws = (700, 300), (1000, 1000)
    low = excess_lower(hits, draws, 1.0, 1e-3)
    assert excess_limits(hits, draws, 1.0, 1e-3)[0] <= low < 0.4
    assert excess_p_value(hits, draws, 1.0, low) <= 1e-3 < excess_p_value(hits, draws, 1.0, low + 0.005)
    assert excess_lower((5, 5), (10, 10), 1.0, 1e-3) == 0.0


def test_draws_needed_are_those_of_perfect_separation():
    for factor, excess in ((1.0, 0.4), (2.7, 0.01), (20.0, 0.5)):
        n = int(draws_needed(factor, excess, 1e-4))
        assert excess_p_value((n, 0), (n, n), factor, excess) <= 1.2e-4
        assert excess_p_value((n // 2, 0), (n // 2, n // 2), factor, excess) > 1e-4
    assert draws_needed(1.0, 1.0, 1e-6) == np.inf
