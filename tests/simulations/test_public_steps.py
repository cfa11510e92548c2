"""Public steps after private descent: the fewest ones, the costs, and the excess loss of the simulation."""

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.simulations.experiments import public_steps
from privsample.simulations.experiments.public_steps import TARGET, Descent


@pytest.mark.parametrize(
    "descent", [Descent(d=2), Descent(d=700), Descent(d=90, convexity=0.0), Descent(d=5, rate=0.01)]
)
def test_the_fewest_steps_are_enough_and_one_less_is_not(descent):
    for published, cost in ((False, descent.cost), (True, descent.published_cost)):
        steps = descent.fewest(published=published)
        assert cost(steps) <= TARGET < cost(steps - 1)
        assert cost(steps - 1) == pytest.approx(min(map(cost, range(steps))))


def test_no_steps_are_needed_where_the_noise_is_enough(monkeypatch):
    monkeypatch.setattr(public_steps, "TARGET", 100.0)
    assert Descent(d=2).fewest() == Descent(d=2).fewest(published=True) == 0


def test_cost_is_the_geometric_sum_of_the_noise_of_all_steps():
    descent, steps = Descent(d=50), 9
    noise = sum(descent.loss.contraction(descent.rate) ** (-2.0 * j) for j in range(steps + 1))
    shift = descent.loss.gradient_sensitivity / descent.noise_std / noise**0.5
    assert descent.cost(steps) == pytest.approx(shift**2 / 2, rel=1e-9)


@pytest.mark.parametrize("d", [4, 64, 1024])
def test_noise_has_the_mean_square_of_the_largest_gradient(d, rng):
    descent = Descent(d=d)
    assert d * descent.noise_std**2 == pytest.approx(descent.lipschitz**2, rel=1e-9)
    rows, labels = public_steps.records(d, 200, rng)
    w = np.zeros(d)
    w[0] = public_steps.RADIUS
    gradients = descent.loss.slopes(rows @ w, labels)[:, None] * rows + descent.convexity * w
    assert np.linalg.norm(gradients, axis=1).max() <= descent.lipschitz


def test_published_cost_is_theorem_5():
    descent, n, index = Descent(d=10), 100, 80
    beta, rho, eta = descent.loss.smoothness, descent.convexity, descent.rate
    scale = 2 * descent.lipschitz**2 / ((n - index) * descent.noise_std**2)
    theorem = scale * (1 - 2 * eta * beta * rho / (beta + rho)) ** ((n - index + 1) / 2)
    assert descent.published_cost(n - index) == pytest.approx(theorem, rel=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize("d", [2, 3, 30])
@pytest.mark.parametrize(("shift", "accepted"), [(0.0, True), (0.005, False)])
def test_excess_loss_against_simulated_records(d, shift, accepted, rng, alpha):
    w = 0.8 * rng.standard_normal(d) / d**0.5
    rows, labels = public_steps.records(d, 400_000, rng)
    losses = np.logaddexp(0.0, -(2 * labels - 1) * (rows @ w)) + public_steps.CONVEXITY * w @ w / 2
    found = losses.mean() - public_steps.least_loss() + shift
    error = losses.std() / len(losses) ** 0.5
    assert (abs(found - public_steps.excess(w)) / error < stats.norm.isf(alpha / 2)) == accepted


def test_no_coefficients_have_less_loss(rng):
    assert min(public_steps.excess(w) for w in rng.uniform(-1, 1, (200, 5))) >= 0
    on_axis = [public_steps.excess(np.array([first, 0.0])) for first in np.linspace(0, 1, 101)]
    assert min(on_axis) == pytest.approx(0.0, abs=1e-4)


def test_simulated_descent_is_charged_what_the_figure_says():
    descent = Descent(d=16)
    steps = descent.fewest()
    mechanism = ps.NoisyProjectedSGD(
        loss=descent.loss,
        n=5,
        rate=descent.rate,
        noise_std=descent.noise_std,
        hidden_order=False,
        public_tail=steps,
        public=ps.PublicRecords(rows=np.zeros((1, 16)), targets=np.zeros(1)),
    )
    assert float(mechanism.accountant.rdp(3.0)) <= 3.0 * TARGET
