"""Distributions of the number of independent runs: masses, generating function, utility, exact samplers.

Every function of rank takes the *complement* w = 1 - u of a rank u: the share of outputs that are better. Near the best
rank w is small and known to full relative precision, where u would have lost it.
Source: Papernot and Steinke 2022, Definition 1, section 3.6, Appendices A.2 and E.1.
"""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from scipy import special

from privsample._checks import FloatArray, Real, finite, number, open_unit_interval, positive, positive_integer
from privsample._logspace import log1mexp, log_gamma_growth
from privsample._value import frozen_value, set_fields

_LEAST_GAMMA = 1e-15
_MOST_DRAWN = 9e18  # numpy's largest Poisson mean, and what a number of runs may be
_BLOCK = 1 << 17
_FIXED = (
    "runs must be a distribution of the number of runs, got {}: a fixed number is refused, since the best of k can "
    "cost as much as all k together (Papernot and Steinke 2022, Proposition 17); a random number such as "
    "TruncatedNegativeBinomial.logarithmic(mean=10) costs far less"
)


class RepetitionDistribution(ABC):
    """A distribution of the number K of runs on 0, 1, 2, ..., with generating function f(u) = E u^K.

    `mean` is E K = f'(1); `maximum` the largest number of runs, +inf where there is none.
    """

    __slots__ = ()
    mean: float
    maximum: float

    @abstractmethod
    def log_mass(self, k: FloatArray) -> FloatArray:
        """log P(K = k) at whole numbers k >= 0, elementwise."""

    @abstractmethod
    def log_rank_probability(self, w: FloatArray) -> FloatArray:
        """log(1 - f(1 - w)): the best of K runs is among the best share w of outputs; w in [0, 1]."""

    @abstractmethod
    def log_pgf_derivative(self, w: FloatArray) -> FloatArray:
        """log f'(1 - w): the density of the best run's rank; w in [0, 1]."""

    @abstractmethod
    def pgf_curvature(self, w: FloatArray) -> FloatArray:
        """f''(1 - w)/f'(1 - w), not negative; w in [0, 1]."""

    @abstractmethod
    def log_pgf(self, log_x: FloatArray) -> FloatArray:
        """log f(x) at x >= 1, +inf where the series does not converge: the moment generating function of K."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> int:
        """One draw, exact but for the rounding of real numbers."""

    @property
    def log_zero_probability(self) -> float:
        """log P(K = 0)."""
        return float(log1mexp(np.minimum(self.log_rank_probability(np.ones(())), 0.0)))

    def success(self, share_: float) -> float:
        """Probability that the best run is among the best `share_` of outputs; one good setting in m: share_ = 1/m."""
        return float(np.exp(self.log_rank_probability(np.asarray(open_unit_interval(share=share_)))))

    @property
    def expected_quantile(self) -> float:
        """E K/(K + 1), the expected rank of the best run: the integral of 1 - f over [0, 1].

        By tanh-sinh quadrature in the complement, where the integrand may rise steeply.
        """
        t = np.linspace(-4.0, 4.0, 801)
        x = np.pi / 2 * np.sinh(t)
        w, weight = special.expit(2 * x), np.pi * np.cosh(t) * special.expit(2 * x) * special.expit(-2 * x)
        return float(np.exp(self.log_rank_probability(w)) @ weight * (t[1] - t[0]))

    def tail(self, k: int) -> float:
        """P(K >= k)."""
        at, start, below = positive_integer(k=k), 0, 0.0
        while start < min(at, self.maximum + 1):
            end = min(at, start + _BLOCK)
            more = float(np.exp(self.log_mass(np.arange(start, end, dtype=np.float64))).sum())
            if more < 1e-17 and start > self.mean:  # beyond the mean the masses fall
                break
            start, below = end, below + more
        return float(np.clip(1.0 - below, 0.0, 1.0))

    @property
    def rounding(self) -> float:
        """What rounding may shift the logarithms by, where masses are summed or large terms cancel."""
        return 0.0

    @abstractmethod
    def tilted(self, keep: float) -> "RepetitionDistribution":
        """P(K' = k) proportional to P(K = k) keep^k (Papernot and Steinke 2022, Lemma 20)."""


def check_repetition_distribution(runs: Any) -> RepetitionDistribution:
    """The distribution, if it is one. Raises: TypeError; for a fixed number with the reason why it is refused."""
    if isinstance(runs, RepetitionDistribution):
        return runs
    raise TypeError(_FIXED.format(repr(runs)))


@frozen_value
class TruncatedNegativeBinomial(RepetitionDistribution):
    """P(K = k) proportional to (1 - gamma)^k (eta)(eta + 1)...(eta + k - 1)/k! on k >= 1.

    eta = 0 is the logarithmic distribution, eta = 1 the geometric one; a smaller eta costs less privacy and has a
    heavier tail.
    Source: Papernot and Steinke 2022, Definition 1.
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
                f"{self.gamma!r}; a smaller one makes more than {_MOST_DRAWN:g} runs"
            )
        set_fields(self, eta=eta, gamma=gamma)

    @classmethod
    def from_mean(cls, *, mean: float, eta: float = 0.0) -> Self:
        """The distribution with this mean, > 1. Raises: ValueError, for a mean that no such distribution has."""
        from scipy.optimize import brentq

        goal = np.log(_mean_above_one(mean))

        def excess(scale: float) -> float:
            return float(np.log(cls(eta=eta, gamma=np.exp(-scale)).mean) - goal)

        low, high = 1e-12, -np.log(_least_gamma(finite(eta=eta))) * (1 - 1e-15)
        if not (low < high and excess(low) <= 0.0 <= excess(high)):
            raise ValueError(
                f"no distribution with eta = {eta:g} that can be drawn has mean {mean!r}; raise eta if it is below "
                "one, lower it if it is above a thousand"
            )
        return cls(eta=eta, gamma=float(np.exp(-brentq(excess, low, high, xtol=1e-300, rtol=1e-14))))

    @classmethod
    def logarithmic(cls, *, mean: float) -> Self:
        """eta = 0."""
        return cls.from_mean(mean=mean, eta=0.0)

    @classmethod
    def geometric(cls, *, mean: float) -> Self:
        """eta = 1: gamma = 1/mean."""
        return cls(eta=1.0, gamma=1.0 / _mean_above_one(mean))

    @property
    def _length(self) -> float:
        """log(1/gamma)."""
        return float(-np.log(self.gamma))

    @property
    def rounding(self) -> float:
        """That of eta log(1/gamma), of a gamma that was rounded."""
        return 1e-15 * abs(self.eta) * (1.0 + self._length)

    @property
    def mean(self) -> float:  # type: ignore[override]
        """eta (1 - gamma)/(gamma (1 - gamma^eta))."""
        length = self._length
        return float(np.expm1(length) / (length * special.exprel(-self.eta * length)))

    @property
    def maximum(self) -> float:  # type: ignore[override]
        """None."""
        return np.inf

    def log_mass(self, k: FloatArray) -> FloatArray:
        """Definition 1 of the source, with (eta)(eta + 1).../k! = eta times a ratio of Gamma functions."""
        at, length = np.maximum(k, 1.0), self._length
        ratio = _log_rising(1.0 + self.eta, at - 1.0) - special.gammaln(at + 1.0)
        scale = at * np.log1p(-self.gamma) - np.log(length) - _log_exprel(np.asarray(self.eta * length))
        return np.where(k >= 1.0, ratio + scale, -np.inf)

    def _rise(self, w: FloatArray) -> FloatArray:
        """log(1 + (1/gamma - 1) w)."""
        return np.log1p(np.expm1(self._length) * w)

    def log_rank_probability(self, w: FloatArray) -> FloatArray:
        """log of (1 - e^(-eta t))/(1 - e^(-eta T)), t = log(1 + (1/gamma - 1) w), T = log(1/gamma)."""
        t, length = self._rise(w), self._length
        with np.errstate(divide="ignore"):
            ratio = np.log(t / length * special.exprel(-self.eta * t) / special.exprel(-self.eta * length))
        return np.minimum(ratio, 0.0)

    def log_pgf_derivative(self, w: FloatArray) -> FloatArray:
        """log E K - (1 + eta) t."""
        return np.log(self.mean) - (1.0 + self.eta) * self._rise(w)

    def pgf_curvature(self, w: FloatArray) -> FloatArray:
        """(1 + eta)(1/gamma - 1) e^-t."""
        return (1.0 + self.eta) * np.expm1(self._length) * np.exp(-self._rise(w))

    def log_pgf(self, log_x: FloatArray) -> FloatArray:
        """log of (e^(eta t) - 1)/(e^(eta T) - 1), t = -log(1 - (1 - gamma) x)."""
        reach = np.log1p(-self.gamma) + np.asarray(log_x)
        inside, length = reach < 0.0, self._length
        t = -log1mexp(np.where(inside, reach, -1.0))
        ratio = np.log(t / length) + _log_exprel(self.eta * t) - _log_exprel(self.eta * np.asarray(length))
        return np.where(inside, ratio, np.inf)

    def sample(self, rng: np.random.Generator) -> int:
        """1 + Poisson(G (e^(T - t) - 1)), G ~ Gamma(1 + eta), t of density proportional to e^(-eta t) on [0, T].

        A mixture of Poisson processes seen from their first point on (docs/notes/selection.md, section 1).
        """
        length, u = self._length, rng.random()
        t = u * length if self.eta == 0.0 else float(-np.log1p(u * np.expm1(-self.eta * length)) / self.eta)
        rate = rng.standard_gamma(1.0 + self.eta) * np.expm1(max(length - t, 0.0))
        return 1 + int(rng.poisson(rate))

    def tilted(self, keep: float) -> "TruncatedNegativeBinomial":
        """gamma' = gamma + (1 - gamma)(1 - keep)."""
        gamma = self.gamma + (1.0 - self.gamma) * (1.0 - keep)
        return TruncatedNegativeBinomial(eta=self.eta, gamma=min(gamma, 1.0 - 2.0**-53))


def _least_gamma(eta: float) -> float:
    """The least gamma that leaves the number of runs a whole number that numpy draws, but for a chance of 1e-30."""
    most = 1.0 + eta + 12.0 * np.sqrt(max(1.0 + eta, 0.0)) + 70.0  # of a Gamma(1 + eta) variable (Chernoff)
    return float(max(_LEAST_GAMMA, most / (most + _MOST_DRAWN)))


def _log_rising(x: Real, steps: FloatArray) -> FloatArray:
    """log of x (x + 1) ... (x + steps - 1), x > 0, as no difference of two large logarithms."""
    return log_gamma_growth(x, steps) + steps * np.log(x)


def _log_exprel(x: FloatArray) -> FloatArray:
    """log((e^x - 1)/x), also where e^x overflows."""
    large = np.maximum(x, 30.0)
    return np.where(x < 30.0, np.log(special.exprel(np.minimum(x, 30.0))), large + log1mexp(-large) - np.log(large))


def _mean_above_one(mean: float) -> float:
    result = positive(mean=mean)
    if not result > 1.0:
        raise ValueError(f"mean must be > 1, since at least one run is made, got {mean!r}")
    return result


@frozen_value
class Poisson(RepetitionDistribution):
    """P(K = k) = e^-mean mean^k/k!; none at all with probability e^-mean."""

    mean: float

    def __post_init__(self) -> None:
        set_fields(self, mean=positive(mean=self.mean))
        if self.mean > 1e15:
            raise ValueError(f"mean must be at most 1e15 to draw from, got {self.mean!r}")

    @property
    def maximum(self) -> float:  # type: ignore[override]
        """None."""
        return np.inf

    def log_mass(self, k: FloatArray) -> FloatArray:
        """Elementwise."""
        return k * np.log(self.mean) - self.mean - special.gammaln(k + 1.0)

    def log_rank_probability(self, w: FloatArray) -> FloatArray:
        """log(1 - e^(-mean w))."""
        return log1mexp(-self.mean * np.asarray(w))

    def log_pgf_derivative(self, w: FloatArray) -> FloatArray:
        """log mean - mean w."""
        return np.log(self.mean) - self.mean * np.asarray(w)

    def pgf_curvature(self, w: FloatArray) -> FloatArray:
        """The mean."""
        return np.full(np.shape(w), self.mean)

    def log_pgf(self, log_x: FloatArray) -> FloatArray:
        """mean (x - 1)."""
        with np.errstate(over="ignore"):
            return self.mean * np.expm1(log_x)

    def sample(self, rng: np.random.Generator) -> int:
        """numpy's."""
        return int(rng.poisson(self.mean))

    def tilted(self, keep: float) -> "Poisson":
        """Poisson(keep mean)."""
        return Poisson(mean=keep * self.mean)


@frozen_value
class Binomial(RepetitionDistribution):
    """How many of `maximum` independent chances, each of probability `rate`, lead to a run."""

    maximum: int
    rate: float

    def __post_init__(self) -> None:
        rate = number(rate=self.rate)
        if not 0.0 < rate < 1.0:
            raise ValueError(f"rate must lie in (0, 1), got {self.rate!r}: at 1 the number of runs would be fixed")
        set_fields(self, maximum=positive_integer(maximum=self.maximum), rate=rate)

    @property
    def mean(self) -> float:  # type: ignore[override]
        """maximum times rate."""
        return self.maximum * self.rate

    def log_mass(self, k: FloatArray) -> FloatArray:
        """Elementwise."""
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

    def log_pgf(self, log_x: FloatArray) -> FloatArray:
        """maximum log(1 - rate + rate x)."""
        return self.maximum * np.logaddexp(np.log1p(-self.rate), np.log(self.rate) + np.asarray(log_x))

    def sample(self, rng: np.random.Generator) -> int:
        """numpy's."""
        return int(rng.binomial(self.maximum, self.rate))

    def tilted(self, keep: float) -> "Binomial":
        """rate' = keep rate/(1 - (1 - keep) rate)."""
        return Binomial(maximum=self.maximum, rate=keep * self.rate / (1.0 - (1.0 - keep) * self.rate))
