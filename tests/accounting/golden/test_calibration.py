"""Calibrated parameters against the signs of the cost in high precision: within 1e-9, and on the safe side."""

import itertools

import mpmath as mp
import pytest

from privsample import (
    DP,
    RDP,
    ZCDP,
    BetaBernoulli,
    ConcentratedPosterior,
    DiffusedPosterior,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    GaussianMechanism,
    LaplaceMechanism,
    NormalKnownVariance,
    RandomizedResponse,
    ReplaceOne,
)
from tests.accounting.golden import reference
from tests.cases import in_one_test

RELATIVE = 1e-9


ROUNDING = 4e-15  # of the certified value itself, which is a float


def check_largest(found, excess):
    """A parameter that costs more the larger it is: at most the root of the excess, and within 1e-9 of it."""
    if found == 1.0:
        assert excess(mp.mpf(1)) <= 0
        return
    assert excess(mp.mpf(found) / (1 + ROUNDING)) <= 0 <= excess(mp.mpf(found) / (1 - RELATIVE))


def check_smallest(found, excess):
    """A parameter that costs less the larger it is: at least the root of the excess, and within 1e-9 of it."""
    if found == 1.0:
        assert excess(mp.mpf(1)) <= 0
        return
    assert excess(mp.mpf(found) / (1 - ROUNDING)) <= 0 <= excess(mp.mpf(found) / (1 + RELATIVE))


def both(curve, p, q):
    return max(curve(p, q), curve(q, p))


MODELS = [
    (
        BetaBernoulli(alpha=6, beta=12),
        lambda order, n, r, m: both(
            lambda p, q: reference.renyi_beta(order, p, q), (6 / m + r, 12 / m + r * (n - 1)), (6 / m, 12 / m + r * n)
        ),
    ),
    (
        DirichletCategorical(alpha=(3, 5, 2)),
        lambda order, n, r, m: both(
            lambda p, q: reference.renyi_dirichlet(order, p, q),
            (3 / m, 5 / m + r * (n - 1), 2 / m + r),
            (3 / m + r, 5 / m + r * (n - 1), 2 / m),
        ),
    ),
    (
        GammaPoisson(shape=3, rate=2, upper=20),
        lambda order, n, r, m: both(
            lambda p, q: reference.renyi_gamma(order, p, q), (3 / m + 20 * r, 2 / m + r * n), (3 / m, 2 / m + r * n)
        ),
    ),
    (
        GammaExponential(shape=3, rate=2, upper=0.5),
        lambda order, n, r, m: both(
            lambda p, q: reference.renyi_gamma(order, p, q), (3 / m + r * n, 2 / m), (3 / m + r * n, 2 / m + r / 2)
        ),
    ),
    (
        NormalKnownVariance(mean=0, variance=2, noise_variance=4, bounds=(-1, 1)),
        lambda order, n, r, m: order * (r / 2) ** 2 / (2 * (1 / (2 * m) + r * n / 4)),
    ),
]


@in_one_test(itertools.product(MODELS, [1, 1000, 10**12], [(2.0, 0.01), (1.0625, 1e-6), (64.0, 0.5)]))
def test_renyi_targets(of_model, n, at):
    (model, curve), (order, epsilon) = of_model, at
    target = RDP(order=order, epsilon=epsilon)
    with reference.at(110):
        for mechanism, name in ((DiffusedPosterior, "data_weight"), (ConcentratedPosterior, "prior_weight")):
            found = mechanism.calibrate(model=model, n=n, target=target)
            parameter = getattr(found, name)
            assert target.met_by(found.accountant)

            def excess(x, by_weight=name == "data_weight"):
                r, m = (x, mp.mpf(1)) if by_weight else (mp.mpf(1), x)
                return mp.log(curve(mp.mpf(order), n, r, m)) - mp.log(mp.mpf(epsilon))

            if name == "data_weight":
                check_largest(parameter, excess)
            else:
                check_smallest(parameter, lambda w, excess=excess: excess(1 / w))


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.5, 1e-9), (3.0, 0.01)])
def test_dp_targets_of_beta_bernoulli(epsilon, delta):
    n, target = 3, DP(epsilon=epsilon, delta=delta)

    def curves(x, by_weight):
        """Each sum of the other records, both directions: how far log delta lies above the target's."""
        r, m = (x, mp.mpf(1)) if by_weight else (mp.mpf(1), x)
        ends = [(6 / m + r * s, 12 / m + r * (n - 1 - s)) for s in range(n)]
        return [
            lambda a=a, b=b: reference.log_delta_beta_by_tails(epsilon, (a + r, b), (a, b + r)) - mp.log(mp.mpf(delta))
            for one, other in ends
            for a, b in ((one, other), (other, one))
        ]

    with reference.at(30):
        model = BetaBernoulli(alpha=6, beta=12)
        for mechanism, name in ((DiffusedPosterior, "data_weight"), (ConcentratedPosterior, "prior_weight")):
            found = getattr(mechanism.calibrate(model=model, n=n, target=target), name)
            by_weight = name == "data_weight"
            values = [curve() for curve in curves(mp.mpf(found) if by_weight else 1 / mp.mpf(found), by_weight)]
            worst = values.index(max(values))
            if by_weight:
                check_largest(found, lambda x, k=worst: curves(x, True)[k]())
            else:
                check_smallest(found, lambda x, k=worst: curves(1 / x, False)[k]())


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.25, 1e-12), (3.0, 0.01)])
def test_dp_targets_of_gamma_models(epsilon, delta):
    target = DP(epsilon=epsilon, delta=delta)

    def excess(p, q):
        worst = both(lambda one, other: reference.log_delta_gamma_by_tails(epsilon, one, other), p, q)
        return worst - mp.log(mp.mpf(delta))

    with reference.at(40):
        poisson = DiffusedPosterior.calibrate(model=GammaPoisson(shape=3, rate=2, upper=20), n=9, target=target)
        check_largest(poisson.data_weight, lambda r: excess((3 + 20 * r, mp.mpf(1)), (mp.mpf(3), mp.mpf(1))))
        times = DiffusedPosterior.calibrate(model=GammaExponential(shape=3, rate=2, upper=5), n=9, target=target)
        check_largest(times.data_weight, lambda r: excess((3 + 9 * r, 2 + 5 * r), (3 + 9 * r, mp.mpf(2))))


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (1e-3, 1e-9), (30.0, 1e-300), (0.5, 0.3)])
def test_dp_targets_of_gaussian_noise(epsilon, delta):
    target = DP(epsilon=epsilon, delta=delta)
    with reference.at(340):
        for draws in (1, 50):
            found = GaussianMechanism.calibrate(sensitivity=3.0, target=target, draws=draws)
            check_smallest(
                found.noise_std,
                lambda x, k=draws: reference.log_delta_normal(epsilon, 3 * mp.sqrt(k) / x) - mp.log(mp.mpf(delta)),
            )


def test_targets_with_closed_roots():
    gaussian = GaussianMechanism.calibrate(sensitivity=2.0, target=ZCDP(rho=0.125))
    assert 4.0 <= gaussian.noise_std <= 4.0 * (1 + RELATIVE)
    laplace = LaplaceMechanism.calibrate(sensitivity=2.0, target=DP(epsilon=0.5))
    assert 4.0 <= laplace.scale <= 4.0 * (1 + RELATIVE)
    response = RandomizedResponse.calibrate(relation=ReplaceOne(n=3), target=DP(epsilon=0.5), categories=4)
    assert 0.5 * (1 - RELATIVE) <= response.log_odds <= 0.5 * (1 + ROUNDING)
