"""Scaling of features: by public bounds, and by private means and standard deviations."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from privsample._checks import FloatArray, positive_integer
from privsample.accounting.targets import Target
from privsample.estimators.features import DeclaredFeatures, HandleInvalid, PrivateFit
from privsample.mechanisms.noise.sums import ClippedSum
from privsample.mechanisms.notes import CuratorNotes
from privsample.relations import ReplaceOne


class _Scaler(OneToOneFeatureMixin, TransformerMixin, DeclaredFeatures):
    """Base class of both scalers: rows are checked and clipped to the public bounds, missing entries are replaced."""

    def validate(self, X: Any) -> CuratorNotes:
        """Count the values that `fit` and `transform` would refuse, replace or clip, for the data curator.

        The counts are computed from private data without noise and must not be published. Nothing is drawn or spent.

        Parameters
        ----------
        X : array-like, shape (n, features)
            Features, one row for each record.

        Returns
        -------
        CuratorNotes
            The number of affected entries and records by reason.

        Raises
        ------
        SchemaError
            If X has the wrong shape; values of single records raise no error here.
        ValueError, TypeError
            If a parameter is invalid.
        """
        rows = self._declared_rows(X)
        facts = {"not finite": int((~np.isfinite(rows)).any(axis=1).sum())} | self._count_changed_features(X, rows)
        title = f"{len(rows)} rows of {rows.shape[1]} features"
        return CuratorNotes(title=title, facts={reason: count for reason, count in facts.items() if count})

    def _declared_rows(self, X: Any, *, reset: bool = True) -> FloatArray:
        """Return X as floats, shape (k, features), NaN for non-numbers. Raises SchemaError, TypeError, ValueError."""
        if self.bounds is None:
            raise ValueError("bounds must be declared publicly, got None: they cannot be read from private data")
        return self._numeric_rows(X, reset=reset)

    def _unit_rows(self, X: Any, *, reset: bool) -> FloatArray:
        """Return X clipped to the bounds and mapped to [-1, 1], 0 for missing entries. Raises SchemaError."""
        rows = self._declared_rows(X, reset=reset)
        if self.handle_invalid == "error":
            self._check_features(X)
        scaled, _, _ = self._scaled(rows)
        return np.where(np.isnan(scaled), 0.0, scaled)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # missing values are replaced, so that no record can make a fit fail
        return tags


class BoundsScaler(_Scaler):
    """Map features from public bounds to [-1, 1]. It learns nothing, so that it costs nothing.

    A feature out of its bounds is clipped, and a missing number becomes 0, the middle. In front of a private estimator
    it replaces a scaler that was fitted on private data, such as `StandardScaler` or `MinMaxScaler`. The estimators of
    privsample with a parameter `bounds` do the same by themselves.

    Parameters
    ----------
    bounds : tuple (low, high)
        Public bounds of the features in their own units; each end is a number or has shape (features,), finite, with
        low < high; they must be declared.
    handle_invalid : {"error", "replace"}, default "error"
        "error" raises SchemaError if X holds entries that are neither numbers nor missing. The error reveals that such
        records exist. "replace" counts such entries as missing; then no record can make `transform` fail.

    Attributes
    ----------
    n_features_in_ : int
        Number of features.
    feature_names_in_ : numpy.ndarray of str, shape (features,)
        Names of the features; only defined if X has names that are all strings.

    Notes
    -----
    Each row is transformed by itself, by public numbers: neighbouring datasets stay neighbours (post-processing of
    single records). Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> scaler = ps.BoundsScaler(bounds=([0, 100], [10, 200]))
    >>> scaler.fit_transform([[5, 125], [20, float("nan")]])
    array([[ 0. , -0.5],
           [ 1. ,  0. ]])
    """

    def __init__(self, bounds: Any = None, *, handle_invalid: HandleInvalid = "error") -> None:
        self.bounds = bounds
        self.handle_invalid = handle_invalid

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 - a pipeline passes y to each step
        """Check the bounds against the number of features. No value of X is used.

        Parameters
        ----------
        X : array-like, shape (n, features)
            Features, one row for each record.
        y : None
            Ignored.

        Returns
        -------
        self
            The scaler.

        Raises
        ------
        SchemaError
            If X has the wrong shape.
        ValueError, TypeError
            If a parameter is invalid.
        """
        self._bounds(self._declared_rows(X).shape[1])
        return self

    def transform(self, X: Any) -> FloatArray:
        """Clip the features to the bounds, and map them to [-1, 1].

        Parameters
        ----------
        X : array-like, shape (k, features)
            Features, one row for each record.

        Returns
        -------
        numpy.ndarray, shape (k, features)
            Scaled features in [-1, 1], finite.

        Raises
        ------
        SchemaError
            If X has the wrong shape or, with `handle_invalid="error"`, holds entries that are no numbers.
        ValueError, TypeError
            If a parameter is invalid.
        """
        return self._unit_rows(X, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class PrivateStandardScaler(PrivateFit, _Scaler):
    """Standardize features by means and standard deviations that are released with noise, with an account.

    Features are clipped to the public `bounds`, and missing numbers are replaced by the middle of the bounds. Their
    sums and sums of squares are released together by a `ClippedSum`. In a pipeline the cost of the scaler is added to
    the cost of the estimator: `pipeline_account` and `PrivateSearchCV` add it. Where public bounds are tight,
    `BoundsScaler` serves as well and costs nothing.

    Parameters
    ----------
    epsilon : float, optional
        Privacy budget of one fit in nats, finite and > 0, when one record is replaced by another (ReplaceOne). None:
        1.0 without `target`.
    delta : float, optional
        The delta of the (epsilon, delta) guarantee, in (0, 1). None: 1e-6 without `target`.
    target : Target, optional
        The guarantee of one fit, such as `RDP(order=8, epsilon=0.5)`, in place of `epsilon` and `delta`.
    bounds : tuple (low, high)
        Public bounds of the features in their own units; each end is a number or has shape (features,), finite, with
        low < high; they must be declared.
    unit : str, default "record"
        What one record stands for in privacy statements, such as "person".
    handle_invalid : {"error", "replace"}, default "error"
        "error" raises SchemaError before anything is drawn if X holds entries that are neither numbers nor missing. The
        error reveals that such records exist. "replace" counts such entries as missing; then no record can make `fit`
        fail.

    Attributes
    ----------
    mean_ : numpy.ndarray, shape (features,)
        Noisy means, in units of the features as given, within the bounds.
    var_ : numpy.ndarray, shape (features,)
        Noisy variances, at least the standard deviation of the noise on a mean square and at most what the bounds and
        the mean permit.
    scale_ : numpy.ndarray, shape (features,)
        Square roots of `var_`.
    release_ : Release
        The private release: everything that may be published.
    accountant_ : Accountant
        The account of the release.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : numpy.ndarray of str, shape (features,)
        Names of the features; only defined if X has names that are all strings.

    Notes
    -----
    A feature x in [-1, 1] contributes (x, x^2 - 1), whose squared L2 norm 1 - x^2 (1 - x^2) is at most 1. A record
    therefore contributes a vector of norm at most sqrt(features), and the sums of squares do not raise the cost of the
    sums: two records that differ by 2 in each scaled feature attain the sensitivity 2 sqrt(features)
    (docs/notes/estimators.md). Kind: exact.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> X = np.random.default_rng(0).normal(170, 10, (5000, 1))
    >>> scaler = ps.PrivateStandardScaler(epsilon=1.0, delta=1e-6, bounds=(100, 250))
    >>> scaler = scaler.fit(X, rng=np.random.default_rng(1))
    >>> bool(abs(scaler.mean_[0] - 170) < 1), bool(8 < scaler.scale_[0] < 12)
    (True, True)
    >>> float(scaler.accountant_for(n=5000, features=1).epsilon(1e-6).round(3))
    1.0
    """

    mean_: FloatArray
    scale_: FloatArray

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        target: Target | None = None,
        bounds: Any = None,
        unit: str = "record",
        handle_invalid: HandleInvalid = "error",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.bounds = bounds
        self.unit = unit
        self.handle_invalid = handle_invalid

    def mechanism_for(self, n: int, features: int) -> ClippedSum:
        """Return the mechanism that `fit` runs on n records.

        Parameters
        ----------
        n : int
            Number of records, >= 1.
        features : int
            Number of features, >= 1.

        Returns
        -------
        ClippedSum
            The mechanism, calibrated to the target.

        Raises
        ------
        UnreachableTarget
            If no noise meets the target.
        ValueError
            If a parameter is invalid.
        """
        n, features = positive_integer(n=n), positive_integer(features=features)
        return ClippedSum.calibrate(
            norm=float(np.sqrt(features)),
            width=2 * features,
            relation=ReplaceOne(n=n, unit=self.unit),
            target=self._target,
        )

    def fit(self, X: Any, y: Any = None, *, rng: np.random.Generator | None = None) -> Self:  # noqa: ARG002
        """Release noisy means and standard deviations of the features.

        Parameters
        ----------
        X : array-like, shape (n, features)
            Features, one row for each record.
        y : None
            Ignored.
        rng : numpy.random.Generator, optional
            Source of randomness for simulations; it adds the assumption RNG_FRESH to the account. None uses the
            entropy of the operating system.

        Returns
        -------
        self
            The fitted scaler.

        Raises
        ------
        SchemaError
            If X has the wrong shape or, with `handle_invalid="error"`, holds entries that are no numbers. Nothing is
            drawn.
        UnreachableTarget
            If no noise meets the target.
        ValueError, TypeError
            If a parameter is invalid.
        """
        rows = self._unit_rows(X, reset=True)
        n, features = rows.shape
        mechanism = self.mechanism_for(n, features)
        release = replace(mechanism.release(np.hstack([rows, rows * rows - 1.0]), rng=rng), delta=self._stated_delta)
        first, second = np.split(release["sum"][0] / n, 2)
        noise_std = mechanism.noise_std / n
        mean = np.clip(first, -1.0, 1.0)
        # the noisy mean's square is too large by the noise's variance on average; less than noise_std is noise alone
        spread = 1.0 + second - first * first + noise_std * noise_std
        variance = np.maximum(np.minimum(spread, 1.0 - mean * mean), min(noise_std, 1.0))
        low, high = self._bounds(features)
        half = (high - low) / 2
        self.release_, self.accountant_ = release, release.account
        self.mean_, self.var_ = (low + high) / 2 + half * mean, half * half * variance
        self.scale_ = half * np.sqrt(variance)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Clip the features to the bounds, subtract the noisy means and divide by the noisy standard deviations.

        Parameters
        ----------
        X : array-like, shape (k, features)
            Features, one row for each record. A missing number is replaced by the middle of the bounds.

        Returns
        -------
        numpy.ndarray, shape (k, features)
            Standardized features, finite.

        Raises
        ------
        NotFittedError
            If `fit` was not called.
        SchemaError
            If X has the wrong shape or, with `handle_invalid="error"`, holds entries that are no numbers.
        """
        check_is_fitted(self, "release_")
        rows = self._unit_rows(X, reset=False)
        low, high = self._bounds(rows.shape[1])
        return np.asarray(((low + high) / 2 + (high - low) / 2 * rows - self.mean_) / self.scale_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags
