"""The losses of private selections: the computed ones are those of draws, and the orders are as proved."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from reproduction import candidate_selection as home
from reproduction.tables import Table


@pytest.mark.statistical
@pytest.mark.parametrize(("wrong", "accepted"), [(1.0, True), (1.15, False)])
def test_losses_of_draws(wrong, accepted, rng, alpha):
    """The mean loss of releases; the broken copy has a rate that is too large."""
    utilities, bins = home.counts(), home.BINS[:-1]
    data = np.repeat(bins, utilities.astype(int))
    for name in (home.EXPONENTIAL, home.FLIP):
        many = replace(home.mechanism(name, wrong * 0.1), draws=20_000)
        losses = utilities.max() - utilities[many.release(data, rng=rng)["selected"]]
        z = (losses.mean() - home.loss(name, 0.1, utilities)) / (losses.std() / len(losses) ** 0.5)
        assert (2 * stats.norm.sf(abs(z)) > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("wrong", "accepted"), [(1.0, True), (0.7, False)])
def test_losses_of_the_best_of_random_runs(wrong, accepted, rng, alpha):
    """The quadrature against simulated runs; the broken copy has too much noise."""
    utilities, losses = home.counts(), []
    repetitions = home._repetitions()  # one object: it remembers its exact masses
    for _ in range(4_000):
        places = rng.integers(0, len(utilities), repetitions.sample(rng))
        noisy = utilities[places] + rng.laplace(0.0, 1 / (wrong * 0.1), len(places))
        losses.append(utilities.max() - utilities[places[noisy.argmax()]])
    z = (np.mean(losses) - home.loss_of_best(0.1, utilities)) / (np.std(losses) / len(losses) ** 0.5)
    assert (2 * stats.norm.sf(abs(z)) > alpha) == accepted


def test_equal_costs():
    for name in (home.EXPONENTIAL, home.FLIP):
        account = home.SELECTIONS * home.mechanism(name, home.rate_for(name, 5.0)).accountant
        assert float(account.epsilon(home.DELTA)) == pytest.approx(5.0, rel=1e-5)
    result = home.run((0.17,), (5.0,))
    one = Table(columns=result.columns).select(panel="one selection")
    assert len(set(one["epsilon"])) == 1
    assert home.mechanism(home.FLIP, float(one["epsilon"][0])).accountant.pure_epsilon == one["epsilon"][0]


def test_the_sentence_states_only_orders_that_the_table_has():
    """With the losses of two mechanisms exchanged at one epsilon, no order is stated."""
    columns = dict(home.run((0.17, 0.4), (5.0, 12.0)).columns)
    assert home._describe(columns).sentence.count("in this order at every ε shown") == 2
    for panel in ("one selection", "composed"):
        loss = np.array(columns["loss"])
        rows = [
            np.flatnonzero((np.array(columns["panel"]) == panel) & (np.array(columns["mechanism"]) == name))[-1]
            for name in (home.EXPONENTIAL, home.FLIP)
        ]
        loss[rows] = loss[rows[::-1]]
        found = home._describe(columns | {"loss": loss})
        assert found.sentence.count("in this order at every ε shown") == 1
        assert ("whose bounded range composes better" in found.sentence) == (panel == "one selection")
