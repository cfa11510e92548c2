"""Accounts of a user's kernel from its stated constants: never below the exact ones, and translations."""

import numpy as np
import pytest
from scipy import integrate, stats

import privsample as ps
from privsample.accounting.postprocessing.mixing import MixingConstants

EPSILONS = np.array([0.0, 0.1, 0.5, 1.0, 1.9])
ORDERS = np.array([1.1, 2.0, 8.0, 100.0])
BASE = ps.RandomizedResponseAccountant(log_odds=2.0, categories=3, relation=ps.ReplaceOne(n=1))


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 6))])
def test_it_is_never_below_the_exact_account_of_a_matrix(seed):
    matrix = np.random.default_rng(seed).dirichlet(np.full(4, [0.3, 1.0, 10.0][seed % 3]), size=3)
    constants, exact = MixingConstants(matrix=matrix), ps.KernelAccountant(base=BASE, matrix=matrix)
    ultra = float(-np.expm1(-constants.log_range))
    for stated in (
        {"dobrushin": constants.dobrushin},
        {"doeblin": constants.doeblin},
        {"ultra_mixing": ultra},
        {"dobrushin": constants.dobrushin, "doeblin": constants.doeblin, "ultra_mixing": ultra},
    ):
        account = ps.AppliedKernelAccountant(base=BASE, **stated)
        assert (account.delta(EPSILONS) >= exact.delta(EPSILONS) * (1 - 1e-12)).all()
        assert (account.rdp(ORDERS) >= exact.rdp(ORDERS) * (1 - 1e-12)).all()
        assert account.pure_epsilon >= exact.pure_epsilon * (1 - 1e-12)
        assert (account.rdp(ORDERS) <= BASE.rdp(ORDERS) * (1 + 1e-9)).all()
        assert account.kind("delta") == "upper bound"
        assert account.group(2).delta(1.0) >= account.delta(1.0)


def _points_of(matrix, epsilons):
    """The hockey-stick divergences of the worst two rows."""
    return [
        (e, max(np.maximum(row - np.exp(e) * other, 0.0).sum() for row in matrix for other in matrix)) for e in epsilons
    ]


@pytest.mark.parametrize("seed", range(6))
def test_privacy_points_of_a_kernel_are_never_below_the_exact_account(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.full(4, [0.3, 1.0, 10.0][seed % 3]), size=3)
    exact = ps.KernelAccountant(base=BASE, matrix=matrix)
    points = _points_of(matrix, rng.uniform(0.0, 3.0, size=int(rng.integers(1, 5))))
    account = ps.AppliedKernelAccountant(base=BASE, privacy_points=points)
    fine = np.linspace(0.0, 2.5, 26)
    assert (account.delta(fine) >= exact.delta(fine) * (1 - 1e-12)).all()
    assert (account.rdp(ORDERS) >= exact.rdp(ORDERS) * (1 - 1e-12)).all()
    assert (account.delta(fine) <= BASE.delta(fine) * (1 + 1e-9)).all()


def test_part_2_of_theorem_1_is_sharper_than_part_1():
    """Randomized response as the kernel. With the square of delta in the inner epsilon, the bound is refuted."""
    matrix = (np.eye(3) * np.expm1(1.0) + 1.0) / (np.e + 2.0)
    points = np.array(_points_of(matrix, np.linspace(0.0, 1.0, 21)))
    points[-1, 1] = 0.0  # at epsilon 1, where rounding leaves 1e-17
    whole = ps.AppliedKernelAccountant(base=BASE, privacy_points=points)
    first = ps.AppliedKernelAccountant(base=BASE, dobrushin=points[0, 1])
    exact = ps.KernelAccountant(base=BASE, matrix=matrix)
    assert whole.pure_epsilon <= 1.0
    assert (whole.delta(EPSILONS[1:]) < 0.97 * first.delta(EPSILONS[1:])).all()
    for epsilon in (0.1, 0.3):
        delta = float(BASE.delta(epsilon))
        wrong = np.interp(np.log1p(np.expm1(epsilon) / delta**2), *points.T) * delta
        assert wrong * 1.001 < float(exact.delta(epsilon)) <= float(whole.delta(epsilon)) * (1 + 1e-12)


