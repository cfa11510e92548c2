"""Tables of curves in place of curves that are too expensive, decided by the costs that are known beforehand.

What is built on an account asks it for many values. If these cost more than `BUDGET`, it asks a table instead: chords
between a few values, which are never below the truth. So costs along a chain of accounts add and do not multiply. Costs
follow from the parameters and not from a clock: all machines give the same number.
Proof: docs/notes/composition.md, "Tables".
"""

from dataclasses import replace

import numpy as np

from privsample._checks import FloatArray
from privsample._value import Memo, cached, frozen_value
from privsample.accounting.curves.chord_moments import renyi_from_chords
from privsample.accounting.curves.chords import CurveChords, RenyiChords
from privsample.accounting.engine import views
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.pair import Envelope, LossPair, delta_below_zero, worst_renyi
from privsample.accounting.loss.product import ProductPair

BUDGET = 1e7  # some seconds, in values of a closed form
_PER_GRID = 20.0  # values of a composed loss that one grid serves, about
_MOST, _FEWEST = 640, 48  # values of a table
_PART = BUDGET / 8  # what one table may cost


def within_budget(bounds: PrivacyBounds, *, curve: float = 0.0, renyi: float = 0.0) -> PrivacyBounds:
    """The bounds themselves where so many values of both curves are affordable, else tables of them."""
    if curve * bounds.curve_cost + renyi * bounds.renyi_cost <= BUDGET:
        return bounds
    return tabulated(bounds)


def tabulated(bounds: PrivacyBounds) -> PrivacyBounds:
    """Upper bounds by chords of these, each of whose values costs next to nothing once the tables are filled.

    Where even a short table of the privacy curve is too expensive, only the Rényi curve is left.
    """
    if bounds.from_table and bounds.curve_cost + bounds.renyi_cost < _MOST:
        return bounds
    if "tables" not in bounds.memo:
        bounds.memo["tables"] = _tabulated(bounds)
    found: PrivacyBounds = bounds.memo["tables"]
    return found


def table_size(cost: float) -> int:
    """How many values of this cost a table holds."""
    return int(np.clip(_PART / cost, _FEWEST, _MOST))


def _tabulated(bounds: PrivacyBounds) -> PrivacyBounds:
    single = bounds.single_pairs if bounds.curve_is_least and not bounds.parts else None
    sides = tuple(TabulatedPair(pair=pair) for pair in single or ())
    if bounds.tabulated_renyi is not None:
        renyi = RenyiOf(bounds=replace(bounds, renyi=bounds.tabulated_renyi), cost=bounds.tabulated_renyi_cost)
    elif sides and all(pair.by_curve for pair in sides):
        renyi = RenyiOf(bounds=replace(bounds, renyi=lambda orders: worst_renyi(sides, orders)), cost=1.0)
    else:
        renyi = RenyiOf(bounds=bounds, cost=bounds.renyi_cost)
    light = _with_renyi(bounds, renyi)
    if not sides:
        sides = (TabulatedPair(pair=_Whole(bounds=light)),)
    affordable = all(_FEWEST * pair.pair.curve_cost <= 4 * _PART for pair in sides)
    return PrivacyBounds(
        directions=tuple((pair,) for pair in sides) if affordable else (),
        renyi=renyi,
        order_limit=bounds.order_limit,
        infinity_mass=bounds.infinity_mass,
        pure_epsilon=bounds.pure_epsilon,
        zcdp=bounds.zcdp,
        curve_is_least=affordable,
        composes_by_pairs=bounds.composes_by_pairs,
        inverts_exactly=affordable,
        own_renyi_cost=0.5,
        tabulated=True,
    )


def _with_renyi(bounds: PrivacyBounds, renyi: "RenyiOf") -> PrivacyBounds:
    """The same with a tabulated Rényi curve wherever a privacy curve is read from it."""
    parts = tuple(_with_renyi(part, RenyiOf(bounds=part, cost=part.renyi_cost)) for part in bounds.parts)
    return replace(bounds, renyi=renyi, renyi_bounds=(), renyi_tables=(), parts=parts, own_renyi_cost=0.5)


