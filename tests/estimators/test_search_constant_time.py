"""Searches that always train the largest number of candidates: what counts, what they cost, and progress."""

import sys

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.estimators.search_plan import plan_search
from tests.estimators.learners import FITS, N, X, Y, private, search

FEW = ps.TruncatedRepetitions(distribution=ps.Poisson(mean=2), maximum=6)
QUALITIES = list(range(6))


@pytest.fixture(autouse=True)
def no_fits():
    FITS.clear()


@pytest.mark.parametrize("folds", [0, 3])
def test_the_largest_number_is_always_trained(folds, rng):
    """The broken copy, without constant_time, trains as many as count."""
    numbers = {True: set(), False: set()}
    for constant, found in numbers.items():
        made = (private if folds else search)({"quality": [0.1, 0.9]}, repetitions=FEW, constant_time=constant)
        made = made.set_params(cv=folds or None)
        for _ in range(12):
            FITS.clear()
            made.fit(X, Y, rng=rng)
            found.add(len(FITS))
    assert numbers[True] == {6 * max(folds, 1)}
    assert len(numbers[False]) > 1


@pytest.mark.statistical
@pytest.mark.parametrize(("constant", "mean", "accepted"), [(True, 2, True), (False, 2, True), (True, 6, False)])
def test_the_winner_is_that_of_the_first_runs(constant, mean, accepted, rng, alpha):
    """P(best among the lowest j of 6) = f(j/6) for the generating function f of K; the broken copy has more runs.

    By 20,000 simulations its statistic lies 4.6 standard deviations above the limit, and never below it.
    """
    runs = ps.TruncatedRepetitions(distribution=ps.Poisson(mean=mean), maximum=6)
    model, fits = search({"quality": QUALITIES}, runs, constant_time=constant), 250
    plan = plan_search(model, N)
    best = [model._best(plan, X, Y, rng, rng).candidate for _ in range(fits)]
    found = np.bincount([0 if one is None else 1 + one["quality"] for one in best], minlength=7)
    k = np.arange(7.0)
    below = np.array([np.exp(FEW.log_mass(k)) @ (j / 6) ** k for j in range(7)])
    assert (stats.chisquare(found, fits * np.diff(below, prepend=0.0)).pvalue > alpha) == accepted


def test_the_account_assumes_less_and_costs_the_same():
    usual, constant = (search(repetitions=FEW, constant_time=one).accountant_for(N) for one in (False, True))
    assert ps.Assumption.TIMING in usual.assumptions
    assert ps.Assumption.TIMING not in constant.assumptions
    assert ps.Assumption.FIXED_WORK in constant.assumptions
    assert constant.epsilon(1e-6) == usual.epsilon(1e-6)


def test_progress_shows_public_numbers_only(rng, capsys):
    pytest.importorskip("rich")
    made = search({"quality": [0.1, -1.0]}, FEW, constant_time=True)
    made.fit(X, Y, rng=rng, progress=True)
    shown = capsys.readouterr()
    assert "training" in shown.err
    assert "100%" in shown.err
    assert shown.out == ""
    with pytest.raises(ValueError, match="progress must be False without constant_time=True: it would reveal"):
        search(repetitions=FEW).fit(X, Y, progress=True)
    with pytest.raises(TypeError, match="progress must be True or False"):
        made.fit(X, Y, progress=1)


def test_nothing_is_spent_without_a_progress_bar(monkeypatch, tmp_path):
    budget = ps.DP(epsilon=50, delta=1e-6)
    ledger = ps.Ledger(tmp_path / "l", budget=budget, relation=ps.ReplaceOne(n=N), dataset="d")
    made = search(repetitions=FEW, constant_time=True, ledger=ledger)
    monkeypatch.setitem(sys.modules, "rich", None)
    with pytest.raises(ImportError, match="leave progress out"):
        made.fit(X, Y, progress=True)
    assert not FITS
    assert len(ledger.history()) == 0


def test_bad_input():
    with pytest.raises(ValueError, match="repetitions must have a maximum with constant_time=True"):
        search(repetitions=ps.Poisson(mean=3), constant_time=True).accountant_for(N)
    with pytest.raises(TypeError, match="constant_time must be True or False"):
        search(repetitions=FEW, constant_time="yes").accountant_for(N)
    with pytest.raises(ValueError, match="with constant_time=True pass progress=True to fit"):
        search(repetitions=FEW, constant_time=True, verbose=1).accountant_for(N)
