"""Simulated statistics of clipped records as functions of the parameters, from the same random numbers for all values.

A simulator turns base draws, which do not depend on the parameters, into statistics of n records. Base draws are made
once, so a statistic changes with the parameters only (common random numbers; docs/notes/confidence.md, section 1).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.dirichlet_categorical import DirichletCategorical
from privsample.distributions.models.gamma_exponential import GammaExponential
from privsample.distributions.models.gamma_poisson import GammaPoisson
from privsample.distributions.models.moments import NormalUnknownVariance
from privsample.distributions.models.normal_known_variance import NormalKnownVariance
from privsample.distributions.models.regression import LinearRegression
from privsample.inference.record_blocks import moments_of_blocks

Theta = Mapping[str, FloatArray]
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
            # SciPy has no quantiles of means near 1e12 and beyond; the comparison is false for NaN
            quantile = float(stats.poisson.ppf(base.max(), rate))
            most = int(quantile) if quantile < self.upper else self.upper
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
        return moments_of_blocks(self.model, rows[..., None])


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
        return moments_of_blocks(self.model, rows)

    @property
    def _width(self) -> int:
        return len(self.model.feature_bounds)


MODEL_SIMULATORS: dict[type, Callable[[Any, int], StatisticSimulator]] = {
    BetaBernoulli: lambda _, n: BernoulliCounts(n=n),
    DirichletCategorical: lambda model, n: CategoryCounts(n=n, categories=len(model.alpha)),
    GammaPoisson: lambda model, n: PoissonSums(n=n, upper=model.upper),
    GammaExponential: lambda model, n: ExponentialSums(n=n, upper=model.upper),
    NormalKnownVariance: lambda model, n: NormalSums(n=n, deviation=model.noise_variance**0.5, bounds=model.bounds),
    NormalUnknownVariance: lambda model, n: NormalMoments(model=model, n=n),
    LinearRegression: lambda model, n: RegressionMoments(model=model, n=n),
}
