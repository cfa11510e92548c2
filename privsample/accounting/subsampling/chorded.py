"""Pairs whose privacy curve is expensive: their Rényi curves and discretizations use chords of a table."""

import numpy as np

from privsample._checks import FloatArray
from privsample._value import cached
from privsample.accounting.curves.chord_moments import renyi_from_chords
from privsample.accounting.curves.chords import CurveChords
from privsample.accounting.curves.discretize import discretize_curve
from privsample.accounting.loss.pair import LossPair, delta_below_zero
from privsample.accounting.subsampling.pairs import CurvePair

_COST, _SIZES = 4e6, (400, 2048)  # cost of the table of a curve; its least and largest number of nodes
CHORDS = 50.0  # cost of one value of the Rényi curve by chords


class ChordedPair(CurvePair):
    """A CurvePair of which the privacy curve at epsilon >= 0 is tabulated once, by chords in e^epsilon."""

    __slots__ = ()

    @property
    def is_expensive(self) -> bool:
        """True."""
        return True

    @property
    def renyi_cost(self) -> float:
        """The cost of an integral over the chords."""
        return CHORDS

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Rényi curve by integrating the chords of both privacy curves (Theorem 6)."""
        back = self._reversed._chords
        return renyi_from_chords(self._chords, back, self.ceiling, self.max_divergence, self.order_limit, orders)

    def discretize(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """Discretize the chords of a table, whose nodes are dense where the curve decreases."""
        return discretize_curve(self._chord_curve, self._reversed._chord_curve, nodes)

    def approx_discretize(self, nodes: FloatArray) -> FloatArray:
        """The masses of `discretize`, which are cheap once the table is known."""
        return self.discretize(nodes)[0]

    def _table_curve(self, epsilon: FloatArray) -> FloatArray:
        """The upper bound on log delta at epsilon >= 0 that is tabulated; by default `log_delta`."""
        return self.log_delta(epsilon)

    @cached
    def _chords(self) -> CurveChords:
        """The table of the privacy curve."""
        return CurveChords.of(self._table_curve, self.max_divergence, self._nodes).convex

    @property
    def _nodes(self) -> int:
        """The number of nodes of the table."""
        return int(np.clip(_COST / self.curve_cost, *_SIZES))

    def _chord_curve(self, epsilon: FloatArray) -> FloatArray:
        """log delta by chords, an upper bound at any real epsilon."""
        e = np.abs(epsilon)
        above = np.where(e >= self.max_divergence, -np.inf, self._chords(e))
        if not (epsilon < 0).any():
            return above
        back = self._reversed
        below = np.where(e >= back.max_divergence, -np.inf, back._chords(e))
        return np.where(epsilon >= 0, above, delta_below_zero(epsilon, below))

    @cached
    def _reversed(self) -> "ChordedPair":
        """The reversed pair, whose table is computed once."""
        found: LossPair = self.reverse()
        assert isinstance(found, ChordedPair)
        return found
