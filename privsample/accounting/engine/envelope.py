"""One pair in place of an account: its privacy curve is the account's at every real epsilon."""

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.engine import views
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.pair import Envelope, delta_below_zero


@frozen_value
class BoundsEnvelope(Envelope):
    """Dominates every ordered pair of neighbours of an account with these bounds, in either order.

    Members of a composition whose worst neighbours may differ are first replaced by one such pair each (Zhu, Dong and
    Wang 2022, Proposition 10 and Theorem 9).
    """

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
    def is_expensive(self) -> bool:
        """Where a pair of the account is, or where something else than single pairs stands behind its curve."""
        return not self.bounds.pairs or any(pair.is_expensive for pair in self.bounds.pairs)

    @property
    def curve_cost(self) -> float:
        """The account's."""
        return self.bounds.curve_cost

    @property
    def renyi_cost(self) -> float:
        """The account's."""
        return self.bounds.renyi_cost

    @property
    def from_table(self) -> bool:
        """Where the account's curves are."""
        return self.bounds.from_table

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The account's curve: an upper bound."""
        return views.rdp(self.bounds, np.asarray(orders, dtype=np.float64))

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The account's, and below zero what its own reverse then has."""
        e = np.asarray(epsilon, dtype=np.float64)
        each, where = np.unique(np.abs(e), return_inverse=True)
        curve = views.privacy_curve if self.bounds.has_curve else views.log_delta
        above = np.minimum(curve(self.bounds, each), 0.0)[where].reshape(e.shape)
        return np.where(e >= 0, above, delta_below_zero(e, above))

    def approx_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Of the account's worst pairs, without a certificate."""
        if not self.bounds.has_curve:
            return self.log_delta(epsilon)
        e = np.asarray(epsilon, dtype=np.float64)
        above = views.approx_privacy_curve(self.bounds, np.abs(e))
        return np.where(e >= 0, above, delta_below_zero(e, above))
