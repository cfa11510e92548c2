"""Distributions of the number of repetitions: masses, probability generating function (PGF), quantiles, samplers.

Every function of a rank u takes the *complement* w = 1 - u, the proportion of outputs that are better. Near the best
rank, w is small and has full relative precision, where u would have been rounded to 1.
Source: Papernot and Steinke 2022, Definition 1, section 3.6, Appendices A.2 and E.1.
"""

from abc import ABC, abstractmethod
from numbers import Number
from typing import Any, Self

import numpy as np
from scipy import special

from privsample._checks import FloatArray, Real, finite, number, open_unit_interval, positive, positive_integer
from privsample._logspace import log1mexp, log_gamma_growth
from privsample._value import Memo, cached, frozen_value, set_fields
from privsample.distributions.exact.categorical import as_ball
from privsample.distributions.exact.counts import ExactCount, MassTerms, masses_between

_LEAST_GAMMA = 1e-15
_MOST_DRAWN = 9e18  # NumPy's largest Poisson mean, and the largest number of repetitions
_BLOCK = 1 << 17
FIXED_NUMBER = (
    "{} must be a distribution of the number of repetitions, got {}: a fixed number is refused, since the best of k "
    "can cost as much as all k together (Papernot and Steinke 2022, Proposition 17); a random number such as "
    "TruncatedNegativeBinomial.logarithmic(mean=10) costs far less, and FixedRepetitions(number=k) states that the "
    "cost of all k is wanted"
)
_NO_DISTRIBUTION = (
    "{} must be a distribution of the number of repetitions, got a {}: pass TabulatedRepetitions(probabilities=...), "
    "or TabulatedRepetitions.from_mass(distribution.pmf, maximum=...)"
)


