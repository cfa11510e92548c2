"""Simulated statistics of clipped records as functions of the parameters, from the same random numbers for all values.

A simulator turns base draws, which do not depend on the parameters, into statistics of n records. Base draws are made
once, so a statistic changes with the parameters only (common random numbers; docs/notes/confidence.md, section 1).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from privsample._checks import FloatArray, numbers_of
from privsample._value import frozen_value
from privsample.distributions.models.base import Model
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.dirichlet_categorical import DirichletCategorical
from privsample.distributions.models.gamma_exponential import GammaExponential
from privsample.distributions.models.gamma_poisson import GammaPoisson
from privsample.distributions.models.moments import MomentModel, NormalUnknownVariance
from privsample.distributions.models.normal_known_variance import NormalKnownVariance
from privsample.distributions.models.regression import LinearRegression

Theta = Mapping[str, FloatArray]
Records = Callable[..., Any]
_ADVICE = "give ranges in which the distribution is defined"
_TINY = float(np.finfo(np.float64).tiny)
_MOST_TABULATED = 1 << 16  # counts whose probabilities are tabulated; more are inverted one by one
_RECORDS_PER_COUNT = 32  # one conditional binomial quantile takes about as long as the quantiles of 32 records


class Parameter(NamedTuple):
    """A parameter of the records: its name, its shape, and the closed range of its possible values."""

    name: str
    shape: tuple[int, ...] = ()
    low: float = -np.inf
    high: float = np.inf


class StatisticSimulator(ABC):
    """Statistics of n records after the public rule, as a function of base draws and of the parameters."""

    __slots__ = ()

    @property
    @abstractmethod
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the records."""

    @property
    @abstractmethod
    def cells(self) -> int:
        """Number of base draws of one data set."""

    @property
    def direction(self) -> int:
        """1 or -1 if the statistic is one number that rises or falls with the only parameter for any base draws."""
        return 0

    def plug_in(self, statistic: FloatArray) -> Theta | None:
        """Parameters whose records would have about this statistic if nothing were clipped; None if unknown."""
        del statistic
        return None

    @abstractmethod
    def base(self, count: int, rng: np.random.Generator) -> FloatArray:
        """The base draws of `count` data sets, shape (count, ...)."""

    @abstractmethod
    def statistics(self, base: FloatArray, theta: Theta) -> FloatArray:
        """The statistics of the data sets at these parameters, shape (count, coordinates)."""


@frozen_value
class BernoulliCounts(StatisticSimulator):
    """The number of ones among n records: the binomial quantile of one uniform number."""

    n: int
    name: str = "theta"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The proportion of ones."""
        return (Parameter(self.name, (), 0.0, 1.0),)

    @property
    def cells(self) -> int:
        """One."""
        return 1

    @property
    def direction(self) -> int:
        """1: quantiles of binomial distributions rise with the proportion."""
        return 1

    def base(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Uniform numbers in (0, 1], shape (count,)."""
        return 1.0 - rng.random(count)

    def statistics(self, base: FloatArray, theta: Theta) -> FloatArray:
        """The counts, shape (count, 1)."""
        share = float(theta[self.name])
        ends = stats.binom.ppf([base.min(), base.max()], self.n, share)
        low, high = int(max(ends[0], 0)), int(min(ends[1], self.n))
        if high - low > _MOST_TABULATED:
            return np.asarray(stats.binom.ppf(base, self.n, share))[:, None]
        below = special.bdtr(np.arange(low, high), self.n, share)  # the quantile of `high` is what is left
        return (low + np.searchsorted(below, base, side="left")).astype(np.float64)[:, None]


@frozen_value
class CategoryCounts(StatisticSimulator):
    """The counts of K categories among n records: conditional binomial quantiles, one category after another."""

    n: int
    categories: int

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The vector of proportions."""
        return (Parameter("theta", (self.categories,), 0.0, 1.0),)

    @property
    def cells(self) -> int:
        """One for each category but the last."""
        return self.categories - 1

    def base(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Uniform numbers in (0, 1], shape (count, K-1)."""
        return 1.0 - rng.random((count, self.cells))

    def statistics(self, base: FloatArray, theta: Theta) -> FloatArray:
        """The counts, shape (count, K)."""
        shares = np.maximum(theta["theta"], 0.0)
        left = np.cumsum(shares[::-1])[::-1]  # share of this category and of all later ones
        rest, found = np.full(len(base), float(self.n)), np.empty((len(base), self.categories))
        for k in range(self.categories - 1):
            chance = min(shares[k] / max(left[k], _TINY), 1.0)
            found[:, k] = stats.binom.ppf(base[:, k], rest, chance)
            rest -= found[:, k]
        found[:, -1] = rest
        return found


