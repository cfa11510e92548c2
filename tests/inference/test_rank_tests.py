"""The rank argument by enumeration: all observed and simulated statistics of a tiny model, and all orders of ties."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from privsample.inference.rank_tests import equal_tails, inverse_root, mahalanobis, rejected_ranks, simulations_needed

# Simulated statistics of the enumeration. Three instead of two have 20 times as many orders of values and ties.
each_count = pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.long)])


def masses_of_noisy_counts(n=2, share=Fraction(1, 3), noise=(Fraction(1, 4), Fraction(1, 2), Fraction(1, 4))):
    """Probabilities of a binomial count plus noise in {-1, 0, 1}, by enumeration of records and noise."""
    found = Counter()
    for records in itertools.product((0, 1), repeat=n):
        chance = np.prod([share if one else 1 - share for one in records])
        for step, mass in zip((-1, 0, 1), noise, strict=True):
            found[(sum(records) + step,)] += chance * mass
    return found


def masses_of_noisy_pairs():
    """Probabilities of a pair of counts of two records, one of them with noise in {0, 1}: a skew, singular pair."""
    found = Counter()
    for first, second in itertools.product((0, 1), repeat=2):
        for step in (0, 1):
            found[(first + second, first + second + 2 * first * step)] += Fraction(1, 8)
    return found


def distribution_of_counts(test, masses, rejected, count, biased_ties=False):
    """The exact distribution of `rank` over the observed statistic, `count` simulated ones, and the order of ties."""
    found = Counter()
    orders = list(itertools.permutations(range(count + 1)))
    if biased_ties:
        orders = [order for order in orders if order[-1] == 0]
    for values in itertools.product(masses, repeat=count + 1):
        chance = np.prod([masses[value] for value in values])
        statistics = np.array(values, dtype=float)
        for order in orders:
            ties = (np.array(order) + 0.5) / (count + 1)
            found[test(statistics[:-1], statistics[-1], ties, rejected).rank] += chance / len(orders)
    return found


@each_count
def test_the_rank_of_a_distance_is_uniform(count):
    for masses in (masses_of_noisy_counts(), masses_of_noisy_pairs()):
        found = distribution_of_counts(mahalanobis, masses, 1, count)
        assert found == {k: Fraction(1, count + 1) for k in range(1, count + 2)}


def test_equal_tails_have_their_level():
    """Each end is rejected with probability k / (R + 1), so twice the smaller rank is 2 or 4 half of the time each."""
    found = distribution_of_counts(equal_tails, masses_of_noisy_counts(), 2, 3)
    assert found == {2: Fraction(1, 2), 4: Fraction(1, 2)}


@each_count
def test_ties_that_favour_the_observed_statistic_are_seen(count):
    """A broken copy: the observed statistic loses all ties, and high ranks are too frequent."""
    found = distribution_of_counts(mahalanobis, masses_of_noisy_counts(), 1, count, biased_ties=True)
    assert found[count + 1] > Fraction(1, count + 1)
    assert found[1] < Fraction(1, count + 1)


@each_count
def test_a_distance_that_leaves_the_observed_statistic_out_is_seen(count):
    """A broken copy: mean and covariance of the simulated statistics alone are not symmetric in all of them."""

    def alone(simulated, observed, ties, rejected):
        centre, root = simulated.mean(axis=0), inverse_root(np.atleast_2d(np.cov(simulated.T, ddof=0)))
        lengths = (((np.vstack([simulated, observed]) - centre) @ root) ** 2).sum(axis=1).round(9)
        beyond = (lengths > lengths[-1]) | ((lengths == lengths[-1]) & (ties >= ties[-1]))
        return mahalanobis(simulated, observed, ties, rejected)._replace(rank=int(beyond.sum()))

    found = distribution_of_counts(alone, masses_of_noisy_counts(), 1, count)
    assert abs(found[1] - Fraction(1, count + 1)) > Fraction(1, 50)


@pytest.mark.parametrize("shift", [0.0, 1e-9, 1.0])
def test_singular_statistics(shift):
    """A coordinate that is constant, or a copy of another one, but not for the observed statistic."""
    rng = np.random.default_rng(0)
    one = rng.standard_normal((99, 1))
    simulated = np.column_stack([one, one, np.full(99, 5.0)])
    ties = rng.random(100)
    found = mahalanobis(simulated, np.array([0.1, 0.1, 5.0 + shift]), ties, 4)
    assert np.isfinite(found.margin)
    assert (found.rank == 1) == (shift > 0)
    same = mahalanobis(np.full((99, 2), 3.0), np.full(2, 3.0), ties, 4)
    assert same.rank == int((ties >= ties[-1]).sum())


def test_units_do_not_matter():
    rng = np.random.default_rng(1)
    simulated, observed, ties = rng.standard_normal((99, 3)), rng.standard_normal(3), rng.random(100)
    units = np.array([1e-8, 1.0, 1e9])
    first, second = mahalanobis(simulated, observed, ties, 4), mahalanobis(simulated * units, observed * units, ties, 4)
    assert first.rank == second.rank
    assert first.margin == pytest.approx(second.margin)


def test_the_margin_is_one_at_the_boundary():
    rng = np.random.default_rng(2)
    simulated, ties = rng.standard_normal((199, 1)), rng.random(200)
    for test, rejected in ((equal_tails, 10), (mahalanobis, 10)):
        for value in np.linspace(-4, 4, 801):
            found = test(simulated, np.array([value]), ties, rejected)
            assert (found.margin <= 1 + 1e-9) == (found.rank > rejected)
            assert 1 <= found.rank <= 200


@pytest.mark.parametrize(("level", "least"), [(0.95, 39), (0.9, 19), (0.99, 199), (0.5, 3), (0.999, 1999)])
def test_ranks_are_counted_in_decimals(level, least):
    """1 - 0.9 is below 0.1 in floating point; the number of rejected ranks is that of the decimal number."""
    assert simulations_needed(level) == least
    assert rejected_ranks(level, least) == 2
    assert rejected_ranks(level, least - 1) < 2
    assert rejected_ranks(0.9, 999) == 100
