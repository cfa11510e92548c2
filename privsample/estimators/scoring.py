"""Scores of candidates: on public validation data, or on private records beneath noise."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from privsample._checks import interval, positive
from privsample._value import put, value
from privsample.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from privsample.relations import ReplaceOne

Scorer = Callable[..., Any]

# scikit-learn's scores that are a mean over records; one record moves any other by an amount that nobody bounds
_MEANS = (
    "accuracy",
    "neg_brier_score",
    "neg_log_loss",
    "neg_mean_absolute_error",
    "neg_mean_absolute_percentage_error",
    "neg_mean_squared_error",
    "neg_mean_squared_log_error",
)


@value
class NoisyScore:
    """A mean score of private records, clipped to `bounds`, beneath noise of standard deviation `noise_std`.

    `bounds` must hold for every single record's term of the mean, such as (0, 1) for accuracy: this is taken on trust.
    One replaced record then moves the mean over m records by at most (high - low)/m.
    """

    noise_std: float
    bounds: tuple[float, float] = (0.0, 1.0)
    law: Literal["gaussian", "laplace"] = "gaussian"

    def __post_init__(self) -> None:
        put(self, noise_std=positive(noise_std=self.noise_std), bounds=interval(bounds=self.bounds))
        if self.law not in ("gaussian", "laplace"):
            raise ValueError(f"law must be 'gaussian' or 'laplace', got {self.law!r}")

    def mechanism(self, weight: float, relation: ReplaceOne) -> GaussianMechanism | LaplaceMechanism:
        """Noise on a score in which one record has at most this weight; for one record in m, 1/m."""
        sensitivity = (self.bounds[1] - self.bounds[0]) * weight
        if self.law == "gaussian":
            return GaussianMechanism(sensitivity=sensitivity, noise_std=self.noise_std, relation=relation)
        return LaplaceMechanism(sensitivity=sensitivity, scale=self.noise_std / np.sqrt(2.0), relation=relation)

    def clipped(self, score: float) -> float:
        """The score within the bounds, the lower one for NaN: whether it is a number must not show either."""
        low, high = self.bounds
        return low if np.isnan(score) else min(max(score, low), high)


def checked_scoring(scoring: Any, estimator: Any) -> None:
    """Refuse scores that are known not to be a mean over records. Raises: ValueError."""
    from sklearn.base import is_classifier

    if scoring is None and not is_classifier(estimator):
        raise ValueError(
            "scoring must be given beside score_noise: only classifiers are known to score by accuracy, a mean over "
            "records; for a regressor name, for example, 'neg_mean_absolute_error'"
        )
    if isinstance(scoring, str) and scoring not in _MEANS:
        raise ValueError(
            f"scoring={scoring!r} is not a mean over records, so noise for a mean does not hide one record; use one of "
            f"{', '.join(_MEANS)}, or a function that is such a mean"
        )


def score_of(scorer: Scorer, model: Any, X: Any, y: Any) -> float:
    """The score; NaN where it fails or is no number."""
    try:
        return float(scorer(model, X) if y is None else scorer(model, X, y))
    except Exception:  # noqa: BLE001 - an error would show something of a run that may not win
        return float("nan")
