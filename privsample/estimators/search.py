"""Private hyperparameter search with the interface of scikit-learn."""

import os
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from privsample._checks import flag, generator, positive_integer
from privsample._entropy import draw_with_entropy_check
from privsample._progress import progress_bar
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.ledger import Ledger
from privsample.accounting.statement import privacy_statement
from privsample.accounting.targets import Target
from privsample.distributions.repetitions import RepetitionDistribution
from privsample.estimators.candidates import configure, draw_candidate
from privsample.estimators.fit_target import DEFAULT_DELTA, stated_delta
from privsample.estimators.records import check_records
from privsample.estimators.run_account import TrainingAccount
from privsample.estimators.scoring import NoisyScore, feature_count, record_count
from privsample.estimators.search_plan import SearchPlan, plan_search
from privsample.estimators.search_runs import (
    NO_RUN,
    Outcome,
    RankedRun,
    Task,
    fit_or_none,
    rank_run,
    spawn,
    train_and_score,
)
from privsample.estimators.shown import search_html, search_repr
from privsample.mechanisms.selection.ranking import without_warnings

_DELEGATED_DOC = """Call `{}` of the best estimator.

        Parameters
        ----------
        X : array-like, shape (k, features)
            Features.

        Returns
        -------
        numpy.ndarray
            The result of the best estimator.

        Raises
        ------
        NotFittedError
            If the search is not fitted or found no model.
        """


def _delegated(name: str) -> Any:
    """Return a method that calls the best model; available if the estimator has it and the search keeps a model."""

    def offered(search: "PrivateSearchCV") -> bool:
        getattr(search.estimator, name)
        if hasattr(search, "accountant_"):
            search.best_estimator_  # noqa: B018 - raises AttributeError if no model is kept
        return True

    def method(search: "PrivateSearchCV", X: Any) -> Any:
        return getattr(search._best_model, name)(X)

    method.__name__, method.__doc__ = name, _DELEGATED_DOC.format(name)
    return available_if(offered)(method)


class PrivateSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Private random search: the best of a secret random number of independent candidates, as one release.

    A run draws a candidate, fits it and scores it. Only the best run is released: its parameters, its score and, if
    each run fits a single model, this model. The number of runs and all other runs stay secret: there is no
    `cv_results_`, nothing is printed, and failed runs rank last without an error. The account assumes that running
    times and the tasks of the scheduler are not observed (Assumption.TIMING); with `constant_time=True` the number of
    runs is public, and only the times of single runs must stay unobserved (Assumption.FIXED_WORK).

    Parameters
    ----------
    estimator : estimator
        Unfitted estimator whose account is known before it is fitted, by a method `accountant_for(n)` or
        `accountant_for(n, features)`, or an attribute `accountant`. The account must cover the whole fitted object and
        the event that fitting fails. Every fit must draw fresh randomness.
    param_distributions : dict or list of dict
        Search space, as for RandomizedSearchCV: parameter names mapped to lists or to distributions with `rvs`. Each
        candidate is drawn independently; lists are sampled uniformly with replacement.
    repetitions : RepetitionDistribution, optional
        Distribution of the number of runs, such as `TruncatedNegativeBinomial.logarithmic(mean=10)`. None, only with
        `target`: the search chooses the logarithmic distribution with the largest mean that its share of the budget
        allows, at most 50 and at most 3 for each listed candidate.
    scoring : str or callable, optional
        Score, as in scikit-learn; None uses the default of the estimator. With `score_noise`: "accuracy",
        "neg_mean_absolute_error", "neg_mean_squared_error", or a function (model, X, y) that returns one number for
        each record.
    validation : tuple (X, y), optional
        Public records on which candidates are scored without privacy cost. Each run then fits one model to all private
        records. Exactly one of `validation` and `score_noise` must be given.
    score_noise : NoisyScore, optional
        Noise on a score that is computed by cross-validation on the private records. With `target`, `NoisyScore()`
        without a standard deviation is calibrated.
    cv : int, splitter or iterable, optional
        Folds, only with `score_noise`: their number, >= 2 (KFold with a fixed public seed), a splitter that uses
        positions only, or pairs of training and test positions. None: 5 folds.
    refit : bool, default False
        Whether the best candidate is fitted again to all records. The account of this training is added and spent in
        any case.
    training_account : Accountant, callable or "worst", optional
        Account that covers the training of every candidate, or a function of n that returns it; needed if the estimator
        has no account, or if candidates have different accounts. "worst" takes the maximum over all candidates of a
        space of lists. None: the account of the estimator; candidates with another account are not trained.
    ledger : Ledger, optional
        Ledger in which the account is spent before the first run.
    n_jobs : int, optional
        Number of parallel jobs, as for joblib.
    verbose : int, default 0
        Must be 0, because messages would reveal the number of runs.
    constant_time : bool, default False
        Whether the largest possible number of runs is always made, of which a secret random number of the first ones
        counts. It needs `repetitions` with a maximum, such as
        `TruncatedRepetitions(distribution=TruncatedNegativeBinomial.logarithmic(mean=10), maximum=40)`.
    target : Target, optional
        The guarantee of the whole search, such as `DP(1, 1e-5)`. All parts that are not given are calibrated to it: the
        trainings, if the estimator has a parameter `target` and declares neither it nor epsilon or delta, and there is
        no `training_account`; the noise on the scores; and `repetitions`. None: all parts must be given.
    division : tuple of three floats, optional
        Shares of the budget of `target` for trainings, scores and repetitions, each > 0; only their ratios matter.
        Parts that are given or free of cost leave their share to the others. None: (0.5, 0.05, 0.45).

    Attributes
    ----------
    best_params_ : dict or None
        Parameters of the best run; None if the number of runs was 0 or the best run failed.
    best_score_ : float
        Score of the best run, with the noise of `score_noise` if given; NaN if `best_params_` is None.
    best_estimator_ : estimator or None
        Model fitted with `best_params_`; defined only with `refit` or if each run fits a single model.
    scorer_ : callable
        The scorer (model, X, y).
    accountant_ : Accountant
        The account of the whole search.
    plan_ : SearchPlan
        The plan that was followed, made before any data were used.
    n_features_in_ : int
        Number of features; defined only if records are rows.

    Notes
    -----
    Papernot and Steinke 2022, Theorems 2 and 6; one run is all access to private data for one candidate. Kind: upper
    bound.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> X = np.linspace(-1, 1, 500)[:, None]
    >>> y = (X[:, 0] > 0).astype(int)
    >>> search = ps.PrivateSearchCV(
    ...     ps.PrivateSGDClassifier(epsilon=0.5, delta=1e-7, bounds=(-1, 1)),
    ...     {"radius": [2.0, 5.0]},
    ...     ps.TruncatedNegativeBinomial.logarithmic(mean=5),
    ...     validation=(X[::5], y[::5]),  # public records
    ...     training_account="worst",
    ... )
    >>> search = search.fit(X, y, rng=np.random.default_rng(1))
    >>> search.best_params_["radius"] in (2.0, 5.0)
    True
    """

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        repetitions: RepetitionDistribution | None = None,
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
        constant_time: bool = False,
        target: Target | None = None,
        division: tuple[float, float, float] | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.repetitions = repetitions
        self.scoring = scoring
        self.validation = validation
        self.score_noise = score_noise
        self.cv = cv
        self.refit = refit
        self.training_account = training_account
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.constant_time = constant_time
        self.target = target
        self.division = division

    def plan_for(self, n: int, features: int | None = None) -> SearchPlan:
        """Return the plan of a search over n records, made without data.

        Parameters
        ----------
        n : int
            Number of records, >= 1.
        features : int, optional
            Number of features, >= 1; needed if the account of the estimator depends on it.

        Returns
        -------
        SearchPlan
            Privacy of trainings and scores, distribution of the number of runs, shares of the budget, and the account
            of the whole search, which was checked against the target.

        Raises
        ------
        UnreachableTarget
            If no search of this form meets the target. The message says what it costs at least, and what to change.
        ValueError, TypeError
            If a parameter of the search is invalid, or the estimator has no account.
        """
        return plan_search(self, positive_integer(n=n), features)

    def accountant_for(self, n: int, features: int | None = None) -> Accountant:
        """Return the account of the whole search, computed without data.

        Parameters
        ----------
        n : int
            Number of records, >= 1.
        features : int, optional
            Number of features, >= 1; needed if the account of the estimator depends on it.

        Returns
        -------
        Accountant
            The account of the number of runs, all runs and, with `refit`, the final training.

        Raises
        ------
        UnreachableTarget
            If no search of this form meets the target.
        ValueError, TypeError
            If a parameter of the search is invalid, or the estimator has no account.
        """
        return self.plan_for(n, features).account

    def fit(self, X: Any, y: Any = None, *, rng: np.random.Generator | None = None, progress: bool = False) -> Self:
        """Spend the account of the search in the ledger, if there is one, and then search.

        Parameters
        ----------
        X : array-like, shape (n, features)
            Features of n private records. A list is passed to the estimator as a list.
        y : array-like, shape (n,), optional
            Targets or labels.
        rng : numpy.random.Generator, optional
            Source of randomness for simulations; it adds the assumption RNG_FRESH to the account. Child generators are
            passed to candidates whose `fit` has a parameter `rng`. None uses the entropy of the operating system.
        progress : bool, default False
            Show a progress bar on standard error, which needs rich; only with `constant_time=True`.

        Returns
        -------
        self
            The fitted search.

        Raises
        ------
        ImportError
            If a progress bar is wanted and rich is not installed. Nothing is trained or spent.
        BudgetExceeded, RelationMismatch
            If the ledger does not cover the account. Nothing is trained or spent.
        SchemaError
            If the estimator refuses a record; otherwise the failure of all candidates would reveal it. Nothing is
            trained or spent.
        UnreachableTarget
            If no search of this form meets the target. Nothing is trained or spent.
        ValueError, TypeError
            If a parameter is invalid. Nothing is trained or spent.
        """
        source = generator(rng)
        if flag(progress=progress) and not self.constant_time:
            raise ValueError(
                "progress must be False without constant_time=True: it would reveal the secret number of runs"
            )
        if self.validation is not None and self.validation[0] is X:
            raise ValueError(
                "validation must be public data, got the X to be fitted; use score_noise to score on private records"
            )
        X, y = indexable(X, y)
        features = feature_count(X)
        plan = plan_search(self, record_count(X), features)
        if y is None and getattr(plan.scorer, "needs_labels", False):
            raise ValueError("y must be given, got None: the score compares predictions with it")
        check_records(self.estimator, X, y)
        if self.ledger is not None and rng is not None:
            raise ValueError("rng must be None with a ledger: paid releases use the operating system's entropy")
        with progress_bar("training", (plan.runs or 0) * plan.parts, wanted=progress) as advance:
            if self.ledger is not None:
                self.ledger.spend(plan.account, label=f"{type(self).__name__}({type(self.estimator).__name__})")
            best = self._best(plan, X, y, source, rng, advance)
        self.plan_, self.scorer_ = plan, plan.scorer
        self.best_params_, self.best_score_ = best.candidate, best.score
        self.__dict__.pop("best_estimator_", None)  # from an earlier fit
        if self.refit:
            again = None if best.candidate is None else configure(plan.estimator, best.candidate)
            self.best_estimator_ = None if again is None else fit_or_none(again, spawn(rng), X, y)
        elif plan.parts == 1:
            self.best_estimator_ = best.model
        self.accountant_ = plan.account if rng is None else plan.account.assuming(Assumption.RNG_FRESH)
        if features is not None:
            self.n_features_in_ = features
        return self

    def _best(
        self,
        plan: SearchPlan,
        X: Any,
        y: Any,
        source: np.random.Generator,
        rng: np.random.Generator | None,
        advance: Callable[[int], object] = int,
    ) -> RankedRun:
        """Return the first of the best runs. All candidates are drawn before any is trained.

        With a public number of runs, the runs after the first K are made as the others, and then left out.
        """
        counted = draw_with_entropy_check(source, lambda: plan.repetitions.sample(source))
        runs = counted if plan.runs is None else plan.runs
        candidates = draw_with_entropy_check(source, lambda: [draw_candidate(plan.space, source) for _ in range(runs)])
        configured = [(candidate, plan.configure_or_none(candidate)) for candidate in candidates]
        made = [(place, *one) for place, one in enumerate(configured) if one[1] is not None]
        task = Task(
            folds=plan.folds,
            scorer=plan.scorer,
            validation=self.validation,
            keep=plan.parts == 1,
            process=os.getpid(),
        )
        with without_warnings():  # threads share warning filters: the filter of one run may be reset by another
            outcomes: list[Outcome] = []
            for outcome in Parallel(n_jobs=self.n_jobs, verbose=0, return_as="generator")(
                delayed(train_and_score)(estimator, spawn(rng), X, y, task, fold)
                for _, _, estimator in made
                for fold in range(plan.parts)
            ):
                outcomes.append(outcome)
                advance(1)
            advance((runs - len(made)) * plan.parts)
        grouped = [outcomes[i : i + plan.parts] for i in range(0, len(outcomes), plan.parts)]
        found = [
            (place, rank_run(candidate, run, lambda score: plan.noisy_score(score, source)))
            for (place, candidate, _), run in zip(made, grouped, strict=True)
        ]
        return max((one for place, one in found if place < counted), key=lambda one: one.rank, default=NO_RUN)

    @property
    def _best_model(self) -> Any:
        """The best fitted model. Raises NotFittedError if there is none."""
        check_is_fitted(self, "accountant_")
        if self.best_estimator_ is None:
            raise NotFittedError("the search has no fitted model: the number of runs was 0, or the best run failed")
        return self.best_estimator_

    @property
    def classes_(self) -> Any:
        """Classes of the best estimator, shape (classes,)."""
        return self._best_model.classes_

    predict = _delegated("predict")
    predict_proba = _delegated("predict_proba")
    decision_function = _delegated("decision_function")
    transform = _delegated("transform")

    def score(self, X: Any, y: Any = None) -> float:
        """Return the score of the best estimator, without noise: for public data, or for the data curator.

        Parameters
        ----------
        X : array-like, shape (k, features)
            Features.
        y : array-like, shape (k,), optional
            Targets or labels.

        Returns
        -------
        float
            The score by `scoring`.

        Raises
        ------
        NotFittedError
            If the search is not fitted or found no model.
        """
        model = self._best_model
        return float(self.scorer_(model, X) if y is None else self.scorer_(model, X, y))

    def statement(self, delta: float | None = None) -> str:
        """Return the privacy statement of the whole search in plain language.

        Parameters
        ----------
        delta : float, optional
            The delta at which epsilon is stated, in (0, 1). None: the `delta` of the target, of the estimator, or of
            the last step of a pipeline; 1e-6 if they have none.

        Returns
        -------
        str
            The statement, with epsilon in nats, the neighbouring relation and the assumptions.

        Raises
        ------
        NotFittedError
            If `fit` was not called.
        """
        check_is_fitted(self, "accountant_")
        return privacy_statement(self.accountant_, self._stated_delta if delta is None else delta)

    @property
    def _stated_delta(self) -> Any:
        """The `delta` of the target, of the estimator, or of the last step of a pipeline; 1e-6 if they have none."""
        last = getattr(self.estimator, "_final_estimator", self.estimator)
        given = getattr(last, "delta", None) if self.target is None else stated_delta(self.target)
        return DEFAULT_DELTA if given is None else given

    def __repr__(self) -> str:
        """Return one line: before `fit` what is searched, after it the result and its cost."""
        return search_repr(self)

    def _repr_html_inner(self) -> str:
        """Return the card of a fitted search; before `fit`, the diagram of scikit-learn.

        `sklearn.utils.estimator_html_repr` and `set_config(display="text")` have their usual effects.
        """
        if not hasattr(self, "accountant_"):
            return str(super()._repr_html_inner())
        return search_html(self)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """Return the texts that notebooks show: the HTML of `_repr_html_` in place of the diagram."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        return {kind: self._repr_html_inner() if kind == "text/html" else text for kind, text in bundle.items()}

    def __sklearn_tags__(self) -> Any:
        """Return the tags of the estimator."""
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags.sparse = inner.input_tags.sparse
        return tags
