"""One-run audits: true noise stands, halved noise falls, and the number of guesses is fixed before scoring."""

import warnings
from dataclasses import replace
from threading import Lock

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import special, stats
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import privsample as ps
from privsample.errors import TooFewGuessesWarning

CANARIES, SUBSTITUTES = ps.orthogonal_canaries(1_000)
MODEL = ps.PrivateSGDClassifier(
    epsilon=5, norm=1, radius=0.4, rate=1.0, epochs=1, batch=1_000, fit_intercept=False, penalty=1e-3
)
MECHANISM = MODEL.mechanism_for(1_000, 1_000)
CLAIM = ps.GaussianAccountant(sensitivity=1, noise_std=1)
BITS = list(range(200))


def halved(records, rng):
    """Training with half the noise of the claim."""
    quiet = replace(MECHANISM, noise_std=MECHANISM.noise_std / 2)
    return quiet.release(records, rng=rng)["coefficients"][0]


def aligned(coefficients, canary):
    row, label = canary
    return (2 * label - 1) * float(coefficients @ row)


def noisy_bits(std):
    """A training run that releases one noisy bit for each canary: its audit is a product of Gaussian mechanisms."""

    def train(included, rng):
        released = rng.normal(0, std, len(BITS))
        released[included] += 1
        return released

    return train


def read_bit(released, canary):
    return released[canary]


def test_private_sgd_with_a_thousand_canaries(rng):
    kept = ps.audit_one_run(MODEL, CANARIES, substitutes=SUBSTITUTES, guesses=200, rng=rng)
    assert kept.outcome == "CONSISTENT", kept.statement
    assert "do not" not in kept.statement
    assert "194 would refute the claim" in kept.statement
    broken = ps.audit_one_run(
        halved, CANARIES, substitutes=SUBSTITUTES, claim=MECHANISM.accountant, guesses=200, score=aligned, rng=rng
    )
    assert broken.outcome == "VIOLATED", broken.statement
    assert broken.right >= broken.critical == 194
    assert 1.0 < broken.mu < 2.1  # halved noise has twice the mu of the claim, about 1.04
    assert broken.p_value <= 0.05 < kept.p_value


def share_refuted(guess, rng, runs=400):
    """How many of many audits at level 0.05 refute a claim that randomized response attains exactly."""
    epsilon, many = 1.0, 100
    refuted = 0
    for _ in range(runs):
        plan = ps.OneRunPlan.draw(claim=RESPONSE, canaries=many, guesses=many, rng=rng)
        flipped = rng.random(many) > special.expit(epsilon)
        # the answers, with tiny numbers that tell how "sure" a guess is; they carry no information
        refuted += guess(plan, (plan.included ^ flipped) - 0.5 + rng.uniform(-0.1, 0.1, many))
    return refuted


def fixed_number(plan, scores):
    return plan.verdict(scores).violated


def number_chosen_after_scoring(plan, scores):
    """A mutant: of all numbers of guesses, the one that looks best."""
    order = np.argsort(-np.abs(scores))
    right = np.cumsum(((scores > 0) == plan.included)[order])
    return any(right[guesses - 1] >= least for guesses, least in LEAST.items())


RESPONSE = ps.PureAccountant(stated_epsilon=1.0)
LEAST = {g: ps.critical_guesses(RESPONSE, canaries=100, guesses=g) for g in range(15, 101)}


@pytest.mark.statistical
def test_true_claims_are_refuted_at_the_level_only(rng, alpha):
    refuted = share_refuted(fixed_number, rng)
    assert stats.binom.sf(refuted - 1, 400, 0.05) > alpha
    peeked = share_refuted(number_chosen_after_scoring, rng)
    assert stats.binom.sf(peeked - 1, 400, 0.05) < alpha


def test_the_number_of_guesses_decides_what_is_guessed():
    plan = ps.OneRunPlan(claim=lambda e: 0.5, guesses=3, included=[True, False, True, False, True])
    assert plan.verdict([5, 1, 4, 2, 3]).right == 3  # canaries 0 and 2 in, canary 1 out
    assert plan.verdict([1, 5, 2, 4, 3]).right == 0
    everything = replace(plan, guesses=5)
    assert everything.verdict([5, 1, 4, 2, 3]).right == 5
    assert everything.verdict([0, 0, 0, 0, 0]).right == everything.verdict([7, 7, 7, 7, 7]).right


