"""The machinery of calibration by simulation: chains that contain the truth, the exact test, and simulated models."""

import numpy as np
import pytest
from scipy import stats

from privsample import NoisyStatistics
from reproduction.calibration_chains import serial_ranks, step_factor
from reproduction.calibration_models import CLIPPED, MODELS, ranked, simulate
from reproduction.calibration_ranks import cell_p_value, infer_ranks, noise_aware_ranks, plug_in_ranks, sided
from reproduction.calibration_uniformity import POINTS, counts_below, ecdf_difference, envelope, p_value

CASES = {case.name: case for case in MODELS}
each_case = pytest.mark.parametrize("case", MODELS, ids=lambda case: case.name.replace(" ", "-"))


# The test of uniformity


@pytest.mark.statistical
@pytest.mark.parametrize("level", [pytest.param(0.01, marks=pytest.mark.long), 0.3])
def test_uniform_numbers_are_rejected_at_the_level(level, rng, alpha):
    """At most at the level, and hardly less often: the least p-value takes many values.

    The long case adds the tail, which the enumeration below covers for three numbers.
    """
    rejected = sum(p_value(counts_below(rng.random(200))) <= level for _ in range(2000))
    assert stats.binomtest(rejected, 2000, level, alternative="greater").pvalue > alpha
    assert stats.binomtest(rejected, 2000, 0.8 * level, alternative="less").pvalue > alpha


def test_p_values_agree_with_an_enumeration(monkeypatch):
    """All ways in which three numbers fall into four parts."""
    monkeypatch.setattr("reproduction.calibration_uniformity.POINTS", 4)
    parts = np.stack(np.meshgrid(*[np.arange(4)] * 3), axis=-1).reshape(-1, 3)
    below = np.array([[np.sum(row < k) for k in range(5)] for row in parts])
    chances = np.arange(1, 4) / 4
    tails = np.minimum(stats.binom.cdf(below[:, 1:-1], 3, chances), stats.binom.sf(below[:, 1:-1] - 1, 3, chances))
    least = np.minimum(1.0, 2 * tails.min(axis=1))
    for counts, own in zip(below, least, strict=True):
        assert p_value(counts.astype(float)) == pytest.approx(min(np.mean(least <= own + 1e-12), 3 * own), abs=1e-9)


def test_a_sample_is_rejected_where_it_leaves_the_envelope(rng):
    low, high = envelope(300, 0.2)
    for _ in range(300):
        counts = counts_below(rng.random(300))
        off = ecdf_difference(counts)
        leaves = bool(((off < low - 1e-12) | (off > high + 1e-12)).any())
        assert leaves == (p_value(counts) <= 0.2)


def test_small_p_values_are_upper_bounds_that_fall(rng):
    shares = [p_value(counts_below(rng.beta(1, shape, 1000))) for shape in (1.0, 1.5, 2.0, 3.0)]
    assert shares[0] > 1e-9
    assert shares[1:] == sorted(shares[1:], reverse=True)
    assert shares[-1] < 1e-50
    assert len(counts_below(rng.random(10))) == POINTS + 1


# Chains: a normal mean with a standard normal prior


def normal_chains(rng, *, deviation, assumed, steps, factor=None, simulations=4000):
    true = rng.standard_normal((simulations, 1))
    seen = true[:, 0] + deviation * rng.standard_normal(simulations)

    def evaluate(scores):
        return -0.5 * ((seen - scores[:, 0]) / assumed) ** 2, scores

    chosen = step_factor(evaluate, true) if factor is None else np.array([[factor]])
    return serial_ranks(evaluate, true, chosen, steps, rng), seen, chosen


@pytest.mark.statistical
@pytest.mark.parametrize(("steps", "factor"), [(0, 1.0), (3, 1.0), (20, 0.01), (20, 10.0), (60, None)])
def test_ranks_are_uniform_after_any_number_of_steps_of_any_size(steps, factor, rng, alpha):
    chains, _, _ = normal_chains(rng, deviation=0.5, assumed=0.5, steps=steps, factor=factor)
    assert p_value(counts_below(chains.ranks[:, 0])) > alpha


@pytest.mark.statistical
def test_ranks_of_a_wrong_likelihood_are_not(rng, alpha):
    chains, _, _ = normal_chains(rng, deviation=0.5, assumed=0.35, steps=60)
    assert p_value(counts_below(chains.ranks[:, 0])) <= alpha


@pytest.mark.statistical
def test_ranks_of_a_chain_that_starts_at_the_truth_are_not(rng, alpha, monkeypatch):
    """The mutant that always runs forwards: few of the states lie on both sides of the truth."""

    class Forwards:
        def __getattr__(self, name):
            return getattr(rng, name)

        def integers(self, low, high, size, endpoint):
            return np.zeros(size, dtype=int)

    chains, _, _ = normal_chains(Forwards(), deviation=0.5, assumed=0.5, steps=20, factor=0.1)
    assert p_value(counts_below(chains.ranks[:, 0])) <= alpha


