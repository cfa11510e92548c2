"""Exact Gibbs updates: each has the distribution of its conditional, and a chain is that of the floating-point one."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from privsample.distributions.exact.words import WordStream
from privsample.distributions.models.exact_chain import ExactUpdates, _Scores
from privsample.distributions.models.hmm import CategoricalHMM, count_moves

MODEL = CategoricalHMM(states=2, categories=(2, 3), emission_prior=0.7, transition_prior=1.3)
UPDATES = ExactUpdates(model=MODEL, temperature=3.0, truncation=0.2, pitch=2.0**-30)
COUNTS = np.array([[3, 1, 0, 2, 2], [0, 4, 1, 3, 0], [2, 2, 4, 0, 0]])
SHARES = np.array([[0.25, 0.75, 0.5, 0.375, 0.125], [0.5, 0.5, 0.25, 0.25, 0.5]])


def updated_states(updates, size, rng):
    """The state of the middle step after one update, from the states (0, 1, 1), many times."""
    words, found = WordStream(rng), np.empty(size, dtype=int)
    for k in range(size):
        z = np.array([0, 1, 1])
        moves = count_moves(updates.model, z)
        updates._sweep(z, moves, _Scores(COUNTS, SHARES), words, [1])
        assert (moves == count_moves(updates.model, z)).all()
        found[k] = z[1]
    return found


def conditional(temperature):
    """The probability of each state of the middle step by the joint distribution of all three, tempered."""
    joint = []
    for state in (0, 1):
        z, score = np.array([0, state, 1]), COUNTS[1] @ np.log(SHARES[state])
        moves, prior = count_moves(MODEL, z), MODEL.transition_prior
        # Polya urns: each row of transitions with its probabilities integrated out
        for row in moves.astype(int):
            chances = [np.log(prior + np.arange(count)).sum() for count in row]
            score += sum(chances) - np.log(2 * prior + np.arange(row.sum())).sum()
        joint.append(score / temperature)
    odds = np.exp(np.array(joint) - max(joint))
    return odds / odds.sum()


@pytest.mark.statistical
@pytest.mark.parametrize(("temperature", "accepted"), [(3.0, True), (1.5, False)])
def test_a_state_has_its_tempered_conditional_distribution(temperature, accepted, rng, alpha):
    """At the stated temperature it agrees with the joint distribution; a colder update is found to differ."""
    found = updated_states(replace(UPDATES, temperature=temperature), 3_000, rng)
    counts = np.bincount(found, minlength=2)
    assert (stats.binomtest(int(counts[0]), 3_000, conditional(3.0)[0]).pvalue > alpha / 2) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("prior", "draws", "accepted"),
    [
        (0.7, 400, True),
        (30.0, 400, False),
        pytest.param(0.7, 1_500, True, marks=pytest.mark.long),
        pytest.param(9.0, 1_500, False, marks=pytest.mark.long),
    ],
)
def test_emissions_have_the_tempered_truncated_distribution(prior, draws, accepted, rng, alpha):
    """Under a prior of 30 the distribution function is wrong by 0.28: by 5.6 over the root of 400, give or take 0.5.

    The limit is 3.3.
    """
    z, words = np.array([0, 1, 0]), WordStream(rng)
    updates = replace(UPDATES, model=replace(MODEL, emission_prior=prior))
    drawn = np.array([updates.draw_emissions(COUNTS, z, words) for _ in range(draws)])
    a, b = (1 + (0.7 + count - 1) / 3.0 for count in (5, 3))
    low, high = stats.beta(a, b).cdf([0.1, 0.9])
    uniform = (stats.beta(a, b).cdf(drawn[:, 0, 0]) - low) / (high - low)
    assert (stats.kstest(uniform, "uniform").pvalue > alpha / 2) == accepted


def test_emissions_lie_inside_their_bounds_on_the_grid(rng):
    drawn = np.array([UPDATES.draw_emissions(COUNTS, np.array([0, 0, 0]), WordStream(rng)) for _ in range(50)])
    least = np.repeat([0.2 / 2, 0.2 / 3], [2, 3])
    assert (drawn > least).all()
    assert (drawn[..., 2:] < 1 - 2 * 0.2 / 3).all()
    inside = (drawn > least + 2.0**-29) & (drawn < 1 - np.repeat([0.1, 0.4 / 3], [2, 3]) - 2.0**-29)
    assert (drawn[inside] * 2.0**30 % 1 == 0).all()
    assert np.abs(drawn[..., :2].sum(axis=-1) - 1).max() <= 2.0**-29


def test_large_counts_are_decided(rng):
    """Scores of a million records differ by far more than doubles hold, and no weight overflows."""
    counts = COUNTS * 10**6
    z, words = np.array([0, 1, 1]), WordStream(rng)
    UPDATES._sweep(z, count_moves(MODEL, z), _Scores(counts, SHARES), words, [0, 1, 2])
    best = (counts @ np.log(SHARES).T).argmax(axis=1)
    assert (z == best).all()


@pytest.mark.statistical
def test_a_chain_is_that_of_the_floats(rng, alpha):
    exact = UPDATES.sample(COUNTS.astype(float), 300, 300, rng, None)
    floats = MODEL.sample(COUNTS.astype(float), 300, 300, rng, temperature=3.0, truncation=0.2)
    assert exact.states.shape == floats.states.shape
    assert exact.emissions.shape == floats.emissions.shape
    assert exact.transitions.shape == floats.transitions.shape
    # Labels may switch, so features that do not depend on them; every fifth sweep is nearly independent at T = 3.
    own, other = (chain.emissions.max(axis=1)[::5, 0] for chain in (exact, floats))
    assert stats.ks_2samp(own, other).pvalue > alpha


def test_only_named_steps_are_updated(rng):
    updated = np.zeros((30, 3), dtype=bool)
    updated[:, 2] = True
    chain = UPDATES.sample(COUNTS.astype(float), 30, 30, rng, updated)
    assert (chain.states[:, :2] == chain.states[0, :2]).all()
    assert len(set(chain.states[:, 2].tolist())) == 2
