"""The public frame of a search: checked parameters, folds and search space, and the account of given settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sklearn.model_selection import KFold, check_cv
from sklearn.utils import indexable

from privsample._checks import flag
from privsample.accounting.assumptions import running_assumptions
from privsample.accounting.base import Accountant
from privsample.accounting.selection.repetition import SelectionAccountant
from privsample.distributions.repetitions import RepetitionDistribution
from privsample.estimators.candidates import (
    Space,
    all_candidates,
    check_independent,
    configure,
    sample_candidates,
    search_space,
)
from privsample.estimators.fit_account import to_full_dataset
from privsample.estimators.run_account import Folds, RecordKinds, fixed_folds, training_cost, worst_account
from privsample.estimators.scoring import NoisyScore, record_count

_CHOOSE_SCORE_DATA = (
    "exactly one of validation and score_noise must be given, {}; set validation=(X, y) to score on public data "
    "without cost, or score_noise=NoisyScore(...) to score on private records with noise"
)


@dataclass(frozen=True, kw_only=True)
class SearchFrame:
    """Everything public that precedes the privacy parameters of a search.

    `noise` and `folds` are None if candidates are scored on public data. `constant_time` says whether the largest
    number of runs is always made.
    """

    search: Any
    n: int
    features: int | None
    space: Space
    noise: NoisyScore | None
    folds: Folds | None
    constant_time: bool

    @staticmethod
    def of(search: Any, n: int, features: int | None) -> "SearchFrame":
        """Check the parameters of a PrivateSearchCV. Raises ValueError or TypeError."""
        if search.verbose:
            raise ValueError(
                f"verbose must be 0, got {search.verbose!r}: messages would reveal the secret number of runs; with "
                "constant_time=True pass progress=True to fit"
            )
        noise = _checked_noise(search)
        check_independent(search.estimator)
        return SearchFrame(
            search=search,
            n=n,
            features=features,
            space=search_space(search.param_distributions, search.estimator),
            noise=noise,
            folds=None if noise is None else fixed_folds(_splitter(search.cv), n),
            constant_time=flag(constant_time=search.constant_time),
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Different numbers of records that a model is trained on, in the runs and with `refit`."""
        found = [self.n] if self.folds is None else [len(train) for train, _ in self.folds]
        return tuple(dict.fromkeys([*found, self.n] if self.search.refit else found))

    @property
    def trainings(self) -> int:
        """Largest number of trainings that use one record, in a run and with `refit`."""
        return (1 if self.kinds is None else self.kinds.trainings) + bool(self.search.refit)

    @property
    def score_weight(self) -> float:
        """Largest weight of a record in the score; 0 for scores on public data."""
        return 0.0 if self.kinds is None else float(self.kinds.weights.max())

    @cached_property
    def kinds(self) -> RecordKinds | None:
        """Kinds of records of the cross-validation, None without it."""
        return None if self.folds is None else RecordKinds.of(self.folds, self.n)

    def stated_costs(self) -> dict[int, Accountant]:
        """Return the account of training any candidate, by the number of records. Raises ValueError or TypeError."""
        return {size: _candidate_cost(self.search, self.space, size, self.features) for size in self.sizes}

    def account(
        self, costs: Mapping[int, Accountant], noise: NoisyScore | None, repetitions: RepetitionDistribution
    ) -> Accountant:
        """Return the account of the whole search."""
        base = costs[self.n] if self.kinds is None or noise is None else self.kinds.account(costs, noise)
        found: Accountant = SelectionAccountant(
            base=base, repetitions=repetitions, assumptions=running_assumptions(constant_time=self.constant_time)
        )
        if self.search.refit:
            found += costs[self.n] if self.folds is None else to_full_dataset(costs[self.n], self.n)
        return found


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
