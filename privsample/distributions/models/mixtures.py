"""Mixtures of conjugate posteriors, one component for each value of a hidden statistic."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample._value import frozen_value, set_fields
from privsample.distributions.parametric.conjugate import PosteriorDistribution

_BLOCK = 1 << 20  # entries of one table of densities
_STEPS = 100
_SMALLEST = -50.0  # log of the ratio to the largest weight below which a component is omitted


class Family(NamedTuple):
    """A family of distributions with two parameters; all functions are elementwise in both."""

    name: str
    support: tuple[float, float]
    mean: Callable[[FloatArray, FloatArray], FloatArray]
    variance: Callable[[FloatArray, FloatArray], FloatArray]
    log_density: Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
    below: Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
    sample: Callable[[np.random.Generator, FloatArray, FloatArray], FloatArray]


FAMILIES = {
    family.name: family
    for family in (
        Family(
            name="Beta",
            support=(0.0, 1.0),
            mean=lambda a, b: a / (a + b),
            variance=lambda a, b: a / (a + b) * (b / (a + b)) / (a + b + 1),
            log_density=lambda x, a, b: special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b),
            below=lambda x, a, b: special.betainc(a, b, np.clip(x, 0.0, 1.0)),
            sample=lambda rng, a, b: rng.beta(a, b),
        ),
        Family(
            name="Gamma",
            support=(0.0, np.inf),
            mean=lambda shape, rate: shape / rate,
            variance=lambda shape, rate: shape / rate / rate,
            log_density=lambda x, k, r: k * np.log(r) - special.gammaln(k) + special.xlogy(k - 1, x) - r * x,
            below=lambda x, shape, rate: special.gammainc(shape, rate * np.maximum(x, 0.0)),
            sample=lambda rng, shape, rate: rng.gamma(shape, 1 / rate),
        ),
        Family(
            name="Normal",
            support=(-np.inf, np.inf),
            mean=lambda location, scale: location + 0 * scale,
            variance=lambda location, scale: scale**2 + 0 * location,
            log_density=lambda x, m, s: -0.5 * ((x - m) / s) ** 2 - np.log(s) - 0.5 * np.log(2 * np.pi),
            below=lambda x, location, scale: special.ndtr((x - location) / scale),
            sample=lambda rng, location, scale: rng.normal(location, scale),
        ),
    )
}


@frozen_value
class ConjugateMixture(PosteriorDistribution):
    """A mixture of distributions of one family, a name in FAMILIES.

    Parameters and log weights have shape (components,). Weights are normalised; components with a weight below e^-50 of
    the largest are omitted.
    """

    family: str
    first: FloatArray
    second: FloatArray
    log_weights: FloatArray

    def __post_init__(self) -> None:
        log_weights = np.asarray(self.log_weights, dtype=np.float64)
        kept = log_weights > log_weights.max() + _SMALLEST
        log_weights = log_weights[kept] - np.logaddexp.reduce(log_weights[kept])
        arrays = [np.broadcast_to(np.asarray(p, dtype=np.float64), kept.shape)[kept] for p in (self.first, self.second)]
        for array in (*arrays, log_weights):
            array.flags.writeable = False
        set_fields(self, first=arrays[0], second=arrays[1], log_weights=log_weights)

    @property
    def _family(self) -> Family:
        return FAMILIES[self.family]

    @property
    def weights(self) -> FloatArray:
        """The probabilities of the components."""
        return np.exp(self.log_weights)

    @property
    def mean(self) -> FloatArray:
        """The mean of the mixture."""
        return np.asarray(self.weights @ self._family.mean(self.first, self.second))

    @property
    def variance(self) -> FloatArray:
        """The variance of the mixture: the variance within components plus the variance between their means."""
        means, within = (f(self.first, self.second) for f in (self._family.mean, self._family.variance))
        return np.asarray(self.weights @ (within + (means - self.mean) ** 2))

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw a component for each draw, then from it; shape (size,)."""
        steps = np.cumsum(self.weights)
        chosen = np.searchsorted(steps, rng.random(size) * steps[-1], side="right")
        chosen = np.minimum(chosen, len(steps) - 1)
        return self._family.sample(rng, self.first[chosen], self.second[chosen])

    def log_density(self, x: FloatArray) -> FloatArray:
        """Elementwise."""
        x = np.asarray(x, dtype=np.float64)
        with np.errstate(divide="ignore"):
            return self._blockwise(
                x, lambda at: np.logaddexp.reduce(self._family.log_density(at, *self._own) + self.log_weights, axis=1)
            )

    def below(self, x: FloatArray) -> FloatArray:
        """The distribution function, elementwise."""
        return self._blockwise(
            np.asarray(x, dtype=np.float64), lambda at: self._family.below(at, *self._own) @ self.weights
        )

    def quantile(self, q: FloatArray) -> FloatArray:
        """Quantiles, elementwise, by Newton steps, or bisection steps where Newton leaves the bracket."""
        shares = np.asarray(q, dtype=np.float64)
        goal, least, most = shares.ravel(), *self._family.support
        spread = np.sqrt(self.variance)
        low, high = np.full(goal.shape, self.mean), np.full(goal.shape, self.mean)
        while (short := (self.below(low) > goal) & (low > least)).any():
            low = np.where(short, np.maximum(2 * low - self.mean - spread, least), low)
        while (short := (self.below(high) < goal) & (high < most)).any():
            high = np.where(short, np.minimum(2 * high - self.mean + spread, most), high)
        x = np.clip(self.mean + spread * special.ndtri(np.clip(goal, 1e-15, 1 - 1e-15)), low, high)
        for _ in range(_STEPS):
            excess = self.below(x) - goal
            low, high = np.where(excess <= 0, x, low), np.where(excess >= 0, x, high)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                step = x - excess / np.exp(self.log_density(x))
            new = np.where((step > low) & (step < high), step, low / 2 + high / 2)
            if np.all(np.abs(new - x) <= 1e-13 * np.abs(x)):
                break
            x = new
        return np.where(goal <= 0, least, np.where(goal >= 1, most, x)).reshape(shares.shape)

    def relative_entropy(self, other: PosteriorDistribution) -> float:
        """The divergence has no closed form; raises TypeError."""
        raise TypeError(f"the relative entropy of a mixture to a {type(other).__name__} has no closed form")

    @property
    def _own(self) -> tuple[FloatArray, FloatArray]:
        return self.first, self.second

    def _blockwise(self, x: FloatArray, row: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Apply `row` to arguments of shape (k, 1) against all components, in blocks that fit in memory."""
        flat, result = x.reshape(-1, 1), np.empty(x.size)
        step = max(_BLOCK // len(self.log_weights), 1)
        for start in range(0, x.size, step):
            result[start : start + step] = row(flat[start : start + step])
        return result.reshape(x.shape)


@frozen_value
class TwoCategoryDistribution(PosteriorDistribution):
    """The distribution of (theta, 1 - theta), where theta has the distribution `share`."""

    share: PosteriorDistribution

    @property
    def mean(self) -> FloatArray:
        """The mean of both shares, shape (2,)."""
        return np.array([self.share.mean, 1 - self.share.mean])

    @property
    def variance(self) -> FloatArray:
        """The variance of both shares, shape (2,); they are equal."""
        return np.array([self.share.variance, self.share.variance])

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Shape (size, 2)."""
        first = self.share.sample(size, rng)
        return np.column_stack([first, 1 - first])

    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density of the first share; x of shape (..., 2)."""
        return self.share.log_density(np.asarray(x)[..., 0])

    def quantile(self, q: FloatArray) -> FloatArray:
        """Quantiles of the first share."""
        return self.share.quantile(q)

    def relative_entropy(self, other: PosteriorDistribution) -> float:
        """The divergence of the first share in nats, equal to that of the pair."""
        assert isinstance(other, TwoCategoryDistribution)
        return self.share.relative_entropy(other.share)
