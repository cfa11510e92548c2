"""Private logistic regression with the interface of scikit-learn."""

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
from privsample.estimators.features import HandleInvalid
from privsample.estimators.records import DeclaredClasses
from privsample.mechanisms.posterior.glm import LogisticPosterior, Sampler

_FREE_PARAMETERS: dict[str, Literal["data_weight", "prior_weight"]] = {
    "diffused": "data_weight",
    "concentrated": "prior_weight",
}


class PrivateLogisticRegression(ClassifierMixin, DeclaredClasses):
    """Logistic regression for two classes; the coefficients are a private draw from their posterior.

    All assumptions about the data are public parameters. Features outside `bounds` are clipped, rows with an L2 norm
    above `norm` are scaled down to it, and a missing number is replaced by the middle of `bounds`, or by 0 if there are
    no `bounds`. `validate` counts these changes. The classes are not read from the data, because that would be a
    release without an account. Data with a single class are fitted like any other. The guarantee holds under
    ReplaceOne.

    Parameters
    ----------
    epsilon : float, default 1.0
        Privacy budget of one fit in nats, finite and > 0, when one record is replaced by another (ReplaceOne).
    delta : float, default 1e-6
        The delta of the (epsilon, delta) guarantee, in [0, 1).
    norm : float, optional
        Largest L2 norm of a row after the features were scaled by `bounds`, finite and > 0. Rows with a larger norm
        are scaled down to it. None: sqrt(features); then `bounds` must be declared.
    bounds : tuple (low, high), optional
        Public bounds of the features in their own units; each end is a number or has shape (features,), finite, with
        low < high. Features are clipped to the bounds and then mapped to [-1, 1]. None: features are used unscaled.
    prior_std : float, default 1.0
        Prior standard deviation of each coefficient, finite and > 0, in units of the scaled features.
    fit_intercept : bool, default True
        Whether the model has an intercept.
    intercept_std : float, optional
        Prior standard deviation of the intercept, finite and > 0. None: `prior_std`. The account treats the intercept
        as one more feature.
    method : {"concentrated", "diffused"}, default "concentrated"
        How (epsilon, delta) is met. "concentrated" reduces the variance of the prior, which lowers the variance of the
        draw and allows exact draws for larger n. "diffused" gives each record a smaller weight in the likelihood (power
        posterior), which lowers the bias.
    classes : pair of labels, default (0, 1)
        The negative and the positive class, as known publicly.
    draws : int, default 1
        Number of independent posterior draws that are released together, >= 1. Predictions average over them.
    sampler : {"auto", "rejection", "nuts"}, default "auto"
        "rejection" draws exactly. "nuts" draws by Markov chains; the account then assumes CONVERGED_CHAIN. "auto" uses
        rejection if the bound on its work allows it, and NUTS otherwise; see `LogisticPosterior`.
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
        Mean of the drawn coefficients, in units of the features as given.
    intercept_ : numpy.ndarray, shape (1,)
        Mean of the drawn intercepts; 0 without an intercept in the model and without `bounds`.
    coef_draws_ : numpy.ndarray, shape (draws, features)
        The drawn coefficients, in units of the features as given.
    intercept_draws_ : numpy.ndarray, shape (draws,)
        The drawn intercepts.
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
    Geumlek, Song and Chaudhuri 2017 (diffused and concentrated posteriors); Gopi, Lee and Liu 2022 (privacy curve).
    Kind: upper bound. The derivation is in docs/notes/glm.md.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> X = np.linspace(-1, 1, 400)[:, None]
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = ps.PrivateLogisticRegression(epsilon=2.0, delta=1e-6, bounds=(-1, 1), fit_intercept=False)
    >>> model = model.fit(X, y, rng=np.random.default_rng(1))
    >>> model.predict([[-0.9], [0.9]])
    array([0, 1])
    >>> float(model.accountant_for(n=400, features=1).epsilon(1e-6).round(3))
    2.0
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
        """Return the mechanism that `fit` runs on n records.

        Parameters
        ----------
        n : int
            Number of records, >= 1.
        features : int
            Number of features, >= 1.

        Returns
        -------
        LogisticPosterior
            The mechanism, calibrated to (epsilon, delta).

        Raises
        ------
        UnreachableTarget
            If no parameters of the mechanism meet (epsilon, delta).
        ValueError
            If a parameter of the estimator is invalid.
        """
        if self.method not in _FREE_PARAMETERS:
            raise ValueError(f"method must be 'concentrated' or 'diffused', got {self.method!r}")
        if self.norm is None and self.bounds is None:
            raise ValueError(
                "norm or bounds must be declared publicly, got neither: they cannot be read from private data"
            )
        intercept_std = self.prior_std if self.intercept_std is None else self.intercept_std
        return LogisticPosterior.calibrate(
            n=n,
            features=features,
            norm=float(np.sqrt(features)) if self.norm is None else self.norm,
            prior_std=self.prior_std,
            intercept_std=intercept_std if self.fit_intercept else None,
            draws=self.draws,
            unit=self.unit,
            sampler=self.sampler,
            by=_FREE_PARAMETERS[self.method],
            target=DP(epsilon=self.epsilon, delta=self.delta),
        )

    def accountant_for(self, n: int, features: int) -> Accountant:
        """Return the account of one `fit`, computed without data.

        Parameters
        ----------
        n : int
            Number of records, >= 1.
        features : int
            Number of features, >= 1.

        Returns
        -------
        Accountant
            The account of the release that `fit` makes, under ReplaceOne(n).

        Raises
        ------
        UnreachableTarget
            If no parameters of the mechanism meet (epsilon, delta).
        ValueError, TypeError
            If a parameter is invalid.
        """
        n, features = positive_integer(n=n), positive_integer(features=features)
        return self.mechanism_for(n, features).accountant

    def fit(self, X: Any, y: Any, *, rng: np.random.Generator | None = None) -> Self:
        """Draw the coefficients from their posterior, given rows X and labels y.

        Parameters
        ----------
        X : array-like, shape (n, features)
            Features, one row for each record. Missing entries are replaced by the rule in the class description.
        y : array-like, shape (n,)
            Labels, entries of `classes`.
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
            If no parameters of the mechanism meet (epsilon, delta) for this n and number of features.
        ValueError, TypeError
            If a parameter of the estimator is invalid.
        """
        rows = self._checked_rows(X, y)
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
        """Return the log odds of the positive class.

        Parameters
        ----------
        X : array-like, shape (k, features)
            Features. A missing entry counts as the middle of `bounds`, or as 0 without `bounds`.

        Returns
        -------
        numpy.ndarray, shape (k,)
            Log odds; positive where the positive class is more probable. With several draws, the log odds of the
            averaged probabilities.
        """
        logits = self._logits(X)
        # log of both averaged probabilities: their ratio would lose all digits where one is close to 1
        log_mean = [special.logsumexp(special.log_expit(sign * logits), axis=1) for sign in (1.0, -1.0)]
        return np.asarray(logits[:, 0] if logits.shape[1] == 1 else log_mean[0] - log_mean[1])

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the two classes, averaged over the draws.

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

    def _logits(self, X: Any) -> FloatArray:
        """Log odds of the positive class under each draw, shape (k, draws)."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        known = np.where(np.isnan(rows), self._centre, rows)
        return np.asarray(known @ self.coef_draws_.T + self.intercept_draws_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # privacy noise dominates on the few rows of scikit-learn's checks
        tags.input_tags.allow_nan = True  # missing values are replaced, so that no record can make a private fit fail
        tags.non_deterministic = True
        return tags
