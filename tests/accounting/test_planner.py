"""Which way answers for a composition, and its answers against values of other methods."""

from types import SimpleNamespace

import mpmath
import numpy as np
import pytest

from privsample import AddRemove, GaussianAccountant, PoissonSampling, PureAccountant, SubsampledAccountant
from privsample.accounting.engine.routes import _least_epsilon
from privsample.accounting.loss import planner
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.accounting.loss.pair import binary_pair
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.posterior.beta import BetaPair
from privsample.accounting.posterior.gamma import GammaShapePair
from privsample.accounting.subsampling.gaussian import PoissonGaussianPair


def steps(rate, noise_std, times, *, removed=True):
    return ProductPair(members=((PoissonGaussianPair(mu=1 / noise_std, rate=rate, removed=removed), times),))


@pytest.mark.parametrize(
    ("rate", "noise_std", "times", "delta", "truth", "slack"),
    [  # epsilons by two other methods: quadrature over pairs of losses, and chords; the slack is relative
        (0.01, 1, 2, 1e-6, 0.425464387523424, 1e-6),
        (0.001, 1, 2, 1e-10, 0.214448886418865, 2e-5),
        (0.02, 0.9, 2, 1e-6, 1.1645071502039, 1e-6),
        (1e-5, 1, 2, 1e-9, 0.000528688705140805, 5e-3),
        (1e-4, 0.8, 2, 1e-9, 0.0349593104088, 2e-4),
        (0.01, 1, 5, 1e-6, 0.5158244, 2e-6),
        (1e-5, 1, 10_000, 1e-9, 0.0062266, 1e-3),
        (1e-4, 0.8, 100, 1e-9, 0.093481, 4e-4),
        (0.001, 0.5, 60, 1e-5, 1.8724213, 1e-6),
        # Grids of a million nodes; rounding errors are a few percent of delta.
        pytest.param(1e-6, 0.5, 10**6, 1e-8, 0.29626, 0.012, marks=pytest.mark.long),
        pytest.param(1e-7, 0.4, 1000, 1e-9, 0.052972, 0.034, marks=pytest.mark.long),
    ],
)
def test_few_steps_of_small_samples(rate, noise_std, times, delta, truth, slack):
    found = planner.least_epsilon(steps(rate, noise_std, times), float(np.log(delta)))
    assert truth * (1 - 1e-7) <= found.epsilon <= truth * (1 + slack)


@pytest.mark.parametrize(
    ("members", "log_delta", "way", "is_exact"),
    [
        (((binary_pair(0.3), 5),), -8.0, "enumeration", True),
        (((PoissonGaussianPair(mu=1.0, rate=0.01, removed=True), 60),), -14.0, "contour integral", True),
        (((PoissonGaussianPair(mu=1.0, rate=0.01, removed=True), 2),), -14.0, "grid", False),
        (((PoissonGaussianPair(mu=1.0, rate=0.001, removed=False), 2),), -23.0, "Rényi conversion", False),
        (((BetaPair(a=6.0, b=111.0, step=0.4), 3), (GaussianPair(mu=0.2), 1)), -14.0, "contour integral", True),
        (((GammaShapePair(shape=0.003, step=0.004, rising=False), 2),), -6.0, "grid", False),
        (((LaplacePair(shift=0.3), 3),), -8.0, "grid", False),
    ],
    ids=range(7),
)
def test_the_way_of_each_answer(members, log_delta, way, is_exact):
    product = ProductPair(members=members)
    found = product.answer(log_delta)
    assert (found.way, found.is_exact) == (way, is_exact)
    assert found.epsilon == product.least_epsilon(log_delta)
    assert product.log_delta(np.float64(found.epsilon)) <= log_delta + (1e-9 if is_exact else 0.02)


def test_two_steps_cost_less_than_sixty_and_no_more_than_two_alone():
    step = SubsampledAccountant(
        base=GaussianAccountant(sensitivity=1, noise_std=1, relation=AddRemove()), scheme=PoissonSampling(rate=0.001)
    )
    epsilons = [(times * step).epsilon(1e-10) for times in (1, 2, 3)]
    assert epsilons == sorted(epsilons)
    assert epsilons[1] <= 2 * step.epsilon(1e-10 / 2)
    assert (2 * step).delta(0.2) <= 2 * step.delta(0.1)
    routes = {route.name: route for route in (2 * step).explain(1e-6)}
    assert routes["composed loss, on a grid"].kind == "upper bound"


