"""The search: what it costs, what it finds, and what never leaves it."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin, clone

import privsample as ps
from privsample.errors import BudgetExceeded, RelationMismatch

N = 60
X = np.linspace(-1, 1, 2 * N).reshape(N, 2)
Y = np.arange(N) % 2
RECORDS = ps.ReplaceOne(n=N)
RUNS = ps.TruncatedNegativeBinomial.logarithmic(mean=4)
NOISE = ps.NoisyScore(noise_std=0.05)
FITS = []


class Constant(ClassifierMixin, BaseEstimator):
    """Scores `quality` on any data; fails where it is negative. It counts its fits, for the tests only."""

    def __init__(self, quality=0.5, epsilon=0.1, rng=None, random_state=None, verbose=0):
        self.quality = quality
        self.epsilon = epsilon
        self.rng = rng
        self.random_state = random_state
        self.verbose = verbose

    def accountant_for(self, n):
        return ps.PureAccountant(stated_epsilon=self.epsilon, relation=ps.ReplaceOne(n=n))

    def fit(self, X, y):
        FITS.append(len(X))
        if self.quality < 0:
            raise ArithmeticError("failed")
        self.classes_, self.n_ = np.array([0, 1]), len(X)
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)

    def predict_proba(self, X):
        return np.tile([0.75, 0.25], (len(X), 1))


def quality(model, X, y):
    return model.quality


@pytest.fixture(autouse=True)
def no_fits():
    FITS.clear()


def search(space=None, runs=RUNS, estimator=None, **options):
    options = {"validation": (X, Y), "scoring": quality} | options
    return ps.PrivateSearchCV(estimator or Constant(), space or {"quality": [0.1, 0.9]}, runs, **options)


def private(space=None, **options):
    return search(space, **({"validation": None, "score_noise": NOISE} | options))


def test_finds_the_best_of_many_runs(rng):
    found = search({"quality": stats.uniform()}, ps.Poisson(mean=300)).fit(X, Y, rng=rng)
    assert found.best_params_["quality"] == found.best_score_ == found.best_estimator_.quality > 0.9
    assert found.best_estimator_.n_ == N == max(FITS)
    assert found.n_features_in_ == 2
    assert found.accountant_ == found.accountant_for(N).assuming(ps.Assumption.RNG_FRESH)


def test_public_validation_costs_one_training_a_run():
    base = ps.PureAccountant(stated_epsilon=0.1, relation=RECORDS)
    assert search().accountant_for(N) == ps.SelectionAccountant(base=base, runs=RUNS)
    assert search(refit=True).accountant_for(N) == ps.SelectionAccountant(base=base, runs=RUNS) + base


def test_the_account_is_known_before_and_kept_in_json():
    account = private(refit=True).accountant_for(N)
    assert ps.Accountant.from_dict(account.to_dict()) == account == private(refit=True).fit(X, Y).accountant_
    assert account.relation == RECORDS
    assert {ps.Assumption.TIMING, ps.Assumption.FIXED_PARTS, ps.Assumption.IDEAL_REALS} <= account.assumptions


def test_a_ledger_pays_first(tmp_path):
    ledger = ps.Ledger(tmp_path / "l", budget=ps.DP(epsilon=1, delta=1e-6), relation=RECORDS, dataset="d")
    search(ledger=ledger).fit(X, Y)
    (entry,) = ledger.history()
    assert entry.label == "PrivateSearchCV(Constant)"
    assert FITS
    FITS.clear()
    before = ledger.spent()
    with pytest.raises(BudgetExceeded):
        search(ledger=ledger, estimator=Constant(epsilon=2.0)).fit(X, Y)
    with pytest.raises(RelationMismatch, match="ledger"):
        search(ledger=ledger).fit(X[1:], Y[1:])
    with pytest.raises(ValueError, match="rng must be None with a ledger"):
        search(ledger=ledger).fit(X, Y, rng=np.random.default_rng(0))
    assert not FITS
    assert ledger.spent() == before
    assert clone(search(ledger=ledger)).ledger.history() == ledger.history()
