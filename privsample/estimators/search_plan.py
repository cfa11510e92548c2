"""Search plans, made before any data are used: search space, folds, score noise and the account of the search."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import check_scoring
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import indexable

from privsample._checks import flag
from privsample.accounting.assumptions import running_assumptions
from privsample.accounting.base import Accountant
from privsample.accounting.selection.repetition import SelectionAccountant
from privsample.distributions.repetitions import RepetitionDistribution, check_maximum, check_repetition_distribution
from privsample.estimators.candidates import (
    Space,
    all_candidates,
    check_independent,
    configure,
    sample_candidates,
    search_space,
)
from privsample.estimators.fit_account import to_full_dataset
from privsample.estimators.run_account import (
    Folds,
    TrainingAccount,
    cross_validation_account,
    fixed_folds,
    score_weights,
    training_cost,
    worst_account,
)
from privsample.estimators.scoring import NoisyScore, Scorer, record_count, record_scorer
from privsample.mechanisms.noise.additive import GaussianMechanism, LaplaceMechanism
from privsample.mechanisms.selection.ranking import without_warnings
from privsample.relations import ReplaceOne

_CHOOSE_SCORE_DATA = (
    "exactly one of validation and score_noise must be given, {}; set validation=(X, y) to score on public data "
    "without cost, or score_noise=NoisyScore(...) to score on private records with noise"
)


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """All decisions of a search that precede the data.

    `runs` is the public number of runs, or None if as many are made as count. `costs` maps the number of training
    records to the account of one training. `folds` and `mechanism`, the noise on the score, are None if candidates are
    scored on public data.
    """

    estimator: Any
    training_account: TrainingAccount
    space: Space
    repetitions: RepetitionDistribution
    runs: int | None
    scorer: Scorer
    folds: Folds | None
    mechanism: GaussianMechanism | LaplaceMechanism | None
    costs: Mapping[int, Accountant]
    features: int | None
    account: Accountant

    @property
    def parts(self) -> int:
        """Number of trainings in one run."""
        return 1 if self.folds is None else len(self.folds)

    def noisy_score(self, score: float, rng: np.random.Generator) -> float:
        """Return the score itself if it was computed on public data, and otherwise the score with noise."""
        return score if self.mechanism is None else float(self.mechanism.release(score, rng=rng)["statistic"][0])

    def configure_or_none(self, candidate: Mapping[str, Any]) -> Any:
        """Return the estimator to train, or None (a failed run) if its parameters or its account are invalid."""
        with without_warnings():
            try:
                made = configure(self.estimator, candidate)
                paid = self.training_account is not None or all(
                    training_cost(made, None, size, self.features) == cost for size, cost in self.costs.items()
                )
            except Exception:  # noqa: BLE001 - a failed run is a valid outcome, which ranks last
                return None
        return made if paid else None


def plan_search(search: Any, n: int, features: int | None = None) -> SearchPlan:
    """Return the plan of a PrivateSearchCV for n records. Raises ValueError or TypeError for bad parameters."""
    if search.verbose:
        raise ValueError(
            f"verbose must be 0, got {search.verbose!r}: messages would reveal the secret number of runs; with "
            "constant_time=True pass progress=True to fit"
        )
    noise = _checked_noise(search)
    check_independent(search.estimator)
    space = search_space(search.param_distributions, search.estimator)
    repetitions = check_repetition_distribution(search.repetitions)
    runs = check_maximum(repetitions) if flag(constant_time=search.constant_time) else None
    folds = None if noise is None else fixed_folds(_splitter(search.cv), n)
    sizes = [n] if folds is None else [len(train) for train, _ in folds]
    wanted = dict.fromkeys([*sizes, n] if search.refit else sizes)
    costs = {size: _candidate_cost(search, space, size, features) for size in wanted}
    if noise is None or folds is None:
        base, mechanism, scorer = costs[n], None, check_scoring(search.estimator, scoring=search.scoring)
    else:
        base, weight = cross_validation_account(folds, n, costs, noise), float(score_weights(folds, n).max())
        mechanism = noise.mechanism(weight, ReplaceOne(n=n))
        scorer = record_scorer(search.scoring, search.estimator, noise.bounds)
    account: Accountant = SelectionAccountant(
        base=base, repetitions=repetitions, assumptions=running_assumptions(constant_time=runs is not None)
    )
    if search.refit:
        account += costs[n] if folds is None else to_full_dataset(costs[n], n)
    return SearchPlan(
        estimator=search.estimator,
        training_account=search.training_account,
        space=space,
        repetitions=repetitions,
        runs=runs,
        scorer=scorer,
        folds=folds,
        mechanism=mechanism,
        costs=costs,
        features=features,
        account=account,
    )


def _checked_noise(search: Any) -> NoisyScore | None:
    """Return the score noise, or None for scores on public validation data. Raises ValueError or TypeError."""
    noise, validation = search.score_noise, search.validation
    if isinstance(search.scoring, (list, tuple, set, Mapping)):
        raise ValueError("scoring must be a single score, got several: it selects the best candidate")
    if (noise is None) == (validation is None):
        raise ValueError(_CHOOSE_SCORE_DATA.format("got neither" if noise is None else "got both"))
    if noise is None:
        if search.cv is not None:
            raise ValueError(
                "cv must be None without score_noise: it would use private records without an account; with public "
                "validation data omit cv"
            )
        if not (isinstance(validation, (tuple, list)) and len(validation) == 2):
            raise TypeError("validation must be a pair (X, y) of public data")
        if any(isinstance(part, (int, float)) for part in validation):
            raise TypeError("validation must be a pair (X, y) of public data, got a single number in place of X or y")
        X, _ = indexable(*validation)
        if X is None or record_count(X) == 0:
            raise ValueError("validation must hold at least one public record, got none: candidates need a score")
        return None
    if not isinstance(noise, NoisyScore):
        raise TypeError(f"score_noise must be a NoisyScore, got {type(noise).__name__}")
    return noise


def _splitter(cv: Any) -> Any:
    """Return a splitter of scikit-learn; a number of folds gives KFold with a fixed, public seed."""
    if cv is None or isinstance(cv, int):
        return KFold(n_splits=5 if cv is None else cv, shuffle=True, random_state=0)
    return check_cv(cv)


def _candidate_cost(search: Any, space: Space, size: int, features: int | None) -> Accountant:
    """Return the account of training any candidate. Raises ValueError if sampled candidates have different accounts."""
    look_at_all = search.training_account == "worst"
    given = None if look_at_all else search.training_account
    tried = list(all_candidates(space) if look_at_all else sample_candidates(space))
    found = [training_cost(configure(search.estimator, candidate), given, size, features) for candidate in tried]
    if look_at_all:
        return worst_account(found)
    for cost, candidate in zip(found, tried, strict=True):
        if cost != found[0]:
            raise ValueError(
                f"candidates have different accounts, such as {tried[0]} and {candidate}; one account must cover all: "
                "pass it as training_account, or pass training_account='worst' if all values are listed"
            )
    return found[0]
