"""Random steps after a release: accounts wrap accounts, draws follow their distributions, and wrong releases are
refused.
"""

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample import (
    AddRemove,
    Assumption,
    GaussianMechanism,
    KernelAccountant,
    LaplaceMechanism,
    MarkovKernel,
    PostNoise,
    RandomizedResponse,
    Release,
    ReplaceOne,
)
from privsample.accounting.postprocessing.convolution import noise_after
from privsample.distributions.parametric.laplace_sum import LaplaceSum
from privsample.errors import SchemaError, UnreachableTarget

ANSWERS = RandomizedResponse(log_odds=2.0, relation=ReplaceOne(n=4), categories=3)
ROWS = np.array([[0.6, 0.4, 0.0], [0.0, 0.5, 0.5], [0.2, 0.2, 0.6]])
KERNEL = MarkovKernel(base=ANSWERS, matrix=ROWS)
NORMAL = GaussianMechanism(sensitivity=1.0, noise_std=2.0, shape=(3,), draws=2)
LAPLACE = LaplaceMechanism(sensitivity=1.0, scale=1.0)
STEPS = [KERNEL, KERNEL.after(3), PostNoise(base=NORMAL, noise=1.5), PostNoise(base=LAPLACE, noise=0.4)]
each = pytest.mark.parametrize("step", STEPS, ids=lambda s: type(s).__name__)


def data(mechanism):
    return np.arange(4) % 3 if isinstance(mechanism, MarkovKernel) else np.zeros(mechanism.base.shape)


@each
def test_a_step_is_a_mechanism(step):
    one, other = (step.release(data(step), rng=np.random.default_rng(3)) for _ in range(2))
    assert one == other
    assert Assumption.RNG_FRESH in one.account.assumptions
    assert Release.from_json(one.to_json()) == one
    fresh = step.release(data(step))
    assert fresh.account == step.accountant
    assert step.accountant.epsilon(1e-3) < step.base.accountant.epsilon(1e-3)
    assert step.validate(data(step)).text() == step.base.validate(data(step)).text()
    with pytest.raises(SchemaError):
        step.release(np.zeros(7))
    with pytest.raises(TypeError, match="seed"):
        step.release(data(step), rng=3)


@each
def test_a_step_follows_a_release(step):
    first = step.base.release(data(step))
    after = step.of(first)
    assert after.mechanism == step
    assert after.account == step.accountant
    assert {name: x.shape for name, x in after.draws.items()} == {name: x.shape for name, x in first.draws.items()}
    assert (
        Assumption.RNG_FRESH in step.of(step.base.release(data(step), rng=np.random.default_rng(1))).account.assumptions
    )
    assert Assumption.RNG_FRESH in step.of(first, rng=np.random.default_rng(1)).account.assumptions
    for wrong in (after, GaussianMechanism(sensitivity=1, noise_std=1).release(0.0)):
        with pytest.raises(ValueError, match="already processed elsewhere"):
            step.of(wrong)
    with pytest.raises(TypeError, match="follows a Release"):
        step.of(first.draws)


def test_accounts_wrap_accounts():
    assert KERNEL.accountant == KernelAccountant(base=ANSWERS.accountant, matrix=ROWS, assumptions=frozenset())
    twice = PostNoise(base=PostNoise(base=NORMAL, noise=1.5), noise=2.0)
    assert twice.accountant == noise_after(noise_after(NORMAL.accountant, 1.5), 2.0)
    assert twice.accountant.epsilon(1e-6) == pytest.approx(
        (2 * ps.GaussianAccountant(sensitivity=1, noise_std=np.sqrt(4 + 2.25 + 4))).epsilon(1e-6)
    )
    vector = LaplaceMechanism(sensitivity=1.0, scale=1.0, shape=(2, 3))
    assert PostNoise(base=vector, noise=0.4).accountant == noise_after(vector.accountant, 0.4, coordinates=6)


@pytest.mark.statistical
@pytest.mark.parametrize(("rows", "accepted"), [(ROWS, True), (ROWS[[0, 2, 1]], False)])
def test_codes_move_by_the_matrix(rows, accepted, rng, alpha):
    n = 30_000
    base = RandomizedResponse(log_odds=2.0, relation=ReplaceOne(n=n), categories=3)
    drawn = MarkovKernel(base=base, matrix=rows).release(np.ones(n), rng=rng)["answers"]
    distribution = np.array([1.0, np.exp(2.0), 1.0]) / (2 + np.exp(2.0)) @ ROWS
    p = stats.chisquare(np.bincount(drawn.ravel(), minlength=3), n * distribution).pvalue
    assert (p > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (1.4, False)])
def test_two_noises_have_the_distribution_of_the_sum(factor, accepted, rng, alpha):
    n = 20_000
    base = LaplaceMechanism(sensitivity=1.0, scale=1.0, shape=(n,))
    draws = PostNoise(base=base, noise=0.7 * factor).release(np.zeros(n), rng=rng)["statistic"].ravel()
    distribution, x = LaplaceSum(scale=1.0, further_scale=0.7), np.linspace(-40, 40, 200_001)
    mass = np.cumsum(np.exp(distribution.log_density(x))) * (x[1] - x[0])
    assert (stats.kstest(draws, lambda at: np.interp(at, x, mass)).pvalue > alpha) == accepted
    assert stats.kstest(distribution.sample((n,), rng), lambda at: np.interp(at, x, mass)).pvalue > alpha


def test_the_distribution_of_a_row_without_a_shadow():
    certain = MarkovKernel(base=ANSWERS, matrix=[[0, 1, 0], [0, 1, 0], [0, 1, 0]])
    assert (certain.release([0, 1, 2, 0])["answers"] == 1).all()
    assert certain.accountant.epsilon(0.0) == 0.0


def test_calibration():
    target = ps.DP(epsilon=0.5, delta=1e-6)
    made = MarkovKernel.calibrate(base=ANSWERS, matrix=ROWS, target=target)
    assert target.met_by(made.accountant)
    fewer = [KERNEL.after(k) for k in range(1, 12) if not target.met_by(KERNEL.after(k).accountant)]
    assert made == KERNEL.after(len(fewer) + 1)
    with pytest.raises(UnreachableTarget, match="does not mix enough"):
        MarkovKernel.calibrate(base=ANSWERS, matrix=np.eye(3), target=target)
    assert KERNEL.constants.dobrushin == pytest.approx(0.6)
    noisy = PostNoise.calibrate(base=GaussianMechanism(sensitivity=1, noise_std=1), target=ps.ZCDP(rho=0.1))
    assert noisy.noise == pytest.approx(2.0, rel=1e-6)


def test_what_a_kernel_takes():
    assert KERNEL.code_count() == 3
    graph = ps.ProfileGraph(profiles={"a": 0.2, "b": 0.6}, edges=[("a", "b")])
    profiles = ps.OneBit(graph=graph, epsilon=1.0)
    moved = MarkovKernel(base=profiles, matrix=[[0.9, 0.1], [0.3, 0.7]]).release(
        {"profile": ["a", "b"], "symbol": [0, 1]}
    )
    assert moved["symbols"].shape == (1, 2)
    several = ps.OneBit(graph=graph, epsilon=1.0, observations=2)
    with pytest.raises(ValueError, match="one observation"):
        MarkovKernel(base=several, matrix=np.eye(2))
    sampled = ps.Subsampled(base=ANSWERS, scheme=ps.PoissonSampling(rate=0.5), relation=ReplaceOne(n=4))
    for wrong, advice in ((sampled, "apply the kernel inside"), (NORMAL, "is AppliedKernel")):
        with pytest.raises(TypeError, match=advice):
            MarkovKernel(base=wrong, matrix=np.eye(3))
    with pytest.raises(TypeError, match="base must be a mechanism"):
        MarkovKernel(base=ANSWERS.accountant, matrix=np.eye(3))
    with pytest.raises(ValueError, match="one row for each of the base's 3 codes"):
        MarkovKernel(base=ANSWERS, matrix=np.eye(2))
    with pytest.raises(ValueError, match="row 2 of matrix"):
        MarkovKernel(base=ANSWERS, matrix=ROWS * [[1], [1], [0.9]])
    with pytest.raises(TypeError, match="Gaussian or Laplace"):
        PostNoise(base=ANSWERS, noise=1.0)
    for bad in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="noise"):
            PostNoise(base=NORMAL, noise=bad)


def test_slots_under_add_remove():
    base = RandomizedResponse(log_odds=2.0, relation=AddRemove(), categories=3, slots=5)
    assert MarkovKernel(base=base, matrix=ROWS).release([0, 1])["answers"].shape == (1, 5)
