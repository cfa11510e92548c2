"""Tempered posteriors: the account beside the draw, the distribution of the draws, calibration, public rules."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy import special, stats

from privsample import (
    DP,
    RDP,
    ZCDP,
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalKnownVariance,
    Release,
    TemperedAccountant,
    TemperedPosterior,
)
from privsample.errors import SchemaError

MODELS = [
    (BetaBernoulli(alpha=1, beta=2), 0.1),
    (BetaBernoulli(alpha=1, beta=2, fractional=True), 0.1),
    (DirichletCategorical(alpha=(1, 2, 3)), 0.05),
    (GammaPoisson(shape=3, rate=1, upper=5), (0.2, 4.0)),
    (GammaExponential(shape=3, rate=2, upper=1.5), (0.2, 4.0)),
    (NormalKnownVariance(mean=0, variance=1, noise_variance=2, bounds=(-1, 1)), (-1, 1)),
]
EACH = pytest.mark.parametrize(("model", "truncation"), MODELS, ids=lambda item: type(item).__name__)


@EACH
@pytest.mark.parametrize("draws", [1, 3])
def test_the_account_is_that_of_one_draw_as_often_as_one_draws(model, truncation, draws, rng):
    made = TemperedPosterior(model=model, n=6, temperature=2, truncation=truncation, draws=draws)
    one = TemperedAccountant(model=model, n=6, temperature=2, truncation=truncation, assumptions=frozenset())
    assert made.accountant == (one if draws == 1 else draws * one)
    release = made.release([0, 1, 1, np.nan, 99, -5], rng=rng)
    drawn = release[model.parameter]
    low, high = one.parameter_bounds
    assert len(drawn) == draws
    assert ((drawn >= low) & (drawn <= high + 1e-15)).all()
    assert Release.from_json(release.to_json()) == release
    assert made.validate([0, 1, 1, np.nan, 99, -5]).facts["missing"] == 1
    with pytest.raises(SchemaError, match="n = 6"):
        made.release([1, 0])


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("heat", "accepted"), [(1.0, True), (1.4, False), pytest.param(0.7, False, marks=pytest.mark.long)]
)
def test_draws_follow_the_power_of_the_posterior(heat, accepted, rng, alpha):
    """Beta(3, 5) prior, 7 of 10, T = 2: Beta(1 + (10 - 1)/2, 1 + (8 - 1)/2) between 0.3 and 0.7."""
    made = TemperedPosterior(
        model=BetaBernoulli(alpha=3, beta=5), n=10, temperature=2 * heat, truncation=0.3, draws=20_000
    )
    drawn = made.release([1] * 7 + [0] * 3, rng=rng)["theta"]
    start, end = special.betainc(5.5, 4.5, [0.3, 0.7])
    assert (
        stats.kstest(drawn, lambda x: (special.betainc(5.5, 4.5, x) - start) / (end - start)).pvalue > alpha
    ) == accepted


TARGETS = [DP(epsilon=0.5), DP(epsilon=0.3, delta=1e-6), RDP(order=8, epsilon=0.02), ZCDP(rho=0.002)]
_SLOW = {  # models whose calibration for this kind of target takes seconds
    TARGETS[0]: {MODELS[1][0]},
    TARGETS[1]: {MODELS[1][0], *(model for model, _ in MODELS[3:])},
    TARGETS[2]: {model for model, _ in MODELS if not isinstance(model, DirichletCategorical)},
}


def calibration_cases():
    """Each model and each target; the pairs that take seconds in the long lane, but for one of each target."""
    for (model, truncation), target in itertools.product(MODELS, TARGETS):
        marks = pytest.mark.long if model in _SLOW.get(target, ()) else ()
        yield pytest.param(model, truncation, target, id=f"{type(model).__name__}-{target}", marks=marks)


@pytest.mark.parametrize(("model", "truncation", "target"), list(calibration_cases()))
def test_calibration_ends_on_the_safe_side(model, truncation, target):
    made = TemperedPosterior.calibrate(model=model, n=40, truncation=truncation, target=target)
    assert target.met_by(made.accountant)
    if made.temperature > 1:
        hotter = dataclasses.replace(made, temperature=max(made.temperature * (1 - 1e-6), 1.0))
        assert not target.met_by(hotter.accountant)


def test_a_temperature_of_one_is_returned_where_it_is_enough():
    model, truncation = MODELS[0]
    made = TemperedPosterior.calibrate(model=model, n=5, truncation=truncation, target=DP(epsilon=9), draws=2)
    assert (made.temperature, made.draws) == (1.0, 2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"temperature": 0.9}, "temperature must be finite and >= 1"),
        ({"truncation": 0.6}, "truncation must lie in"),
        ({"draws": 0}, "draws"),
        ({"n": 0}, "n must"),
    ],
)
def test_fields_are_checked(fields, message):
    good = {"model": MODELS[0][0], "n": 5, "temperature": 1.0, "truncation": 0.1}
    with pytest.raises(ValueError, match=message):
        TemperedPosterior(**good | fields)


def test_a_prior_that_could_never_be_drawn_from_is_refused():
    fields = {"n": 3, "truncation": 0.05}
    with pytest.raises(ValueError, match="alpha must be at most 1e"):
        TemperedPosterior(model=DirichletCategorical(alpha=(1e36,) * 3), temperature=1, **fields)
    hot = TemperedPosterior(model=DirichletCategorical(alpha=(1e36,) * 3), temperature=1e9, **fields)
    assert hot.release([0, 1, 2])["theta"] == pytest.approx(1 / 3)


def test_bounds_of_proportions_are_one_number():
    with pytest.raises(TypeError, match="truncation must be one number for proportions"):
        TemperedPosterior(model=MODELS[0][0], n=9, temperature=2.0, truncation=(0.1, 0.9))
