"""Chains of Lipschitz maps with noise: their accounts, their draws, and stated constants that are too small."""

import numpy as np
import pytest
from scipy import stats

from privsample import (
    Affine,
    Ball,
    Box,
    BrownianMotion,
    ContractionAccountant,
    GaussianMechanism,
    LaplaceMechanism,
    MarkovKernel,
    MultilevelRelease,
    NoisyContraction,
    NoisyStep,
    PureAccountant,
    RandomizedResponse,
    RecordSensitivity,
    Release,
    ReplaceOne,
    Scaling,
    StatedMap,
)
from privsample.accounting.postprocessing.contraction import contracted

BASE = GaussianMechanism(sensitivity=1.0, noise_std=2.0, shape=(2,))
TURN = Affine(matrix=[[0.6, 0.3], [-0.3, 0.6]], offset=[1.0, 0.0])
LOCAL = RandomizedResponse(log_odds=1, relation=ReplaceOne(n=3))
CHAIN = NoisyContraction(
    base=BASE,
    steps=(
        NoisyStep(map=TURN, noise_std=0.5, onto=Ball(radius=3.0)),
        NoisyStep(map=Scaling(factor=1.2), noise_std=0.3),
        NoisyStep(map=Scaling(factor=-0.5, offset=1.0), noise_std=0.0, onto=Box(low=-2.0, high=2.0)),
    ),
)


def test_the_account_wraps_the_bases():
    noises, constants = (0.5, 0.3, 0.0), (TURN.constant, 1.2, 0.5)
    assert CHAIN.accountant == contracted(BASE.accountant, noises, constants)
    assert CHAIN.accountant == ContractionAccountant(sensitivity=1.0, noise_stds=(2.0, *noises), constants=constants)
    assert CHAIN.accountant.zcdp < BASE.accountant.zcdp
    assert "1 of them without contraction" in CHAIN.accountant.explain(1e-6)[0].name
    further = NoisyContraction(base=CHAIN, steps=[NoisyStep(map=Scaling(factor=0.5), noise_std=1.0)])
    assert further.accountant.constants == (*constants, 0.5)
    assert further.release([0.0, 1.0])["statistic"].shape == (1, 2)
    several = NoisyContraction(
        base=GaussianMechanism(sensitivity=1, noise_std=2, draws=3),
        steps=[NoisyStep(map=Box(low=0, high=1), noise_std=1)],
    )
    one = ContractionAccountant(sensitivity=1, noise_stds=(2, 1), constants=(1,))
    assert several.accountant == 3 * one
    assert several.release(0.5)["statistic"].shape == (3,)
    pair = NoisyContraction(base=several, steps=[NoisyStep(map=Affine(matrix=[[1.0], [0.5]]), noise_std=1)])
    assert pair.release(0.5)["statistic"].shape == (3, 2)
    assert pair.accountant.entries[0][1] == 3
    assert contracted(one, (), ()) == one


def test_draws_and_files():
    release = CHAIN.release([0.5, -0.5])
    assert np.abs(release["statistic"]).max() <= 2.0
    far = Affine(matrix=[[1e300, -1e300], [1.0, 0.0]])  # more than a double holds
    ends = NoisyContraction(base=BASE, steps=[NoisyStep(map=far, noise_std=0.1)]).release([1.7e308, 1.7e308])
    assert Release.from_json(ends.to_json()) == ends
    assert Release.from_json(release.to_json()) == release
    assert CHAIN.of(BASE.release([0.5, -0.5])).account == CHAIN.accountant
    own = NoisyContraction(base=BASE, steps=[NoisyStep(map=StatedMap(function=np.tanh, stated=1.0), noise_std=1.0)])
    with pytest.raises(TypeError, match="function cannot be saved"):
        own.release([0.5, 1.0]).to_json()


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (1.5, False)])
def test_the_last_state_has_its_distribution(factor, accepted, rng, alpha):
    base = GaussianMechanism(sensitivity=1.0, noise_std=2.0, draws=20_000)
    steps = [
        NoisyStep(map=Scaling(factor=0.5, offset=1.0), noise_std=1.5 * factor),
        NoisyStep(map=Scaling(factor=2), noise_std=1),
    ]
    draws = NoisyContraction(base=base, steps=steps).release(3.0, rng=rng)["statistic"]
    distribution = stats.norm(5.0, np.sqrt((2.0 * 0.5 * 2) ** 2 + (1.5 * 2) ** 2 + 1))
    assert (stats.kstest(draws, distribution.cdf).pvalue > alpha) == accepted


