"""Exact draws of every mechanism that offers them: numbers on the grid, and no assumption of ideal real numbers."""

import gc
import json
from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest

import privsample as ps
from privsample.accounting.assumptions import Assumption
from privsample.distributions.exact.gammas import GammaSampler
from privsample.errors import SchemaError, UnreachableTarget
from tests.mechanisms.examples import EXAMPLES, MECHANISMS, data_for

IDEAL = Assumption.IDEAL_REALS
EXACT = {
    name: mechanism
    for name, mechanism in MECHANISMS.items()
    if "exact" in {field.name for field in fields(mechanism)} and mechanism.exact
}
GRIDDED = {name: one for name, one in EXACT.items() if "grid" in {field.name for field in fields(one)}}
POSTERIORS = (ps.DirectPosterior, ps.DiffusedPosterior, ps.ConcentratedPosterior, ps.TemperedPosterior, ps.BetaQuery)
each_exact = pytest.mark.parametrize("mechanism", EXACT.values(), ids=EXACT)


each_gridded = pytest.mark.parametrize("mechanism", GRIDDED.values(), ids=GRIDDED)


def in_floats(mechanism):
    """The same mechanism with floating-point draws."""
    return replace(mechanism, exact=False, **({"grid": None} if hasattr(mechanism, "grid") else {}))


def is_on(grid, number):
    """A multiple of the pitch, or the point of a cell that an end of the support cuts: finer by a few binary digits."""
    return (Fraction(number) / Fraction(grid)).denominator <= 2**20


def test_every_posterior_is_among_them():
    assert {type(mechanism) for mechanism in EXACT.values()} >= {*POSTERIORS, ps.PrivateGibbsHMM}


@each_exact
def test_no_exact_release_assumes_ideal_numbers(mechanism):
    assert IDEAL not in mechanism.release(data_for(mechanism)).account.assumptions
    floats = in_floats(mechanism)
    assert floats.accountant.assumptions == mechanism.accountant.assumptions | {IDEAL}
    assert floats.release(data_for(mechanism)).grid is None


@pytest.mark.parametrize("name", [name for name in EXACT if name in EXAMPLES])
def test_the_statement_assumes_no_ideal_numbers(name):
    """Of the examples, which draw once: the composition of draws costs much, and states what the account assumes."""
    release = EXACT[name].release(data_for(EXACT[name]))
    exact, floats = (one.statement() for one in (release, in_floats(EXACT[name]).release(data_for(EXACT[name]))))
    assert IDEAL.value not in exact
    assert IDEAL.value in floats
    if states_grid(release):
        assert EXACT[name]._grid_text in exact


def states_grid(release):
    return bool(release.grid) and not release.mechanism._grid_text.endswith("significant bits")


@pytest.mark.long  # of the others, which draw three times: they state the grid as those that draw once
@pytest.mark.parametrize("name", [name for name in GRIDDED if name not in EXAMPLES])
def test_statements_name_the_grid(name):
    release = GRIDDED[name].release(data_for(GRIDDED[name]))
    if states_grid(release):
        assert GRIDDED[name]._grid_text in release.statement()


@each_gridded
def test_the_numbers_lie_on_the_grid(mechanism):
    release = mechanism.release(data_for(mechanism))
    for name, pitch in (release.grid or {}).items():
        if mechanism._grid_text.endswith("significant bits"):
            continue
        numbers = release[name].ravel().tolist()
        assert numbers
        assert all(is_on(pitch, number) for number in numbers)


@each_gridded
def test_a_wider_grid_is_taken(mechanism):
    if mechanism._grid is None or min(mechanism._grid.values()) >= 1:  # whole numbers have no choice
        return
    ((name, pitch), *_) = mechanism._grid.items()
    coarse = replace(mechanism, grid=pitch * 2.0**10)
    assert coarse._grid[name] == pitch * 2.0**10
    assert coarse.accountant == mechanism.accountant
    drawn = coarse.release(data_for(mechanism))[name].ravel().tolist()
    assert all(is_on(pitch * 2.0**10, number) for number in drawn)


