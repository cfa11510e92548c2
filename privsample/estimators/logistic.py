"""Private logistic regression for scikit-learn."""

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from privsample._checks import FloatArray, positive_integer
from privsample.accounting.base import Accountant
from privsample.accounting.targets import DP
from privsample.distributions.rows import matrix
from privsample.errors import SchemaError
from privsample.estimators.targets import column, same
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.posterior.glm import LogisticPosterior, Sampler

_FREE: dict[str, Literal["data_weight", "prior_divisor"]] = {
    "diffused": "data_weight",
    "concentrated": "prior_divisor",
}


class PrivateLogisticRegression(ClassifierMixin, BaseEstimator):
    """Logistic regression for two classes whose coefficients are a private draw from their posterior.

    Whatever the fit may know about the data is declared here, in public. Nothing is learned from them but the draw: not
    the classes, not a scale. No record's value can make `fit` fail: what breaks a declared rule is moved to it, and a
    missing number counts as 0, or as the middle of `bounds`.

    Parameters:
        epsilon, delta: the promise for each record, when one record is replaced by another.
        norm: the largest L2 norm of a row, after `bounds`; longer rows are scaled down. None: the square root of the
            number of features, which needs `bounds`.
        bounds: (low, high), numbers or arrays of shape (features,): features are moved into them, then to [-1, 1].
        prior_std: of each coefficient, in units of the features after `bounds`.
        intercept_std: of the intercept; None: `prior_std`. It costs as much as one more feature of that size.
        method: "concentrated" (a narrower prior: less variance, and exact draws for larger data) or "diffused" (records
            weigh less: less bias).
        classes: the negative and the positive class; any other label counts as the negative one.
        draws: how many draws of the coefficients are released; predictions average over them.
        sampler: "auto", "rejection" or "nuts", as in LogisticPosterior.

    Attributes: classes_, n_features_in_, feature_names_in_, coef_ (1, features) and intercept_ (1,) (means over the
    draws, in units of the features as given), coef_draws_ (draws, features), intercept_draws_ (draws,), release_ (what
    may leave), accountant_.
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        norm: float | None = None,
        bounds: Any = None,
        prior_std: float = 1.0,
        fit_intercept: bool = True,
        intercept_std: float | None = None,
        method: Literal["concentrated", "diffused"] = "concentrated",
        classes: Any = (0, 1),
        draws: int = 1,
        sampler: Sampler = "auto",
        unit: str = "record",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.norm = norm
        self.bounds = bounds
        self.prior_std = prior_std
        self.fit_intercept = fit_intercept
        self.intercept_std = intercept_std
        self.method = method
        self.classes = classes
        self.draws = draws
        self.sampler = sampler
        self.unit = unit

    def mechanism_for(self, n: int, features: int) -> LogisticPosterior:
        """What `fit` will release from n rows of so many features. Raises: ValueError, UnreachableTarget."""
        if self.method not in _FREE:
            raise ValueError(f"method must be 'concentrated' or 'diffused', got {self.method!r}")
        if self.norm is None and self.bounds is None:
            raise ValueError("norm or bounds must be declared: what the data hold cannot be looked up in private")
        own = self.prior_std if self.intercept_std is None else self.intercept_std
        return LogisticPosterior.calibrate(
            n=n,
            features=features,
            norm=float(np.sqrt(features)) if self.norm is None else self.norm,
            prior_std=self.prior_std,
            intercept_std=own if self.fit_intercept else None,
            draws=self.draws,
            unit=self.unit,
            sampler=self.sampler,
            by=_FREE[self.method],
            target=DP(epsilon=self.epsilon, delta=self.delta),
        )

    def accountant_for(self, n: int, features: int) -> Accountant:
        """What `fit` will cost for n rows of so many features, before any data are seen."""
        n, features = positive_integer(n=n), positive_integer(features=features)
        return self.mechanism_for(n, features).accountant

    def fit(self, X: Any, y: Any, *, rng: np.random.Generator | None = None) -> Self:
        """Draw from the posterior of rows X, shape (n, features), and labels y, shape (n,).

        Parameters: rng, a numpy Generator (for simulations; it adds an assumption) or None for the system's entropy.
        Raises: SchemaError, ValueError, TypeError, UnreachableTarget; nothing is drawn then.
        """
        mechanism, records, centre, spread = self._prepared(X, y)
        release = mechanism.release(records, rng=rng)
        draws = release["coefficients"] / spread
        own = release["intercept"] if self.fit_intercept else np.zeros(len(draws))
        self.release_, self.accountant_ = release, release.account
        self.classes_, self._centre = np.asarray(self.classes), centre
        self.coef_draws_, self.intercept_draws_ = draws, own - draws @ centre
        self.coef_ = draws.mean(axis=0, keepdims=True)
        self.intercept_ = self.intercept_draws_.mean(keepdims=True)
        return self

    def validate(self, X: Any, y: Any) -> CuratorNotes:
        """What the declared rules would change in these data, for the curator's eyes."""
        mechanism, records, _, _ = self._prepared(X, y)
        return mechanism.validate(records)

    def decision_function(self, X: Any) -> FloatArray:
        """Log odds of the positive class, shape (k,)."""
        logits = self._logits(X)
        log_mean = [special.logsumexp(special.log_expit(sign * logits), axis=1) for sign in (1.0, -1.0)]
        return np.asarray(logits[:, 0] if logits.shape[1] == 1 else log_mean[0] - log_mean[1])

    def predict_proba(self, X: Any) -> FloatArray:
        """Chances of the two classes, averaged over the draws; shape (k, 2)."""
        odds = self.decision_function(X)
        return np.column_stack([special.expit(-odds), special.expit(odds)])

    def predict(self, X: Any) -> NDArray[Any]:
        """The likelier class, shape (k,)."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])

    def _logits(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        known = np.where(np.isnan(rows), self._centre, rows)
        return np.asarray(known @ self.coef_draws_.T + self.intercept_draws_)

    def _prepared(self, X: Any, y: Any) -> tuple[LogisticPosterior, tuple[FloatArray, FloatArray], Any, Any]:
        """Mechanism, rows and labels as it takes them, and the centre and spread that the rows were scaled by."""
        rows = self._rows(X)
        features = rows.shape[1]
        mechanism = self.mechanism_for(len(rows), features)
        low, high = self._bounds(features)
        centre, spread = (low + high) / 2, (high - low) / 2
        scaled = rows if self.bounds is None else (np.clip(rows, low, high) - centre) / spread
        return mechanism, (scaled, self._labels(y)), centre, spread

    def _rows(self, X: Any) -> FloatArray:
        """X as floats, shape (n, features), by its schema alone; what is no number is NaN."""
        if sparse.issparse(X):
            raise TypeError("X is sparse, and dense rows are needed; use X.toarray()")
        rows = matrix(X)
        if min(rows.shape) == 0:
            what = "feature(s)" if rows.shape[0] else "sample(s)"
            raise SchemaError(f"found 0 {what} (shape={rows.shape}) while a minimum of 1 is required.")
        validate_data(self, X, skip_check_array=True)
        return rows

    def _bounds(self, features: int) -> tuple[FloatArray, FloatArray]:
        """Low and high ends, shape (features,); -1 and 1 where none are declared."""
        try:
            ends = (-1.0, 1.0) if self.bounds is None else self.bounds
            low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (features,)) for end in ends)
        except (TypeError, ValueError):
            raise ValueError(f"bounds must be (low, high), each a number or {features} numbers") from None
        if not (np.all(low < high) and np.all(np.isfinite(high - low))):
            raise ValueError("bounds must be finite, with low < high for each feature")
        return low, high

    def _labels(self, y: Any) -> FloatArray:
        """1 where the label is the positive class, 0 elsewhere, shape (n,)."""
        if isinstance(self.classes, (str, bytes)) or np.shape(self.classes) != (2,):
            raise ValueError(
                "classes must be a pair (negative, positive); for more classes fit one model for each, and add up what "
                "they cost"
            )
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        return np.array([same(label, self.classes[1]) for label in column(y)], dtype=np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # on the few rows of scikit-learn's own checks
        tags.input_tags.allow_nan = True  # no record's value may make a private fit fail
        tags.non_deterministic = True
        return tags
