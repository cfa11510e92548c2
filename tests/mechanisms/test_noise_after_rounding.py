"""Steps after a release that was rounded to a coarse grid: refused, because the account would be below the truth."""

import numpy as np
import pytest
from scipy import stats

import privsample as ps

KERNEL = ps.StatedKernel(function=lambda x, rng: x + rng.normal(0.0, 0.3, x.shape), displacement_zcdp=1 / 0.18)


def _divergence(pitch):
    """R_2 of noise 0.3, rounded to the grid, plus noise 0.3, for the statistics 0 and 1, by the trapezoidal rule."""
    points = pitch * np.arange(-round(4 / pitch), round(4 / pitch) + 1)
    masses = np.diff(stats.norm.cdf(np.append(points, points[-1] + pitch) - pitch / 2, 0, 0.3))
    x = np.linspace(-6, 5, 20_001)

    def density(y):
        return masses @ stats.norm.pdf(y, points[:, None], 0.3)

    return float(np.log(np.trapezoid(density(x) ** 2 / density(x - 1), x)))


def test_rounding_in_between_may_cost_more_than_the_sum_of_both_noises():
    """A fine grid agrees with the account, a coarse one exceeds it, so that a coarse one must be refused."""
    account = ps.PostNoise(base=ps.GaussianMechanism(sensitivity=1, noise_std=0.3), noise=0.3).accountant
    reported = float(account.rdp(2.0))
    assert _divergence(1 / 64) == pytest.approx(reported, rel=1e-3)
    assert _divergence(1.0) > 1.06 * reported


@pytest.mark.parametrize(
    "build",
    [
        lambda grid: ps.PostNoise(base=ps.GaussianMechanism(sensitivity=1, noise_std=0.3, grid=grid), noise=0.3),
        lambda grid: ps.PostNoise(base=ps.LaplaceMechanism(sensitivity=1, scale=0.3, grid=grid), noise=0.3),
        lambda grid: ps.AppliedKernel(
            base=ps.GaussianMechanism(sensitivity=1, noise_std=0.3, grid=grid), kernel=KERNEL
        ),
        lambda grid: ps.NoisyContraction(
            base=ps.GaussianMechanism(sensitivity=1, noise_std=0.3, grid=grid),
            steps=(ps.NoisyStep(map=ps.Scaling(factor=1.0), noise_std=0.3),),
        ),
        lambda grid: ps.AppliedKernel(base=ps.GaussianSum(bounds=(0, 1), noise_std=0.3, grid=grid), kernel=KERNEL),
    ],
)
def test_coarse_grids_are_refused_and_fine_ones_are_not(build):
    for grid in (1.0, 2.0**-31):
        with pytest.raises(ValueError, match=r"grid must be at most 2\^-30 of the noise's scale 0.3"):
            build(grid)
    build(2.0**-32)
    build(None)


def test_a_kernel_that_states_mixing_constants_takes_any_grid():
    base = ps.GaussianMechanism(sensitivity=1, noise_std=0.3, grid=1.0)
    kernel = ps.StatedKernel(function=lambda x, rng: x, dobrushin=0.5)
    account = ps.AppliedKernel(base=base, kernel=kernel).accountant
    assert float(account.delta(1.0)) == pytest.approx(0.5 * float(base.accountant.delta(1.0)), rel=1e-9)


@pytest.mark.parametrize(
    "base",
    [ps.GaussianSum(bounds=(0, 2), noise_std=1), ps.ClippedSum(norm=2, width=3, noise_std=1)],
)
def test_sums_with_gaussian_noise_have_a_cost_of_displacements(base):
    """Gaussian noise after Gaussian noise, for which Theorem 2 is exact."""
    mechanism = ps.AppliedKernel(base=base, kernel=KERNEL)
    same = ps.GaussianAccountant(sensitivity=2, noise_std=np.hypot(1, 0.3))
    orders = np.array([1.5, 2.0, 20.0])
    assert mechanism.accountant.rdp(orders) == pytest.approx(same.rdp(orders), rel=1e-12)
    assert mechanism.release(np.ones((4, 3)) if isinstance(base, ps.ClippedSum) else np.ones(4))["sum"].shape[0] == 1


def test_a_later_time_after_a_coarse_grid_is_refused():
    """The release itself, and the path, are accounted exactly; only a later time alone is not."""
    for mechanism in (
        ps.BrownianMotion(sensitivity=1, time=0.09, grid=1.0),
        ps.OrnsteinUhlenbeck(sensitivity=1, theta=1, rho=1, time=0.1, grid=1.0),
    ):
        with pytest.raises(ValueError, match="in the base of a later time, got 1"):
            mechanism.diffuse(mechanism.release(0.0), time=0.18)
        levels = ps.MultilevelRelease(base=mechanism, times=(0.18,))
        with pytest.raises(ValueError, match="in the base of a later time, got 1"):
            levels.split_levels(levels.release(0.0))