@frozen_value
class RenyiOf(Memo):
    """The Rényi curve of bounds by chords, filled at the first question."""

    bounds: PrivacyBounds
    cost: float

    @cached
    def _chords(self) -> RenyiChords:
        return RenyiChords.of(self.bounds.renyi, self.bounds.order_limit, table_size(self.cost))

    def __call__(self, orders: FloatArray) -> FloatArray:
        """At most what zCDP and the pure guarantee imply."""
        a = np.asarray(orders, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            stated = np.minimum(self.bounds.zcdp * a * (1 + 1e-15), self.bounds.pure_epsilon)
        found = np.fmin(self._chords(a), stated)
        return np.where(a < self.bounds.order_limit, found, np.inf)


@frozen_value
class _Whole(Envelope):
    """All neighbours of an account by its least privacy curve, conversions of its Rényi curve included."""

    bounds: PrivacyBounds

    @property
    def max_divergence(self) -> float:
        """The account's pure guarantee; +inf where it has an infinity mass."""
        return self.bounds.pure_epsilon if self.bounds.infinity_mass == 0.0 else np.inf

    @property
    def order_limit(self) -> float:
        """The account's; 1 where it has an infinity mass."""
        return self.bounds.order_limit if self.bounds.infinity_mass == 0.0 else 1.0

    @property
    def curve_cost(self) -> float:
        """The account's."""
        return self.bounds.curve_cost

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The account's."""
        return views.rdp(self.bounds, orders)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The account's, epsilon >= 0."""
        return views.log_delta(self.bounds, epsilon)


@frozen_value
class TabulatedPair(LossPair):
    """Dominates `pair`: its privacy curves joined by chords. An envelope stays its own reverse."""

    pair: LossPair

    @cached
    def _chords(self) -> CurveChords:
        shared = _PER_GRID if isinstance(self.pair, ProductPair) else 1.0
        return CurveChords.of(self.pair.log_delta, self.pair.max_divergence, table_size(self.pair.curve_cost / shared))

    @property
    def by_curve(self) -> bool:
        """Whether the Rényi curve of the pair is an integral over its privacy curves."""
        return hasattr(self.pair, "ceiling")

    @property
    def max_divergence(self) -> float:
        """The pair's."""
        return self.pair.max_divergence

    @property
    def order_limit(self) -> float:
        """The pair's."""
        return self.pair.order_limit

    @property
    def is_envelope(self) -> bool:
        """Where the pair is."""
        return self.pair.is_envelope

    @property
    def from_table(self) -> bool:
        """It is a table."""
        return True

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """By chords; below zero from the reversed pair."""
        e = np.asarray(epsilon, dtype=np.float64)
        if (e >= 0).all():
            return self._above_zero(e)
        back = self if self.reverse() == self else self.reverse()
        return np.where(e >= 0, self._above_zero(np.abs(e)), delta_below_zero(e, back._above_zero(np.abs(e))))

    def _above_zero(self, epsilon: FloatArray) -> FloatArray:
        return np.where(epsilon >= self.max_divergence, -np.inf, self._chords(epsilon))

    def renyi(self, orders: FloatArray) -> FloatArray:
        """By chords of the pair's own curve, or of the integral over its chords where it is such an integral."""
        a = np.asarray(orders, dtype=np.float64)
        return np.where(a < self.order_limit, np.fmin(self._renyi_chords(a), self.max_divergence), np.inf)

    @cached
    def _renyi_chords(self) -> RenyiChords:
        if not self.by_curve:
            return RenyiChords.of(self.pair.renyi, self.order_limit, table_size(self.pair.renyi_cost))
        ahead, back = self._chords, self.reverse()._chords
        ceiling = self.pair.ceiling  # type: ignore[attr-defined]

        def integral(orders: FloatArray) -> FloatArray:
            return renyi_from_chords(ahead, back, ceiling, self.max_divergence, self.order_limit, orders)

        return RenyiChords.of(integral, self.order_limit, _MOST)

    @cached
    def _reversed(self) -> "TabulatedPair":
        back = self.pair.reverse()
        return self if back == self.pair else TabulatedPair(pair=back)

    def reverse(self) -> "TabulatedPair":
        """A table of the reversed pair; itself where the pair is its own reverse."""
        return self._reversed
