"""Expected errors of the mechanisms on simulated data."""

import numpy as np
import pytest
from scipy import stats

from privsample import (
    DP,
    RDP,
    BetaBernoulli,
    DiffusedPosterior,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalKnownVariance,
    compare,
)

MODELS = [
    BetaBernoulli(alpha=6, beta=12),
    DirichletCategorical(alpha=(3, 3, 4)),
    GammaPoisson(shape=40, rate=10, upper=5),
    GammaExponential(shape=5, rate=5, upper=1.5),
    NormalKnownVariance(mean=0, variance=4, noise_variance=4, bounds=(-1, 3)),
]
TARGET = DP(epsilon=1, delta=1e-6)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_every_model_has_every_row(model):
    rows = compare(model=model, n=200, target=TARGET, simulations=20, rng=np.random.default_rng(1))
    names = ["direct", "diffused", "concentrated", "noisy", "noisy, Gaussian"]
    assert [row.name for row in rows] == names
    for row in rows:
        if row.reason:
            assert row.name == "direct"
            assert "cannot be met" in row.reason
            assert np.isnan([row.error, row.relative_entropy, row.ratio]).all()
        else:
            assert row.relative_entropy >= 0
            assert 0.5 < row.ratio == row.error / row.floor
    assert len({row.floor for row in rows if not row.reason}) == 1


def test_what_costs_nothing_loses_nothing():
    model = NormalKnownVariance(mean=0, variance=1, noise_variance=9, bounds=(-1, 1))
    rows = compare(model=model, n=10**6, target=DP(epsilon=5, delta=1e-3), simulations=5, rng=np.random.default_rng(1))
    for row in rows[:3]:
        assert row.relative_entropy == 0.0
        assert row.ratio == 1.0


def test_the_numbers_against_quadrature():
    """With n = 1 and a binary record both expectations are finite sums."""
    model, target = BetaBernoulli(alpha=6, beta=12), RDP(order=2, epsilon=0.002)
    weight = DiffusedPosterior.calibrate(model=model, n=1, target=target).data_weight
    assert weight < 0.6
    row = compare(model=model, n=1, target=target, simulations=4000, rng=np.random.default_rng(5))[1]
    chance = 6 / 18
    distributions = [(stats.beta(6 + x, 13 - x), stats.beta(6 + weight * x, 12 + weight * (1 - x))) for x in (0, 1)]
    grid = (np.arange(20_000) + 0.5) / 20_000
    gap = sum(
        p * np.mean(np.log(t.pdf(grid) / r.pdf(grid)) * t.pdf(grid))
        for p, (t, r) in zip((1 - chance, chance), distributions, strict=True)
    )
    assert row.relative_entropy == pytest.approx(gap, rel=0.05)
    draws = np.random.default_rng(0)
    theta = [t.rvs(100_000, random_state=draws) for t, _ in distributions]  # the parameter given the record
    error = sum(
        p * np.abs(r.rvs(100_000, random_state=draws) - th).mean()
        for p, th, (_, r) in zip((1 - chance, chance), theta, distributions, strict=True)
    )
    assert row.error == pytest.approx(error, rel=0.05)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_simulated_statistics_follow_the_model(model):
    """Moments of the short cuts against records simulated one by one, at five standard errors."""
    rng = np.random.default_rng(11)
    theta = model.prior.mean
    truth = np.array([model.statistic(model.simulate(theta, 300, rng)) for _ in range(3000)])
    quick = np.array([model.simulate_statistic(theta, 300, rng, one_by_one=0) for _ in range(3000)])
    spread = truth.std(0)
    assert (np.abs(truth.mean(0) - quick.mean(0)) < 5 * spread * (2 / 3000) ** 0.5).all()
    assert (np.abs(quick.std(0) / spread - 1) < 5 * (1 / 3000) ** 0.5).all()


def test_small_files_are_simulated_record_by_record():
    model = MODELS[3]
    found = model.simulate_statistic(np.float64(1.0), 50, np.random.default_rng(2))
    assert found == model.statistic(model.simulate(np.float64(1.0), 50, np.random.default_rng(2)))


@pytest.mark.parametrize("n", [1, 10**9])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_any_size(model, n):
    rows = compare(model=model, n=n, target=RDP(order=1.2, epsilon=0.5), simulations=3, rng=np.random.default_rng(1))
    assert all(row.reason or np.isfinite([row.error, row.relative_entropy]).all() for row in rows)


def test_seeds_and_bad_settings():
    with pytest.raises(TypeError, match="rng must be"):
        compare(model=MODELS[0], n=5, target=TARGET, rng=1)
    with pytest.raises(ValueError, match="simulations must be at least 1"):
        compare(model=MODELS[0], n=5, target=TARGET, simulations=0)
    assert compare(model=MODELS[0], n=5, target=TARGET, simulations=1)
