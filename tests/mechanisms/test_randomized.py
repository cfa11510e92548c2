"""Randomized response: the frequencies of the answers, and its estimates."""

import numpy as np
import pytest
from scipy import stats

from privsample import AddRemove, RandomizedResponse, ReplaceOne

N = 100_000


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.9, False), (1.1, False)])
@pytest.mark.parametrize("categories", [2, 4])
def test_answers_are_the_truth_as_often_as_the_odds_say(categories, factor, accepted, rng, alpha):
    odds = 1.2
    made = RandomizedResponse(log_odds=odds * factor, relation=ReplaceOne(n=N), categories=categories)
    answers = made.release(np.ones(N), rng=rng)["answers"][0]
    true = np.exp(odds) / (np.exp(odds) + categories - 1)
    expected = np.full(categories, (1 - true) / (categories - 1))
    expected[1] = true
    seen = np.bincount(answers, minlength=categories)
    assert (stats.chisquare(seen, N * expected).pvalue > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("shift", "accepted"), [(0.0, True), (0.05, False)])
@pytest.mark.parametrize("relation", [ReplaceOne(n=N), AddRemove()])
def test_frequencies_are_unbiased(relation, shift, accepted, rng, alpha):
    shares = np.array([0.5, 0.3, 0.2])
    slots = None if isinstance(relation, ReplaceOne) else N
    made = RandomizedResponse(log_odds=1.5, relation=relation, categories=3, slots=slots)
    data = np.repeat([0, 1, 2], (shares * N).astype(int))
    found = made.frequencies(made.release(data, rng=rng)) + np.array([shift, -shift, 0])
    assert found.sum() == pytest.approx(1)
    spread = np.sqrt(0.25 / N) / made._truth_probability
    level = stats.norm.isf(alpha / 6)  # three shares, two sides
    assert bool((np.abs(found - shares) < level * spread).all()) == accepted


def test_free_slots_answer_evenly_and_order_is_lost(rng):
    made = RandomizedResponse(log_odds=30.0, relation=AddRemove(), categories=4, slots=4000)
    answers = made.release(np.full(1000, 3), rng=rng)["answers"]
    assert answers.shape == (1, 4000)
    assert np.bincount(answers[0])[3] == pytest.approx(1750, abs=150)
    first = np.mean(answers[0, :1000] == 3)
    assert first == pytest.approx(1750 / 4000, abs=0.1)
    assert made.release(np.empty(0), rng=rng)["answers"].shape == (1, 4000)
    assert made.release(np.full(9000, 3), rng=rng)["answers"].shape == (1, 4000)
    assert "4000" not in str(made.accountant)
