"""The search: what it finds, what it costs, and what never leaves it."""

import os
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy import stats
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import privsample as ps
from privsample.distributions.repetitions import RepetitionDistribution
from privsample.errors import BudgetExceeded, RelationMismatch
from privsample.estimators import candidates
from privsample.estimators.search_plan import plan_search
from privsample.estimators.search_runs import Task, train_and_score
from tests.estimators.learners import FITS, NOISE, RUNS, Constant, N, X, Y, private, search

RECORDS = ps.ReplaceOne(n=N)
QUALITIES = list(range(6))


@pytest.fixture(autouse=True)
def no_fits():
    FITS.clear()


def test_finds_the_best_of_many_runs(rng):
    found = search({"quality": stats.uniform()}, ps.Poisson(mean=300)).fit(X, Y, rng=rng)
    assert found.best_params_["quality"] == found.best_score_ == found.best_estimator_.quality > 0.9
    assert found.best_estimator_.n_ == N == max(FITS)
    assert found.n_features_in_ == 2
    assert found.accountant_ == found.accountant_for(N).assuming(ps.Assumption.RNG_FRESH)
    assert found.score(X, Y) == found.best_score_


def chosen(distribution, rng, fits):
    """How often no candidate, the worst ... the best of QUALITIES was chosen."""
    model = search({"quality": QUALITIES}, distribution)
    plan = plan_search(model, N)
    found = [model._best(plan, X, Y, rng, rng).candidate for _ in range(fits)]
    return np.bincount([0 if best is None else 1 + best["quality"] for best in found], minlength=7)


class WithoutReplacement(RepetitionDistribution):
    """A broken copy: the search ends once all candidates were drawn, as with scikit-learn's own sampler."""

    mean, maximum = 4.0, 6
    log_mass = log_rank_probability = log_pgf_derivative = pgf_curvature = log_pgf = tilted = None
    runs = ps.Poisson(mean=4)  # made once, because it keeps its table of masses

    def __init__(self, left):
        self.left = left

    def sample(self, rng):
        self.left[:] = rng.permutation(QUALITIES)
        return min(self.runs.sample(rng), len(self.left))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("mutant", "fits", "accepted"),
    [(None, 1200, True), ("another distribution", 400, False), ("no replacement", 1200, False)],
)
def test_the_winner_follows_the_distribution_of_runs(mutant, fits, accepted, rng, alpha, monkeypatch):
    """P(best among the lowest j of 6) = f(j/6), f(u) = exp(4 (u - 1))."""
    distribution, left = ps.Poisson(mean=8 if mutant == "another distribution" else 4), []
    if mutant == "no replacement":
        distribution = WithoutReplacement(left)
        monkeypatch.setattr(
            "privsample.estimators.search.draw_candidate", lambda space, source: {"quality": left.pop()}
        )
    expected = np.diff(np.exp(4.0 * (np.arange(7) / 6 - 1.0)), prepend=0.0)
    assert (stats.chisquare(chosen(distribution, rng, fits), fits * expected).pvalue > alpha) == accepted


def noisiest(model, X, y):
    return model.noise_


@pytest.mark.statistical
@pytest.mark.parametrize(("shared", "accepted"), [(False, True), (True, False)])
def test_runs_draw_independent_noise(shared, accepted, rng, alpha, monkeypatch):
    """P(largest of K uniform draws <= u) = f(u). The mutant: all runs of a search draw the same noise."""
    if shared:
        tied = np.random.default_rng
        monkeypatch.setattr("privsample.estimators.search.spawn", lambda rng: tied(now))
    distribution = ps.TruncatedNegativeBinomial.from_mean(mean=5, eta=1.0)
    model = search({"quality": [0.5]}, distribution, scoring=noisiest)
    plan, found = plan_search(model, N), []
    for _ in range(300):
        now = rng.integers(1 << 32)
        found.append(model._best(plan, X, Y, rng, rng).score)
    pvalue = stats.kstest(found, lambda u: 1.0 - np.exp(distribution.log_rank_probability(1.0 - u))).pvalue
    assert (pvalue > alpha) == accepted


def test_forked_workers_do_not_share_a_global_state(monkeypatch):
    seeds = []
    monkeypatch.setattr(np.random, "seed", lambda *seed: seeds.append(seed))
    for process in (os.getpid(), -1):
        task = Task(folds=None, scorer=noisiest, validation=None, keep=False, process=process)
        assert train_and_score(Constant(), None, X, Y, task, 0).model is None
    assert seeds == [()]