@frozen_value
class PoissonSums(StatisticSimulator):
    """The sum of n clipped Poisson counts: quantiles of each record, or the numbers of records at each count."""

    n: int
    upper: int

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The Poisson mean."""
        return (Parameter("rate", (), 0.0),)

    @property
    def cells(self) -> int:
        """One for each record, or for each count if there are many records."""
        return self.upper if self._by_counts else self.n

    @property
    def direction(self) -> int:
        """1: each quantile rises with the mean (docs/notes/confidence.md, Lemma 2)."""
        return 1

    def base(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Uniform numbers in (0, 1], shape (count, cells)."""
        return 1.0 - rng.random((count, self.cells))

    def statistics(self, base: FloatArray, theta: Theta) -> FloatArray:
        """The sums, shape (count, 1)."""
        rate = float(theta["rate"])
        if not self._by_counts:
            most = int(min(stats.poisson.ppf(base.max(), rate), self.upper))
            below = special.pdtr(np.arange(most), rate)
            return np.searchsorted(below, base, side="left").sum(axis=1, dtype=np.float64)[:, None]
        rest, total, reached = np.full(len(base), float(self.n)), np.zeros(len(base)), 1.0
        for k in range(self.upper):  # `rest` records are at k or above
            beyond = float(special.pdtrc(k, rate))
            rest = stats.binom.ppf(base[:, k], rest, min(beyond / max(reached, _TINY), 1.0))
            total, reached = total + rest, beyond
            if not rest.any():
                break
        return np.asarray(total[:, None])

    @property
    def _by_counts(self) -> bool:
        return self.n > _RECORDS_PER_COUNT * self.upper


@frozen_value
class ExponentialSums(StatisticSimulator):
    """The sum of n clipped exponential times: standard times divided by the rate."""

    n: int
    upper: float

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The rate."""
        return (Parameter("rate", (), 0.0),)

    @property
    def cells(self) -> int:
        """One for each record."""
        return self.n

    @property
    def direction(self) -> int:
        """-1: each time falls with the rate."""
        return -1

    def base(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Standard exponential times, shape (count, n)."""
        return rng.standard_exponential((count, self.n))

    def statistics(self, base: FloatArray, theta: Theta) -> FloatArray:
        """The sums, shape (count, 1)."""
        with np.errstate(over="ignore"):  # times at a rate near 0 are clipped
            times = base / max(float(theta["rate"]), _TINY)
        return np.minimum(times, self.upper, out=times).sum(axis=1)[:, None]


@frozen_value
class NormalSums(StatisticSimulator):
    """The sum of n clipped normal records of known standard deviation."""

    n: int
    deviation: float
    bounds: tuple[float, float]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The mean."""
        return (Parameter("mean"),)

    @property
    def cells(self) -> int:
        """One for each record."""
        return self.n

    @property
    def direction(self) -> int:
        """1: each record rises with the mean."""
        return 1

    def base(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Standard normal numbers, shape (count, n)."""
        return rng.standard_normal((count, self.n))

    def statistics(self, base: FloatArray, theta: Theta) -> FloatArray:
        """The sums, shape (count, 1)."""
        rows = self.deviation * base
        rows += float(theta["mean"])
        return np.clip(rows, *self.bounds, out=rows).sum(axis=1)[:, None]


@frozen_value
class NormalMoments(StatisticSimulator):
    """The first two moments of n clipped normal records."""

    model: NormalUnknownVariance
    n: int

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Mean and variance."""
        return Parameter("mean"), Parameter("variance", (), 0.0)

    @property
    def cells(self) -> int:
        """One for each record."""
        return self.n

    def plug_in(self, statistic: FloatArray) -> Theta:
        """Mean and variance of records with these moments."""
        ((_, first), (_, second)) = self.model.moments.gram_in_units(self.model.feasible(statistic, self.n), self.n)
        mean = first / self.n
        return {"mean": np.asarray(mean), "variance": np.asarray(max(second / self.n - mean**2, 0.0))}

    def base(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Standard normal numbers, shape (count, n)."""
        return rng.standard_normal((count, self.n))

    def statistics(self, base: FloatArray, theta: Theta) -> FloatArray:
        """The moments, shape (count, 2)."""
        rows = float(theta["variance"]) ** 0.5 * base
        rows += float(theta["mean"])
        return _moments(self.model, rows[..., None])


