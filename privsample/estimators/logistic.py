"""Private logistic regression for scikit-learn."""

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from privsample._checks import FloatArray, positive_integer
from privsample.accounting.base import Accountant
from privsample.accounting.targets import DP
from privsample.estimators.records import DeclaredClasses, HandleInvalid
from privsample.mechanisms.posterior.glm import LogisticPosterior, Sampler

_FREE: dict[str, Literal["data_weight", "prior_divisor"]] = {
    "diffused": "data_weight",
    "concentrated": "prior_divisor",
}


class PrivateLogisticRegression(ClassifierMixin, DeclaredClasses):
    """Logistic regression for two classes whose coefficients are a private draw from their posterior.

    Whatever the fit may know about the data is declared here, in public. Nothing is learned from them but the draw: not
    the classes, not a scale. Features out of `bounds` and rows longer than `norm` are moved to them, and a missing
    number counts as 0, or as the middle of `bounds`; `validate` counts both. Labels must be the declared ones: to look
    the classes up in the data would be a release that nobody paid for. Data of one class only are fitted like others.

    Parameters:
        epsilon, delta: the promise for each record, when one record is replaced by another.
        norm: the largest L2 norm of a row, after `bounds`; longer rows are scaled down. None: the square root of the
            number of features, which needs `bounds`.
        bounds: (low, high), numbers or arrays of shape (features,): features are moved into them, then to [-1, 1].
        prior_std: of each coefficient, in units of the features after `bounds`.
        intercept_std: of the intercept; None: `prior_std`. It costs as much as one more feature of that size.
        method: "concentrated" (a narrower prior: less variance, and exact draws for larger data) or "diffused" (records
            weigh less: less bias).
        classes: the negative and the positive class, as known in public.
        draws: how many draws of the coefficients are released; predictions average over them.
        sampler: "auto", "rejection" or "nuts", as in LogisticPosterior.
        handle_invalid: "error" refuses features that are neither numbers nor missing, and labels that are not in
            `classes`, before anything is drawn: whoever sees the refusal learns that there are such records. "replace"
            counts the first as missing and the second as the negative class, and no record can make `fit` fail.

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
        handle_invalid: HandleInvalid = "error",
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
        self.handle_invalid = handle_invalid

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
        Raises: SchemaError (also for records that are refused), ValueError, TypeError, UnreachableTarget; nothing is
        drawn then.
        """
        rows = self._accepted_rows(X, y)
        mechanism = self.mechanism_for(*rows.shape)
        scaled, centre, spread = self._scaled(rows)
        release = replace(mechanism.release((scaled, self._targets(y)), rng=rng), delta=self.delta)
        draws = release["coefficients"] / spread
        own = release["intercept"] if self.fit_intercept else np.zeros(len(draws))
        self.release_, self.accountant_ = release, release.account
        self.classes_, self._centre = self._class_labels(), centre
        self.coef_draws_, self.intercept_draws_ = draws, own - draws @ centre
        self.coef_ = draws.mean(axis=0, keepdims=True)
        self.intercept_ = self.intercept_draws_.mean(keepdims=True)
        return self

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # on the few rows of scikit-learn's own checks
        tags.input_tags.allow_nan = True  # no record's value may make a private fit fail
        tags.non_deterministic = True
        return tags
