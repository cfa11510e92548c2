"""What every mechanism keeps: total on the schema, reproducible from a generator, its account blind to the data."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from privsample import (
    AddRemove,
    Assumption,
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
    NoisyStatistics,
    NormalKnownVariance,
    PosteriorAccountant,
    RandomizedResponse,
    ReplaceOne,
)
from privsample.errors import SchemaError

N = 12
CANARY = 424242.5
POSTERIORS = [
    DirectPosterior(model=BetaBernoulli(alpha=6, beta=12), n=N),
    DiffusedPosterior(model=DirichletCategorical(alpha=(2, 3, 4)), n=N, data_weight=0.5, draws=3),
    ConcentratedPosterior(model=GammaPoisson(shape=3, rate=1, upper=5), n=N, prior_divisor=0.25),
    DiffusedPosterior(model=GammaExponential(shape=3, rate=2, upper=1.5), n=N, data_weight=0.1),
    ConcentratedPosterior(
        model=NormalKnownVariance(mean=0, variance=1, noise_variance=2, bounds=(-1, 1)), n=N, prior_divisor=0.5, draws=2
    ),
    BetaQuery(alpha=2, beta=2, bounds=(-1.0, 3.0), n=N, data_weight=0.5),
]
OTHERS = [
    NoisyStatistics(model=DirichletCategorical(alpha=(2, 3, 4)), n=N, scale=2, draws=40),
    NoisyStatistics(model=GammaExponential(shape=3, rate=2, upper=1.5), n=N, scale=2, draws=2),
    NoisyStatistics(model=BetaBernoulli(alpha=6, beta=12), n=N, scale=20, draws=40, noise="discrete gaussian"),
    GaussianMechanism(sensitivity=1, noise_std=2, shape=(N,)),
    LaplaceMechanism(sensitivity=1, scale=2, shape=(N,), draws=3),
    RandomizedResponse(log_odds=1.5, relation=ReplaceOne(n=N), categories=3),
    RandomizedResponse(log_odds=1.5, relation=AddRemove(), categories=3, slots=9),
]
MECHANISMS = POSTERIORS + OTHERS
each = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
DATA = np.array([0, 1, 1, 0, 2, 1, 0, 0, 1, 1, 0, 1], dtype=float)


@each
def test_same_generator_same_draw(mechanism):
    one, other = (mechanism.release(DATA, rng=np.random.default_rng(5)) for _ in range(2))
    assert one == other
    assert one != mechanism.release(DATA, rng=np.random.default_rng(6))


@each
def test_the_systems_entropy_differs_from_call_to_call(mechanism):
    assert mechanism.release(DATA) != mechanism.release(DATA)
    assert Assumption.RNG_FRESH not in mechanism.release(DATA).account.assumptions
    assert mechanism.release(DATA).account == mechanism.accountant


@each
def test_a_callers_generator_is_an_assumption(mechanism):
    account = mechanism.release(DATA, rng=np.random.default_rng(0)).account
    assert account == mechanism.accountant.assuming(Assumption.RNG_FRESH)
    assert account.assumptions > mechanism.accountant.assumptions


@each
@pytest.mark.parametrize("seed", [0, np.int64(3), 1.0, "7", np.random.SeedSequence(1), np.random.PCG64(1), [1]])
def test_seeds_are_refused(mechanism, seed):
    with pytest.raises(TypeError, match="Generator or None"):
        mechanism.release(DATA, rng=seed)
    with pytest.raises(TypeError, match="Generator or None"):
        mechanism.release(DATA, rng=np.random.RandomState(0))


@each
def test_the_account_is_blind_to_the_data(mechanism):
    one = mechanism.release(DATA, rng=np.random.default_rng(5)).account
    assert one == mechanism.release(np.full(N, np.nan), rng=np.random.default_rng(7)).account
    assert one == mechanism.release(1e300 * DATA[::-1], rng=np.random.default_rng(7)).account


@pytest.mark.parametrize("mechanism", MECHANISMS[:-1], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(
    "data", [np.full(N - 1, CANARY), np.full(N + 1, CANARY), np.empty(0), [CANARY], np.full((N, 2), CANARY)]
)
def test_a_wrong_size_is_refused_before_anything_is_drawn(mechanism, data):
    rng = np.random.default_rng(1)
    before = rng.bit_generator.state
    with pytest.raises(SchemaError) as caught:
        mechanism.release(data, rng=rng)
    assert rng.bit_generator.state == before
    assert "424242" not in str(caught.value)


@each
@pytest.mark.parametrize("data", ["text", None, {"x": CANARY}, np.array([str(CANARY)] * N), np.full((N, 1, 1), CANARY)])
def test_a_wrong_schema_is_refused_before_anything_is_drawn(mechanism, data):
    rng = np.random.default_rng(1)
    before = rng.bit_generator.state
    with pytest.raises((SchemaError, TypeError)) as caught:
        mechanism.release(data, rng=rng)
    assert rng.bit_generator.state == before
    assert "424242" not in str(caught.value)


@each
def test_frozen(mechanism):
    for field in dataclasses.fields(mechanism):
        with pytest.raises(AttributeError):
            setattr(mechanism, field.name, 1)
    release = mechanism.release(DATA)
    for array in release.draws.values():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    assert dataclasses.replace(mechanism) == mechanism
    assert hash(dataclasses.replace(mechanism)) == hash(mechanism)


@each
@given(data=hnp.arrays(st.sampled_from([np.float64, np.float32, np.float16]), N))
def test_release_is_total(mechanism, data):
    release = mechanism.release(data, rng=np.random.default_rng(0))
    for array in release.draws.values():
        assert np.isfinite(array).all()
    assert release.account == mechanism.accountant.assuming(Assumption.RNG_FRESH)


@pytest.mark.parametrize("mechanism", POSTERIORS, ids=lambda m: type(m).__name__)
def test_release_is_total_on_objects(mechanism):
    odd = [None, "x", 10**400, True, b"1", 1j, [1], {}, -0.0, np.inf, np.nan, -(10**400)]
    data = np.empty(N, dtype=object)
    data[:] = odd
    assert np.isfinite(mechanism.release(data, rng=np.random.default_rng(0))[mechanism.parameter]).all()


@pytest.mark.parametrize("mechanism", POSTERIORS, ids=lambda m: type(m).__name__)
def test_the_wrapper_equation(mechanism):
    """The account of a mechanism is made from its own fields: model, n, weights, draws."""
    r, m = mechanism._weights
    fields = {"model": mechanism.model, "n": mechanism.n, "draws": mechanism.draws}
    assert mechanism.accountant == PosteriorAccountant(**fields, data_weight=r, prior_divisor=m)
    assert mechanism.release(DATA)[mechanism.parameter].shape[0] == mechanism.draws


@pytest.mark.parametrize("mechanism", POSTERIORS, ids=lambda m: type(m).__name__)
def test_validation_tells_the_curator(mechanism):
    notes = mechanism.validate(DATA * np.nan)
    assert notes.facts == {"missing": N}
    assert str(N) in notes.text()
    assert mechanism.validate(mechanism.domain.clean(DATA)).facts == {}
    with pytest.raises(SchemaError):
        mechanism.validate(DATA[:-1])


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.9, False), (1.1, False)])
def test_released_noise_has_the_declared_scale(factor, accepted, rng, alpha):
    shape = (100_000,)
    gaussian = GaussianMechanism(sensitivity=1, noise_std=2.0 * factor, shape=shape).release(np.zeros(shape), rng=rng)
    laplace = LaplaceMechanism(sensitivity=1, scale=2.0 * factor, shape=shape).release(np.zeros(shape), rng=rng)
    assert (stats.kstest(gaussian["statistic"][0], stats.norm(0, 2).cdf).pvalue > alpha / 2) == accepted
    assert (stats.kstest(laplace["statistic"][0], stats.laplace(0, 2).cdf).pvalue > alpha / 2) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.9, False), (1.1, False)])
def test_posterior_draws_follow_the_posterior(factor, accepted, rng, alpha):
    """Beta(6 + r s, 12 + r (n - s)), with r read from the mechanism; the twin has a tenth more or less prior."""
    made = DiffusedPosterior(model=BetaBernoulli(alpha=6 * factor, beta=12), n=N, data_weight=0.5, draws=100_000)
    draws = made.release(np.arange(N) < 5, rng=rng)["theta"]
    law = stats.beta(6 + 0.5 * 5, 12 + 0.5 * (N - 5))
    assert (stats.kstest(draws, law.cdf).pvalue > alpha) == accepted


def test_a_query_is_the_posterior_of_the_scaled_column():
    query = BetaQuery(alpha=2, beta=3, bounds=(-1.0, 3.0), n=N)
    plain = DirectPosterior(model=BetaBernoulli(alpha=2, beta=3, fractional=True), n=N)
    assert query.accountant == plain.accountant
    one = query.release(4 * DATA / 2 - 1, rng=np.random.default_rng(2))["rho"]
    other = plain.release(DATA / 2, rng=np.random.default_rng(2))["theta"]
    assert np.allclose(one, other)
    assert np.allclose(
        query.release(np.full(N, np.nan), rng=np.random.default_rng(2))["rho"],
        query.release(np.full(N, -9.0), rng=np.random.default_rng(2))["rho"],
    )


@pytest.mark.parametrize(
    "build",
    [
        lambda: DirectPosterior(model=BetaBernoulli(alpha=1, beta=1), n=0),
        lambda: DiffusedPosterior(model=BetaBernoulli(alpha=1, beta=1), n=3, data_weight=0.0),
        lambda: DiffusedPosterior(model=BetaBernoulli(alpha=1, beta=1), n=3, data_weight=1.5),
        lambda: ConcentratedPosterior(model=BetaBernoulli(alpha=1, beta=1), n=3, prior_divisor=np.nan),
        lambda: DirectPosterior(model=BetaBernoulli(alpha=1, beta=1), n=3, draws=0),
        lambda: BetaQuery(alpha=1, beta=1, bounds=(1, 0), n=3),
        lambda: GaussianMechanism(sensitivity=0, noise_std=1),
        lambda: GaussianMechanism(sensitivity=1, noise_std=np.nan),
        lambda: LaplaceMechanism(sensitivity=1, scale=-1),
        lambda: LaplaceMechanism(sensitivity=1, scale=1, shape=(0,)),
        lambda: RandomizedResponse(log_odds=0, relation=ReplaceOne(n=3)),
        lambda: RandomizedResponse(log_odds=1, relation=ReplaceOne(n=3), categories=1),
        lambda: RandomizedResponse(log_odds=1, relation=ReplaceOne(n=3), slots=4),
        lambda: RandomizedResponse(log_odds=1, relation=AddRemove()),
        lambda: RandomizedResponse(log_odds=1, relation=AddRemove(), slots=0),
        lambda: RandomizedResponse(log_odds=1, relation="replace"),
    ],
)
def test_bad_parameters(build):
    with pytest.raises((TypeError, ValueError), match="must"):
        build()


@pytest.mark.parametrize("wrong", [True, 2.0, "3", None])
def test_counts_must_be_integers(wrong):
    with pytest.raises(TypeError, match="integer"):
        DirectPosterior(model=BetaBernoulli(alpha=1, beta=1), n=wrong)
    with pytest.raises(TypeError, match="integer"):
        DirectPosterior(model=BetaBernoulli(alpha=1, beta=1), n=3, draws=wrong)
    with pytest.raises(TypeError):
        DirectPosterior(model=wrong, n=3)
