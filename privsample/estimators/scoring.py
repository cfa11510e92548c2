"""Scores of candidates: on public validation data, or on private records beneath noise."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from privsample._checks import FloatArray, interval, one_of, positive
from privsample._value import frozen_value, set_fields
from privsample.mechanisms.noise.additive import GaussianMechanism, LaplaceMechanism
from privsample.relations import ReplaceOne

Scorer = Callable[..., Any]

_TERMS: dict[str, Callable[[Any, Any], Any]] = {
    "accuracy": np.equal,
    "neg_mean_absolute_error": lambda truth, guess: -np.abs(truth - guess),
    "neg_mean_squared_error": lambda truth, guess: -np.square(truth - guess),
}


@frozen_value
class NoisyScore:
    """A mean of scores of single private records, each clipped to `bounds`, beneath noise.

    The noise has standard deviation `noise_std` and is added once, to the mean over all parts of a cross-validation.
    One replaced record moves the mean of m records by at most (high - low)/m.
    """

    noise_std: float
    bounds: tuple[float, float] = (0.0, 1.0)
    distribution: Literal["gaussian", "laplace"] = "gaussian"

    def __post_init__(self) -> None:
        set_fields(self, noise_std=positive(noise_std=self.noise_std), bounds=interval(bounds=self.bounds))
        if not one_of(self.distribution, ("gaussian", "laplace")):
            raise ValueError(f"distribution must be 'gaussian' or 'laplace', got {self.distribution!r}")

    def mechanism(self, weight: float, relation: ReplaceOne) -> GaussianMechanism | LaplaceMechanism:
        """Noise on a score in which one record has at most this weight: 1/m for one in m."""
        sensitivity = (self.bounds[1] - self.bounds[0]) * weight
        if self.distribution == "gaussian":
            return GaussianMechanism(sensitivity=sensitivity, noise_std=self.noise_std, relation=relation)
        return LaplaceMechanism(sensitivity=sensitivity, scale=self.noise_std / np.sqrt(2.0), relation=relation)


@dataclass(frozen=True, kw_only=True)
class RecordScorer:
    """The mean over records of a score that each has by itself, clipped; called as a scorer of scikit-learn.

    term: a name in scikit-learn's list, or a function (model, X, y) that gives one number for each record. Whatever
    fails on all records together is done again one by one, so that no record can spoil the score of another; what
    fails for one record, or is no number, counts as the lower bound.
    """

    term: str | Scorer
    bounds: tuple[float, float]

    def __call__(self, model: Any, X: Any, y: Any = None) -> float:
        """The mean."""
        try:
            return float(self._clipped(model, X, y).mean())
        except Exception:  # noqa: BLE001 - whether it fails depends on single records
            return float(np.mean([self._alone(model, *record) for record in _records(X, y)]))

    @property
    def needs_labels(self) -> bool:
        """Whether y must be given."""
        return isinstance(self.term, str)

    def _alone(self, model: Any, X: Any, y: Any) -> float:
        try:
            return float(self._clipped(model, X, y)[0])
        except Exception:  # noqa: BLE001 - as above
            return self.bounds[0]

    def _clipped(self, model: Any, X: Any, y: Any) -> FloatArray:
        """Scores of shape (records,); several outputs of one record are averaged."""
        count = rows_of(X)
        if isinstance(self.term, str):
            truth, guess = _apart(y).reshape(count, -1), np.asarray(model.predict(X)).reshape(count, -1)
            found = _TERMS[self.term](truth, guess)
        else:
            found = np.reshape(self.term(model, X) if y is None else self.term(model, X, y), (count, -1))
        low, high = self.bounds
        numbers = np.asarray(found, dtype=np.float64)
        result: FloatArray = np.clip(np.where(np.isnan(numbers), low, numbers), low, high).mean(axis=1)
        return result


def record_scorer(scoring: Any, estimator: Any, bounds: tuple[float, float]) -> RecordScorer:
    """The scorer of single records. Raises: ValueError, for a score that no record has by itself."""
    if scoring is None and is_classifier(estimator):
        scoring = "accuracy"
    if not callable(scoring) and not (isinstance(scoring, str) and scoring in _TERMS):
        raise ValueError(
            f"scoring={scoring!r} cannot be used beneath noise, which hides one record in a mean over records: use one "
            f"of {', '.join(_TERMS)}, or a function (model, X, y) that gives one number for each record"
        )
    if isinstance(scoring, str) and scoring.startswith("neg_") and not bounds[0] < 0.0:
        raise ValueError(f"bounds={bounds} hold no value of {scoring}, which is below zero; give NoisyScore others")
    return RecordScorer(term=scoring, bounds=bounds)


def score_of(scorer: Scorer, model: Any, X: Any, y: Any) -> float:
    """The score; NaN where it fails or is no number."""
    try:
        return float(scorer(model, X) if y is None else scorer(model, X, y))
    except Exception:  # noqa: BLE001 - an error would show something of a run that may not win
        return float("nan")


def take_rows(data: Any, positions: Any) -> Any:
    """The rows at these positions; of a list a list, since one record may decide the type of an array of all."""
    if isinstance(data, (list, tuple)):
        return [data[i] for i in positions]
    return None if data is None else data.iloc[positions] if hasattr(data, "iloc") else data[positions]


def _apart(y: Any) -> NDArray[Any]:
    """Targets as an array, one record's after the other's; those of a list stay what each is by itself."""
    if not isinstance(y, (list, tuple)):
        return np.asarray(y)
    cells = y if width_of(y) is None else [item for one in y for item in one]
    return np.fromiter(cells, dtype=object, count=len(cells))


def _records(X: Any, y: Any) -> Iterator[tuple[Any, Any]]:
    for i in range(rows_of(X)):
        yield take_rows(X, [i]), take_rows(y, [i])


def rows_of(X: Any) -> int:
    """How many records."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def width_of(X: Any) -> int | None:
    """How many numbers each record has; None where records are no rows. Raises: ValueError, for several lengths."""
    if not isinstance(X, (list, tuple)):
        return X.shape[1] if len(getattr(X, "shape", ())) == 2 else None
    widths = {len(row) if isinstance(row, (list, tuple, np.ndarray)) else None for row in X}
    if len(widths) > 1:
        raise ValueError("rows must be of one length")
    return next(iter(widths), None)
