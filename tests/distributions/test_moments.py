"""Bounded second moments: the distribution of coefficients and variance, Bayes' rule, and how far
one record reaches.
"""

import math

import numpy as np
import pytest
from scipy import integrate, optimize

from privsample import LinearRegression, NormalUnknownVariance
from privsample.distributions.models.normal_inverse_gamma import NormalInverseGamma
from privsample.errors import SchemaError

NORMAL = NormalUnknownVariance(mean=1.0, observations=2.0, shape=3.0, scale=2.0, bounds=(-4.0, 8.0))
DISTRIBUTION = NormalInverseGamma(
    location=(0.3, -1.0), precision=np.array([[2.0, 0.5], [0.5, 1.0]]), shape=4.0, scale=3.0
)


def regression(features=2, **changed):
    fields = {"feature_bounds": ((0.0, 2.0),) * features, "target_bounds": (-3.0, 1.0), "shape": 2.0, "scale": 0.3}
    return LinearRegression(**fields | changed)


@pytest.mark.parametrize("model", [NORMAL, regression(1), regression(2), regression(4)], ids=repr)
def test_no_difference_is_longer_than_declared(model, rng):
    """The largest L1 and L2 norms found by search meet the declared ones and do not pass them."""
    moments, found = model.moments, {}
    low, high = np.array(moments.bounds).T

    def norm(shares, order):
        rows = low + (high - low) * np.clip(shares, 0, 1).reshape(2, -1)
        return np.linalg.norm(moments.sums(rows[:1]) - moments.sums(rows[1:]), ord=order)

    slides = [np.repeat([1.0, 1.0 - step], len(low)) for step in np.linspace(0, 1, 201)]
    for order in (1, 2):
        searched = [
            -optimize.minimize(lambda at, order=order: -norm(at, order), start, method="Nelder-Mead").fun
            for start in rng.random((5, 2 * len(low)))
        ]
        found[order] = max(*searched, *(norm(start, order) for start in slides))
    differences = model.record_sensitivity
    assert differences.l2 == 2.0
    assert found[2] == pytest.approx(2.0, rel=1e-9)
    assert found[1] <= np.abs(differences.differences).sum(axis=1).max() * (1 + 1e-12)
    assert found[1] == pytest.approx(np.abs(differences.differences).sum(axis=1).max(), rel=2e-3)


def test_the_polygon_holds_all_differences_of_the_normal():
    u = np.linspace(-1, 1, 401)
    points = np.column_stack([u, 1.5 * u**2])
    apart = np.abs(points[:, None] - points[None]).reshape(-1, 2)
    corners = NORMAL.record_sensitivity.differences
    for angle in np.linspace(0, np.pi / 2, 50):
        normal = np.array([np.cos(angle), np.sin(angle)])
        reach = max((corners @ normal).max(), (corners[:, ::-1] @ normal).max())
        assert (apart @ normal).max() <= reach + 1e-12


@pytest.mark.parametrize("features", [1, 3])
def test_the_row_majorizes_all_differences_of_the_regression(features, rng):
    model = regression(features)
    (row,) = model.record_sensitivity.differences
    ahead = np.cumsum(row)
    low, high = np.array(model.moments.bounds).T
    corners = rng.integers(0, 2, (300, 2, features + 1)) * (rng.random((300, 2, 1)) < 0.7)
    shares = np.concatenate([corners, rng.random((300, 2, features + 1))])
    for pair in low + (high - low) * shares:
        apart = np.sort(np.abs(model.moments.sums(pair[:1]) - model.moments.sums(pair[1:])))[::-1]
        reach = np.concatenate([ahead, np.full(max(0, len(apart) - len(ahead)), ahead[-1])])[: len(apart)]
        assert (np.cumsum(apart) <= reach + 1e-12).all()


def test_posterior_of_a_regression_is_least_squares_under_a_flat_prior(rng):
    rows = rng.uniform(0, 2, (80, 2))
    target = np.clip(rows @ [0.5, -0.3] - 0.5 + rng.normal(0, 0.3, 80), -3, 1)
    statistic, n = regression(observations=1e-12).summarize((rows, target))
    distribution = regression(observations=1e-12, scale=1e-12).posterior(statistic, n)
    design = np.column_stack([rows, np.ones(80)])
    best, left, *_ = np.linalg.lstsq(design, target, rcond=None)
    assert distribution.location == pytest.approx(best, rel=1e-8)
    assert distribution.scale == pytest.approx(float(left[0]) / 2, rel=1e-8)
    assert distribution.shape == 2.0 + 40
    assert distribution.precision == pytest.approx(design.T @ design, rel=1e-8)