@pytest.mark.parametrize("grid", [0.3, "fine", -1.0, np.nan])
def test_a_wrong_grid_is_refused(grid):
    with pytest.raises((TypeError, ValueError), match="grid must be"):
        replace(GRIDDED["direct-posterior"], grid=grid)


@each_gridded
def test_every_mechanism_checks_its_grid(mechanism):
    with pytest.raises((TypeError, ValueError), match="grid must be"):
        replace(mechanism, grid=0.3)


@pytest.mark.parametrize("mechanism", [one for one in EXACT.values() if isinstance(one, POSTERIORS)])
def test_a_grid_that_is_too_fine_is_refused(mechanism):
    with pytest.raises(ValueError, match="grid must be at least"):
        replace(mechanism, grid=2.0**-1000)


@pytest.mark.parametrize(
    ("mechanism", "grid"),
    [
        (ps.DirectPosterior(model=ps.BetaBernoulli(alpha=1, beta=1), n=3), 2.0),
        (
            ps.TemperedPosterior(
                model=ps.GammaPoisson(shape=5, rate=1, upper=4), n=3, temperature=2, truncation=(0.5, 0.6)
            ),
            0.25,
        ),
        (ps.PrivateGibbsHMM(states=1, categories=(2,), entries=(3,), temperature=2.0, truncation=0.4), 1.0),
    ],
)
def test_a_grid_without_a_choice_is_refused(mechanism, grid):
    with pytest.raises(ValueError, match="grid must be at most"):
        replace(mechanism, grid=grid)


@each_gridded
def test_a_grid_needs_exact_draws(mechanism):
    with pytest.raises(ValueError, match="grid must be None with"):
        replace(mechanism, exact=False, grid=0.5)
    with pytest.raises(TypeError, match="exact must be True or False"):
        replace(mechanism, exact="yes")


@each_gridded
def test_files_carry_the_grid(mechanism, tmp_path):
    release = mechanism.release(data_for(mechanism))
    document = json.loads(release.to_json())
    assert document.get("grid") == (None if release.grid is None else dict(release.grid))
    assert ps.Release.from_json(release.to_json()) == release
    if release.grid is None:
        return
    name = next(iter(release.grid))
    document["grid"][name] *= 2
    with pytest.raises(ValueError, match="altered"):
        ps.Release.from_json(json.dumps(document))
    constants = release.to_arviz().constant_data
    assert float(constants[f"{name}_grid"].to_numpy().ravel()[0]) == release.grid[name]
    assert mechanism._grid_text in release._repr_html_()


MODELS = {
    "beta": (ps.BetaBernoulli(alpha=2, beta=3), [0.0, 1.0, 1.0]),
    "fractional": (ps.BetaBernoulli(alpha=2, beta=3, fractional=True), [0.1, 0.25, 0.7]),
    "dirichlet": (ps.DirichletCategorical(alpha=(1, 2, 3)), [0.0, 1.0, 1.0]),
    "poisson": (ps.GammaPoisson(shape=5, rate=1, upper=4), [3.0, 9.0, 1.0]),
    "exponential": (ps.GammaExponential(shape=5, rate=3, upper=4), [0.3, 9.0, 1.0]),
    "normal": (ps.NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(-1, 2)), [0.3, -9.0, 1.0]),
}
each_model = pytest.mark.parametrize(("model", "records"), MODELS.values(), ids=MODELS)


def parameters(distribution):
    """The parameters of a rational distribution as doubles."""
    found = (getattr(distribution, field.name) for field in fields(distribution) if field.name != "bounds")
    return [[float(x) for x in each] if isinstance(each, tuple) else float(each) for each in found]


