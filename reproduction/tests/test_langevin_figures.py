"""Langevin accounts against quadrature, and the figures of what they cost."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import huber, log_ndtr, ndtr

import privsample as ps
from reproduction.langevin_quadrature import LIKELIHOODS, curve, log_densities, mechanisms, ratios

ROUNDING = 3e-6


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_never_below_the_truth(name):
    found = [row["ratio"] for one in mechanisms((name,), (2,), (1.0,)) for row in ratios(one, (0.5,), (1, 2, 30))]
    assert len(found) == 12
    assert 0.5 < max(found) <= 1.0 + ROUNDING


@pytest.mark.parametrize("name", ["logistic, clipped", "Huber", "normal", "Poisson"])
def test_the_account_is_attained(name):
    found = [row["ratio"] for one in mechanisms((name,), (1,), (2.0,)) for row in ratios(one, (0.1, 0.5), (1, 2))]
    assert 0.99 < max(found) <= 1.0 + ROUNDING


def test_an_account_that_is_too_small_is_found(monkeypatch):
    """Half the sensitivity, as if each record could move the gradient in one direction only."""
    own = type(LIKELIHOODS["Huber"]).gradient_norm
    monkeypatch.setattr(ps.HuberLikelihood, "gradient_norm", lambda self, norm: own(self, norm) / 2)
    found = [row["ratio"] for one in mechanisms(("Huber",), (2,), (1.0,)) for row in ratios(one, (0.5,), (2,))]
    assert max(found) > 1.5


def test_the_quadrature_on_normal_states():
    """Saturated Huber losses: the last state is normal, with known mean and variance."""
    mechanism = ps.LangevinPosterior(
        likelihood=ps.HuberLikelihood(threshold=1), features=1, norm=1.0, relation=ps.ReplaceOne(1), steps=1
    )
    grid, eta, steps = np.linspace(-9, 9, 1200), 0.2, 7
    records = [(np.ones((1, 1)), np.array([y])) for y in (1e6, -1e6)]
    one, other = (log_densities(mechanism, each, eta, grid, (steps,))[steps] for each in records)
    c = 1 - eta
    mean, variance = (1 - c**steps), 2 * eta * (1 - c ** (2 * steps)) / (1 - c**2)
    expected = -0.5 * (grid - mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)
    middle = np.abs(grid) < 6  # at the ends the grid misses what comes from beyond it
    assert one[middle] == pytest.approx(expected[middle], abs=1e-9)
    mu = 2 * mean / np.sqrt(variance)
    epsilons = np.array([0.0, 0.5, 2.0])
    expected = ndtr(mu / 2 - epsilons / mu) - np.exp(epsilons) * ndtr(-mu / 2 - epsilons / mu)
    assert curve(grid, one, other, epsilons) == pytest.approx(expected, rel=ROUNDING)
    assert replace(mechanism, steps=steps, step_size=eta).accountant.shift == pytest.approx(mu, rel=1e-9)


def rows_of(made):
    return list(csv.DictReader(made.numbers.decode().splitlines()))


def test_the_figure_of_steps(small_once):
    made = small_once("langevin-steps").made
    rows = rows_of(made)
    for row in rows:
        assert float(row["account"]) < float(row["exact_draw"])
        assert float(row["account"]) <= float(row["all_states"]) * (1 + 1e-9)
    costs = [float(row["account"]) for row in rows]
    assert costs == sorted(costs)
    assert f"ε = {costs[-1]:.4f}, below the {float(rows[0]['exact_draw']):.4f} of an exact draw" in made.sentence


def test_the_figure_of_ratios(small_once):
    made = small_once("langevin-quadrature").made
    ratios_ = [float(row["ratio"]) for row in rows_of(made)]
    assert len(ratios_) == 56
    assert "in 56 settings" in made.sentence
    assert f"It is never above the account's. The largest ratio is {max(ratios_):.4f}" in made.sentence


def _losses(name, t, y):
    """Minus the log likelihood, up to a constant, where nothing is clipped."""
    if name == "logistic":
        return np.logaddexp(0.0, -(2 * y - 1) * t)
    if name == "probit":
        return -log_ndtr((2 * y - 1) * t)
    if name == "Huber":
        return huber(1.0, t - y)
    if name == "normal":
        return 0.5 * (t - y) ** 2
    return np.exp(t) - y * t


@pytest.mark.parametrize(
    ("name", "likelihood", "targets"),
    [
        ("logistic", ps.LogisticLikelihood(), (1.0, 1.0, 0.0)),
        ("probit", ps.ProbitLikelihood(clip=9.0), (1.0, 1.0, 0.0)),
        ("Huber", ps.HuberLikelihood(threshold=1.0), (1.5, 4.0, 0.3)),
        ("normal", ps.NormalLikelihood(noise_std=1.0, clip=20.0), (1.5, 2.0, 0.3)),
        ("Poisson", ps.PoissonLikelihood(max_count=4, clip=25.0), (3.0, 4.0, 1.0)),
    ],
)
def test_small_steps_reach_the_posterior(name, likelihood, targets):
    """Mean and deviation by quadrature, against the density e^-U; a step size that is too large is told apart.

    The noise of a step has a standard deviation of 0.089 or more, 2.2 spacings of the grid: the trapezoidal rule errs
    by about exp(-2 (2.2 pi)^2), less than 1e-40 of a normal density.
    """
    mechanism = ps.LangevinPosterior(
        likelihood=likelihood, features=1, norm=0.8, relation=ps.ReplaceOne(3), data_weight=0.9, steps=1
    )
    rows, grid = np.array([[0.8], [0.5], [-0.3]]), np.linspace(-7, 7, 351)
    posterior = -(grid**2) / 2
    for (row,), y in zip(rows, targets, strict=True):
        posterior = posterior - 0.9 * _losses(name, row * grid, y)
    posterior = np.exp(posterior - posterior.max())
    posterior /= posterior.sum()

    def errors(step_size, steps):
        found = np.exp(log_densities(mechanism, (rows, np.array(targets)), step_size, grid, (steps,))[steps])
        found /= found.sum()
        means = found @ grid, posterior @ grid
        deviations = [np.sqrt(p @ (grid - mean) ** 2) for p, mean in zip((found, posterior), means, strict=True)]
        return abs(means[0] - means[1]), deviations[0] / deviations[1] - 1.0

    mean, widening = errors(0.004, 3000)
    assert mean < 2e-3
    assert 0.0 < widening < 0.003 * mechanism.bias.smoothness
    assert errors(1.0 / mechanism.bias.smoothness, 300)[1] > 4 * widening
    assert errors(0.004, 100)[0] > 10 * mean
