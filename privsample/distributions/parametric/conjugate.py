"""The distributions of conjugate posteriors: density, moments, relative entropy and exact samplers."""

from abc import ABC, abstractmethod
from dataclasses import field

import numpy as np
from scipy import special

from privsample._checks import FloatArray, finite, inner_probability, listed, positive
from privsample._value import frozen_value, set_fields


class PosteriorDistribution(ABC):
    """The distribution of one parameter, which is a number or a vector of public length."""

    __slots__ = ()
    group_axes = 0  # leading axes of the mean that number groups

    @property
    @abstractmethod
    def mean(self) -> FloatArray:
        """The expectation, shape () or (K,)."""

    @property
    @abstractmethod
    def variance(self) -> FloatArray:
        """The variance of each coordinate, shape () or (K,)."""

    @abstractmethod
    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent exact draws.

        Parameters
        ----------
        size : int
            Number of draws, >= 0.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        array of shape (size,) or (size, K)
            The draws.
        """

    @abstractmethod
    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density at x.

        Parameters
        ----------
        x : array of shape (...) or (..., K)
            Values of the parameter.

        Returns
        -------
        array of shape (...)
            Log densities, in nats.
        """

    @abstractmethod
    def quantile(self, q: FloatArray) -> FloatArray:
        """Quantiles of the distribution; of the first coordinate if the parameter is a vector.

        Parameters
        ----------
        q : array
            Probabilities in [0, 1].

        Returns
        -------
        array
            Quantiles, of the shape of `q`.
        """

    def interval(self, probability: float = 0.9) -> FloatArray:
        """Equal-tailed credible interval of a number.

        Parameters
        ----------
        probability : float, default 0.9
            Probability between the ends, in (0, 1).

        Returns
        -------
        array of shape (2,) or (2, groups)
            The ends: `low, high = posterior.interval()`.

        Raises
        ------
        TypeError
            If the parameter is a vector: take the interval of its draws.
        ValueError
            If `probability` lies outside (0, 1).
        """
        given = inner_probability(probability)
        if self.mean.ndim > self.group_axes:
            raise TypeError("the parameter is a vector, whose intervals follow from draws: use .draw(1000).interval()")
        return self.quantile(np.array([(1.0 - given) / 2, (1.0 + given) / 2]))

    @abstractmethod
    def relative_entropy(self, other: "PosteriorDistribution") -> float:
        """Kullback-Leibler divergence KL(self || other).

        Parameters
        ----------
        other : PosteriorDistribution
            A distribution of the same family.

        Returns
        -------
        float
            The divergence in nats, finite and >= 0.
        """


@frozen_value
class Beta(PosteriorDistribution):
    """Beta(a, b) distribution on (0, 1).

    Parameters
    ----------
    a, b : float
        Shape parameters, finite and > 0.

    Raises
    ------
    ValueError
        If a parameter is not finite and > 0.

    Examples
    --------
    >>> import privsample as ps
    >>> print(f"{ps.Beta(a=2, b=6).mean:.2f}")
    0.25
    """

    a: float = field(kw_only=False)
    b: float = field(kw_only=False)

    def __post_init__(self) -> None:
        set_fields(self, a=positive(a=self.a), b=positive(b=self.b))

    @property
    def mean(self) -> FloatArray:
        """The mean a / (a + b)."""
        return np.asarray(self.a / (self.a + self.b))

    @property
    def variance(self) -> FloatArray:
        """The variance ab / ((a + b)^2 (a + b + 1))."""
        total = self.a + self.b
        return np.asarray(self.a / total * (self.b / total) / (total + 1))

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws by NumPy, shape (size,)."""
        return rng.beta(self.a, self.b, size)

    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density, elementwise."""
        return special.xlogy(self.a - 1, x) + special.xlog1py(self.b - 1, -x) - special.betaln(self.a, self.b)

    def quantile(self, q: FloatArray) -> FloatArray:
        """Quantiles by the inverse regularised incomplete beta function, elementwise."""
        return special.betaincinv(self.a, self.b, q)

    def relative_entropy(self, other: PosteriorDistribution) -> float:
        """Kullback-Leibler divergence in nats, by the Dirichlet formula with two coordinates."""
        assert isinstance(other, Beta)
        return Dirichlet(alpha=(self.a, self.b)).relative_entropy(Dirichlet(alpha=(other.a, other.b)))