def test_no_run_is_an_outcome(monkeypatch):
    distribution = ps.Poisson(mean=1e-9)
    for made in (search(repetitions=distribution), private(repetitions=distribution, refit=True)):
        found = made.fit(X, Y)
        assert found.best_params_ is None
        assert np.isnan(found.best_score_)
        assert found.best_estimator_ is None
        with pytest.raises(NotFittedError, match="the number of runs was 0"):
            found.predict(X)
    assert not FITS


def test_failures_rank_last_and_stay_silent(rng):
    distribution = ps.Poisson(mean=60)
    found = search({"quality": [-1.0, 0.2]}, distribution).fit(X, Y, rng=rng)
    assert found.best_params_ == {"quality": 0.2}
    found = private({"quality": [-1.0, 0.2]}, repetitions=distribution, refit=True).fit(X, Y, rng=rng)
    assert found.best_params_ == {"quality": 0.2}
    found = search({"quality": [-1.0, -2.0]}, distribution, refit=True).fit(X, Y, rng=rng)
    assert found.best_params_ is found.best_estimator_ is None


def by_sign(model, X, y):
    """No number for 1, an error for 2."""
    return {1.0: np.nan, 2.0: None, 3.0: 0.5}[model.quality]


def test_scores_that_are_no_number_rank_below_all_others(rng):
    distribution = ps.Poisson(mean=60)
    found = search({"quality": [1.0, 2.0, 3.0]}, distribution, scoring=by_sign).fit(X, Y, rng=rng)
    assert found.best_params_ == {"quality": 3.0}
    found = search({"quality": [-1.0, 1.0, 2.0]}, distribution, scoring=by_sign).fit(X, Y, rng=rng)
    assert found.best_params_["quality"] > 0
    assert np.isnan(found.best_score_)


def test_a_failing_refit_leaves_no_model(rng, monkeypatch):
    fits = Constant.fit
    monkeypatch.setattr(Constant, "fit", lambda self, X, y, rng=None: fits(self, X, y) if len(X) < N else 1 / 0)
    found = private(refit=True).fit(X, Y, rng=rng)
    assert found.best_params_ is not None
    assert found.best_estimator_ is None


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


def test_a_ledger_pays_before_the_first_run(tmp_path, monkeypatch):
    ledger = ps.Ledger(tmp_path / "l", budget=ps.DP(epsilon=1, delta=1e-6), relation=RECORDS, dataset="d")
    seen = []
    monkeypatch.setattr(Constant, "fit", lambda self, X, y: seen.append(len(ledger.history())))
    search(ledger=ledger, repetitions=ps.TruncatedNegativeBinomial.from_mean(mean=4, eta=1)).fit(X, Y)
    assert set(seen) == {1}


def test_nothing_tells_the_number_of_runs(rng, capfd, recwarn):
    one, many = ps.TruncatedNegativeBinomial.logarithmic(mean=1.0001), ps.Poisson(mean=100)
    kept = []
    for distribution in (one, many):
        with parallel_config(verbose=50):  # joblib would print how many tasks are done
            found = private(repetitions=distribution, n_jobs=1).fit(X, Y, rng=rng)
        kept.append({name for name in vars(found) if name.endswith("_")})
    assert kept[0] == kept[1] == {"best_params_", "best_score_", "scorer_", "accountant_", "n_features_in_", "plan_"}
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list


class Wordy(Constant):
    """Warns again and again, for a while."""

    def fit(self, X, y):
        for i in range(20):
            time.sleep(0.002 * np.random.random())  # noqa: NPY002 - threads take turns
            warnings.warn(f"step {i}", RuntimeWarning, stacklevel=1)
        return super().fit(X, y)


def test_threads_are_silent_too(recwarn):
    with parallel_config(backend="threading"):
        search(estimator=Wordy(), repetitions=ps.Poisson(mean=30), n_jobs=4).fit(X, Y)
    assert not recwarn.list


def test_every_fit_draws_from_its_own_generator(rng):
    noise = []
    for _ in range(3):
        found = search(repetitions=ps.Poisson(mean=20)).fit(X, Y, rng=rng)
        noise.append(found.best_estimator_.noise_)
    assert len(set(noise)) == 3
    assert search(repetitions=ps.Poisson(mean=20)).fit(X, Y).best_estimator_.noise_ is None


