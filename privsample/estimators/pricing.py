"""What one run of a search costs: the trainings that a record takes part in, and the score.

Source: Papernot and Steinke 2022, section 2 (one run is all that touches private data for one candidate).
"""

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privsample._checks import positive_integer
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Composed, Parallel
from privsample.accounting.guarantees import PureAccountant
from privsample.estimators.scoring import NoisyScore
from privsample.relations import AddRemove, ReplaceOne

Indices = NDArray[np.intp]
Folds = tuple[tuple[Indices, Indices], ...]
TrainingAccount = Accountant | Callable[[int], Accountant] | Literal["worst"] | None

_NO_ACCOUNT = (
    "{} states no account: give it a method accountant_for(n) or an attribute accountant that says what fitting it to "
    "n records costs, before it is fitted; or pass training_account, an account that covers every candidate"
)
_FEATURES = "the cost of {} depends on the number of features: give it too, accountant_for(n, features)"


def training_cost(estimator: Any, given: Any, n: int, features: int | None) -> Accountant:
    """What fitting the estimator to n records costs: as given, else as it states by itself.

    Raises: TypeError, where nothing is stated; ValueError, for an account of another number of records.
    """
    if given is None:
        found = _stated(estimator, n, features)
    else:
        found = given if isinstance(given, Accountant) else given(n) if callable(given) else None
    if not isinstance(found, Accountant):
        raise TypeError(_NO_ACCOUNT.format(type(estimator).__name__))
    if isinstance(found.relation, ReplaceOne) and found.relation.n != n:
        raise ValueError(
            f"the account is one for {found.relation.n} records, but a candidate is fitted to {n}; state it as a "
            "function of n, accountant_for(n) or training_account=lambda n: ..."
        )
    return found if given is None else found.assuming(Assumption.STATED)


def _stated(estimator: Any, n: int, features: int | None) -> Any:
    """By the method accountant_for(n) or accountant_for(n, features), or the attribute accountant."""
    method = getattr(estimator, "accountant_for", None)
    if not callable(method):
        return getattr(estimator, "accountant", None)
    parameter = signature(method).parameters.get("features")
    if parameter is None:
        return method(n)
    if features is None and parameter.default is Parameter.empty:
        raise ValueError(_FEATURES.format(type(estimator).__name__))
    return method(n, features=features)


def fixed_folds(splitter: Any, n: int) -> Folds:
    """The parts for training and testing, made from positions alone: neither y nor groups are shown to the splitter.

    Raises: ValueError, for a splitter that asks for them: one record's label would then move others between the parts.
    """
    positions = np.zeros((positive_integer(n=n), 1))
    try:
        found = [(np.asarray(train), np.asarray(test)) for train, test in splitter.split(positions)]
    except Exception as error:  # noqa: BLE001 - splitters say in many ways that they miss y or groups
        raise ValueError(
            f"{type(splitter).__name__} cannot split by positions alone ({error}): a split that looks at labels or "
            "groups reuses private data without an account; use KFold, ShuffleSplit or fixed lists of positions"
        ) from None
    for part in (part for fold in found for part in fold):
        inside = part.dtype.kind in "iu" and part.size and part.min() >= 0 and part.max() < n
        if not inside or len(np.unique(part)) != len(part):
            raise ValueError(f"cv must give distinct positions from 0 to {n - 1} for every part, and no empty part")
    if not found:
        raise ValueError("cv gives no split")
    return tuple((train.astype(np.intp), test.astype(np.intp)) for train, test in found)


def folds_account(folds: Folds, n: int, costs: Mapping[int, Accountant], noise: NoisyScore) -> Accountant:
    """One run over fixed folds: a record pays for the trainings that it is part of, and for its weight in the score.

    With k equal folds each record lies in k - 1 parts for training and one for testing. The score is the mean of the
    folds' means beneath noise that is added once. Where records pay differently the worst of them counts.
    """
    sizes = [len(train) for train, _ in folds]
    priced = {size: to_full_dataset(costs[size], n) for size in dict.fromkeys(sizes)}
    accounts = list(dict.fromkeys(priced.values()))
    counts, weights = np.zeros((n, len(accounts)), dtype=np.int64), score_weights(folds, n)
    for size, (train, _) in zip(sizes, folds, strict=True):
        counts[train, accounts.index(priced[size])] += 1
    relation = ReplaceOne(n=n, unit=accounts[0].relation.unit)  # type: ignore[attr-defined]
    rows, which = np.unique(counts, axis=0, return_inverse=True)
    heaviest = np.zeros(len(rows))
    np.maximum.at(heaviest, which.ravel(), weights)
    parts = []
    for row, weight in zip(rows, heaviest, strict=True):
        entries = [(account, int(times)) for account, times in zip(accounts, row, strict=True) if times]
        if weight:
            entries.append((noise.mechanism(float(weight), relation).accountant, 1))
        if entries:
            parts.append(Composed(entries=tuple(entries)))
    return worst(parts).assuming(Assumption.FIXED_PARTS)


def score_weights(folds: Folds, n: int) -> NDArray[np.float64]:
    """The weight of each record in the mean of the folds' mean scores, shape (n,)."""
    weights = np.zeros(n)
    for _, test in folds:
        weights[test] += 1.0 / (len(folds) * len(test))
    return weights


def worst(parts: Sequence[Accountant]) -> Accountant:
    """The worst of accounts under one relation, at every order and epsilon."""
    kinds = tuple(dict.fromkeys(parts))
    return kinds[0] if len(kinds) == 1 else Parallel(parts=kinds, moved=True)


def to_full_dataset(account: Accountant, n: int) -> Accountant:
    """The account of a release from fixed positions among n records, under ReplaceOne(n). Raises: TypeError."""
    relation = account.relation
    match relation:
        case AddRemove(unit=unit):
            return account.to(ReplaceOne(n=n, unit=unit))
        case ReplaceOne(n=own, unit=unit) if own < n:
            rest = PureAccountant(stated_epsilon=0.0, relation=ReplaceOne(n=n - own, unit=unit))
            try:
                return account.with_relation(ReplaceOne(n=n, unit=unit))
            except TypeError:  # its relation is no field that can be replaced
                return Parallel(parts=(account, rest))
        case ReplaceOne():
            return account
    raise TypeError(f"cross-validation needs accounts under AddRemove or ReplaceOne, got {relation}")