def test_derived_constants_hold_and_projections_are_nearest(rng):
    maps = [TURN, Scaling(factor=-0.7, offset=2.0), Ball(radius=1.0, centre=[0.5, 0.5]), Box(low=-1, high=0.5)]
    x, y = rng.normal(scale=3.0, size=(2, 2000, 2))
    for each in maps:
        moved = np.linalg.norm(each(x) - each(y), axis=1)
        assert (moved <= each.constant * np.linalg.norm(x - y, axis=1) * (1 + 1e-12)).all()
    ball = maps[2]
    assert np.linalg.norm(ball(x) - 0.5, axis=1).max() <= 1 + 1e-12
    assert (ball(np.array([[0.6, 0.4]])) == [[0.6, 0.4]]).all()
    assert np.isfinite(Ball(radius=1.0)(np.array([1e308, 1e308]))).all()


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: NoisyStep(map=TURN, noise_std=1, constant=0.6), ValueError, "constant must be at least"),
        (lambda: NoisyStep(map=TURN, noise_std=-1), ValueError, "noise_std"),
        (lambda: NoisyStep(map=TURN, noise_std=np.nan), ValueError, "noise_std"),
        (lambda: NoisyStep(map=np.tanh, noise_std=1), TypeError, "StatedMap"),
        (lambda: NoisyStep(map=TURN, noise_std=1, onto=Scaling(factor=0.1)), TypeError, "onto"),
        (lambda: NoisyStep(map=TURN, noise_std=1, constant=np.nan), ValueError, "constant"),
        (lambda: NoisyContraction(base=BASE, steps=[]), TypeError, "at least one"),
        (lambda: NoisyContraction(base=BASE, steps=[TURN]), TypeError, "NoisyStep"),
        (
            lambda: NoisyContraction(base=BASE, steps=[NoisyStep(map=Affine(matrix=np.eye(3)), noise_std=1)]),
            ValueError,
            r"shape \(2,\)",
        ),
        (
            lambda: NoisyContraction(base=LaplaceMechanism(sensitivity=1, scale=1), steps=CHAIN.steps),
            TypeError,
            "Gaussian",
        ),
        (lambda: contracted(PureAccountant(stated_epsilon=1), (1.0,), (1.0,)), TypeError, "after Gaussian noise"),
        (lambda: Affine(matrix=[1.0]), ValueError, "matrix"),
        (lambda: Affine(matrix=np.eye(2), offset=[1.0, 2.0, 3.0]), ValueError, "offset"),
        (
            lambda: NoisyContraction(base=CHAIN, steps=[NoisyStep(map=Ball(radius=1, centre=[0.0]), noise_std=1)]),
            ValueError,
            "centre has shape",
        ),
        (lambda: Ball(radius=0), ValueError, "radius"),
        (lambda: Ball(radius=1, centre=np.inf), ValueError, "centre"),
        (lambda: Box(low=1, high=1), ValueError, "below high"),
        (lambda: Scaling(factor=np.nan), ValueError, "factor"),
        (lambda: StatedMap(function=3, stated=1), TypeError, "function"),
        (lambda: StatedMap(function=np.tanh, stated=-1), ValueError, "stated"),
    ],
)
def test_bad_input(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_a_larger_stated_constant_is_used():
    step = NoisyStep(map=Scaling(factor=0.5), noise_std=1, constant=0.9)
    made = NoisyContraction(base=BASE, steps=[step])
    assert made.accountant.constants == (0.9,)
    bare = NoisyContraction(base=GaussianMechanism(sensitivity=1, noise_std=1), steps=[step])
    assert bare.shape == ()
    with pytest.raises(TypeError, match="GaussianMechanism or a NoisyContraction"):
        NoisyContraction.shape.fget(type("Other", (), {"base": None})())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: NoisyContraction(base=3, steps=CHAIN.steps), "base must be a GaussianMechanism"),
        (lambda: NoisyContraction(base=CHAIN.base, steps=None), "steps must be a list, got None"),
        (lambda: GaussianMechanism(sensitivity=1, noise_std=1, shape=3), "shape must be a list, got 3"),
        (lambda: BrownianMotion(sensitivity=1, time=1, shape="12"), "shape must be a list, got '12'"),
        (
            lambda: MultilevelRelease(base=BrownianMotion(sensitivity=1, time=1), times=2.0),
            "times must be a list, got 2.0",
        ),
        (lambda: RecordSensitivity(differences=[[1]], l2="long"), "l2 must be a number"),
        (lambda: RecordSensitivity(differences=10**400), "differences must be real numbers"),
        (lambda: MarkovKernel(base=LOCAL, matrix=10**400), "matrix must be real numbers"),
    ],
)
def test_what_is_no_list_and_no_number_is_refused_in_words(build, message):
    with pytest.raises(TypeError, match=message):
        build()
