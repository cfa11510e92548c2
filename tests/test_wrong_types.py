"""A value of a wrong type is refused by a sentence of privsample, never by an AttributeError or an error of NumPy."""

import inspect

import numpy as np
import pytest

import privsample as ps
from privsample.interop import pymc
from tests import wrong_types

# Made by `ledger`, `audit` and the estimators' own tests, or no values at all.
ELSEWHERE = {"Assumption", "Ledger", "ModelSpec", "Reservation", "SequentialVerdict", "Verdict"} | {
    "BoundsScaler",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivatePoissonRegression",
    "PrivateStandardScaler",
    "PrivateSGDClassifier",
    "PrivateSGDRegressor",
    "PrivateSearchCV",
}


def test_every_public_class_is_tried():
    made = {cls.__name__ for cls in wrong_types.instances()}
    public = [name for name in ps.__all__ if isinstance(getattr(ps, name), type)]
    assert {name for name in public if name not in made and not inspect.isabstract(getattr(ps, name))} == ELSEWHERE


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group", ["constructors", "calibrations", "methods", "functions"])
def test_no_raw_error(group, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # text in place of a path makes a file
    calls = list(wrong_types.functions(tmp_path) if group == "functions" else getattr(wrong_types, group)())
    assert len(calls) > 15
    assert [words for call in calls for words in wrong_types.raw_errors(call)] == []


def test_the_sweep_sees_raw_errors():
    def careless(account):
        return account.epsilon(1e-6)

    def numeric(x):
        return np.asarray(x, dtype=float).reshape(7)

    assert len(wrong_types.raw_errors(wrong_types.Call("careless", careless, {"account": None}))) == len(
        wrong_types.WRONG
    )
    assert wrong_types.raw_errors(wrong_types.Call("numeric", numeric, {"x": None}))


def test_the_two_that_were_reported():
    with pytest.raises(TypeError, match=r"target must be a Target such as DP\(epsilon=1, delta=1e-6\), got tuple"):
        ps.GaussianMechanism.calibrate(sensitivity=1, target=(1, 1e-6))
    with pytest.raises(TypeError, match=r"noise must be a Noise, such as GaussianNoise\(noise_std=2.0\), got float"):
        pymc.noisy_count("count", 3.0, 2.0, n=9, p=0.5)
