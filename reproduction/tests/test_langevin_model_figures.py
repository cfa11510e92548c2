"""Langevin draws of a logistic regression against its posterior: the reference, mirrored chains, and the table."""

import numpy as np
import pytest
from scipy import integrate, special

from reproduction import langevin_model as figures
from reproduction.tables import Table


def test_the_posterior_against_quadrature():
    """One feature: mean and standard deviation by numerical integration."""
    rows, labels = figures.data_set(1, 40, 3)

    def density(slope, power=0):
        margins = (2 * labels - 1) * rows[:, 0] * slope
        return slope**power * np.exp(special.log_expit(margins).sum() - slope**2 / 2 + 20)

    total, first, second = (integrate.quad(density, -8, 8, args=(power,), limit=200)[0] for power in range(3))
    mean, deviation = figures.posterior(rows, labels)
    assert mean[0] == pytest.approx(first / total, abs=2e-3)
    assert deviation[0] == pytest.approx(np.sqrt(second / total - (first / total) ** 2), rel=0.02)


def test_mirrored_numbers():
    found = figures.MirroredGenerator(np.random.PCG64(1)).standard_normal((6, 3))
    assert (found[:3] == -found[3:]).all()
    assert np.unique(found).size == 18


def test_mechanisms_meet_the_target():
    made = figures.mechanism(2, 1000, 1.0, 20)
    assert 0.99 < float(made.accountant.epsilon(figures.DELTA)) <= 1.0
    assert made.draws == 20


def test_wrong_draws_are_seen(monkeypatch):
    """Without the labels the draws are far from the posterior; with them they are near."""
    monkeypatch.setattr(figures, "NUMBERS", 80_000)
    made = figures.mechanism(2, 1000, 4.0, 1)
    squares, widths = figures.measured.__wrapped__(made, 2, 1000, 0, figures.NUMBERS)
    assert squares.mean() < 0.3**2
    assert widths.mean() == pytest.approx(1.0, abs=0.25)
    right = figures.posterior
    monkeypatch.setattr(figures, "posterior", lambda rows, labels: right(rows, labels[::-1]))
    assert figures.measured.__wrapped__(made, 2, 1000, 0, figures.NUMBERS)[0].mean() > 2.0**2


def test_a_noisy_sum_costs_less_with_more_records():
    widths = [figures.noisy_sum_width(2, n, 1.0) for n in (100, 1000, 10_000)]
    assert widths == sorted(widths, reverse=True)
    assert 1.0 < widths[-1] < 1.1


def test_table_and_sentence(small_once):
    """At the small size: 300 records with two features."""
    result = small_once("langevin-model").result
    table = Table(columns=result.columns)
    assert len(table) == 1 * 1 * 2 * 3
    width = float(table.select(method="Langevin, 1 draw", epsilon=4.0)["width"][0])
    assert f"Langevin, 1 draw {width:.2f}" in result.sentence
