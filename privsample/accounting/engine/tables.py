"""Tables that replace expensive curves, chosen by costs that are known in advance (composition.md, section 5).

An account that is built on another evaluates many values of it. If these cost more than `BUDGET`, a table replaces the
curve: chords between a few values, which are upper bounds. The costs of nested accounts then add up instead of
multiplying. Costs depend on the parameters and not on a clock, so that every machine reports the same number.
"""

from dataclasses import replace

import numpy as np

from privsample._checks import FloatArray
from privsample._value import Memo, cached, frozen_value
from privsample.accounting.curves.chord_moments import renyi_from_chords
from privsample.accounting.curves.chords import CurveChords, RenyiChords
from privsample.accounting.curves.conversion import epsilon_at, log_delta_at
from privsample.accounting.engine import views
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.exact import CertifiedCase, CertifiedPair, Claims
from privsample.accounting.loss.pair import Envelope, LossPair, delta_below_zero, worst_renyi
from privsample.accounting.loss.product import ProductPair

BUDGET = 1e7  # largest cost, in values of a closed form: some seconds
_MOST, _FEWEST = 640, 48  # largest and smallest number of values in a table
# A table of a composition needs about this number of grids, whatever the number of its values, which can be large.
_GRIDS, _MOST_ON_GRIDS = 33.0, 5120
_FAR_LOG_DELTA, _FAR_ORDERS = -100.0, 300  # log delta below which conversions of this many orders are used instead
_NEXT_TO_MAX = 0.99  # fraction of the max divergence above which grids are too large, so that one chord replaces them
_TABLE_BUDGET = BUDGET / 8  # largest cost of one table
_MOST_FOR_CURVE = BUDGET / 2  # largest cost of a shortest table of a privacy curve


_ROUNDING = 1e-12  # bounds the rounding error of the logarithm of a chord next to the max divergence


def within_budget(bounds: PrivacyBounds, *, curve: float = 0.0, renyi: float = 0.0) -> PrivacyBounds:
    """The bounds themselves if so many values of both curves are affordable, otherwise tables of what is not."""
    if curve * bounds.curve_cost + renyi * bounds.renyi_cost <= BUDGET:
        return bounds
    table = tabulated(bounds)
    if table.pairs and table is not bounds and 0.0 < renyi * bounds.renyi_cost <= BUDGET / 2:
        return replace(table, renyi=bounds.renyi, own_renyi_cost=bounds.renyi_cost)
    return table


def tabulated(bounds: PrivacyBounds) -> PrivacyBounds:
    """Upper bounds by chords of the given bounds' curves, computed once and cached in the bounds.

    If even a short table of the privacy curve is too expensive, the result has a Rényi curve only.
    """
    if bounds.from_table and bounds.curve_cost + bounds.renyi_cost < _MOST:
        return bounds
    if "tables" not in bounds.memo:
        bounds.memo["tables"] = _tabulated(bounds)
    found: PrivacyBounds = bounds.memo["tables"]
    return found


def with_renyi_table(bounds: PrivacyBounds) -> PrivacyBounds:
    """The same bounds with a table of the Rényi curve, for many conversions; its values are upper bounds."""
    return _with_renyi(bounds, TabulatedRenyi(bounds=bounds, cost=bounds.renyi_cost))


def table_size(cost: float) -> int:
    """Number of values in a table whose values have this cost."""
    return int(np.clip(_TABLE_BUDGET / cost, _FEWEST, _MOST))


