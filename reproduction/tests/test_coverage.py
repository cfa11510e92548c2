"""Coverage at fixed shares: against releases that are drawn, and averaged over the prior, where it is the level."""

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from reproduction import coverage, experiment


def test_it_is_registered():
    assert experiment("coverage") is coverage.EXPERIMENT


def test_over_the_prior_aware_intervals_hold_their_level_and_plug_in_ones_do_not(monkeypatch):
    monkeypatch.setattr(coverage, "SHARES", (np.arange(2000) + 0.5) / 2000)
    assert coverage.coverage(20, 0.3, "noise-aware").mean() == pytest.approx(coverage.LEVEL, abs=2e-3)
    assert coverage.coverage(20, 0.3, "plug-in").mean() < coverage.LEVEL - 0.1


@pytest.mark.statistical
@pytest.mark.parametrize(("method", "accepted"), [("plug-in", True), ("noise-aware", False)])
def test_it_is_what_releases_show(method, accepted, rng, alpha, monkeypatch):
    monkeypatch.setattr(coverage, "SHARES", np.array([0.2]))
    stated, held = float(coverage.coverage(20, 0.3, method)[0]), 0
    mechanism = ps.NoisyStatistics(model=coverage.MODEL, n=20, scale=1 / 0.3)
    for _ in range(400):
        private = ps.PrivateStatistics(release=mechanism.release(rng.random(20) < 0.2, rng=rng))
        low, high = private.posterior().quantile(np.array([0.05, 0.95]))
        held += low <= 0.2 <= high
    assert (stats.binomtest(held, 400, stated).pvalue > alpha) == accepted


@pytest.mark.parametrize("method", coverage.METHODS)
def test_the_mean_over_all_shares_is_that_of_a_fine_grid(method):
    shares = (np.arange(4000) + 0.5) / 4000
    closed = coverage.mean_coverage(20, 1.0, method)
    assert closed == pytest.approx(coverage.coverage(20, 1.0, method, shares).mean(), abs=1e-3)
    if method == "noise-aware":
        assert closed == pytest.approx(coverage.LEVEL, abs=1e-5)
