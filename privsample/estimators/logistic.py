"""Private logistic regression with the interface of scikit-learn."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.base import ClassifierMixin

from privsample._checks import FloatArray, is_encodable, one_of, positive_integer
from privsample.accounting.targets import DP, Target
from privsample.distributions.likelihoods.base import RegressionLikelihood
from privsample.distributions.likelihoods.logistic import LogisticLikelihood
from privsample.distributions.likelihoods.softmax import SoftmaxLikelihood
from privsample.errors import UnreachableTarget
from privsample.estimators.features import HandleInvalid
from privsample.estimators.posterior import FREE_PARAMETERS, Method, PosteriorMechanism, PosteriorRegression
from privsample.estimators.records import DeclaredClasses
from privsample.mechanisms.posterior.glm import LogisticPosterior

_SAMPLERS = ("auto", "rejection", "langevin", "nuts")


class PrivateLogisticRegression(ClassifierMixin, DeclaredClasses, PosteriorRegression):
    """Logistic regression for two or more classes; the coefficients are private draws from their power posterior.

    All assumptions about the data are public parameters. Features outside `bounds` are clipped, rows with an L2 norm
    above `norm` are scaled down to it, and a missing number is replaced by the middle of `bounds`, or by 0 if there are
    no `bounds`. `validate` counts these changes. The classes are not read from the data, because that would be a
    release without an account. Data with a single class are fitted like any other. The guarantee holds under
    ReplaceOne.

    The draws come from a power posterior, called the private posterior: the log likelihood of each record has the
    weight `data_weight_`, which the budget determines. `intervals` returns credible intervals of the private posterior,
    and `posterior_statement` says how it differs from the posterior in which each record has the weight 1.

    Parameters
    ----------
    epsilon : float, optional
        Privacy budget of one fit in nats, finite and > 0, when one record is replaced by another (ReplaceOne). None:
        1.0 without `target`.
    delta : float, optional
        The delta of the (epsilon, delta) guarantee, in [0, 1). None: 1e-6 without `target`.
    target : Target, optional
        The guarantee of one fit, such as `RDP(order=8, epsilon=0.5)`, in place of `epsilon` and `delta`.
    norm : float, optional
        Largest L2 norm of a row after the features were scaled by `bounds`, finite and > 0. Rows with a larger norm are
        scaled down to it. None: the smaller of sqrt(features) and sqrt(features/3 + 1), near which the norm of a row
        with independent uniform features lies; then `bounds` must be declared.
    bounds : tuple (low, high), optional
        Public bounds of the features in their own units; each end is a number or has shape (features,), finite, with
        low < high. Features are clipped to the bounds and then mapped to [-1, 1]. None: features are used unscaled.
    prior_std : float, optional
        Prior standard deviation of each coefficient, finite and > 0, in units of the scaled features. None:
        1.5 sqrt(draws)/norm, so that the log odds of a row of norm `norm` have the prior standard deviation
        1.5 sqrt(draws) without the intercept. The choice depends on public numbers only; the guide
        on private regressions says on which data it was made and checked.
    fit_intercept : bool, default True
        Whether the model has an intercept.
    intercept_std : float, optional
        Prior standard deviation of the intercept, finite and > 0. None: `prior_std` if it is given, otherwise
        0.75 sqrt(draws); ask for more if a class is rare or the `bounds` are not centred on the data. The account
        treats the intercept as one more feature.
    method : {"diffused", "concentrated"}, default "diffused"
        How the target is met. "diffused" gives each record a smaller weight in the likelihood (power posterior):
        intervals become wider. "concentrated" reduces the variance of the prior: predictions vary less, but the
        coefficients are pulled to 0 and their intervals are too narrow.
    classes : sequence of two or more labels, default (0, 1)
        The classes, as known publicly; of two the negative one is the first.
    draws : int, default 5
        Number of independent posterior draws that are released together, >= 1. Predictions average over them. The
        account covers all of them: at a fixed `prior_std` the weight of a record falls with the square root of their
        number; at the default, which grows with this root, it falls with their number.
    sampler : {"auto", "rejection", "langevin", "nuts"}, default "auto"
        "rejection" draws exactly, for two classes. "langevin" draws by Langevin chains, whose account does not assume
        that they converge. "nuts" draws by Markov chains of PyMC, for two classes; the account then assumes
        CONVERGED_CHAIN. "auto" uses rejection if the bound on its work and the target allow it, and "langevin"
        otherwise.
    constant_time : bool, default True
        Whether rejection makes a public number of proposals. It then fails with a probability of at most 1e-15, which
        the account includes, so that the account has no Rényi curve. False is faster; the account then assumes TIMING.
    steps : int, optional
        Number of steps of each Langevin chain, >= 1. None: until at most 1 % of the influence of the start is left, or
        as many as take some ten seconds, but at least 200.
    unit : str, default "record"
        What one record stands for in privacy statements, such as "person".
    handle_invalid : {"error", "replace"}, default "error"
        "error" raises SchemaError before anything is drawn if X holds entries that are neither numbers nor missing, or
        y holds labels that are not in `classes`. The error reveals that such records exist. "replace" counts such
        entries as missing and such labels as the first class; then no record can make `fit` fail.

    Attributes
    ----------
    classes_ : numpy.ndarray, shape (classes,)
        The declared classes.
    coef_ : numpy.ndarray, shape (1, features), or (classes, features) for more than two classes
        Mean of the drawn coefficients, in units of the features as given.
    intercept_ : numpy.ndarray, shape (1,) or (classes,)
        Mean of the drawn intercepts; 0 without an intercept in the model and without `bounds`.
    coef_draws_ : numpy.ndarray, shape (draws, features) or (draws, classes, features)
        The drawn coefficients, in units of the features as given.
    intercept_draws_ : numpy.ndarray, shape (draws,) or (draws, classes)
        The drawn intercepts.
    data_weight_ : float
        Weight of each record's log likelihood in the private posterior, in (0, 1].
    prior_weight_ : float
        The number by which the prior's variances are divided, >= 1.
    release_ : Release
        The private release: everything that may be published, in units of the scaled features.
    accountant_ : Accountant
        The account of the release.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : numpy.ndarray of str, shape (features,)
        Names of the features; only defined if X has names that are all strings.

    Notes
    -----
    Geumlek, Song and Chaudhuri 2017 (diffused and concentrated posteriors); Gopi, Lee and Liu 2022 (privacy curve).
    Kind: upper bound. The derivations are in docs/notes/glm.md, docs/notes/langevin.md and docs/notes/estimators.md.

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
    >>> model.intervals(level=0.9)["coefficients"].shape
    (2, 1)
    """

    _only_two = False

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        target: Target | None = None,
        norm: float | None = None,
        bounds: Any = None,
        prior_std: float | None = None,
        fit_intercept: bool = True,
        intercept_std: float | None = None,
        method: Method = "diffused",
        classes: Any = (0, 1),
        draws: int = 5,
        sampler: Literal["auto", "rejection", "langevin", "nuts"] = "auto",
        constant_time: bool = True,
        steps: int | None = None,
        unit: str = "record",
        handle_invalid: HandleInvalid = "error",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.norm = norm
        self.bounds = bounds
        self.prior_std = prior_std
        self.fit_intercept = fit_intercept
        self.intercept_std = intercept_std
        self.method = method
        self.classes = classes
        self.draws = draws
        self.sampler = sampler
        self.constant_time = constant_time
        self.steps = steps
        self.unit = unit
        self.handle_invalid = handle_invalid

    def _likelihood(self) -> RegressionLikelihood:
        classes = len(self._class_labels())
        return LogisticLikelihood() if classes == 2 else SoftmaxLikelihood(classes=classes)

    def _mechanism(self, n: int, features: int) -> PosteriorMechanism:
        if not one_of(self.sampler, _SAMPLERS):
            raise ValueError(f"sampler must be one of {', '.join(map(repr, _SAMPLERS))}, got {self.sampler!r}")
        several = len(self._class_labels()) > 2
        if several and self.sampler in ("rejection", "nuts"):
            raise ValueError(
                f"sampler must be 'langevin' or 'auto' for more than two classes, got {self.sampler!r}: only Langevin "
                "chains draw from a multinomial regression"
            )
        if several or self.sampler == "langevin":
            return super()._mechanism(n, features)
        target = self._target
        try:
            made = LogisticPosterior.calibrate(
                n=n,
                unit=self.unit,
                sampler=self.sampler,
                constant_time=self.constant_time,
                by=FREE_PARAMETERS[self.method],
                target=target,
                **self._prior(features),
            )
        except UnreachableTarget:
            if self.sampler != "auto" or isinstance(target, DP):
                raise
            return super()._mechanism(n, features)  # rejection in constant time may fail, so it has no Rényi curve
        return made if self.sampler != "auto" or made.uses_rejection else super()._mechanism(n, features)

    def _coords(self, X: Any) -> dict[str, tuple[str, ...]]:
        labels = tuple(map(str, self._class_labels().tolist()))
        named = len(labels) > 2 and len(set(labels)) == len(labels) and all(map(is_encodable, labels))
        return super()._coords(X) | ({"class": labels} if named else {})

    def _score_std(self) -> float:
        # The weight of a record falls with the draws; with this prior the mode of the posterior does not move.
        return 1.5 * float(np.sqrt(positive_integer(draws=self.draws)))

    def _set_coefficients(self, slopes: FloatArray, intercepts: FloatArray) -> None:
        self.classes_ = self._class_labels()
        self.coef_draws_, self.intercept_draws_ = slopes, intercepts
        self.coef_ = np.atleast_2d(slopes.mean(axis=0))
        self.intercept_ = np.atleast_1d(intercepts.mean(axis=0))

    def decision_function(self, X: Any) -> FloatArray:
        """Return the log odds of the positive class; for more than two classes, the log probabilities of all.

        Parameters
        ----------
        X : array-like, shape (k, features)
            Features. A missing entry counts as the middle of `bounds`, or as 0 without `bounds`.

        Returns
        -------
        numpy.ndarray, shape (k,) or (k, classes)
            Log odds, positive where the positive class is more probable, or log probabilities. With several draws,
            those of the averaged probabilities.
        """
        scores = self._scores(X)
        if scores.ndim == 3:
            logs = special.logsumexp(special.log_softmax(scores, axis=-1), axis=1)
            return np.asarray(logs - np.log(scores.shape[1]))
        # log of both averaged probabilities: their ratio would lose all digits where one is close to 1
        log_mean = [special.logsumexp(special.log_expit(sign * scores), axis=1) for sign in (1.0, -1.0)]
        return np.asarray(scores[:, 0] if scores.shape[1] == 1 else log_mean[0] - log_mean[1])

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the classes, averaged over the draws.

        Parameters
        ----------
        X : array-like, shape (k, features)
            Features. A missing entry counts as the middle of `bounds`, or as 0 without `bounds`.

        Returns
        -------
        numpy.ndarray, shape (k, classes)
            Probabilities in [0, 1], in the order of `classes_`; each row sums to 1.
        """
        found = self.decision_function(X)
        if found.ndim == 2:
            return np.asarray(special.softmax(found, axis=1))
        return np.column_stack([special.expit(-found), special.expit(found)])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array-like, shape (k, features)
            Features. A missing entry counts as the middle of `bounds`, or as 0 without `bounds`.

        Returns
        -------
        numpy.ndarray, shape (k,)
            Labels, entries of `classes_`.
        """
        found = self.decision_function(X)
        return np.asarray(self.classes_[found.argmax(axis=1) if found.ndim == 2 else (found > 0).astype(int)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not isinstance(self.classes, str) and len(np.atleast_1d(self.classes)) > 2
        tags.classifier_tags.poor_score = True  # privacy noise dominates on the few rows of scikit-learn's checks
        return tags
