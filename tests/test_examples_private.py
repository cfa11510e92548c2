"""The examples of private counts run at a small size."""

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from examples import private_ab_test as ab
from examples import private_survey_histogram as survey
from examples import three_posteriors


def test_the_ab_test_draws_its_picture_and_says_what_it_found(tmp_path):
    path = tmp_path / "ab.png"
    words = ab.main(str(path), experiments=4, draws=2000)
    assert words.startswith("Published conversions of 500 users each, with noise of standard deviation 7.1: A 40, B 70")
    assert "of 4 simulated tests" in words
    assert "(epsilon = 0.2)" in words
    assert "fixed by public positions" in words
    assert path.stat().st_size > 10_000


@pytest.mark.statistical
def test_only_the_noise_aware_lift_has_uniform_ranks(rng, alpha):
    """Distances from the middle: ranks of a posterior that is too narrow crowd at the ends."""
    ranks = ab.ranks(800, rng)
    chances = {name: stats.kstest(2 * np.abs(ranks[name] - 0.5), "uniform").pvalue for name in ranks}
    assert chances["noise-aware"] > alpha
    assert chances["plug-in"] <= alpha


def test_arms_side_by_side_cost_what_one_costs():
    rng = np.random.default_rng(1)
    arm = ab.mechanism()
    together = ab.account({name: ab.released(rate, arm, rng) for name, rate in ab.RATES.items()})
    assert together.epsilon(0.0) == pytest.approx(0.2)
    assert together.relation == ps.ReplaceOne(n=1000, unit="user")
    assert ps.Assumption.FIXED_PARTS in together.assumptions


def test_the_survey_draws_its_picture_and_says_what_it_found(tmp_path):
    path = tmp_path / "survey.png"
    words = survey.main(str(path), runs=3, epsilons=(0.5, 1.0))
    assert words.startswith("Noisy counts: never 772, rarely 559, monthly 354, weekly 216, daily 102; shares 0.385")
    assert "In 3 surveys at ε = 1" in words
    assert words.count("epsilon = 1)") == 2
    assert path.stat().st_size > 10_000


def test_noisy_counts_are_nearer_than_diffused_draws():
    found = survey.errors(20, (0.2, 1.0), np.random.default_rng(2))
    assert (found["noisy counts"] < found["diffused posterior"]).all()
    assert (found["noisy counts"] < 2 * found["no privacy"]).all()
    assert found["no privacy"][0] == found["no privacy"][1]


def test_both_ways_cost_what_they_promise():
    assert survey.noisy_counts(1.0).accountant.epsilon(0.0) == pytest.approx(1.0)
    assert survey.diffused(1.0).accountant.epsilon(survey.DELTA) == pytest.approx(1.0)


def test_three_posteriors_at_one_cost_are_in_one_picture():
    found = three_posteriors.posteriors(np.random.default_rng(3))
    true, aware, diffused = found.values()
    assert true == ps.Beta(a=6 + 212, b=12 + 357)
    assert true.variance < aware.variance < diffused.variance
    labels = [text.get_text() for text in three_posteriors.plot().figure.legends[0].get_texts()]
    assert labels == list(found)