class RepetitionDistribution(Memo, ABC):
    """A distribution of the number K of repetitions on 0, 1, 2, ..., with PGF f(u) = E u^K.

    If the number of repetitions is 0, a fixed public output is released.

    Attributes
    ----------
    mean : float
        The expectation E K = f'(1).
    maximum : float
        The largest possible number of repetitions; +inf if unbounded.
    """

    __slots__ = ()
    mean: float
    maximum: float

    @abstractmethod
    def log_mass(self, k: FloatArray) -> FloatArray:
        """Log probabilities log P(K = k).

        Parameters
        ----------
        k : array
            Whole numbers >= 0.

        Returns
        -------
        array
            Log probabilities, of the shape of `k`.
        """

    @abstractmethod
    def log_rank_probability(self, w: FloatArray) -> FloatArray:
        """Log probability that the best of K outputs is among the best proportion w: log(1 - f(1 - w)).

        Parameters
        ----------
        w : array
            Complements of ranks, in [0, 1].

        Returns
        -------
        array
            Log probabilities, of the shape of `w`.
        """

    @abstractmethod
    def log_pgf_derivative(self, w: FloatArray) -> FloatArray:
        """Log derivative of the PGF, log f'(1 - w): the log density of the rank of the best output.

        Parameters
        ----------
        w : array
            Complements of ranks, in [0, 1].

        Returns
        -------
        array
            Log derivatives, of the shape of `w`.
        """

    @abstractmethod
    def pgf_curvature(self, w: FloatArray) -> FloatArray:
        """Curvature of the PGF, f''(1 - w)/f'(1 - w).

        Parameters
        ----------
        w : array
            Complements of ranks, in [0, 1].

        Returns
        -------
        array
            Ratios >= 0, of the shape of `w`.
        """

    @abstractmethod
    def log_pgf(self, log_x: FloatArray) -> FloatArray:
        """Log PGF, log f(x), at x >= 1: the log moment generating function of K at log x.

        Parameters
        ----------
        log_x : array
            Logarithms of the arguments, >= 0.

        Returns
        -------
        array
            Values of the shape of `log_x`; +inf where the series diverges.
        """

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> int:
        """Draw one number of repetitions; the distributions of the library draw it exactly.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        int
            The number of repetitions.
        """

    def _exact_terms(self) -> MassTerms | None:
        """The masses as balls by their ratios, from which the number is drawn exactly; None if they are not known."""
        return None

    def _exact_masses(self, stop: int) -> list[Any] | None:
        """The masses of 0, ..., stop - 1 as balls, up to a common factor; None if they are not known."""
        terms = self._exact_terms()
        return None if terms is None else masses_between(terms, 0, stop)[1]

    @cached
    def _exact_count(self) -> ExactCount:
        """The distribution as one that is drawn exactly, where `_exact_terms` is known."""
        return ExactCount(self._exact_terms, self.maximum)

    @property
    def fixed_number(self) -> int | None:
        """The number of repetitions if it is not random; otherwise None."""
        return None

    @property
    def log_zero_probability(self) -> float:
        """The log probability of no repetition, log P(K = 0)."""
        return float(log1mexp(np.minimum(self.log_rank_probability(np.ones(())), 0.0)))

    def success(self, share: float) -> float:
        """Probability that the best output is among the best proportion `share` of outputs.

        Parameters
        ----------
        share : float
            Proportion in (0, 1]; 1/m if one of m settings is good.

        Returns
        -------
        float
            The probability 1 - f(1 - share).

        Raises
        ------
        ValueError
            If `share` is not in (0, 1].
        """
        return float(np.exp(self.log_rank_probability(np.asarray(open_unit_interval(share=share)))))

    @property
    def expected_quantile(self) -> float:
        """The expected rank of the best output, E K/(K + 1): the integral of 1 - f over [0, 1].

        Computed by tanh-sinh quadrature in the complement, where the integrand may rise steeply.
        """
        t = np.linspace(-4.0, 4.0, 801)
        x = np.pi / 2 * np.sinh(t)
        w, weight = special.expit(2 * x), np.pi * np.cosh(t) * special.expit(2 * x) * special.expit(-2 * x)
        return float(np.exp(self.log_rank_probability(w)) @ weight * (t[1] - t[0]))

    def tail(self, k: int) -> float:
        """Upper tail probability P(K >= k).

        Parameters
        ----------
        k : int
            Number of repetitions, >= 1.

        Returns
        -------
        float
            The probability, in [0, 1].
        """
        at, start, below = positive_integer(k=k), 0, 0.0
        while start < min(at, self.maximum + 1):
            end = min(at, start + _BLOCK)
            more = float(np.exp(self.log_mass(np.arange(start, end, dtype=np.float64))).sum())
            if more < 1e-17 and start > self.mean:  # beyond the mean the masses fall
                break
            start, below = end, below + more
        return float(np.clip(1.0 - below, 0.0, 1.0))

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        """Lower and upper bound on `pgf_curvature` at all ranks; (0, +inf) if none are known."""
        return 0.0, np.inf

    @property
    def rounding(self) -> float:
        """A bound on the rounding error of the logarithms, where masses are summed or large terms cancel."""
        return 0.0

    @abstractmethod
    def tilted(self, keep: float) -> "RepetitionDistribution":
        """The exponentially tilted distribution, with P(K' = k) proportional to P(K = k) keep^k.

        Parameters
        ----------
        keep : float
            Factor per repetition, in (0, 1]; for a base with infinity mass f, keep = 1 - f.

        Returns
        -------
        RepetitionDistribution
            The tilted distribution.

        Notes
        -----
        Source: Papernot and Steinke 2022, Lemma 20.
        """


def check_repetition_distribution(repetitions: Any, name: str = "repetitions") -> RepetitionDistribution:
    """The distribution, if it is one. Raises: TypeError; for a fixed number with the reason why it is refused."""
    if isinstance(repetitions, RepetitionDistribution):
        return repetitions
    if isinstance(repetitions, Number):
        raise TypeError(FIXED_NUMBER.format(name, repr(repetitions)))
    raise TypeError(_NO_DISTRIBUTION.format(name, type(repetitions).__name__))


