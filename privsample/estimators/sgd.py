"""Private gradient descent for scikit-learn: logistic regression and ridge regression on a ball."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from privsample._checks import FloatArray, positive_integer
from privsample.accounting.sgd import SGDAccountant
from privsample.accounting.targets import DP
from privsample.distributions.steps.losses import ConvexLoss, LogisticLoss, SquaredLoss
from privsample.estimators.records import DeclaredClasses, DeclaredRecords, DeclaredTargets, HandleInvalid
from privsample.mechanisms.sgd import NoisyProjectedSGD

_STEPS = 200  # by default; fewer for few records, where each costs more noise


class _PrivateSGD(DeclaredRecords, ABC):
    """What both have in common: bounds, the mechanism, and the linear scores."""

    @abstractmethod
    def _loss(self, features: int, norm: float) -> ConvexLoss:
        """What a record costs, for rows of this norm."""

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
        Raises: SchemaError (also for records that are refused), ValueError, TypeError, UnreachableTarget; nothing is
        drawn then.
        """
        rows = self._accepted_rows(X, y)
        mechanism = self.mechanism_for(*rows.shape)
        scaled, centre, spread = self._scaled(rows)
        self.release_ = replace(mechanism.release((scaled, self._targets(y)), rng=rng), delta=self.delta)
        self.accountant_, self._centre = self.release_.account, centre
        coefficients = self.release_["coefficients"][0] / spread
        own = float(self.release_["intercept"][0]) if self.fit_intercept else 0.0
        self._set(coefficients, own - float(coefficients @ centre))
        return self

    @abstractmethod
    def _set(self, coefficients: FloatArray, intercept: float) -> None:
        """Keep the coefficients and the intercept in the form of the estimator."""

    def _scores(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        known = np.where(np.isnan(rows), self._centre, rows)
        return np.asarray(known @ np.ravel(self.coef_) + np.ravel(self.intercept_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # no record's value may make a private fit fail
        tags.non_deterministic = True
        return tags


class PrivateSGDClassifier(ClassifierMixin, DeclaredClasses, _PrivateSGD):
    """Logistic regression for two classes by one pass of noisy projected gradient descent.

    Whatever the fit may know about the data is declared here, in public; nothing is learned from them but the released
    coefficients. Features out of `bounds` and rows longer than `norm` are moved to them, and a missing number counts as
    0, or as the middle of `bounds`; `validate` counts both. Labels must be the declared ones: to look the classes up in
    the data would be a release that nobody paid for. Data of one class only are fitted like any other. The constants
    that decide the cost are derived from `norm`, `radius` and `penalty`.

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
        classes: the negative and the positive class, as known in public.
        handle_invalid: "error" refuses features that are neither numbers nor missing, and labels that are not in
            `classes`, before anything is drawn: whoever sees the refusal learns that there are such records. "replace"
            counts the first as missing and the second as the negative class, and no record can make `fit` fail.

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
        handle_invalid: HandleInvalid = "error",
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
        self.handle_invalid = handle_invalid

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

    def _set(self, coefficients: FloatArray, intercept: float) -> None:
        self.classes_ = self._class_labels()
        self.coef_, self.intercept_ = coefficients[None], np.array([intercept])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # on the few rows of scikit-learn's own checks
        return tags


class PrivateSGDRegressor(RegressorMixin, DeclaredTargets, _PrivateSGD):
    """Ridge regression on a ball by one pass of noisy projected gradient descent.

    Parameters: as for PrivateSGDClassifier without `classes`, and target_bounds: (low, high), to be declared, which
    targets are moved into, then to [-1, 1]; `radius` and `penalty` are in units of that. With handle_invalid="error",
    targets that are missing or no numbers are refused; with "replace" they count as the middle of their bounds.
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
        target_bounds: Any = None,
        radius: float = 1.0,
        penalty: float = 1e-3,
        rate: float | None = None,
        batch: int | None = None,
        fit_intercept: bool = True,
        hidden_order: bool = True,
        unit: str = "record",
        handle_invalid: HandleInvalid = "error",
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
        self.handle_invalid = handle_invalid

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

    def _set(self, coefficients: FloatArray, intercept: float) -> None:
        low, high = self._target_ends()
        half = (high - low) / 2
        self.coef_, self.intercept_ = half * coefficients, half * intercept + (low + high) / 2

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
