"""Differences of records, by enumeration of records."""

import itertools

import numpy as np
import pytest

from privsample import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalKnownVariance,
    RecordSensitivity,
)

MODELS = {
    "binary": (BetaBernoulli(alpha=1, beta=1), [0.0, 1.0, np.nan, 7.0]),
    "fractional": (BetaBernoulli(alpha=1, beta=1, fractional=True), [0.0, 0.3, 1.0, np.nan, -7.0]),
    "categories": (DirichletCategorical(alpha=(1, 2, 3, 4)), [0.0, 1.0, 2.0, 3.0, np.nan, 9.0]),
    "counts": (GammaPoisson(shape=1, rate=1, upper=4), [0.0, 1.0, 4.0, 3.6, 99.0, np.nan]),
    "times": (GammaExponential(shape=1, rate=1, upper=2.5), [0.0, 1.2, 2.5, 99.0, np.nan]),
    "normal": (NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(-1, 2.5)), [-9.0, 0.3, 9.0, np.nan]),
}


@pytest.mark.parametrize("name", MODELS)
def test_records_differ_as_declared(name):
    model, records = MODELS[name]
    (vector,) = model.record_sensitivity.differences
    moves = [
        np.atleast_1d(model.statistic(np.array([x])) - model.statistic(np.array([y])))
        for x, y in itertools.product(records, repeat=2)
    ]
    padded = [np.append(-np.sort(-np.abs(move)), np.zeros(9))[: len(vector)] for move in moves]
    assert all((move <= vector).all() for move in padded)
    assert np.max(padded, axis=0).tolist() == vector.tolist()  # attained
    assert all(np.abs(move).sum() <= vector.sum() + 1e-12 for move in moves)
    assert not model.record_sensitivity.integer_valued or all((move == np.rint(move)).all() for move in moves)
    assert model.record_sensitivity.integer_valued == (name in ("binary", "categories", "counts"))


def test_signs_places_zeros_and_covered_rows_do_not_count():
    made = RecordSensitivity(differences=[[3, 0, -1], [-1, 3, 0], [2, 1, 0], [0, 4, 0]])
    assert made == RecordSensitivity(differences=[[4, 0], [3, 1]])
    assert made != RecordSensitivity(differences=[[4, 0], [3, 1]], integer_valued=True)
    assert (2 * made).differences.tolist() == [[6, 2], [8, 0]]
    assert not made.differences.flags.writeable


def test_features_repeat_a_difference():
    one = DirichletCategorical(alpha=(1, 2, 3)).record_sensitivity
    assert one.for_features(3).differences.tolist() == [[1.0] * 6]
    assert one.for_features(3).integer_valued
    several = RecordSensitivity(differences=[[4, 0], [3, 1]])
    assert several.for_features(1) == several
    with pytest.raises(ValueError, match="single"):
        several.for_features(2)


@pytest.mark.parametrize("bad", [[], [[]], [1.0], [[0.0, 0.0]], [[np.inf]], [[np.nan]], [[1], [0]], np.zeros((3, 4))])
def test_bad_differences_are_refused(bad):
    with pytest.raises(ValueError, match="differences"):
        RecordSensitivity(differences=bad)


def test_whole_means_whole():
    with pytest.raises(ValueError, match="whole"):
        RecordSensitivity(differences=[[1.5]], integer_valued=True)


def test_the_nearest_feasible_statistic(rng):
    counts = DirichletCategorical(alpha=(1, 1, 1))
    for noisy in rng.normal(2, 6, (50, 3)):
        found = counts.feasible(noisy, 6)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(6)
        others = 6 * rng.dirichlet((1, 1, 1), 2000)
        assert np.sum((found - noisy) ** 2) <= np.sum((others - noisy) ** 2, axis=1).min() + 1e-9
    assert BetaBernoulli(alpha=1, beta=1).feasible(np.array(-3.0), 6) == 0
    assert MODELS["counts"][0].feasible(np.array(100.0), 6) == 24
    assert MODELS["normal"][0].feasible(np.array(-100.0), 6) == -6


def test_models_are_alike_but_for_their_prior():
    one, other = BetaBernoulli(alpha=1, beta=1), BetaBernoulli(alpha=4, beta=9)
    assert one.likelihood == other.likelihood
    assert one.likelihood != BetaBernoulli(alpha=1, beta=1, fractional=True).likelihood
    assert DirichletCategorical(alpha=(1, 2)).likelihood != DirichletCategorical(alpha=(1, 2, 3)).likelihood
    normal = {"mean": 0, "variance": 1, "bounds": (-1, 1)}
    one, other = (NormalKnownVariance(**normal, noise_variance=v) for v in (1, 2))
    assert one.likelihood != other.likelihood
