"""The distance of Langevin chains from the posterior, and the public choice of steps and step sizes."""

import dataclasses
import math

import numpy as np
import pytest

import privsample as ps
from privsample.distributions.steps.langevin import langevin_states
from privsample.distributions.steps.langevin_bias import FORGOTTEN, best_step_size, default_steps


def bias(step_size, steps=10**6, m=1.0, top=4.0, dimension=2, start=0.0):
    return ps.LangevinBias(
        strong_convexity=m, smoothness=top, step_size=step_size, steps=steps, dimension=dimension, start_distance=start
    )


@pytest.mark.parametrize(
    ("step_size", "exact", "bound"), [(0.01, 0.0057, 0.590), (0.1, 0.0645, 2.252), (0.4, 0.629, 5.636)]
)
def test_values_of_an_independent_derivation(step_size, exact, bound):
    """The normal distribution with variances 1 and 1/4; the distance of normals with one mean is that of deviations."""
    own = bias(step_size)
    distance = math.hypot(own.widening(1.0) - 1.0, (own.widening(4.0) - 1.0) / 2)
    assert distance == pytest.approx(exact, rel=0.01)
    assert own.wasserstein == pytest.approx(bound, rel=1e-3)
    assert own.largest_widening == own.widening(4.0)


def test_the_start():
    own = bias(0.1, steps=20, start=3.0)
    assert own.largest_start == pytest.approx(0.9**20)
    assert own.wasserstein - bias(0.1).wasserstein == pytest.approx(3.0 * 0.9**20, rel=1e-9)
    assert own.centring(10.0) == 0.0
    assert own.centring(21.0) == math.inf
    assert own.widening(20.0) == math.inf


def test_the_statement_says_what_is_left_of_the_start():
    enough = bias(0.1, steps=40).statement()
    assert "After 40 Langevin steps of size 0.1, if the posterior were Gaussian, at most 1.5 %" in enough
    assert "at most 11.8 % too large" in enough
    assert bias(0.1, steps=40).caution() == ""
    short = bias(0.1, steps=20)
    assert short.statement() == f"{short.caution()}."
    assert "give more steps: about 50 would suffice" in short.caution()
    assert "overshoot" in bias(0.49, steps=3).caution()
    assert "overshoot" in bias(0.6, steps=1).statement()
    assert "the prior is flat" in bias(0.2, steps=3, m=0.0).caution()
    assert bias(0.2, m=0.0).sufficient_steps == math.inf


def test_what_is_left_of_the_start_is_largest_at_an_end():
    own = bias(0.45, steps=3)
    curvatures = np.linspace(1.0, 4.0, 301)
    assert own.largest_start == pytest.approx(max(map(own.centring, curvatures)))
    assert own.largest_start > own.centring(1.0)


def test_no_bound_is_known():
    assert bias(0.41).wasserstein == math.inf  # above 2/(m + M)
    assert bias(0.1, m=0.0).wasserstein == math.inf
    assert bias(0.4).wasserstein < math.inf


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"strong_convexity": 5.0}, "strong_convexity must be at most smoothness = 4, got 5"),
        ({"step_size": 0.0}, "step_size must be finite and > 0"),
        ({"start_distance": math.inf}, "start_distance must be finite and >= 0"),
    ],
)
def test_wrong_fields(wrong, words):
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(bias(0.1), **wrong)


@pytest.mark.parametrize("steps", [1, 10, 100, 1000, 10**5])
@pytest.mark.parametrize(("top", "start"), [(1.0, 0.0), (2.0, 1.0), (300.0, 1000.0), (1e6, 1e7)])
def test_the_best_step_size_has_the_least_bound(steps, top, start):
    found = best_step_size(1.0, top, steps=steps, dimension=5, start_distance=start)
    most = 1.0 / (1.0 + top)
    low = min(1.0 - FORGOTTEN ** (1.0 / steps), most)
    assert low * (1 - 1e-12) <= found <= most
    own = bias(found, steps=steps, top=top, dimension=5, start=start).wasserstein
    others = [
        bias(other, steps=steps, top=top, dimension=5, start=start).wasserstein for other in np.geomspace(low, most, 50)
    ]
    assert own <= min(others) * (1 + 1e-3)
    assert bias(found, top=top).largest_widening <= math.sqrt(2.0)


def test_default_steps():
    assert default_steps(1.0, 100.0, None, visits=10) == 1010
    assert default_steps(1.0, 100.0, 0.01, visits=10) == math.ceil(math.log(0.01) / math.log1p(-0.01))
    assert default_steps(1.0, 1.0, 1.0, visits=10) == 1
    assert default_steps(1.0, 1e9, None, visits=10) == 100_000
    assert default_steps(1.0, 1e9, 1e-300, visits=10**9) == 100
    assert default_steps(1.0, 1e300, None, visits=10**7) == 2000
    with pytest.raises(ValueError, match="steps must be given with a flat prior: the posterior may be improper"):
        default_steps(0.0, 100.0, None, visits=10)


@pytest.mark.statistical
@pytest.mark.parametrize(("step_size", "steps"), [(0.3, 3), (0.3, 60), (0.02, 100)])
def test_the_chain_of_a_normal_distribution(step_size, steps, rng, alpha):
    """Curvatures 1 and 4, mean 2: widening and centring are exact."""
    curvature, mean = np.array([1.0, 4.0]), np.array([2.0, 2.0])
    states = langevin_states(
        lambda x: curvature * (x - mean), np.zeros((40_000, 2)), step_size=step_size, steps=steps, rng=rng
    )
    own = bias(step_size, steps=steps)
    from scipy import stats

    for k, one in enumerate(curvature):
        expected = 2.0 * (1.0 - (1.0 - step_size * one) ** steps)
        assert abs(expected - 2.0) == pytest.approx(2.0 * own.centring(one))
        late = own.widening(one) / math.sqrt(one)
        deviation = late * math.sqrt(1.0 - own.centring(one) ** 2)
        assert stats.kstest((states[:, k] - expected) / deviation, "norm").pvalue > alpha / 6
        assert stats.kstest((states[:, k] - expected) / deviation / 1.05, "norm").pvalue < 1e-4
