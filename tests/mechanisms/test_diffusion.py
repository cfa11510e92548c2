"""Statistics that diffuse: one path, its levels, their accounts and their errors."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from privsample import (
    DP,
    ZCDP,
    Assumption,
    BrownianMotion,
    GaussianAccountant,
    GaussianMechanism,
    MultilevelRelease,
    OrnsteinUhlenbeck,
    PostNoise,
    Release,
)

BROWNIAN = BrownianMotion(sensitivity=1.0, time=0.5, shape=(2,))
REVERTING = OrnsteinUhlenbeck(sensitivity=1.0, theta=0.7, rho=1.2, time=0.5, shape=(2,))
each = pytest.mark.parametrize("mechanism", [BROWNIAN, REVERTING], ids=lambda m: type(m).__name__)


@each
def test_accounts_are_exact(mechanism):
    distribution, time = mechanism.distribution, mechanism.time
    same = GaussianAccountant(sensitivity=distribution.shrink(time), noise_std=np.sqrt(distribution.variance(time)))
    assert mechanism.accountant.epsilon(1e-6) == pytest.approx(float(same.epsilon(1e-6)), rel=1e-9)
    assert mechanism.accountant.zcdp >= same.zcdp * (1 - 1e-15)
    assert mechanism.accountant.kind("rdp") == "exact"
    if mechanism is BROWNIAN:
        assert mechanism.accountant.zcdp == pytest.approx(1 / (4 * 0.5))
    else:
        assert mechanism.accountant.zcdp == pytest.approx(0.7 / (2 * 1.2**2 * np.expm1(2 * 0.7 * 0.5)))


@each
def test_a_release_diffuses_on(mechanism):
    first = mechanism.release([1.0, np.nan], rng=np.random.default_rng(4))
    later = mechanism.diffuse(first, time=2.0)
    floats = replace(mechanism, exact=False)
    assert later.mechanism == floats.at(2.0)
    assert later.account == floats.at(2.0).accountant.assuming(Assumption.RNG_FRESH)
    assert later.account.epsilon(1e-6) < first.account.epsilon(1e-6)
    last = mechanism.diffuse(later, time=3.0)
    assert last.mechanism.time == 3.0
    assert Release.from_json(last.to_json()) == last
    assert mechanism.validate([1.0, np.nan]).facts == {"not finite": 1}


@each
def test_what_does_not_diffuse(mechanism):
    release = mechanism.release([1.0, 2.0])
    for time in (0.5, 0.4, 0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="time"):
            mechanism.diffuse(release, time=time)
    later = mechanism.diffuse(release, time=2.0)
    with pytest.raises(ValueError, match="times must increase: a release at time 2"):
        mechanism.diffuse(later, time=1.0)
    plain = GaussianMechanism(sensitivity=1, noise_std=1, shape=(2,))
    elsewhere = PostNoise(base=plain, noise=1.0).release([1.0, 2.0])
    other = BrownianMotion(sensitivity=2.0, time=0.5, shape=(2,)).release([1.0, 2.0])
    for wrong in (elsewhere, other):
        with pytest.raises(ValueError, match="already processed elsewhere"):
            mechanism.diffuse(wrong, time=3.0)
    with pytest.raises(TypeError, match="follows a Release"):
        mechanism.diffuse(np.zeros((1, 2)), time=3.0)


@each
def test_a_multilevel_release_is_one_path(mechanism):
    levels = MultilevelRelease(base=mechanism, times=(1.0, 4.0))
    assert levels.accountant == mechanism.accountant
    release = levels.release([1.0, 2.0], rng=np.random.default_rng(2))
    assert release["statistic"].shape == (3, 2)
    assert Release.from_json(release.to_json()) == release
    apart = levels.split_levels(release)
    floats = replace(mechanism, exact=False)
    assert [level.mechanism for level in apart] == [mechanism, floats.at(1.0), floats.at(4.0)]
    assert all(Assumption.RNG_FRESH in level.account.assumptions for level in apart)
    assert np.array_equal(np.concatenate([level["statistic"] for level in apart]), release["statistic"])
    costs = [float(level.account.epsilon(1e-6)) for level in apart]
    assert costs == sorted(costs, reverse=True)
    assert release.account.epsilon(1e-6) == costs[0]
    assert levels.split_levels(levels.release([1.0, 2.0]))[1].account == floats.at(1.0).accountant
    assert levels.validate([1.0, 2.0]).facts == {}
    for times in ((0.5,), (0.1, 1.0), (1.0, 1.0), (2.0, 1.0)):
        with pytest.raises(ValueError, match="times must increase"):
            MultilevelRelease(base=mechanism, times=times)
    with pytest.raises(ValueError, match=r"times\[0\]"):
        MultilevelRelease(base=mechanism, times=(np.nan,))
    with pytest.raises(TypeError, match="base"):
        MultilevelRelease(base=GaussianMechanism(sensitivity=1, noise_std=1), times=(1.0,))
    with pytest.raises(ValueError, match="already processed elsewhere"):
        levels.split_levels(apart[0])


@each
def test_only_a_step_from_rounded_numbers_assumes_real_numbers(mechanism):
    """A path is post-processing of its first level, which is exact; the account of a later level alone is not."""
    assert mechanism.accountant.assumptions == {Assumption.TRUSTED_SENSITIVITY}
    first = mechanism.release([1.0, 2.0])
    assert first.account.assumptions == {Assumption.TRUSTED_SENSITIVITY}
    later = mechanism.diffuse(first, time=2.0)
    assert later.account.assumptions == {Assumption.TRUSTED_SENSITIVITY, Assumption.IDEAL_REALS}
    levels = MultilevelRelease(base=mechanism, times=(1.0, 4.0))
    release = levels.release([1.0, 2.0])
    assert release.account.assumptions == {Assumption.TRUSTED_SENSITIVITY}
    apart = [Assumption.IDEAL_REALS in level.account.assumptions for level in levels.split_levels(release)]
    assert apart == [False, True, True]


def test_a_diffusion_lies_on_its_grid_where_it_does_not_shrink():
    coarse = replace(BROWNIAN, grid=0.25)
    release = coarse.release([0.3, -1.7])
    assert release.grid == {"statistic": 0.25}
    assert (release["statistic"] % 0.25 == 0).all()
    assert replace(OrnsteinUhlenbeck(sensitivity=1, theta=1, rho=1, time=1), grid=0.25).release(1.0).grid is None


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (1.15, False)])
@each
def test_a_path_has_the_distribution_of_its_diffusion(mechanism, factor, accepted, rng, alpha):
    """The levels' joint distribution: normal, with the covariances of the diffusion."""
    start, n = mechanism.distribution, 20_000
    many = mechanism.at(0.5)
    wide = type(many)(**{name: getattr(many, name) for name in many.__dataclass_fields__} | {"shape": (n,)})
    first, last = MultilevelRelease(base=wide, times=(1.5,)).release(np.full(n, 2.0), rng=rng)["statistic"]
    step = (last - factor * start.shrink(1.0) * first) / np.sqrt(start.variance(1.0))
    begin = (first - 2.0 * start.shrink(0.5)) / np.sqrt(start.variance(0.5))
    whole = (last - 2.0 * start.shrink(1.5)) / np.sqrt(start.variance(1.5))
    assert (stats.kstest(step, "norm").pvalue > alpha) == accepted
    assert stats.kstest(begin, "norm").pvalue > alpha
    assert stats.kstest(whole, "norm").pvalue > alpha
    assert abs(np.corrcoef(begin, step)[0, 1]) * np.sqrt(n) < stats.norm.isf(alpha / 2) or not accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (2.0, False)])
