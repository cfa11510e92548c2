"""Private logistic regression as what a private search trains, on records that it is made for."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import privsample as ps

RUNS = ps.TruncatedNegativeBinomial.logarithmic(mean=3)
SPACE = {"prior_std": [0.5, 1.0, 2.0]}
FOLD, N, FEATURES = 100, 469, 30


@pytest.fixture(scope="module")
def records():
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order]


def learner(X, **fields):
    bounds = (X[:FOLD].min(axis=0), X[:FOLD].max(axis=0))
    return ps.PrivateLogisticRegression(epsilon=1.0, delta=1e-6, bounds=bounds, **fields)


def test_public_validation(records, rng):
    X, y = records
    search = ps.PrivateSearchCV(learner(X), SPACE, RUNS, validation=(X[:FOLD], y[:FOLD]), training_account="worst")
    account = search.accountant_for(N, FEATURES)
    one = float(learner(X).accountant_for(N, FEATURES).epsilon(1e-6))
    assert one <= account.epsilon(1e-6) <= 3 * one
    search.fit(X[FOLD:], y[FOLD:], rng=rng)
    assert search.accountant_ == account.assuming(ps.Assumption.RNG_FRESH)
    assert search.best_params_["prior_std"] in SPACE["prior_std"]
    assert search.best_score_ == search.score(X[:FOLD], y[:FOLD]) > 0.2
    assert search.predict_proba(X[:3]).shape == (3, 2)


def test_noisy_score(records, rng):
    X, y = records
    search = ps.PrivateSearchCV(
        learner(X, constant_time=False),
        SPACE,
        RUNS,
        cv=3,
        score_noise=ps.NoisyScore(noise_std=0.02),
        refit=True,
        training_account=lambda n: ps.ZCDPAccountant(rho=0.05, relation=ps.ReplaceOne(n=n)),
    )
    for prior_std in SPACE["prior_std"]:  # what is stated covers every candidate and every size
        for n in (379, 380, 569):
            assert (
                learner(X, constant_time=False).set_params(prior_std=prior_std).accountant_for(n, FEATURES).zcdp <= 0.05
            )
    price = search.accountant_for(len(X), FEATURES)
    assert price.relation == ps.ReplaceOne(n=len(X))
    search.fit(X, y, rng=rng)
    assert price.rdp(8.0) == search.accountant_.rdp(8.0) >= 0.05 * 8 * 3  # two folds and the refit
    assert -0.1 < search.best_score_ < 1.1
    assert search.predict(X[:5]).shape == (5,)


def test_candidates_of_one_promise_still_differ_in_cost(records):
    X, y = records
    with pytest.raises(ValueError, match="candidates have different accounts"):
        ps.PrivateSearchCV(learner(X), SPACE, RUNS, validation=(X[:FOLD], y[:FOLD])).accountant_for(N, FEATURES)
    stated = ps.ApproximateAccountant(stated_epsilon=1.0, stated_delta=1e-6, relation=ps.ReplaceOne(n=N))
    search = ps.PrivateSearchCV(learner(X), SPACE, RUNS, validation=(X[:FOLD], y[:FOLD]), training_account=stated)
    assert 1.0 < search.accountant_for(N, FEATURES).epsilon(1e-5) < 2.0
