"""Exponential families in their natural parameter: the log normalizer with its derivatives, and the distributions.

The density is e^{T(theta) . eta - C(eta)} with respect to a fixed base measure, where C is the log normalizer.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, function, real_array
from privsample._value import frozen_value
from privsample.distributions.parametric.conjugate import PosteriorDistribution
from privsample.errors import NumericalFailure

_FARTHEST = 2.0**200  # a distance to the boundary of the natural parameters from which on it is reported as infinite
_BISECTIONS = 64  # halvings of a distance, more than a double has digits
_STEP = 0.01  # longest step of the finite differences, in units of 1/standard deviation
_SHORTER = (1.0, 0.1, 0.01, 0.001)  # steps in units of the longest
_LARGEST_ROUNDING = 1e-3  # of a shorter step that is used, in units of the standard deviations
_SHRINKINGS = 12  # how often a step is divided by ten where it leaves the natural parameters
_TOLERANCE = 1e-5  # error of the finite differences, in units of the standard deviations
_ULP = float(np.finfo(np.float64).eps)
_FIVE_POINTS = ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))  # derivative of fourth order of accuracy


@frozen_value
class LogNormalizer:
    """The log normalizer C of an exponential family, its gradient and Hessian, and where it is finite.

    The density of the parameter theta is e^(T(theta) . eta - C(eta)) with respect to a fixed base measure. The gradient
    of C is the mean of T(theta), its Hessian the covariance matrix. All four functions take natural parameters eta as
    an array of shape (rows, k), with one natural parameter in each row.

    Parameters
    ----------
    value : callable
        C(eta), shape (rows,), in nats.
    gradient : callable
        Gradient of C, shape (rows, k).
    hessian : callable
        Hessian of C, shape (rows, k, k), symmetric and positive semidefinite.
    normalizable : callable
        Whether C(eta) is finite, boolean array of shape (rows,). The set of these natural parameters is convex.

    Raises
    ------
    TypeError
        If a field is not a function.

    Notes
    -----
    Geumlek 2020, section 5.2, equation (5.10) and Definition 15.

    Examples
    --------
    The normal distributions of variance 1, with T(theta) = theta and natural parameter their mean:

    >>> import numpy as np
    >>> import privsample as ps
    >>> normal = ps.LogNormalizer(
    ...     value=lambda eta: eta[:, 0] ** 2 / 2,
    ...     gradient=lambda eta: eta,
    ...     hessian=lambda eta: np.ones((len(eta), 1, 1)),
    ...     normalizable=lambda eta: np.isfinite(eta[:, 0]),
    ... )
    >>> normal.variances(np.array([[3.0]]), np.array([[2.0]])).tolist()
    [4.0]
    """

    value: Callable[[FloatArray], Any]
    gradient: Callable[[FloatArray], Any]
    hessian: Callable[[FloatArray], Any]
    normalizable: Callable[[FloatArray], Any]

    def __post_init__(self) -> None:
        function(value=self.value), function(gradient=self.gradient)
        function(hessian=self.hessian), function(normalizable=self.normalizable)

    def values(self, natural: FloatArray) -> FloatArray:
        """The log normalizer C, not checked to be finite.

        Parameters
        ----------
        natural : array of shape (rows, k)
            Natural parameters, one in each row.

        Returns
        -------
        array of shape (rows,)
            Values in nats.

        Raises
        ------
        TypeError
            If the function returns another shape.
        """
        return self._evaluate("value", natural, (len(natural),))

    def gradients(self, natural: FloatArray) -> FloatArray:
        """The gradients of C: the means of T(theta).

        Parameters
        ----------
        natural : array of shape (rows, k)
            Natural parameters, one in each row.

        Returns
        -------
        array of shape (rows, k)
            One gradient in each row.

        Raises
        ------
        TypeError
            If the function returns another shape.
        """
        return self._evaluate("gradient", natural, natural.shape)

    def hessians(self, natural: FloatArray) -> FloatArray:
        """The Hessians of C: the covariance matrices of T(theta).

        Parameters
        ----------
        natural : array of shape (rows, k)
            Natural parameters, one in each row.

        Returns
        -------
        array of shape (rows, k, k)
            One matrix for each row.

        Raises
        ------
        TypeError
            If the function returns another shape.
        """
        return self._evaluate("hessian", natural, (*natural.shape, natural.shape[1]))

    def variances(self, natural: FloatArray, directions: FloatArray) -> FloatArray:
        """The variances of directions . T(theta).

        Parameters
        ----------
        natural : array of shape (rows, k)
            Natural parameters, one in each row.
        directions : array of shape (rows, k)
            One direction for each natural parameter.

        Returns
        -------
        array of shape (rows,)
            Variances.

        Raises
        ------
        TypeError
            If the function returns another shape.
        """
        products = np.einsum("ri,rij,rj->r", directions, self.hessians(natural), directions)
        return np.asarray(products, dtype=np.float64)

    def contains(self, natural: FloatArray) -> NDArray[np.bool_]:
        """Which natural parameters are finite and normalizable.

        Parameters
        ----------
        natural : array of shape (rows, k)
            Natural parameters, one in each row.

        Returns
        -------
        array of bool, shape (rows,)
            True where C is finite.

        Raises
        ------
        TypeError
            If the function returns another shape.
        """
        finite = np.isfinite(natural).all(axis=1)
        return finite & (self._evaluate("normalizable", natural, (len(natural),)) == 1.0)

    def _evaluate(self, name: str, natural: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        """The result of one of the functions, with its shape checked. Raises TypeError."""
        with np.errstate(all="ignore"):
            found = np.asarray(getattr(self, name)(natural), dtype=np.float64)
        if found.shape != shape:
            raise TypeError(
                f"{name} must map natural parameters of shape {natural.shape} to shape {shape}, got {found.shape}: it "
                "takes one natural parameter in each row"
            )
        return found

    def distances_to_boundary(self, start: FloatArray, directions: FloatArray) -> FloatArray:
        """The largest t for which start + t directions is normalizable, rounded down.

        The normalizable natural parameters form a convex set, so that all smaller t >= 0 are normalizable, too.

        Parameters
        ----------
        start : array of shape (rows, k)
            Natural parameters that are normalizable.
        directions : array of shape (rows, k)
            One direction for each natural parameter.

        Returns
        -------
        array of shape (rows,)
            Distances in units of the directions; +inf where there is no boundary.
        """
        near, far = np.zeros(len(start)), np.ones(len(start))
        growing = self.contains(start + directions)
        while growing.any():
            near, far = np.where(growing, far, near), np.where(growing, far * 2.0, far)
            growing &= far <= _FARTHEST
            with np.errstate(over="ignore"):
                growing &= self.contains(start + far[:, None] * directions)
        for _ in range(_BISECTIONS):
            middle = (near + far) / 2
            inside = self.contains(start + middle[:, None] * directions)
            near, far = np.where(inside, middle, near), np.where(inside, far, middle)
        return np.where(near >= _FARTHEST / 2, np.inf, near)

    def check(self, points: FloatArray) -> None:
        """Compare the derivatives with finite differences.

        Errors are measured in standard deviations of T(theta), so that the check does not depend on units.

        Parameters
        ----------
        points : array of shape (rows, k)
            Natural parameters at which the functions are compared.

        Raises
        ------
        TypeError
            If a function returns another shape.
        ValueError
            If a point is not normalizable, a result is not finite, the Hessian is not a covariance matrix, or a
            derivative disagrees.
        """
        if not (inside := self.contains(points)).all():
            raise ValueError(
                f"natural parameters of the prior and of posteriors must be normalizable, but normalizable is False at "
                f"{_readable(points[~inside][0])}; strengthen the prior, or correct normalizable"
            )
        results = {"value": self.values(points), "gradient": self.gradients(points), "hessian": self.hessians(points)}
        for name, found in results.items():
            wrong = ~np.isfinite(found.reshape(len(points), -1)).all(axis=1)
            if wrong.any():
                raise ValueError(f"{name} must be finite, but is not at {_readable(points[wrong][0])}; correct {name}")
        covariance = results["hessian"]
        deviations = np.sqrt(np.maximum(np.einsum("rii->ri", covariance), 0.0))
        scales = deviations[:, :, None] * deviations[:, None, :]
        symmetric = np.abs(covariance - np.swapaxes(covariance, 1, 2)) <= _TOLERANCE * scales
        relative = covariance / np.where(scales > 0.0, scales, 1.0)
        if not symmetric.all() or not (np.linalg.eigvalsh(relative) >= -1e-8).all():
            raise ValueError(
                "hessian must be symmetric and positive semidefinite, as a covariance matrix is, but is not at "
                f"{_readable(points[0])} or near it; correct hessian"
            )
        for name, function_of, scale in (
            ("gradient", self.values, deviations),
            ("hessian", self.gradients, scales),
        ):
            self._compare(name, function_of, results[name], points, deviations, scale)

    def _compare(
        self,
        name: str,
        function_of: Callable[[FloatArray], FloatArray],
        given: FloatArray,
        points: FloatArray,
        deviations: FloatArray,
        scale: FloatArray,
    ) -> None:
        """Compare one derivative, shape (rows, k, ...), with five-point differences of the function below it.

        Where the distribution is skewed, a step of a small part of a standard deviation is still too long; where values
        are large, a shorter one loses digits. So a result is accepted if it agrees for one of several steps whose
        rounding error is small.
        """
        for j in range(points.shape[1]):
            unit, agrees = np.eye(points.shape[1])[j], np.zeros(given[:, j].shape, dtype=np.bool_)
            step = self._inner_step(points, unit, _STEP / np.where(deviations[:, j] > 0.0, deviations[:, j], 1.0))
            nearest = np.full(given[:, j].shape, np.inf)
            for shorter in _SHORTER:
                found, rounding = _difference(function_of, points, unit, step * shorter)
                distance = np.abs(found - given[:, j])
                usable = (rounding <= _LARGEST_ROUNDING * scale[:, j]) | (shorter == 1.0)
                agrees |= usable & (distance <= _TOLERANCE * scale[:, j] + rounding)
                nearest = np.where(np.abs(nearest - given[:, j]) <= distance, nearest, found)
            if not agrees.all():
                row = int(np.argmax((~agrees).reshape(len(points), -1).any(axis=1)))
                below = "value" if name == "gradient" else "gradient"
                raise ValueError(
                    f"{name} disagrees with the derivative of {below} in coordinate {j} at {_readable(points[row])}: "
                    f"{name} gives {_readable(given[row, j])}, finite differences of {below} give "
                    f"{_readable(nearest[row])}; correct one of the two functions"
                )

    def _inner_step(self, points: FloatArray, unit: FloatArray, step: FloatArray) -> FloatArray:
        """Steps, shape (rows,), divided by ten until two of them in both directions are normalizable."""
        for _ in range(_SHRINKINGS):
            ends = (points + sign * 2 * step[:, None] * unit for sign in (-1.0, 1.0))
            step = np.where(np.logical_and(*map(self.contains, ends)), step, step / 10)
        return step


def _difference(
    function_of: Callable[[FloatArray], FloatArray], points: FloatArray, unit: FloatArray, step: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Five-point differences along a coordinate, and a bound on their rounding errors, of the shape of the function."""
    total = size = np.zeros(())
    for place, weight in _FIVE_POINTS:
        at = function_of(points + place * step[:, None] * unit)
        total, size = total + weight * at, np.maximum(size, np.abs(at))
    each = step.reshape(-1, *[1] * (total.ndim - 1))
    return total / each, 64 * _ULP * size / each