@each_model
def test_the_exact_posterior_is_the_posterior_without_rounding(model, records):
    weights = {"data_weight": 0.3, "prior_weight": 1.7}
    rounded = model.posterior(*model.summarize(records), **weights)
    exact = model.exact_posterior(*model.exact_summarize(records), **weights)
    own = [getattr(rounded, field.name) for field in fields(rounded)]
    if isinstance(model, ps.NormalKnownVariance):
        own[1] **= 2
    for stated, found in zip(own, parameters(exact), strict=True):
        assert found == pytest.approx(np.array(stated).tolist(), rel=1e-11)


def test_shapes_are_exact_fractions():
    """0.1 + 0.2 is not 0.3 in doubles: the shapes are exact sums of the doubles."""
    model = ps.BetaBernoulli(alpha=0.1, beta=0.1)
    exact = model.exact_posterior((Fraction(2),), 3, data_weight=0.1, prior_weight=3.0)
    assert exact.a == 3 * Fraction(0.1) + 2 * Fraction(0.1)
    tempered = exact.tempered(3.0).truncated(0.1, 0.9)
    assert tempered.a == 1 + (exact.a - 1) / 3
    assert tempered.bounds == (Fraction(0.1), Fraction(0.9))


@each_model
def test_the_statistic_does_not_depend_on_the_order(model, records):
    numbers = [*records * 40, 0.1, 0.7, 1e-9]
    shuffled = np.random.default_rng(0).permutation(numbers)
    assert model.exact_summarize(numbers) == model.exact_summarize(shuffled)


@each_model
@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", ["direct", "tempered"])
def test_draws_have_the_distribution_of_the_floats(model, records, mechanism, rng, alpha):
    """Both samplers of one mechanism agree, by a test of Kolmogorov and Smirnov; another prior is found to differ."""
    from scipy import stats

    def made(given):
        if mechanism == "direct":
            return ps.DirectPosterior(model=given, n=3, draws=2_000)
        bounds = 0.05 if given.draw_shape or isinstance(given, ps.BetaBernoulli) else (0.2, 1.5)
        return ps.TemperedPosterior(model=given, n=3, temperature=2.0, truncation=bounds, draws=2_000)

    def first(release):
        numbers = next(iter(release.draws.values()))
        return numbers.reshape(len(numbers), -1)[:, 0]

    own = made(model)
    exact, floats = (first(replace(own, exact=kind).release(records, rng=rng)) for kind in (True, False))
    assert stats.ks_2samp(exact, floats).pvalue > alpha / 2
    assert stats.ks_2samp(exact, floats + 0.6 * floats.std()).pvalue < alpha


class Stated(ps.Model):
    """A model of a user, which states its posterior in doubles only."""

    parameter = "theta"
    domain = ps.Domain(low=0.0, high=1.0, missing=0.0, integer_valued=True)
    neighbouring_posteriors = (ps.BetaShifts(a=1.0, b=1.0, integer_valued=True),)

    def posterior(self, statistic, n, *, data_weight=1.0, prior_weight=1.0):
        r, w, s = data_weight, prior_weight, float(statistic)
        return ps.Beta(w + r * s, w + r * (n - s))


def test_a_model_without_an_exact_posterior_is_drawn_with_floats():
    mechanism = ps.DirectPosterior(model=Stated(), n=3)
    assert not mechanism.exact
    assert IDEAL in mechanism.accountant.assumptions
    assert mechanism.release([0, 1, 1]).grid is None
    with pytest.raises(ValueError, match="does not define exact_posterior"):
        ps.DirectPosterior(model=Stated(), n=3, grid=0.5)
    with pytest.raises(TypeError, match="does not define exact_posterior"):
        Stated().exact_posterior((Fraction(2),), 3)


def test_a_prior_beyond_exact_shapes_is_refused_before_data_are_read():
    model = ps.BetaBernoulli(alpha=2, beta=3)
    with pytest.raises(ValueError, match=r"at most 2\^200 .* exact=False"):
        ps.ConcentratedPosterior(model=model, n=5, prior_weight=1e62)
    floats = ps.ConcentratedPosterior(model=model, n=5, prior_weight=1e62, exact=False)
    assert floats.release([0] * 5)["theta"] == pytest.approx(0.4)


