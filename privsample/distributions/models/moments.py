"""Models whose statistic holds first and second moments of bounded numbers. docs/notes/moments.md."""

import math
from abc import abstractmethod
from fractions import Fraction
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, finite, interval, positive
from privsample._value import Memo, cached, frozen_value, set_fields
from privsample.distributions.domains import Domain
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.rational import ExactStatistic
from privsample.distributions.models.base import Model
from privsample.distributions.models.normal_inverse_gamma import NormalInverseGamma
from privsample.distributions.record_sensitivity import RecordSensitivity

_SQUARE = 1.5  # factor of the squares; up to 1.665 the L2 sensitivity is that of the sums alone
_TANGENTS = 8
_PITCH = 2.0**-40  # of an exact statistic; its numbers are rounded to 2^-20
_COARSEST = 2.0**-6  # over the number of coordinates: the radius shrinks by at most a sixteenth
_EXACT = 2.0**52  # below it doubles hold sums of products of indices, also times `square`
T = TypeVar("T", bound=np.generic)


def read_only(array: NDArray[T]) -> NDArray[T]:
    """Mark the array as read-only and return it."""
    array.flags.writeable = False
    return array


@frozen_value
class Moments(Memo):
    """First and second moments of d columns, each scaled from its bounds to [-radius, radius].

    With v = (1, s) for a scaled row s, the statistic sums v_i v_j over all i <= j except (0, 0), row by row of the
    upper triangle. Squares are multiplied by `square`.
    """

    bounds: tuple[tuple[float, float], ...]
    radius: float
    square: float

    @cached
    def domains(self) -> tuple[Domain, ...]:
        """The domain of each column; a missing number counts as the midpoint."""
        return tuple(Domain(low=low, high=high, missing=low / 2 + high / 2) for low, high in self.bounds)

    @cached
    def middles(self) -> FloatArray:
        """The midpoints of the bounds, shape (d,)."""
        return read_only(np.array([low / 2 + high / 2 for low, high in self.bounds]))

    @cached
    def units(self) -> FloatArray:
        """One scaled unit in the units of each column, shape (d,)."""
        return read_only(np.array([high / 2 - low / 2 for low, high in self.bounds]) / self.radius)

    @cached
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The indices i and j of each coordinate of the statistic."""
        first, second = np.triu_indices(len(self.bounds) + 1)
        return read_only(first[1:]), read_only(second[1:])

    @cached
    def weights(self) -> FloatArray:
        """The weight of each coordinate: `square` for squares, 1 otherwise."""
        first, second = self.pairs
        return read_only(np.where(first == second, self.square, 1.0))

    def clean(self, rows: FloatArray) -> FloatArray:
        """Map each column of rows, shape (n, d), into its bounds by the public rule."""
        columns = [domain.clean(rows[:, j]) for j, domain in enumerate(self.domains)]
        return np.column_stack(columns) if len(rows) else rows

    def scaled(self, rows: FloatArray) -> FloatArray:
        """Rows after the public rule, in scaled units, shape (n, d)."""
        return np.clip((self.clean(rows) - self.middles) / self.units, -self.radius, self.radius)

    def sums(self, rows: FloatArray) -> FloatArray:
        """The statistic of rows, shape (coordinates,)."""
        augmented = np.column_stack([np.ones(len(rows)), self.scaled(rows)])
        return self.weights * (augmented.T @ augmented)[self.pairs]

    def grid(self, pitch: float | None = None) -> Grid:
        """The grid of the statistic in scaled units: 2^-40 by default. Raises ValueError."""
        found = Grid(pitch=_PITCH if pitch is None else pitch)
        if not 2.0**-48 <= found.pitch <= _COARSEST / len(self.weights):
            raise ValueError(
                f"grid must be in [2^-48, {_COARSEST / len(self.weights):g}], the pitch of the statistic of numbers "
                f"scaled to at most 1, got {found.pitch!r}: the default 2^-40 fits"
            )
        return found

    def exact_sums(self, rows: FloatArray, grid: Grid) -> tuple[Fraction, ...]:
        """The statistic of rows whose scaled numbers are rounded to a grid, as exact multiples of its pitch.

        docs/notes/exact_noise.md, step 8: no record changes it by more than `sums` of any two records can.
        """
        indices = self._indices(rows, grid)
        steps, twice = -self._record_exponent(grid), 2 * self._record_exponent(grid) - grid.exponent
        first, second = self.pairs
        total = [0] * len(first)
        block = int(_EXACT / max(float(np.abs(indices).max(initial=0.0)) ** 2, 1.0)) // 2 or 1
        for start in range(0, len(indices), block):
            part = indices[start : start + block]
            linear, whole = part.sum(axis=0), part.T @ part  # exact: below 2^53
            squares = np.rint(np.ldexp(self.square * part * part, twice)).sum(axis=0)
            for k, (i, j) in enumerate(zip(first, second, strict=True)):
                if i == 0:
                    total[k] += int(linear[j - 1]) << (steps + twice)
                else:
                    total[k] += int(squares[i - 1]) if i == j else int(whole[i - 1, j - 1]) << twice
        return tuple(number * Fraction(grid.pitch) for number in total)

    @staticmethod
    def _record_exponent(grid: Grid) -> int:
        """The exponent of the pitch of a scaled number: half that of the statistic, rounded up."""
        return -(-grid.exponent // 2)

    def _indices(self, rows: FloatArray, grid: Grid) -> FloatArray:
        """The indices of scaled rows on the grid of records, within a radius that leaves room for rounded squares."""
        exponent = self._record_exponent(grid)
        room = 1 - 4 * len(self.weights) * Fraction(grid.pitch)
        largest = math.floor(room * Fraction(math.nextafter(self.radius, 0.0)) / Fraction(2) ** exponent)
        return np.clip(np.rint(np.ldexp(self.scaled(rows), -exponent)), -largest, largest)

    def gram(self, statistic: FloatArray, n: float) -> FloatArray:
        """The matrix of the sums of v_i v_j, shape (1 + d, 1 + d)."""
        whole = np.empty((len(self.bounds) + 1,) * 2)
        whole[0, 0] = n
        first, second = self.pairs
        whole[first, second] = whole[second, first] = np.asarray(statistic) / self.weights
        return whole

    def gram_in_units(self, statistic: FloatArray, n: float) -> FloatArray:
        """Sums of products of the columns, in the units of the records; the second-to-last column is the constant 1."""
        width = len(self.bounds)
        to_units = np.zeros((width + 1, width + 1))
        rows = [*range(width - 1), width]
        to_units[rows, 0], to_units[rows, range(1, width + 1)], to_units[width - 1, 0] = self.middles, self.units, 1.0
        return np.asarray(to_units @ self.gram(statistic, n) @ to_units.T)

    def feasible(self, statistic: FloatArray, n: float) -> FloatArray:
        """A nearby statistic that n records could have: means in bounds, scatter matrix not negative."""
        gram = self.gram(statistic, n)
        sums = np.clip(gram[0, 1:], -n * self.radius, n * self.radius)
        values, vectors = np.linalg.eigh(gram[1:, 1:] - np.outer(sums, sums) / n)
        scatter = (vectors * np.maximum(values, 0.0)) @ vectors.T
        room, size = np.maximum(n * self.radius**2 - sums**2 / n, 0.0), np.diagonal(scatter)
        shrink = np.sqrt(np.minimum(1.0, room / np.where(size > 0, size, 1.0)))
        gram[0, 1:] = gram[1:, 0] = sums
        gram[1:, 1:] = scatter * np.outer(shrink, shrink) + np.outer(sums, sums) / n
        return self.weights * gram[self.pairs]


def conjugate(
    gram: FloatArray, prior: NormalInverseGamma, *, data_weight: float = 1.0, prior_weight: float = 1.0
) -> NormalInverseGamma:
    """The conjugate update for a target, the last column, with a linear mean in the other columns.

    `gram` holds the sums of products of all columns, shape (k + 1, k + 1); the second-to-last column is constant.
    """
    design, cross, square = data_weight * gram[:-1, :-1], data_weight * gram[:-1, -1], data_weight * gram[-1, -1]
    start, own = np.array(prior.location), prior_weight * prior.precision
    precision = own + design
    location = np.linalg.solve(precision, own @ start + cross)
    left = square - 2 * location @ cross + location @ design @ location + (location - start) @ own @ (location - start)
    return NormalInverseGamma(
        location=tuple(location),
        precision=precision,
        shape=prior_weight * prior.shape + design[-1, -1] / 2,
        scale=prior_weight * prior.scale + max(float(left), 0.0) / 2,
    )


class MomentModel(Model):
    """A model whose statistic is the first and second moments of the numbers in a record, each clipped to bounds."""

    __slots__ = ()

    @property
    @abstractmethod
    def moments(self) -> Moments:
        """The moments that the model needs, and the declared preprocessing."""

    @abstractmethod
    def to_data(self, rows: FloatArray) -> Any:
        """Convert rows of numbers to data of this model.

        Parameters
        ----------
        rows : array of shape (n, d)
            The numbers of each record.

        Returns
        -------
        object
            Data as `summarize` takes them.
        """

    @property
    def empty(self) -> FloatArray:
        """The statistic of an empty dataset: zeros."""
        return np.zeros(len(self.moments.weights))

    def statistic_grid(self, grid: float | None = None) -> Grid | None:
        """The grid of the scaled moments: 2^-40 by default, for numbers rounded to 2^-20."""
        return self.moments.grid(grid)

    def exact_statistic(self, chunk: FloatArray, grid: Grid | None = None) -> ExactStatistic:
        """The moments of numbers rounded to the grid, without further rounding."""
        rows = np.asarray(chunk, dtype=np.float64)
        return self.moments.exact_sums(rows[:, None] if rows.ndim == 1 else rows, grid or self.moments.grid())

    def feasible(self, statistic: FloatArray, n: int) -> FloatArray:
        """A nearby statistic with means within the bounds and a covariance that records within them can have."""
        return self.moments.feasible(statistic, n)


@frozen_value
class NormalUnknownVariance(MomentModel):
    """Normal records with unknown mean and variance, clipped to `bounds`.

    The prior: the variance v is InverseGamma(shape, scale), and the mean given v is N(mean, v / observations). With u a
    record scaled from its bounds to [-1, 1], the statistic is the pair of the sums of u and of 1.5 u^2. Replacing one
    record moves it by at most 2 in L2 norm. The posterior ignores the clipping.

    Parameters
    ----------
    mean : float
        Prior mean of the mean, finite, in units of the records.
    observations : float
        Pseudo-observations of the prior on the mean, finite and > 0.
    shape : float
        Shape of the prior of the variance, finite and > 0.
    scale : float
        Scale of the prior of the variance, finite and > 0, in squared units of the records.
    bounds : tuple of float
        Public bounds (low, high) of a record, finite, low < high.

    Raises
    ------
    TypeError, ValueError
        If a field has the wrong type or is out of range.

    Examples
    --------
    >>> import privsample as ps
    >>> model = ps.NormalUnknownVariance(mean=0, observations=1, shape=3, scale=2, bounds=(-1, 2))
    >>> statistic, n = model.summarize([0.5, 2.0])
    >>> statistic
    array([1. , 1.5])
    """

    prior_parameters = ("mean", "observations", "shape", "scale")
    description = "the pair of mean and variance"

    mean: float
    observations: float
    shape: float
    scale: float
    bounds: tuple[float, float]

    def __post_init__(self) -> None:
        set_fields(self, mean=finite(mean=self.mean), observations=positive(observations=self.observations))
        set_fields(self, shape=positive(shape=self.shape), scale=positive(scale=self.scale))
        set_fields(self, bounds=interval(bounds=self.bounds))

    @cached
    def moments(self) -> Moments:
        """The declared preprocessing."""
        return Moments(bounds=(self.bounds,), radius=1.0, square=_SQUARE)

    @cached
    def domain(self) -> Domain:
        """[low, high]; a missing record counts as the midpoint."""
        return self.moments.domains[0]

    @property
    def parameter(self) -> str:
        """The name "mean_variance" of the pair of mean and variance."""
        return "mean_variance"

    def to_data(self, rows: FloatArray) -> FloatArray:
        """The only column of the rows."""
        return rows[:, 0]

    @cached
    def record_sensitivity(self) -> RecordSensitivity:
        """Vertices of a polygon that contains all |S(x) - S(x')|.

        The boundary is the curve (a, 1.5 a (2 - a)), 1 <= a <= 2; the vertices are the intersections of its tangents,
        so the polygon is an outer approximation (docs/notes/moments.md).
        """
        touch = np.linspace(1.0, 2.0, _TANGENTS + 1)
        left, right = touch[:-1], touch[1:]
        corners = np.column_stack([(left + right) / 2, _SQUARE * (left + right - left * right)])
        return RecordSensitivity(differences=np.vstack([corners, [2.0, 0.0]]), tight=False)

    def statistic(self, chunk: FloatArray) -> FloatArray:
        """The sums of u and of 1.5 u^2."""
        return self.moments.sums(np.asarray(chunk)[:, None])

    def posterior(
        self, statistic: FloatArray, n: float, *, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> NormalInverseGamma:
        """The conjugate normal-inverse-gamma posterior, in the units of the records."""
        prior = NormalInverseGamma(
            location=(self.mean,), precision=np.eye(1) * self.observations, shape=self.shape, scale=self.scale
        )
        gram = self.moments.gram_in_units(statistic, n)
        return conjugate(gram, prior, data_weight=data_weight, prior_weight=prior_weight)

    def update_prior(self, statistic: FloatArray, n: int) -> "NormalUnknownVariance":
        """The model whose four prior parameters are those of the posterior."""
        distribution = self.posterior(statistic, n)
        return NormalUnknownVariance(
            mean=distribution.location[0],
            observations=float(distribution.precision[0, 0]),
            shape=distribution.shape,
            scale=distribution.scale,
            bounds=self.bounds,
        )

    def simulate(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Simulate clipped normal records; theta is (mean, variance)."""
        mean, variance = theta
        return np.clip(rng.normal(float(mean), float(variance) ** 0.5, n), *self.bounds)

    @classmethod
    def example(cls) -> Self:
        """Numbers from -1 to 2."""
        return cls(mean=0, observations=1, shape=3, scale=2, bounds=(-1, 2))