@pytest.mark.parametrize("dimension", [1, 10, 1000])
def test_the_error_meets_theorem_8(dimension, factor, accepted, rng, alpha):
    """Worst-case error d s^2 R^2/(2 eps R^2 + d s^2); the mutant doubles the noise."""
    rate, radius, runs = 0.3, 2.0, 400_000 // dimension
    made = OrnsteinUhlenbeck.optimal(sensitivity=1.5, radius=radius, zcdp=rate, shape=(dimension,))
    assert made.accountant.zcdp <= rate
    assert made.accountant.zcdp == pytest.approx(rate, rel=1e-12)
    claim = dimension * 1.5**2 * radius**2 / (2 * rate * radius**2 + dimension * 1.5**2)
    assert made.mean_squared_error(radius) == pytest.approx(claim, rel=1e-9)
    truth = rng.normal(size=dimension)
    truth *= radius / np.linalg.norm(truth)
    kept = made.distribution.shrink(1.0)
    if dimension == 1000:  # whole releases, one by one
        drawn = np.array([made.release(truth, rng=rng)["statistic"][0] for _ in range(runs)])
    else:
        drawn = made.distribution.step(np.broadcast_to(truth, (runs, dimension)), 1.0, rng)
    drawn = kept * truth + factor * (drawn - kept * truth)
    errors = ((drawn - truth) ** 2).sum(axis=1)
    away = abs(errors.mean() - claim) / (errors.std() / np.sqrt(runs))
    assert (away < stats.norm.isf(alpha / 2) + 0.5) == accepted


