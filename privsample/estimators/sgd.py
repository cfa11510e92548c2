"""Private gradient descent for scikit-learn: logistic regression and ridge regression on a ball."""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from privsample._checks import FloatArray, interval, positive_integer
from privsample._data import as_float
from privsample.accounting.sgd import SGDAccountant
from privsample.accounting.targets import DP
from privsample.distributions.rows import matrix
from privsample.distributions.steps.losses import ConvexLoss, LogisticLoss, SquaredLoss
from privsample.errors import SchemaError
from privsample.estimators.targets import column, same
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.sgd import NoisyProjectedSGD

_STEPS = 200  # by default; fewer for few records, where each costs more noise


class _PrivateSGD(BaseEstimator, ABC):
    """What both have in common: bounds, the mechanism, and the linear scores."""

    @abstractmethod
    def _loss(self, features: int, norm: float) -> ConvexLoss:
        """What a record costs, for rows of this norm."""

    @abstractmethod
    def _targets(self, y: Any) -> FloatArray:
        """The targets that the mechanism takes."""

    def mechanism_for(self, n: int, features: int) -> NoisyProjectedSGD:
        """What `fit` will release from n rows of so many features. Raises: ValueError, UnreachableTarget."""
        if self.norm is None and self.bounds is None:
            raise ValueError("norm or bounds must be declared: what the data hold cannot be looked up in private")
        loss = self._loss(features, float(np.sqrt(features)) if self.norm is None else self.norm)
        return NoisyProjectedSGD.calibrate(
            loss=loss,
            n=n,
            rate=1.0 / loss.smoothness if self.rate is None else self.rate,
            batch=-(-n // min(_STEPS, max(1, n // 20))) if self.batch is None else self.batch,
            hidden_order=self.hidden_order,
            target=DP(epsilon=self.epsilon, delta=self.delta),
            unit=self.unit,
        )

    def accountant_for(self, n: int, features: int) -> SGDAccountant:
        """What `fit` will cost for n rows of so many features, before any data are seen."""
        n, features = positive_integer(n=n), positive_integer(features=features)
        return self.mechanism_for(n, features).accountant

    def fit(self, X: Any, y: Any, *, rng: np.random.Generator | None = None) -> Self:
        """Descend over rows X, shape (n, features), and targets y, shape (n,), once.

        Parameters: rng, a numpy Generator (for simulations; it adds an assumption) or None for the system's entropy.
        Raises: SchemaError, ValueError, TypeError, UnreachableTarget; nothing is drawn then.
        """
        mechanism, records, centre, spread = self._prepared(X, y)
        self.release_ = mechanism.release(records, rng=rng)
        self.accountant_, self._centre = self.release_.account, centre
        coefficients = self.release_["coefficients"][0] / spread
        own = float(self.release_["intercept"][0]) if self.fit_intercept else 0.0
        self._set(coefficients, own - float(coefficients @ centre))
        return self

    def validate(self, X: Any, y: Any) -> CuratorNotes:
        """What the declared rules would change in these data, for the curator's eyes."""
        mechanism, records, _, _ = self._prepared(X, y)
        return mechanism.validate(records)

    @abstractmethod
    def _set(self, coefficients: FloatArray, intercept: float) -> None:
        """Keep the coefficients and the intercept in the form of the estimator."""

    def _scores(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        known = np.where(np.isnan(rows), self._centre, rows)
        return np.asarray(known @ np.ravel(self.coef_) + np.ravel(self.intercept_))

    def _prepared(self, X: Any, y: Any) -> tuple[NoisyProjectedSGD, tuple[FloatArray, FloatArray], Any, Any]:
        """Mechanism, rows and targets as it takes them, and the centre and spread that the rows were scaled by."""
        if sparse.issparse(X):
            raise TypeError("X is sparse, and dense rows are needed; use X.toarray()")
        rows = matrix(X)
        if min(rows.shape) == 0:
            what = "feature(s)" if rows.shape[0] else "sample(s)"
            raise SchemaError(f"found 0 {what} (shape={rows.shape}) while a minimum of 1 is required.")
        validate_data(self, X, skip_check_array=True)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        low, high = self._ends(rows.shape[1])
        centre, spread = (low + high) / 2, (high - low) / 2
        scaled = rows if self.bounds is None else (np.clip(rows, low, high) - centre) / spread
        return self.mechanism_for(*rows.shape), (scaled, self._targets(y)), centre, spread

    def _ends(self, features: int) -> tuple[FloatArray, FloatArray]:
        """Low and high ends, shape (features,); -1 and 1 where none are declared."""
        try:
            ends = (-1.0, 1.0) if self.bounds is None else self.bounds
            low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (features,)) for end in ends)
        except (TypeError, ValueError):
            raise ValueError(f"bounds must be (low, high), each a number or {features} numbers") from None
        if not (np.all(low < high) and np.all(np.isfinite(high - low))):
            raise ValueError("bounds must be finite, with low < high for each feature")
        return low, high

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # no record's value may make a private fit fail
        tags.non_deterministic = True
        return tags


