"""The distributions that conjugate posteriors follow: density, moments, relative entropy, exact sampler."""

from abc import ABC, abstractmethod

import numpy as np
from scipy import special

from privsample._checks import FloatArray, finite, listed, positive
from privsample._value import frozen_value, set_fields


class PosteriorDistribution(ABC):
    """A distribution of one parameter: a number, or a vector of public length."""

    __slots__ = ()

    @property
    @abstractmethod
    def mean(self) -> FloatArray:
        """Expectation, shape ()  or (K,)."""

    @property
    @abstractmethod
    def variance(self) -> FloatArray:
        """Variance of each coordinate, shape () or (K,)."""

    @abstractmethod
    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent exact draws, shape (size,) or (size, K)."""

    @abstractmethod
    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density at x, shape (...) or (..., K) to (...)."""

    @abstractmethod
    def quantile(self, q: FloatArray) -> FloatArray:
        """Quantiles of the distribution (of the first coordinate, where it is a vector)."""

    @abstractmethod
    def relative_entropy(self, other: "PosteriorDistribution") -> float:
        """KL(self || other) in nats, for a distribution of the same family; infinite never occurs on open parameter
        sets.
        """


@frozen_value
class Beta(PosteriorDistribution):
    """Beta(a, b) on (0, 1)."""

    a: float
    b: float

    def __post_init__(self) -> None:
        set_fields(self, a=positive(a=self.a), b=positive(b=self.b))

    @property
    def mean(self) -> FloatArray:
        """a / (a + b)."""
        return np.asarray(self.a / (self.a + self.b))

    @property
    def variance(self) -> FloatArray:
        """ab / ((a + b)^2 (a + b + 1))."""
        total = self.a + self.b
        return np.asarray(self.a / total * (self.b / total) / (total + 1))

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Shape (size,)."""
        return rng.beta(self.a, self.b, size)

    def log_density(self, x: FloatArray) -> FloatArray:
        """Elementwise."""
        return special.xlogy(self.a - 1, x) + special.xlog1py(self.b - 1, -x) - special.betaln(self.a, self.b)

    def quantile(self, q: FloatArray) -> FloatArray:
        """Elementwise."""
        return special.betaincinv(self.a, self.b, q)

    def relative_entropy(self, other: PosteriorDistribution) -> float:
        """By the Dirichlet formula with two coordinates."""
        assert isinstance(other, Beta)
        return Dirichlet(alpha=(self.a, self.b)).relative_entropy(Dirichlet(alpha=(other.a, other.b)))


@frozen_value
class Dirichlet(PosteriorDistribution):
    """Dirichlet(alpha) on the simplex."""

    alpha: tuple[float, ...]

    def __post_init__(self) -> None:
        set_fields(self, alpha=tuple(positive(**{f"alpha[{i}]": a}) for i, a in enumerate(listed(alpha=self.alpha))))

    @property
    def mean(self) -> FloatArray:
        """alpha / sum(alpha)."""
        alpha = np.array(self.alpha)
        return alpha / alpha.sum()

    @property
    def variance(self) -> FloatArray:
        """Of each coordinate."""
        return self.mean * (1 - self.mean) / (sum(self.alpha) + 1)

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Shape (size, K)."""
        return rng.dirichlet(self.alpha, size)

    def log_density(self, x: FloatArray) -> FloatArray:
        """x of shape (..., K)."""
        alpha = np.array(self.alpha)
        return special.xlogy(alpha - 1, x).sum(-1) + special.gammaln(alpha.sum()) - special.gammaln(alpha).sum()

    def quantile(self, q: FloatArray) -> FloatArray:
        """Of the first coordinate, which is a Beta."""
        return special.betaincinv(self.alpha[0], sum(self.alpha[1:]), q)

    def relative_entropy(self, other: PosteriorDistribution) -> float:
        """Standard; accurate to about 1e-16 of the log-Gamma terms."""
        assert isinstance(other, Dirichlet)
        p, q = np.array(self.alpha), np.array(other.alpha)
        constants = (
            special.gammaln(p.sum()) - special.gammaln(q.sum()) + (special.gammaln(q) - special.gammaln(p)).sum()
        )
        return max(0.0, float(constants + ((p - q) * (special.digamma(p) - special.digamma(p.sum()))).sum()))


@frozen_value
class Gamma(PosteriorDistribution):
    """Gamma(shape, rate) on (0, inf)."""

    shape: float
    rate: float

    def __post_init__(self) -> None:
        set_fields(self, shape=positive(shape=self.shape), rate=positive(rate=self.rate))

    @property
    def mean(self) -> FloatArray:
        """shape / rate."""
        return np.asarray(self.shape / self.rate)

    @property
    def variance(self) -> FloatArray:
        """shape / rate^2."""
        return np.asarray(self.shape / self.rate / self.rate)

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Shape (size,)."""
        return rng.gamma(self.shape, 1 / self.rate, size)

    def log_density(self, x: FloatArray) -> FloatArray:
        """Elementwise."""
        constant = self.shape * np.log(self.rate) - special.gammaln(self.shape)
        return special.xlogy(self.shape - 1, x) - self.rate * x + constant

    def quantile(self, q: FloatArray) -> FloatArray:
        """Elementwise."""
        return special.gammaincinv(self.shape, q) / self.rate

    def relative_entropy(self, other: PosteriorDistribution) -> float:
        """Standard."""
        assert isinstance(other, Gamma)
        p, q = self, other
        shapes = (p.shape - q.shape) * special.digamma(p.shape) - special.gammaln(p.shape) + special.gammaln(q.shape)
        rates = q.shape * np.log(p.rate / q.rate) + p.shape * (q.rate - p.rate) / p.rate
        return max(0.0, float(shapes + rates))


@frozen_value
class Normal(PosteriorDistribution):
    """Normal with mean `location` and standard deviation `scale`."""

    location: float
    scale: float

    def __post_init__(self) -> None:
        set_fields(self, location=finite(location=self.location), scale=positive(scale=self.scale))

    @property
    def mean(self) -> FloatArray:
        """location."""
        return np.asarray(self.location)

    @property
    def variance(self) -> FloatArray:
        """scale squared."""
        return np.asarray(self.scale**2)

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Shape (size,)."""
        return rng.normal(self.location, self.scale, size)

    def log_density(self, x: FloatArray) -> FloatArray:
        """Elementwise."""
        return -0.5 * ((x - self.location) / self.scale) ** 2 - np.log(self.scale) - 0.5 * np.log(2 * np.pi)

    def quantile(self, q: FloatArray) -> FloatArray:
        """Elementwise."""
        return self.location + self.scale * special.ndtri(q)

    def relative_entropy(self, other: PosteriorDistribution) -> float:
        """Standard."""
        assert isinstance(other, Normal)
        ratio = (self.scale / other.scale) ** 2
        shift = ((self.location - other.location) / other.scale) ** 2
        return max(0.0, float(0.5 * (ratio - 1 - np.log(ratio) + shift)))
