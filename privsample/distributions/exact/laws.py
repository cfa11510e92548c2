"""Random real numbers with exactly the distribution that is named, as enclosures that can be refined."""

from collections.abc import Callable, Sequence
from typing import Any

from privsample.distributions.exact.balls import Rational, enclose, flint
from privsample.distributions.exact.gammas import GammaSampler, check_shape
from privsample.distributions.exact.lazy import LazyMap, LazyReal, LazyUniform
from privsample.distributions.exact.words import WordStream

Sampler = Callable[[WordStream], LazyReal]


def normal(words: WordStream) -> LazyReal:
    """A standard normal number.

    Parameters
    ----------
    words : WordStream
        The source of the random bits.

    Returns
    -------
    LazyReal
        The number.

    Notes
    -----
    A fair sign times the quantile sqrt(2) erfcinv(U) of the half-normal distribution (exact_draws.md, step 4).
    Kind: exact.
    """
    return half_normal(words.word() & 1, LazyUniform(words))


def half_normal(negative: int, uniform: LazyReal) -> LazyReal:
    """The normal number of this sign that stands for a uniform number."""
    return LazyMap(_below if negative else _above, uniform)


def exponential(words: WordStream) -> LazyReal:
    """A standard exponential number, -log U (exact_draws.md, step 4). Kind: exact.

    Parameters
    ----------
    words : WordStream
        The source of the random bits.

    Returns
    -------
    LazyReal
        The number.
    """
    return LazyMap(_negative_log, LazyUniform(words))


def laplace(words: WordStream) -> LazyReal:
    """A Laplace number of scale 1: a fair sign times an exponential number (exact_draws.md, step 4). Kind: exact.

    Parameters
    ----------
    words : WordStream
        The source of the random bits.

    Returns
    -------
    LazyReal
        The number.
    """
    return LazyMap(_log if words.word() & 1 else _negative_log, LazyUniform(words))


def gamma(shape: Rational, words: WordStream) -> LazyReal:
    """A Gamma number of rate 1.

    Parameters
    ----------
    shape : Fraction or int
        The shape, in (0, 2^200].
    words : WordStream
        The source of the random bits.

    Returns
    -------
    LazyReal
        The number.

    Raises
    ------
    ValueError
        If the shape is out of range.

    Notes
    -----
    Marsaglia and Tsang 2000: a cubed normal number, accepted with a probability above 0.95 for every shape >= 1, where
    the comparison is made in ball arithmetic until it is certain (exact_draws.md, step 5). Below shape 1 it is a Gamma
    number of shape + 1, times U^(1 / shape). Kind: exact.
    """
    return gamma_sampler(shape)(words)


def gamma_sampler(shape: Rational) -> Sampler:
    """A function that draws as `gamma` does; what depends on no randomness is computed once.

    It is kept no longer than the caller keeps it: the shape of a posterior depends on the records.
    """
    shape = check_shape(shape=shape)
    if shape >= 1:
        return GammaSampler(shape).draw
    larger, inverse = GammaSampler(shape + 1), 1 / shape
    return lambda words: LazyMap(
        lambda ball, share: ball * (share.log() * enclose(inverse)).exp(), larger.draw(words), LazyUniform(words)
    )


def beta(a: Rational, b: Rational, words: WordStream) -> LazyReal:
    """A Beta number.

    Parameters
    ----------
    a, b : Fraction or int
        The shapes, in (0, 2^200].
    words : WordStream
        The source of the random bits.

    Returns
    -------
    LazyReal
        The number, in (0, 1).

    Raises
    ------
    ValueError
        If a shape is out of range.

    Notes
    -----
    X / (X + Y) with independent Gamma numbers X and Y of shapes a and b, which are never rounded themselves
    (exact_draws.md, step 6). Kind: exact.
    """
    return beta_sampler(a, b)(words)


def beta_sampler(a: Rational, b: Rational) -> Sampler:
    """A function that draws as `beta` does; what depends on no randomness is computed once."""
    first, second = gamma_sampler(a), gamma_sampler(b)
    return lambda words: LazyMap(_share, first(words), second(words))


def dirichlet(alphas: Sequence[Rational], words: WordStream) -> list[LazyReal]:
    """A Dirichlet vector of K >= 2 shares.

    Parameters
    ----------
    alphas : sequence of Fraction or int
        The K shapes, each in (0, 2^200].
    words : WordStream
        The source of the random bits.

    Returns
    -------
    list of LazyReal
        The K shares, in (0, 1), which sum to 1.

    Raises
    ------
    ValueError
        If a shape is out of range, or if there are fewer than two.

    Notes
    -----
    Independent Gamma numbers over their sum. Only shares are released, so the sum need not be public
    (exact_draws.md, step 6). Kind: exact.
    """
    return dirichlet_sampler(alphas)(words)


def dirichlet_sampler(alphas: Sequence[Rational]) -> Callable[[WordStream], list[LazyReal]]:
    """A function that draws as `dirichlet` does; what depends on no randomness is computed once."""
    if len(alphas) < 2:
        raise ValueError(f"alphas must hold at least 2 shapes, got {len(alphas)}")
    gammas = {alpha: gamma_sampler(alpha) for alpha in alphas}

    def draw(words: WordStream) -> list[LazyReal]:
        parts = [gammas[alpha](words) for alpha in alphas]
        total = LazyMap(lambda *balls: sum(balls[1:], balls[0]), *parts)
        return [LazyMap(lambda ball, whole: ball / whole, part, total) for part in parts]

    return draw


def _above(ball: Any) -> Any:
    return ball.erfcinv() * _root_two()


def _below(ball: Any) -> Any:
    return -ball.erfcinv() * _root_two()


def _root_two() -> Any:
    return flint().arb(2).sqrt()


def _log(ball: Any) -> Any:
    return ball.log()


def _negative_log(ball: Any) -> Any:
    return -ball.log()


def _share(first: Any, second: Any) -> Any:
    return first / (first + second)
