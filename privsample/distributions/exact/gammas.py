"""Exact Gamma numbers by rejection from cubed normal numbers (Marsaglia and Tsang 2000)."""

from fractions import Fraction
from typing import Any

from privsample.distributions.exact.balls import Rational, WorkingPrecision, enclose, flint
from privsample.distributions.exact.lazy import LazyReal, LazyUniform, decide, less
from privsample.distributions.exact.words import WordStream

LARGEST_SHAPE = 2**200
_STORED = 4  # precisions of which the constants of a shape are kept


def check_shape(**named: Rational) -> Fraction:
    """A shape parameter as an exact fraction in (0, 2^200]."""
    ((name, shape),) = named.items()
    if not 0 < shape <= LARGEST_SHAPE:
        raise ValueError(f"{name} must be > 0 and at most 2^200 for exact draws, got {_described(shape)}")
    return shape if isinstance(shape, Fraction) else Fraction(shape)


class GammaSampler:
    """Exact Gamma numbers of one shape >= 1 and rate 1; its constants are computed once."""

    def __init__(self, shape: Fraction) -> None:
        self._third = shape - Fraction(1, 3)
        self._stored: dict[int, tuple[Any, Any]] = {}

    def draw(self, words: WordStream) -> LazyReal:
        """An exact draw."""
        while True:
            proposal = GammaProposal(self, words.word() & 1, LazyUniform(words), LazyUniform(words))
            if decide(proposal.accepted):
                return proposal

    def constants(self, bits: int) -> tuple[Any, Any]:
        """d = shape - 1/3, and c = sqrt(2 / (9 d)), as balls."""
        found = self._stored.get(bits)
        if found is None:
            with WorkingPrecision(bits):
                third = enclose(self._third)
                found = third, (2 / (9 * third)).sqrt()
            if len(self._stored) < _STORED:
                self._stored[bits] = found
        return found


class GammaProposal:
    """The proposal d (1 + t)^3, t = Z / (3 sqrt(d)), and the test that accepts it (exact_draws.md, step 5).

    Parameters
    ----------
    sampler : GammaSampler
        The constants of the shape.
    negative : int
        1 if the normal number Z is negative, else 0.
    across, height : LazyReal
        The uniform numbers for |Z| = sqrt(2) erfcinv(U), and for the test.
    """

    __slots__ = ("_across", "_bits", "_found", "_height", "_negative", "_sampler")

    def __init__(self, sampler: GammaSampler, negative: int, across: LazyReal, height: LazyReal) -> None:
        self._sampler, self._negative, self._across, self._height = sampler, negative, across, height
        self._bits = 0
        self._found: tuple[Any, Any, Any, Any] = (None, None, None, None)

    def accepted(self, bits: int) -> bool | None:
        """Whether the proposal is accepted; None if the precision leaves it open."""
        size, base, cube, _ = self._parts(bits)
        if not base > 0:
            return False if base <= 0 else None
        third = self._sampler.constants(bits)[0]
        # Z^2 / 2 + d (1 - v + log v): log of target over hat, at most 0 for every Z.
        gain = size * size + third * (1 - cube + 3 * base.log())
        return less(self._height.ball(bits).log(), gain)

    def ball(self, bits: int) -> Any:
        """The proposal."""
        return self._parts(bits)[3]

    def _parts(self, bits: int) -> tuple[Any, Any, Any, Any]:
        """|Z| / sqrt(2), 1 + t, its cube, and the number."""
        if bits != self._bits:
            if flint().ctx.prec == bits:
                self._found = self._computed(bits)
            else:
                with WorkingPrecision(bits):
                    self._found = self._computed(bits)
            self._bits = bits
        return self._found

    def _computed(self, bits: int) -> tuple[Any, Any, Any, Any]:
        """`_parts` at the working precision."""
        size = self._across.ball(bits).erfcinv()
        third, factor = self._sampler.constants(bits)
        step = factor * size
        base = 1 - step if self._negative else 1 + step
        cube = base * base * base
        return size, base, cube, third * cube


def _described(shape: Rational) -> str:
    """A number that may exceed the doubles, as text."""
    try:
        return f"{float(shape):g}"
    except OverflowError:
        return "a larger number"
