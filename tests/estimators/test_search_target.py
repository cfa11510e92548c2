"""Searches that are calibrated to a target as a whole."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import privsample as ps
from privsample.errors import UnreachableTarget
from privsample.estimators.run_account import RecordKinds
from tests.estimators.learners import FITS, PUBLIC, Constant, N, X, Y, quality

GOAL = ps.DP(1, 1e-5)
SPACE = {"radius": [1.0, 3.0, 10.0], "penalty": stats.loguniform(1e-4, 1e-1)}
RUNS = ps.TruncatedNegativeBinomial.logarithmic(mean=4)


def sgd(**options):
    options = {"score_noise": ps.NoisyScore(), "target": GOAL} | options
    return ps.PrivateSearchCV(ps.PrivateSGDClassifier(bounds=(-1, 1)), SPACE, **options)


def public(**options):
    return sgd(**({"score_noise": None, "validation": PUBLIC} | options))


def used(plan):
    """The part of the target that the certified account uses."""
    match plan.target:
        case ps.DP(epsilon=epsilon, delta=delta):
            return float(plan.account.epsilon(delta)) / epsilon
        case ps.RDP(order=order, epsilon=epsilon):
            return float(plan.account.rdp(order)) / epsilon
        case ps.Risk(baseline=baseline, success=success):
            return float(plan.account.risk(baseline)) / success


SEARCHES = {
    "scores": sgd(),
    "refit": sgd(refit=True, cv=3),
    "public": public(),
    "number of runs": sgd(repetitions=ps.Poisson(mean=6)),
    "noise": sgd(score_noise=ps.NoisyScore(noise_std=0.2)),
    "both": sgd(repetitions=RUNS, score_noise=ps.NoisyScore(noise_std=0.2)),
    "steady": sgd(constant_time=True, cv=3),
    "Rényi": sgd(target=ps.RDP(order=8, epsilon=0.5)),
    "Risk": sgd(target=ps.Risk(0.01, 0.02)),
    "strict": sgd(target=ps.DP(0.05, 1e-9)),
    "generous": sgd(target=ps.DP(20, 1e-2)),
    "all in runs": sgd(division=(1, 1, 30)),
    "all in scores": sgd(division=[1, 30, 1]),
    "one split": sgd(cv=[(np.arange(40), np.arange(40, N))]),
    "logistic": ps.PrivateSearchCV(
        ps.PrivateLogisticRegression(bounds=(-1, 1), steps=200),
        {"prior_std": [0.5, 2.0]},
        validation=PUBLIC,
        target=GOAL,
    ),
}


@pytest.mark.filterwarnings("ignore::privsample.errors.LargeDeltaWarning")
@pytest.mark.parametrize("name", SEARCHES)
def test_the_certified_account_meets_the_target_and_uses_it(name):
    plan = SEARCHES[name].plan_for(N, 2)
    assert plan.target.met_by(plan.account)
    assert 0.999 <= used(plan) <= 1.0
    assert sum(plan.shares.values()) == pytest.approx(1.0)
    assert min(plan.shares.values()) >= 0.0


def by_hand(plan, n, *, folds=5, refit=False):
    """The account of a search whose folds are equal, from what the plan says and nothing else."""
    relation = ps.ReplaceOne(n=n)
    training = ps.GaussianAccountant(sensitivity=plan.training_mu, noise_std=1.0, relation=relation)
    score = ps.GaussianAccountant(sensitivity=1.0 / n, noise_std=plan.score_noise.noise_std, relation=relation)
    account = ps.SelectionAccountant(base=(folds - 1) * training + score, repetitions=plan.repetitions)
    return account + training if refit else account


def charged(search, **kind):
    """Whether the account of a plan charges for everything that the plan decides, and meets its target."""
    plan = search.plan_for(N, 2)
    own = by_hand(plan, N, **kind)
    return own.epsilon(1e-5) == pytest.approx(plan.account.epsilon(1e-5), rel=1e-9) and own.epsilon(1e-5) <= 1.0 + 1e-9


@pytest.mark.parametrize("kind", [{"folds": 5}, {"folds": 3, "refit": True}])
def test_all_that_the_plan_decides_is_charged(kind):
    assert charged(sgd(cv=kind["folds"], refit=kind.get("refit", False)), **kind)


def test_a_search_that_does_not_charge_its_scores_is_found(monkeypatch):
    honest = RecordKinds.account
    monkeypatch.setattr(
        RecordKinds, "account", lambda self, costs, noise: honest(self, costs, noise.calibrated(1.0, 1e-12))
    )
    assert not charged(sgd())


def test_a_fitted_search_costs_what_its_plan_says_whatever_the_data():
    search = sgd(cv=3, refit=True, repetitions=RUNS)
    plan = search.plan_for(N, 2)
    for features, labels in ((X, Y), (np.zeros_like(X), np.zeros_like(Y))):
        made = clone(search).fit(features, labels)
        assert made.accountant_ == plan.account == made.plan_.account == search.accountant_for(N, 2)
        assert made.plan_.repetitions == plan.repetitions
        assert made.plan_.score_noise == plan.score_noise
        assert made.plan_.shares == plan.shares
        assert made.best_estimator_.accountant_for(N, 2).epsilon(1e-5) < 1.0
        assert "(epsilon = 1" in made.statement()


@pytest.mark.parametrize("loss", [0.05, 0.2])
def test_a_tiny_search_by_enumeration(loss):
    """One candidate, whose training tells a bit by randomized response and whose score is the bit."""
    target = ps.DP(0.5)
    search = ps.PrivateSearchCV(Constant(epsilon=loss), {"quality": [0.5]}, validation=PUBLIC, target=target)
    plan = search.plan_for(N)
    good = np.exp(loss) / (1.0 + np.exp(loss))
    k = np.arange(1.0, 20_000.0)
    mass = np.exp(plan.repetitions.log_mass(k))
    bad = [float(mass @ (1.0 - p) ** k) for p in (good, 1.0 - good)]  # no run says 1: K >= 1
    exact = max(abs(np.log(bad[0] / bad[1])), abs(np.log((1.0 - bad[0]) / (1.0 - bad[1]))))
    assert exact <= plan.account.epsilon(0.0) <= target.epsilon
    assert plan.repetitions.mean == pytest.approx(3.0 if loss == 0.05 else 2.0, rel=0.6)
    assert sum(plan.shares.values()) == pytest.approx(1.0)


def test_more_for_the_runs_is_less_for_the_trainings():
    few, many = sgd(division=(8, 1, 2)).plan_for(2000, 2), sgd(division=(4, 1, 6)).plan_for(2000, 2)
    assert few.repetitions.mean < many.repetitions.mean
    assert few.training_mu > many.training_mu
    assert few.shares["scores"] / few.shares["training"] == pytest.approx(1 / 8)
    again = sgd(division=np.array([80.0, 10.0, 20.0])).plan_for(2000, 2)
    assert again.training_mu == few.training_mu


def test_given_parts_are_kept():
    plan = sgd(repetitions=RUNS, score_noise=ps.NoisyScore(noise_std=0.2, bounds=(0, 1))).plan_for(N, 2)
    assert plan.repetitions == RUNS
    assert plan.score_noise.noise_std == 0.2
    fixed = ps.PrivateSearchCV(
        ps.PrivateSGDClassifier(bounds=(-1, 1), epsilon=0.1, delta=1e-7), {"handle_invalid": ["error", "replace"]},
        score_noise=ps.NoisyScore(), target=GOAL,
    )  # fmt: skip
    plan = fixed.plan_for(N, 2)
    assert plan.training_mu is None
    assert plan.costs[N * 4 // 5] == ps.PrivateSGDClassifier(bounds=(-1, 1), epsilon=0.1, delta=1e-7).accountant_for(
        N * 4 // 5, 2
    )
    assert 0.999 <= used(plan) <= 1.0
    steady = sgd(repetitions=ps.TruncatedRepetitions(distribution=RUNS, maximum=9), constant_time=True, cv=2)
    assert steady.plan_for(N, 2).runs == 9


def test_laplace_noise_on_scores():
    halves = [(np.arange(40), np.arange(40, N))]
    noise = ps.NoisyScore(distribution="laplace")
    plan = sgd(cv=halves, repetitions=RUNS, score_noise=noise).plan_for(N, 2)
    assert plan.score_noise.distribution == "laplace"
    assert 0.999 <= used(plan) <= 1.0
    relation = ps.ReplaceOne(n=N)
    tested = ps.LaplaceAccountant(  # records of the test part: their score alone
        sensitivity=1.0 / (N - 40), scale=plan.score_noise.noise_std / np.sqrt(2.0), relation=relation
    )
    assert ps.SelectionAccountant(base=tested, repetitions=RUNS).epsilon(1e-5) <= plan.account.epsilon(1e-5)


def dominates(made, noise):
    """Whether Gaussian noise has at least the privacy curve of Laplace noise."""
    relation, losses = ps.ReplaceOne(n=N), np.linspace(0.0, 30.0, 400)
    above, below = (one.mechanism(1.0, relation).accountant for one in (made, noise))
    return bool(np.all(below.log_delta(losses) <= above.log_delta(losses)))


@pytest.mark.parametrize("std", [0.06, 0.3, 1.0, 4.0, 1e3])
def test_laplace_noise_is_charged_as_gaussian_noise_that_dominates_it(std):
    noise = ps.NoisyScore(noise_std=std, distribution="laplace")
    made = noise.as_gaussian()
    assert dominates(made, noise)
    assert noise.mechanism(1.0, ps.ReplaceOne(n=N)).accountant.mu() <= 1.0 / made.noise_std
    assert noise.calibrated(1.0, noise.rho(1.0)).noise_std == pytest.approx(std, rel=1e-12)
    if std >= 4.0:  # the price of the same zCDP is too low
        assert not dominates(ps.NoisyScore(noise_std=std / np.sqrt(2.0)), noise)


def test_steps_of_a_pipeline_divide_a_training():
    steps = make_pipeline(ps.PrivateStandardScaler(bounds=(-1, 1)), ps.PrivateSGDClassifier(norm=1.0))
    search = ps.PrivateSearchCV(
        steps, {"privatesgdclassifier__radius": [1.0, 4.0]}, RUNS, validation=PUBLIC, target=ps.DP(4, 1e-3)
    )
    made = search.fit(X, Y)
    mus = [step.target.mu for step in made.best_estimator_]
    assert mus[0] == mus[1] == pytest.approx(made.plan_.training_mu / np.sqrt(2))
    assert ps.pipeline_account(made.best_estimator_, N, 2).epsilon(1e-3) < 4


class Careless(Constant):
    """A classifier that need not do what it is asked for."""

    def __init__(self, quality=0.5, factor=1.0, relation="replace", target=None):
        self.quality, self.factor, self.relation, self.target = quality, factor, relation, target

    def accountant_for(self, n):
        shift = self.factor * (self.target.mu if self.target else 1.0)
        relation = ps.ReplaceOne(n=n) if self.relation == "replace" else ps.AddRemove()
        return ps.GaussianAccountant(sensitivity=shift, noise_std=1.0, relation=relation)


@pytest.mark.parametrize("wrong", [{"factor": 1.01}, {"relation": "add or remove"}])
def test_a_candidate_that_costs_more_than_its_target_is_not_trained(wrong):
    space = {"factor": [1.0, 1.01]} if "factor" in wrong else {"relation": ["replace", "add or remove"]}
    search = ps.PrivateSearchCV(Careless(), space, RUNS, scoring=quality, validation=PUBLIC, target=GOAL)
    plan = search.plan_for(N)
    assert plan.configure_or_none({"factor": 1.0, "relation": "replace"}) is not None
    assert plan.configure_or_none(wrong) is None
    with pytest.raises(ValueError, match="estimator must meet the target GDP"):
        search.set_params(param_distributions={name: [value] for name, value in wrong.items()}).plan_for(N)


REFUSED = [
    (sgd(target=1.0), TypeError, "target must be a Target"),
    (sgd(target=(1, 1e-5)), TypeError, "write ps.DP"),
    (sgd(division=(1, 1)), ValueError, "division must be three finite numbers > 0"),
    (sgd(division=(1, 1, 0)), ValueError, "division must be three finite numbers > 0"),
    (sgd(division=(1, float("inf"), 1)), ValueError, "division must be three finite numbers > 0"),
    (sgd(division=(1, float("nan"), 1)), ValueError, "division must not contain NaN"),
    (sgd(division=(1e300, 1e-300, 1)), ValueError, "division must not hold shares below"),
    (sgd(division="equal"), TypeError, "division must be real numbers"),
    (sgd(repetitions=5), TypeError, "fixed number is refused"),
    (sgd(repetitions=RUNS, constant_time=True), ValueError, "must have a maximum"),
    (sgd(target=None, division=(1, 1, 1)), ValueError, "division must be None without target"),
    (sgd(target=None), TypeError, "repetitions must be given without a target"),
    (sgd(target=None, repetitions=RUNS), ValueError, "noise_std of NoisyScore must be given"),
    (
        ps.PrivateSearchCV(ps.PrivateSGDClassifier(norm=1.0), {"epsilon": [1, 2]}, validation=PUBLIC, target=GOAL),
        ValueError,
        "must not name 'epsilon' with target",
    ),
    (
        ps.PrivateSearchCV(
            make_pipeline(ps.PrivateStandardScaler(bounds=(0, 1), epsilon=1.0), ps.PrivateSGDClassifier(norm=1.0)),
            {"privatesgdclassifier__radius": [1.0]}, validation=PUBLIC, target=GOAL,
        ),
        ValueError,
        "or none of them: privatesgdclassifier does not",
    ),
    (
        ps.PrivateSearchCV(
            make_pipeline(StandardScaler(), ps.PrivateSGDClassifier(norm=1.0)),
            {"privatesgdclassifier__radius": [1.0]}, validation=PUBLIC, target=GOAL,
        ),
        ValueError,
        "standardscaler",
    ),
    (
        sgd(training_account=ps.ZCDPAccountant(rho=3.0, relation=ps.ReplaceOne(n=N)), refit=False, score_noise=None,
            validation=PUBLIC),
        UnreachableTarget,
        "costs epsilon .* with the given accounts of training costs at least that much: leave epsilon",
    ),
    (sgd(score_noise=ps.NoisyScore(noise_std=1e-4)), UnreachableTarget,
        "given noise_std costs at least that much: leave noise_std of"),
    (sgd(target=ps.ZCDP(0.1)), UnreachableTarget,
        "cannot be met; a search costs at least that much whatever its noise: use a target of kind RDP"),
    (sgd(target=ps.DP), TypeError, "target must be a Target"),
    (sgd(target=np.float64(1.0)), TypeError, "target must be a Target such as .*, got float"),
    (sgd(target=ps.GDP(0.3)), UnreachableTarget, "no finite mu bounds the tail"),
    (sgd(target=ps.DP(1)), UnreachableTarget, "privacy loss .* is unbounded; use a target with delta > 0"),
    (
        sgd(target=ps.RDP(8, 1e-3), training_account=ps.ZCDPAccountant(rho=3.0, relation=ps.ReplaceOne(n=N)),
            repetitions=RUNS, score_noise=None, validation=PUBLIC),
        UnreachableTarget,
        "at that order; .* accounts of training and repetitions costs",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("search", "error", "words"), REFUSED, ids=lambda one: one if isinstance(one, str) else "")
def test_refused_before_anything_is_trained_or_spent(search, error, words, tmp_path):
    ledger = ps.Ledger(tmp_path / "ledger.jsonl", budget=ps.DP(10, 1e-3), relation=ps.ReplaceOne(n=N), dataset="trial")
    FITS.clear()
    with pytest.raises(error, match=words):
        clone(search).set_params(ledger=ledger).fit(X, Y)
    assert not FITS
    assert not ledger.history()


def test_a_plan_shows_what_it_decides():
    plan = sgd().plan_for(2000, 3)
    assert repr(plan).startswith("SearchPlan(epsilon 1 at delta 1e-05; training ")
    assert "\n" not in repr(plan)
    assert len(repr(plan)) <= 110
    assert plan.summary().count("\n") == 3
    ax = plan.plot()
    assert len(ax.patches) == 3
    assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(100.0)
    stated = {"training_account": lambda n: ps.ZCDPAccountant(rho=0.1, relation=ps.ReplaceOne(n=n))}
    given = sgd(target=None, repetitions=RUNS, score_noise=ps.NoisyScore(noise_std=0.2), **stated).plan_for(N, 2)
    assert "without a target" in given.summary()
    assert "SearchPlan(no target" in repr(given)
    with pytest.raises(ValueError, match="must have a target"):
        given.plot()
    assert "public data, without cost" in public().plan_for(N, 2).summary()
