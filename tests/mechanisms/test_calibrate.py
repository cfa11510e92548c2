"""Calibrated mechanisms meet their target; a parameter a millionth further does not; what cannot be met is refused."""

import dataclasses
import itertools

import pytest

from privsample import (
    DP,
    RDP,
    ZCDP,
    AddRemove,
    BetaBernoulli,
    BetaQuery,
    ConcentratedPosterior,
    DiffusedPosterior,
    DirectPosterior,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    GaussianMechanism,
    LaplaceMechanism,
    NormalKnownVariance,
    RandomizedResponse,
    ReplaceOne,
)
from privsample.errors import UnreachableTarget

MODELS = [
    BetaBernoulli(alpha=6, beta=12),
    BetaBernoulli(alpha=6, beta=12, fractional=True),
    DirichletCategorical(alpha=(2, 3, 4)),
    DirichletCategorical(alpha=(2, 3)),
    GammaPoisson(shape=3, rate=1, upper=5),
    GammaExponential(shape=3, rate=2, upper=1.5),
    NormalKnownVariance(mean=0, variance=1, noise_variance=2, bounds=(-1, 1)),
]
RENYI_OR_DP = [RDP(order=2, epsilon=0.02), RDP(order=30, epsilon=0.1), DP(epsilon=0.3, delta=1e-6)]
ALL = [*RENYI_OR_DP, ZCDP(rho=0.01)]
PURE = [*ALL, DP(epsilon=0.3)]
BEYOND = 1e-6


def check(made, field, target, *, larger_costs_more):
    """On the safe side, and so close to the edge that a millionth further is beyond it."""
    assert target.met_by(made.accountant)
    factor = 1 + BEYOND if larger_costs_more else 1 - BEYOND
    further = dataclasses.replace(made, **{field: getattr(made, field) * factor})
    assert not target.met_by(further.accountant)


@pytest.mark.parametrize("target", RENYI_OR_DP, ids=str)
@pytest.mark.parametrize(
    ("model", "draws"),
    [  # several draws of two models: the composition follows the same path for all
        pytest.param(model, draws, marks=pytest.mark.long if draws > 1 and model not in MODELS[:2] else ())
        for model, draws in itertools.product(MODELS, (1, 3))
    ],
    ids=lambda item: str(item) if isinstance(item, int) else type(item).__name__,
)
def test_posteriors(model, target, draws):
    for mechanism, field in ((DiffusedPosterior, "data_weight"), (ConcentratedPosterior, "prior_weight")):
        made = mechanism.calibrate(model=model, n=40, target=target, draws=draws)
        assert made.draws == draws
        if getattr(made, field) != 1:
            check(made, field, target, larger_costs_more=field == "data_weight")
        else:
            assert target.met_by(made.accountant)


@pytest.mark.parametrize("target", RENYI_OR_DP, ids=str)
@pytest.mark.parametrize("by", ["data_weight", "prior_weight"])
def test_queries(by, target):
    made = BetaQuery.calibrate(alpha=2, beta=3, bounds=(0, 9), n=40, target=target, by=by)
    check(made, by, target, larger_costs_more=by == "data_weight")
    with pytest.raises(ValueError, match="by must be"):
        BetaQuery.calibrate(alpha=2, beta=3, bounds=(0, 9), n=40, target=target, by="n")


def test_a_weight_of_one_is_returned_where_it_is_enough():
    made = DiffusedPosterior.calibrate(model=MODELS[0], n=40, target=RDP(order=2, epsilon=50))
    assert made.data_weight == 1.0
    target = ZCDP(rho=0.01)
    normal = DiffusedPosterior.calibrate(model=MODELS[-1], n=40, target=target)
    assert target.met_by(normal.accountant)


@pytest.mark.parametrize("target", ALL, ids=str)
@pytest.mark.parametrize("draws", [1, 7])
def test_gaussian_noise(target, draws):
    made = GaussianMechanism.calibrate(sensitivity=3, target=target, draws=draws, shape=(2,), relation=ReplaceOne(n=3))
    assert (made.draws, made.shape, made.relation) == (draws, (2,), ReplaceOne(n=3))
    check(made, "noise_std", target, larger_costs_more=False)


@pytest.mark.parametrize(
    ("target", "draws"),
    [
        *((target, 1) for target in PURE),
        *((target, 7) for target in PURE if target != PURE[2]),
        pytest.param(PURE[2], 7, marks=pytest.mark.long),  # test_posteriors calibrates a composition to this target
    ],
    ids=str,
)
def test_laplace_noise(target, draws):
    made = LaplaceMechanism.calibrate(sensitivity=3, target=target, draws=draws)
    check(made, "scale", target, larger_costs_more=False)


@pytest.mark.parametrize("target", PURE, ids=str)
@pytest.mark.parametrize("categories", [2, 5])
def test_randomized_response(target, categories):
    for relation, slots in ((ReplaceOne(n=3), None), (AddRemove(), 8)):
        made = RandomizedResponse.calibrate(relation=relation, target=target, categories=categories, slots=slots)
        check(made, "log_odds", target, larger_costs_more=True)


def test_direct_posterior_meets_the_target_or_refuses():
    target = RDP(order=2, epsilon=5)
    assert target.met_by(DirectPosterior.calibrate(model=MODELS[0], n=40, target=target).accountant)
    with pytest.raises(UnreachableTarget, match="diffused"):
        DirectPosterior.calibrate(model=MODELS[0], n=40, target=RDP(order=2, epsilon=1e-4))
    with pytest.raises(UnreachableTarget, match="diffused"):
        DirectPosterior.calibrate(model=MODELS[0], n=40, target=DP(epsilon=1e-4, delta=1e-6))


def test_an_order_above_the_limit_names_the_limit():
    with pytest.raises(UnreachableTarget, match=r"from order 7 on, and the target has order 8.*larger prior"):
        DirectPosterior.calibrate(model=MODELS[0], n=40, target=RDP(order=8, epsilon=100))


def test_unreachable_targets():
    with pytest.raises(UnreachableTarget, match="delta > 0"):
        DiffusedPosterior.calibrate(model=MODELS[0], n=40, target=DP(epsilon=1))
    with pytest.raises(UnreachableTarget, match="RDP or DP"):
        DiffusedPosterior.calibrate(model=MODELS[0], n=40, target=ZCDP(rho=1))
    with pytest.raises(UnreachableTarget, match="from order 7 on; use a target of kind RDP or DP"):
        DirectPosterior.calibrate(model=MODELS[0], n=40, target=ZCDP(rho=1))
    with pytest.raises(UnreachableTarget, match="delta > 0"):
        GaussianMechanism.calibrate(sensitivity=1, target=DP(epsilon=1))


@pytest.mark.parametrize(
    "build",
    [
        lambda: RDP(order=1, epsilon=1),
        lambda: RDP(order=float("nan"), epsilon=1),
        lambda: RDP(order=float("inf"), epsilon=1),
        lambda: RDP(order=2, epsilon=0),
        lambda: DP(epsilon=0, delta=0.1),
        lambda: DP(epsilon=1, delta=1),
        lambda: DP(epsilon=1, delta=-0.1),
        lambda: DP(epsilon=float("nan")),
        lambda: ZCDP(rho=0),
        lambda: ZCDP(rho=float("inf")),
    ],
)
def test_bad_targets(build):
    with pytest.raises(ValueError, match="must"):
        build()
