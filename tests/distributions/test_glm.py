"""The exact sampler of logistic posteriors: its public plan, its envelope, and its draws against quadrature."""

import dataclasses

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from privsample.distributions.models.glm import LogisticPosteriorDensity, _Envelope
from privsample.distributions.models.rejection_envelope import _psi_above, _psi_below, plan, proposal_count


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


def marginal(distribution, *, width=9.0, points=401):
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


def test_the_number_of_proposals():
    costs = [1.0001, 2.4, 5, 42, 91]
    assert [proposal_count(np.log(cost), 1, 1e-15) for cost in costs] == [4, 65, 155, 1434, 3126]
    assert proposal_count(np.log(2.4), 1, 1e-9) == 39
    assert proposal_count(0.0, 3, 1e-15) == 3
    with pytest.raises(ValueError, match="too many proposals"):
        proposal_count(50.0, 1, 1e-15)


@pytest.mark.parametrize("cost", [1.0001, 1.3, 5.0, 91.0])
@pytest.mark.parametrize("draws", [1, 2, 5, 40])
@pytest.mark.parametrize("failure", [1e-15, 1e-3, 0.5])
def test_so_many_proposals_hold_too_few_accepted_ones_as_rarely_as_stated(cost, draws, failure):
    count = proposal_count(float(np.log(cost)), draws, failure)
    with mp.workdps(50):
        p = 1 / mp.mpf(cost)

        def tail(proposals):
            return sum(mp.binomial(proposals, k) * p**k * (1 - p) ** (proposals - k) for k in range(draws))

        assert tail(count) <= failure
        if draws == 1:
            assert tail(count - 1) > failure  # the broken copy makes one proposal less


class Visits:
    """The rows of a density, with a count of how many of them were visited."""

    def __init__(self, monkeypatch):
        self.count = 0
        for name in ("energy", "gradient", "information"):
            own = getattr(LogisticPosteriorDensity, name)
            monkeypatch.setattr(LogisticPosteriorDensity, name, self.counted(own))

    def counted(self, own):
        def visit(density, points):
            self.count += len(np.atleast_2d(points)) * len(density.rows)
            return own(density, points)

        return visit


def test_records_are_visited_equally_often_whatever_they_are(monkeypatch, rng):
    visits, seen = Visits(monkeypatch), {True: set(), False: set()}
    shells = plan(weight=200, reach=1.0, dimension=2)
    proposals = shells.proposals(3, 1e-15)
    for kind in ("mixed", "separable", "one direction"):
        distribution = LogisticPosteriorDensity(rows=rows_of(rng, 200, 2, 1.0, kind=kind), weight=1.0)
        for constant in (True, False):
            before = visits.count
            if constant:
                _, accepted = distribution.sample_in_constant_time(3, proposals, shells, rng)
                assert 3 <= accepted <= proposals
            else:
                distribution.sample(3, shells, rng)
            seen[constant].add(visits.count - before)
    assert len(seen[True]) == 1
    assert len(seen[False]) == 3


@pytest.mark.statistical
@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_draws_in_constant_time_follow_the_distribution(factor, rng, alpha):
    distribution = LogisticPosteriorDensity(rows=rows_of(rng, 25, 2, 1.5, kind="separable"), weight=0.8)
    shells = plan(weight=20, reach=1.5, dimension=2)
    proposals = shells.proposals(20_000, 1e-15)
    assert proposals < 1.2 * 20_000 * np.exp(shells.log_proposals)
    broken = dataclasses.replace(shells, curvature=factor * shells.curvature, tilt=factor * shells.tilt)
    drawn, _ = distribution.sample_in_constant_time(20_000, proposals, broken, rng)
    assert (stats.kstest(drawn[:, 0], marginal(distribution)).pvalue > alpha) == (factor == 1.0)


@pytest.mark.statistical
def test_missing_draws_come_from_the_prior(rng, alpha):
    distribution = LogisticPosteriorDensity(rows=rows_of(rng, 400, 1, 1.5, kind="separable"), weight=0.8)
    shells = plan(weight=320, reach=1.5, dimension=1)
    drawn, accepted = distribution.sample_in_constant_time(20_000, 10, shells, rng)
    assert accepted <= 10
    assert stats.kstest(drawn[10:, 0], stats.norm.cdf).pvalue > alpha
    assert (
        stats.kstest(drawn[10:, 0], marginal(distribution)).pvalue < alpha
    )  # the test distinguishes posterior and prior


def test_a_centre_that_is_not_near_the_mode_still_gives_the_draws(monkeypatch, rng):
    """The public number of proposals is not proved then, so proposals are made until enough are accepted."""
    distribution = LogisticPosteriorDensity(rows=rows_of(rng, 30, 1, 1.5), weight=0.8)
    shells, mode = plan(weight=24, reach=1.5, dimension=1), distribution.near_mode()
    centre = mode + 2 * shells.gradient_tolerance
    monkeypatch.setattr(LogisticPosteriorDensity, "near_mode", lambda self, **_: centre)
    drawn, accepted = distribution.sample_in_constant_time(50, 1, shells, rng)
    assert drawn.shape == (50, 1)
    assert accepted == 50
    assert len(np.unique(drawn)) == 50


@pytest.mark.parametrize("kind", ["mixed", "separable", "one direction"])
@pytest.mark.parametrize(
    ("n", "dimension", "reach", "weight"), [(500, 1, 1.0, 1.0), (300, 4, 1.0, 0.1), (20, 2, 5.0, 0.05)]
)
def test_a_gradient_within_the_tolerance_costs_next_to_nothing(n, dimension, reach, weight, kind, rng):
    """The Gaussian functions' masses at an approximate mode are at most e^5e-7 times those without a gradient."""
    distribution = LogisticPosteriorDensity(rows=rows_of(rng, n, dimension, reach, kind=kind), weight=weight)
    shells = plan(weight=n * weight, reach=reach, dimension=dimension)
    centre = distribution.near_mode(tolerance=1e-12, least_steps=40)
    direction = rng.standard_normal(dimension)
    for scale, holds in ((1.0, True), (30.0, False)):
        slope = scale * shells.gradient_tolerance * direction / np.linalg.norm(direction)
        precisions = shells.tilt[:, None, None] * np.eye(dimension)  # the smallest that H allows
        growth = np.array([slope @ np.linalg.solve(precision, slope) / 2 for precision in precisions])
        assert (growth.max() <= 5.01e-7) == holds
    assert np.linalg.norm(distribution.gradient(centre)) <= shells.gradient_tolerance


def test_the_energy_is_a_sum_over_all_records(rng):
    """Across blocks of records and of points, and for margins far beyond the range of e^-x."""
    rows, points = rng.standard_normal((1300, 3)), rng.standard_normal((300, 3)) * np.array([1.0, 30.0, 1000.0])
    found = LogisticPosteriorDensity(rows=rows, weight=0.3).energy(points)
    expected = 0.5 * (points**2).sum(axis=1) + 0.3 * np.logaddexp(0.0, -points @ rows.T).sum(axis=1)
    assert found == pytest.approx(expected, rel=1e-13)
