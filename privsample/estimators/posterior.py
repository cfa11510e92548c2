"""Base class of regressions whose coefficients are private posterior draws."""

import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from privsample._checks import FloatArray, positive, positive_integer
from privsample.distributions.likelihoods.base import RegressionLikelihood
from privsample.errors import ShortChainWarning
from privsample.estimators.draws import caution_of, credible_interval, posterior_statement, summary_table
from privsample.estimators.records import DeclaredRecords
from privsample.mechanisms.intervals import column_names
from privsample.mechanisms.posterior.glm import LogisticPosterior
from privsample.mechanisms.posterior.langevin import LangevinPosterior
from privsample.relations import ReplaceOne

_MOST_PRODUCTS, _FEWEST_STEPS, _MOST_STEPS = 2e10, 200, 10_000  # of a default choice: about half a minute

Method = Literal["diffused", "concentrated"]
PosteriorMechanism = LangevinPosterior | LogisticPosterior
FREE_PARAMETERS: dict[str, Literal["data_weight", "prior_weight"]] = {
    "diffused": "data_weight",
    "concentrated": "prior_weight",
}
_INTERCEPT_SHARE = 2.0  # default prior deviation of a score, divided by that of the intercept


class PosteriorRegression(DeclaredRecords, ABC):
    """Base class: calibration, fitting, and what the posterior draws say about the coefficients."""

    norm: float | None
    prior_std: float | None
    fit_intercept: bool
    intercept_std: float | None
    method: Method
    draws: int
    steps: int | None
    unit: str

    @abstractmethod
    def _likelihood(self) -> RegressionLikelihood:
        """Return the likelihood of the targets as `_targets` returns them."""

    def _coords(self, X: Any) -> dict[str, tuple[str, ...]]:
        """Return the names of the coefficients' axes: those of the columns, if all are strings."""
        names = column_names(X)
        return {"feature": names} if names else {}

    def _score_std(self) -> float:
        """Return the default prior standard deviation of the score of a row of norm `norm`, without the intercept."""
        return 1.0

    @abstractmethod
    def _set_coefficients(self, slopes: FloatArray, intercepts: FloatArray) -> None:
        """Store the draws, in units of the features as given, as fitted attributes."""

    def mechanism_for(self, n: int, features: int) -> PosteriorMechanism:
        """Return the mechanism that `fit` runs on n records.

        Parameters
        ----------
        n : int
            Number of records, >= 1.
        features : int
            Number of features, >= 1.

        Returns
        -------
        LangevinPosterior or LogisticPosterior
            The mechanism, calibrated to the target.

        Raises
        ------
        UnreachableTarget
            If no parameters of the mechanism meet the target.
        ValueError
            If a parameter of the estimator is invalid.
        """
        n, features = positive_integer(n=n), positive_integer(features=features)
        if self.method not in FREE_PARAMETERS:
            raise ValueError(f"method must be 'concentrated' or 'diffused', got {self.method!r}")
        self._check_norm()
        return self._mechanism(n, features)

    def _mechanism(self, n: int, features: int) -> PosteriorMechanism:
        """Return the calibrated mechanism; the parameters of all regressions were checked."""
        made = self._chains(n, features, self.steps)
        width = (features + (made.intercept_std is not None)) * made.likelihood.score_columns
        most = min(max(int(_MOST_PRODUCTS / (n * width * made.draws)), _FEWEST_STEPS), _MOST_STEPS)
        return made if self.steps is not None or made.accountant.steps <= most else self._chains(n, features, most)

    def _chains(self, n: int, features: int, steps: int | None) -> LangevinPosterior:
        """Return the calibrated Langevin chains with so many steps."""
        return LangevinPosterior.calibrate(
            likelihood=self._likelihood(),
            relation=ReplaceOne(n=n, unit=self.unit),
            steps=steps,
            by=FREE_PARAMETERS[self.method],
            target=self._target,
            **self._prior(features),
        )

    def _prior(self, features: int) -> dict[str, Any]:
        """Return the fields of the mechanism that do not depend on n or on the target."""
        norm = float(np.sqrt(min(features, features / 3 + 1))) if self.norm is None else positive(norm=self.norm)
        draws, prior_std, intercept_std = positive_integer(draws=self.draws), self.prior_std, self.prior_std
        if prior_std is None:
            score_std = self._score_std()
            prior_std, intercept_std = score_std / norm, score_std / _INTERCEPT_SHARE
        intercept_std = intercept_std if self.intercept_std is None else self.intercept_std
        return {
            "features": features,
            "norm": norm,
            "prior_std": prior_std,
            "intercept_std": intercept_std if self.fit_intercept else None,
            "draws": draws,
        }

    def fit(self, X: Any, y: Any, *, rng: np.random.Generator | None = None) -> Self:
        """Draw the coefficients from their private posterior, given rows X and targets y.

        Parameters
        ----------
        X : array-like, shape (n, features)
            Features, one row for each record. Missing entries are replaced by the rule in the class description.
        y : array-like, shape (n,)
            Targets; of a classifier labels, entries of `classes`.
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

        Warns
        -----
        ShortChainWarning
            If chains of so many steps may keep more than a tenth of the distance between their start and the mean of a
            Gaussian posterior. The account holds all the same.
        """
        rows = self._checked_rows(X, y)
        mechanism = self.mechanism_for(*rows.shape)
        if caution := caution_of(mechanism):
            warnings.warn(caution, ShortChainWarning, stacklevel=2)
        scaled, centre, spread = self._scaled(rows)
        release = mechanism.release((scaled, self._targets(y)), rng=rng)
        release = replace(release, delta=self._stated_delta, coords=self._coords(X))
        slopes = release["coefficients"] / spread
        own = release["intercept"] if self.fit_intercept else np.zeros(slopes.shape[:-1])
        self.release_, self.accountant_ = release, release.account
        self._centre, self._fitted = centre, (mechanism, len(rows))
        self.data_weight_, self.prior_weight_ = mechanism.data_weight, mechanism.prior_weight
        self._set_coefficients(slopes, own - slopes @ centre)
        return self

    def intervals(self, level: float = 0.9) -> dict[str, FloatArray]:
        """Return equal-tailed credible intervals of the private posterior, in units of the features as given.

        Whatever the data are, an interval contains a further independent draw, made in the same way, with probability
        `level`. Its ends are quantiles of the draws, if there are at least 2/(1 - level) - 1 of them;
        with fewer it is Student's t interval for a further draw, which is exact for a Gaussian posterior.
        `posterior_statement` says how the private posterior differs from the posterior.

        Parameters
        ----------
        level : float, default 0.9
            Probability of each interval, in (0, 1).

        Returns
        -------
        dict of str to numpy.ndarray
            "coefficients", shape (2, features), and "intercept", shape (2,), low ends first; for more than two classes
            (2, classes, features) and (2, classes).

        Raises
        ------
        NotFittedError
            If `fit` was not called.
        ValueError
            If `level` is out of its range, or there is a single draw.
        """
        check_is_fitted(self, "release_")
        return {
            "coefficients": credible_interval(self.coef_draws_, level),
            "intercept": credible_interval(self.intercept_draws_, level),
        }

    def posterior_statement(self) -> str:
        """Return in plain language how far the private posterior is from the posterior, from public numbers alone.

        Returns
        -------
        str
            The data weight or prior weight, what it means, and the bias of the chains.

        Raises
        ------
        NotFittedError
            If `fit` was not called.
        """
        check_is_fitted(self, "release_")
        return posterior_statement(*self._fitted)

    def summary(self, level: float = 0.9) -> str:
        """Return a table of the coefficients with credible intervals, and below it `posterior_statement`.

        Parameters
        ----------
        level : float, default 0.9
            Probability of each interval, as for `intervals`.

        Returns
        -------
        str
            One line for each coefficient, in units of the features as given.

        Raises
        ------
        NotFittedError
            If `fit` was not called.
        ValueError
            If `level` is out of its range, or there is a single draw.
        """
        found = self.intervals(level)
        names = [str(name) for name in getattr(self, "feature_names_in_", range(self.n_features_in_))]
        classes = [str(label) for label in self.classes_] if self.coef_draws_.ndim == 3 else []
        table = summary_table(self.coef_draws_, self.intercept_draws_, found, names=names, classes=classes, level=level)
        return f"{table}\n\n{self.posterior_statement()}"

    def _scores(self, X: Any) -> FloatArray:
        """Linear predictors under each draw, shape (k, draws), or (k, draws, classes)."""
        check_is_fitted(self, "release_")
        rows = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        known = np.where(np.isnan(rows), self._centre, rows)
        return np.asarray(np.tensordot(known, self.coef_draws_, axes=(1, -1)) + self.intercept_draws_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # missing values are replaced, so that no record can make a private fit fail
        tags.non_deterministic = True
        return tags