def test_steps_are_as_wide_as_the_posterior(rng):
    chains, _, factor = normal_chains(rng, deviation=0.5, assumed=0.5, steps=60)
    assert factor[0, 0] == pytest.approx((1 / (1 + 1 / 0.25)) ** 0.5, rel=0.05)
    assert 0.3 < chains.accepted < 0.6


@pytest.mark.statistical
def test_a_method_that_ignores_the_data_is_found_by_the_side_of_the_release(rng, alpha):
    """Its ranks are uniform: the true parameters are draws of the prior."""
    case = CASES["binary"]
    mechanism = case.mechanism(0.0, 100, 1.0)
    simulations = simulate(case, mechanism, 2000, rng)
    ranks = stats.norm.cdf(simulations.scores)
    assert p_value(counts_below(ranks[:, 0])) > alpha
    assert cell_p_value(case, ranks, simulations.released) <= alpha
    assert sided(case, ranks, simulations.released).shape == (2000, 2)


# The models


@each_case
def test_priors_are_those_of_the_models(case, rng):
    """The first parameters against draws of the model's prior, by means and deviations."""
    model = case.model(case.shares()[-1])
    made = ranked(case.parameters(model, rng.standard_normal((20_000, case.width))))
    prior = model.prior.sample(20_000, rng).reshape(20_000, -1)
    for own, other in zip(made.T, prior.T, strict=False):
        assert stats.ks_2samp(own, other).pvalue > 1e-6


@pytest.mark.parametrize("clipped", CLIPPED)
@each_case
def test_bounds_clip_the_stated_share(case, clipped, rng):
    if not case.bounded:
        assert case.shares() == (0.0,)
        return
    model = case.model(clipped)
    parameters = case.parameters(model, rng.standard_normal((2000, case.width)))
    if case.name == "linear regression":
        coefficients, intercept, variance, mean, root = (parameters[name][:, None] for name in parameters)
        features = mean[..., 0] + root[..., 0, 0] * rng.standard_normal((2000, 50))
        target = coefficients[..., 0] * features + intercept + variance**0.5 * rng.standard_normal((2000, 50))
        shares = [np.mean(np.abs(features) > 1), np.mean(np.abs(target) > model.target_bounds[1])]
    else:
        draws = np.column_stack(list(parameters.values()))
        draws = draws if case.width > 1 else draws[:, 0]
        records = np.concatenate([model.simulate(draw, 50, rng) for draw in draws])
        beyond = records == model.domain.high
        shares = [np.mean(beyond | (records == model.domain.low) if model.domain.low else beyond)]
    slack = 0.12 if case.name == "Poisson counts" else 0.02  # a bound of counts is whole, and records at it count here
    assert np.allclose(shares, clipped, atol=slack)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["binary", "two categories"])
def test_noise_aware_ranks_are_uniform_and_plug_in_ranks_are_not(name, rng, alpha):
    case = CASES[name]
    mechanism = case.mechanism(0.0, 10, 0.2)
    simulations = simulate(case, mechanism, 1000, rng)
    aware, plug_in = (ranks(case, mechanism, simulations, rng) for ranks in (noise_aware_ranks, plug_in_ranks))
    assert cell_p_value(case, aware, simulations.released) > alpha
    assert cell_p_value(case, plug_in, simulations.released) <= alpha


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(("name", "n", "scale"), [("three categories", 50, 7.5), ("exponential times", 200, 8.0)])
@pytest.mark.parametrize("wrong", [False, True])
def test_ranks_among_draws_of_infer(name, n, scale, wrong, rng, alpha):
    """The noise has about twice the standard deviation of the statistic; the mutant takes half of its scale.

    Calibration of `infer` takes twenty seconds a case; its draws are tested for each change in tests/inference.
    """
    case = CASES[name]
    model = case.model(case.shares()[-1])
    mechanism = NoisyStatistics(model=model, n=n, noise=case.noise, scale=scale)
    assumed = NoisyStatistics(model=model, n=n, noise=case.noise, scale=scale / 2) if wrong else mechanism
    simulations = simulate(case, mechanism, 300, rng)
    ranks = infer_ranks(case, assumed, simulations, rng)
    assert (cell_p_value(case, ranks, simulations.released) > alpha) != wrong


def test_mechanisms_meet_their_targets():
    for case in MODELS:
        mechanism = case.mechanism(case.shares()[-1], 100, 1.0)
        delta = 1e-5 if case.noise.endswith("gaussian") else 0.0
        assert mechanism.accountant.epsilon(delta) == pytest.approx(1.0, rel=1e-6)
