"""Truncated distributions: samplers against integrals of the density, with mutants that must fail; extremes."""

import numpy as np
import pytest
from scipy import stats

from privsample.distributions.parametric import rejection
from privsample.distributions.parametric.conjugate import Beta, Dirichlet, Gamma, Normal, PosteriorDistribution
from privsample.distributions.parametric.rejection import (
    sample_log_concave,
    sample_truncated_dirichlet,
    sample_truncated_gamma,
)
from privsample.distributions.parametric.truncated import (
    TruncatedBeta,
    TruncatedDirichlet,
    TruncatedGamma,
    TruncatedNormal,
    temper,
    truncate,
)

DRAWS = 20_000
NUMBERS = {
    "beta": (TruncatedBeta, {"a": 2.5, "b": 7.0, "low": 0.2, "high": 0.8}, "b"),
    "bowl": (TruncatedBeta, {"a": 0.5, "b": 0.9, "low": 0.02, "high": 0.98}, "b"),
    "beta in a far tail": (TruncatedBeta, {"a": 3000.0, "b": 1.0, "low": 0.1, "high": 0.3}, "a"),
    "gamma": (TruncatedGamma, {"shape": 3.0, "rate": 2.0, "low": 0.5, "high": 2.0}, "rate"),
    "small gamma": (TruncatedGamma, {"shape": 0.3, "rate": 2.0, "low": 0.01, "high": 9.0}, "shape"),
    "gamma in a far tail": (TruncatedGamma, {"shape": 100.0, "rate": 900.0, "low": 0.5, "high": 20.0}, "rate"),
    "normal": (TruncatedNormal, {"location": 0.0, "scale": 1.0, "low": -3.0, "high": 0.5}, "scale"),
    "normal in a far tail": (TruncatedNormal, {"location": 0.0, "scale": 0.1, "low": 3.0, "high": 5.0}, "scale"),
}
FACTORS = pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.75, False), (1.35, False)])


def by_integral(distribution):
    """The distribution function from the density on a grid that is finer near the lower and the upper bound."""
    share = np.linspace(0.0, 1.0, 200_001) ** 3
    x = distribution.low + (distribution.high - distribution.low) * np.concatenate([share / 2, 1 - share[::-1] / 2])
    density = distribution.log_density(x)
    mass = np.exp(density - density.max())
    total = np.concatenate([[0.0], np.cumsum((mass[1:] + mass[:-1]) / 2 * np.diff(x))])
    return lambda at: np.interp(at, x, total / total[-1])


@pytest.mark.statistical
@FACTORS
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name, factor, accepted, rng, alpha):
    kind, fields, wrong = NUMBERS[name]
    draws = kind(**fields | {wrong: fields[wrong] * factor}).sample(DRAWS, rng)
    assert (stats.kstest(draws, by_integral(kind(**fields))).pvalue > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("low", "accepted"), [(0.12, True), (0.1, False)])
def test_shares_against_plain_rejection(low, accepted, rng, alpha):
    weights, bound = np.array([0.6, 2.0, 9.0]), 0.12
    drawn = sample_truncated_dirichlet(np.tile(weights, (DRAWS, 1)), np.full(DRAWS, low), rng)
    plain = rng.dirichlet(weights, 60 * DRAWS)
    plain = plain[(plain >= bound).all(axis=1)]
    assert len(plain) > DRAWS / 2
    worst = min(stats.ks_2samp(drawn[:, k], plain[:, k]).pvalue for k in range(3))
    assert (3 * worst > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (1.3, False)])
@pytest.mark.parametrize("weights", [(2.5, 7.0), (400.0, 1.0), (0.5, 3.0), (900.0, 2700.0), (0.3, 0.8), (0.4, 0.1)])
def test_two_shares_are_a_truncated_beta(weights, factor, accepted, rng, alpha):
    first, second = weights
    draws = TruncatedDirichlet(alpha=(first * factor, second * factor), low=0.05).sample(DRAWS, rng)[:, 0]
    assert (
        stats.kstest(draws, by_integral(TruncatedBeta(a=first, b=second, low=0.05, high=0.95))).pvalue > alpha
    ) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (1.7, False)])
