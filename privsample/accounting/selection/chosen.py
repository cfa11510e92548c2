"""Base class of the accounts of private selection, and bounds that they share."""

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
    """An account of repeated runs of `base` of which one output is released.

    Kind: upper bound.
    """

    __slots__ = ()
    base: Accountant

    @property
    def relation(self) -> Relation:  # type: ignore[override]
        """The relation of the base."""
        return self.base.relation

    def group(self, size: int) -> Self:
        """The same selection with the base's guarantee for groups of `size` records."""
        return self._over(self.base.group(size))

    def with_relation(self, relation: Relation) -> Self:
        """The same selection with the base's guarantee under another relation."""
        return self._over(self.base.with_relation(relation))

    def for_sizes(self, low: int, high: int) -> Self:
        """The same selection with the base's guarantee for these numbers of records."""
        return self._over(self.base.for_sizes(low, high))

    def _over(self, base: Accountant) -> Self:
        """The same selection with another base."""
        return replace(self, base=base)  # type: ignore[type-var]


def point_bound(name: str, log_delta: PointCurve) -> CurveBound:
    """A curve bound that is evaluated at one epsilon at a time and ignores the required precision."""
    return CurveBound(name=name, log_delta=lambda epsilon, _: log_delta(epsilon))


def pure_bounds(name: str, max_divergence: float) -> tuple[CurveBound, ...]:
    """The privacy curve implied by pure differential privacy; empty if `max_divergence` is infinite."""
    return (point_bound(name, pure_curve(max_divergence)),) if np.isfinite(max_divergence) else ()


def pure_renyi(max_divergence: float, orders: FloatArray) -> FloatArray:
    """Rényi curve implied by pure differential privacy: that of binary randomized response.

    Source: Kairouz, Oh and Viswanath 2015.
    """
    return binary_pair(max_divergence).renyi(orders) if np.isfinite(max_divergence) else np.full(orders.shape, np.inf)


def pure_curve(max_divergence: float) -> PointCurve:
    """Logarithm of the privacy curve implied by pure differential privacy."""
    pair = binary_pair(max_divergence)
    return lambda epsilon: float(pair.log_delta(np.asarray(epsilon)))


def check_base(base: Any) -> Accountant:
    """Check that `base` is an account whose mechanism can be run repeatedly. Raises TypeError or RelationMismatch."""
    if not isinstance(base, Accountant):
        raise TypeError(f"base must be an account of one run, got {type(base).__name__}; use mechanism.accountant")
    if isinstance(base.relation, ProfileEdge):
        raise RelationMismatch(
            "base must not be under ProfileEdge: repeated runs use the same observation and do not compose"
        )
    return base