@frozen_value
class RegressionMoments(StatisticSimulator):
    """The first two moments of n clipped rows: normal features, and a target that is linear in them plus noise."""

    model: LinearRegression
    n: int

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Coefficients, intercept and variance; mean of the features and the Cholesky factor of their covariance."""
        width = self._width
        return (
            Parameter("coefficients", (width,)),
            Parameter("intercept"),
            Parameter("variance", (), 0.0),
            Parameter("feature_mean", (width,)),
            Parameter("feature_root", (width, width)),
        )

    @property
    def cells(self) -> int:
        """One for each number of each record."""
        return self.n * (self._width + 1)

    def plug_in(self, statistic: FloatArray) -> Theta:
        """The least-squares line, and the moments of the features, of rows with these moments."""
        width = self._width
        gram = self.model.moments.gram_in_units(self.model.feasible(statistic, self.n), self.n) / self.n
        line = np.linalg.lstsq(gram[:-1, :-1], gram[:-1, -1], rcond=1e-10)[0]
        mean = gram[width, :width]
        values, vectors = np.linalg.eigh(gram[:width, :width] - np.outer(mean, mean))
        covariance = (vectors * np.maximum(values, 1e-6 * self.model.moments.units[:-1].min() ** 2)) @ vectors.T
        return {
            "coefficients": line[:width],
            "intercept": np.asarray(line[width]),
            "variance": np.asarray(max(float(gram[-1, -1] - gram[:-1, -1] @ line), 0.0)),
            "feature_mean": mean,
            "feature_root": np.linalg.cholesky(covariance),
        }

    def base(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Standard normal numbers, shape (count, n, features + 1)."""
        return rng.standard_normal((count, self.n, self._width + 1))

    def statistics(self, base: FloatArray, theta: Theta) -> FloatArray:
        """The moments, shape (count, coordinates)."""
        rows = np.empty_like(base)
        np.matmul(base[..., :-1], np.tril(theta["feature_root"]).T, out=rows[..., :-1])
        rows[..., :-1] += theta["feature_mean"]
        rows[..., -1] = rows[..., :-1] @ theta["coefficients"]
        rows[..., -1] += theta["intercept"] + theta["variance"] ** 0.5 * base[..., -1]
        return _moments(self.model, rows)

    @property
    def _width(self) -> int:
        return len(self.model.feature_bounds)


def _moments(model: MomentModel, rows: FloatArray) -> FloatArray:
    """The statistics of blocks of rows, shape (count, n, columns), as `model.statistic` computes that of one block."""
    own = model.moments
    scaled = [(np.clip(rows[..., j], *own.bounds[j]) - own.middles[j]) / own.units[j] for j in range(len(own.bounds))]
    found = [
        scaled[j - 1].sum(axis=1) if i == 0 else np.einsum("rn,rn->r", scaled[i - 1], scaled[j - 1])
        for i, j in zip(*own.pairs, strict=True)
    ]
    return np.column_stack(found) * own.weights


def _cleaned(domain: Any, values: FloatArray) -> FloatArray:
    return np.asarray(domain.clean(values.ravel()), dtype=np.float64).reshape(values.shape)


def statistics_of_records(model: Model, records: FloatArray) -> FloatArray:
    """The statistics of blocks of records, shape (count, n) or (count, n, columns), after the public rule.

    Returns shape (count, coordinates). A model with a statistic of its own computes one block after another.
    """
    if isinstance(model, MomentModel):
        rows = records if records.ndim == 3 else records[..., None]
        return _moments(model, np.where(np.isnan(rows), model.moments.middles, rows))
    if isinstance(model, DirichletCategorical):
        codes, size = _cleaned(model.domain, records).astype(np.int64), len(model.alpha)
        places = codes + size * np.arange(len(codes))[:, None]
        return np.bincount(places.ravel(), minlength=size * len(codes)).reshape(-1, size).astype(np.float64)
    if type(model).statistic is Model.statistic:
        return _cleaned(model.domain, records).sum(axis=1)[:, None]
    return np.array([np.ravel(model.statistic(block)) for block in records])