@pytest.mark.parametrize(("shape", "low"), [(5.0, 2.0), (5.0, 9.0), (1.0, 3.0), (0.4, 0.1), (0.4, 1.6), (80.0, 80.5)])
def test_gammas_from_a_bound_on(shape, low, factor, accepted, rng, alpha):
    draws = sample_truncated_gamma(np.full(DRAWS, shape * factor), np.array(low), rng)
    above = stats.gamma(shape).sf(low)
    assert (stats.kstest(draws, lambda x: 1 - stats.gamma(shape).sf(x) / above).pvalue > alpha) == accepted


@pytest.mark.parametrize("weights", [np.ones(40), np.r_[np.ones(39), 1e9], np.full(40, 1e6), np.full(40, 0.05)])
def test_shares_at_extremes(weights, rng):
    low = 1 / 400
    draws = sample_truncated_dirichlet(np.tile(weights, (200, 1)), np.full(200, low), rng)
    assert draws.min() >= low
    np.testing.assert_allclose(draws.sum(axis=1), 1.0, rtol=1e-14)
    order = rng.permutation(40)
    moved = sample_truncated_dirichlet(np.tile(weights[order], (200, 1)), np.full(200, low), rng)
    assert np.argmax(moved.mean(axis=0)) == np.argmax(weights[order]) or np.ptp(weights) == 0


@pytest.mark.parametrize("weight", [1e-3, 0.07, 0.5, 1.0])
@pytest.mark.parametrize(("count", "room"), [(2, 1e-9), (5, 1e-9), (2, 1 - 1e-9), (5, 1 - 1e-4), (40, 0.9)])
def test_no_shares_keep_a_release_waiting(weight, count, room, rng):
    """Small weights, whose densities all but diverge at the bound, and bounds that leave hardly any room."""
    low = room / count
    draws = sample_truncated_dirichlet(np.full((200, count), weight), np.full(200, low), rng)
    assert draws.min() >= low
    np.testing.assert_allclose(draws.sum(axis=1), 1.0, rtol=1e-14)


@pytest.mark.parametrize(
    ("weight", "room"), [(0.01, 1e-6), (0.5, 1e-6), (1.0, 1e-6), (1.001, 1e-6), (3.0, 0.5), (1e7, 0.9999), (1e20, 1e-6)]
)
def test_hundreds_of_shares_do_not_keep_a_release_waiting(weight, room, monkeypatch, rng):
    """A common rate some percent off would leave no more than one draw in a million."""
    rounds, tried = [], rejection._tried

    def counted(waiting):
        rounds.append(len(waiting))
        assert len(rounds) < 1000
        return tried(waiting)

    monkeypatch.setattr(rejection, "_tried", counted)
    draws = sample_truncated_dirichlet(np.full((20, 600), weight), np.full(20, room / 600), rng)
    np.testing.assert_allclose(draws.sum(axis=1), 1.0, rtol=1e-13)


def test_a_bound_far_below_the_mean_does_not_warn(rng):
    assert sample_truncated_gamma(np.array([1e9, 1e12]), np.array([1e-9, 3.0]), rng) == pytest.approx(
        [1e9, 1e12], rel=1e-3
    )
    assert sample_truncated_dirichlet(np.array([[1e9, 1e9, 1e-3]]), np.array([1e-9]), rng).min() >= 1e-9


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (1.3, False)])
def test_rows_of_several_widths_are_drawn_together(factor, accepted, rng, alpha):
    rows = np.tile([[3.0, 0.0, 5.0, 0.0], [2.0, 4.0, 8.0, 1.0]], (DRAWS, 1))
    drawn = sample_truncated_dirichlet(rows * factor, np.tile([0.2, 0.05], DRAWS), rng)
    assert (drawn[::2, [1, 3]] == 0).all()
    alone = sample_truncated_dirichlet(np.tile([2.0, 4.0, 8.0, 1.0], (DRAWS, 1)), np.full(DRAWS, 0.05), rng)
    two = stats.kstest(drawn[::2, 0], by_integral(TruncatedBeta(a=3.0, b=5.0, low=0.2, high=0.8))).pvalue
    four = min(stats.ks_2samp(drawn[1::2, k], alone[:, k]).pvalue for k in range(4))
    assert (5 * min(two, four) > alpha) == accepted