def test_a_plan_and_one_call_agree(tmp_path):
    for std, outcome in ((1.0, "CONSISTENT"), (0.2, "VIOLATED")):
        options = {"claim": CLAIM, "guesses": 100}
        whole = ps.audit_one_run(noisy_bits(std), BITS, score=read_bit, rng=np.random.default_rng(3), **options)
        source = np.random.default_rng(3)
        plan = ps.OneRunPlan.draw(canaries=200, rng=source, **options)
        plan.save(tmp_path / "plan.json", force=True)
        plan = ps.OneRunPlan.load(tmp_path / "plan.json")
        included = [bit for bit, kept in zip(BITS, plan.included, strict=True) if kept]
        verdict = plan.verdict(noisy_bits(std)(included, source.spawn(1)[0]))
        assert verdict == whole
        assert verdict.outcome == outcome
        verdict.save(tmp_path / f"{outcome}.json")
        assert ps.OneRunVerdict.load(tmp_path / f"{outcome}.json") == verdict
        with pytest.raises(FileExistsError):
            verdict.save(tmp_path / f"{outcome}.json")
    with pytest.raises(ValueError, match=r"must hold a OneRunPlan, got a OneRunVerdict"):
        ps.OneRunPlan.load(tmp_path / "VIOLATED.json")
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(ValueError, match=r"x\.json is not JSON"):
        ps.OneRunVerdict.load(tmp_path / "x.json")
    function = ps.OneRunVerdict(claim=lambda e: 0.5, canaries=9, guesses=3, right=2)
    with pytest.raises(TypeError, match="function cannot be saved"):
        function.save(tmp_path / "f.json")
    assert not (tmp_path / "f.json").exists()


def test_scores_in_threads_equal_those_in_one(rng):
    run = lambda: ps.audit_one_run(  # noqa: E731
        noisy_bits(0.3), BITS, claim=CLAIM, guesses=100, score=read_bit, rng=np.random.default_rng(5)
    )
    alone = run()
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert run() == alone


def test_a_result_that_cannot_be_sent_to_processes():
    with joblib.parallel_config(n_jobs=2), pytest.raises(TypeError, match="cannot be sent to other processes"):
        ps.audit_one_run(lambda records, rng: Lock(), BITS, claim=CLAIM, guesses=100, score=read_bit)


def test_canaries_keep_their_form():
    seen = []

    def train(records, rng):
        seen.append(records)
        return 0

    options = {"claim": lambda e: 0.0, "guesses": 2, "score": lambda result, canary: 0.0}
    options |= {"level": 0.5, "rng": np.random.default_rng(7)}
    rows, targets = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])
    ps.audit_one_run(train, rows, **options)
    ps.audit_one_run(train, (rows.tolist(), targets.tolist()), **options)
    ps.audit_one_run(train, [{"a": 1}, {"a": 2}, object(), lambda: 0], **options)
    ps.audit_one_run(train, ["a", "b"], substitutes=["c", "d"], **options)
    ps.audit_one_run(train, (rows, targets), substitutes=(rows, 1 - targets), **options)
    assert seen[0].ndim == 2
    assert set(map(tuple, seen[0])) <= set(map(tuple, rows))
    assert len(seen[1][0]) == len(seen[1][1])
    assert isinstance(seen[2], list)
    assert [{one} <= {a, b} for one, a, b in zip(seen[3], "ab", "cd", strict=True)] == [True, True]
    assert (seen[4][0] == rows).all()


@pytest.mark.parametrize(
    ("estimator", "targets"),
    [(LogisticRegression(), (0, 1)), (LinearRegression(), (-1.0, 1.0)), (DecisionTreeClassifier(), (0, 1))],
    ids=["alignment", "regression", "probability"],
)
def test_estimators_that_overfit_are_refuted_by_default_scores(estimator, targets, rng):
    canaries, substitutes = ps.orthogonal_canaries(60, targets=targets)
    claim = ps.PureAccountant(stated_epsilon=1.0, relation=ps.ReplaceOne(n=60))
    verdict = ps.audit_one_run(estimator, canaries, substitutes=substitutes, claim=claim, guesses=60, rng=rng)
    assert verdict.violated, verdict.statement
    assert verdict.right > 55


