"""Private hyperparameter search with scikit-learn's face."""

import os
import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import check_scoring
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from privsample._checks import generator, positive_integer
from privsample._entropy import undisturbed
from privsample.accounting.base import Accountant, Assumption
from privsample.accounting.ledger import Ledger
from privsample.accounting.selection import SelectionAccountant
from privsample.distributions.runs import Runs, runs_law
from privsample.estimators.candidates import Space, drawn, prepared, probes, search_space, seeded, untied
from privsample.estimators.pricing import (
    Folds,
    TrainingAccount,
    fixed_folds,
    folds_account,
    lifted,
    score_weights,
    training_cost,
)
from privsample.estimators.scoring import NoisyScore, checked_scoring
from privsample.estimators.trials import FAILED, Outcome, Rank, Task, fitted, rank, run_score, trained
from privsample.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from privsample.relations import ReplaceOne


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """A search that is decided before it sees data: the space, the parts, the noise, and what all of it costs."""

    space: Space
    folds: Folds | None
    noise: GaussianMechanism | LaplaceMechanism | None
    account: Accountant


def _delegates(name: str) -> Any:
    """Whether the estimator, or the one found, has this method, and there is or will be a fitted one."""

    def check(search: "PrivateSearchCV") -> bool:
        getattr(getattr(search, "best_estimator_", None) or search.estimator, name)
        return True

    return check


class PrivateSearchCV(MetaEstimatorMixin, BaseEstimator):  # noqa: PLR0904 - scikit-learn's face
    """The best of a secret, random number of independent random candidates, paid for as one release.

    One run draws a candidate, fits it and scores it. Only the winner leaves: its parameters, its score, and its fitted
    model where a run fits one model only. The number of runs and all that lose stay secret: there is no cv_results_,
    nothing is printed, and failures are silent and rank last. Time, and a scheduler's own view of its tasks, are taken
    to be unseen (Assumption.TIMING).

    Parameters:
    estimator: states what fitting it costs, by `accountant_for(n)` or `accountant`; the account covers all of the
        fitted object, and that fitting may fail. It must draw fresh randomness in every fit.
    param_distributions: as for RandomizedSearchCV; each candidate is drawn anew, lists with replacement.
    runs: the law of the number of runs, such as TruncatedNegativeBinomial.logarithmic(mean=10).
    scoring: as in scikit-learn; with `score_noise` a mean over records.
    validation: public (X, y) to score on, at no cost; a run then fits one model, on all records.
    score_noise: a NoisyScore, to score on private records instead, by cross-validation.
    cv: number of parts (5 unless told; KFold with a fixed, public order), or a splitter, or lists of positions; only
        positions may decide. Needs `score_noise`.
    refit: fit the winner again, on all records: one more charge, spent whether or not there is a winner.
    training_account: what fitting any candidate costs at most, or a function of n that says so, where the
        estimator does not say it or candidates differ.
    ledger: a Ledger that pays before the first run.
    n_jobs: as for joblib; runs go through joblib's backends. verbose: must be off.

    Attributes, after fit: best_params_ (None where no run was made or the best failed), best_score_ (then NaN),
    best_estimator_ (with refit, or where a run fits one model; None as before), accountant_, n_features_in_.
    Source: Papernot and Steinke 2022; one run is everything that touches private data for one candidate.
    """

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        runs: Runs,
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

    def accountant_for(self, n: int) -> Accountant:
        """What the whole search on n records costs, before it is run. Raises: as `fit`, for bad parameters."""
        return self._plan(positive_integer(n=n)).account

    def fit(self, X: Any, y: Any = None, *, rng: np.random.Generator | None = None) -> Self:
        """Pay, then search.

        Parameters: X, y, n records; rng, a numpy Generator (which adds RNG_FRESH) or None for the system's entropy.
        Raises: BudgetExceeded, RelationMismatch, ValueError, TypeError; then nothing was trained or spent.
        """
        source = generator(rng)
        X, y = indexable(X, y)
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        plan = self._plan(n)
        task = self._task(plan, X, y)
        if self.ledger is not None:
            if rng is not None:
                raise TypeError("rng must be None with a ledger: what a budget pays for draws the system's entropy")
            self.ledger.spend(plan.account, label=f"{type(self).__name__}({type(self.estimator).__name__})")
        self.accountant_ = plan.account if rng is None else plan.account.assuming(Assumption.RNG_FRESH)
        candidates = undisturbed(source, lambda: [drawn(plan.space, source) for _ in range(self.runs.sample(source))])
        ready = [self._ready(candidate, task) for candidate in candidates]
        found = self._run([one for one in ready if one is not None], task, rng)
        best: tuple[Rank, float, Any, Any] = ((FAILED, 0.0), float("nan"), None, None)
        for candidate, one in zip(candidates, ready, strict=True):
            if one is None:
                continue
            outcomes = [next(found) for _ in range(task.parts)]
            score = self._shown(plan, run_score(outcomes), source)
            if rank(score) > best[0]:
                best = (rank(score), score, candidate, outcomes[0].model)
        _, self.best_score_, self.best_params_, model = best
        self._keep(model, task, rng)
        if hasattr(X, "shape") and len(X.shape) > 1:
            self.n_features_in_ = X.shape[1]
        return self
