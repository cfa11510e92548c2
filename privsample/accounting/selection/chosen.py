"""What the accounts of choices among runs of one base have in common: many routes, the smallest taken, each named."""

from dataclasses import replace
from typing import Any, Self

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.base import Accountant
from privsample.accounting.curves.conversion import PointCurve
from privsample.accounting.engine.bounds import CurveBound
from privsample.accounting.loss.pair import binary_pair
from privsample.errors import RelationMismatch
from privsample.relations import ProfileEdge, Relation


class ChosenAccountant(Accountant):
    """An account of runs of `base` of which one is released. Kind: upper bound."""

    __slots__ = ()
    base: Accountant

    @property
    def relation(self) -> Relation:  # type: ignore[override]
        """The base's."""
        return self.base.relation

    def group(self, size: int) -> Self:
        """The same choice among runs of the base, with the base's own guarantee for groups."""
        return self._over(self.base.group(size))

    def with_relation(self, relation: Relation) -> Self:
        """The same choice, the base under another relation."""
        return self._over(self.base.with_relation(relation))

    def _over(self, base: Accountant) -> Self:
        return replace(self, base=base)  # type: ignore[type-var]


def point_bound(name: str, log_delta: PointCurve) -> CurveBound:
    """A bound whose every value is resolved alike."""
    return CurveBound(name=name, log_delta=lambda epsilon, _: log_delta(epsilon))


def pure_bounds(name: str, max_divergence: float) -> tuple[CurveBound, ...]:
    """What a pure guarantee implies for the privacy curve, where there is one."""
    return (point_bound(name, pure_curve(max_divergence)),) if np.isfinite(max_divergence) else ()


def pure_renyi(max_divergence: float, orders: FloatArray) -> FloatArray:
    """The Rényi curve that a pure guarantee implies: randomized response's (Kairouz, Oh and Viswanath 2015)."""
    return binary_pair(max_divergence).renyi(orders) if np.isfinite(max_divergence) else np.full(orders.shape, np.inf)


def pure_curve(max_divergence: float) -> PointCurve:
    """The privacy curve that a pure guarantee implies, by its logarithm."""
    pair = binary_pair(max_divergence)
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