def check_maximum(repetitions: RepetitionDistribution) -> int:
    """The largest number of repetitions, for a selection that always makes it. Raises ValueError if there is none."""
    if not repetitions.maximum < np.inf:
        raise ValueError(
            "repetitions must have a maximum with constant_time=True, which always makes that many runs, got "
            f"{type(repetitions).__name__}, whose number of runs is unbounded: pass TruncatedRepetitions("
            "distribution=..., maximum=...), whose account is that of the truncated distribution"
        )
    return int(repetitions.maximum)


@frozen_value
class TruncatedNegativeBinomial(RepetitionDistribution):
    """Truncated negative binomial distribution of the number of repetitions K >= 1.

    P(K = k) is proportional to (1 - gamma)^k (eta)(eta + 1)...(eta + k - 1)/k!. eta = 0 is the logarithmic
    distribution, eta = 1 the geometric distribution. A smaller eta costs less privacy and has a heavier tail.

    Parameters
    ----------
    eta : float
        Shape, finite and > -1.
    gamma : float
        Truncation parameter, in (0, 1), bounded below so that the number of repetitions can be sampled.

    Raises
    ------
    TypeError
        If a parameter is not a number.
    ValueError
        If a parameter is out of range.

    Notes
    -----
    Source: Papernot and Steinke 2022, Definition 1.

    Examples
    --------
    >>> import privsample as ps
    >>> print(f"{ps.TruncatedNegativeBinomial(eta=0, gamma=0.1).mean:.3f}")
    3.909
    """

    eta: float
    gamma: float

    def __post_init__(self) -> None:
        eta, gamma = finite(eta=self.eta), number(gamma=self.gamma)
        if not eta > -1.0:
            raise ValueError(f"eta must be > -1, got {self.eta!r}")
        if not (least := _least_gamma(eta)) <= gamma < 1.0:
            raise ValueError(
                f"gamma must lie in (0, 1), and be at least {least:.3g} to draw from with eta = {eta:g}, got "
                f"{self.gamma!r}; a smaller one would need more than {_MOST_DRAWN:g} repetitions"
            )
        set_fields(self, eta=eta, gamma=gamma)

    @classmethod
    def from_mean(cls, *, mean: float, eta: float = 0.0) -> Self:
        """The distribution with the given mean.

        Parameters
        ----------
        mean : float
            Expected number of repetitions, > 1.
        eta : float, default 0
            Shape, > -1.

        Returns
        -------
        TruncatedNegativeBinomial
            The distribution, with gamma found by root search.

        Raises
        ------
        ValueError
            If no distribution of this shape that can be sampled has this mean.
        """
        from scipy.optimize import brentq

        goal = np.log(_mean_above_one(mean))

        def excess(scale: float) -> float:
            return float(np.log(cls(eta=eta, gamma=np.exp(-scale)).mean) - goal)

        low, high = 1e-12, -np.log(_least_gamma(finite(eta=eta))) * (1 - 1e-15)
        if not (low < high and excess(low) <= 0.0 <= excess(high)):
            raise ValueError(
                f"no such distribution with eta = {eta:g} that can be sampled has mean {mean!r}; raise an eta below "
                "one, lower an eta above a thousand"
            )
        return cls(eta=eta, gamma=float(np.exp(-brentq(excess, low, high, xtol=1e-300, rtol=1e-14))))

    @classmethod
    def logarithmic(cls, *, mean: float) -> Self:
        """The logarithmic distribution (eta = 0) with the given mean.

        Parameters
        ----------
        mean : float
            Expected number of repetitions, > 1.

        Returns
        -------
        TruncatedNegativeBinomial
            The distribution.
        """
        return cls.from_mean(mean=mean, eta=0.0)

    @classmethod
    def geometric(cls, *, mean: float) -> Self:
        """The geometric distribution (eta = 1, gamma = 1/mean) with the given mean.

        Parameters
        ----------
        mean : float
            Expected number of repetitions, > 1.

        Returns
        -------
        TruncatedNegativeBinomial
            The distribution.
        """
        return cls(eta=1.0, gamma=1.0 / _mean_above_one(mean))

    @property
    def _length(self) -> float:
        """log(1/gamma)."""
        return float(-np.log(self.gamma))

    @property
    def rounding(self) -> float:
        """A bound on the rounding error of eta log(1/gamma), where gamma itself is rounded."""
        return 1e-15 * abs(self.eta) * (1.0 + self._length)

    @property
    def mean(self) -> float:  # type: ignore[override]
        """The mean eta (1 - gamma)/(gamma (1 - gamma^eta))."""
        length = self._length
        return float(np.expm1(length) / (length * special.exprel(-self.eta * length)))

    @property
    def maximum(self) -> float:  # type: ignore[override]
        """The maximum, +inf: the number of repetitions is unbounded."""
        return np.inf

    def log_mass(self, k: FloatArray) -> FloatArray:
        """Log probabilities by Papernot and Steinke 2022, Definition 1, through ratios of Gamma functions."""
        at, length = np.maximum(k, 1.0), self._length
        ratio = _log_rising(1.0 + self.eta, at - 1.0) - special.gammaln(at + 1.0)
        scale = at * np.log1p(-self.gamma) - np.log(length) - _log_exprel(np.asarray(self.eta * length))
        return np.where(k >= 1.0, ratio + scale, -np.inf)

    def _rise(self, w: FloatArray) -> FloatArray:
        """log(1 + (1/gamma - 1) w)."""
        return np.log1p(np.expm1(self._length) * w)

    def log_rank_probability(self, w: FloatArray) -> FloatArray:
        """log of (1 - e^(-eta t))/(1 - e^(-eta T)), with t = log(1 + (1/gamma - 1) w) and T = log(1/gamma)."""
        t, length = self._rise(w), self._length
        with np.errstate(divide="ignore"):
            ratio = np.log(t / length * special.exprel(-self.eta * t) / special.exprel(-self.eta * length))
        return np.minimum(ratio, 0.0)

    def log_pgf_derivative(self, w: FloatArray) -> FloatArray:
        """log E K - (1 + eta) t, with t = log(1 + (1/gamma - 1) w)."""
        return np.log(self.mean) - (1.0 + self.eta) * self._rise(w)

    def pgf_curvature(self, w: FloatArray) -> FloatArray:
        """(1 + eta)(1/gamma - 1) e^-t, with t = log(1 + (1/gamma - 1) w)."""
        return (1.0 + self.eta) * np.expm1(self._length) * np.exp(-self._rise(w))

    def log_pgf(self, log_x: FloatArray) -> FloatArray:
        """log of (e^(eta t) - 1)/(e^(eta T) - 1), with t = -log(1 - (1 - gamma) x) and T = log(1/gamma)."""
        reach = np.log1p(-self.gamma) + np.asarray(log_x)
        inside, length = reach < 0.0, self._length
        t = -log1mexp(np.where(inside, reach, -1.0))
        ratio = np.log(t / length) + _log_exprel(self.eta * t) - _log_exprel(self.eta * np.asarray(length))
        return np.where(inside, ratio, np.inf)

    def sample(self, rng: np.random.Generator) -> int:
        """Draw one number of repetitions exactly; beyond 1024 the time is proportional to the number."""
        return self._exact_count.draw(rng)

    def _exact_terms(self) -> MassTerms:
        """P(K = 1) = eta (1 - gamma)/(gamma^-eta - 1), or (1 - gamma)/log(1/gamma) for eta = 0, and the ratios."""
        eta, gamma = as_ball(self.eta), as_ball(self.gamma)
        length, kept = -gamma.log(), 1 - gamma
        first = kept / length if self.eta == 0.0 else eta * kept / (eta * length).expm1()
        return MassTerms(1, first, lambda k: kept * (eta + k) / (k + 1))

    def tilted(self, keep: float) -> "TruncatedNegativeBinomial":
        """The tilted distribution, which has gamma' = gamma + (1 - gamma)(1 - keep)."""
        gamma = self.gamma + (1.0 - self.gamma) * (1.0 - keep)
        return TruncatedNegativeBinomial(eta=self.eta, gamma=min(gamma, 1.0 - 2.0**-53))


