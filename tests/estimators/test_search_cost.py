"""The price of a search, and everything that is refused because it has none."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, PredefinedSplit, ShuffleSplit, StratifiedKFold

import privsample as ps
from privsample.estimators.run_account import RecordKinds, fixed_folds, score_weights, to_full_dataset
from privsample.estimators.search_plan import plan_search
from tests.estimators.learners import FITS, NOISE, RUNS, Constant, N, X, Y, private, search

RECORDS = ps.ReplaceOne(n=N)
TRAINING = ps.PureAccountant(stated_epsilon=0.1, relation=RECORDS)


def noise(weight, n=N):
    return NOISE.mechanism(weight, ps.ReplaceOne(n=n)).accountant


def test_public_validation_costs_one_training_a_run():
    assert search().accountant_for(N) == ps.SelectionAccountant(base=TRAINING, repetitions=RUNS)
    assert search(refit=True).accountant_for(N) == ps.SelectionAccountant(base=TRAINING, repetitions=RUNS) + TRAINING


def test_any_distribution_of_the_number_of_runs_is_taken():
    runs = ps.TabulatedRepetitions(probabilities=(0.1, 0.5, 0.4))
    made = search(repetitions=runs)
    assert made.accountant_for(N) == ps.SelectionAccountant(base=TRAINING, repetitions=runs)
    assert made.fit(X, Y).accountant_.repetitions == runs


def test_equal_folds_cost_all_trainings_but_one_and_the_score():
    account = private(cv=4).accountant_for(N)
    assert account.base == (3 * TRAINING + noise(1 / N)).assuming(ps.Assumption.FIXED_PARTS)
    assert account.relation == RECORDS
    assert private(cv=4, refit=True).accountant_for(N) == account + TRAINING
    assert private().accountant_for(N).base.entries[0] == (TRAINING, 4)
    assert private(cv=LeaveOneOut()).accountant_for(7).base.entries[0][1] == 6


def test_records_that_do_not_train_pay_for_their_score_alone():
    halves = [(np.arange(30), np.arange(30, 60))]
    account = private(cv=halves).accountant_for(N).base
    assert set(account.parts) == {1 * TRAINING, 1 * noise(1 / 30)}
    assert account.relation == RECORDS
    assert ps.Assumption.FIXED_PARTS in account.assumptions
    assert ps.Accountant.from_dict(account.to_dict()) == account
    assert account.epsilon(0) == np.inf
    assert account.rdp(3.0) == max(TRAINING.rdp(3.0), noise(1 / 30).rdp(3.0))


@pytest.mark.parametrize("n", [17, 20])
@pytest.mark.parametrize("splitter", [KFold(3), ShuffleSplit(4, random_state=0), LeaveOneOut()])
def test_the_base_covers_every_record(splitter, n):
    """Record by record, with a training cost that depends on how many are trained on."""
    folds = fixed_folds(splitter, n)

    def training(size, total=None):
        return ps.PureAccountant(stated_epsilon=1.0 / size, relation=ps.ReplaceOne(n=total or size))

    costs = {len(train): training(len(train)) for train, _ in folds}
    account = RecordKinds.of(folds, n).account(costs, NOISE)
    orders = np.array([1.5, 4.0, 30.0])
    each = []
    for record in range(n):
        weight = sum(1 / len(test) for _, test in folds if record in test) / len(folds)
        paid = [training(len(train), n).rdp(orders) for train, _ in folds if record in train]
        each.append(np.sum([*paid, noise(weight, n).rdp(orders) if weight else 0 * orders], axis=0))
    np.testing.assert_allclose(account.rdp(orders), np.max(each, axis=0), rtol=1e-12)
    assert score_weights(folds, n).sum() == pytest.approx(1.0)


def test_accounts_go_to_the_relation_of_all_records():
    added = ps.GaussianAccountant(sensitivity=1, noise_std=4)
    assert to_full_dataset(added, 9) == added.to(ps.ReplaceOne(n=9))
    posterior = ps.PosteriorAccountant(model=ps.BetaBernoulli(alpha=6, beta=12), n=6)
    assert to_full_dataset(posterior, 9).relation == ps.ReplaceOne(n=9)
    assert to_full_dataset(posterior, 9).rdp(2.0) == posterior.rdp(2.0)
    assert to_full_dataset(TRAINING, N) is TRAINING
    inner = ps.SelectionAccountant(base=TRAINING, repetitions=RUNS)
    assert to_full_dataset(inner, 99).rdp(2.0) == inner.rdp(2.0)


def test_the_account_is_known_before_and_kept_in_json():
    account = private(refit=True, cv=2).accountant_for(N)
    assert ps.Accountant.from_dict(account.to_dict()) == account == private(refit=True, cv=2).fit(X, Y).accountant_
    assert {ps.Assumption.TIMING, ps.Assumption.FIXED_PARTS} <= account.assumptions


@pytest.mark.long
def test_the_account_of_a_search_on_private_data_has_a_finite_epsilon():
    """Ten seconds; test_search_target.py compares smaller accounts with their parts and with their target."""
    assert private(refit=True, cv=2).accountant_for(N).epsilon(1e-6) < 5


def test_an_account_by_attribute_and_one_that_is_given():
    class AccountedCentroids(LogisticRegression):
        accountant = ps.GaussianAccountant(sensitivity=1, noise_std=3)

    space = {"C": stats.loguniform(1e-3, 1e3)}
    assert (
        search(space, estimator=AccountedCentroids(), scoring=None).accountant_for(9).base
        == AccountedCentroids.accountant
    )
    stated = ps.ZCDPAccountant(rho=0.1)
    assert search(space, estimator=LogisticRegression(), training_account=stated).accountant_for(9).base == stated
    given = search(training_account=lambda n: ps.ZCDPAccountant(rho=1 / n, relation=ps.ReplaceOne(n=n)))
    assert given.accountant_for(10).base.rho == 0.1
    assert ps.Assumption.STATED in search(training_account=noise(0.5)).accountant_for(N).assumptions


def test_candidates_of_different_cost_need_a_bound():
    for space in ({"epsilon": [0.1, 0.2]}, {"epsilon": stats.uniform(0.1, 1)}):
        with pytest.raises(ValueError, match="candidates have different accounts"):
            search(space).accountant_for(N)
    bound = ps.PureAccountant(stated_epsilon=1.1, relation=RECORDS)
    assert search({"epsilon": [0.1, 1.1]}, training_account=bound).accountant_for(N).base == bound
    assert search({"epsilon": [0.3]}).accountant_for(N).base.stated_epsilon == 0.3


def test_the_worst_of_all_listed_candidates():
    space = [{"epsilon": [0.1, 0.2], "quality": [0.3, 0.4]}, {"epsilon": [0.3]}]
    account = search(space, training_account="worst").accountant_for(N).base
    assert account.epsilon(0) == 0.3
    assert account.rdp(2.0) == ps.PureAccountant(stated_epsilon=0.3).rdp(2.0)
    assert account.relation == RECORDS
    found = search(space, training_account="worst", repetitions=ps.Poisson(mean=40)).fit(X, Y)
    assert found.best_estimator_.epsilon in {0.1, 0.2, 0.3}
    with pytest.raises(ValueError, match="needs lists of values"):
        search({"epsilon": stats.uniform()}, training_account="worst").accountant_for(N)
    with pytest.raises(ValueError, match="at most 1000 candidates, got 1001"):
        search({"epsilon": range(1, 1002)}, training_account="worst").accountant_for(N)


class Wide(Constant):
    def accountant_for(self, n, features):
        return ps.PureAccountant(stated_epsilon=0.1 * features, relation=ps.ReplaceOne(n=n))


def test_cost_may_depend_on_the_number_of_features():
    made = search(estimator=Wide())
    assert made.accountant_for(N, features=2) == made.fit(X, Y).accountant_
    assert made.accountant_.base.stated_epsilon == 0.2
    with pytest.raises(ValueError, match="features must be given, got None: the account of Wide"):
        made.accountant_for(N)
    nested = search({"refit": [False]}, estimator=made)
    assert nested.accountant_for(N, 2).base == made.accountant_


def test_a_candidate_that_is_not_paid_for_is_never_trained():
    """A candidate that the sampled candidates did not cover, and candidates with invalid parameters."""
    plan = plan_search(search({"quality": [0.5]}), N)
    assert plan.configure_or_none({"quality": 0.7}).quality == 0.7
    assert plan.configure_or_none({"epsilon": 0.2}) is None
    assert plan.configure_or_none({"epsilon": -1.0}) is None
    assert plan.configure_or_none({"nothing": 1}) is None
    assert plan.configure_or_none({"random_state": 1}) is None


class Silent(Constant):
    accountant_for = None


@pytest.mark.parametrize(
    ("made", "error", "words"),
    [
        (search(estimator=Silent()), TypeError, "Silent has no account"),
        (search(training_account=3), TypeError, "has no account"),
        (
            search(training_account=TRAINING, cv=None, estimator=Silent()),
            ValueError,
            "holds for 60 records.*fitted to 59",
        ),
        (search({}), ValueError, "param_distributions must not be empty"),
        (search([]), ValueError, "param_distributions must not be empty"),
        (search([{"quality": [1]}, {}]), ValueError, "param_distributions must not be empty"),
        (search({"quality": []}), ValueError, "'quality' must have at least one value"),
        (search({"quality": 3}), TypeError, "'quality' must be a list of values or a distribution"),
        (search({"quality": "abc"}), TypeError, "'quality' must be a list of values or a distribution"),
        (search({"quality": {1: 2}}), TypeError, "'quality' must be a list of values or a distribution"),
        (search("quality"), TypeError, "param_distributions must map"),
        (search({"colour": [1]}), ValueError, "must name parameters of the estimator, got 'colour'"),
        (search({"random_state": [1]}), ValueError, "must not name 'random_state'"),
        (search({"verbose": [1]}), ValueError, "must not name 'verbose'"),
        (search(repetitions=10), TypeError, "a fixed number is refused"),
        (search(repetitions=None), TypeError, "repetitions must be"),
        (search(verbose=1), ValueError, "verbose must be 0, got 1"),
        (search(estimator=Constant(verbose=2)), ValueError, "verbose must be 0, got 2"),
        (search(estimator=Constant(random_state=0)), ValueError, "random_state must be None, got 0"),
        (search(estimator=Constant(rng=np.random.default_rng(0))), ValueError, "rng must be None"),
        (search(validation=None), ValueError, "exactly one of validation and score_noise.*got neither"),
        (search(score_noise=NOISE), ValueError, "exactly one of validation and score_noise.*got both"),
        (search(validation=(X,)), TypeError, "validation must be a pair"),
        (search(validation=(X, Y[1:])), ValueError, "inconsistent numbers of samples"),
        (search(validation=(X[:0], Y[:0])), ValueError, "at least one public record"),
        (search(validation=(None, None)), ValueError, "at least one public record"),
        (search(cv=5), ValueError, "cv must be None without score_noise"),
        (search(scoring=["accuracy"]), ValueError, "scoring must be a single score"),
        (private(score_noise=0.1), TypeError, "score_noise must be a NoisyScore"),
        (
            private(scoring="roc_auc"),
            ValueError,
            "with score_noise, scoring must be a mean over records, got 'roc_auc'",
        ),
        (private(cv=StratifiedKFold()), ValueError, "uses private data without an account"),
        (private(cv=GroupKFold()), ValueError, "uses private data without an account"),
        (private(cv=1), ValueError, "n_splits"),
        (private(cv=[([0, 0], [1])]), ValueError, "distinct positions from 0 to 58"),
        (private(cv=[([0, 59], [1])]), ValueError, "distinct positions"),
        (private(cv=[([0], [])]), ValueError, "distinct positions"),
        (private(cv=[]), ValueError, "cv must give at least one split"),
    ],
)
def test_refused(made, error, words):
    """Before anything is trained, and with the same words where only the price is asked for."""
    FITS.clear()
    with pytest.raises(error, match=words):
        made.fit(X[1:], Y[1:])
    with pytest.raises(error, match=words):
        made.accountant_for(N - 1)
    assert not FITS


def test_regressors_have_no_accuracy():
    class AccountedCentroids(LinearRegression):
        accountant = ps.PureAccountant(stated_epsilon=1)

    space = {"fit_intercept": [True, False]}
    with pytest.raises(ValueError, match="with score_noise, scoring must be a mean over records, got None"):
        private(space, estimator=AccountedCentroids()).accountant_for(N)
    absolute = {"estimator": AccountedCentroids(), "scoring": "neg_mean_absolute_error"}
    with pytest.raises(ValueError, match="must have low < 0 for neg_mean_absolute_error"):
        private(space, **absolute).accountant_for(N)
    found = private(space, **absolute, score_noise=ps.NoisyScore(noise_std=0.01, bounds=(-1, 0)))
    assert -0.1 < found.fit(X, X[:, 0]).best_score_ < 0.1


def test_seeds_and_sizes_are_refused():
    with pytest.raises(TypeError, match="a seeded release is not private"):
        search().fit(X, Y, rng=3)
    with pytest.raises(ValueError, match="validation must be public data, got the X to be fitted"):
        search(validation=(X, Y)).fit(X, Y)
    listed = X.tolist()
    with pytest.raises(ValueError, match="validation must be public data, got the X to be fitted"):
        search(validation=(listed, Y)).fit(listed, Y)
    with pytest.raises(ValueError, match="y must be given"):
        private().fit(X)
    with pytest.raises(ValueError, match="n must be at least 1"):
        search().accountant_for(0)


def test_an_inner_search_must_not_pay_by_itself(tmp_path):
    ledger = ps.Ledger(tmp_path / "l", budget=ps.DP(epsilon=1, delta=1e-6), relation=RECORDS, dataset="d")
    with pytest.raises(ValueError, match="ledger must be None, got a Ledger"):
        search({"refit": [True]}, estimator=search(ledger=ledger)).fit(X, Y)


def test_a_record_in_no_part_pays_nothing():
    account = private(cv=[([0, 1], [1])]).accountant_for(5).base
    assert account.relation == ps.ReplaceOne(n=5)
    assert account.entries[0][0].stated_epsilon == 0.1
    assert len(account.entries) == 2


def test_no_relation_but_records(monkeypatch):
    class Other(ps.ReplaceOne.__base__):
        description = change = "other"

        def group(self, size):
            return self

    with pytest.raises(TypeError, match="AddRemove or ReplaceOne"):
        to_full_dataset(ps.PureAccountant(stated_epsilon=1, relation=Other()), 5)


def test_predefined_parts_are_positions():
    parts = PredefinedSplit(np.arange(N) % 2)
    assert private(cv=parts).accountant_for(N) == private(cv=2).accountant_for(N)