class PrivateSGDClassifier(ClassifierMixin, _PrivateSGD):
    """Logistic regression for two classes by one pass of noisy projected gradient descent.

    Whatever the fit may know about the data is declared here, in public; nothing is learned from them but the released
    coefficients. What breaks a declared rule is moved to it, and a missing number counts as 0, or as the middle of
    `bounds`. The constants that decide the cost are derived from `norm`, `radius` and `penalty`.

    Parameters:
        epsilon, delta: the promise for each record, when one record is replaced by another.
        norm: the largest L2 norm of a row, after `bounds`; longer rows are scaled down. None: the square root of the
            number of features, which needs `bounds`.
        bounds: (low, high), numbers or arrays of shape (features,): features are moved into them, then to [-1, 1].
        radius: the ball that the coefficients and the intercept live in, in units of the features after `bounds`.
        penalty: half of it times their squared norm is added to the mean loss.
        rate: of the steps, at most 2/smoothness; None: 1/smoothness.
        batch: records in a step; None: 200 steps, or 20 records each where there are fewer than 4000.
        hidden_order: shuffle in secret, and account for a record's unknown position; without, for the worst one.
        classes: the negative and the positive class; any other label counts as the negative one.

    Attributes: classes_, n_features_in_, feature_names_in_, coef_ (1, features) and intercept_ (1,) in units of the
    features as given, release_ (what may leave), accountant_.
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        norm: float | None = None,
        bounds: Any = None,
        radius: float = 10.0,
        penalty: float = 1e-3,
        rate: float | None = None,
        batch: int | None = None,
        fit_intercept: bool = True,
        hidden_order: bool = True,
        classes: Any = (0, 1),
        unit: str = "record",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.norm = norm
        self.bounds = bounds
        self.radius = radius
        self.penalty = penalty
        self.rate = rate
        self.batch = batch
        self.fit_intercept = fit_intercept
        self.hidden_order = hidden_order
        self.classes = classes
        self.unit = unit

    def decision_function(self, X: Any) -> FloatArray:
        """Log odds of the positive class, shape (k,)."""
        return self._scores(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Chances of the two classes, shape (k, 2)."""
        odds = self.decision_function(X)
        return np.column_stack([special.expit(-odds), special.expit(odds)])

    def predict(self, X: Any) -> NDArray[Any]:
        """The likelier class, shape (k,)."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])

    def _loss(self, features: int, norm: float) -> ConvexLoss:
        return LogisticLoss(
            features=features, norm=norm, radius=self.radius, penalty=self.penalty, intercept=self.fit_intercept
        )

    def _targets(self, y: Any) -> FloatArray:
        if isinstance(self.classes, (str, bytes)) or np.shape(self.classes) != (2,):
            raise ValueError(
                "classes must be a pair (negative, positive); for more classes fit one model for each, and add up what "
                "they cost"
            )
        return np.array([same(label, self.classes[1]) for label in column(y)], dtype=np.float64)

    def _set(self, coefficients: FloatArray, intercept: float) -> None:
        self.classes_ = np.asarray(self.classes)
        self.coef_, self.intercept_ = coefficients[None], np.array([intercept])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # on the few rows of scikit-learn's own checks
        return tags


class PrivateSGDRegressor(RegressorMixin, _PrivateSGD):
    """Ridge regression on a ball by one pass of noisy projected gradient descent.

    Parameters: as for PrivateSGDClassifier, and target_bounds: (low, high), which targets are moved into, then to
    [-1, 1]; `radius` and `penalty` are in units of that.
    Attributes: n_features_in_, feature_names_in_, coef_ (features,) and intercept_ in units of the features and targets
    as given, release_ (what may leave), accountant_.
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        norm: float | None = None,
        bounds: Any = None,
        target_bounds: Any = (-1.0, 1.0),
        radius: float = 1.0,
        penalty: float = 1e-3,
        rate: float | None = None,
        batch: int | None = None,
        fit_intercept: bool = True,
        hidden_order: bool = True,
        unit: str = "record",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.norm = norm
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.radius = radius
        self.penalty = penalty
        self.rate = rate
        self.batch = batch
        self.fit_intercept = fit_intercept
        self.hidden_order = hidden_order
        self.unit = unit

    def predict(self, X: Any) -> FloatArray:
        """Predicted targets, shape (k,)."""
        return self._scores(X)

    def _loss(self, features: int, norm: float) -> ConvexLoss:
        return SquaredLoss(
            features=features,
            norm=norm,
            radius=self.radius,
            target=1.0,
            penalty=self.penalty,
            intercept=self.fit_intercept,
        )

    def _targets(self, y: Any) -> FloatArray:
        low, high = interval(target_bounds=self.target_bounds)
        targets = np.array([as_float(item) for item in column(y)])
        return (np.clip(targets, low, high) - (low + high) / 2) / ((high - low) / 2)

    def _set(self, coefficients: FloatArray, intercept: float) -> None:
        low, high = interval(target_bounds=self.target_bounds)
        half = (high - low) / 2
        self.coef_, self.intercept_ = half * coefficients, half * intercept + (low + high) / 2

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
