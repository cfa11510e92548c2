"""Exact draws from Beta, Gamma and normal distributions truncated to public bounds."""

from fractions import Fraction
from typing import Any

from privsample.distributions.exact.balls import Rational, enclose
from privsample.distributions.exact.gammas import check_shape
from privsample.distributions.exact.laws import Sampler
from privsample.distributions.exact.lazy import START, LazyReal
from privsample.distributions.exact.tangents import LogConcave, TangentSampler
from privsample.distributions.exact.words import WordStream

_WIDEST = 2**800


def truncated_beta_sampler(a: Rational, b: Rational, low: Rational, high: Rational) -> Sampler:
    """A function that draws from Beta(a, b) truncated to [low, high]; what depends on no randomness is computed once.

    Parameters
    ----------
    a, b : Fraction or int
        The shapes, in (0, 2^200].
    low, high : Fraction or int
        The bounds, 0 < low < high < 1.

    Returns
    -------
    callable
        Maps a `WordStream` to a `LazyReal`.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    The density of the logit is log-concave for all shapes (exact_draws.md, step 7). Kind: exact.
    """
    a, b = check_shape(a=a), check_shape(b=b)
    low, high = _interval(low, high)
    if not (low > 0 and high < 1):
        raise ValueError(f"low and high must lie inside (0, 1), got {float(low):g} and {float(high):g}")
    mode = min(max(a / (a + b), low), high)

    def fall(z: Any) -> Any:
        return enclose(a) * z - enclose(a + b) * (enclose(mode) * z.expm1()).log1p()

    def slope(z: Any) -> Any:
        return enclose(a) - enclose(a + b) * place(z)

    def place(z: Any) -> Any:
        return enclose(mode) * z.exp() / (1 + enclose(mode) * z.expm1())

    def ends() -> tuple[Any, Any]:
        return enclose(low * (1 - mode) / ((1 - low) * mode)).log(), enclose(
            high * (1 - mode) / ((1 - high) * mode)
        ).log()

    density = LogConcave(
        fall, slope, ends, place, float((a + b) * mode * (1 - mode)), mode == a / (a + b), _bits(a + b)
    )
    return TangentSampler(density).draw


def truncated_gamma_sampler(shape: Rational, rate: Rational, low: Rational, high: Rational) -> Sampler:
    """A function that draws from Gamma(shape, rate) truncated to [low, high].

    Parameters
    ----------
    shape, rate : Fraction or int
        Shape and rate, in (0, 2^200].
    low, high : Fraction or int
        The bounds, 0 < low < high; rate times low at most 2^800.

    Returns
    -------
    callable
        Maps a `WordStream` to a `LazyReal`.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    The density of the logarithm is log-concave for all shapes (exact_draws.md, step 7). Kind: exact.
    """
    shape, rate = check_shape(shape=shape), check_shape(rate=rate)
    low, high = _interval(low, high)
    if not low > 0:
        raise ValueError(f"low must be > 0, got {float(low):g}")
    mode = min(max(shape / rate, low), high)
    mass = rate * mode
    if not mass <= _WIDEST:
        raise ValueError(f"rate * low must be at most 2^800 for exact draws, got {float(rate):g} and {float(low):g}")

    def fall(z: Any) -> Any:
        return enclose(shape) * z - enclose(mass) * z.expm1()

    def slope(z: Any) -> Any:
        return enclose(shape) - enclose(mass) * z.exp()

    def place(z: Any) -> Any:
        return enclose(mode) * z.exp()

    def ends() -> tuple[Any, Any]:
        return enclose(low / mode).log(), enclose(high / mode).log()

    density = LogConcave(fall, slope, ends, place, float(mass), mode == shape / rate, _bits(shape + mass))
    return TangentSampler(density).draw


def truncated_normal_sampler(location: Rational, variance: Rational, low: Rational, high: Rational) -> Sampler:
    """A function that draws from a normal distribution truncated to [low, high].

    Parameters
    ----------
    location : Fraction or int
        The mean of the untruncated distribution.
    variance : Fraction or int
        The variance of the untruncated distribution, in [2^-800, 2^800].
    low, high : Fraction or int
        The bounds.

    Returns
    -------
    callable
        Maps a `WordStream` to a `LazyReal`.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    The density is log-concave (exact_draws.md, step 7). Kind: exact.
    """
    if not Fraction(1, _WIDEST) <= variance <= _WIDEST:
        raise ValueError(f"variance must be in [2^-800, 2^800] for exact draws, got {float(variance):g}")
    low, high = _interval(low, high)
    mode = min(max(Fraction(location), low), high)
    away, precision = (mode - location) / Fraction(variance), 1 / Fraction(variance)

    def fall(z: Any) -> Any:
        return -z * (enclose(away) + enclose(precision) * z / 2)

    def slope(z: Any) -> Any:
        return -enclose(away) - enclose(precision) * z

    def place(z: Any) -> Any:
        return enclose(mode) + z

    def ends() -> tuple[Any, Any]:
        return enclose(low - mode), enclose(high - mode)

    density = LogConcave(fall, slope, ends, place, float(precision), mode == location, START)
    return TangentSampler(density).draw


def truncated_beta(a: Rational, b: Rational, low: Rational, high: Rational, words: WordStream) -> LazyReal:
    """A Beta(a, b) number truncated to [low, high]; parameters as in `truncated_beta_sampler`. Kind: exact."""
    return truncated_beta_sampler(a, b, low, high)(words)


def truncated_gamma(shape: Rational, rate: Rational, low: Rational, high: Rational, words: WordStream) -> LazyReal:
    """A Gamma number truncated to [low, high]; parameters as in `truncated_gamma_sampler`. Kind: exact."""
    return truncated_gamma_sampler(shape, rate, low, high)(words)


def truncated_normal(
    location: Rational, variance: Rational, low: Rational, high: Rational, words: WordStream
) -> LazyReal:
    """A normal number truncated to [low, high]; parameters as in `truncated_normal_sampler`. Kind: exact."""
    return truncated_normal_sampler(location, variance, low, high)(words)


def _interval(low: Rational, high: Rational) -> tuple[Fraction, Fraction]:
    """The bounds as fractions."""
    if not low < high:
        raise ValueError(f"low must be below high, got {float(low):g} and {float(high):g}")
    return Fraction(low), Fraction(high)


def _bits(largest: Fraction) -> int:
    """The precision at which log densities of this size are certain to a fraction of a nat."""
    return START + 2 * int(largest).bit_length()
