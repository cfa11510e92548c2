"""Privacy curves of the two orders of neighbours: of the dataset with the record against that without it, and back."""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from privsample._checks import FloatArray, one_of
from privsample._value import Memo, cached, frozen_value
from privsample.accounting.curves.power import least_errors
from privsample.accounting.engine import views
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.routes import affordable
from privsample.accounting.engine.tables import within_budget
from privsample.accounting.loss.pair import delta_below_zero
from privsample.accounting.loss.product import ProductPair
from privsample.errors import RelationMismatch
from privsample.relations import AddRemove

if TYPE_CHECKING:
    from privsample.accounting.base import Accountant

Direction = Literal["remove", "add"]
DIRECTIONS: tuple[Direction, ...] = ("remove", "add")
_ULP = float(np.finfo(np.float64).eps)
_TOLERANCE, _TOLERANCE_OF_EXPENSIVE = 1e-12, 1e-8  # relative gaps of the errors of tests
_CLOSED = 1000.0  # cost of a value, in values of a closed form, from which a curve counts as expensive
_VALUES = 0.5  # number of values for which `within_budget` decides on a table, as in `Accountant.log_delta`


@frozen_value
class DirectionCurve(Memo):
    """The privacy curve D_{e^epsilon}(P || Q) of all neighbours in one order, and that of the reversed order.

    P is the output distribution on the first neighbour. In the direction "remove" the first neighbour contains the
    record and the second does not, and in the direction "add" it is the other way round.
    """

    bounds: PrivacyBounds
    reversed_bounds: PrivacyBounds

    @property
    def pure_epsilon(self) -> float:
        """Epsilon in nats from which the curve is 0; +inf if there is none, as with an infinity mass."""
        own = max((pair.max_divergence for pair in self.bounds.pairs), default=np.inf)
        return own if self.bounds.infinity_mass > 0.0 else min(self.bounds.pure_epsilon, own)

    @cached
    def reverse(self) -> "DirectionCurve":
        """The curve of the same neighbours in the other order."""
        return DirectionCurve(bounds=self.reversed_bounds, reversed_bounds=self.bounds)

    @property
    def infinity_mass(self) -> float:
        """The limit of the curve at large epsilons, rounded up."""
        return float(_exp_up(self.log_delta(np.array([1e300])))[0])

    def log_excess(self, epsilon: FloatArray) -> FloatArray:
        """log(D_{e^epsilon} - max(0, 1 - e^epsilon)) at any real epsilons, rounded up, of the shape of `epsilon`.

        It is the privacy curve at epsilon >= 0, and epsilon plus the reversed privacy curve at -epsilon below 0.
        """
        e = np.clip(np.asarray(epsilon, dtype=np.float64), -1e300, 1e300)
        below, found = e < 0.0, np.empty(e.shape)
        if self.bounds is self.reversed_bounds:  # each distance from 0 is evaluated once
            distinct, where = np.unique(np.abs(e), return_inverse=True)
            found = views.log_delta(self.bounds, distinct)[where].reshape(e.shape)
        else:
            for bounds, rows in ((self.bounds, ~below), (self.reversed_bounds, below)):
                if rows.any():
                    found[rows] = views.log_delta(bounds, np.abs(e[rows]))
        return np.where(below, e + found, found)

    def excess(self, epsilon: FloatArray) -> FloatArray:
        """exp of `log_excess`, rounded up."""
        return _exp_up(self.log_excess(epsilon))

    def errors(self, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The largest power of a test of the second neighbour against the first, and the least type II error.

        The second neighbour is the null hypothesis. Equal rates have equal results, whatever was computed before.

        Parameters
        ----------
        rates : array, any shape
            False positive rates in [0, 1].

        Returns
        -------
        powers : array, shape of `rates`
            Upper bounds, rounded up.
        misses : array, shape of `rates`
            Lower bounds, rounded down.
        """
        distinct, where = np.unique(rates, return_inverse=True)
        key = distinct.tobytes()
        if key not in self._known_errors:
            self._known_errors[key] = self._least_errors(distinct)
        powers, misses = self._known_errors[key]
        return powers[where].reshape(rates.shape), misses[where].reshape(rates.shape)

    @cached
    def _known_errors(self) -> dict[bytes, tuple[FloatArray, FloatArray]]:
        """Results of `errors` by rates."""
        return {}

    def _least_errors(self, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """`errors` at increasing rates."""
        positive = rates > 0.0
        powers = np.full(rates.shape, self.infinity_mass if not positive.all() else np.nan)
        misses = np.where(powers > 0.0, np.maximum(1.0 - powers - _ULP, 0.0), 1.0)
        pairs = self.bounds.pairs
        expensive = self.bounds.curve_cost > _CLOSED
        powers[positive], misses[positive] = least_errors(
            self.log_excess,
            rates[positive],
            kinks=(-self.bounds.pure_epsilon, self.bounds.pure_epsilon),
            tolerance=_TOLERANCE_OF_EXPENSIVE if expensive else _TOLERANCE,
            points=9 if any(isinstance(pair, ProductPair) and pair.is_on_grid for pair in pairs) else 3,
        )
        return powers, misses

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Logarithm of the privacy curve at any real epsilons (nats), rounded up, of the shape of `epsilon`."""
        e = np.clip(np.asarray(epsilon, dtype=np.float64), -1e300, 1e300)
        found = self.log_excess(e)
        return np.where(e < 0.0, delta_below_zero(e, found - np.minimum(e, 0.0)), found)


def direction_bounds(account: "Accountant", direction: Direction | None = None) -> tuple[DirectionCurve, ...]:
    """The privacy curves of neighbours in one direction of the relation, or in every direction.

    A guarantee holds in the worse direction if it holds for each curve that is returned.

    Parameters
    ----------
    account : Accountant
        The account.
    direction : {"remove", "add"}, optional
        The direction. None asks for all directions: two curves if the account knows the directions apart, otherwise the
        one curve that holds for both.

    Returns
    -------
    tuple of DirectionCurve
        One curve for each direction that was asked for. If the account does not know the directions apart, as with a
        Rényi curve alone, "remove" and "add" both have the curve that holds for both.

    Raises
    ------
    ValueError
        If `direction` is not one of the names.
    RelationMismatch
        If a direction is named under a relation other than AddRemove. Under ReplaceOne either neighbour can come first,
        so that every bound holds for both orders.
    """
    if direction is not None:
        if not one_of(direction, DIRECTIONS):
            raise ValueError(f"direction must be 'remove', 'add' or None for the worse of both, got {direction!r}")
        if not isinstance(account.relation, AddRemove):
            raise RelationMismatch(
                f"direction must be None under {type(account.relation).__name__}, whose neighbours have no order, got "
                f"{direction!r}: 'remove' and 'add' name directions of AddRemove"
            )
    both = _both(account)
    return both if direction is None else (both[DIRECTIONS.index(direction) % len(both)],)


def _exp_up(log: FloatArray) -> FloatArray:
    """exp of logarithms <= 0, rounded up."""
    with np.errstate(invalid="ignore"):
        found = np.nextafter(np.exp(log) * (1.0 + 4 * _ULP * (1.0 - log)), 1.0)
    return np.where(np.isneginf(log), 0.0, np.minimum(found, 1.0))


def _both(account: "Accountant") -> tuple[DirectionCurve, ...]:
    """The curves of all directions that the account knows apart; computed once for each account."""
    memo = account.bounds.memo
    if "directions" not in memo:
        bounds = within_budget(affordable(account.bounds), curve=_VALUES)
        if _knows_directions(bounds):
            remove, add = _one_direction(bounds, 0), _one_direction(bounds, 1)
            first = DirectionCurve(bounds=remove, reversed_bounds=add)
            memo["directions"] = (first, first.reverse)
        else:
            memo["directions"] = (DirectionCurve(bounds=bounds, reversed_bounds=bounds),)
    found: tuple[DirectionCurve, ...] = memo["directions"]
    return found


def _knows_directions(bounds: PrivacyBounds) -> bool:
    """True if the bounds, or those of a part, have pairs for each direction."""
    return any(map(_knows_directions, bounds.parts)) or len(bounds.directions) == 2


def _one_direction(bounds: PrivacyBounds, direction: int) -> PrivacyBounds:
    """The bounds with the pairs of one direction (0 or 1), also in their parts."""
    parts = tuple(_one_direction(part, direction) for part in bounds.parts)
    return replace(bounds, directions=bounds.directions[direction : direction + 1] or bounds.directions, parts=parts)
