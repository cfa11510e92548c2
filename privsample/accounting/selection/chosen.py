"""What the accounts of choices among runs of one base have in common: many routes, the smallest taken, each named."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np

from privsample._checks import FloatArray, Real
from privsample.accounting.base import Accountant, Kind, Route, View
from privsample.accounting.curves.conversion import (
    Curve,
    PointCurve,
    epsilon_from_renyi,
    epsilon_of_curve,
    log_delta_from_renyi,
)
from privsample.accounting.loss import binary_pair, delta_below_zero
from privsample.errors import RelationMismatch
from privsample.relations import ProfileEdge, Relation


class ChosenAccountant(Accountant):
    """An account of runs of `base` of which one is released. Kind: upper bound."""

    __slots__ = ()
    base: Accountant

    @abstractmethod
    def _bounds(self) -> dict[str, Curve]:
        """Renyi curves beside `failure`, by name."""

    @abstractmethod
    def _curves(self, least: float) -> dict[str, PointCurve]:
        """Privacy curves at epsilon >= 0, by name; below e^least they may be loose."""

    def _by_order(self, epsilon: float) -> float:
        """log delta beside `failure`, by Renyi curves."""
        return log_delta_from_renyi(self._least, self._renyi_limit, epsilon)

    def _further_routes(self, log_delta: float) -> dict[str, float]:
        """Epsilons by further Renyi bounds beside `failure`, by name."""
        del log_delta
        return {}

    @property
    def relation(self) -> Relation:  # type: ignore[override]
        """The base's."""
        return self.base.relation

    @property
    def _renyi_limit(self) -> float:
        return self.base._renyi_limit

    @property
    def _has_orders(self) -> bool:
        """Whether the base has a Renyi curve at all, beside its failure."""
        return self._renyi_limit > 1.0

    @property
    def _has_curve(self) -> bool:
        return True

    @property
    def _adds_by_curve(self) -> bool:
        return False  # each value is a search of its own

    def _kind(self, view: View) -> Kind:
        del view
        return "upper bound"

    def group(self, size: int) -> Self:
        """The same choice among runs of the base, with the base's own guarantee for groups."""
        return self._over(self.base.group(size))

    def _under(self, relation: Relation) -> Self:
        return self._over(self.base._under(relation))

    def _over(self, base: Accountant) -> Self:
        return replace(self, base=base)  # type: ignore[type-var]

    def _least(self, orders: FloatArray) -> FloatArray:
        """The least of the Renyi curves."""
        return np.min([bound(orders) for bound in self._bounds().values()], axis=0)

    def _all_curves(self, least: float = -np.inf) -> dict[str, PointCurve]:
        pure = np.isfinite(self.max_loss) and self.failure == 0.0
        return self._curves(least) | ({"pure guarantee, by its curve": pure_curve(self.max_loss)} if pure else {})

    def _log_curve_draft(self, epsilon: Real) -> FloatArray:
        e, curves, above = np.asarray(epsilon, dtype=np.float64), self._all_curves().values(), []
        for x in map(float, np.abs(e).ravel()):
            beside = self._beside_failure(np.asarray(self._by_order(x)), np.asarray(x))
            above.append(min(float(beside), *(curve(x) for curve in curves)))
        result = np.array(above).reshape(e.shape)
        return np.where(e >= 0, result, delta_below_zero(e, result))

    def _routes(self, delta: float, *, every: bool = False) -> list[Route]:
        del every  # none can be left out
        found = {"pure guarantee": self.max_loss if delta >= self.failure else np.inf}
        if delta > 0.0:
            goal = float(np.log(delta))
            found |= {name: epsilon_of_curve(curve, goal) for name, curve in self._all_curves(goal).items()}
        if delta > self.failure:
            beside = float(np.log(delta - self.failure) - np.log1p(-self.failure))
            for name, bound in self._bounds().items():
                found[name] = epsilon_from_renyi(bound, self._renyi_limit, beside)
            found |= self._further_routes(beside)
        return [Route(name=name, epsilon=epsilon, kind="upper bound") for name, epsilon in found.items()]


def pure_renyi(max_loss: float, orders: FloatArray) -> FloatArray:
    """The Renyi curve that a pure guarantee implies: randomized response's (Kairouz, Oh and Viswanath 2015)."""
    return binary_pair(max_loss).renyi(orders) if np.isfinite(max_loss) else np.full(orders.shape, np.inf)


def pure_curve(max_loss: float) -> PointCurve:
    """The privacy curve that a pure guarantee implies, by its logarithm."""
    pair = binary_pair(max_loss)
    return lambda epsilon: float(pair.log_delta(np.asarray(epsilon)))


def checked_base(base: Any) -> Accountant:
    """The base, if it is an account. Raises: TypeError; RelationMismatch, where runs cannot be repeated."""
    if not isinstance(base, Accountant):
        raise TypeError(
            f"base must be an account of one run, got {type(base).__name__}; a mechanism's is its .accountant, and "
            "what has none cannot be paid for"
        )
    if isinstance(base.relation, ProfileEdge):
        raise RelationMismatch("runs on one observation share it: repeated runs have no account under ProfileEdge")
    return base