class Halved(ps.BetaBernoulli):
    """A model of a user whose posterior counts each record half."""

    def posterior(self, statistic, n, *, data_weight=1.0, prior_weight=1.0):
        return ps.BetaBernoulli.posterior(self, statistic, n, data_weight=data_weight / 2, prior_weight=prior_weight)


class Inverted(ps.BetaBernoulli):
    """A model of a user that reads zeros as ones."""

    def summarize(self, data):
        total, n = ps.BetaBernoulli.summarize(self, data)
        return n - total, n


class Squares(ps.BetaBernoulli):
    """A model of a user whose statistic is not the sum of its fractional records."""

    def statistic(self, chunk):
        return np.asarray((np.asarray(chunk, dtype=float) ** 2).sum())


@pytest.mark.parametrize("model", [Halved, Inverted, Squares])
def test_a_model_that_changes_only_the_rounded_method_is_drawn_by_that_method(model):
    """The inherited exact posterior or sum would be that of another model."""
    mechanism = ps.DirectPosterior(model=model(alpha=1, beta=1, fractional=True), n=2)
    assert not mechanism.exact
    assert IDEAL in mechanism.accountant.assumptions
    assert mechanism.release([0.5, 0.5]).grid is None


def test_a_statistic_that_is_no_integer_is_not_rounded_to_one():
    with pytest.raises(TypeError, match="Squares does not define exact_statistic"):
        Squares(alpha=1, beta=1, fractional=True).exact_summarize([0.5, 0.9])


def test_a_grid_without_an_exact_sum_is_refused():
    model = Squares(alpha=1, beta=1, fractional=True)
    assert not ps.NoisyStatistics(model=model, n=2, scale=2.0).exact
    with pytest.raises(ValueError, match="grid must be None for a Squares model"):
        ps.NoisyStatistics(model=model, n=2, scale=2.0, grid=0.5)


NARROW = ps.NormalKnownVariance(mean=0, variance=1e120, noise_variance=1e-10, bounds=(-1, 1))
EXTREME = {
    "rate": (ps.GammaExponential(shape=1, rate=1, upper=1e70), (0.1, 10.0), "rate must be > 0 and at most"),
    "alphas": (ps.DirichletCategorical(alpha=(1e30, 1, 1)), 0.01, r"alphas must be at most 2\^96"),
    "variance": (
        ps.NormalKnownVariance(mean=0, variance=1, noise_variance=1e-260, bounds=(-1, 1)),
        (-1.0, 1.0),
        "variance must be in",
    ),
}


@pytest.mark.parametrize(("model", "truncation", "message"), EXTREME.values(), ids=EXTREME)
def test_a_posterior_that_some_records_make_undrawable_is_refused_when_it_is_built(model, truncation, message):
    """A release that fails for some data, and not for others, would reveal which data there are."""
    with pytest.raises(ValueError, match=f"cannot be drawn exactly for all records: {message}"):
        ps.TemperedPosterior(model=model, n=2, temperature=2.0, truncation=truncation)


def test_a_default_grid_that_samples_of_the_records_cannot_have_is_refused():
    with pytest.raises(ValueError, match=r"not be narrower than 2\^-180 of the prior"):
        ps.DirectPosterior(model=NARROW, n=5)
    wider = ps.DirectPosterior(model=NARROW, n=5, grid=1.0)
    assert wider.for_size(2)._grid == wider._grid


def test_no_shape_parameter_outlives_a_release():
    """Shape parameters of posteriors are functions of the records: nothing may keep them for later releases."""
    for mechanism in (
        ps.DirectPosterior(model=ps.BetaBernoulli(alpha=2, beta=3), n=3),
        ps.DirectPosterior(model=ps.GammaPoisson(shape=5, rate=1, upper=4), n=3),
        ps.DirectPosterior(model=ps.DirichletCategorical(alpha=(1, 2, 0.5)), n=3),
    ):
        mechanism.release([0, 1, 1])
    gc.collect()
    assert not [found for found in gc.get_objects() if type(found) is GammaSampler]


