"""Private linear regression with the interface of scikit-learn."""

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from privsample._checks import FloatArray, positive
from privsample.accounting.targets import Target
from privsample.distributions.likelihoods.normal import HuberLikelihood
from privsample.estimators.features import HandleInvalid
from privsample.estimators.posterior import Method, PosteriorRegression
from privsample.estimators.records import DeclaredTargets

_STDS_BETWEEN_BOUNDS = 6.0  # default noise: the bounds of the targets are three standard deviations from their middle


class PrivateLinearRegression(RegressorMixin, DeclaredTargets, PosteriorRegression):
    """Bayesian linear regression with Huber's loss; the coefficients are private draws from their power posterior.

    Features outside `bounds` are clipped, rows with an L2 norm above `norm` are scaled down to it, and a missing number
    is replaced by the middle of `bounds`. Targets are clipped to the public `target_bounds` and mapped to [-1, 1].
    `validate` counts these changes. The guarantee holds under ReplaceOne, and holds for the Langevin steps that are
    made: no convergence is assumed.

    The draws come from a power posterior, called the private posterior: the log likelihood of each record has the
    weight `data_weight_`, which the budget determines. `intervals` returns credible intervals of the private posterior,
    and `posterior_statement` says how it differs from the posterior in which each record has the weight 1.

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
        down to it. None: the smaller of sqrt(features) and sqrt(features/3 + 1); then `bounds` must be declared.
    bounds : tuple (low, high), optional
        Public bounds of the features in their own units; each end is a number or has shape (features,), finite, with
        low < high. Features are clipped to the bounds and then mapped to [-1, 1]. None: features are used unscaled.
    target_bounds : tuple (low, high)
        Public bounds of the targets in their own units, finite, with low < high; they must be declared.
    noise_std : float, optional
        Standard deviation of a target around its mean, finite and > 0, in units of the targets. It is public: not
        estimated from the data. None: a sixth of the distance between the `target_bounds`.
    threshold : float, default 1.0
        Residual, in units of `noise_std`, up to which the loss is quadratic; beyond it is linear. Finite and > 0. A
        smaller threshold gives each record a larger weight, and makes intervals wider under Gaussian noise.
    prior_std : float, optional
        Prior standard deviation of each coefficient, finite and > 0: the change of the target, in units of half the
        distance between its bounds, when a scaled feature changes by 1. None: 0.35/norm, so that the mean
        target of a row of norm `norm` has the prior standard deviation 0.35 without the intercept.
    fit_intercept : bool, default True
        Whether the model has an intercept.
    intercept_std : float, optional
        Prior standard deviation of the intercept, finite and > 0, in the units of `prior_std`. None: `prior_std`
        if it is given, otherwise 0.175; ask for more if the targets lie near one of their bounds.
    method : {"diffused", "concentrated"}, default "diffused"
        How the target is met. "diffused" gives each record a smaller weight in the likelihood (power posterior):
        intervals become wider. "concentrated" reduces the variance of the prior: predictions vary less, but the
        coefficients are pulled to 0 and their intervals are too narrow.
    draws : int, default 5
        Number of independent posterior draws that are released together, >= 1. Predictions average over them. The
        account covers all of them: the weight of a record falls with the square root of their number
        (faster with few `steps`).
    steps : int, optional
        Number of steps of each Langevin chain, >= 1. None: until at most 1 % of the influence of the start is left, or
        as many as take some ten seconds, but at least 200.
    unit : str, default "record"
        What one record stands for in privacy statements, such as "person".
    handle_invalid : {"error", "replace"}, default "error"
        "error" raises SchemaError before anything is drawn if X holds entries that are neither numbers nor missing, or
        y holds targets that are not numbers. The error reveals that such records exist. "replace" counts such entries
        as missing, and such targets as the middle of `target_bounds`; then no record can make `fit` fail.

    Attributes
    ----------
    coef_ : numpy.ndarray, shape (features,)
        Mean of the drawn coefficients, in units of the targets as given over those of the features as given.
    intercept_ : float
        Mean of the drawn intercepts, in units of the targets as given.
    coef_draws_ : numpy.ndarray, shape (draws, features)
        The drawn coefficients, in the units of `coef_`.
    intercept_draws_ : numpy.ndarray, shape (draws,)
        The drawn intercepts, in the units of `intercept_`.
    data_weight_ : float
        Weight of each record's log likelihood in the private posterior, in (0, 1].
    prior_weight_ : float
        The number by which the prior's variances are divided, >= 1.
    release_ : Release
        The private release: everything that may be published, in units of the scaled features and targets.
    accountant_ : LangevinAccountant
        The account of the release, which does not assume that the chains have converged.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : numpy.ndarray of str, shape (features,)
        Names of the features; only defined if X has names that are all strings.

    Notes
    -----
    Huber 1964 (loss); Geumlek, Song and Chaudhuri 2017 (diffused and concentrated posteriors). Kind: upper bound. The
    derivation of the account is in docs/notes/langevin.md.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> X = np.linspace(0, 10, 500)[:, None]
    >>> model = ps.PrivateLinearRegression(epsilon=2.0, delta=1e-6, bounds=(0, 10), target_bounds=(0, 100), steps=200)
    >>> model = model.fit(X, 10 * X[:, 0], rng=np.random.default_rng(1))
    >>> model.coef_.shape, model.predict([[5.0], [7.0]]).shape
    ((1,), (2,))
    >>> float(model.accountant_for(n=500, features=1).epsilon(1e-6).round(3))
    2.0
    >>> low, high = model.intervals(level=0.9)["coefficients"]
    >>> bool(low[0] < 10 < high[0])
    True
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
        noise_std: float | None = None,
        threshold: float = 1.0,
        prior_std: float | None = None,
        fit_intercept: bool = True,
        intercept_std: float | None = None,
        method: Method = "diffused",
        draws: int = 5,
        steps: int | None = None,
        unit: str = "record",
        handle_invalid: HandleInvalid = "error",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.norm = norm
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.noise_std = noise_std
        self.threshold = threshold
        self.prior_std = prior_std
        self.fit_intercept = fit_intercept
        self.intercept_std = intercept_std
        self.method = method
        self.draws = draws
        self.steps = steps
        self.unit = unit
        self.handle_invalid = handle_invalid

    def predict(self, X: Any) -> FloatArray:
        """Return the predicted mean of the target of each row, averaged over the draws.

        Parameters
        ----------
        X : array-like, shape (k, features)
            Features. A missing entry counts as the middle of `bounds`, or as 0 without `bounds`.

        Returns
        -------
        numpy.ndarray, shape (k,)
            Predicted targets, in the units of the targets as given.
        """
        return np.asarray(self._scores(X).mean(axis=1))

    def _likelihood(self) -> HuberLikelihood:
        low, high = self._target_bounds()
        noise_std = (high - low) / _STDS_BETWEEN_BOUNDS if self.noise_std is None else self.noise_std
        half = (high - low) / 2
        return HuberLikelihood(threshold=self.threshold, noise_std=positive(noise_std=noise_std) / half)

    def _score_std(self) -> float:
        return 0.35

    def _set_coefficients(self, slopes: FloatArray, intercepts: FloatArray) -> None:
        low, high = self._target_bounds()
        half = (high - low) / 2
        self.coef_draws_, self.intercept_draws_ = half * slopes, half * intercepts + (low + high) / 2
        self.coef_, self.intercept_ = self.coef_draws_.mean(axis=0), float(self.intercept_draws_.mean())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # privacy noise dominates on the few rows of scikit-learn's checks
        return tags
