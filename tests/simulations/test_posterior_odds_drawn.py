"""Bounds on an adversary's odds, against the odds after releases that were drawn."""

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.simulations.audit.catalogue import catalogue
from privsample.simulations.audit.draws import draw_both_outputs
from tests.simulations.floats import in_floats

TAIL, DRAWS = 0.05, 20_000
KNOWN = (
    "gaussian",
    "laplace",
    "beta-posterior",
    "normal-posterior",
    "beta-query",
    "randomized-response",
    "clipped-sum",
)


def exceeded(case, bound, rng):
    """How often the odds of the dataset that was released exceed the bound, for either dataset."""
    first, second = draw_both_outputs(case, DRAWS, rng)
    growth = np.log(bound)
    return [int((losses > growth).sum()) for losses in (case.loss(first), -case.loss(second))]


@pytest.mark.statistical
@pytest.mark.parametrize("name", KNOWN)
def test_the_odds_after_a_release_exceed_the_bound_no_more_often_than_stated(name, rng, alpha):
    mechanism = in_floats(catalogue()[name].mechanism)
    bound = float(mechanism.accountant.posterior_odds(tail_probability=TAIL))
    certain = float(mechanism.accountant.posterior_odds())
    most = stats.binom.isf(alpha / 20, DRAWS, TAIL)
    for case in mechanism.worst_neighbours():
        assert max(exceeded(case, bound, rng)) <= most
        if np.isfinite(certain):
            assert exceeded(case, certain * (1 + 1e-9), rng) == [0, 0]


@pytest.mark.statistical
def test_a_mechanism_with_too_little_noise_exceeds_the_bound(rng, alpha):
    claimed = ps.GaussianMechanism(sensitivity=1, noise_std=2)
    broken = ps.GaussianMechanism(sensitivity=1, noise_std=1.2)
    bound = float(claimed.accountant.posterior_odds(tail_probability=TAIL))
    most = stats.binom.isf(alpha, DRAWS, TAIL)
    assert max(exceeded(broken.worst_neighbours()[0], bound, rng)) > most


@pytest.mark.statistical
def test_epsilon_taken_for_the_odds_at_delta_is_refuted(rng, alpha):
    """That the odds exceed e^epsilon with probability at most delta is false."""
    mechanism = ps.GaussianMechanism(sensitivity=1, noise_std=2)
    wrong = np.exp(float(mechanism.accountant.epsilon(TAIL)))
    assert max(exceeded(mechanism.worst_neighbours()[0], wrong, rng)) > stats.binom.isf(alpha, DRAWS, TAIL)
