"""The exact sampler of logistic posteriors: its public plan, its envelope, and its draws against quadrature."""

import dataclasses

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from privsample.distributions.models.glm import LogisticPosteriorDensity, _Envelope
from privsample.distributions.models.rejection_envelope import _psi_above, _psi_below, plan


def rows_of(rng, n, dimension, reach, *, kind="mixed"):
    rows = rng.standard_normal((n, dimension))
    rows *= reach / np.linalg.norm(rows, axis=1, keepdims=True)
    match kind:
        case "separable":
            return np.where(rows[:, :1] > 0, rows, -rows)
        case "one direction":
            return np.tile(rows[:1], (n, 1)) * rng.choice([-1, 1], size=(n, 1))
        case _:
            return rows


def marginal(distribution, *, width=9.0, points=1201):
    """Grid and distribution function of the first coordinate, d <= 2, by quadrature of the definition."""
    grid = np.linspace(-width, width, points)
    axes = np.meshgrid(*[grid] * distribution.rows.shape[1], indexing="ij")
    log_density = np.zeros(axes[0].shape)
    for row in distribution.rows:
        log_density -= distribution.weight * np.logaddexp(
            0.0, -sum(z * axis for z, axis in zip(row, axes, strict=True))
        )
    log_density -= sum(axis**2 for axis in axes) / 2
    mass = np.exp(log_density - logsumexp(log_density))
    first = mass.sum(axis=tuple(range(1, mass.ndim)))
    middle = np.cumsum(first) - first / 2
    return lambda x: np.interp(x, grid, middle)


@pytest.mark.parametrize("t", [0.0, 1e-9, 5e-4, 9.99e-4, 1.01e-3, 0.3, 7.0, 300.0])
def test_the_two_remainders(t):
    with mp.workdps(50):
        x = mp.mpf(t)
        below = (mp.exp(-x) + x - 1) / x**2 if t else mp.mpf(1) / 2
        above = (mp.exp(x) - x - 1) / x**2 if t else mp.mpf(1) / 2
    with np.errstate(invalid="ignore"):  # at 0 and infinity, as in plan
        found = [float(psi(np.array(t))) for psi in (_psi_below, _psi_above)]
        assert _psi_below(np.array(np.inf)) == 0.0
    assert found == pytest.approx([float(below), float(above)], rel=1e-9)


@pytest.mark.parametrize("kind", ["mixed", "separable", "one direction"])
@pytest.mark.parametrize(("n", "dimension", "reach", "weight"), [(200, 2, 0.5, 1.0), (30, 3, 3.0, 0.7), (3, 1, 9.0, 1)])
def test_the_envelope_lies_above_the_density_around_any_point(n, dimension, reach, weight, kind, rng):
    distribution = LogisticPosteriorDensity(rows=rows_of(rng, n, dimension, reach, kind=kind), weight=weight)
    shells = plan(weight=n * weight, reach=reach, dimension=dimension)
    for centre in (distribution.near_mode(), rng.standard_normal(dimension)):
        envelope = _Envelope.around(distribution, centre, shells)
        steps = rng.standard_normal((4000, dimension)) * 10 ** rng.uniform(-2, 1.5, (4000, 1))
        length = np.linalg.norm(steps, axis=1)
        k = np.searchsorted(shells.outer, length)
        form = shells.tilt[k] * length**2 + shells.curvature[k] * ((steps @ envelope.information) * steps).sum(axis=1)
        above = shells.log_heights[k] - steps @ envelope.slope - form / 2
        assert (
            distribution.energy(centre[None]) - distribution.energy(centre + steps)
            <= above + 1e-9 * (1 + np.abs(above))
        ).all()


@pytest.mark.parametrize("kind", ["mixed", "separable", "one direction"])
@pytest.mark.parametrize(
    ("n", "dimension", "reach", "weight"),
    [(500, 1, 1.0, 1.0), (300, 6, 0.2, 1.0), (300, 4, 1.0, 0.1), (20, 2, 5.0, 0.05), (1, 1, 0.1, 0.1)],
)
def test_the_public_bound_holds_for_all_data(n, dimension, reach, weight, kind, rng):
    """The mean over 400 draws lies below the bound: they end in a number of proposals that is nearly normal."""
    shells = plan(weight=n * weight, reach=reach, dimension=dimension)
    distribution = LogisticPosteriorDensity(rows=rows_of(rng, n, dimension, reach, kind=kind), weight=weight)
    drawn, proposals = distribution.sample(400, shells, rng)
    assert drawn.shape == (400, dimension)
    assert proposals / 400 <= np.exp(shells.log_proposals) * 1.4


def test_the_plan_beats_the_prior_curvature_alone():
    assert plan(weight=1e6, reach=1.0, dimension=1).log_proposals < np.log(3)
    assert plan(weight=1e4, reach=0.125, dimension=10).log_proposals < np.log(6)
    assert len(plan(weight=0.01, reach=20.0, dimension=4).tilt) == 1


@pytest.mark.parametrize("reach", [1e150, 1e300])
def test_a_plan_without_hope_says_so(reach):
    assert plan(weight=1e6, reach=reach, dimension=3).log_proposals > 100


def test_newton_finds_the_mode(rng):
    for reach, weight, kind in [(0.3, 1.0, "mixed"), (30.0, 1.0, "separable"), (30.0, 0.01, "one direction")]:
        distribution = LogisticPosteriorDensity(rows=rows_of(rng, 300, 4, reach, kind=kind), weight=weight)
        assert np.linalg.norm(distribution.gradient(distribution.near_mode())) < 1e-5


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (3.0, False)])
@pytest.mark.parametrize("dimension", [1, 2])
def test_draws_follow_the_distribution(dimension, factor, accepted, rng, alpha):
    """The mutant's envelope is curved too much, so that it cuts the density's flanks off."""
    distribution = LogisticPosteriorDensity(rows=rows_of(rng, 25, dimension, 1.5, kind="separable"), weight=0.8)
    shells = plan(weight=20, reach=1.5, dimension=dimension)
    shells = dataclasses.replace(shells, curvature=factor * shells.curvature, tilt=factor * shells.tilt)
    drawn, _ = distribution.sample(20_000, shells, rng)
    assert (stats.kstest(drawn[:, 0], marginal(distribution)).pvalue > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("shift", "accepted"), [(0.0, True), (0.05, False)])
def test_draws_follow_the_distribution_around_another_point(shift, accepted, rng, alpha):
    distribution = LogisticPosteriorDensity(rows=rows_of(rng, 25, 2, 1.5, kind="separable"), weight=0.8)
    envelope = _Envelope.around(
        distribution, distribution.near_mode() + np.array([0.05, -0.03]), plan(weight=20, reach=1.5, dimension=2)
    )
    drawn, used = envelope.accepted(200_000, 20_000, rng)
    assert len(drawn) == 20_000
    assert used < 200_000
    assert (stats.kstest(drawn[:, 0] + shift, marginal(distribution)).pvalue > alpha) == accepted
