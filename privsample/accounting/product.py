"""The pair of several releases from the same records: the members' losses add up."""

import numpy as np

from privsample._checks import FloatArray, Real
from privsample._value import value
from privsample.accounting.additive import GaussianPair
from privsample.accounting.conjugate import BetaPair
from privsample.accounting.contour import summed_log_delta
from privsample.accounting.conversion import log_delta_from_renyi
from privsample.accounting.loss import LossPair, SmoothPair, delta_below_zero


@value
class ProductPair(LossPair):
    """Independent draws, `times` of each member: P's product against Q's product.

    Its Renyi divergence is the sum; its privacy curve inverts the product of the members' moment generating functions,
    rounded up by its error (relative 1e-10), or is bounded by the best order where that does not settle.
    """

    members: tuple[tuple[SmoothPair, int], ...]

    @staticmethod
    def of(pair: LossPair, times: int) -> "ProductPair | None":
        """`times` draws of a pair, or of a product; None where its moment generating function is not known."""
        if isinstance(pair, ProductPair):
            return ProductPair(members=tuple((own, count * times) for own, count in pair.members))
        return ProductPair(members=((pair, times),)) if isinstance(pair, SmoothPair) else None

    @property
    def simplified(self) -> LossPair:
        """One Gaussian pair where all members are Gaussian."""
        gaussian = [(pair.mu, times) for pair, times in self.members if isinstance(pair, GaussianPair)]
        if len(gaussian) < len(self.members):
            return self
        return GaussianPair(mu=float(np.sqrt(sum(times * mu * mu for mu, times in gaussian))))

    @property
    def order_limit(self) -> float:
        """The least of the members'."""
        return min(pair.order_limit for pair, _ in self.members)

    @property
    def max_loss(self) -> float:
        """The sum."""
        return sum(times * pair.max_loss for pair, times in self.members)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The sum."""
        return np.sum([times * pair.renyi(orders) for pair, times in self.members], axis=0)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """By contour, each epsilon apart; below zero from the reversed pair."""
        e = np.asarray(epsilon, dtype=np.float64)
        sides = (self, self.reverse()) if (e < 0).any() else (self, self)
        above = np.array([sides[int(x < 0)]._log_delta(abs(float(x))) for x in e.ravel()]).reshape(e.shape)
        return np.where(e < 0, delta_below_zero(e, above), above)

    def reverse(self) -> "ProductPair":
        """(Q, P)."""
        return ProductPair(members=tuple((pair.reverse(), times) for pair, times in self.members))

    def with_beta(self, a: FloatArray, b: FloatArray, step: Real, epsilon: Real) -> FloatArray:
        """The privacy curve where the Beta member is each of Beta(a + step, b) against Beta(a, b + step); (rows,)."""
        curves = []
        for first, second in zip(a, b, strict=True):
            own = BetaPair(a=float(first), b=float(second), step=float(step))
            members = tuple((own if isinstance(pair, BetaPair) else pair, times) for pair, times in self.members)
            curves.append(ProductPair(members=members).log_delta(np.asarray(epsilon)))
        return np.array(curves)

    def _log_delta(self, epsilon: float) -> float:
        if epsilon >= self.max_loss:
            return -np.inf
        by_contour = summed_log_delta(self.members, self.order_limit, epsilon)
        return by_contour if np.isfinite(by_contour) else log_delta_from_renyi(self.renyi, self.order_limit, epsilon)
