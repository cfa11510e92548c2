"""One release for all groups as an observed variable: the same model as a list of one release for each group."""

import numpy as np
import pymc as pm
import pytest
from pytensor.compile.mode import Mode

import privsample as ps
from privsample.pymc import NoisyCount, NoisyMultinomial, NoisySum, likelihood

SIZES = {"A": 20, "B": 30, "C": 25}
BETA = ps.BetaBernoulli(alpha=1, beta=1)
SURVEY = ps.DirichletCategorical(alpha=(1, 1, 1))
NORMAL = ps.NormalKnownVariance(mean=0, variance=1, noise_variance=2, bounds=(-1, 1))


def statistics(model, *, n=1, **fields):
    base = ps.NoisyStatistics(model=model, n=n, scale=2.0, **fields)
    mechanism = ps.by("ward", base, keys=list(SIZES), sizes=None if n is None else SIZES)
    keys = np.repeat(list(SIZES), list(SIZES.values()))
    release = mechanism.release((keys, np.arange(75.0) % 7 % 2), rng=np.random.default_rng(1))
    return ps.PrivateStatistics(release=release)


def count(name, **given):
    return NoisyCount(name, p=pm.Beta("p", 2, 3, dims="ward"), **given)


def multinomial(name, **given):
    return NoisyMultinomial(name, p=pm.Dirichlet("p", np.ones(3), dims=("ward", "category")), **given)


def sums(name, **given):
    return NoisySum(name, records=pm.Normal.dist(pm.Normal("m", 0.0, 1.0, dims="ward"), 1.4), **given)


def built(observe, observed, dims, wards=tuple(SIZES)):
    coords = {"ward": wards, "copy": (0, 1), "bound": ("0", "1"), "category": ("0", "1", "2")}
    with pm.Model(coords=coords) as model:
        variable = observe("y", observed=observed, dims=dims)
    return model, likelihood(variable)


def log_density(model):
    start = {name: np.arange(value.size, dtype=float).reshape(value.shape) / 3 - 0.2 for name, value in points(model)}
    return float(model.compile_logp(mode=Mode(linker="py", optimizer=None))(start))


def points(model):
    return model.initial_point().items()


@pytest.mark.parametrize(
    ("observe", "model", "fields", "dims"),
    [
        (count, BETA, {}, "ward"),
        (count, BETA, {"draws": 2, "noise": "gaussian"}, ("ward", "copy")),
        (multinomial, SURVEY, {}, ("ward", "category")),
        (count, BETA, {"n": None}, ("ward", "bound")),
        (multinomial, SURVEY, {"n": None}, ("ward", "category")),
        (sums, NORMAL, {"draws": 3, "noise": "gaussian"}, "ward"),
    ],
    ids=["count", "copies", "multinomial", "private sizes", "codes of private sizes", "sum"],
)
def test_one_release_for_all_groups_is_a_list_of_releases(observe, model, fields, dims):
    together = statistics(model, **fields)
    each = [together.group(key) for key in SIZES]
    found, words = built(observe, together, dims)
    expected, expected_words = built(observe, each, dims)
    assert log_density(found) == log_density(expected)
    assert words == expected_words
    assert log_density(built(observe, together.release, dims)[0]) == log_density(expected)
    for one, other in zip(found.data_vars, expected.data_vars, strict=True):
        assert one.name == other.name
        assert np.array_equal(one.get_value(), other.get_value())
    if together.n is not None:
        assert found["y_n"].get_value().tolist() == together.n.tolist() == list(SIZES.values())


@pytest.mark.generations
def test_groups_are_matched_with_the_coords_in_any_order():
    together = statistics(BETA)
    shuffled, _ = built(count, together, "ward", ("C", "A", "B"))
    assert shuffled["y_n"].get_value().tolist() == [25, 20, 30]
    assert shuffled["y_released"].get_value().tolist() == [together.statistic[k] for k in (2, 0, 1)]
    assert log_density(shuffled) == log_density(built(count, [together.group(key) for key in "CAB"], "ward", "CAB")[0])
    with pm.Model(coords=together.coords):
        assert count("y", observed=together, dims="ward").shape.eval(mode="FAST_COMPILE").tolist() == [3]
    with pm.Model() as model:
        NoisyCount("y", p=pm.Beta("p", 2, 3, shape=3), observed=together)
    assert model["y_released"].get_value().tolist() == together.statistic.tolist()


@pytest.mark.generations
def test_coords_of_other_groups_are_refused():
    for wards in (("A", "B", "D"), ("A", "B"), ("A", "B", "C", "D")):
        with pytest.raises(ValueError, match="the keys of observed must be the coords of dim 'ward'; these are in one"):
            built(count, statistics(BETA), "ward", wards)
    with pytest.raises(ValueError, match="and 90 more"):
        built(count, statistics(BETA), "ward", [f"A{k}" for k in range(97)])
    with pytest.raises(TypeError, match="observes releases of BetaBernoulli, got one of DirichletCategorical"):
        built(count, statistics(SURVEY), "ward")
    with pytest.raises(TypeError, match="fractional"):
        built(count, statistics(ps.BetaBernoulli(alpha=1, beta=1, fractional=True)), "ward")


def test_whole_numbers_as_keys():
    base = ps.NoisyStatistics(model=BETA, n=2, scale=4.0)
    release = ps.by("ward", base, keys=[7, 9]).release(([7, 7, 9, 9], [0, 1, 1, 1]))
    for wards in ((9, 7), ("9", "7")):
        model, _ = built(count, release, "ward", wards)
        assert model["y_released"].get_value().tolist() == release["statistic"][0, ::-1].tolist()


@pytest.mark.generations
def test_inference_for_one_release_refuses_groups():
    together = statistics(BETA)
    with pytest.raises(TypeError, match="release must be of one group, got 3 groups"):
        ps.infer(together)
    with pytest.raises(TypeError, match="release must be of one group, got 3 groups"):
        ps.confidence_set(together, parameters={"theta": (0.0, 1.0)})
