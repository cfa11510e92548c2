"""One pair in place of an account: its privacy curve is the account's at every real epsilon."""

import numpy as np

from privsample._checks import FloatArray
from privsample._value import value
from privsample.accounting.base import Accountant
from privsample.accounting.dots import joined, shared_out
from privsample.accounting.loss import LossPair, delta_below_zero

_NODES = 513


@value
class DominatingPair(LossPair):
    """Dominates every ordered pair of neighbours of `account`, either way round; its own reverse.

    Members of a composition whose worst neighbours may differ are first replaced by one such pair each (MATH section 1;
    Zhu, Dong and Wang 2022, Proposition 10 and Theorem 9).
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

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The account's curve: an upper bound."""
        return np.asarray(self.account.rdp(orders))

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The account's, and below zero what its own reverse then has."""
        e = np.asarray(epsilon, dtype=np.float64)
        above = np.asarray(self.account.log_delta(np.abs(e)))
        return np.where(e >= 0, above, delta_below_zero(e, above))

    def reverse(self) -> "DominatingPair":
        """Itself."""
        return self

    def dots(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """Where one value of the curve is dear, from few nodes whose masses are then shared out."""
        if self.account.family is None and self.account.pairs:
            return joined(self.log_delta, self.log_delta, nodes)
        few = np.linspace(nodes[0], nodes[-1], _NODES)
        log_p, infinite = joined(self.log_delta, self.log_delta, few)
        masses, more = shared_out(log_p, few, nodes)
        return masses, float(np.logaddexp(infinite, more))
