"""Account of one run of a hyperparameter search: the trainings that use a record, and the noisy score.

Source: Papernot and Steinke 2022, section 2 (one run is all access to private data for one candidate).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, positive_integer
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Composed, Parallel
from privsample.estimators.fit_account import NO_ACCOUNT, stated_account, to_full_dataset
from privsample.estimators.scoring import NoisyScore
from privsample.relations import ReplaceOne

Indices = NDArray[np.intp]
Folds = tuple[tuple[Indices, Indices], ...]
TrainingAccount = Accountant | Callable[[int], Accountant] | Literal["worst"] | None


def training_cost(estimator: Any, given: Any, n: int, features: int | None) -> Accountant:
    """Return the account of fitting the estimator to n records: the given one, or else the estimator's own.

    Raises TypeError if there is no account, and ValueError if the account holds for another number of records.
    """
    if given is None:
        found = stated_account(estimator, n, features)
    else:
        found = given if isinstance(given, Accountant) else given(n) if callable(given) else None
    if not isinstance(found, Accountant):
        raise TypeError(NO_ACCOUNT.format(type(estimator).__name__))
    if isinstance(found.relation, ReplaceOne) and found.relation.n != n:
        raise ValueError(
            f"the account holds for {found.relation.n} records, but a candidate is fitted to {n}; make it a function "
            "of n: accountant_for(n) or training_account=lambda n: ..."
        )
    return found if given is None else found.assuming(Assumption.STATED)


def fixed_folds(splitter: Any, n: int) -> Folds:
    """Return training and test positions of each fold; the splitter receives positions only, neither y nor groups.

    Raises ValueError for a splitter that needs y or groups: the label of one record could then move other records
    between the folds.
    """
    positions = np.zeros((positive_integer(n=n), 1))
    try:
        found = [(np.asarray(train), np.asarray(test)) for train, test in splitter.split(positions)]
    except Exception as error:  # noqa: BLE001 - splitters raise different errors if y or groups are missing
        raise ValueError(
            f"{type(splitter).__name__} cannot split by positions alone ({error}): a split that uses labels or "
            "groups uses private data without an account; use KFold, ShuffleSplit or fixed lists of positions"
        ) from None
    for part in (part for fold in found for part in fold):
        inside = part.dtype.kind in "iu" and part.size and part.min() >= 0 and part.max() < n
        if not inside or len(np.unique(part)) != len(part):
            raise ValueError(f"cv must give nonempty parts of distinct positions from 0 to {n - 1}; check the splitter")
    if not found:
        raise ValueError("cv must give at least one split, got none")
    return tuple((train.astype(np.intp), test.astype(np.intp)) for train, test in found)


@dataclass(frozen=True, kw_only=True)
class RecordKinds:
    """Kinds of records of a cross-validation: how often they train a model, and their weight in the score.

    `sizes` are the different numbers of training records. `counts`, shape (kinds, sizes), are the numbers of trainings
    of each size that use a record of the kind; `weights`, shape (kinds,), are the largest weights of such a record.
    """

    n: int
    sizes: tuple[int, ...]
    counts: NDArray[np.int64]
    weights: FloatArray

    @staticmethod
    def of(folds: Folds, n: int) -> "RecordKinds":
        """Count the folds of each record."""
        sizes = tuple(dict.fromkeys(len(train) for train, _ in folds))
        counts = np.zeros((n, len(sizes)), dtype=np.int64)
        for train, _ in folds:
            counts[train, sizes.index(len(train))] += 1
        rows, heaviest = _merged(counts, score_weights(folds, n))
        return RecordKinds(n=n, sizes=sizes, counts=rows, weights=heaviest)

    @property
    def trainings(self) -> int:
        """Largest number of trainings that use one record."""
        return int(self.counts.sum(axis=1).max())

    def account(self, costs: Mapping[int, Accountant], noise: NoisyScore) -> Accountant:
        """Return the account of one run: the trainings that use a record, and its weight in the score.

        With k equal folds each record is in k - 1 training parts and one test part. The score is the mean of the folds'
        mean scores, with noise added once. If the accounts of records differ, the result covers the worst record.
        """
        priced = [to_full_dataset(costs[size], self.n) for size in self.sizes]
        accounts = list(dict.fromkeys(priced))
        counts = np.stack(
            [self.counts[:, [one == account for one in priced]].sum(axis=1) for account in accounts], axis=1
        )
        relation = ReplaceOne(n=self.n, unit=accounts[0].relation.unit)  # type: ignore[attr-defined]
        parts = []
        for row, weight in zip(*_merged(counts, self.weights), strict=True):
            entries = [(account, int(times)) for account, times in zip(accounts, row, strict=True) if times]
            if weight:
                entries.append((noise.mechanism(float(weight), relation).accountant, 1))
            if entries:
                parts.append(Composed(entries=tuple(entries)))
        return worst_account(parts).assuming(Assumption.FIXED_PARTS)


def _merged(counts: NDArray[np.int64], weights: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
    """Merge records with equal counts: they differ in their weight, and the largest needs the largest sensitivity."""
    rows, which = np.unique(counts, axis=0, return_inverse=True)
    heaviest = np.zeros(len(rows))
    np.maximum.at(heaviest, which.ravel(), weights)
    return rows, heaviest


def score_weights(folds: Folds, n: int) -> NDArray[np.float64]:
    """Return the weight of each record in the mean of the folds' mean scores, shape (n,)."""
    weights = np.zeros(n)
    for _, test in folds:
        weights[test] += 1.0 / (len(folds) * len(test))
    return weights


def worst_account(parts: Sequence[Accountant]) -> Accountant:
    """Return the maximum, at every order and epsilon, of accounts under one relation."""
    kinds = tuple(dict.fromkeys(parts))
    return kinds[0] if len(kinds) == 1 else Parallel(parts=kinds, shared=True)