def test_posterior_of_the_normal_against_quadrature(rng):
    records = rng.normal(1.5, 1.0, 12)
    distribution = NORMAL.posterior(*NORMAL.summarize(records))

    numbers = records.tolist()

    def density(mean, variance):
        """The densities of an inverse gamma number, of a normal one given it, and of the records given both."""
        squares = sum((x - mean) ** 2 for x in numbers)
        prior = 2**3 / 2 * variance**-4 * math.exp(-2 / variance)
        prior *= math.exp(-((mean - 1.0) ** 2) / variance) / math.sqrt(math.pi * variance)
        return prior * math.exp(-squares / (2 * variance)) / (2 * math.pi * variance) ** (len(numbers) / 2)

    total = integrate.dblquad(density, 0.05, 40, -5, 8, epsrel=1e-8)[0]
    for mean, variance in ((1.0, 0.8), (1.7, 2.0)):
        expected = np.log(density(mean, variance) / total)
        assert distribution.log_density(np.array([mean, variance])) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("model", [NORMAL, regression(2)], ids=repr)
def test_public_records_move_the_prior(model, rng):
    rows = model.simulate(model.prior.sample(1, rng)[0], 60, rng)
    first, second = (model.statistic(part) for part in (rows[:25], rows[25:]))
    whole = model.posterior(first + second, 60)
    by_parts = model.update_prior(first, 25).posterior(second, 35)
    assert by_parts.location == pytest.approx(whole.location, rel=1e-9)
    assert by_parts.scale == pytest.approx(whole.scale, rel=1e-9)
    assert by_parts.precision == pytest.approx(whole.precision, rel=1e-9)
    assert model.feasible(first, 25) == pytest.approx(first, abs=1e-9)
    assert model.update_prior(first, 25).likelihood == model.likelihood


@pytest.mark.parametrize("model", [NORMAL, regression(3)], ids=repr)
def test_feasible_statistics_have_a_posterior(model, rng):
    for statistic in rng.normal(0, 500, (40, len(model.empty))):
        found = model.feasible(statistic, 20)
        gram = model.moments.gram(found, 20)
        assert np.linalg.eigvalsh(gram).min() > -1e-9
        assert (np.diagonal(gram)[1:] <= 20 * model.moments.radius**2 + 1e-9).all()
        assert np.isfinite(model.posterior(found, 20).location).all()


def test_distribution_has_its_moments(rng):
    drawn = DISTRIBUTION.sample(400_000, rng)
    assert drawn.mean(axis=0) == pytest.approx(DISTRIBUTION.mean, abs=0.02)
    assert drawn.var(axis=0) == pytest.approx(DISTRIBUTION.variance, rel=0.1)
    assert np.quantile(drawn[:, 0], 0.9) == pytest.approx(float(DISTRIBUTION.quantile(0.9)), abs=0.02)
    other = NormalInverseGamma(location=(0.0, 0.0), precision=np.eye(2), shape=3.0, scale=2.0)
    gap = DISTRIBUTION.log_density(drawn) - other.log_density(drawn)
    assert gap.mean() == pytest.approx(DISTRIBUTION.relative_entropy(other), abs=6 * gap.std() / len(gap) ** 0.5)
    assert DISTRIBUTION.relative_entropy(DISTRIBUTION) == 0.0
    wide = NormalInverseGamma(location=(0.0,), precision=np.eye(1), shape=0.5, scale=1.0)
    assert np.isinf(wide.mean[-1])
    assert np.isinf(wide.variance).all()


def test_the_public_rule_is_total():
    rows = np.array([[np.nan, 5.0, -np.inf], [1.0, np.inf, 0.0]])
    model = regression(2)
    assert model.moments.clean(rows).tolist() == [[1.0, 2.0, -3.0], [1.0, 2.0, 0.0]]
    assert model.examine((rows[:, :2], rows[:, 2])) == ({"missing": 1, "outside": 3}, 2)
    assert np.isfinite(model.statistic(rows)).all()
    assert model.statistic(np.empty((0, 3))).tolist() == model.empty.tolist()


def test_what_is_refused():
    for wrong in (np.ones((3, 3)), (np.ones((3, 1)), np.ones(3)), (np.ones((3, 2)), np.ones(4))):
        with pytest.raises(SchemaError):
            regression(2).summarize(wrong)
    with pytest.raises(ValueError, match="at least one"):
        regression(0)
    for changed in ({"shape": 0}, {"observations": np.nan}, {"feature_prior_scale": -1}, {"target_bounds": (1, 1)}):
        with pytest.raises(ValueError, match="must"):
            regression(2, **changed)
    with pytest.raises(ValueError, match="positive definite"):
        NormalInverseGamma(location=(0.0,), precision=-np.eye(1), shape=1.0, scale=1.0)