def test_small_shapes_have_relative_cells():
    """A fixed grid would release 0, or its first point again and again, where draws crowd at 0."""
    mechanism = ps.ConcentratedPosterior(model=ps.BetaBernoulli(alpha=0.001, beta=9), n=2, prior_weight=2, draws=200)
    release = mechanism.release([0, 0])
    assert 0 < release["theta"].min() < 1e-40
    assert release["theta"].max() < 1
    assert "40 significant bits" in release.statement()
    assert len(set(release["theta"].tolist())) > 100


def test_a_sample_of_secret_size_is_drawn_on_the_grid_of_the_base():
    """The default grid depends on n, so a grid that changed with the size of the sample would reveal it."""
    for base in (
        ps.DirectPosterior(model=ps.GammaExponential(shape=5, rate=1, upper=4), n=1000),
        ps.TemperedPosterior(model=ps.BetaBernoulli(alpha=1, beta=1), n=10**15, temperature=2.0, truncation=0.1),
        ps.BetaQuery(alpha=1, beta=1, bounds=(0, 2), n=10**8),
    ):
        assert base.for_size(3)._grid == base._grid != replace(base, n=3)._grid
        with pytest.raises(SchemaError):
            base.for_size(3).release([0, 1])


def test_cells_are_relative_for_every_size_or_for_none():
    """With a weight of 0.01, one waiting time leaves a shape below 0.05, and a thousand do not."""
    model = ps.GammaExponential(shape=0.01, rate=1, upper=4)
    base = ps.DiffusedPosterior(model=model, n=1000, data_weight=0.01)
    assert "significant bits" in base._grid_text
    assert base.for_size(1)._grid_text == base._grid_text == base.for_size(999)._grid_text
    assert base.for_size(1).release([0.3])["rate"] > 0


def test_the_default_grid_depends_on_public_scales():
    def pitch(mechanism):
        return next(iter(mechanism._grid.values()))

    beta = ps.BetaBernoulli(alpha=1, beta=1)
    assert pitch(ps.DirectPosterior(model=beta, n=100)) == 2.0**-40
    assert pitch(ps.DirectPosterior(model=beta, n=10**9)) < 2.0**-49
    normal = ps.NormalKnownVariance(mean=0, variance=1, noise_variance=1e-12, bounds=(-1, 1))
    assert pitch(ps.DirectPosterior(model=normal, n=10**6)) < 2.0**-20 * 1e-9
    rates = [ps.GammaExponential(shape=2, rate=unit, upper=9 * unit) for unit in (1.0, 2.0**20)]
    slow, fast = (pitch(ps.DirectPosterior(model=model, n=10)) for model in rates)
    assert slow == 2.0**20 * fast


@pytest.mark.parametrize(("truncation", "power"), [((0.5, 5.0), 4.0), ((0.3, 100.0), 64.0)])
def test_the_default_grid_of_truncated_draws_depends_on_the_larger_bound(truncation, power):
    """The power of two at or below it, times 2^-40."""
    model = ps.GammaPoisson(shape=2, rate=1, upper=5)
    mechanism = ps.TemperedPosterior(model=model, n=100, temperature=2.0, truncation=truncation)
    assert mechanism._grid == {"rate": power * 2.0**-40}


@pytest.mark.parametrize("grid", [None, 2.0**-10])
def test_a_target_that_no_prior_weight_meets_is_called_unreachable(grid):
    with pytest.raises(UnreachableTarget, match="the privacy loss of this mechanism is unbounded"):
        ps.ConcentratedPosterior.calibrate(model=ps.BetaBernoulli(1, 1), n=300, target=ps.DP(0.1), grid=grid)


def test_calibration_of_the_prior_weight_keeps_the_grid():
    found = ps.ConcentratedPosterior.calibrate(model=ps.BetaBernoulli(1, 1), n=30, target=ps.DP(1, 1e-6), grid=2.0**-10)
    assert (found.exact, found.grid) == (True, 2.0**-10)
