"""Exact draws from a Dirichlet distribution truncated to shares of at least a public bound."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from privsample.distributions.exact.balls import Rational, enclose
from privsample.distributions.exact.choice import exact_choice
from privsample.distributions.exact.gammas import check_shape
from privsample.distributions.exact.lazy import LazyMap, LazyReal, LazyUniform, decide, less
from privsample.distributions.exact.truncated import truncated_beta_sampler, truncated_gamma_sampler
from privsample.distributions.exact.words import WordStream
from privsample.distributions.parametric.rejection import gamma_rates

_LARGEST = 2**96  # beyond 1/eps^2 the rate, a double, is too coarse for the shares to be accepted


def truncated_dirichlet(alphas: Sequence[Rational], low: Rational, words: WordStream) -> list[LazyReal]:
    """A Dirichlet vector with shares of at least `low`; parameters as in `truncated_dirichlet_sampler`. Kind: exact."""
    return truncated_dirichlet_sampler(alphas, low)(words)


def truncated_dirichlet_sampler(alphas: Sequence[Rational], low: Rational) -> Callable[[WordStream], list[LazyReal]]:
    """A function that draws from a Dirichlet distribution truncated to shares of at least `low`.

    Parameters
    ----------
    alphas : sequence of Fraction or int
        The K >= 2 shapes, in (0, 2^200]; for K > 2 at most 2^96.
    low : Fraction or int
        The smallest share, 0 < low < 1/K.

    Returns
    -------
    callable
        Maps a `WordStream` to a list of K `LazyReal`.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    Two shares are a truncated Beta number and its complement. For more, all shares but one are truncated Gamma numbers
    of a common rate; the last is the remainder, accepted in proportion to its density (exact_draws.md, step 8).
    Kind: exact.
    """
    shapes = [check_shape(**{f"alphas[{i}]": alpha}) for i, alpha in enumerate(alphas)]
    if len(shapes) < 2:
        raise ValueError(f"alphas must hold at least 2 shapes, got {len(shapes)}")
    low = Fraction(low)
    if not 0 < low * len(shapes) < 1:
        raise ValueError(f"low must be in (0, 1/{len(shapes)}) for {len(shapes)} shares, got {float(low):g}")
    if len(shapes) == 2:
        return partial(_two_shares, truncated_beta_sampler(shapes[0], shapes[1], low, 1 - low))
    if not max(shapes) <= _LARGEST:
        raise ValueError(f"alphas must be at most 2^96 for 3 or more truncated shares, got {float(max(shapes)):g}")
    return _Shares(shapes, low)


def _two_shares(draw: Callable[[WordStream], LazyReal], words: WordStream) -> list[LazyReal]:
    """A share and its complement."""
    share = draw(words)
    return [share, LazyMap(lambda ball: 1 - ball, share)]


class _Shares:
    """Truncated Dirichlet vectors of at least three shares."""

    def __init__(self, shapes: list[Fraction], low: Fraction) -> None:
        self._shapes, self._low, self._high = shapes, low, 1 - (len(shapes) - 1) * low
        guess = gamma_rates(np.array([[float(shape) for shape in shapes]]), np.array([float(low)]))[0]
        self._rate = Fraction(float(guess))  # it only decides the acceptance probability
        self._draws = [truncated_gamma_sampler(shape, self._rate, low, self._high) for shape in shapes]
        self._largest = max(range(len(shapes)), key=shapes.__getitem__)
        self._stored: dict[tuple[int, int], Any] = {}
        self._weights = None if shapes[self._largest] >= 1 else [partial(self._weight, i) for i in range(len(shapes))]

    def __call__(self, words: WordStream) -> list[LazyReal]:
        while True:
            omitted = self._largest if self._weights is None else exact_choice(self._weights, words)
            shares: list[LazyReal] = [draw(words) for place, draw in enumerate(self._draws) if place != omitted]
            rest = LazyMap(lambda *balls: 1 - sum(balls[1:], balls[0]), *shares)
            if decide(self.accepted(omitted, rest, LazyUniform(words))):
                shares.insert(omitted, rest)
                return shares

    def accepted(self, omitted: int, rest: LazyReal, height: LazyReal) -> Callable[[int], bool | None]:
        """The test that accepts the remainder as the omitted share: its density over the largest value of that."""
        power, peak = self._power(omitted), self._peak(omitted)

        def test(bits: int) -> bool | None:
            share = rest.ball(bits)
            if share < enclose(self._low):
                return False
            if not share >= enclose(self._low):
                return None
            fall = enclose(power) * (share / enclose(peak)).log() - enclose(self._rate) * (share - enclose(peak))
            return less(height.ball(bits).log(), fall)

        return test

    def _power(self, omitted: int) -> Fraction:
        """The power p of the density x^p e^(-rate x) of the omitted share."""
        return self._shapes[omitted] - (1 if self._weights is None else 0)

    def _peak(self, omitted: int) -> Fraction:
        """Where that density is largest on [low, high]."""
        return min(max(self._power(omitted) / self._rate, self._low), self._high)

    def _weight(self, omitted: int, bits: int) -> Any:
        """Unnormalised probability to omit a share if all shapes are below 1, at the working precision.

        The largest value of x^shape e^(-rate x), divided by the mass of x^(shape - 1) e^(-rate x), on [low, high].
        """
        found = self._stored.get((omitted, bits))
        if found is None:
            shape, rate, peak = enclose(self._shapes[omitted]), enclose(self._rate), enclose(self._peak(omitted))
            start, end = enclose(self._rate * self._low), enclose(self._rate * self._high)
            # The argument comes first in python-flint, the shape second.
            mass = start.gamma_upper(shape) - end.gamma_upper(shape)
            found = self._stored[omitted, bits] = (shape * (rate * peak).log() - rate * peak).exp() / mass
        return found