def test_default_scores_of_other_models(rng):
    class Remembers:
        """Predicts the target of each record that it has seen, and 0 of others."""

        def fit(self, rows, targets):
            self.known = {row.tobytes(): target for row, target in zip(rows, targets, strict=True)}
            return self

        def get_params(self, deep=True):
            return {}

        def predict(self, rows):
            return np.array([self.known.get(row.tobytes(), 0.0) for row in rows])

    rows = np.random.default_rng(0).normal(size=(90, 3))
    three = (rows, np.arange(90) % 3)
    claim = ps.PureAccountant(stated_epsilon=0.5)
    verdict = ps.audit_one_run(Remembers(), (rows, rows[:, 0] + 5), claim=claim, guesses=80, rng=rng)
    assert verdict.violated, verdict.statement
    forest = DecisionTreeClassifier(random_state=0)
    assert ps.audit_one_run(forest, three, claim=claim, guesses=60, rng=rng).right > 40
    with pytest.raises(TypeError, match="score must be given for a result of type int"):
        ps.audit_one_run(lambda records, rng: 1, three, claim=claim, guesses=60)


def test_scores_of_impossible_classes_and_of_huge_errors_are_numbers(rng):
    """The difference of two infinite scores would be NaN, and the one training run would be lost."""

    class Extreme:
        def predict(self, rows):
            return np.full(len(rows), 1e200)

    class Sure(Extreme):
        classes_ = np.arange(3)

        def predict_proba(self, rows):
            return np.tile([1.0, 0.0, 0.0], (len(rows), 1))

    rows = np.random.default_rng(0).normal(size=(30, 3))
    canaries, substitutes = (rows, 1 + np.arange(30) % 2), (rows, 2 - np.arange(30) % 2)
    claim = ps.PureAccountant(stated_epsilon=1.0, relation=ps.ReplaceOne(n=30))
    for result in (Extreme(), Sure()):
        verdict = ps.audit_one_run(
            lambda records, rng, result=result: result, canaries, substitutes=substitutes, claim=claim, guesses=30
        )
        assert 0 < verdict.right < 30, verdict.statement


@pytest.mark.statistical
def test_equal_scores_are_guessed_without_the_coins(rng, alpha):
    plans = [ps.OneRunPlan.draw(claim=lambda e: 0.0, canaries=100, guesses=60, rng=rng) for _ in range(50)]
    right = sum(plan.verdict(np.zeros(100)).right for plan in plans)
    assert stats.binomtest(right, 50 * 60).pvalue > alpha


def test_an_error_of_the_training_is_its_own_and_no_run_starts_twice():
    tried = []

    def train(records, rng):
        tried.append(records)
        raise ZeroDivisionError("of the training")

    with pytest.raises(ZeroDivisionError, match="of the training"):
        ps.audit_one_run(train, BITS, claim=lambda e: 0.0, guesses=20, score=read_bit)
    assert len(tried) == 1


@pytest.mark.parametrize("delta", [0.2, 1.0])
def test_a_claim_that_allows_certain_failure_is_never_refuted(delta):
    """With delta = 0.2 at every epsilon a run may reveal everything with probability 0.2."""
    verdict = ps.OneRunVerdict(claim=lambda e: delta, canaries=50, guesses=50, right=50)
    assert (verdict.outcome, verdict.critical, verdict.needed) == ("CONSISTENT", None, None)
    one = ps.OneRunVerdict(claim=lambda e: 0.0, canaries=1, guesses=1, right=1, level=0.6)
    assert one.critical == 1
    assert one.p_value == pytest.approx(0.5, abs=1e-6)


def test_too_few_guesses_are_warned_of_before_training():
    trained = []
    claim = ps.GaussianAccountant(sensitivity=1, noise_std=1)
    with pytest.warns(TooFewGuessesWarning, match="50 right guesses would not refute the claim; at least 59 guesses"):
        warned = ps.OneRunPlan.draw(claim=claim, canaries=1_000, guesses=50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TooFewGuessesWarning) as caught:
            ps.audit_one_run(lambda records, rng: trained.append(1), BITS, claim=claim, guesses=9, score=read_bit)
        ps.OneRunPlan.draw(claim=claim, canaries=1_000, guesses=59)
    assert not trained
    assert "at least" in str(caught.value)
    verdict = warned.verdict(np.arange(1_000.0))
    assert verdict.critical is None
    assert "at least 59 guesses are needed" in verdict.statement
    hopeless = ps.OneRunVerdict(claim=claim, canaries=10, guesses=5, right=5)
    assert hopeless.needed is None
    assert "use more canaries" in hopeless.statement


