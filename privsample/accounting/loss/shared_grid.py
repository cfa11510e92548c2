"""Grids that serve many questions about one composition (grid.md, section 9).

Grids are built for fixed ranges of delta. Which grid answers depends on the question alone, and not on the questions
before it. A wide range is tried first. Where its rounding errors count, a narrow one answers, and where that does not
contain the answer among its nodes, a grid around the question itself.
"""

import math
from collections.abc import Callable

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import log1mexp
from privsample._value import Memo, cached, frozen_value, stored
from privsample.accounting.loss import grid
from privsample.accounting.loss.grid_curve import Composition
from privsample.accounting.loss.grid_plan import (
    LEAST_LOG_DELTA,
    NEGLIGIBLE,
    approx_log_infinite,
    log_tail_bound,
    plan,
)
from privsample.accounting.loss.pair import LossPair

# Ranges in t, where log delta is -t^2 / 2: epsilon is then about t standard deviations above the mean loss.
_WIDE_FIRST, _WIDE_CENTRE, _WIDE = 8.6, 5.25, 5.6  # end and centre of the first wide range (1e-16); width of the others
_WIDE_START = 3.0  # in place of the start of the first wide range, for the growth of the tilt
_GROWTH = 2.5  # quotient of the growth of the tilt in a range, and of that for a Gaussian loss, up to which it is used
_NARROW = 1.0  # width of a narrow range
_SHALLOW = 60.0  # distance of log delta from 0 above which losses are truncated farther away
_BELOW_TOP = 1.0 - 1e-4  # fraction of the max divergence from which grids are built for single questions
_SAME = 1e-9  # relative distance of equal deltas
_ABOVE = 3.0  # nats by which Chernoff's bound typically exceeds log delta
_TILTS = np.geomspace(1e-5, 1e7, 121)


@frozen_value
class SharedGrids(Memo):
    """The privacy curve of a composition, by grids that are built at the first question in their ranges."""

    members: tuple[tuple[LossPair, int], ...]

    def epsilon(self, log_delta: float) -> float:
        """Smallest epsilon >= 0 at a log delta, rounded up; +inf if only a grid's truncated mass exceeds it."""
        rest, least = log_delta, np.inf
        if self._infinite > -np.inf:
            rest += float(log1mexp(min(self._infinite - log_delta, -1e-6)))
        if not self._is_expensive and rest >= max(LEAST_LOG_DELTA, self._least_in_ranges):
            for make in self._grids(rest):
                made = make()
                least = min(least, found := made.epsilon(log_delta))
                if made.resolves(found) and made.is_sharp(found, log_delta):
                    return least
        return min(least, grid.compose_at_log_delta(self.members, log_delta).epsilon(log_delta))

    def log_delta(self, epsilon: float) -> float:
        """Log delta at an epsilon >= 0, rounded up."""
        rest = self._approx_log_delta(epsilon)
        floor, least = self._infinite - NEGLIGIBLE, np.inf
        if max(rest, floor) >= LEAST_LOG_DELTA and epsilon <= _BELOW_TOP * self._top:
            for make in self._grids(max(rest, floor)):
                made = make()
                least = min(least, found := made.log_delta(epsilon))
                if made.resolves(epsilon) and made.is_sharp(epsilon, found):
                    return least
                if rest < floor and found <= self._infinite + _SAME:  # only the infinity mass is left
                    return least
        return min(least, self._next_to_the_top(epsilon))

    def _next_to_the_top(self, epsilon: float) -> float:
        """Log delta by a grid around a smaller epsilon, at a distance 2^(k/4) from the max divergence."""
        distance = self._top - epsilon
        if 0.0 < distance < np.inf:
            power = float(np.ceil(4 * np.log2(distance)))
            centre = self._top - 2.0 ** (power / 4)
            if 0.0 <= centre <= epsilon:
                made = stored(self, f"at {centre}", lambda: grid.compose_at_epsilon(self.members, centre))
                if epsilon <= centre + made.valid_radius:
                    return made.log_delta(epsilon)
        return grid.compose_at_epsilon(self.members, epsilon).log_delta(epsilon)

    @cached
    def _is_expensive(self) -> bool:
        """True if a member is discretized at few losses, so that wider truncation bounds make a grid coarser."""
        return any(pair.is_expensive for pair, _ in self.members)

    @cached
    def _least_in_ranges(self) -> float:
        """Log delta less the infinity mass below which epsilon is next to the max divergence; grids there are large."""
        return self._approx_log_delta(_BELOW_TOP * self._top) if self._top < np.inf else -np.inf

    @cached
    def _top(self) -> float:
        """Max divergence of the composition, not rounded."""
        return sum(times * pair.max_divergence for pair, times in self.members)

    def log_deltas(self, epsilon: FloatArray) -> FloatArray:
        """Log delta at each epsilon >= 0, shape (epsilons,)."""
        return np.array([self.log_delta(float(x)) for x in epsilon])

    def _grids(self, rest: float) -> tuple[Callable[[], Composition], ...]:
        """The wide and the narrow grid whose ranges contain a log delta less the infinity mass."""
        t = math.sqrt(-2.0 * min(rest, 0.0))
        number = max(math.ceil((t - _WIDE_FIRST) / _WIDE), 0)
        last = _WIDE_FIRST + _WIDE * number
        end = _NARROW * (math.floor(t / _NARROW) + 1)
        start = max(last - _WIDE, 0.0) if number else _WIDE_START
        middle = last - _WIDE / 2 if number else _WIDE_CENTRE
        wide = () if self._is_expensive else (lambda: self._grid("wide", (start, middle, last)),)
        return (*wide, lambda: self._grid("narrow", (end - _NARROW, end - _NARROW / 2, end)))

    def _grid(self, name: str, places: tuple[float, float, float]) -> Composition:
        """The grid of one range of t, given by its start, centre and end, built at its first use."""
        first, centre, last = (-(t**2) / 2 for t in places)
        # For a Gaussian loss, the tilt is proportional to t.
        growth = _GROWTH * places[2] / max(places[0], _NARROW / 2)
        return stored(
            self, f"{name} {last}", lambda: grid.compose_for_range(self.members, (first, centre, last), growth)
        )

    @cached
    def _infinite(self) -> float:
        """Approximate log infinity mass."""
        return approx_log_infinite(self.members)

    def _approx_log_delta(self, epsilon: float) -> float:
        """Approximate log delta at epsilon, less the infinity mass."""
        found = float((self._heights(0) - _TILTS * epsilon).min()) - _ABOVE
        if found < -_SHALLOW:
            found = float((self._heights(1) - _TILTS * epsilon).min()) - _ABOVE
        return found

    def _heights(self, depth: int) -> FloatArray:
        """Approximate logarithms of heights h with delta <= h e^{-c epsilon}, at each tilt c.

        Losses are truncated for log deltas of `_SHALLOW` and above at depth 0, and of `LEAST_LOG_DELTA` at depth 1.
        """
        lowest = (-2 * _SHALLOW, 2 * LEAST_LOG_DELTA)[depth]
        return stored(self, f"heights {depth}", lambda: log_tail_bound(plan(self.members, lowest), _TILTS))
