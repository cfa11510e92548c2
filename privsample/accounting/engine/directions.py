"""Privacy curves of the two orders of neighbours: of the dataset with the record against that without it, and back."""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from privsample._checks import FloatArray, one_of
from privsample._value import Memo, cached, frozen_value
from privsample.accounting.engine import views
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.routes import affordable
from privsample.accounting.engine.tables import within_budget
from privsample.accounting.loss.pair import delta_below_zero
from privsample.errors import RelationMismatch
from privsample.relations import AddRemove

if TYPE_CHECKING:
    from privsample.accounting.base import Accountant

Direction = Literal["remove", "add"]
DIRECTIONS: tuple[Direction, ...] = ("remove", "add")
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
        if self.bounds.infinity_mass > 0.0:
            return np.inf
        own = max((pair.max_divergence for pair in self.bounds.pairs), default=np.inf)
        return min(self.bounds.pure_epsilon, own)

    @cached
    def reverse(self) -> "DirectionCurve":
        """The curve of the same neighbours in the other order."""
        return DirectionCurve(bounds=self.reversed_bounds, reversed_bounds=self.bounds)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Logarithm of the privacy curve at any real epsilons (nats), rounded up, of the shape of `epsilon`."""
        e = np.clip(np.asarray(epsilon, dtype=np.float64), -1e300, 1e300)
        below = e < 0.0
        found = np.empty(e.shape)
        if not below.all():
            found[~below] = views.log_delta(self.bounds, e[~below])
        if below.any():
            back = views.log_delta(self.reversed_bounds, -e[below])
            found[below] = delta_below_zero(e[below], back)
        return found


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
