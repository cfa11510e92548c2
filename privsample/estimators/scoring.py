"""Scores of candidates: on public validation data, or on private records with noise."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from privsample._checks import FloatArray, interval, one_of, positive
from privsample._value import frozen_value, set_fields
from privsample.mechanisms.noise.additive import GaussianMechanism, LaplaceMechanism
from privsample.relations import ReplaceOne

Scorer = Callable[..., Any]
_UP = 1 + 1e-12  # exceeds the relative rounding error

_RECORD_SCORES: dict[str, Callable[[Any, Any], Any]] = {
    "accuracy": np.equal,
    "neg_mean_absolute_error": lambda truth, guess: -np.abs(truth - guess),
    "neg_mean_squared_error": lambda truth, guess: -np.square(truth - guess),
}


@frozen_value
class NoisyScore:
    """Noise on the mean score of private records, each score clipped to `bounds`.

    The noise is added once, to the mean over all folds of a cross-validation. Replacing one of m records (ReplaceOne)
    changes their mean score by at most (high - low)/m.

    Parameters
    ----------
    noise_std : float, optional
        Standard deviation of the noise, finite and > 0, in units of the score. None: chosen by a `PrivateSearchCV` with
        a target.
    bounds : tuple (low, high), default (0.0, 1.0)
        Bounds to which the score of each record is clipped, finite, with low < high, in units of the score.
    distribution : {"gaussian", "laplace"}, default "gaussian"
        Distribution of the noise.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    The score is released by a `GaussianMechanism` or a `LaplaceMechanism`. Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> noise = ps.NoisyScore(noise_std=0.01)
    >>> mechanism = noise.mechanism(weight=1 / 1000, relation=ps.ReplaceOne(n=1000))
    >>> float(mechanism.accountant.epsilon(1e-6).round(3))
    0.397
    """

    noise_std: float | None = None
    bounds: tuple[float, float] = (0.0, 1.0)
    distribution: Literal["gaussian", "laplace"] = "gaussian"

    def __post_init__(self) -> None:
        if self.noise_std is not None:
            set_fields(self, noise_std=positive(noise_std=self.noise_std))
        set_fields(self, bounds=interval(bounds=self.bounds))
        if not one_of(self.distribution, ("gaussian", "laplace")):
            raise ValueError(f"distribution must be 'gaussian' or 'laplace', got {self.distribution!r}")

    def sensitivity(self, weight: float) -> float:
        """Return the largest change of a weighted mean score when one record is replaced.

        Parameters
        ----------
        weight : float
            Largest weight of one record in the mean, in (0, 1].

        Returns
        -------
        float
            The product (high - low) * weight, in units of the score.
        """
        return (self.bounds[1] - self.bounds[0]) * weight

    def calibrated(self, weight: float, rho: float) -> "NoisyScore":
        """Return the same noise with the standard deviation at which `as_gaussian` costs rho-zCDP.

        Parameters
        ----------
        weight : float
            Largest weight of one record in the mean, in (0, 1].
        rho : float
            zCDP parameter, finite and > 0.

        Returns
        -------
        NoisyScore
            The noise, with `noise_std`.
        """
        return replace(self, noise_std=float(self._factor * self.sensitivity(weight) / np.sqrt(2.0 * rho)))

    def rho(self, weight: float) -> float:
        """Return a zCDP parameter of the noise: that of `as_gaussian`.

        Parameters
        ----------
        weight : float
            Largest weight of one record in the mean, in (0, 1].

        Returns
        -------
        float
            The parameter rho; NaN if `noise_std` is None.
        """
        std = np.nan if self.noise_std is None else self.noise_std
        return float((self._factor * self.sensitivity(weight) / std) ** 2 / 2.0)

    def as_gaussian(self) -> "NoisyScore":
        """Return Gaussian noise that costs at least as much at every epsilon (docs/notes/search.md, Target).

        Returns
        -------
        NoisyScore
            The noise itself if it is Gaussian. Laplace noise of standard deviation s costs at most as much as Gaussian
            noise of standard deviation s / sqrt(pi).
        """
        if self.distribution == "gaussian":
            return self
        std = None if self.noise_std is None else self.noise_std / self._factor
        return replace(self, noise_std=std, distribution="gaussian")

    @property
    def _factor(self) -> float:
        """Standard deviation over that of `as_gaussian`: sqrt(pi) for Laplace noise, rounded up."""
        return 1.0 if self.distribution == "gaussian" else float(np.sqrt(np.pi)) * _UP

    def mechanism(self, weight: float, relation: ReplaceOne) -> GaussianMechanism | LaplaceMechanism:
        """Return the mechanism that adds the noise to a weighted mean score.

        Parameters
        ----------
        weight : float
            Largest weight of one record in the mean, in (0, 1]: 1/m for the mean of m records.
        relation : ReplaceOne
            Neighbouring relation of the account.

        Returns
        -------
        GaussianMechanism or LaplaceMechanism
            Additive noise with sensitivity (high - low) * weight.

        Raises
        ------
        ValueError
            If `noise_std` is None.
        """
        if self.noise_std is None:
            raise ValueError(
                "noise_std of NoisyScore must be given, got None: without a target the search cannot choose it"
            )
        sensitivity = self.sensitivity(weight)
        if self.distribution == "gaussian":
            return GaussianMechanism(sensitivity=sensitivity, noise_std=self.noise_std, relation=relation)
        return LaplaceMechanism(sensitivity=sensitivity, scale=self.noise_std / np.sqrt(2.0), relation=relation)


@dataclass(frozen=True, kw_only=True)
class RecordScorer:
    """Mean over records of a clipped score of each record; callable like a scorer of scikit-learn.

    `term` is the name of a score, or a function (model, X, y) that returns one number for each record. If it fails on
    all records together, it is evaluated record by record, so that no record can change the score of another. A record
    for which it fails or returns NaN gets the lower bound. Both rules keep the sensitivity at (high - low)/m.
    """

    term: str | Scorer
    bounds: tuple[float, float]

    def __call__(self, model: Any, X: Any, y: Any = None) -> float:
        """Return the mean clipped score."""
        try:
            return float(self._clipped_scores(model, X, y).mean())
        except Exception:  # noqa: BLE001 - a single record can cause the failure
            return float(np.mean([self._score_one(model, *record) for record in _records(X, y)]))

    @property
    def needs_labels(self) -> bool:
        """Whether the score needs y."""
        return isinstance(self.term, str)

    def _score_one(self, model: Any, X: Any, y: Any) -> float:
        """Return the clipped score of a single record, the lower bound if it fails."""
        try:
            return float(self._clipped_scores(model, X, y)[0])
        except Exception:  # noqa: BLE001 - any failure is the lower bound
            return self.bounds[0]

    def _clipped_scores(self, model: Any, X: Any, y: Any) -> FloatArray:
        """Return clipped scores, shape (records,); several outputs of one record are averaged."""
        count = record_count(X)
        if isinstance(self.term, str):
            truth, guess = _flat_targets(y).reshape(count, -1), np.asarray(model.predict(X)).reshape(count, -1)
            found = _RECORD_SCORES[self.term](truth, guess)
        else:
            found = np.reshape(self.term(model, X) if y is None else self.term(model, X, y), (count, -1))
        low, high = self.bounds
        numbers = np.asarray(found, dtype=np.float64)
        result: FloatArray = np.clip(np.where(np.isnan(numbers), low, numbers), low, high).mean(axis=1)
        return result


def record_scorer(scoring: Any, estimator: Any, bounds: tuple[float, float]) -> RecordScorer:
    """Return the scorer of single records. Raises ValueError for a score that is not a mean over records."""
    if scoring is None and is_classifier(estimator):
        scoring = "accuracy"
    if not callable(scoring) and not (isinstance(scoring, str) and scoring in _RECORD_SCORES):
        raise ValueError(
            f"with score_noise, scoring must be a mean over records, got {scoring!r}; use one of "
            f"{', '.join(_RECORD_SCORES)}, or a function (model, X, y) that returns one number for each record"
        )
    if isinstance(scoring, str) and scoring.startswith("neg_") and not bounds[0] < 0.0:
        raise ValueError(f"bounds of NoisyScore must have low < 0 for {scoring}, whose values are <= 0, got {bounds}")
    return RecordScorer(term=scoring, bounds=bounds)


def score_or_nan(scorer: Scorer, model: Any, X: Any, y: Any) -> float:
    """Return the score, or NaN if the scorer fails or returns no number."""
    try:
        return float(scorer(model, X) if y is None else scorer(model, X, y))
    except Exception:  # noqa: BLE001 - an error would reveal the outcome of a run that may not win
        return float("nan")


def take_rows(data: Any, positions: Any) -> Any:
    """Return the rows at these positions. A list stays a list: one entry could change the dtype of an array."""
    if isinstance(data, (list, tuple)):
        return [data[i] for i in positions]
    return None if data is None else data.iloc[positions] if hasattr(data, "iloc") else data[positions]


def _flat_targets(y: Any) -> NDArray[Any]:
    """Return targets as a flat array, record after record; entries of a list keep their own types."""
    if not isinstance(y, (list, tuple)):
        return np.asarray(y)
    cells = y if feature_count(y) is None else [item for one in y for item in one]
    return np.fromiter(cells, dtype=object, count=len(cells))


def _records(X: Any, y: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each record as data of length 1."""
    for i in range(record_count(X)):
        yield take_rows(X, [i]), take_rows(y, [i])


def record_count(X: Any) -> int:
    """Return the number of records."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def feature_count(X: Any) -> int | None:
    """Return the number of features, None if records are not rows. Raises ValueError for rows of unequal length."""
    if not isinstance(X, (list, tuple)):
        return X.shape[1] if len(getattr(X, "shape", ())) == 2 else None
    widths = {len(row) if isinstance(row, (list, tuple, np.ndarray)) else None for row in X}
    if len(widths) > 1:
        raise ValueError(f"rows of X must have equal lengths, got {sorted(map(str, widths))}")
    return next(iter(widths), None)
