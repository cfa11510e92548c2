"""Distributions of the number of repetitions with finite support, whose functions are sums over their masses."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from privsample._checks import FloatArray, listed, number, open_unit_interval, positive, positive_integer
from privsample._logspace import log1mexp
from privsample._value import cached, frozen_value, set_fields
from privsample.distributions.exact.categorical import Categorical, as_ball
from privsample.distributions.exact.counts import MassTerms
from privsample.distributions.repetitions import FIXED_NUMBER, RepetitionDistribution, check_repetition_distribution

_MOST_REPETITIONS = 100_000
_BLOCK = 1 << 22
_SUM_TOLERANCE = 1e-9  # of the sum of all probabilities, which are then normalized
_COEFFICIENT_ERROR = 1e-15  # of a Fourier coefficient of a function of modulus 1, on 2^19 points at most
# The masses of the upper half of the table contribute at least this multiple of what the quarter before contributes to
# the mean if the mean is infinite: masses that decrease as k^-2 contribute as much.
_HEAVY = 0.9
_LEAST_KEPT = 1e-3  # a draw takes at most a thousand proposals on average


class _FiniteSupport(RepetitionDistribution):
    """A distribution on 0, ..., maximum whose functions are sums over its masses."""

    __slots__ = ()

    @cached
    def _support(self) -> tuple[FloatArray, FloatArray]:
        """The values k = 0, ..., maximum and the log probabilities log P(K = k)."""
        k = np.arange(int(self.maximum) + 1, dtype=np.float64)
        log_mass = np.array(self.log_mass(k), dtype=np.float64)
        k.flags.writeable = log_mass.flags.writeable = False
        return k, log_mass

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

    def sample(self, rng: np.random.Generator) -> int:
        """Draw one number of repetitions exactly, from a table of all masses."""
        return int(self._table.draw(1, rng)[0])

    @cached
    def _has_table(self) -> bool:
        """Whether the masses are known to any precision."""
        return self._exact_masses(1) is not None

    @cached
    def _table(self) -> Categorical:
        return Categorical.of_balls(lambda _: self._exact_masses(int(self.maximum) + 1) or [])

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

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        """Bounds by the ratios of neighbouring masses, of which the curvature is a weighted mean.

        f' has the coefficients a_j = (j + 1) P(K = j + 1), and f''/f' is the mean of (j + 1) a_(j + 1)/a_j with weights
        a_j x^j. The terms beyond a cut J have at most the total weight that they have at x = 1, and there contribute at
        most the sum of (j + 1) a_(j + 1) beyond J over the sum of a_j up to J. The cut is chosen for each bound
        (docs/notes/selection.md, section 4).
        """
        k, log_mass = self._support
        a = k[1:] * np.exp(log_mass[1:])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.append(k[1:-1] * a[1:], 0.0) / a
        ratio = np.where(np.isnan(ratio), 0.0, ratio)  # 0/0: the term has no weight, and its numerator is 0
        up_to, rises = np.cumsum(a), np.append(k[1:-1] * a[1:], 0.0)
        beyond, more = (np.append(np.cumsum(terms[::-1])[::-1][1:], 0.0) for terms in (a, rises))
        with np.errstate(divide="ignore", invalid="ignore"):
            highest = np.maximum.accumulate(ratio) + more / up_to
            lowest = np.minimum.accumulate(np.where(a > 0.0, ratio, np.inf)) * (1.0 - beyond / up_to[-1])
        highest, lowest = np.where(up_to > 0.0, highest, np.inf), np.where(up_to > 0.0, lowest, 0.0)
        rounding = 1e-14 + self.rounding
        return float(lowest.max() * (1.0 - rounding)), float(highest.min() * (1.0 + rounding))

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

    def _exact_terms(self) -> MassTerms:
        """Masses up to a factor, by the ratios (maximum - k)(k + alpha)/((k + 1)(maximum - k - 1 + beta))."""
        alpha, beta, most = as_ball(self.alpha), as_ball(self.beta), self.maximum
        return MassTerms(0, alpha / alpha, lambda k: (alpha + k) * (most - k) / (beta + (most - k - 1)) / (k + 1))


@frozen_value
class TabulatedRepetitions(_FiniteSupport):
    """Any distribution of the number of repetitions with finite support, given by its probabilities.

    `from_mass` tabulates a probability mass function and `from_pgf` a probability generating function.

    Parameters
    ----------
    probabilities : sequence of float
        The probabilities of 0, 1, 2, ... repetitions: finite, >= 0, with sum 1 up to 1e-9, after which they are
        normalized; at most 100 001 of them. At least two are > 0, since a fixed number of repetitions is refused.

    Raises
    ------
    TypeError
        If the probabilities are not a list of numbers.
    ValueError
        If they are not a probability mass function, or that of a fixed number.

    Notes
    -----
    Source: Papernot and Steinke 2022, Lemma 7, for any distribution with a finite mean.

    Examples
    --------
    >>> import privsample as ps
    >>> repetitions = ps.TabulatedRepetitions(probabilities=(0, 0.5, 0.3, 0.2))
    >>> round(repetitions.mean, 12), repetitions.maximum
    (1.7, 3)
    """

    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        masses = np.array(
            [number(**{f"probabilities[{k}]": p}) for k, p in enumerate(listed(probabilities=self.probabilities))]
        )
        if len(masses) > _MOST_REPETITIONS + 1:
            raise ValueError(f"probabilities must be at most {_MOST_REPETITIONS + 1} numbers, got {len(masses)}")
        if not (np.isfinite(masses) & (masses >= 0.0)).all():
            at = int(np.argmin(np.isfinite(masses) & (masses >= 0.0)))
            raise ValueError(f"probabilities must be finite and >= 0, got {float(masses[at])!r} for {at} repetitions")
        total = math.fsum(masses)
        if not abs(total - 1.0) <= _SUM_TOLERANCE:
            raise ValueError(
                f"probabilities must sum to 1, got a sum of {total:.12g}; divide them by their sum, or list the rest"
            )
        if np.count_nonzero(masses) < 2:
            raise ValueError(FIXED_NUMBER.format("probabilities", f"all mass on {int(masses.argmax())} repetitions"))
        masses = np.trim_zeros(masses, "b")
        set_fields(self, probabilities=tuple((masses / total).tolist()))

    @classmethod
    def from_mass(cls, mass: Callable[[int], float], *, maximum: int) -> Self:
        """The distribution with this probability mass function.

        Parameters
        ----------
        mass : function of int
            Maps the number k of repetitions to P(K = k).
        maximum : int
            Largest k that is tabulated, from 1 to 100 000. The probability beyond it must be at most 1e-9.

        Returns
        -------
        TabulatedRepetitions
            The table, from which the number of repetitions is also drawn.

        Raises
        ------
        TypeError
            If `mass` is not a function.
        ValueError
            If the masses up to `maximum` do not sum to one, for example because the tail is heavy.

        Examples
        --------
        >>> import privsample as ps
        >>> repetitions = ps.TabulatedRepetitions.from_mass(lambda k: 0.5**k if k else 0.0, maximum=60)
        >>> round(repetitions.mean, 12)
        2.0
        """
        given: Any = mass
        if not callable(given) or hasattr(given, "pmf"):  # SciPy's distributions are callable
            advice = "; pass its .pmf" if hasattr(given, "pmf") else ""
            raise TypeError(f"mass must be a function of k, got {type(given).__name__}{advice}")
        k = range(_checked_maximum(maximum) + 1)
        masses = np.array([number(**{f"mass({at})": mass(at)}) for at in k])
        return cls(probabilities=tuple(_complete(masses, "mass")))

    @classmethod
    def from_pgf(cls, pgf: Callable[[NDArray[np.complex128]], ArrayLike], *, maximum: int) -> Self:
        """The distribution with this probability generating function f(x) = E x^K.

        Parameters
        ----------
        pgf : function of a complex array
            Maps an array of complex numbers on the unit circle to f, elementwise.
        maximum : int
            Largest number of repetitions that is tabulated, from 1 to 100 000. The probability beyond it must be at
            most 1e-9.

        Returns
        -------
        TabulatedRepetitions
            The table, from which the number of repetitions is also drawn.

        Raises
        ------
        ValueError
            If f(1) is not 1, if a coefficient of f is negative or not real, or if too much mass lies beyond `maximum`.

        Notes
        -----
        The masses are the Fourier coefficients of f on the unit circle, from values at a power of two of at least
        4 (maximum + 1) points. A coefficient is the sum of the masses of k, k + N, k + 2N, ..., with N points
        (docs/notes/selection.md, section 1).

        Examples
        --------
        >>> import numpy as np, privsample as ps
        >>> repetitions = ps.TabulatedRepetitions.from_pgf(lambda x: np.exp(3 * (x - 1)), maximum=60)
        >>> round(repetitions.mean, 12)
        3.0
        """
        most = _checked_maximum(maximum)
        count = 1 << int(4 * (most + 1) - 1).bit_length()
        points = np.exp(2j * np.pi * np.arange(count) / count)
        points[0] = 1.0
        values = np.asarray(pgf(points), dtype=np.complex128)
        if values.shape != points.shape:
            raise ValueError(f"pgf must map an array of shape {points.shape} to one value each, got {values.shape}")
        if not np.isfinite(values).all():
            raise ValueError("pgf must be finite on the unit circle, where |f(x)| <= f(1) = 1")
        if not abs(values[0] - 1.0) <= _SUM_TOLERANCE:
            raise ValueError(f"pgf must be 1 at x = 1, where it is the sum of all masses, got {values[0]:.12g}")
        found = np.fft.fft(values) / count
        wrong = (np.abs(found.imag) > _COEFFICIENT_ERROR) | (found.real < -_COEFFICIENT_ERROR)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise ValueError(
                f"pgf must have coefficients that are probabilities, got {found[at]:.3g} for {at} repetitions: it is "
                "not the generating function of a number of repetitions"
            )
        masses = np.where(found.real > _COEFFICIENT_ERROR, found.real, 0.0)
        return cls(probabilities=tuple(_complete(masses[: most + 1], "pgf")))

    @property
    def maximum(self) -> int:  # type: ignore[override]
        """The largest number of repetitions of positive probability."""
        return len(self.probabilities) - 1

    @property
    def rounding(self) -> float:
        """A bound on the rounding error of sums over the table, whose terms have logarithms of at most this size."""
        least = min(p for p in self.probabilities if p > 0.0)
        return float(1e-15 * (60.0 + 4.0 * np.log1p(self.maximum) - np.log(least)))

    def log_mass(self, k: FloatArray) -> FloatArray:
        """Log probabilities, elementwise."""
        inside = k <= self.maximum
        with np.errstate(divide="ignore"):
            logs = np.log(self.probabilities)
        return np.where(inside, logs[np.where(inside, k, 0.0).astype(np.int64)], -np.inf)

    def _exact_masses(self, stop: int) -> list[Any]:
        """The probabilities, as exact rational numbers; a draw divides them by their sum."""
        return [as_ball(p) for p in self.probabilities[:stop]]


def _complete(masses: FloatArray, name: str) -> FloatArray:
    """The masses, if they sum to one. Raises ValueError; for a heavy tail with the reason why it has no account."""
    total, k = math.fsum(masses), np.arange(len(masses))
    if np.isfinite(masses).all() and (masses >= 0.0).all() and total < 1.0 - _SUM_TOLERANCE:
        half, quarter = len(k) // 2, len(k) // 4
        heavy = k[half:] @ masses[half:] > _HEAVY * (k[quarter:half] @ masses[quarter:half])
        reason = (
            ": raise maximum; if the sum stays below 1, the mean may be infinite, and the account needs a finite mean: "
            "divide the masses by their sum, which truncates the distribution"
            if heavy
            else ": raise maximum"
        )
        raise ValueError(f"{name} must sum to 1 over 0, ..., {len(masses) - 1}, got {total:.12g}{reason}")
    return masses


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
    def fixed_number(self) -> int | None:
        """The fixed number of the distribution before truncation, if it has one."""
        return self.distribution.fixed_number

    @cached
    def log_kept(self) -> float:
        """The log probability of at most `maximum` repetitions under the distribution before truncation."""
        within = self.distribution.log_mass(np.arange(int(self.maximum) + 1, dtype=np.float64))
        return min(float(special.logsumexp(within)), 0.0)

    def log_mass(self, k: FloatArray) -> FloatArray:
        """Log probabilities, elementwise."""
        return np.where(k <= self.maximum, self.distribution.log_mass(k) - self.log_kept, -np.inf)

    def sample(self, rng: np.random.Generator) -> int:
        """Draw one number of repetitions exactly, from a table of the masses up to `maximum`.

        A distribution of your own is drawn until the number is at most `maximum`: a thousand draws on average at most.
        """
        if self._has_table:
            return _FiniteSupport.sample(self, rng)
        while (drawn := self.distribution.sample(rng)) > self.maximum:
            pass
        return drawn

    def _exact_masses(self, stop: int) -> list[Any] | None:
        """The masses before truncation."""
        return self.distribution._exact_masses(min(stop, int(self.maximum) + 1))

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
        """Draw one number exactly; from a distribution of your own by rejection: K is accepted with chance keep^K."""
        if self._has_table:
            return _FiniteSupport.sample(self, rng)
        while True:
            drawn = self.distribution.sample(rng)
            if Categorical.of_balls(partial(_keep_or_not, self.keep, drawn)).draw(1, rng)[0] == 0:
                return drawn

    def _exact_masses(self, stop: int) -> list[Any] | None:
        """The masses of the distribution times keep^k."""
        masses, keep = self.distribution._exact_masses(stop), as_ball(self.keep)
        return None if masses is None else [mass * keep**k for k, mass in enumerate(masses)]


def _keep_or_not(keep: float, k: int, bits: int) -> list[Any]:
    """The probabilities keep^k and 1 - keep^k."""
    del bits
    kept = as_ball(keep) ** k
    return [kept, 1 - kept]


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