@pytest.mark.parametrize("points", [[(-1.0, 0.5)], [(1.0, 1.5)], [(np.nan, 0.5)], [1.0, 0.5], [], [(np.inf, 0.0)]])
def test_bad_privacy_points_are_refused(points):
    for build in (
        lambda: ps.AppliedKernelAccountant(base=BASE, privacy_points=points),
        lambda: ps.StatedKernel(function=lambda x, rng: x, privacy_points=points),
    ):
        with pytest.raises(ValueError, match="privacy_points must"):
            build()


def test_each_part_of_theorem_1():
    base, gamma, epsilon = ps.PureAccountant(stated_epsilon=1.0), 0.3, np.log1p(0.3 * np.expm1(1.0))
    by_ultra = ps.AppliedKernelAccountant(base=base, ultra_mixing=gamma)
    assert by_ultra.pure_epsilon <= epsilon
    by_doeblin = ps.AppliedKernelAccountant(base=base, doeblin=gamma)
    assert by_doeblin.delta(epsilon) <= gamma * (1 - np.exp(epsilon - 1.0)) * (1 + 1e-9)
    by_dobrushin = ps.AppliedKernelAccountant(base=base, dobrushin=gamma)
    assert by_dobrushin.delta(0.4) == pytest.approx(gamma * base.delta(0.4), rel=1e-9)
    nothing = ps.AppliedKernelAccountant(base=base, dobrushin=0.0)
    assert nothing.pure_epsilon == 0.0
    assert nothing.delta(0.0) == 0.0


def test_further_gaussian_noise_is_theorem_2_exactly():
    base = ps.GaussianAccountant(sensitivity=1.5, noise_std=2.0, relation=ps.ReplaceOne(n=4))
    account = ps.AppliedKernelAccountant(base=base, displacement_zcdp=1 / (2 * 1.5**2))
    same = ps.GaussianAccountant(sensitivity=1.5, noise_std=2.5)
    assert account.zcdp == pytest.approx(same.zcdp, rel=1e-12)
    assert account.rdp(ORDERS) == pytest.approx(same.rdp(ORDERS), rel=1e-12)
    assert account.delta(1.0) >= same.delta(1.0)
    assert account.group(3).zcdp == pytest.approx(9 * account.zcdp, rel=1e-12)
    assert account.relation == ps.ReplaceOne(n=4)
    assert account.source.startswith("Balle, Barthe, Gaboardi and Geumlek 2019, Theorems 1 and 2")
    assert {ps.Assumption.STATED, ps.Assumption.TRUSTED_SENSITIVITY} <= account.assumptions


def test_laplace_noise_after_gaussian_noise_is_covered():
    """The sum of both noises by quadrature; the kernel's Rényi divergence is at most a s^2/(2 b^2)."""
    scale = 1.3
    account = ps.AppliedKernelAccountant(
        base=ps.GaussianAccountant(sensitivity=1.0, noise_std=0.8), displacement_zcdp=1 / (2 * scale**2)
    )

    def log_density(x):
        u, v = x / 0.8 - 0.8 / scale, -x / 0.8 - 0.8 / scale
        return np.logaddexp(-x / scale + stats.norm.logcdf(u), x / scale + stats.norm.logcdf(v))

    for order in (1.5, 3.0, 10.0):
        mass = integrate.quad(lambda x: np.exp(log_density(x)), -60, 60, limit=400)[0]
        moment = integrate.quad(
            lambda x, order=order: np.exp(order * log_density(x) + (1 - order) * log_density(x - 1.0)),
            -60,
            60,
            limit=400,
        )[0]
        truth = np.log(moment / mass) / (order - 1)
        assert truth <= account.rdp(order) <= 4 * truth


def test_bad_constants_are_refused():
    gaussian = ps.GaussianAccountant(sensitivity=1.0, noise_std=1.0)
    for name in ("dobrushin", "doeblin", "ultra_mixing"):
        for bad in (-0.1, 1.1, np.nan):
            with pytest.raises(ValueError, match=name):
                ps.AppliedKernelAccountant(base=gaussian, **{name: bad})
    for bad in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="displacement_zcdp"):
            ps.AppliedKernelAccountant(base=gaussian, displacement_zcdp=bad)
    with pytest.raises(TypeError, match="displacement_zcdp needs a base of Gaussian noise"):
        ps.AppliedKernelAccountant(base=BASE, displacement_zcdp=1.0)
    with pytest.raises(TypeError, match="base must be an account"):
        ps.AppliedKernelAccountant(base=1.0)
