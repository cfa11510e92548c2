"""A search that is decided before it sees data: its space, its parts, its noise, and what all of it costs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import check_scoring
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import indexable

from privsample.accounting.base import Accountant
from privsample.accounting.selection.repetition import SelectionAccountant
from privsample.distributions.runs import RepetitionDistribution, check_repetition_distribution
from privsample.estimators.candidates import (
    Space,
    all_candidates,
    check_independent,
    prepared,
    sample_candidates,
    search_space,
)
from privsample.estimators.pricing import (
    Folds,
    TrainingAccount,
    fixed_folds,
    folds_account,
    score_weights,
    to_full_dataset,
    training_cost,
    worst,
)
from privsample.estimators.scoring import NoisyScore, Scorer, record_scorer, rows_of
from privsample.mechanisms.noise.additive import GaussianMechanism, LaplaceMechanism
from privsample.mechanisms.selection.ranking import silent
from privsample.relations import ReplaceOne

_WHERE = (
    "say where candidates are scored: validation=(X, y), public data that cost nothing, or "
    "score_noise=NoisyScore(...), private records beneath noise; {}"
)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a search does. `costs` of training, by size; without `folds` and `mechanism`, the noise, on public data."""

    estimator: Any
    training_account: TrainingAccount
    space: Space
    runs: RepetitionDistribution
    scorer: Scorer
    folds: Folds | None
    mechanism: GaussianMechanism | LaplaceMechanism | None
    costs: Mapping[int, Accountant]
    features: int | None
    account: Accountant

    @property
    def parts(self) -> int:
        """Trainings in one run."""
        return 1 if self.folds is None else len(self.folds)

    def noisy_score(self, score: float, rng: np.random.Generator) -> float:
        """What may be seen of a score: all of one on public data, a noisy one of private records."""
        return score if self.mechanism is None else float(self.mechanism.release(score, rng=rng)["statistic"][0])

    def configure_or_none(self, candidate: Mapping[str, Any]) -> Any:
        """The estimator to train; None, a failure, where the candidate cannot be made or is not paid for."""
        with silent():
            try:
                made = prepared(self.estimator, candidate)
                paid = self.training_account is not None or all(
                    training_cost(made, None, size, self.features) == cost for size, cost in self.costs.items()
                )
            except Exception:  # noqa: BLE001 - a failed candidate is a legal output
                return None
        return made if paid else None


def planned(search: Any, n: int, features: int | None = None) -> Plan:
    """The plan of a PrivateSearchCV for n records of so many features. Raises: ValueError, TypeError."""
    if search.verbose:
        raise ValueError("verbose must be off: messages would tell the number of runs, which must stay secret")
    noise = _checked_score(search)
    check_independent(search.estimator)
    space = search_space(search.param_distributions, search.estimator)
    runs = check_repetition_distribution(search.runs)
    folds = None if noise is None else fixed_folds(_splitter(search.cv), n)
    sizes = [n] if folds is None else [len(train) for train, _ in folds]
    wanted = dict.fromkeys([*sizes, n] if search.refit else sizes)
    costs = {size: _one_cost(search, space, size, features) for size in wanted}
    if noise is None or folds is None:
        base, mechanism, scorer = costs[n], None, check_scoring(search.estimator, scoring=search.scoring)
    else:
        base, weight = folds_account(folds, n, costs, noise), float(score_weights(folds, n).max())
        mechanism = noise.mechanism(weight, ReplaceOne(n=n))
        scorer = record_scorer(search.scoring, search.estimator, noise.bounds)
    account: Accountant = SelectionAccountant(base=base, runs=runs)
    if search.refit:
        account += costs[n] if folds is None else to_full_dataset(costs[n], n)
    return Plan(
        estimator=search.estimator,
        training_account=search.training_account,
        space=space,
        runs=runs,
        scorer=scorer,
        folds=folds,
        mechanism=mechanism,
        costs=costs,
        features=features,
        account=account,
    )


def _checked_score(search: Any) -> NoisyScore | None:
    """The noise, None for public validation data."""
    noise, validation = search.score_noise, search.validation
    if isinstance(search.scoring, (list, tuple, set, Mapping)):
        raise ValueError("scoring must be one score: the best candidate is chosen by it")
    if (noise is None) == (validation is None):
        raise ValueError(_WHERE.format("neither was given" if noise is None else "both were given"))
    if noise is None:
        if search.cv is not None:
            raise ValueError(
                "cv without score_noise would reuse private records unaccounted; "
                "with public validation data leave cv out"
            )
        if not (isinstance(validation, (tuple, list)) and len(validation) == 2):
            raise TypeError("validation must be a pair (X, y) of public data")
        if any(isinstance(part, (int, float)) for part in validation):
            raise TypeError("validation must be a pair (X, y) of public data, got a single number in place of X or y")
        X, _ = indexable(*validation)
        if X is None or rows_of(X) == 0:
            raise ValueError("validation must hold at least one public record: without a score no candidate is best")
        return None
    if not isinstance(noise, NoisyScore):
        raise TypeError(f"score_noise must be a NoisyScore, got {type(noise).__name__}")
    return noise


def _splitter(cv: Any) -> Any:
    """scikit-learn's splitter; for a number of parts one whose order is public and always the same."""
    if cv is None or isinstance(cv, int):
        return KFold(n_splits=5 if cv is None else cv, shuffle=True, random_state=0)
    return check_cv(cv)


def _one_cost(search: Any, space: Space, size: int, features: int | None) -> Accountant:
    """What training any candidate costs. Raises: ValueError, where candidates are seen to cost differently."""
    look_at_all = search.training_account == "worst"
    given = None if look_at_all else search.training_account
    tried = list(all_candidates(space) if look_at_all else sample_candidates(space))
    found = [training_cost(prepared(search.estimator, candidate), given, size, features) for candidate in tried]
    if look_at_all:
        return worst(found)
    for cost, candidate in zip(found, tried, strict=True):
        if cost != found[0]:
            raise ValueError(
                f"candidates cost differently, such as {tried[0]} and {candidate}: pass training_account, an account "
                "that covers the dearest of them; or 'worst', where all values are listed"
            )
    return found[0]