def test_same_generator_same_search():
    made = [private(refit=True).fit(X, Y, rng=np.random.default_rng(5)) for _ in range(2)]
    assert made[0].best_params_ == made[1].best_params_
    assert made[0].best_score_ == made[1].best_score_
    assert made[0].best_estimator_.noise_ == made[1].best_estimator_.noise_


def test_the_score_shown_is_noisy(rng):
    scores = [private().fit(X, Y, rng=rng).best_score_ for _ in range(5)]
    assert len(set(scores)) == 5
    assert all(0.0 < score < 1.0 for score in scores)


def test_clone_parameters_and_tags():
    made = private(refit=True, n_jobs=2)
    copy = clone(made)
    assert copy.repetitions == RUNS
    assert copy.score_noise == NOISE
    assert copy.get_params()["estimator__quality"] == 0.5
    assert copy.set_params(estimator__epsilon=0.2).accountant_for(N) != made.accountant_for(N)
    assert is_classifier(made)
    assert "PrivateSearchCV" in repr(made)


def test_in_a_pipeline_and_in_another_search(rng):
    inner = search(refit=True)
    pipeline = make_pipeline(FunctionTransformer(), inner).fit(X, Y, privatesearchcv__rng=rng)
    assert pipeline.predict(X).tolist() == [0] * N
    assert pipeline.predict_proba(X).shape == (N, 2)
    assert pipeline.classes_.tolist() == [0, 1]
    outer = search({"refit": [True]}, estimator=inner, scoring="accuracy")
    assert outer.accountant_for(N) == ps.SelectionAccountant(base=inner.accountant_for(N), repetitions=RUNS)


def test_methods_are_those_of_the_estimator():
    made = search().fit(X, Y)
    assert hasattr(made, "predict")
    assert not hasattr(made, "transform")
    assert not hasattr(made, "decision_function")
    kept_nothing = private().fit(X, Y)
    assert not hasattr(kept_nothing, "predict")
    assert not hasattr(kept_nothing, "best_estimator_")
    made.set_params(validation=None, score_noise=NOISE, scoring=None).fit(X, Y)
    assert not hasattr(made, "best_estimator_")
    with pytest.raises(NotFittedError):
        search().predict(X)


@pytest.mark.parametrize("form", [list, pd.DataFrame])
def test_takes_lists_and_tables(form, rng):
    y = Y.tolist() if form is list else pd.Series(Y)
    found = private(refit=True).fit(form(X.tolist()), y, rng=rng)
    assert found.best_estimator_.n_ == N
    assert found.predict(X).shape == (N,)


def test_takes_one_column(rng):
    found = search().fit(X[:, 0], Y, rng=rng)
    assert found.best_estimator_.n_ == N
    assert not hasattr(found, "n_features_in_")


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_runs_in_parallel(backend, rng):
    with parallel_config(backend=backend, n_jobs=2):
        found = private(repetitions=ps.Poisson(mean=8)).fit(X, Y, rng=rng)
    assert found.best_params_ is not None


DASK = """
import numpy as np
from distributed import Client, LocalCluster
from joblib import parallel_config
import privsample as ps
from privsample.estimators.search_runs import Task
from tests.estimators.learners import X, Y, private

if __name__ == "__main__":
    local = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with LocalCluster(**local) as cluster, Client(cluster):
        with parallel_config(backend="dask"):
            found = private(repetitions=ps.Poisson(mean=8), refit=True).fit(X, Y, rng=np.random.default_rng(3))
    here = private(repetitions=ps.Poisson(mean=8), refit=True).fit(X, Y, rng=np.random.default_rng(3))
    assert found.best_params_ == here.best_params_
    assert found.best_score_ == here.best_score_
    print("done")
"""


def test_runs_on_a_dask_cluster(tmp_path):
    """In a process of its own: the cluster's threads and sockets outlive it."""
    pytest.importorskip("distributed")
    script = tmp_path / "script.py"
    script.write_text(DASK)
    paths = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    ran = subprocess.run([sys.executable, str(script)], env=paths, capture_output=True, text=True, check=False)
    assert ran.stdout.strip().endswith("done"), ran.stderr


def test_drawn_independently_with_replacement():
    space = candidates.search_space([{"quality": [1]}, {"epsilon": stats.uniform()}], Constant())
    rng = np.random.default_rng(1)
    draws = [candidates.draw_candidate(space, rng) for _ in range(200)]
    assert {tuple(one) for one in draws} == {("quality",), ("epsilon",)}
    assert 60 < sum("quality" in one for one in draws) < 140
    assert len({one["epsilon"] for one in draws if "epsilon" in one}) > 60
