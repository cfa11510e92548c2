"""The dominating pair of two posteriors of a user's exponential family, by the tails of the loss that the user gives.

Proof: families.md, section 6.
"""

from dataclasses import replace
from typing import Protocol

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import log1mexp
from privsample._value import frozen_value
from privsample.accounting.loss.pair import LossPair
from privsample.accounting.posterior.family_tails import Tails, tail_logs

_ULP = float(np.finfo(np.float64).eps)
_TAIL_ERROR = 1e-13  # bounds the relative error of the user's tails; it is added to their difference


class PairsOfFamily(Protocol):
    """All pairs of neighbouring posteriors of a family, by index."""

    @property
    def first(self) -> FloatArray:
        """Natural parameters of P, shape (pairs, k)."""

    @property
    def second(self) -> FloatArray:
        """Natural parameters of Q, shape (pairs, k)."""

    def renyi_of(self, pair: int, orders: FloatArray) -> FloatArray:
        """The Rényi curve of one pair, at orders of any shape."""

    def limit_of(self, pair: int) -> float:
        """The order limit of one pair."""


@frozen_value
class NaturalPair(LossPair):
    """One of the pairs of a family, P and Q, whose natural parameters differ by `scale` times `direction`.

    `place` is the index of the pair, and `reverse_place` that of (Q, P). The loss is scale y - offset, with
    y = direction . T(theta) and offset = C(P) - C(Q), whose rounding error is at most `offset_error`. `log_tails` maps
    a natural parameter, the direction and values y to the logarithms of P(Y <= y) and P(Y > y). `scale` may have either
    sign.
    """

    family: PairsOfFamily
    place: int
    reverse_place: int
    direction: FloatArray
    scale: float
    offset: float
    offset_error: float
    log_tails: Tails

    @property
    def order_limit(self) -> float:
        """Order below which the Rényi divergence is finite."""
        return self.family.limit_of(self.place)

    @property
    def max_divergence(self) -> float:
        """Infinite: a bound on the loss is not known."""
        return np.inf

    @property
    def is_expensive(self) -> bool:
        """True, because each value calls functions of the user."""
        return True

    def reverse(self) -> "NaturalPair":
        """The reversed pair (Q, P)."""
        return replace(self, place=self.reverse_place, reverse_place=self.place, scale=-self.scale, offset=-self.offset)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Rényi divergence, as the account of the family computes it."""
        return self.family.renyi_of(self.place, orders)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """log(P(L > e) - e^e Q(L > e)); epsilon is lowered by the error of the offset, which raises the curve."""
        flat = np.asarray(epsilon, dtype=np.float64).ravel()
        lowered = flat - self.offset_error - 4 * _ULP * np.abs(flat)
        naturals = self.family.first[self.place], self.family.second[self.place]
        here, there = (self._log_tail(natural, (lowered + self.offset) / self.scale) for natural in naturals)
        with np.errstate(invalid="ignore"):
            difference = log1mexp(np.minimum(lowered + there - here, 0.0))
        found = np.minimum(here + np.logaddexp(difference, np.log(_TAIL_ERROR)), 0.0)
        return np.asarray(found).reshape(np.shape(epsilon))

    def _log_tail(self, natural: FloatArray, y: FloatArray) -> FloatArray:
        """Logarithm of the probability that the loss exceeds its value at y. Raises NumericalFailure or TypeError."""
        lower, upper = tail_logs(self.log_tails, natural, self.direction, y)
        return upper if self.scale > 0 else lower
