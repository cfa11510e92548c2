"""Private hyperparameter search with scikit-learn's face."""

import os
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from privsample._checks import generator, positive_integer
from privsample._entropy import draw_with_entropy_check
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.ledger import Ledger
from privsample.accounting.statement import privacy_statement
from privsample.distributions.runs import RepetitionDistribution
from privsample.estimators.candidates import drawn, prepared
from privsample.estimators.plan import Plan, planned
from privsample.estimators.pricing import TrainingAccount
from privsample.estimators.records import refuse_records
from privsample.estimators.scoring import NoisyScore, rows_of, width_of
from privsample.estimators.trials import NO_RUN, Outcome, Ranked, Task, child, fitted, ranked, trained
from privsample.mechanisms.selection.ranking import silent


def _delegated(name: str) -> Any:
    """The winner's method of this name; there where the estimator has it and the search keeps a model."""

    def offered(search: "PrivateSearchCV") -> bool:
        getattr(search.estimator, name)
        if hasattr(search, "accountant_"):
            search.best_estimator_  # noqa: B018 - its absence is the answer
        return True

    def method(search: "PrivateSearchCV", X: Any) -> Any:
        return getattr(search._winner, name)(X)

    method.__name__, method.__doc__ = name, f"The winner's `{name}`. Raises: NotFittedError, where there is none."
    return available_if(offered)(method)


