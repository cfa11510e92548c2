"""Lower limits of Rényi divergences from draws and from curves."""

import numpy as np
import pytest

from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.simulations.audit.renyi import clipped_lower_limit, plug_in_estimate, renyi_from_curves


@pytest.mark.parametrize("pair", [GaussianPair(mu=1.0), LaplacePair(shift=1.5)])
@pytest.mark.parametrize("order", [1.5, 4.0, 12.0])
def test_points_of_a_curve_bound_the_divergence_and_more_points_come_closer(pair, order):
    true, last = float(pair.renyi(np.array([order]))[0]), 0.0
    for count in (5, 50, 2000):
        points = np.linspace(0.0, 12.0, count)
        curve = np.exp(pair.log_delta(points))
        found = renyi_from_curves(order, points, curve, curve)
        assert last <= found <= true + 1e-12
        last = found
    assert last > 0.9 * true


def test_limits_at_far_epsilons_are_numbers():
    """A delta of at least 0.3 at epsilon = 290 makes E e^(s L) at least 0.3 (s + 1) e^(290 s), up to e^-290."""
    points, none = np.array([0.0, 290.0]), np.zeros(2)
    expected = 290 + np.log(0.3 * 16) / 15
    assert renyi_from_curves(16.0, points, np.array([0.3, 0.3]), none) == pytest.approx(expected, rel=1e-12)
    assert renyi_from_curves(16.0, points, none, none) == 0.0


def test_one_draw_limits_nothing():
    assert clipped_lower_limit(2.0, np.array([1.0]), 2.0, 0.1) == 0.0


@pytest.mark.statistical
@pytest.mark.parametrize("order", [2.0, 8.0])
def test_clipped_estimates_stay_below_the_divergence(order, rng, alpha):
    losses = rng.normal(0.5, 1.0, 50_000)
    found = clipped_lower_limit(order, losses, 2.5, alpha)
    assert 0.1 * order / 2 < found < order / 2
    assert clipped_lower_limit(order, losses + 0.5, 3.0, alpha) > found
    assert clipped_lower_limit(order, losses[:20], 2.5, alpha) == 0.0


def test_the_plain_estimate_is_refused_where_it_fails_low(rng):
    losses = rng.normal(0.5, 1.0, 10_000)
    assert plug_in_estimate(2.0, losses) == pytest.approx(1.0, abs=0.05)
    with pytest.raises(ValueError, match=r"biased low.*log\(draws\) = 9.21"):
        plug_in_estimate(5.0, losses)
    log = np.log(np.mean(np.exp(7 * losses))) / 7
    assert log < 4.0 - 0.5  # what it would have said of a divergence of 4
