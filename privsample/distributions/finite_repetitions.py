"""Distributions of the number of repetitions with finite support, whose functions are sums over their masses."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from privsample._checks import FloatArray, open_unit_interval, positive, positive_integer
from privsample._logspace import log1mexp
from privsample._value import frozen_value, set_fields
from privsample.distributions.repetitions import RepetitionDistribution, check_repetition_distribution

_MOST_REPETITIONS = 100_000
_BLOCK = 1 << 22
_LEAST_KEPT = 1e-3  # a draw takes at most a thousand proposals on average


class _FiniteSupport(RepetitionDistribution):
    """A distribution on 0, ..., maximum whose functions are sums over its masses."""

    __slots__ = ()

    @property
    def _support(self) -> tuple[FloatArray, FloatArray]:
        """The values k = 0, ..., maximum and the log probabilities log P(K = k)."""
        k = np.arange(int(self.maximum) + 1, dtype=np.float64)
        return k, self.log_mass(k)

    @property
    def mean(self) -> float:  # type: ignore[override]
        """The mean, summed over the masses."""
        k, log_mass = self._support
        return float(k @ np.exp(log_mass))

    @property
    def rounding(self) -> float:
        """A bound on the rounding error: of log Gamma at the maximum, and of the smallest log probability."""
        _, log_mass = self._support
        least = np.where(np.isneginf(log_mass), 0.0, log_mass).min()
        return float(1e-15 * (self.maximum * np.log1p(self.maximum) - least))

    def log_rank_probability(self, w: FloatArray) -> FloatArray:
        """log of the sum of P(K = k)(1 - (1 - w)^k); all terms are positive, so nothing cancels."""
        k, log_mass = self._support
        with np.errstate(divide="ignore"):
            return np.minimum(_log_sum(log_mass, k, np.log1p(-np.asarray(w)), log1mexp), 0.0)

    def log_pgf_derivative(self, w: FloatArray) -> FloatArray:
        """log of the sum of k P(K = k)(1 - w)^(k - 1)."""
        k, log_mass = self._support
        with np.errstate(divide="ignore"):
            return _log_sum(np.log(k[1:]) + log_mass[1:], k[1:] - 1.0, np.log1p(-np.asarray(w)))

    def pgf_curvature(self, w: FloatArray) -> FloatArray:
        """The sum of k (k - 1) P(K = k)(1 - w)^(k - 2), divided by the derivative of the PGF."""
        k, log_mass = self._support
        if self.maximum < 2:
            return np.zeros(np.shape(w))
        with np.errstate(divide="ignore"):
            log_x = np.log1p(-np.asarray(w))
            second = _log_sum(np.log(k[2:] * (k[2:] - 1.0)) + log_mass[2:], k[2:] - 2.0, log_x)
        return np.exp(second - self.log_pgf_derivative(w))

    def log_pgf(self, log_x: FloatArray) -> FloatArray:
        """log of the sum of P(K = k) x^k."""
        k, log_mass = self._support
        return _log_sum(log_mass, k, np.asarray(log_x))

    def tilted(self, keep: float) -> RepetitionDistribution:
        """The distribution whose masses are multiplied by keep^k and normalised."""
        return TiltedRepetitions(distribution=self, keep=keep)


@frozen_value
class BetaBinomial(_FiniteSupport):
    """Beta-binomial distribution of the number of repetitions: Binomial(maximum) with a Beta(alpha, beta) rate.

    alpha = beta = 1 is the uniform distribution on 0, ..., maximum.

    Parameters
    ----------
    maximum : int
        Largest number of repetitions, from 1 to 100 000.
    alpha, beta : float
        Parameters of the Beta distribution of the rate, finite and > 0.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> import privsample as ps
    >>> print(f"{ps.BetaBinomial(maximum=4, alpha=1, beta=1).mean:.3f}")
    2.000
    """

    maximum: int
    alpha: float
    beta: float

    def __post_init__(self) -> None:
        set_fields(
            self,
            maximum=_checked_maximum(self.maximum),
            alpha=positive(alpha=self.alpha),
            beta=positive(beta=self.beta),
        )

    def log_mass(self, k: FloatArray) -> FloatArray:
        """Log probabilities, elementwise."""
        inside = k <= self.maximum
        return np.where(inside, self._masses[np.where(inside, k, 0.0).astype(np.int64)], -np.inf)

    @property
    def _masses(self) -> FloatArray:
        """Log probabilities of 0, ..., maximum, by ratios of neighbours from the mode on.

        Summing log ratios outwards from the mode avoids the cancellation of large log-Gamma values.
        """
        k = np.arange(self.maximum, dtype=np.float64)
        left = self.maximum - k
        rise = np.log(left / (k + 1.0)) + np.log(k + self.alpha) - np.log(left - 1.0 + self.beta)
        mode = int(np.append(0.0, np.cumsum(rise)).argmax())
        before, after = np.cumsum(-rise[:mode][::-1])[::-1], np.cumsum(rise[mode:])
        total = np.concatenate([before, [0.0], after])
        return total - special.logsumexp(total)

    def sample(self, rng: np.random.Generator) -> int:
        """Draw the rate, then the number of repetitions."""
        return int(rng.binomial(self.maximum, rng.beta(self.alpha, self.beta)))


@frozen_value
class TruncatedRepetitions(_FiniteSupport):
    """`distribution` conditioned on at most `maximum` repetitions.

    Parameters
    ----------
    distribution : RepetitionDistribution
        The distribution before truncation.
    maximum : int
        Largest number of repetitions, from 1 to 100 000. At least 0.001 of the probability must lie at or below it.

    Raises
    ------
    TypeError
        If `distribution` is not a RepetitionDistribution.
    ValueError
        If `maximum` is out of range, or keeps less than 0.001 of the probability.

    Notes
    -----
    Source: Papernot and Steinke 2022, Lemma 22.

    Examples
    --------
    >>> import privsample as ps
    >>> runs = ps.TruncatedRepetitions(distribution=ps.Poisson(mean=3), maximum=5)
    >>> print(f"{runs.mean:.3f}")
    2.670
    """

    distribution: RepetitionDistribution
    maximum: int

    def __post_init__(self) -> None:
        distribution = check_repetition_distribution(self.distribution, "distribution")
        set_fields(self, maximum=int(min(_checked_maximum(self.maximum), distribution.maximum)))
        if not np.exp(self.log_kept) >= _LEAST_KEPT:
            raise ValueError(
                f"maximum = {self.maximum} would discard all but {np.exp(self.log_kept):.2g} of the distribution; "
                "raise it"
            )

    @property
    def log_kept(self) -> float:
        """The log probability of at most `maximum` repetitions under the distribution before truncation."""
        within = self.distribution.log_mass(np.arange(int(self.maximum) + 1, dtype=np.float64))
        return min(float(special.logsumexp(within)), 0.0)

    def log_mass(self, k: FloatArray) -> FloatArray:
        """Log probabilities, elementwise."""
        return np.where(k <= self.maximum, self.distribution.log_mass(k) - self.log_kept, -np.inf)

    def sample(self, rng: np.random.Generator) -> int:
        """Draw from the distribution until the number is at most `maximum`; a thousand draws on average at most."""
        while (drawn := self.distribution.sample(rng)) > self.maximum:
            pass
        return drawn

    def tilted(self, keep: float) -> "TruncatedRepetitions":
        """The tilted distribution, truncated at the same maximum."""
        return TruncatedRepetitions(distribution=self.distribution.tilted(keep), maximum=self.maximum)


@frozen_value
class TiltedRepetitions(_FiniteSupport):
    """A distribution of finite support whose masses are multiplied by keep^k and normalised."""

    distribution: RepetitionDistribution
    keep: float

    def __post_init__(self) -> None:
        set_fields(self, keep=open_unit_interval(keep=self.keep))

    @property
    def maximum(self) -> float:  # type: ignore[override]
        """The maximum of the distribution before tilting."""
        return self.distribution.maximum

    def log_mass(self, k: FloatArray) -> FloatArray:
        """Log probabilities, elementwise."""
        every = np.arange(int(self.maximum) + 1, dtype=np.float64)
        kept = special.logsumexp(self.distribution.log_mass(every) + every * np.log(self.keep))
        return self.distribution.log_mass(k) + k * np.log(self.keep) - kept

    def sample(self, rng: np.random.Generator) -> int:
        """Draw from the distribution by rejection: K is accepted with probability keep^K."""
        while rng.random() >= self.keep ** (drawn := self.distribution.sample(rng)):
            pass
        return drawn


def _checked_maximum(maximum: Any) -> int:
    result = positive_integer(maximum=maximum)
    if result > _MOST_REPETITIONS:
        raise ValueError(
            f"maximum must be at most {_MOST_REPETITIONS}: this distribution is a sum over all numbers of repetitions"
        )
    return result


def _log_sum(
    log_weights: FloatArray, k: FloatArray, log_x: FloatArray, then: Callable[[FloatArray], FloatArray] = np.asarray
) -> FloatArray:
    """log of the sum of weights e^then(k log x), in blocks that fit in memory."""
    at, pieces = np.ravel(log_x), []
    rows = max(1, _BLOCK // len(k))
    for start in range(0, len(at), rows):
        with np.errstate(invalid="ignore"):
            powers = np.where(k == 0.0, 0.0, k * at[start : start + rows, None])
        pieces.append(special.logsumexp(log_weights + then(powers), axis=-1))
    return np.concatenate(pieces).reshape(np.shape(log_x))
