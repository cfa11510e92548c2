"""Credible intervals of private regressions: their coverage of what the private posterior is about."""

import numpy as np
import pytest
from scipy import special, stats

import privsample as ps
from privsample.estimators.draws import credible_interval

COPIES, DISTINCT, FEATURES = 5, 40, 3
LEVEL, DELTA = 0.9, 1e-5


def prior_draw(rng, std):
    return rng.normal(0, std, FEATURES + 1)


def rows_of(rng):
    return rng.uniform(-0.57, 0.57, (DISTINCT, FEATURES))  # never longer than the norm


def logistic_data(rng):
    """Coefficients from the prior, and 40 records from the model, each of them 5 times."""
    truth, rows = prior_draw(rng, 1.0), rows_of(rng)
    labels = (rng.random(DISTINCT) < special.expit(rows @ truth[:-1] + truth[-1])).astype(int)
    return truth, np.repeat(rows, COPIES, axis=0), np.repeat(labels, COPIES)


def at_weight(made, weight):
    """The estimator with the epsilon at which its data weight is the given one."""
    low, high = 1e-3, 1e3
    for _ in range(26):  # the weight is then right to a relative error of 1e-6
        middle = np.sqrt(low * high)
        found = made.set_params(epsilon=float(middle)).mechanism_for(COPIES * DISTINCT, FEATURES).data_weight
        low, high = (middle, high) if found < weight else (low, middle)
    return made.set_params(epsilon=float(high))


def coverage(made, data, rng, simulations):
    """Whether each interval contains the coefficient that generated the data, shape (simulations, coefficients)."""
    inside = []
    for _ in range(simulations):
        truth, rows, targets = data(rng)
        found = made.fit(rows, targets, rng=rng).intervals(LEVEL)
        low, high = (np.append(found["coefficients"][end], found["intercept"][end]) for end in (0, 1))
        inside.append((low <= truth) & (truth <= high))
    return np.array(inside)


def binomial_p_value(inside):
    """Of one coefficient in each simulation, because the coefficients of a data set are dependent."""
    hits = int(inside[np.arange(len(inside)), np.arange(len(inside)) % inside.shape[1]].sum())
    return float(stats.binomtest(hits, len(inside), LEVEL).pvalue)


@pytest.fixture(scope="module")
def logistic():
    made = ps.PrivateLogisticRegression(delta=DELTA, norm=1.0, prior_std=1.0, sampler="langevin")
    return at_weight(made, 1 / COPIES)


@pytest.mark.statistical
@pytest.mark.parametrize("simulations", [100, pytest.param(200, marks=pytest.mark.long)])
def test_intervals_cover_the_coefficients_that_records_of_the_data_weight_are_about(logistic, simulations, rng, alpha):
    """If each record counts 1/5 and stands in the data 5 times, the private posterior is the posterior of all.

    The test below finds the broken copy in 60 simulations.
    """
    assert logistic.mechanism_for(COPIES * DISTINCT, FEATURES).data_weight == pytest.approx(1 / COPIES, rel=1e-6)
    assert binomial_p_value(coverage(logistic, logistic_data, rng, simulations)) > alpha


@pytest.mark.statistical
def test_intervals_of_a_concentrated_posterior_do_not(logistic, rng, alpha):
    narrow = ps.PrivateLogisticRegression(**logistic.get_params()).set_params(method="concentrated")
    assert binomial_p_value(coverage(narrow, logistic_data, rng, 60)) < alpha


@pytest.mark.statistical
@pytest.mark.parametrize("draws", [2, 5, 19, 39, 60])
def test_intervals_of_normal_draws(draws, rng, alpha):
    """A further draw is in the interval with the stated probability, by Student's interval or by ranks."""
    sample = rng.normal(3.0, 7.0, (draws, 4000))
    low, high = credible_interval(sample, LEVEL)
    hits = int(((low <= (further := rng.normal(3.0, 7.0, 4000))) & (further <= high)).sum())
    assert stats.binomtest(hits, 4000, LEVEL).pvalue > alpha
    narrow = np.quantile(sample, [0.05, 0.95], axis=0)
    if draws <= 5:  # plain quantiles of so few draws are too close together
        hits = int(((narrow[0] <= further) & (further <= narrow[1])).sum())
        assert stats.binomtest(hits, 4000, LEVEL).pvalue < alpha


@pytest.mark.statistical
def test_intervals_by_ranks_hold_for_every_distribution(rng, alpha):
    sample = rng.standard_cauchy((19, 4000))
    low, high = credible_interval(sample, LEVEL)
    assert np.array_equal(low, sample.min(axis=0))
    assert np.array_equal(high, sample.max(axis=0))
    hits = int(((low <= (further := rng.standard_cauchy(4000))) & (further <= high)).sum())
    assert stats.binomtest(hits, 4000, LEVEL).pvalue > alpha


def test_a_single_draw_has_no_interval(rng):
    made = ps.PrivateLogisticRegression(bounds=(-1, 1), draws=1).fit(np.zeros((40, 1)), [0, 1] * 20, rng=rng)
    with pytest.raises(ValueError, match="at least 2 draws, got 1: fit with draws=5"):
        made.intervals()
    for level in (0.0, 1.5, np.nan):
        with pytest.raises(ValueError, match="level"):
            made.intervals(level)