def _least_gamma(eta: float) -> float:
    """The smallest gamma with which NumPy can draw the number of repetitions, except with probability 1e-30."""
    most = 1.0 + eta + 12.0 * np.sqrt(max(1.0 + eta, 0.0)) + 70.0  # of a Gamma(1 + eta) variable (Chernoff)
    return float(max(_LEAST_GAMMA, most / (most + _MOST_DRAWN)))


def _log_rising(x: Real, steps: FloatArray) -> FloatArray:
    """log of x (x + 1) ... (x + steps - 1) for x > 0, without the difference of two large log-Gamma values."""
    return log_gamma_growth(x, steps) + steps * np.log(x)


def _log_exprel(x: FloatArray) -> FloatArray:
    """log((e^x - 1)/x), also where e^x overflows."""
    large = np.maximum(x, 30.0)
    return np.where(x < 30.0, np.log(special.exprel(np.minimum(x, 30.0))), large + log1mexp(-large) - np.log(large))


def _mean_above_one(mean: float) -> float:
    result = positive(mean=mean)
    if not result > 1.0:
        raise ValueError(f"mean must be > 1, since there is at least one repetition, got {mean!r}")
    return result


@frozen_value
class Poisson(RepetitionDistribution):
    """Poisson distribution of the number of repetitions: P(K = k) = e^-mean mean^k/k!.

    No repetition is made with probability e^-mean; a fixed public output is then released.

    Parameters
    ----------
    mean : float
        Expected number of repetitions, in (0, 1e15].

    Raises
    ------
    ValueError
        If `mean` is not in (0, 1e15].

    Examples
    --------
    >>> import privsample as ps
    >>> print(f"{ps.Poisson(mean=10).success(0.1):.3f}")
    0.632
    """

    mean: float

    def __post_init__(self) -> None:
        set_fields(self, mean=positive(mean=self.mean))
        if self.mean > 1e15:
            raise ValueError(f"mean must be at most 1e15 to draw from, got {self.mean!r}")

    @property
    def maximum(self) -> float:  # type: ignore[override]
        """The maximum, +inf: the number of repetitions is unbounded."""
        return np.inf

    def log_mass(self, k: FloatArray) -> FloatArray:
        """Log probabilities, elementwise."""
        return k * np.log(self.mean) - self.mean - special.gammaln(k + 1.0)

    def log_rank_probability(self, w: FloatArray) -> FloatArray:
        """log(1 - e^(-mean w))."""
        return log1mexp(-self.mean * np.asarray(w))

    def log_pgf_derivative(self, w: FloatArray) -> FloatArray:
        """log mean - mean w."""
        return np.log(self.mean) - self.mean * np.asarray(w)

    def pgf_curvature(self, w: FloatArray) -> FloatArray:
        """The mean, for every w."""
        return np.full(np.shape(w), self.mean)

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        """The mean, twice."""
        return self.mean, self.mean

    def log_pgf(self, log_x: FloatArray) -> FloatArray:
        """mean (x - 1)."""
        with np.errstate(over="ignore"):
            return self.mean * np.expm1(log_x)

    def sample(self, rng: np.random.Generator) -> int:
        """Draw one number of repetitions exactly; beyond 1024 the time is proportional to the number."""
        return self._exact_count.draw(rng)

    def _exact_terms(self) -> MassTerms:
        """P(K = 0) = e^-mean, and the ratios mean/(k + 1)."""
        mean = as_ball(self.mean)
        return MassTerms(0, (-mean).exp(), lambda k: mean / (k + 1))

    def tilted(self, keep: float) -> "Poisson":
        """The tilted distribution, Poisson(keep mean)."""
        return Poisson(mean=keep * self.mean)


