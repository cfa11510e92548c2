"""The Gibbs sampler of a Bayesian network against the enumeration of all tables of counts, and its structure."""

import itertools

import numpy as np
import pytest
from scipy import special, stats

from privsample import DiscreteLaplaceNoise, GaussianNoise
from privsample.distributions.models import network as module
from privsample.distributions.models.network import CategoricalNetwork, HiddenCells

PAIR = CategoricalNetwork(categories=(2, 2), edges=((0, 1),), prior=0.7)
CHAIN = CategoricalNetwork(categories=(2, 2, 2), edges=((0, 1), (1, 2)), prior=0.7)


def compositions(total, cells):
    """All counts of `total` records in `cells` cells."""
    for bars in itertools.combinations(range(total + cells - 1), cells - 1):
        yield np.diff([-1, *bars, total + cells - 1]) - 1


def enumerated(network, noisy, n, noise):
    """Exact posterior means of all conditional probabilities, and of their squares, given noisy tables."""
    cells = np.array(list(itertools.product(*map(range, network.categories))))
    logs, means, squares = [], [], []
    for counts in compositions(n, network.cells):
        rows = np.repeat(cells, counts, axis=0)
        tables = network.counts(rows)
        total = -special.gammaln(counts + 1).sum() + noise.log_mass(noisy - tables).sum()
        expected, second = [], []
        for family in network.families:
            shape = (-1, network.categories[family[-1]])
            own = np.bincount(network.places(rows, family), minlength=network.size(family)).reshape(shape)
            own = own + network.prior
            whole = own.sum(axis=1, keepdims=True)
            total += special.gammaln(own).sum() - special.gammaln(whole).sum()
            expected.append((own / whole).ravel())
            second.append((own * (own + 1) / whole / (whole + 1)).ravel())
        logs.append(total)
        means.append(np.concatenate(expected))
        squares.append(np.concatenate(second))
    weights = special.softmax(logs)
    return weights @ np.array(means), weights @ np.array(squares)


CASES = [
    (PAIR, np.array([3.0, -1.0, 2.0, 1.0]), 4, DiscreteLaplaceNoise(scale=1.0)),
    (PAIR, np.array([3.2, -1.1, 2.4, 1.5]), 4, GaussianNoise(noise_std=1.0)),
    (CHAIN, np.array([3.0, 0.0, -1.0, 1.0, 2.0, 2.0, 0.0, 1.0]), 3, DiscreteLaplaceNoise(scale=1.5)),
]


# Sweeps: the long lane sees errors of less than half the size.
each_length = pytest.mark.parametrize("sweeps", [3_200, pytest.param(16_000, marks=pytest.mark.long)])


def distance(network, noisy, n, noise, rng, sweeps, *, told=None):
    """The largest difference of a mean or a mean square from the exact one, in standard errors of thinned draws."""
    draws = network.sample(noisy, n, told or noise, sweeps, sweeps, rng)[::8]
    exact = np.concatenate(enumerated(network, noisy, n, noise))
    values = np.concatenate([draws, draws**2], axis=1)
    spread = values.std(axis=0) / len(values) ** 0.5 * 1.5  # the draws are still a little dependent
    return float(np.abs((values.mean(axis=0) - exact) / spread).max())


@pytest.mark.statistical
@each_length
@pytest.mark.parametrize(("network", "noisy", "n", "noise"), CASES, ids=["pair", "gaussian", "chain"])
def test_draws_follow_the_noise_aware_posterior(network, noisy, n, noise, sweeps, rng, alpha):
    count = 2 * network.probabilities
    assert distance(network, noisy, n, noise, rng, sweeps) < stats.norm.isf(alpha / 2 / count)


@pytest.mark.statistical
@pytest.mark.parametrize(("scale", "sweeps"), [(20.0, 3_200), pytest.param(0.3, 16_000, marks=pytest.mark.long)])
def test_a_chain_that_believes_in_another_noise_is_found(scale, sweeps, rng, alpha):
    """By enumeration, the posterior under noise of scale 20 is 9.4 standard errors away, give or take 0.7.

    The limit is 6.6. A chain that believes in small noise moves slowly and needs more sweeps to be found.
    """
    network, noisy, n, noise = CASES[0]
    told = DiscreteLaplaceNoise(scale=scale)
    assert distance(network, noisy, n, noise, rng, sweeps, told=told) > stats.norm.isf(alpha / 2 / 12)


