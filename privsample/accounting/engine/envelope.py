"""An envelope whose privacy curve is that of a whole account at every real epsilon."""

from fractions import Fraction

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.engine import views
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.gaussian_tails import gaussian_part
from privsample.accounting.loss.exact import CertifiedPair, CertifiedRenyi
from privsample.accounting.loss.pair import Envelope, certified_maximum, delta_below_zero
from privsample.errors import NotCertified


@frozen_value
class BoundsEnvelope(Envelope):
    """One pair that dominates every ordered pair of neighbours of an account with these bounds, in both orders.

    A composition first replaces each member by such a pair if the members' worst neighbours may differ (Zhu, Dong and
    Wang 2022, Proposition 10 and Theorem 9).
    """

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
    def gaussian_part(self) -> tuple[float, float]:
        """That of the account."""
        return gaussian_part(self.bounds)

    @property
    def is_expensive(self) -> bool:
        """True if a pair of the account is expensive, or if its curve is not that of pairs."""
        return not self.bounds.pairs or any(pair.is_expensive for pair in self.bounds.pairs)

    @property
    def curve_cost(self) -> float:
        """Cost of the account's privacy curve."""
        return self.bounds.curve_cost

    @property
    def renyi_cost(self) -> float:
        """Cost of the account's Rényi curve."""
        return self.bounds.renyi_cost

    @property
    def from_table(self) -> bool:
        """True if a curve of the account is tabulated."""
        return self.bounds.from_table

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The account's Rényi curve."""
        return views.rdp(self.bounds, np.asarray(orders, dtype=np.float64))

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The account's log delta; for epsilon < 0 that of the reversed pair, which is the envelope itself."""
        e = np.asarray(epsilon, dtype=np.float64)
        distinct, where = np.unique(np.abs(e), return_inverse=True)
        curve = views.privacy_curve if self.bounds.has_curve else views.log_delta
        above = np.minimum(curve(self.bounds, distinct), 0.0)[where].reshape(e.shape)
        return np.where(e >= 0, above, delta_below_zero(e, above))

    def certified_pair(self) -> CertifiedPair:
        """The maximum of the account's pairs in both orders."""
        return certified_maximum(self.bounds.pairs)

    def certified_renyi(self) -> CertifiedRenyi:
        """The bound of the account's only pair, or its zCDP guarantee."""
        if len(self.bounds.pairs) == 1:
            return self.bounds.pairs[0].certified_renyi()
        if not np.isfinite(self.bounds.zcdp) or self.bounds.infinity_mass > 0.0:
            raise NotCertified("the account of a release has no zCDP guarantee")
        return Fraction(self.bounds.zcdp), ()

    def approx_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Approximate log delta by the account's worst known pairs, without the certified search."""
        if not self.bounds.has_curve:
            return self.log_delta(epsilon)
        e = np.asarray(epsilon, dtype=np.float64)
        above = views.approx_privacy_curve(self.bounds, np.abs(e))
        return np.where(e >= 0, above, delta_below_zero(e, above))
