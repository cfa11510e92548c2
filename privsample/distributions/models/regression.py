"""Bayesian linear regression from bounded second moments. docs/notes/moments.md."""

from typing import Any, Self

import numpy as np

from privsample._checks import FloatArray, interval, listed, nonnegative_integer, number, positive
from privsample._value import cached, frozen_value, set_fields
from privsample.distributions.domains import Domain
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.rational import ExactStatistic
from privsample.distributions.models.moments import MomentModel, Moments, conjugate
from privsample.distributions.models.normal_inverse_gamma import NormalInverseGamma
from privsample.distributions.record_format import LabelledFormat
from privsample.distributions.record_sensitivity import RecordSensitivity


@frozen_value
class LinearRegression(MomentModel):
    """Bayesian linear regression with features and target clipped to public bounds.

    Each number is scaled from its bounds to u in [-1, 1]. The variance v has the prior InverseGamma(shape, scale).
    Given v, the coefficients and the intercept of the scaled numbers are independent N(0, v / observations). The
    statistic is the vector of the sums of s_i, s_i s_j and s_i^2 / sqrt(2) over the records, where i and j are features
    or the target, s = u / sqrt(d), and d is the number of columns. Replacing one record changes the statistic by at
    most 2 in L2 norm. The posterior ignores the clipping. Noise-aware inference models the scaled features as normal,
    with priors of scale `feature_prior_scale` on their means and standard deviations.

    Data are a pair (rows of shape (n, features), targets of shape (n,)).

    Parameters
    ----------
    feature_bounds : tuple of pairs of float
        Public bounds (low, high) of each feature, at least one feature; values outside are clipped.
    target_bounds : tuple of float
        Public bounds (low, high) of the target; values outside are clipped.
    shape : float
        Shape of the prior of the variance, finite and > 0.
    scale : float
        Scale of the prior of the variance, finite and > 0, in squared units of the target.
    observations : float, default 1
        Pseudo-observations of the prior on the coefficients, finite and > 0.
    feature_prior_scale : float, default 0.5
        Scale of the priors on means and standard deviations of the scaled features, finite and > 0.
    public : tuple of float, default ()
        Statistic of public records that update the prior; see `with_public_data`.
    public_n : int, default 0
        Number of public records, >= 0.

    Raises
    ------
    TypeError, ValueError
        If a field has the wrong type or is out of range.

    Examples
    --------
    >>> import privsample as ps
    >>> model = ps.LinearRegression(feature_bounds=((0, 1),), target_bounds=(-1, 1), shape=3, scale=2)
    >>> statistic, n = model.summarize(([[0.2], [0.8]], [0.1, 0.5]))
    >>> n, statistic.size
    (2, 5)
    """

    description = "the vector of coefficients and variance"
    axis_name = "feature"

    feature_bounds: tuple[tuple[float, float], ...]
    target_bounds: tuple[float, float]
    shape: float
    scale: float
    observations: float = 1.0
    feature_prior_scale: float = 0.5
    public: tuple[float, ...] = ()
    public_n: int = 0

    def __post_init__(self) -> None:
        given = listed(feature_bounds=self.feature_bounds)
        bounds = tuple(interval(**{f"feature_bounds[{j}]": pair}) for j, pair in enumerate(given))
        if not bounds:
            raise ValueError("feature_bounds must hold a pair (low, high) for each feature, at least one")
        set_fields(self, feature_bounds=bounds, target_bounds=interval(target_bounds=self.target_bounds))
        set_fields(self, shape=positive(shape=self.shape), scale=positive(scale=self.scale))
        set_fields(
            self,
            observations=positive(observations=self.observations),
            feature_prior_scale=positive(feature_prior_scale=self.feature_prior_scale),
        )
        set_fields(self, public=tuple(number(**{f"public[{j}]": x}) for j, x in enumerate(listed(public=self.public))))
        set_fields(self, public_n=nonnegative_integer(public_n=self.public_n))

    @cached
    def moments(self) -> Moments:
        """The declared preprocessing."""
        bounds = (*self.feature_bounds, self.target_bounds)
        return Moments(bounds=bounds, radius=len(bounds) ** -0.5, square=0.5**0.5)

    @cached
    def domain(self) -> Domain:
        """The domain of each scaled number; a missing number counts as the midpoint of its bounds."""
        return Domain(low=-1.0, high=1.0, missing=0.0)

    @cached
    def likelihood(self) -> tuple[Any, ...]:
        """The fields that determine the likelihood: models with equal bounds differ only in their priors."""
        return type(self).__name__, self.feature_bounds, self.target_bounds

    @property
    def parameter(self) -> str:
        """The name of the vector of coefficients, intercept and variance."""
        return "coefficients_intercept_variance"

    @property
    def record_format(self) -> LabelledFormat:
        """Rows of features with their targets."""
        return LabelledFormat(features=len(self.feature_bounds))

    def to_data(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The pair (features, target)."""
        return rows[:, :-1], rows[:, -1]

    @cached
    def record_sensitivity(self) -> RecordSensitivity:
        """An upper bound: the largest change of one coordinate, in as many coordinates as the L1 bound allows.

        The largest change is 2 / sqrt(d). The bound on the L1 sensitivity is derived in docs/notes/moments.md.
        """
        d, r = len(self.feature_bounds) + 1, self.moments.radius
        total = (1 + r * (d - 1 + 2**0.5)) ** 2 / (2 + 2 * (2**0.5 - 1) / d)
        whole, rest = divmod(total, 2 * r)
        return RecordSensitivity(differences=np.array([[2 * r] * int(whole) + [rest]]), l2=2.0, tight=False)

    def statistic(self, chunk: FloatArray) -> FloatArray:
        """Weighted second moments of rows (features, target), shape (k, features + 1)."""
        return self.moments.sums(chunk)

    def summarize(self, data: Any) -> tuple[FloatArray, int]:
        """Statistic and number of records of a pair (rows, targets). Raises SchemaError."""
        rows = self.records(data)
        return self.statistic(rows), len(rows)

    def exact_summarize(self, data: Any, grid: Grid | None = None) -> tuple[ExactStatistic, int]:
        """The exact statistic and the number of records of a pair (rows, targets). Raises SchemaError."""
        rows = self.records(data)
        return self.exact_statistic(rows, grid), len(rows)

    def examine(self, data: Any, domain: Domain | None = None) -> tuple[dict[str, int], int]:
        """Count the numbers that the public rule changes, by reason, and the records; for the curator only."""
        del domain  # each column has its own domain
        total: dict[str, int] = {}
        rows = self.records(data)
        for own, column in zip(self.moments.domains, rows.T, strict=True):
            for reason, found in own.count_problems([column]).items():
                total[reason] = total.get(reason, 0) + found
        return total, len(rows)

    def records(self, data: Any) -> FloatArray:
        """Features and target in one array.

        Parameters
        ----------
        data : pair
            Rows of shape (n, features) and targets of shape (n,).

        Returns
        -------
        array of shape (n, features + 1)
            The records.

        Raises
        ------
        SchemaError
            If the data do not have this form.
        """
        return self.record_format.read(data)

    def posterior(
        self, statistic: FloatArray, n: float, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> NormalInverseGamma:
        """The conjugate posterior; coefficients and intercept are in the units of the records."""
        location, to_units = self._prior_in_units
        inverse = np.linalg.inv(to_units)
        distribution = NormalInverseGamma(
            location=tuple(location),
            precision=self.observations * inverse.T @ inverse,
            shape=self.shape,
            scale=self.scale,
        )
        if self.public_n:
            distribution = conjugate(self.moments.gram_in_units(np.array(self.public), self.public_n), distribution)
        gram = self.moments.gram_in_units(statistic, n)
        return conjugate(gram, distribution, data_weight=data_weight, prior_weight=prior_weight)

    def update_prior(self, statistic: FloatArray, n: int) -> "LinearRegression":
        """The model that stores the statistic of the public records next to the prior parameters."""
        total = np.asarray(statistic) + (np.array(self.public) if self.public_n else 0.0)
        return LinearRegression(
            feature_bounds=self.feature_bounds,
            target_bounds=self.target_bounds,
            shape=self.shape,
            scale=self.scale,
            observations=self.observations,
            feature_prior_scale=self.feature_prior_scale,
            public=tuple(total),
            public_n=self.public_n + n,
        )

    def simulate(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Simulate clipped rows (features, target).

        theta holds coefficients, intercept and variance. The means and covariances of the features are drawn from their
        prior.
        """
        width = len(self.feature_bounds)
        mean = self.feature_prior_scale * rng.standard_normal(width)
        root = np.tril(self.feature_prior_scale / 2 * rng.standard_normal((width, width)), -1)
        root[np.diag_indices(width)] = self.feature_prior_scale * np.abs(rng.standard_normal(width))
        scaled = mean + rng.standard_normal((n, width)) @ root.T
        middles, halves = self.moments.middles, self.moments.units * self.moments.radius
        features = middles[:-1] + halves[:-1] * scaled
        target = features @ theta[:width] + theta[width] + theta[width + 1] ** 0.5 * rng.standard_normal(n)
        return self.moments.clean(np.column_stack([features, target]))

    @classmethod
    def example(cls) -> Self:
        """A model with one feature."""
        return cls(feature_bounds=((0, 1),), target_bounds=(-1, 1), shape=3, scale=2)

    @property
    def _prior_in_units(self) -> tuple[FloatArray, FloatArray]:
        """Prior in units of the data: location + sqrt(v) A z with z ~ N(0, I / observations); return (location, A)."""
        middles, halves = self.moments.middles, self.moments.units * self.moments.radius
        width = len(self.feature_bounds)
        to_units = np.diag([*(1 / halves[:-1]), 1.0])
        to_units[width, :width] = -middles[:-1] / halves[:-1]
        return np.array([0.0] * width + [middles[-1]]), to_units