def _readable(natural: FloatArray) -> str:
    """A natural parameter or a number in a message."""
    return "(" + ", ".join(f"{float(x):.6g}" for x in natural) + ")" if np.ndim(natural) else f"{float(natural):.6g}"


@frozen_value
class NaturalDistribution(PosteriorDistribution):
    """A member of an exponential family, drawn by a user's sampler.

    Parameters
    ----------
    natural : array of shape (k,)
        The natural parameter.
    normalizer : LogNormalizer
        The log normalizer of the family.
    sampler : callable
        Maps (natural parameter of shape (k,), size, generator) to independent draws, shape (size,) or (size, ...).
    parameter_statistic : callable
        T: maps draws to their statistics, shape (size, k).

    Raises
    ------
    TypeError
        If a field has the wrong type.
    ValueError
        If the natural parameter is not normalizable.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> normal = ps.LogNormalizer(
    ...     value=lambda eta: eta[:, 0] ** 2 / 2,
    ...     gradient=lambda eta: eta,
    ...     hessian=lambda eta: np.ones((len(eta), 1, 1)),
    ...     normalizable=lambda eta: np.isfinite(eta[:, 0]),
    ... )
    >>> distribution = ps.NaturalDistribution(
    ...     natural=np.array([3.0]),
    ...     normalizer=normal,
    ...     sampler=lambda eta, size, rng: rng.normal(eta[0], 1.0, size),
    ...     parameter_statistic=lambda theta: theta[:, None],
    ... )
    >>> distribution.statistic_mean.tolist()
    [3.0]
    """

    natural: FloatArray
    normalizer: LogNormalizer
    sampler: Callable[[FloatArray, int, np.random.Generator], Any]
    parameter_statistic: Callable[[FloatArray], Any]

    def __post_init__(self) -> None:
        if not isinstance(self.normalizer, LogNormalizer):
            raise TypeError(f"normalizer must be a LogNormalizer, got {type(self.normalizer).__name__}")
        function(sampler=self.sampler), function(parameter_statistic=self.parameter_statistic)
        natural = np.array(real_array(natural=self.natural))
        if natural.ndim != 1 or not self.normalizer.contains(natural[None])[0]:
            raise ValueError(f"natural must be a normalizable natural parameter, got {self.natural!r}")
        natural.flags.writeable = False
        object.__setattr__(self, "natural", natural)

    @property
    def statistic_mean(self) -> FloatArray:
        """The mean of T(theta), shape (k,): the gradient of the log normalizer."""
        return self.normalizer.gradients(self.natural[None])[0]

    @property
    def statistic_variance(self) -> FloatArray:
        """The covariance matrix of T(theta), shape (k, k): the Hessian of the log normalizer."""
        return self.normalizer.hessians(self.natural[None])[0]

    @property
    def mean(self) -> FloatArray:
        """Not defined. Raises TypeError: the log normalizer gives the mean of T(theta) only."""
        raise TypeError("the mean of the parameter is not stated by the family; statistic_mean is that of T(theta)")

    @property
    def variance(self) -> FloatArray:
        """Not defined. Raises TypeError: the log normalizer gives the variance of T(theta) only."""
        raise TypeError(
            "the variance of the parameter is not stated by the family; statistic_variance is that of T(theta)"
        )

    def quantile(self, q: FloatArray) -> FloatArray:
        """Not defined. Raises TypeError."""
        del q
        raise TypeError("quantiles of the parameter are not stated by the family; use draws")

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws by the user's sampler. Raises NumericalFailure if a draw is not finite."""
        found = np.asarray(self.sampler(self.natural, size, rng), dtype=np.float64)
        if found.shape[:1] != (size,):
            raise TypeError(f"sampler must return {size} draws along the first axis, got shape {found.shape}")
        if not np.isfinite(found).all():
            raise NumericalFailure("sampler returned a value that is not finite, so nothing is released")
        return found

    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density of x, shape (draws, ...), with respect to the family's base measure: shape (draws,)."""
        statistics = np.asarray(self.parameter_statistic(x), dtype=np.float64)
        if statistics.shape != (len(x), len(self.natural)):
            raise TypeError(
                f"parameter_statistic must map {len(x)} draws to shape {(len(x), len(self.natural))}, got "
                f"{statistics.shape}"
            )
        return np.asarray(statistics @ self.natural - self.normalizer.values(self.natural[None])[0])

    def relative_entropy(self, other: PosteriorDistribution) -> float:
        """Kullback-Leibler divergence from another member of the family, as the Bregman divergence of C."""
        assert isinstance(other, NaturalDistribution)
        own, theirs = self.normalizer.values(np.array([self.natural, other.natural]))
        return max(0.0, float((self.natural - other.natural) @ self.statistic_mean - own + theirs))
