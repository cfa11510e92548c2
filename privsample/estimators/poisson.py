"""Private Poisson regression with the interface of scikit-learn."""

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from privsample._checks import FloatArray
from privsample.accounting.targets import Target
from privsample.distributions.likelihoods.poisson import PoissonLikelihood
from privsample.estimators.features import HandleInvalid
from privsample.estimators.posterior import Method, PosteriorRegression
from privsample.estimators.records import DeclaredCounts


class PrivatePoissonRegression(RegressorMixin, DeclaredCounts, PosteriorRegression):
    """Poisson regression with a log link; the coefficients are private draws from their power posterior.

    Features outside `bounds` are clipped, rows with an L2 norm above `norm` are scaled down to it, and a missing number
    is replaced by the middle of `bounds`. Counts above the public `max_count` are clipped to it. `validate` counts
    these changes. The guarantee holds under ReplaceOne, and holds for the Langevin steps that are made: no convergence
    is assumed.

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
    max_count : float
        Largest count, finite and > 0, as known publicly; it must be declared.
    clip : float, optional
        Difference of count and mean up to which a record counts in full, finite and > 0; a larger difference pulls no
        more than that (rows shorter than `norm` are clipped at proportionally larger differences). None: twice the
        square root of `max_count`, two standard deviations of the largest count.
    prior_std : float, default 1.0
        Prior standard deviation of each coefficient, finite and > 0: the change of the log mean count when a scaled
        feature changes by 1.
    fit_intercept : bool, default True
        Whether the model has an intercept.
    intercept_std : float, optional
        Prior standard deviation of the intercept, finite and > 0, in the units of `prior_std`. None: `prior_std`.
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
        y holds targets that are no counts. The error reveals that such records exist. "replace" counts such entries
        as missing, and clips such targets to [0, `max_count`], or counts them as 0; then no record can make `fit` fail.

    Attributes
    ----------
    coef_ : numpy.ndarray, shape (features,)
        Mean of the drawn coefficients, in units of the log mean count over those of the features as given.
    intercept_ : float
        Mean of the drawn intercepts, in units of the log mean count.
    coef_draws_ : numpy.ndarray, shape (draws, features)
        The drawn coefficients, in the units of `coef_`.
    intercept_draws_ : numpy.ndarray, shape (draws,)
        The drawn intercepts, in the units of `intercept_`.
    data_weight_ : float
        Weight of each record's log likelihood in the private posterior, in (0, 1].
    prior_weight_ : float
        The number by which the prior's variances are divided, >= 1.
    release_ : Release
        The private release: everything that may be published, in units of the scaled features.
    accountant_ : LangevinAccountant
        The account of the release, which does not assume that the chains have converged.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : numpy.ndarray of str, shape (features,)
        Names of the features; only defined if X has names that are all strings.

    Notes
    -----
    Geumlek, Song and Chaudhuri 2017 (diffused and concentrated posteriors). Kind: upper bound. The derivation of the
    account is in docs/notes/langevin.md.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> X = np.linspace(-1, 1, 500)[:, None]
    >>> y = np.floor(np.exp(1.0 + X[:, 0]))
    >>> model = ps.PrivatePoissonRegression(epsilon=2.0, delta=1e-6, bounds=(-1, 1), max_count=10, steps=200)
    >>> model = model.fit(X, y, rng=np.random.default_rng(1))
    >>> model.predict([[-0.9], [0.9]]).shape
    (2,)
    >>> float(model.accountant_for(n=500, features=1).epsilon(1e-6).round(3))
    2.0
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        target: Target | None = None,
        norm: float | None = None,
        bounds: Any = None,
        max_count: float | None = None,
        clip: float | None = None,
        prior_std: float = 1.0,
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
        self.max_count = max_count
        self.clip = clip
        self.prior_std = prior_std
        self.fit_intercept = fit_intercept
        self.intercept_std = intercept_std
        self.method = method
        self.draws = draws
        self.steps = steps
        self.unit = unit
        self.handle_invalid = handle_invalid

    def predict(self, X: Any) -> FloatArray:
        """Return the predicted mean count of each row, averaged over the draws and at most `max_count`.

        Parameters
        ----------
        X : array-like, shape (k, features)
            Features. A missing entry counts as the middle of `bounds`, or as 0 without `bounds`.

        Returns
        -------
        numpy.ndarray, shape (k,)
            Predicted mean counts, > 0.
        """
        logs = np.minimum(self._scores(X), np.log(self._largest_count()))
        return np.asarray(np.exp(logs).mean(axis=1))

    def _likelihood(self) -> PoissonLikelihood:
        largest = self._largest_count()
        return PoissonLikelihood(max_count=largest, clip=2.0 * np.sqrt(largest) if self.clip is None else self.clip)

    def _set_coefficients(self, slopes: FloatArray, intercepts: FloatArray) -> None:
        self.coef_draws_, self.intercept_draws_ = slopes, intercepts
        self.coef_, self.intercept_ = slopes.mean(axis=0), float(intercepts.mean())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # privacy noise dominates on the few rows of scikit-learn's checks
        return tags