def test_sides_of_the_contour_enclose_the_closed_form():
    from privsample.accounting.loss.contour import summed_log_delta_sides

    together = GaussianPair(mu=0.3 * 10)
    epsilon = together.mu * np.array([0.0, 1.0, 6.0, 30.0]) + together.mu**2 / 2
    upper, lower = summed_log_delta_sides([(GaussianPair(mu=0.3), 100)], np.full(4, np.inf), epsilon)
    truth = [_gaussian_log_delta(together.mu, float(e)) for e in epsilon]
    assert (lower <= truth).all()
    assert (truth <= upper).all()
    assert (upper - lower <= 3e-11).all()


def _gaussian_log_delta(mu, epsilon):
    with mpmath.workdps(50):
        z = mpmath.mpf(epsilon) / mu - mpmath.mpf(mu) / 2
        tail = lambda x: mpmath.erfc(x / mpmath.sqrt(2)) / 2  # noqa: E731
        return float(mpmath.log(tail(z) - mpmath.exp(epsilon) * tail(z + mu)))


def test_a_composition_that_no_way_bounds_is_infinite(monkeypatch):
    product = steps(0.01, 1, 2)
    monkeypatch.setattr(planner, "_by_grid", lambda *_: planner.Answer(np.inf, "grid"))
    monkeypatch.setattr(planner, "_by_own_grid", lambda *_: planner.Answer(np.inf, "grid"))
    monkeypatch.setattr(planner, "_by_conversion", lambda *_: planner.Answer(np.inf, "Rényi conversion"))
    answer = planner.least_epsilon(product, -14.0)
    assert answer.way == "basic composition"
    assert 0.425464 < answer.epsilon <= 2 * steps(0.01, 1, 1).members[0][0].least_epsilon(-14.0 - np.log(2)) + 1e-9
    monkeypatch.setattr(planner, "_FEW", 0)
    assert planner.least_epsilon(product, -14.0).epsilon == np.inf


def test_a_search_along_the_contour_ends():
    """From the max divergence, where no other answer is known, and where nothing converges."""
    product = steps(0.01, 1, 2, removed=False)
    found = planner._along_the_contour(product, -6.0, [planner.Answer(np.inf, "grid")], 0.05)
    assert found.epsilon == pytest.approx(product.least_epsilon(-6.0), rel=1e-12)
    assert found.epsilon < product.max_divergence
    assert 0.0 < planner._root_below(lambda _: -1.0, 1.0, 0.05) < 1e-15


def test_a_later_pair_does_not_lower_epsilon():
    """On two grids a pair may seem to exceed delta at an epsilon that is above its own."""
    first = SimpleNamespace(least_epsilon=lambda _: 1.0)
    second = SimpleNamespace(least_epsilon=lambda _: 0.5, log_delta=lambda _: np.array([-1.0]))
    assert _least_epsilon([first, second], -2.0) == (1.0, None)


def test_most_losses_have_no_mass_at_the_largest():
    assert BetaPair(a=6.0, b=111.0, step=0.4).log_top_mass == -np.inf


@pytest.mark.parametrize(("rate", "log_odds", "times"), [(0.46552124598322847, 3.8068084156711475, 2), (0.25, 1.0, 7)])
def test_the_largest_loss_of_a_table_is_rounded_up(rate, log_odds, times):
    """At a delta that no outcome but the last can reach, epsilon is the largest loss; 63 of 200 settings lay below."""
    base = PureAccountant(stated_epsilon=log_odds)
    found = (times * SubsampledAccountant(base=base, scheme=PoissonSampling(rate=rate))).epsilon(1e-300)
    with mpmath.workdps(50):
        largest = times * mpmath.log(1 - mpmath.mpf(rate) + mpmath.mpf(rate) * mpmath.exp(log_odds))
        assert 0 <= (found - largest) / largest < 1e-14


def test_the_max_divergence_is_not_called_exact(monkeypatch):
    """Nothing proves that no smaller epsilon would do where a contour only ends there."""
    product = steps(0.01, 1, 2, removed=False)
    monkeypatch.setattr(planner, "_contour_sides", lambda _, epsilon: (np.full(1, -1.0), np.full(1, -np.inf)))
    found = planner._along_the_contour(product, -6.0, [planner.Answer(np.inf, "grid")], 0.05)
    assert found.epsilon == pytest.approx(product.max_divergence)
    assert not found.is_exact
