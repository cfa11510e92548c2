"""Exact rejection from a log-concave density on an interval, under an envelope of tangents."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from privsample.distributions.exact.balls import WorkingPrecision, flint
from privsample.distributions.exact.choice import exact_choice
from privsample.distributions.exact.lazy import START, LazyMap, LazyReal, LazyUniform, decide, less
from privsample.distributions.exact.words import WordStream

_NEAR, _FAR = 0.5, 3.0  # how far the log density falls from the mode to the outer tangent points, in nats
_STORED = 4  # precisions of which the constants of the pieces are kept


class LogConcave(NamedTuple):
    """A log-concave density of a coordinate z on an interval that contains 0, where it is largest.

    All functions map balls to balls at the working precision.
    """

    fall: Callable[[Any], Any]  # log density at z minus that at 0; concave on the whole line
    slope: Callable[[Any], Any]  # its derivative
    ends: Callable[[], tuple[Any, Any]]  # the ends of the interval
    place: Callable[[Any], Any]  # the number at z
    curvature: float  # minus the second derivative at 0, roughly
    inner: bool  # the derivative at 0 is exactly 0
    bits: int  # precision at which the logarithms of the density are certain to a fraction of a nat


class _Piece(NamedTuple):
    """Part of the interval under one tangent; an end that is None is that of the interval."""

    tangent: float
    low: float | None
    high: float | None


class _Constants(NamedTuple):
    """What a piece is computed from, as balls; the slope is None if it is 0, and then `growth` is the width."""

    anchor: Any
    level: Any  # log envelope at the anchor
    slope: Any
    growth: Any
    weight: Any


class TangentSampler:
    """Exact draws from a log-concave density on an interval (exact_draws.md, step 7).

    The envelope is piecewise exponential: each piece is a tangent, which lies above a concave function everywhere. The
    tangent points and the ends of the pieces are doubles, which decide the acceptance probability and nothing else.

    Parameters
    ----------
    density : LogConcave
        The density.
    """

    def __init__(self, density: LogConcave) -> None:
        self._density = density
        self._stored: dict[int, list[_Constants]] = {}
        with WorkingPrecision(max(density.bits, START)):
            self.pieces = _pieces(density)

    def draw(self, words: WordStream) -> LazyReal:
        """An exact draw."""
        weights = [partial(self.weight, index) for index in range(len(self.pieces))]
        while True:
            index = exact_choice(weights, words) if len(weights) > 1 else 0
            number, accepted = self.proposal(index, LazyUniform(words), LazyUniform(words))
            if decide(accepted):
                return number

    def weight(self, index: int, bits: int) -> Any:
        """The mass of the envelope over a piece."""
        return self._constants(bits)[index].weight

    def proposal(self, index: int, across: LazyReal, height: LazyReal) -> tuple[LazyReal, Callable[[int], bool | None]]:
        """A proposal from a piece, by two uniform numbers, and the test that accepts it."""
        shift = _Shift(self, index, across)

        def accepted(bits: int) -> bool | None:
            z, envelope = shift.both(bits)
            return less(height.ball(bits).log(), self._density.fall(z) - envelope)

        return LazyMap(self._density.place, shift), accepted

    def _constants(self, bits: int) -> list[_Constants]:
        """The constants of all pieces at this precision."""
        found = self._stored.get(bits)
        if found is None:
            with WorkingPrecision(bits):
                found = [self._constants_of(piece) for piece in self.pieces]
            if len(self._stored) < _STORED:
                self._stored[bits] = found
        return found

    def _constants_of(self, piece: _Piece) -> _Constants:
        arb, density = flint().arb, self._density
        ends = density.ends()
        low = ends[0] if piece.low is None else arb(piece.low)
        high = ends[1] if piece.high is None else arb(piece.high)
        at = arb(piece.tangent)
        level, width = density.fall(at), high - low
        if density.inner and piece.tangent == 0.0:
            return _Constants(low, level, None, width, width * level.exp())
        slope = density.slope(at)
        # Anchored at the higher end, where nothing overflows. A slope of open sign leaves the weight open too.
        anchor = high if slope > 0 else low if slope < 0 else arb("nan")
        level += slope * (anchor - at)
        growth = (-abs(slope) * width).expm1()
        return _Constants(anchor, level, slope, growth, level.exp() * -growth / abs(slope))

    def at(self, index: int, uniform: Any, bits: int) -> tuple[Any, Any]:
        """The coordinate that a uniform number stands for in a piece, and the log envelope there."""
        anchor, level, slope, growth, _ = self._constants(bits)[index]
        if slope is None:
            return anchor + uniform * growth, level
        fallen = (uniform * growth).log1p()
        return anchor + fallen / slope, level + fallen


class _Shift:
    """The coordinate z of a proposal, as a lazy real number."""

    __slots__ = ("_bits", "_found", "_index", "_sampler", "_uniform")

    def __init__(self, sampler: TangentSampler, index: int, uniform: LazyReal) -> None:
        self._sampler, self._index, self._uniform = sampler, index, uniform
        self._bits = 0
        self._found: tuple[Any, Any] = (None, None)

    def both(self, bits: int) -> tuple[Any, Any]:
        """The coordinate and the log envelope there."""
        if bits != self._bits:
            with WorkingPrecision(bits):
                self._found = self._sampler.at(self._index, self._uniform.ball(bits), bits)
            self._bits = bits
        return self._found

    def ball(self, bits: int) -> Any:
        """The coordinate."""
        return self.both(bits)[0]


def _pieces(density: LogConcave) -> list[_Piece]:
    """Tangent points at the mode and about one nat below it on both sides, and the ends of their pieces."""
    arb = flint().arb
    ends = density.ends()
    low, high = (float(end.mid()) for end in ends)
    start = 0.0 if density.inner else abs(float(density.slope(arb(0)).mid()))
    reach = 2.0 / (start + math.sqrt(start * start + 2.0 * density.curvature))
    sides = [math.copysign(1.0, end) for end in (low, high) if end != 0.0]
    outer = [side * _outer(density, reach, abs(low if side < 0.0 else high), side) for side in sides]
    lines = []
    for point in sorted([0.0, *outer]):
        slope = 0.0 if density.inner and point == 0.0 else float(density.slope(arb(point)).mid())
        lines.append((point, float(density.fall(arb(point)).mid()), slope))
    (p, g, s), *others = lines
    found = [_Piece(p, None, None)]
    for q, h, t in others:
        cross = (h - g + s * p - t * q) / (s - t) if s > t else math.nan
        if ends[0] < cross < ends[1] and p <= cross <= q:  # else the tangents nearly coincide, and one suffices
            found[-1] = found[-1]._replace(high=cross)
            found.append(_Piece(q, cross, None))
            p, g, s = q, h, t
    return found


def _outer(density: LogConcave, reach: float, end: float, sign: float) -> float:
    """The distance of an outer tangent point from the mode, at most that of the end."""
    arb = flint().arb

    def fallen(distance: float) -> float:
        return -float(density.fall(arb(sign * distance)).mid())

    distance = min(reach, end)
    while distance < end and fallen(distance) < _NEAR:
        distance = min(2.0 * distance, end)
    while fallen(distance) > _FAR:
        distance /= 2.0
    return distance
