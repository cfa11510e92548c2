"""What every mechanism keeps: total on the schema, reproducible from a generator, its account blind to the data."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import privsample as ps
from privsample import (
    AddRemove,
    Assumption,
    BetaBernoulli,
    BetaQuery,
    ConcentratedPosterior,
    DiffusedPosterior,
    DirectPosterior,
    GaussianMechanism,
    LaplaceMechanism,
    PosteriorAccountant,
    RandomizedResponse,
    ReplaceOne,
)
from privsample.errors import SchemaError
from privsample.mechanisms.posterior.conjugate import PosteriorMechanism
from tests.mechanisms.examples import (
    EXAMPLES,
    MECHANISMS,
    ODD,
    changed,
    data_for,
    each_example,
    each_mechanism,
    floats_like,
    odd,
)
from tests.properties import examples

N = 12
CANARY = 424242.5
DATA = np.array([0, 1, 1, 0, 2, 1, 0, 0, 1, 1, 0, 1], dtype=float)
POSTERIORS = {name: one for name, one in MECHANISMS.items() if isinstance(one, PosteriorMechanism)}
PUBLIC_SIZES = {
    name: example.mechanism
    for name, example in EXAMPLES.items()
    if isinstance(example.mechanism.accountant.relation, ReplaceOne)
}
each_posterior = pytest.mark.parametrize("mechanism", POSTERIORS.values(), ids=POSTERIORS)


@each_mechanism
def test_same_generator_same_draw(mechanism):
    data = data_for(mechanism)
    one, other = (mechanism.release(data, rng=np.random.default_rng(5)) for _ in range(2))
    assert one == other
    assert any(one != mechanism.release(data, rng=np.random.default_rng(seed)) for seed in range(6, 40))


@each_mechanism
def test_the_systems_entropy_differs_from_call_to_call(mechanism):
    data = data_for(mechanism)
    first = mechanism.release(data)
    assert any(mechanism.release(data) != first for _ in range(200))
    assert Assumption.RNG_FRESH not in first.account.assumptions
    assert first.account == mechanism.accountant


@each_mechanism
def test_a_callers_generator_is_an_assumption(mechanism):
    account = mechanism.release(data_for(mechanism), rng=np.random.default_rng(0)).account
    assert account == mechanism.accountant.assuming(Assumption.RNG_FRESH)
    assert account.assumptions > mechanism.accountant.assumptions


@pytest.mark.parametrize("seed", [
    *(0, np.int64(3), 1.0, "7", [1]),
    *(np.random.SeedSequence(1), np.random.PCG64(1), np.random.RandomState(0)),
])  # fmt: skip
def test_seeds_are_refused(seed):
    """By the base class: test_base.py tests that no class defines `release` anew."""
    mechanism = MECHANISMS["laplace"]
    with pytest.raises(TypeError, match="Generator or None"):
        mechanism.release(data_for(mechanism), rng=seed)


@each_example
def test_every_mechanism_refuses_a_seed(example):
    with pytest.raises(TypeError, match="Generator or None"):
        example.mechanism.release(data_for(example.mechanism), rng=0)


@each_mechanism
def test_the_account_is_blind_to_the_data(mechanism):
    data = data_for(mechanism)
    one = mechanism.release(data, rng=np.random.default_rng(5)).account
    for change in (lambda array: np.full(array.shape, np.nan), lambda array: 1e300 * np.flip(array)):
        assert one == mechanism.release(changed(data, change), rng=np.random.default_rng(7)).account


def test_public_sizes_are_common():
    assert len({type(one) for one in PUBLIC_SIZES.values()}) > 10


@pytest.mark.parametrize("mechanism", PUBLIC_SIZES.values(), ids=PUBLIC_SIZES)
def test_a_wrong_size_is_refused_before_anything_is_drawn(mechanism):
    for change in (
        lambda array: np.append(array, np.full_like(array[:1], CANARY), axis=0),
        lambda array: np.full_like(array[1:], CANARY),
        lambda array: np.full((*array.shape, 2, 2), CANARY),
    ):
        refused(mechanism, changed(data_for(mechanism), change), SchemaError)


@each_example
def test_a_wrong_schema_is_refused_before_anything_is_drawn(example):
    for data in ([CANARY] if data_is_one_number(example.mechanism) else {"x": CANARY}, np.full((3, 1, 1, 1), CANARY)):
        refused(example.mechanism, data, (SchemaError, TypeError))


def data_is_one_number(mechanism):
    """A mapping would be one odd number for it, and counts as 0."""
    data = data_for(mechanism)
    return isinstance(data, np.ndarray) and data.ndim == 0


def refused(mechanism, data, errors):
    rng = np.random.default_rng(1)
    before = rng.bit_generator.state
    with pytest.raises(errors) as caught:
        mechanism.release(data, rng=rng)
    assert rng.bit_generator.state == before
    assert "424242" not in str(caught.value)


@each_example
def test_frozen(example):
    mechanism = example.mechanism
    for field in dataclasses.fields(mechanism):
        with pytest.raises(AttributeError):
            setattr(mechanism, field.name, 1)
    release = mechanism.release(data_for(mechanism))
    for array in release.draws.values():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    assert dataclasses.replace(mechanism) == mechanism
    assert hash(dataclasses.replace(mechanism)) == hash(mechanism)


@each_example
@examples(8)
@given(data=st.data())
def test_release_is_total(example, data):
    mechanism = example.mechanism
    release = mechanism.release(data.draw(floats_like(data_for(mechanism))), rng=np.random.default_rng(0))
    for array in release.draws.values():
        assert np.isfinite(array).all()
    assert release.account == mechanism.accountant.assuming(Assumption.RNG_FRESH)


@each_mechanism
def test_release_is_total_on_objects(mechanism):
    data = data_for(mechanism)
    shapes = {}
    for start in range(len(ODD)):
        release = mechanism.release(odd(data, start), rng=np.random.default_rng(start))
        for name, array in release.draws.items():
            assert np.isfinite(array).all()
            assert shapes.setdefault(name, array.shape) == array.shape
        assert release.account == mechanism.accountant.assuming(Assumption.RNG_FRESH)
    assert shapes


@each_posterior
def test_the_wrapper_equation(mechanism):
    """The account of a mechanism is made from its own fields: model, n, weights, draws."""
    r, w = mechanism._weights
    fields = {"model": mechanism.model, "n": mechanism.n, "draws": mechanism.draws}
    assert mechanism.accountant == PosteriorAccountant(**fields, data_weight=r, prior_weight=w, assumptions=frozenset())
    assert mechanism.release(data_for(mechanism))[mechanism.parameter].shape[0] == mechanism.draws


@each_posterior
def test_validation_tells_the_curator(mechanism):
    data = data_for(mechanism)
    notes = mechanism.validate(data * np.nan)
    assert notes.facts == {"missing": mechanism.n}
    assert str(mechanism.n) in notes.text()
    assert mechanism.validate(mechanism.domain.clean(data)).facts == {}
    with pytest.raises(SchemaError):
        mechanism.validate(data[:-1])


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
    """Beta(6 + r s, 12 + r (n - s)), with r read from the mechanism; the mutant has a tenth more or less prior."""
    made = DiffusedPosterior(model=BetaBernoulli(alpha=6 * factor, beta=12), n=N, data_weight=0.5, draws=10_000)
    draws = made.release(np.arange(N) < 5, rng=rng)["theta"]
    distribution = stats.beta(6 + 0.5 * 5, 12 + 0.5 * (N - 5))
    assert (stats.kstest(draws, distribution.cdf).pvalue > alpha) == accepted


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
        lambda: ConcentratedPosterior(model=BetaBernoulli(alpha=1, beta=1), n=3, prior_weight=np.nan),
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


@pytest.mark.parametrize("wrong", [True, 2.5, "3", None])
def test_counts_must_be_whole_numbers(wrong):
    with pytest.raises((TypeError, ValueError), match="n must be a whole number"):
        DirectPosterior(model=BetaBernoulli(alpha=1, beta=1), n=wrong)
    with pytest.raises((TypeError, ValueError), match="draws must be a whole number"):
        DirectPosterior(model=BetaBernoulli(alpha=1, beta=1), n=3, draws=wrong)
    with pytest.raises(TypeError):
        DirectPosterior(model=wrong, n=3)


@pytest.mark.parametrize("kind", ["release", "posterior"])
def test_draws_are_found_by_name_as_in_a_dictionary(kind):
    mechanism = ps.NoisyStatistics(model=ps.BetaBernoulli(alpha=1, beta=1), n=20, scale=2.0)
    found = mechanism.release([1] * 12 + [0] * 8)
    if kind == "posterior":
        found = ps.PrivateStatistics(release=found).draw(5)
    names = list(found.draws)
    assert list(found) == list(found.keys()) == names
    assert len(found) == len(names)
    assert names[0] in found
    assert 0 not in found
    assert [array is found[name] for name, array in found.items()] == [True] * len(names)
    assert dict(found).keys() == found.draws.keys()
    assert len(found.values()) == len(names)
    assert found
