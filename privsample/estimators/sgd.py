"""Private gradient descent with the interface of scikit-learn: logistic and ridge regression on a ball."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from privsample._checks import FloatArray, positive, positive_integer
from privsample.accounting.sgd import Order
from privsample.accounting.targets import Target
from privsample.distributions.steps.losses import ConvexLoss, LogisticLoss, SquaredLoss
from privsample.estimators.features import HandleInvalid
from privsample.estimators.records import DeclaredClasses, DeclaredRecords, DeclaredTargets
from privsample.estimators.sgd_plan import default_norm, planned_batches, planned_steps
from privsample.mechanisms.sgd import NoisyProjectedSGD


class _PrivateSGD(DeclaredRecords, ABC):
    """Base class of both estimators: calibration of the mechanism, fitting, and the linear predictor."""

    @abstractmethod
    def _loss(self, features: int, norm: float) -> ConvexLoss:
        """Return the loss of one record for rows of at most this L2 norm."""

    def mechanism_for(self, n: int, features: int) -> NoisyProjectedSGD:
        """Return the mechanism that `fit` runs on n records.

        Parameters
        ----------
        n : int
            Number of records, >= 1.
        features : int
            Number of features, >= 1.

        Returns
        -------
        NoisyProjectedSGD
            The mechanism, calibrated to the target.

        Raises
        ------
        UnreachableTarget
            If no parameters of the mechanism meet the target.
        ValueError
            If a parameter of the estimator is invalid.
        """
        n, features = positive_integer(n=n), positive_integer(features=features)
        self._check_norm()
        loss = self._loss(features, default_norm(features) if self.norm is None else self.norm)
        rate, target = 1.0 / loss.smoothness, self._target
        if self.rate is not None:
            rate = positive(rate=self.rate)
        batch = None if self.batch is None else positive_integer(batch=self.batch)
        epochs = None if self.epochs is None else positive_integer(epochs=self.epochs)
        if batch is None or epochs is None:
            batch, epochs = planned_batches(n, planned_steps(loss, n, rate, target), batch, epochs)
        return NoisyProjectedSGD.calibrate(
            loss=loss, n=n, rate=rate, batch=batch, epochs=epochs, order=self.order, target=target, unit=self.unit
        )

    def fit(self, X: Any, y: Any, *, rng: np.random.Generator | None = None) -> Self:
        """Run noisy projected gradient descent over the records.

        Parameters
        ----------
        X : array-like, shape (n, features)
            Features, one row for each record. Missing entries are replaced by the rule in the class description.
        y : array-like, shape (n,)
            Labels, entries of `classes`, of a classifier; numbers, the targets of a regressor.
        rng : numpy.random.Generator, optional
            Source of randomness for simulations; it adds the assumption RNG_FRESH to the account. None uses the
            entropy of the operating system.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        SchemaError
            If X or y has the wrong shape or, with `handle_invalid="error"`, holds values that the declared rules do
            not cover. Nothing is drawn.
        UnreachableTarget
            If no parameters of the mechanism meet the target for this n and number of features.
        ValueError, TypeError
            If a parameter of the estimator is invalid.
        """
        rows = self._checked_rows(X, y)
        mechanism = self.mechanism_for(*rows.shape)
        scaled, centre, spread = self._scaled(rows)
        self.release_ = replace(mechanism.release((scaled, self._targets(y)), rng=rng), delta=self._stated_delta)
        self.accountant_, self._centre = self.release_.account, centre
        self.plan_, self.noise_multiplier_ = mechanism, mechanism.noise_multiplier
        coefficients = self.release_["coefficients"][0] / spread
        own = float(self.release_["intercept"][0]) if self.fit_intercept else 0.0
        self._set(coefficients, own - float(coefficients @ centre))
        return self

    @abstractmethod
    def _set(self, coefficients: FloatArray, intercept: float) -> None:
        """Store the coefficients and the intercept as fitted attributes."""

    def _scores(self, X: Any) -> FloatArray:
        """Linear predictor of each row, shape (k,)."""
        check_is_fitted(self, "release_")
        rows = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        known = np.where(np.isnan(rows), self._centre, rows)
        return np.asarray(known @ np.ravel(self.coef_) + np.ravel(self.intercept_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # missing values are replaced, so that no record can make a private fit fail
        tags.non_deterministic = True
        return tags


class PrivateSGDClassifier(ClassifierMixin, DeclaredClasses, _PrivateSGD):
    """Logistic regression for two classes by noisy projected gradient descent.

    All that `fit` assumes about the data is declared publicly in the parameters, and only the final coefficients are
    released. Features outside `bounds` are clipped, rows longer than `norm` are scaled down, and a missing number
    counts as the middle of `bounds`, or as 0 without `bounds`; `validate` counts these changes. The classes are not
    read from the data, because that would be a release without an account. Data with a single class are fitted like any
    other. The Lipschitz and smoothness constants of the account are derived from `norm`, `radius` and `penalty`. The
    guarantee holds under ReplaceOne.

    Parameters
    ----------
    epsilon : float, optional
        Privacy budget of one fit in nats, finite and > 0, when one record is replaced by another (ReplaceOne). None:
        1.0 without `target`.
    delta : float, optional
        The delta of the (epsilon, delta) guarantee, in (0, 1). None: 1e-6 without `target`.
    target : Target, optional
        The guarantee of one fit, such as `RDP(order=8, epsilon=0.5)`, in place of `epsilon` and `delta`.
    norm : float, optional
        Largest L2 norm of a row after the features were scaled by `bounds`, finite and > 0. Longer rows are scaled
        down to it. None: (1 + sqrt(features))/2; then `bounds` must be declared.
    bounds : tuple (low, high), optional
        Public bounds of the features in their own units; each end is a number or has shape (features,), finite, with
        low < high. Features are clipped to the bounds and then mapped to [-1, 1]. None: features are used unscaled.
    radius : float, default 10.0
        L2 radius of the ball that contains the coefficients and the intercept, finite and > 0, in units of the scaled
        features. Each step projects onto this ball.
    penalty : float, default 1e-3
        Ridge penalty, finite and >= 0: penalty/2 times the squared L2 norm of the parameters is added to the mean loss.
    rate : float, optional
        Step size, finite and in (0, 2/smoothness] of the penalized loss. None: 1/smoothness.
    batch : int, optional
        Number of records in a step, >= 1. None: so many that the epochs together make the planned number of steps; all
        records if there are few.
    fit_intercept : bool, default True
        Whether the model has an intercept.
    epochs : int, optional
        Number of passes over the records, >= 1. None: planned from n, the number of features, epsilon, delta and the
        parameters above, which are public: at most 500 steps, and fewer where the norm of the noise of all steps
        together would exceed 0.4 radius or 2.5; all steps together read at most 2,000,000 records, unless one epoch
        reads more.
    order : {"shuffle_once", "reshuffle", "given", "allocated"}, default "shuffle_once"
        Order in which an epoch reads the records: shuffled secretly once, or secretly and anew for each epoch, or as
        given. The account uses the uniformly random position of a shuffled record, and the worst position otherwise.
        "allocated": each record takes part in one random step of each epoch, independently of the others, and the
        account is that of random allocation, which also covers the states between the steps.
    classes : pair of labels, default (0, 1)
        The negative and the positive class, as known publicly.
    unit : str, default "record"
        What one record stands for in privacy statements, such as "person".
    handle_invalid : {"error", "replace"}, default "error"
        "error" raises SchemaError before anything is drawn if X holds entries that are neither numbers nor missing, or
        y holds labels that are not in `classes`. The error reveals that such records exist. "replace" counts such
        entries as missing and such labels as the negative class; then no record can make `fit` fail.

    Attributes
    ----------
    classes_ : numpy.ndarray, shape (2,)
        The negative and the positive class.
    coef_ : numpy.ndarray, shape (1, features)
        Coefficients, in units of the features as given.
    intercept_ : numpy.ndarray, shape (1,)
        Intercept.
    release_ : Release
        The private release: everything that may be published.
    accountant_ : SGDAccountant
        The account of the release.
    plan_ : NoisyProjectedSGD
        The mechanism that was run, planned from public numbers: its batch, epochs, order and noise.
    noise_multiplier_ : float
        Standard deviation of the noise on the sum of a batch's gradients, over the largest change of this sum when one
        record is replaced.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : numpy.ndarray of str, shape (features,)
        Names of the features; only defined if X has names that are all strings.

    Notes
    -----
    Balle, Barthe, Gaboardi and Geumlek 2019, Algorithm 1. Kind: upper bound. The derivations are in docs/notes/sgd.md
    and, for several epochs, docs/notes/hidden_states.md.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> X = np.linspace(-1, 1, 500)[:, None]
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = ps.PrivateSGDClassifier(epsilon=1.0, delta=1e-6, bounds=(-1, 1))
    >>> model = model.fit(X, y, rng=np.random.default_rng(1))
    >>> model.coef_.shape, model.predict_proba([[0.5]]).shape
    ((1, 1), (1, 2))
    >>> float(model.accountant_for(n=500, features=1).epsilon(1e-6).round(3))
    1.0
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        target: Target | None = None,
        norm: float | None = None,
        bounds: Any = None,
        radius: float = 10.0,
        penalty: float = 1e-3,
        rate: float | None = None,
        batch: int | None = None,
        fit_intercept: bool = True,
        epochs: int | None = None,
        order: Order = "shuffle_once",
        classes: Any = (0, 1),
        unit: str = "record",
        handle_invalid: HandleInvalid = "error",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.norm = norm
        self.bounds = bounds
        self.radius = radius
        self.penalty = penalty
        self.rate = rate
        self.batch = batch
        self.fit_intercept = fit_intercept
        self.epochs = epochs
        self.order = order
        self.classes = classes
        self.unit = unit
        self.handle_invalid = handle_invalid

    def decision_function(self, X: Any) -> FloatArray:
        """Return the log odds of the positive class.

        Parameters
        ----------
        X : array-like, shape (k, features)
            Features. A missing entry counts as the middle of `bounds`, or as 0 without `bounds`.

        Returns
        -------
        numpy.ndarray, shape (k,)
            Log odds; positive where the positive class is more probable.
        """
        return self._scores(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the two classes.

        Parameters
        ----------
        X : array-like, shape (k, features)
            Features. A missing entry counts as the middle of `bounds`, or as 0 without `bounds`.

        Returns
        -------
        numpy.ndarray, shape (k, 2)
            Probabilities in [0, 1], in the order of `classes_`; each row sums to 1.
        """
        odds = self.decision_function(X)
        return np.column_stack([special.expit(-odds), special.expit(odds)])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the more probable class of each row.

        Parameters
        ----------
        X : array-like, shape (k, features)
            Features. A missing entry counts as the middle of `bounds`, or as 0 without `bounds`.

        Returns
        -------
        numpy.ndarray, shape (k,)
            Labels, entries of `classes_`.
        """
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
        tags.classifier_tags.poor_score = True  # the privacy noise dominates on the few rows of scikit-learn's checks
        return tags


class PrivateSGDRegressor(RegressorMixin, DeclaredTargets, _PrivateSGD):
    """Ridge regression on a ball by noisy projected gradient descent.

    The features are treated as in `PrivateSGDClassifier`. Targets are clipped to the public `target_bounds` and mapped
    to [-1, 1]. The guarantee holds under ReplaceOne.

    Parameters
    ----------
    epsilon : float, optional
        Privacy budget of one fit in nats, finite and > 0, when one record is replaced by another (ReplaceOne). None:
        1.0 without `target`.
    delta : float, optional
        The delta of the (epsilon, delta) guarantee, in (0, 1). None: 1e-6 without `target`.
    target : Target, optional
        The guarantee of one fit, such as `RDP(order=8, epsilon=0.5)`, in place of `epsilon` and `delta`.
    norm : float, optional
        Largest L2 norm of a row after the features were scaled by `bounds`, finite and > 0. Longer rows are scaled
        down to it. None: (1 + sqrt(features))/2; then `bounds` must be declared.
    bounds : tuple (low, high), optional
        Public bounds of the features in their own units; each end is a number or has shape (features,), finite, with
        low < high. Features are clipped to the bounds and then mapped to [-1, 1]. None: features are used unscaled.
    target_bounds : tuple (low, high)
        Public bounds of the targets in their own units, finite, with low < high; they must be declared.
    radius : float, default 1.0
        L2 radius of the ball that contains the coefficients and the intercept, finite and > 0, in units of the scaled
        features and targets. Each step projects onto this ball.
    penalty : float, default 1e-3
        Ridge penalty, finite and >= 0: penalty/2 times the squared L2 norm of the parameters is added to the mean loss.
    rate : float, optional
        Step size, finite and in (0, 2/smoothness] of the penalized loss. None: 1/smoothness.
    batch : int, optional
        Number of records in a step, >= 1. None: so many that the epochs together make the planned number of steps; all
        records if there are few.
    fit_intercept : bool, default True
        Whether the model has an intercept.
    epochs : int, optional
        Number of passes over the records, >= 1. None: planned from n, the number of features, epsilon, delta and the
        parameters above, which are public: at most 500 steps, and fewer where the norm of the noise of all steps
        together would exceed 0.4 radius or 2.5; all steps together read at most 2,000,000 records, unless one epoch
        reads more.
    order : {"shuffle_once", "reshuffle", "given", "allocated"}, default "shuffle_once"
        Order in which an epoch reads the records: shuffled secretly once, or secretly and anew for each epoch, or as
        given. The account uses the uniformly random position of a shuffled record, and the worst position otherwise.
        "allocated": each record takes part in one random step of each epoch, independently of the others, and the
        account is that of random allocation, which also covers the states between the steps.
    unit : str, default "record"
        What one record stands for in privacy statements, such as "person".
    handle_invalid : {"error", "replace"}, default "error"
        "error" raises SchemaError before anything is drawn if X holds entries that are neither numbers nor missing, or
        y holds targets that are not numbers. The error reveals that such records exist. "replace" counts such entries
        as missing and such targets as the middle of `target_bounds`; then no record can make `fit` fail.

    Attributes
    ----------
    coef_ : numpy.ndarray, shape (features,)
        Coefficients, in units of the targets over those of the features as given.
    intercept_ : float
        Intercept, in units of the targets as given.
    release_ : Release
        The private release: everything that may be published.
    accountant_ : SGDAccountant
        The account of the release.
    plan_ : NoisyProjectedSGD
        The mechanism that was run, planned from public numbers: its batch, epochs, order and noise.
    noise_multiplier_ : float
        Standard deviation of the noise on the sum of a batch's gradients, over the largest change of this sum when one
        record is replaced.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : numpy.ndarray of str, shape (features,)
        Names of the features; only defined if X has names that are all strings.

    Notes
    -----
    Balle, Barthe, Gaboardi and Geumlek 2019, Algorithm 1. Kind: upper bound. The derivations are in docs/notes/sgd.md
    and, for several epochs, docs/notes/hidden_states.md.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> X = np.linspace(0, 10, 500)[:, None]
    >>> model = ps.PrivateSGDRegressor(epsilon=1.0, delta=1e-6, bounds=(0, 10), target_bounds=(0, 100))
    >>> model = model.fit(X, 10 * X[:, 0], rng=np.random.default_rng(1))
    >>> model.coef_.shape, model.predict([[5.0], [7.0]]).shape
    ((1,), (2,))
    >>> float(model.accountant_for(n=500, features=1).epsilon(1e-6).round(3))
    1.0
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        target: Target | None = None,
        norm: float | None = None,
        bounds: Any = None,
        target_bounds: Any = None,
        radius: float = 1.0,
        penalty: float = 1e-3,
        rate: float | None = None,
        batch: int | None = None,
        fit_intercept: bool = True,
        epochs: int | None = None,
        order: Order = "shuffle_once",
        unit: str = "record",
        handle_invalid: HandleInvalid = "error",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.norm = norm
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.radius = radius
        self.penalty = penalty
        self.rate = rate
        self.batch = batch
        self.fit_intercept = fit_intercept
        self.epochs = epochs
        self.order = order
        self.unit = unit
        self.handle_invalid = handle_invalid

    def predict(self, X: Any) -> FloatArray:
        """Return the predicted target of each row.

        Parameters
        ----------
        X : array-like, shape (k, features)
            Features. A missing entry counts as the middle of `bounds`, or as 0 without `bounds`.

        Returns
        -------
        numpy.ndarray, shape (k,)
            Predicted targets, in the units of the targets as given.
        """
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
        low, high = self._target_bounds()
        half = (high - low) / 2
        self.coef_, self.intercept_ = half * coefficients, half * intercept + (low + high) / 2

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