@frozen_value
class Binomial(RepetitionDistribution):
    """Binomial distribution of the number of repetitions: `maximum` trials, each with probability `rate`.

    Parameters
    ----------
    maximum : int
        Number of trials, >= 1: the largest number of repetitions.
    rate : float
        Probability of each trial, in (0, 1).

    Raises
    ------
    TypeError
        If a parameter is not a number.
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.Binomial(maximum=8, rate=0.5).mean
    4.0
    """

    maximum: int
    rate: float

    def __post_init__(self) -> None:
        rate = number(rate=self.rate)
        if not 0.0 < rate < 1.0:
            raise ValueError(
                f"rate must lie in (0, 1), got {self.rate!r}: at 1 the number of repetitions would be fixed"
            )
        set_fields(self, maximum=positive_integer(maximum=self.maximum), rate=rate)

    @property
    def mean(self) -> float:  # type: ignore[override]
        """The mean, `maximum` times `rate`."""
        return self.maximum * self.rate

    def log_mass(self, k: FloatArray) -> FloatArray:
        """Log probabilities, elementwise."""
        inside, n = k <= self.maximum, self.maximum
        at = np.where(inside, k, 0.0)
        ways = _log_rising(n - at + 1.0, at) - special.gammaln(at + 1.0)
        return np.where(inside, ways + at * np.log(self.rate) + (n - at) * np.log1p(-self.rate), -np.inf)

    def log_rank_probability(self, w: FloatArray) -> FloatArray:
        """log(1 - (1 - rate w)^maximum)."""
        return log1mexp(self.maximum * np.log1p(-self.rate * np.asarray(w)))

    def log_pgf_derivative(self, w: FloatArray) -> FloatArray:
        """log mean + (maximum - 1) log(1 - rate w)."""
        return np.log(self.mean) + (self.maximum - 1) * np.log1p(-self.rate * np.asarray(w))

    def pgf_curvature(self, w: FloatArray) -> FloatArray:
        """(maximum - 1) rate/(1 - rate w)."""
        return (self.maximum - 1) * self.rate / (1.0 - self.rate * np.asarray(w))

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        """(maximum - 1) rate at the best rank, and that divided by 1 - rate at the worst."""
        best = (self.maximum - 1) * self.rate
        return best * (1 - 1e-15), best / (1.0 - self.rate) * (1 + 1e-15)

    def log_pgf(self, log_x: FloatArray) -> FloatArray:
        """maximum log(1 - rate + rate x)."""
        return self.maximum * np.logaddexp(np.log1p(-self.rate), np.log(self.rate) + np.asarray(log_x))

    def sample(self, rng: np.random.Generator) -> int:
        """Draw one number of repetitions exactly; beyond 1024 the time is proportional to the number."""
        return self._exact_count.draw(rng)

    def _exact_terms(self) -> MassTerms:
        """P(K = 0) = (1 - rate)^maximum, and the ratios (maximum - k) rate/((k + 1)(1 - rate))."""
        rate, most = as_ball(self.rate), self.maximum
        odds = rate / (1 - rate)
        return MassTerms(0, (1 - rate) ** most, lambda k: odds * (most - k) / (k + 1))

    def tilted(self, keep: float) -> "Binomial":
        """The tilted distribution, which has rate' = keep rate/(1 - (1 - keep) rate)."""
        return Binomial(maximum=self.maximum, rate=keep * self.rate / (1.0 - (1.0 - keep) * self.rate))