@frozen_value
class GivenRecords(StatisticSimulator):
    """Statistics of records of any distribution that can be simulated: the caller's function of the parameters."""

    model: Model
    n: int
    records: Records
    names: tuple[str, ...]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The arguments of the function, single numbers."""
        return tuple(Parameter(name) for name in self.names)

    @property
    def cells(self) -> int:
        """One for each number of each record."""
        return self.n * _columns(self.model)

    def base(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Seeds of the caller's distribution, which draws all data sets of a block at once; shape (count, 4)."""
        return rng.integers(2**32, size=(count, 4)).astype(np.float64)

    def statistics(self, base: FloatArray, theta: Theta) -> FloatArray:
        """The statistics, shape (count, coordinates)."""
        source = np.random.default_rng(base[0].astype(np.uint32))
        values = {name: float(theta[name]) for name in self.names}
        drawn = drawn_records(self.records, values, len(base), self.n, self.model, source)
        return statistics_of_records(self.model, drawn)


@frozen_value
class ModelRecords(StatisticSimulator):
    """Statistics of records that a model simulates itself, for models of the user's own."""

    model: Model
    n: int

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameter of the model."""
        return (Parameter(self.model.parameter, self.model.draw_shape),)

    @property
    def cells(self) -> int:
        """One for each record."""
        return self.n

    def base(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Seeds of the model, shape (count, 4)."""
        return rng.integers(2**32, size=(count, 4)).astype(np.float64)

    def statistics(self, base: FloatArray, theta: Theta) -> FloatArray:
        """The statistics, shape (count, coordinates)."""
        source = np.random.default_rng(base[0].astype(np.uint32))
        drawn = np.asarray(self.model.simulate(theta[self.model.parameter], len(base) * self.n, source))
        return statistics_of_records(self.model, drawn.reshape(len(base), self.n, *drawn.shape[1:]))


def drawn_records(
    records: Records, theta: Mapping[str, float], count: int, n: int, model: Model, rng: np.random.Generator
) -> FloatArray:
    """Records of the caller's distribution in blocks, shape (count, n) or (count, n, columns).

    Raises TypeError or ValueError, with the call, if there is no distribution at these parameters.
    """
    call = f"records({', '.join(f'{name}={value:g}' for name, value in theta.items())})"
    try:
        distribution = records(**theta)
    except Exception as error:
        raise ValueError(f"{call} failed: {type(error).__name__}: {error}; {_ADVICE}") from error
    if not callable(getattr(distribution, "rvs", None)) or isinstance(distribution, type):
        raise TypeError(
            "records must return a distribution with rvs(size=, random_state=), such as scipy.stats.norm(0, 1), got "
            f"{type(distribution).__name__}"
        )
    try:
        drawn = distribution.rvs(size=count * n, random_state=rng)
    except Exception as error:
        raise ValueError(f"{call} cannot draw records: {type(error).__name__}: {error}; {_ADVICE}") from error
    columns, found = _columns(model), numbers_of(drawn, "rvs of the records")
    wanted = (count * n,) if columns == 1 else (count * n, columns)
    if found.size != count * n * columns or (columns > 1 and found.shape != wanted):
        raise ValueError(
            f"records must return a distribution whose rvs(size={count * n}) has the shape {wanted}, got {found.shape}"
        )
    if np.isnan(found).any():
        raise ValueError(f"{call} drew NaN; {_ADVICE}")
    return found.reshape((count, n) if columns == 1 else (count, n, columns))


def _columns(model: Model) -> int:
    return len(model.moments.bounds) if isinstance(model, MomentModel) else 1


def simulator_of(model: Model, n: int) -> StatisticSimulator:
    """The simulator of a model's own records. Raises TypeError if the model states no distribution of records."""
    make = _SIMULATORS.get(type(model))
    if make is not None and not getattr(model, "fractional", False):
        return make(model, n)
    if make is not None or type(model).simulate is Model.simulate:
        raise TypeError(
            f"{'fractional records of ' if make else ''}{type(model).__name__} have no distribution that could be "
            "simulated: pass records=, a function of the parameters that returns a distribution of one record"
        )
    return ModelRecords(model=model, n=n)


_SIMULATORS: dict[type, Callable[[Any, int], StatisticSimulator]] = {
    BetaBernoulli: lambda _, n: BernoulliCounts(n=n),
    DirichletCategorical: lambda model, n: CategoryCounts(n=n, categories=len(model.alpha)),
    GammaPoisson: lambda model, n: PoissonSums(n=n, upper=model.upper),
    GammaExponential: lambda model, n: ExponentialSums(n=n, upper=model.upper),
    NormalKnownVariance: lambda model, n: NormalSums(n=n, deviation=model.noise_variance**0.5, bounds=model.bounds),
    NormalUnknownVariance: lambda model, n: NormalMoments(model=model, n=n),
    LinearRegression: lambda model, n: RegressionMoments(model=model, n=n),
}
