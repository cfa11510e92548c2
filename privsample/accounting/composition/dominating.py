"""One pair in place of an account: its privacy curve is the account's at every real epsilon."""

import numpy as np

from privsample._checks import FloatArray
from privsample._value import value
from privsample.accounting.base import Accountant
from privsample.accounting.loss import LossPair, delta_below_zero


@value
class DominatingPair(LossPair):
    """Dominates every ordered pair of neighbours of `account`, either way round; its own reverse.

    Members of a composition whose worst neighbours may differ are first replaced by one such pair each (Zhu, Dong and
    Wang 2022, Proposition 10 and Theorem 9).
    """

    account: Accountant

    @property
    def max_loss(self) -> float:
        """The account's; +inf where it can fail outright."""
        return self.account.max_loss if self.account.failure == 0.0 else np.inf

    @property
    def order_limit(self) -> float:
        """The account's."""
        return self.account.order_limit

    @property
    def joint(self) -> bool:
        """For all of the account's."""
        return True

    @property
    def dear(self) -> bool:
        """Where the account's pairs are, or something else stands behind its curve."""
        return self.account.family is not None or not self.account.pairs or any(p.dear for p in self.account.pairs)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The account's curve: an upper bound."""
        return np.asarray(self.account.rdp(orders))

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The account's, and below zero what its own reverse then has."""
        e = np.asarray(epsilon, dtype=np.float64)
        each, where = np.unique(np.abs(e), return_inverse=True)
        curve = self.account._log_curve if self.account._has_curve else self.account.log_delta
        above = np.minimum(curve(each), 0.0)[where].reshape(e.shape)
        return np.where(e >= 0, above, delta_below_zero(e, above))

    def draft(self, epsilon: FloatArray) -> FloatArray:
        """Of the account's worst pairs, without a certificate."""
        if not self.account._has_curve:
            return self.log_delta(epsilon)
        above = self.account._log_curve_draft(np.abs(epsilon))
        return np.where(epsilon >= 0, above, delta_below_zero(epsilon, above))

    def reverse(self) -> "DominatingPair":
        """Itself."""
        return self