@pytest.mark.statistical
@each_length
def test_windows_leave_the_posterior_unchanged(sweeps, rng, alpha, monkeypatch):
    """Counts that are drawn within windows of three values."""
    monkeypatch.setattr(module, "_WINDOW", 2)
    network, noisy, n, noise = CASES[0]
    assert distance(network, noisy, n, noise, rng, sweeps) < stats.norm.isf(alpha / 2 / 12)


def test_tables_of_the_families_that_lie_in_no_other():
    assert PAIR.families == ((0,), (0, 1))
    assert PAIR.tables == ((0, 1),)
    assert CHAIN.tables == ((0, 1), (1, 2))
    collider = CategoricalNetwork(categories=(2, 3, 2, 2), edges=((0, 2), (1, 2)))
    assert collider.tables == ((0, 1, 2), (3,))
    assert collider.probabilities == 2 + 3 + 12 + 2
    assert CategoricalNetwork(categories=(2, 2)).tables == ((0,), (1,))
    backwards = CategoricalNetwork(categories=(2, 3, 2), edges=((2, 0), (0, 1), (2, 1)))
    assert backwards.families == ((2, 0), (0, 2, 1), (2,))
    assert backwards.tables == ((0, 2, 1),)


def test_family_counts_are_margins(rng):
    """Of a network whose families list the variables in other orders than the released table."""
    network = CategoricalNetwork(categories=(2, 3, 2), edges=((2, 0), (0, 1), (2, 1)))
    rows = np.column_stack([rng.integers(0, k, 50) for k in network.categories])
    for family, counts in zip(network.families, network.family_counts(network.counts(rows)), strict=True):
        expected = np.zeros([network.categories[v] for v in family])
        for row in rows:
            expected[tuple(row[list(family)])] += 1
        np.testing.assert_array_equal(counts, expected.reshape(-1, network.categories[family[-1]]))


def test_cell_probabilities_add_up(rng):
    families = CHAIN.family_counts(CHAIN.counts(rng.integers(0, 2, (9, 3))))
    logs = CHAIN.draw_probabilities(families, rng)
    assert special.logsumexp(CHAIN.log_cells(logs)) == pytest.approx(0.0, abs=1e-12)
    a, b, c = np.split(np.exp(logs), [2, 6])
    expected = a[1] * b.reshape(2, 2)[1, 0] * c.reshape(2, 2)[0, 1]
    assert np.exp(CHAIN.log_cells(logs, np.array([[1, 0, 1]])))[0] == pytest.approx(expected)


def test_hidden_cells_keep_their_records(rng):
    noise = DiscreteLaplaceNoise(scale=2.0)
    chain = HiddenCells(CHAIN, np.zeros(8), rng.multinomial(5_000, np.full(8, 1 / 8)), noise)
    for _ in range(20):
        chain.update(np.zeros(8), rng)
        assert chain.counts.sum() == 5_000
        assert chain.counts.min() >= 0
    rows = np.repeat(CHAIN._codes, chain.counts, axis=0)
    np.testing.assert_array_equal(chain.tables, CHAIN.counts(rows))


def test_large_noise_leaves_the_prior_and_small_noise_the_tables(rng):
    noisy = np.array([800.0, 100.0, 20.0, 80.0])
    fixed = PAIR.sample(noisy, 1000, DiscreteLaplaceNoise(scale=0.05), 200, 100, rng).mean(axis=0)
    np.testing.assert_allclose(fixed, [0.9, 0.1, 8 / 9, 1 / 9, 0.2, 0.8], atol=0.05)
    plug_in = PAIR.sample(noisy, 1000, None, 400, 400, rng).mean(axis=0)
    np.testing.assert_allclose(plug_in, [0.9, 0.1, 8 / 9, 1 / 9, 0.2, 0.8], atol=0.02)


def test_fields_are_checked():
    for fields, message in (
        ({"categories": ()}, "at least two categories"),
        ({"categories": (2, 1)}, "at least two categories"),
        ({"categories": (65, 65)}, "at most 4096 combinations, got 4,225"),
        ({"edges": ((0, 0),)}, "two different variables"),
        ({"edges": ((0, 9),)}, r"among 0, \.\.\., 2, got \(0, 9\)"),
        ({"edges": ((0, 1, 2),)}, "two different variables"),
        ({"edges": ((0, 1), (0, 1))}, "distinct"),
        ({"edges": ((0, 1), (1, 2), (2, 0))}, "cycle"),
        ({"prior": 0.0}, "prior"),
    ):
        with pytest.raises(ValueError, match=message):
            CategoricalNetwork(**{"categories": (2, 2, 2)} | fields)