def test_plots_and_words_agree_with_the_verdict():
    claim = ps.GaussianAccountant(sensitivity=1, noise_std=2)
    critical = ps.OneRunVerdict(claim=claim, canaries=300, guesses=100, right=0).critical
    assert 60 < critical < 90
    for right in (0, critical - 1, critical, 100):
        verdict = ps.OneRunVerdict(claim=claim, canaries=300, guesses=100, right=right)
        axes = verdict.plot()
        line, chance, point = axes.lines
        x, y = float(point.get_xdata()[0]), float(point.get_ydata()[0])
        allowed = dict(zip(line.get_xdata(), line.get_ydata(), strict=True))[x]
        assert (y > allowed) == verdict.violated == (right >= verdict.critical)
        assert verdict.outcome in point.get_label()
        assert str(verdict) == verdict.statement
        assert verdict.statement.startswith(verdict.outcome)
        assert verdict.outcome in verdict._repr_html_()
        assert f"{right} of 100 right" in repr(verdict)
        assert chance.get_ydata()[0] == 50
        assert axes.get_ylim()[0] <= y
        type(axes.figure).clear(axes.figure)
    other = verdict.plot(axes.figure.subplots())
    assert len(other.get_legend().get_texts()) == 3
    sure = ps.OneRunVerdict(claim=ps.PureAccountant(stated_epsilon=0.0), canaries=2_000, guesses=2_000, right=2_000)
    assert "p = at most 1e-250" in sure.statement


def test_orthogonal_canaries():
    (rows, targets), (others, opposite) = ps.orthogonal_canaries(4, norm=0.5, targets=(-1, 3))
    assert (rows @ rows.T == 0.25 * np.eye(4)).all()
    assert (rows == others).all()
    assert targets.tolist() == [-1, 3, -1, 3]
    assert opposite.tolist() == [3, -1, 3, -1]


REPLACED = ps.PureAccountant(stated_epsilon=1.0, relation=ps.ReplaceOne(n=4))
ADDED = ps.PureAccountant(stated_epsilon=1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"canaries": [1, 2, 1, 3]}, "canaries must differ from each other, got canary 0 again as canary 2"),
        ({"canaries": np.array([[0.0, 1.0], [-0.0, 1.0]])}, "canaries must differ from each other"),
        ({"canaries": [[1], [2], [1]]}, "canaries must differ from each other"),
        ({"canaries": (np.eye(3), [1, 1])}, r"rows of shape \(m, features\) and targets of shape \(m,\)"),
        ({"canaries": (1, 2, 3)}, "a list of records, or a pair"),
        ({"canaries": ([[1], [2, 3]], [1, 2])}, "rows of equal length"),
        ({"canaries": []}, "canaries must be at least 1"),
        ({"guesses": 5}, "guesses must be at most the number of canaries, 4, got 5"),
        ({"guesses": 0}, "guesses must be at least 1"),
        ({"level": 0.0}, r"level must lie in \[1e-200, 1\)"),
        ({"level": float("nan")}, "level must lie in"),
        ({"claim": REPLACED}, "substitutes must be given: the claim is for datasets of 4 records"),
        ({"claim": ADDED, "substitutes": [5, 6, 7, 8]}, "substitutes must be left out"),
        ({"claim": REPLACED, "substitutes": [5, 6, 7]}, "one for each: a list of 4, got a list of 3"),
        ({"claim": REPLACED, "substitutes": [5, 2, 7, 8]}, "an equal one for canary 1"),
        ({"substitutes": (np.eye(4), [1, 2, 3, 4])}, "in the form of the canaries"),
        ({"canaries": np.eye(3), "substitutes": np.zeros((3, 2))}, "in the form of the canaries"),
        ({"claim": lambda e: 2.0}, r"delta claimed at epsilon = 0 must lie in \[0, 1\]"),
        ({"claim": lambda e: float("nan")}, "must lie in"),
        ({"score": lambda result, canary: float("nan")}, "scores must not contain NaN"),
    ],
)
def test_bad_arguments_are_named(changes, message):
    trained = []
    options = {"canaries": [1, 2, 3, 4], "guesses": 4, "claim": ADDED, "score": lambda r, c: c, "level": 0.9} | changes
    with pytest.raises(ValueError, match=message):
        ps.audit_one_run(lambda records, rng: trained.append(records), **options)
    assert not trained or "score" in changes