class PrivateSearchCV(MetaEstimatorMixin, BaseEstimator):
    """The best of a secret, random number of independent random candidates, paid for as one release.

    One run draws a candidate, fits it and scores it. Only the winner leaves: its parameters, its score, and its fitted
    model where a run fits one model only. The number of runs and all that lose stay secret: there is no cv_results_,
    nothing is printed, and failures are silent and rank last. Time, and a scheduler's own view of its tasks, are taken
    to be unseen (Assumption.TIMING).

    Parameters:
    estimator: states what fitting it costs, by `accountant_for(n)`, `accountant_for(n, features)` or `accountant`,
        before it is fitted; this covers all of the fitted object, and that fitting may fail. Every fit must draw fresh
        randomness.
    param_distributions: as for RandomizedSearchCV; each candidate is drawn anew, lists with replacement.
    runs: the distribution of the number of runs, such as TruncatedNegativeBinomial.logarithmic(mean=10).
    scoring: as in scikit-learn; with `score_noise` accuracy, neg_mean_absolute_error, neg_mean_squared_error, or a
        function (model, X, y) that gives one number for each record.
    validation: public (X, y) to score on, at no cost; a run then fits one model, on all records.
    score_noise: a NoisyScore, to score on private records instead, by cross-validation.
    cv: number of parts (5 unless told; KFold with a fixed, public order), or a splitter, or lists of positions; only
        positions may decide. Needs `score_noise`.
    refit: fit the winner again, on all records: one more charge, spent whether or not there is a winner.
    training_account: what fitting any candidate costs at most, or a function of n that says so, where the
        estimator does not say it or candidates differ; "worst" is the worst of all candidates, where all values are
        listed. Without it a candidate of another cost is never trained.
    ledger: a Ledger that pays before the first run.
    n_jobs: as for joblib; runs go through joblib's backends. verbose: must be off.

    Attributes, after fit: best_params_ (None where no run was made or the best failed), best_score_ (then NaN),
    best_estimator_ (with refit, or where a run fits one model; None as before), scorer_, accountant_, n_features_in_.
    Source: Papernot and Steinke 2022; one run is everything that touches private data for one candidate.
    """

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        runs: RepetitionDistribution,
        *,
        scoring: Any = None,
        validation: tuple[Any, Any] | None = None,
        score_noise: NoisyScore | None = None,
        cv: Any = None,
        refit: bool = False,
        training_account: TrainingAccount = None,
        ledger: Ledger | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.runs = runs
        self.scoring = scoring
        self.validation = validation
        self.score_noise = score_noise
        self.cv = cv
        self.refit = refit
        self.training_account = training_account
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.verbose = verbose

    def accountant_for(self, n: int, features: int | None = None) -> Accountant:
        """What the whole search on n records costs, before it is run. Raises: as `fit`, for bad parameters.

        Parameters: features, their number, where the cost of the estimator depends on it.
        """
        return planned(self, positive_integer(n=n), features).account

    def fit(self, X: Any, y: Any = None, *, rng: np.random.Generator | None = None) -> Self:
        """Pay, then search.

        Parameters: X, y, n records (lists reach the estimator as lists); rng, a numpy Generator (which adds RNG_FRESH;
        children of it go to candidates whose `fit` takes an rng) or None for the system's entropy.
        Raises: BudgetExceeded, RelationMismatch, ValueError, TypeError; SchemaError, for records that the estimator
        refuses, since to let all candidates fail would show them in silence. Then nothing was trained or spent.
        """
        source = generator(rng)
        if self.validation is not None and self.validation[0] is X:
            raise ValueError("validation must be public data, but is what is to be fitted; see score_noise for private")
        X, y = indexable(X, y)
        features = width_of(X)
        plan = planned(self, rows_of(X), features)
        if y is None and getattr(plan.scorer, "needs_labels", False):
            raise ValueError("y must be given: candidates are scored against it")
        refuse_records(self.estimator, X, y)
        if self.ledger is not None:
            if rng is not None:
                raise ValueError("rng must be None with a ledger: what a budget pays for draws the system's entropy")
            self.ledger.spend(plan.account, label=f"{type(self).__name__}({type(self.estimator).__name__})")
        best = self._best(plan, X, y, source, rng)
        self.scorer_ = plan.scorer
        self.best_params_, self.best_score_ = best.candidate, best.score
        self.__dict__.pop("best_estimator_", None)  # of an earlier fit
        if self.refit:
            again = None if best.candidate is None else prepared(self.estimator, best.candidate)
            self.best_estimator_ = None if again is None else fitted(again, child(rng), X, y)
        elif plan.parts == 1:
            self.best_estimator_ = best.model
        self.accountant_ = plan.account if rng is None else plan.account.assuming(Assumption.RNG_FRESH)
        if features is not None:
            self.n_features_in_ = features
        return self

    def _best(self, plan: Plan, X: Any, y: Any, source: np.random.Generator, rng: np.random.Generator | None) -> Ranked:
        """The first of the best runs. All candidates are drawn before any is trained."""
        count = plan.runs.sample
        candidates = draw_with_entropy_check(source, lambda: [drawn(plan.space, source) for _ in range(count(source))])
        configure_or_none = [(candidate, plan.configure_or_none(candidate)) for candidate in candidates]
        made = [(candidate, estimator) for candidate, estimator in configure_or_none if estimator is not None]
        task = Task(
            folds=plan.folds,
            scorer=plan.scorer,
            validation=self.validation,
            keep=plan.parts == 1,
            process=os.getpid(),
        )
        with silent():  # threads share the filters of warnings, so that each run's own silence does not last
            outcomes: list[Outcome] = Parallel(n_jobs=self.n_jobs, verbose=0)(
                delayed(trained)(estimator, child(rng), X, y, task, fold)
                for _, estimator in made
                for fold in range(plan.parts)
            )
        runs = [outcomes[i : i + plan.parts] for i in range(0, len(outcomes), plan.parts)]
        found = [
            ranked(candidate, run, lambda score: plan.noisy_score(score, source))
            for (candidate, _), run in zip(made, runs, strict=True)
        ]
        return max(found, key=lambda one: one.rank, default=NO_RUN)

    @property
    def _winner(self) -> Any:
        """The fitted model. Raises: NotFittedError, also where no run was made or all failed."""
        check_is_fitted(self, "accountant_")
        if self.best_estimator_ is None:
            raise NotFittedError("the search found no model: no run was made, or the best of them failed")
        return self.best_estimator_

    @property
    def classes_(self) -> Any:
        """The winner's classes."""
        return self._winner.classes_

    predict = _delegated("predict")
    predict_proba = _delegated("predict_proba")
    decision_function = _delegated("decision_function")
    transform = _delegated("transform")

    def score(self, X: Any, y: Any = None) -> float:
        """The winner's score on these data, by `scoring`, without noise: for public data, or for the curator."""
        model = self._winner
        return float(self.scorer_(model, X) if y is None else self.scorer_(model, X, y))

    def statement(self, delta: float | None = None) -> str:
        """A plain-words privacy statement of the whole search.

        delta: None for the one that the estimator, or the last step of a pipeline, was given; else for 1e-6.
        Raises: NotFittedError.
        """
        check_is_fitted(self, "accountant_")
        own = getattr(getattr(self.estimator, "_final_estimator", self.estimator), "delta", 1e-6)
        return privacy_statement(self.accountant_, own if delta is None else delta)

    def __sklearn_tags__(self) -> Any:
        """The estimator's."""
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags.sparse = inner.input_tags.sparse
        return tags