def test_numbers_at_extremes(rng):
    for distribution in (
        TruncatedNormal(location=0, scale=1e-9, low=3, high=5),
        TruncatedNormal(location=0, scale=1, low=-1e150, high=1e150),
        TruncatedBeta(a=1e12, b=2e12, low=1e-9, high=1 - 1e-9),
        TruncatedBeta(a=1e12, b=2.0, low=1e-9, high=0.3),
        TruncatedGamma(shape=1e-9, rate=1e9, low=1e-9, high=1e9),
        TruncatedGamma(shape=1e9, rate=1e-9, low=1e-9, high=1e9),
        TruncatedNormal(location=1e300, scale=1e-3, low=0.0, high=5e-324),
    ):
        draws = distribution.sample(50, rng)
        assert draws.shape == (50,)
        assert ((draws >= distribution.low) & (draws <= distribution.high)).all()
        assert np.isneginf(distribution.log_density(np.array([np.nextafter(distribution.low, -np.inf)]))).all()
    np.testing.assert_allclose(TruncatedNormal(location=0, scale=1e-9, low=3, high=5).sample(9, rng), 3.0, rtol=1e-12)
    assert sample_log_concave(lambda z: -z * z, 0.0, 0.0, 3, rng).tolist() == [0.0, 0.0, 0.0]


def test_heat_is_a_power_of_the_density():
    x = np.linspace(0.1, 0.9, 9)
    for distribution in (Beta(a=0.4, b=3), Gamma(shape=0.3, rate=2), Normal(location=0.2, scale=0.5)):
        ratio = temper(distribution, 3.0).log_density(x) - distribution.log_density(x) / 3
        np.testing.assert_allclose(ratio, ratio[0])
        assert temper(distribution, 1.0) == distribution
        inside = truncate(distribution, 0.15, 0.75).log_density(x) - distribution.log_density(x)
        np.testing.assert_allclose(inside[1:7], inside[1])
        assert np.isneginf(inside[[0, 7, 8]]).all()
    assert temper(Gamma(shape=1e-20, rate=2), 1.0).shape == 1e-20
    shares = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    distribution = Dirichlet(alpha=(0.5, 1, 4))
    gap = temper(distribution, 2.0).log_density(shares) - distribution.log_density(shares) / 2
    assert gap[0] == pytest.approx(gap[1])
    assert np.isneginf(truncate(distribution, 0.15, 0.7).log_density(shares)).tolist() == [False, True]
    assert truncate(distribution, 0.15, 0.7).sample(2, np.random.default_rng(1)).shape == (2, 3)


def test_fields_are_checked():
    for build, message in (
        (lambda: TruncatedBeta(a=1, b=1, low=0.0, high=0.5), "inside"),
        (lambda: TruncatedBeta(a=1, b=np.nan, low=0.1, high=0.5), "b must"),
        (lambda: TruncatedGamma(shape=1, rate=1, low=0.0, high=0.5), "inside"),
        (lambda: TruncatedNormal(location=0, scale=0, low=0.0, high=0.5), "scale"),
        (lambda: TruncatedDirichlet(alpha=(1, 1, 1), low=0.34), "below 1/3"),
    ):
        with pytest.raises(ValueError, match=message):
            build()
    for make in (temper, lambda distribution, t: truncate(distribution, 0.1, t)):
        with pytest.raises(TypeError, match="object"):
            make(object(), 2.0)
    assert isinstance(truncate(Normal(location=0, scale=1), 0, 1), TruncatedNormal)
    assert not isinstance(truncate(Normal(location=0, scale=1), 0, 1), PosteriorDistribution)