@pytest.mark.parametrize(
    ("train", "changes", "message"),
    [
        (3, {}, "train must be a function"),
        (lambda records: 0, {}, "train must be a function of 2 arguments"),
        (None, {}, "train must be a function"),
        (LogisticRegression, {}, "train must be a function, got"),
        (LogisticRegression(), {}, r"canaries must be a tuple \(rows, targets\) for an estimator"),
        (LogisticRegression(), {"canaries": (np.eye(4), [0, 1, 0, 1]), "claim": None}, "claim must be given"),
        (max, {"claim": None}, "claim must be given"),
        (max, {"claim": 1.0}, "claim must be an accountant or a function"),
        (max, {"score": None}, "score must be given for canaries without targets"),
        (max, {"score": 1}, "score must be a function"),
        (max, {"canaries": "abcd"}, "canaries must be a list"),
        (max, {"canaries": {1: 2}}, "canaries must be a list of records, .*, got dict: write its records as a list"),
        (max, {"canaries": pd.DataFrame({"a": range(4)})}, r"got DataFrame: pass its to_numpy\(\)"),
        (max, {"rng": 3}, "rng must be a numpy.random.Generator"),
        (max, {"progress": 1}, "progress must be True or False"),
        (lambda records, rng: 0, {"score": lambda r, c: "high"}, "the score of canary 0 must be a number"),
    ],
)
def test_arguments_of_wrong_types_are_named(train, changes, message):
    options = {"canaries": [1, 2, 3, 4], "guesses": 4, "claim": ADDED, "score": lambda r, c: c, "level": 0.9} | changes
    with pytest.raises(TypeError, match=message):
        ps.audit_one_run(train, **options)


def test_other_bad_values_are_named():
    with pytest.raises(RuntimeError, match="the score of canary 0 raised ZeroDivisionError"):
        ps.audit_one_run(lambda r, g: 0, BITS, claim=lambda e: 0.0, guesses=20, score=lambda r, c: 1 / 0)
    edges = ps.ProfileEdge(graph=ps.ProfileGraph(profiles={"a": [0.5, 0.5], "b": [1.0, 0.0]}))
    profiles = ps.PureAccountant(stated_epsilon=1.0, relation=edges)
    with pytest.raises(ValueError, match="claim must be under AddRemove or ReplaceOne"):
        ps.audit_one_run(lambda r, g: 0, BITS, claim=profiles, guesses=20, score=read_bit)
    with pytest.raises(ValueError, match="right must be at most guesses = 3, got 4"):
        ps.OneRunVerdict(claim=CLAIM, canaries=5, guesses=3, right=4)
    with pytest.raises(ValueError, match="canaries must be at most 1,000,000"):
        ps.critical_guesses(CLAIM, canaries=10**8, guesses=3)
    with pytest.raises(ValueError, match="included must be a list of True and False"):
        ps.OneRunPlan(claim=CLAIM, guesses=1, included=[2, 1])
    with pytest.raises(ValueError, match="included must be a list of True and False"):
        ps.OneRunPlan(claim=CLAIM, guesses=1, included=[[1], [1, 0]])
    plan = ps.OneRunPlan(claim=CLAIM, guesses=1, included=[1, 0])
    assert plan.included.dtype == bool
    with pytest.raises(ValueError, match=r"scores must have shape \(2,\), one for each canary, got \(3,\)"):
        plan.verdict([1, 2, 3])
    with pytest.raises(ValueError, match="targets must be two different numbers"):
        ps.orthogonal_canaries(3, targets=(1, 1))
    with pytest.raises(ValueError, match="targets must be two numbers"):
        ps.orthogonal_canaries(3, targets=(1, 2, 3))
    with pytest.raises(ValueError, match="lower count"):
        ps.orthogonal_canaries(10**6)