def test_theorem_8_is_the_least_error():
    """No other theta of the same cost has less worst-case error, and Gaussian noise has more."""
    rate, radius, shape = 0.2, 1.5, (7,)
    made = OrnsteinUhlenbeck.optimal(sensitivity=1.0, radius=radius, zcdp=rate, shape=shape)
    best = made.mean_squared_error(radius)
    for theta in made.theta * np.array([0.2, 0.7, 0.99, 1.01, 1.5, 4.0]):
        rho = np.sqrt(theta / (2 * rate * np.expm1(2 * theta)))
        other = OrnsteinUhlenbeck(sensitivity=1.0, theta=theta, rho=rho, time=1.0, shape=shape)
        assert other.accountant.zcdp == pytest.approx(rate)
        assert other.mean_squared_error(radius) > best
    gaussian = BrownianMotion.calibrate(sensitivity=1.0, target=ZCDP(rho=rate), shape=shape)
    assert gaussian.mean_squared_error(radius) == pytest.approx(7 / (2 * rate), rel=1e-6)
    assert best / gaussian.mean_squared_error(radius) == pytest.approx(1 / (1 + 7 / (2 * rate * radius**2)), rel=1e-6)


def test_parameters():
    made = BrownianMotion.calibrate(sensitivity=3.0, target=DP(epsilon=1.0, delta=1e-6))
    assert made.accountant.epsilon(1e-6) <= 1.0
    assert BrownianMotion(sensitivity=1, time=1).release(0.0)["statistic"].shape == (1,)
    assert OrnsteinUhlenbeck.optimal(sensitivity=1, radius=1, zcdp=1).mean_squared_error(1) == pytest.approx(1 / 3)
    for name, bad in [("time", 0), ("time", np.nan), ("theta", -1), ("rho", np.inf), ("sensitivity", 0)]:
        with pytest.raises(ValueError, match=name):
            OrnsteinUhlenbeck(**{"sensitivity": 1, "theta": 1, "rho": 1, "time": 1} | {name: bad})
    with pytest.raises(ValueError, match="must be shorter"):
        OrnsteinUhlenbeck(sensitivity=1, theta=1, rho=1, time=1e4)
    with pytest.raises(ValueError, match="shape"):
        BrownianMotion(sensitivity=1, time=1, shape=(0,))


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_noise_whose_square_no_double_holds_is_still_added(unit):
    small = OrnsteinUhlenbeck(sensitivity=unit, theta=0.7, rho=unit, time=0.5, shape=(2,))
    same = OrnsteinUhlenbeck(sensitivity=1.0, theta=0.7, rho=1.0, time=0.5, shape=(2,))
    drawn, plain = (
        made.diffuse(made.release([at, 2 * at], rng=np.random.default_rng(4)), time=2.0, rng=np.random.default_rng(5))
        for made, at in ((small, unit), (same, 1.0))
    )
    assert drawn["statistic"] / unit == pytest.approx(plain["statistic"], rel=1e-12)
    assert small.accountant.zcdp == pytest.approx(same.accountant.zcdp)
