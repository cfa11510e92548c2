"""Estimators with a target in place of epsilon and delta."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import privsample as ps
from privsample.errors import UnreachableTarget

X = np.linspace(-1, 1, 200)[:, None]
Y = (X[:, 0] > 0).astype(int)
ESTIMATORS = [
    ps.PrivateSGDClassifier(bounds=(-1, 1)),
    ps.PrivateSGDRegressor(bounds=(-1, 1), target_bounds=(0, 1)),
    ps.PrivateLogisticRegression(bounds=(-1, 1), steps=200),
    ps.PrivateLinearRegression(bounds=(-1, 1), target_bounds=(0, 1), steps=200),
    ps.PrivatePoissonRegression(bounds=(-1, 1), max_count=3, steps=200),
    ps.PrivateStandardScaler(bounds=(-1, 1)),
]
TARGETS = [ps.DP(0.7, 1e-7), ps.RDP(order=6, epsilon=0.4), ps.ZCDP(rho=0.05), ps.GDP(mu=0.3), ps.Risk(0.01, 0.02)]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("target", TARGETS, ids=lambda one: type(one).__name__)
def test_the_account_uses_the_whole_target(estimator, target):
    made = clone(estimator).set_params(target=target)
    account = made.accountant_for(200, 1)
    assert target.met_by(account)
    assert not type(target)(**_smaller(target)).met_by(account)
    assert clone(made).get_params()["target"] == target
    assert repr(target) in repr(made).replace("\n", " ").replace("                        ", " ")


def _smaller(target):
    names = ("epsilon", "delta", "rho", "order", "mu", "baseline", "success")
    given = {name: getattr(target, name) for name in names if hasattr(target, name)}
    name = next(name for name in ("rho", "mu", "epsilon", "success") if name in given)
    return given | {name: given[name] * 0.999}


def test_a_target_of_kind_dp_is_epsilon_and_delta():
    for estimator in ESTIMATORS:
        given = clone(estimator).set_params(epsilon=0.7, delta=1e-7)
        assert given.accountant_for(200, 1) == clone(estimator).set_params(target=TARGETS[0]).accountant_for(200, 1)
        assert estimator.accountant_for(200, 1) == clone(estimator).set_params(target=ps.DP(1, 1e-6)).accountant_for(
            200, 1
        )


def test_statements_use_the_delta_of_the_target():
    model = ps.PrivateSGDClassifier(bounds=(-1, 1), target=ps.DP(2, 1e-3)).fit(X, Y)
    assert "0.001 (delta)" in model.statement()
    model.set_params(target=ps.RDP(order=6, epsilon=0.4)).fit(X, Y)
    assert "1e-06 (delta)" in model.statement() or "1e-6 (delta)" in model.statement()


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"target": ps.DP(1, 1e-6), "epsilon": 1.0}, ValueError, "without epsilon and delta, got .* and epsilon=1.0"),
        ({"target": ps.DP(1, 1e-6), "epsilon": 1.0, "delta": 0.1}, ValueError, "epsilon=1.0 and delta=0.1"),
        ({"target": (1, 1e-6)}, TypeError, r"write ps.DP\(epsilon=1, delta=1e-06\)"),
        ({"target": "strong"}, TypeError, "target must be a Target"),
        ({"target": float("nan")}, TypeError, "target must be a Target"),
        ({"target": ps.DP}, TypeError, "target must be a Target"),
        ({"epsilon": "1"}, TypeError, "epsilon must be a number"),
        ({"delta": float("nan")}, ValueError, "delta must lie in"),
        ({"delta": np.float64(1.0)}, ValueError, "delta must lie in"),
        ({"epsilon": -1.0}, ValueError, "epsilon must be finite and > 0"),
    ],
)
def test_one_clear_error(estimator, given, error, words):
    with pytest.raises(error, match=words):
        clone(estimator).set_params(**given).accountant_for(200, 1)


def test_a_pipeline_passes_targets_on():
    steps = make_pipeline(ps.PrivateStandardScaler(bounds=(-1, 1)), ps.PrivateSGDClassifier(norm=1.0))
    steps.set_params(privatestandardscaler__target=ps.ZCDP(0.01), privatesgdclassifier__target=ps.ZCDP(0.04))
    assert ps.pipeline_account(steps, 200, 1).zcdp == pytest.approx(0.05)
    assert clone(steps).fit(X, Y).predict(X).shape == (200,)


def test_rejection_that_may_fail_has_no_renyi_curve():
    learner = ps.PrivateLogisticRegression(bounds=(-1, 1), target=TARGETS[1], steps=200)
    assert type(learner.mechanism_for(200, 1)).__name__ == "LangevinPosterior"
    with pytest.raises(UnreachableTarget, match="infinity mass"):
        learner.set_params(sampler="rejection").accountant_for(200, 1)


def test_descent_tells_its_noise():
    model = ps.PrivateSGDClassifier(bounds=(-1, 1)).fit(X, Y)
    mechanism = model.plan_
    assert mechanism == model.release_.mechanism
    noise_on_sum = mechanism.noise_std * mechanism.batch
    assert model.noise_multiplier_ == pytest.approx(noise_on_sum / mechanism.loss.gradient_sensitivity, rel=1e-12)


def test_a_grid_of_targets():
    targets = [ps.DP(5, 1e-3), ps.ZCDP(0.5)]
    grid = GridSearchCV(ps.PrivateSGDClassifier(bounds=(-1, 1)), {"target": targets}, cv=2).fit(X, Y)
    assert grid.best_params_["target"] in targets
    assert grid.best_estimator_.target.met_by(grid.best_estimator_.accountant_)
