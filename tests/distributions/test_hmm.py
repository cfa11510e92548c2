"""The chain against enumeration of all hidden states; projection and predictive likelihood against brute force."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy import optimize, special, stats

from privsample.distributions.models.hmm import CategoricalHMM, Chain, project_onto_counts, random_scans

MODEL = CategoricalHMM(states=2, categories=(3, 2), emission_prior=0.7, transition_prior=0.6)
COUNTS = np.array([[2, 0, 1, 3, 0], [0, 1, 1, 0, 2], [1, 1, 0, 1, 1], [0, 2, 1, 1, 2]], dtype=float)


def enumerated(model, counts):
    """Probabilities of all state sequences, emissions and transitions integrated out."""
    sequences = list(itertools.product(range(model.states), repeat=len(counts)))
    logs = []
    for z in sequences:
        total = 0.0
        moves = np.zeros((model.states, model.states))
        for t, (before, after) in enumerate(itertools.pairwise(z), start=1):
            moves[before, after] += t % (len(counts) // model.chains) > 0
        blocks = [(row, model.transition_prior) for row in moves]
        for state in range(model.states):
            cells = counts[np.array(z) == state].sum(axis=0)
            blocks += [(cells[part], model.emission_prior) for part in model.features]
        for cells, prior in blocks:
            total += special.gammaln(cells + prior).sum() - special.gammaln((cells + prior).sum())
        logs.append(total)
    return sequences, special.softmax(logs)


def agreement(states, distribution):
    """P-value of sequences of two states against their distribution; sequences that are rarely expected are pooled."""
    seen = np.bincount(states @ (1 << np.arange(states.shape[1])[::-1]), minlength=len(distribution))
    expected = distribution * len(states)
    likely = expected > 8
    if not likely.all():
        seen, expected = (np.append(each[likely], each[~likely].sum()) for each in (seen, expected))
    return stats.chisquare(seen, expected).pvalue


# Wrong models. With 300 and 1,875 independent states they pass with probability 2e-17 and 2e-10, by the noncentral
# chi-square distribution.
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("changed", "sweeps", "accepted"),
    [
        ({}, 2_400, True),
        ({"emission_prior": 5.0}, 2_400, False),
        pytest.param({}, 15_000, True, marks=pytest.mark.long),
        pytest.param({"transition_prior": 8.0}, 15_000, False, marks=pytest.mark.long),
    ],
)
def test_states_follow_their_posterior(changed, sweeps, accepted, rng, alpha):
    chain = dataclasses.replace(MODEL, **changed).sample(COUNTS, sweeps, sweeps, rng)
    _, distribution = enumerated(MODEL, COUNTS)
    assert (agreement(chain.states[::8], distribution) > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize("sweeps", [4_000, pytest.param(24_000, marks=pytest.mark.long)])
def test_states_of_two_chains_follow_their_posterior(sweeps, rng, alpha):
    """Two chains of three steps with common probabilities; the broken copy counts a transition between the chains.

    The draws are compared with the distribution of the broken copy, too, which 160 independent ones would let pass with
    a probability of 3e-17.
    """
    counts = (
        np.array([[9, 1], [1, 8], [9, 0], [0, 9], [8, 1], [0, 9]]) / 9.0
    )  # little is known of a state: transitions matter
    fields = {"states": 2, "categories": (2,), "emission_prior": 0.7, "transition_prior": 0.05}
    chain = CategoricalHMM(**fields, chains=2).sample(counts, sweeps, sweeps, rng)
    for chains, accepted in ((2, True), (1, False)):
        _, distribution = enumerated(CategoricalHMM(**fields, chains=chains), counts)
        assert (agreement(chain.states[::24], distribution) > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize("sweeps", [6_000, pytest.param(24_000, marks=pytest.mark.long)])
def test_a_random_scan_has_the_same_posterior(sweeps, rng, alpha):
    """The draws are compared with the distribution of a wrong prior, too; with all of 20 seeds it was found.

    Up to the names of the states, which the priors do not distinguish and which rarely change under a random scan:
    states 24 sweeps apart have a correlation of 0.6 with their names, and of 0.01 without.
    """
    updated = random_scans(np.array([True, True, False, True]), 1, sweeps, rng)
    assert (updated.sum(axis=1) == 2).all()
    assert updated[:, 2].all()
    chain = MODEL.sample(COUNTS, sweeps, sweeps, rng, updated=updated)
    for changed, accepted in (({}, True), ({"emission_prior": 9.0}, False)):
        _, distribution = enumerated(dataclasses.replace(MODEL, **changed), COUNTS)
        assert (agreement(unnamed(chain.states[::24]), distribution[:8] + distribution[:7:-1]) > alpha) == accepted


def unnamed(states):
    """The sequences of two states with the first of each named 0."""
    return states ^ states[:, :1]


def test_emissions_and_transitions_are_distributions(rng):
    for truncation in (None, 0.3):
        chain = MODEL.sample(COUNTS, 5, 3, rng, temperature=2.0, truncation=truncation)
        assert chain.states.shape == (3, 4)
        assert chain.emissions.shape == (3, 2, 5)
        for part in MODEL.features:
            np.testing.assert_allclose(chain.emissions[..., part].sum(axis=-1), 1.0)
        np.testing.assert_allclose(chain.transitions.sum(axis=-1), 1.0)
    assert (chain.emissions[..., :3] >= 0.1 * (1 - 1e-12)).all()
    assert (chain.emissions[..., 3:] >= 0.15 * (1 - 1e-12)).all()


@pytest.mark.statistical
@pytest.mark.parametrize(("temperature", "accepted"), [(3.0, True), (1.0, False)])
def test_tempered_emissions(temperature, accepted, rng, alpha):
    """Counts (30, 6) of one feature in state 0 at T = 3: Beta(1 + 29.7/3, 1 + 5.7/3) above 0.05."""
    model = CategoricalHMM(states=1, categories=(2,), emission_prior=0.7)
    counts = np.array([[30.0, 6.0]])
    drawn = np.exp(
        [model.draw_emissions(counts, np.zeros(1, dtype=int), rng, temperature, 0.1)[0, 0] for _ in range(1200)]
    )
    distribution = stats.beta(1 + 29.7 / 3, 1 + 5.7 / 3)
    low, high = distribution.cdf(0.05), distribution.cdf(0.95)
    assert (stats.kstest(drawn, lambda x: (distribution.cdf(x) - low) / (high - low)).pvalue > alpha) == accepted


def test_small_priors_leave_empty_states_their_distributions(rng):
    """Of three states some are empty: each distribution of theirs is all but one category, and every category as
    likely.
    """
    model = CategoricalHMM(states=3, categories=(4,), emission_prior=1e-4, transition_prior=1e-200)
    counts = np.full((1, 4), 2.0)
    chain = model.sample(np.tile(counts, (5, 1)), 90, 90, rng)
    assert np.isfinite(chain.transitions).all()
    np.testing.assert_allclose(chain.transitions.sum(axis=-1), 1.0)
    draws = [np.exp(model.draw_emissions(counts, np.zeros(1, dtype=int), rng, 1.0, None)[1]) for _ in range(900)]
    assert np.max(draws, axis=1).min() > 0.5
    assert np.bincount(np.argmax(draws, axis=1), minlength=4).min() > 100


def test_one_state_and_one_step(rng):
    model = CategoricalHMM(states=1, categories=(2,))
    chain = model.sample(np.array([[4.0, 1.0]]), 3, 2, rng)
    assert (chain.states == 0).all()
    both = np.log(chain.emissions[:, 0]) @ [2.0, 3.0]
    expected = special.logsumexp(both) - np.log(2)
    assert model.log_predictive(chain, np.array([[2.0, 3.0]]))[0] == pytest.approx(expected)


def test_predictive_likelihood_by_hand(rng):
    chain = MODEL.sample(COUNTS, 4, 2, rng)
    found = MODEL.log_predictive(chain, COUNTS)
    for t in range(4):
        likelihoods = []
        for z, shares, moves in zip(chain.states, chain.emissions, chain.transitions, strict=True):
            weights = np.array(
                [(moves[z[t - 1], s] if t else 1) * (moves[s, z[t + 1]] if t < 3 else 1) for s in range(2)]
            )
            likelihoods.append(weights / weights.sum() @ np.prod(shares ** COUNTS[t], axis=1))
        assert found[t] == pytest.approx(np.log(np.mean(likelihoods)))
    assert isinstance(chain, Chain)


def test_predictive_likelihood_of_two_chains(rng):
    """As that of each chain by itself, with the same probabilities."""
    model = CategoricalHMM(states=2, categories=(3, 2), chains=2)
    chain = model.sample(COUNTS, 4, 2, rng)
    halves = [
        MODEL.log_predictive(
            Chain(states=chain.states[:, part], emissions=chain.emissions, transitions=chain.transitions), COUNTS[part]
        )
        for part in (slice(0, 2), slice(2, 4))
    ]
    np.testing.assert_allclose(model.log_predictive(chain, COUNTS), np.concatenate(halves))


def test_histograms_count_records():
    steps, codes = np.array([0, 0, 2]), np.array([[2, 0], [2, 1], [0, 1]])
    expected = [[0, 0, 2, 1, 1], [0, 0, 0, 0, 0], [1, 0, 0, 0, 1]]
    assert MODEL.histograms(steps, codes, 3).tolist() == expected


def test_projection_is_the_nearest_point(rng):
    rows, totals = rng.normal(1, 3, (6, 4)), np.array([0.0, 1, 2, 5, 9, 40])
    found = project_onto_counts(rows, totals)
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(axis=1), totals, atol=1e-12)
    for row, total, near in zip(rows[1:], totals[1:], found[1:], strict=True):
        solved = optimize.minimize(
            lambda x, row=row: ((x - row) ** 2).sum(),
            np.full(4, total / 4),
            bounds=[(0, None)] * 4,
            constraints={"type": "eq", "fun": lambda x, total=total: x.sum() - total},
            method="SLSQP",
        )
        np.testing.assert_allclose(near, solved.x, atol=1e-4)


def test_fields_are_checked():
    for fields, message in (
        ({"states": 0}, "states"),
        ({"categories": ()}, "at least two categories"),
        ({"categories": (3, 1)}, "at least two categories"),
        ({"emission_prior": 0.0}, "emission_prior"),
        ({"transition_prior": np.nan}, "transition_prior"),
    ):
        with pytest.raises(ValueError, match=message):
            CategoricalHMM(**{"states": 2, "categories": (2, 2)} | fields)