def _tabulated(bounds: PrivacyBounds) -> PrivacyBounds:
    """Construct the tabulated bounds: one tabulated pair for each direction, or one for the whole account."""
    single = bounds.single_pairs if bounds.curve_is_least and not bounds.parts else None
    tabulated_pairs = tuple(TabulatedPair.of(pair) for pair in single or ())
    if bounds.tabulated_renyi is not None:
        renyi = TabulatedRenyi(bounds=replace(bounds, renyi=bounds.tabulated_renyi), cost=bounds.tabulated_renyi_cost)
    elif tabulated_pairs and all(pair.renyi_is_integral for pair in tabulated_pairs):
        renyi = TabulatedRenyi(
            bounds=replace(bounds, renyi=lambda orders: worst_renyi(tabulated_pairs, orders)), cost=1.0
        )
    else:
        renyi = TabulatedRenyi(bounds=bounds, cost=bounds.renyi_cost)
    light = _with_renyi(bounds, renyi)
    if not tabulated_pairs:
        tabulated_pairs = (TabulatedPair(pair=_AccountEnvelope(bounds=light)),)
    affordable = all(pair.least_cost <= _MOST_FOR_CURVE for pair in tabulated_pairs)
    return PrivacyBounds(
        directions=tuple((pair,) for pair in tabulated_pairs) if affordable else (),
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


def _with_renyi(bounds: PrivacyBounds, renyi: "TabulatedRenyi") -> PrivacyBounds:
    """The bounds with a tabulated Rényi curve, also in their parts, where conversions evaluate it."""
    parts = tuple(with_renyi_table(part) for part in bounds.parts)
    bounds = replace(bounds, own_renyi_cost=0.5, listed_renyi_cost=None)
    return replace(bounds, renyi=renyi, renyi_bounds=(), renyi_tables=(), parts=parts)


@frozen_value
class TabulatedRenyi(Memo):
    """The Rényi curve of bounds by chords; the table is computed at the first evaluation."""

    bounds: PrivacyBounds
    cost: float

    @cached
    def _chords(self) -> RenyiChords:
        """The table of the Rényi curve."""
        return RenyiChords.of(self.bounds.renyi, self.bounds.order_limit, table_size(self.cost))

    def __call__(self, orders: FloatArray) -> FloatArray:
        """The chords, or the zCDP or pure guarantee where those are smaller, at each order."""
        a = np.asarray(orders, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            stated = np.minimum(self.bounds.zcdp * a * (1 + 1e-15), self.bounds.pure_epsilon)
        found = np.fmin(self._chords(a), stated)
        return np.where(a < self.bounds.order_limit, found, np.inf)


@frozen_value
class _AccountEnvelope(Envelope):
    """An envelope with the smallest privacy curve of an account, including conversions of its Rényi curve."""

    bounds: PrivacyBounds

    @property
    def max_divergence(self) -> float:
        """The account's pure guarantee in nats; +inf if it has an infinity mass."""
        return self.bounds.pure_epsilon if self.bounds.infinity_mass == 0.0 else np.inf

    @property
    def order_limit(self) -> float:
        """The account's order limit; 1 if it has an infinity mass."""
        return self.bounds.order_limit if self.bounds.infinity_mass == 0.0 else 1.0

    @property
    def curve_cost(self) -> float:
        """Cost of the account's privacy curve."""
        return self.bounds.curve_cost

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The account's Rényi curve."""
        return views.rdp(self.bounds, orders)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The account's log delta at epsilon >= 0."""
        return views.log_delta(self.bounds, epsilon)


@frozen_value
class TabulatedPair(LossPair):
    """A pair that dominates `pair`: its privacy curves are chords of that pair's; an envelope is its own reverse."""

    pair: LossPair

    @staticmethod
    def of(pair: LossPair) -> "TabulatedPair":
        """The table of a pair; if even few grids of a composition are too expensive, of tables of its members."""
        if isinstance(pair, ProductPair) and pair.is_on_grid and _GRIDS * pair.grid_cost > _MOST_FOR_CURVE:
            members = tuple((TabulatedPair(pair=own) if own.is_expensive else own, n) for own, n in pair.members)
            return TabulatedPair(pair=ProductPair(members=members))
        return TabulatedPair(pair=pair)

    @cached
    def _chords(self) -> CurveChords:
        """The table of the privacy curve."""
        if isinstance(self.pair, ProductPair) and self.pair.is_on_grid:
            return CurveChords.of(self._from_few_grids, self.pair.max_divergence, _MOST_ON_GRIDS)
        return CurveChords.of(self.pair.log_delta, self.pair.max_divergence, table_size(self.pair.curve_cost))

    @property
    def least_cost(self) -> float:
        """Approximate cost of the shortest table of the privacy curve."""
        if isinstance(self.pair, ProductPair) and self.pair.is_on_grid:
            return _GRIDS * self.pair.grid_cost + _FAR_ORDERS * self.pair.renyi_cost
        return _FEWEST * self.pair.curve_cost

    def _from_few_grids(self, epsilon: FloatArray) -> FloatArray:
        """Log delta of the pair, except where grids are many or large.

        Next to the max divergence, a chord in e^epsilon ends there; in the far tail, the Rényi curve is converted.
        """
        top, edge = self.max_divergence, self._edge
        last = min(_NEXT_TO_MAX * top, edge)
        found = self.pair.log_delta(np.minimum(epsilon, last))
        if np.isfinite(top):
            with np.errstate(divide="ignore"):
                chord = np.log(np.expm1(np.minimum(epsilon - top, 0.0)) / np.expm1(last - top))
            found = np.where(epsilon > last, found + chord + _ROUNDING, found)
        if (far := epsilon > edge).any():
            orders, divergences = self._far_renyi
            tail = [log_delta_at(orders, divergences, float(e)).min(initial=0.0) for e in epsilon[far]]
            found[far] = np.minimum(found[far], tail)
        return found

    @cached
    def _edge(self) -> float:
        """The epsilon, in nats, above which a composition counts as far tail; any value is valid."""
        return float(epsilon_at(*self._far_renyi, _FAR_LOG_DELTA).min(initial=np.inf))

    @cached
    def _far_renyi(self) -> tuple[FloatArray, FloatArray]:
        """Orders below the order limit, and the pair's Rényi curve there, for conversions in the far tail."""
        orders = 1.0 + np.geomspace(1e-3, 1e6, _FAR_ORDERS)
        orders = orders[orders < self.order_limit]
        return orders, self.pair.renyi(orders)

    def certified_pair(self) -> CertifiedPair:
        """The pair that the table replaces."""
        return self.pair.certified_pair()

    def certified_cases(self, claims: Claims) -> tuple[CertifiedCase, ...]:
        """The cases of the pair that the table replaces."""
        return self.pair.certified_cases(claims)

    @property
    def renyi_is_integral(self) -> bool:
        """True if the Rényi curve of the pair is computed as an integral over its privacy curves."""
        return hasattr(self.pair, "ceiling")

    @property
    def max_divergence(self) -> float:
        """Max divergence of the pair, in nats."""
        return self.pair.max_divergence

    @property
    def gaussian_part(self) -> tuple[float, float]:
        """That of the pair."""
        return self.pair.gaussian_part

    @property
    def order_limit(self) -> float:
        """Order limit of the pair."""
        return self.pair.order_limit

    @property
    def is_envelope(self) -> bool:
        """True if the pair is an envelope."""
        return self.pair.is_envelope

    @property
    def from_table(self) -> bool:
        """Always True."""
        return True

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Log delta by chords; for epsilon < 0 from the reversed pair."""
        e = np.asarray(epsilon, dtype=np.float64)
        if (e >= 0).all():
            return self._above_zero(e)
        back = self if self.reverse() == self else self.reverse()
        return np.where(e >= 0, self._above_zero(np.abs(e)), delta_below_zero(e, back._above_zero(np.abs(e))))

    def _above_zero(self, epsilon: FloatArray) -> FloatArray:
        """Log delta by chords at epsilon >= 0."""
        return np.where(epsilon >= self.max_divergence, -np.inf, self._chords(epsilon))

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Rényi divergence by chords: of the pair's Rényi curve, or of the integral over its privacy-curve chords."""
        a = np.asarray(orders, dtype=np.float64)
        return np.where(a < self.order_limit, np.fmin(self._renyi_chords(a), self.max_divergence), np.inf)

    @cached
    def _renyi_chords(self) -> RenyiChords:
        """The table of the Rényi curve."""
        if not self.renyi_is_integral:
            return RenyiChords.of(self.pair.renyi, self.order_limit, table_size(self.pair.renyi_cost))
        ahead, back = self._chords, self.reverse()._chords
        ceiling = self.pair.ceiling  # type: ignore[attr-defined]

        def integral(orders: FloatArray) -> FloatArray:
            return renyi_from_chords(ahead, back, ceiling, self.max_divergence, self.order_limit, orders)

        return RenyiChords.of(integral, self.order_limit, _MOST)

    @cached
    def _reversed(self) -> "TabulatedPair":
        """The tabulated reversed pair, created once."""
        back = self.pair.reverse()
        return self if back == self.pair else TabulatedPair(pair=back)

    def reverse(self) -> "TabulatedPair":
        """The tabulated reversed pair; this object itself if the pair is its own reverse."""
        return self._reversed