@frozen_value
class Dirichlet(PosteriorDistribution):
    """Dirichlet(alpha) distribution on the probability simplex.

    Parameters
    ----------
    alpha : tuple of float
        Concentration parameters, shape (K,), each finite and > 0.

    Raises
    ------
    TypeError
        If `alpha` is not a list of numbers.
    ValueError
        If a parameter is not finite and > 0.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.Dirichlet(alpha=(1, 1, 2)).mean
    array([0.25, 0.25, 0.5 ])
    """

    alpha: tuple[float, ...] = field(kw_only=False)

    def __post_init__(self) -> None:
        set_fields(self, alpha=tuple(positive(**{f"alpha[{i}]": a}) for i, a in enumerate(listed(alpha=self.alpha))))

    @property
    def mean(self) -> FloatArray:
        """The mean alpha / sum(alpha), shape (K,)."""
        alpha = np.array(self.alpha)
        return alpha / alpha.sum()

    @property
    def variance(self) -> FloatArray:
        """The variance of each coordinate, shape (K,)."""
        return self.mean * (1 - self.mean) / (sum(self.alpha) + 1)

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws by NumPy, shape (size, K)."""
        return rng.dirichlet(self.alpha, size)

    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density at x of shape (..., K)."""
        alpha = np.array(self.alpha)
        return special.xlogy(alpha - 1, x).sum(-1) + special.gammaln(alpha.sum()) - special.gammaln(alpha).sum()

    def quantile(self, q: FloatArray) -> FloatArray:
        """Quantiles of the first coordinate, whose distribution is Beta(alpha_1, sum of the others)."""
        return special.betaincinv(self.alpha[0], sum(self.alpha[1:]), q)

    def relative_entropy(self, other: PosteriorDistribution) -> float:
        """Kullback-Leibler divergence in nats, by the closed form; error about 1e-16 of the log-Gamma terms."""
        assert isinstance(other, Dirichlet)
        p, q = np.array(self.alpha), np.array(other.alpha)
        constants = (
            special.gammaln(p.sum()) - special.gammaln(q.sum()) + (special.gammaln(q) - special.gammaln(p)).sum()
        )
        return max(0.0, float(constants + ((p - q) * (special.digamma(p) - special.digamma(p.sum()))).sum()))


@frozen_value
class Gamma(PosteriorDistribution):
    """Gamma(shape, rate) distribution on (0, inf).

    Parameters
    ----------
    shape : float
        Shape, finite and > 0.
    rate : float
        Rate, the inverse of the scale, finite and > 0.

    Raises
    ------
    ValueError
        If a parameter is not finite and > 0.

    Examples
    --------
    >>> import privsample as ps
    >>> print(f"{ps.Gamma(shape=3, rate=2).mean:.1f}")
    1.5
    """

    shape: float = field(kw_only=False)
    rate: float = field(kw_only=False)

    def __post_init__(self) -> None:
        set_fields(self, shape=positive(shape=self.shape), rate=positive(rate=self.rate))

    @property
    def mean(self) -> FloatArray:
        """The mean shape / rate."""
        return np.asarray(self.shape / self.rate)

    @property
    def variance(self) -> FloatArray:
        """The variance shape / rate^2."""
        return np.asarray(self.shape / self.rate / self.rate)

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws by NumPy, shape (size,)."""
        return rng.gamma(self.shape, 1 / self.rate, size)

    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density, elementwise."""
        constant = self.shape * np.log(self.rate) - special.gammaln(self.shape)
        return special.xlogy(self.shape - 1, x) - self.rate * x + constant

    def quantile(self, q: FloatArray) -> FloatArray:
        """Quantiles by the inverse regularised incomplete gamma function, elementwise."""
        return special.gammaincinv(self.shape, q) / self.rate

    def relative_entropy(self, other: PosteriorDistribution) -> float:
        """Kullback-Leibler divergence in nats, by the closed form."""
        assert isinstance(other, Gamma)
        p, q = self, other
        shapes = (p.shape - q.shape) * special.digamma(p.shape) - special.gammaln(p.shape) + special.gammaln(q.shape)
        rates = q.shape * np.log(p.rate / q.rate) + p.shape * (q.rate - p.rate) / p.rate
        return max(0.0, float(shapes + rates))


@frozen_value
class Normal(PosteriorDistribution):
    """Normal distribution with mean `location` and standard deviation `scale`.

    Parameters
    ----------
    location : float
        Mean, finite.
    scale : float
        Standard deviation, finite and > 0.

    Raises
    ------
    ValueError
        If `location` is not finite, or `scale` not finite and > 0.

    Examples
    --------
    >>> import privsample as ps
    >>> print(f"{ps.Normal(location=0, scale=2).quantile(0.975):.2f}")
    3.92
    """

    location: float = field(kw_only=False)
    scale: float = field(kw_only=False)

    def __post_init__(self) -> None:
        set_fields(self, location=finite(location=self.location), scale=positive(scale=self.scale))

    @property
    def mean(self) -> FloatArray:
        """The mean, `location`."""
        return np.asarray(self.location)

    @property
    def variance(self) -> FloatArray:
        """The variance, `scale` squared."""
        return np.asarray(self.scale**2)

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws by NumPy, shape (size,)."""
        return rng.normal(self.location, self.scale, size)

    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density, elementwise."""
        return -0.5 * ((x - self.location) / self.scale) ** 2 - np.log(self.scale) - 0.5 * np.log(2 * np.pi)

    def quantile(self, q: FloatArray) -> FloatArray:
        """Quantiles by the inverse normal distribution function, elementwise."""
        return self.location + self.scale * special.ndtri(q)

    def relative_entropy(self, other: PosteriorDistribution) -> float:
        """Kullback-Leibler divergence in nats, by the closed form."""
        assert isinstance(other, Normal)
        ratio = (self.scale / other.scale) ** 2
        shift = ((self.location - other.location) / other.scale) ** 2
        return max(0.0, float(0.5 * (ratio - 1 - np.log(ratio) + shift)))
