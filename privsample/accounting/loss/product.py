"""The pair of several releases from the same records: the members' losses add up."""

import itertools
from collections import Counter
from math import comb, prod

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import weighted_sum_up
from privsample._value import cached, frozen_value
from privsample.accounting.curves.conversion import epsilon_from_renyi, least_epsilon, log_delta_from_renyi
from privsample.accounting.loss import lattice
from privsample.accounting.loss.contour import summed_log_deltas
from privsample.accounting.loss.enumeration import enumerated
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import DiscretePair, LossPair, SmoothPair, SmoothRows, delta_below_zero

_ULP = float(np.finfo(np.float64).eps)
_MOST_CHOICES = 64  # products that are kept apart
_CONTOUR, _GRID, _DISCRETIZED = 3e3, 1e5, 1300  # costs: of a value, and how often a grid asks an expensive member
SURE = -150.0  # log delta below which a contour may be looser than the best order


@frozen_value
class ProductPair(LossPair):
    """Independent releases, `times` of each member: P's product against Q's product.

    Its Rényi divergence is the sum. Its privacy curve is enumerated where all members are tables of few outcomes
    (relative 1e-13). Else it inverts the product of the moment generating functions where all members have one
    (relative 1e-10), or convolves the losses on a lattice (about 1e-7 in epsilon). All are rounded up by their error;
    where none settles it, the curve is bounded by the best order.
    """

    members: tuple[tuple[LossPair, int], ...]

    @staticmethod
    def of(pair: LossPair, times: int) -> "ProductPair":
        """`times` releases of a pair, or of a product."""
        members = pair.members if isinstance(pair, ProductPair) else ((pair, 1),)
        return ProductPair(members=tuple((own, count * times) for own, count in members))

    @cached
    def smooth(self) -> bool:
        """Whether every member's moment generating function is known: the contour serves, else the lattice."""
        return all(isinstance(pair, SmoothPair) for pair, _ in self.members)

    @cached
    def alternatives(self) -> tuple[LossPair, ...]:
        """The products of one alternative for each release; itself where they are too many to be kept apart.

        Releases of equal members may be dominated by different alternatives for the same neighbours: all multisets
        count. Itself is an upper bound of them all (docs/notes/stated.md, section 2).
        """
        each = [(pair.alternatives, times) for pair, times in self.members]
        count = prod(comb(times + len(found) - 1, len(found) - 1) for found, times in each)
        if not 1 < count <= _MOST_CHOICES:
            return (self,)
        choices = [itertools.combinations_with_replacement(found, times) for found, times in each]
        products = (Counter(itertools.chain(*chosen)) for chosen in itertools.product(*choices))
        return tuple(ProductPair(members=tuple(counts.items())) for counts in products)

    @cached
    def is_envelope(self) -> bool:
        """Where a member still stands for several pairs after its alternatives were kept apart."""
        return any(part.is_envelope for product in self.alternatives for part, _ in getattr(product, "members", ()))

    @property
    def simplified(self) -> LossPair:
        """One Gaussian pair where all members are Gaussian."""
        gaussian = [(pair.mu, times) for pair, times in self.members if isinstance(pair, GaussianPair)]
        if len(gaussian) < len(self.members):
            return self
        largest = max(mu for mu, _ in gaussian)
        total = sum(times * (mu / largest) ** 2 for mu, times in gaussian)
        return GaussianPair(mu=largest * float(np.sqrt(total)) * (1.0 + (len(gaussian) + 4) * _ULP))  # rounded up

    @cached
    def order_limit(self) -> float:
        """The least of the members'."""
        return min(pair.order_limit for pair, _ in self.members)

    @cached
    def max_divergence(self) -> float:
        """The sum, rounded up."""
        return weighted_sum_up((pair.max_divergence, times) for pair, times in self.members)

    @property
    def is_expensive(self) -> bool:
        """Each value is an integral or a convolution."""
        return True

    @property
    def curve_cost(self) -> float:
        """Of an enumeration, a contour integral, or a grid on which every member is discretized anew."""
        if len(each := self.alternatives) > 1:
            return sum(pair.curve_cost for pair in each)
        if self._table is not None:
            return self._table.curve_cost
        if self.smooth:
            return _CONTOUR
        return _GRID + _DISCRETIZED * sum(pair.curve_cost for pair, _ in self.members if pair.is_expensive)

    @property
    def renyi_cost(self) -> float:
        """The sum of the members' costs."""
        return sum(pair.renyi_cost for pair, _ in self.members)

    @property
    def from_table(self) -> bool:
        """Where a member is."""
        return any(pair.from_table for pair, _ in self.members)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The sum, rounded up: each product and each sum loses at most half a unit in the last place.

        Of one member the margin of its own curve covers the product.
        """
        total: FloatArray = np.sum([times * pair.renyi(orders) for pair, times in self.members], axis=0)
        return total * (1.0 + (len(self.members) - 1) * 2 * _ULP)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """By contour, each epsilon apart, or on a lattice; below zero from the reversed pair."""
        e, each = np.asarray(epsilon, dtype=np.float64), self.alternatives
        if len(each) > 1:
            return np.max([pair.log_delta(e) for pair in each], axis=0)
        above = np.empty(e.size)
        for negative in (False, True):
            chosen = (e.ravel() < 0) == negative
            if chosen.any():
                pair = self.reverse() if negative else self
                above[chosen] = pair._above_zero(np.abs(e.ravel()[chosen]))
        result = above.reshape(e.shape)
        return np.where(e < 0, delta_below_zero(e, result), result) if (e < 0).any() else result

    def least_epsilon(self, log_delta: float) -> float:
        """By search along the contour, or from the one lattice that is sharp there; where it is not, by best order."""
        if self.max_divergence == 0.0:
            return 0.0
        if len(each := self.alternatives) > 1:
            return max(pair.least_epsilon(log_delta) for pair in each)
        if self._table is not None:
            return min(self._table.least_epsilon(log_delta), self.max_divergence)
        if self.smooth:
            guide = self._by_contour_alone if log_delta > SURE else self.approx_log_delta
            return least_epsilon(self.log_delta, guide, log_delta)
        found = lattice.at_log_delta(self.members, log_delta).epsilon(log_delta)
        if np.isinf(found):
            found = epsilon_from_renyi(self.renyi, self.order_limit, log_delta)
        return min(found, self.max_divergence)

    def reverse(self) -> "ProductPair":
        """(Q, P)."""
        return ProductPair(members=tuple((pair.reverse(), times) for pair, times in self.members))

    @cached
    def _table(self) -> DiscretePair | None:
        """All outcomes, where they are few."""
        return enumerated(self.members)

    def _above_zero(self, epsilon: FloatArray) -> FloatArray:
        """log delta at each epsilon >= 0; (epsilons,)."""
        if self._table is not None:
            return np.where(epsilon >= self.max_divergence, -np.inf, self._table.log_delta(epsilon))
        sharp = self._by_contour(epsilon) if self.smooth else self._on_lattice(epsilon)
        unsure = ~np.isneginf(sharp) & ~(sharp > SURE) | np.isposinf(sharp)
        if unsure.any():
            renyi = [log_delta_from_renyi(self.renyi, self.order_limit, float(x)) for x in epsilon[unsure]]
            sharp[unsure] = np.fmin(sharp[unsure], renyi)
        return np.where(epsilon >= self.max_divergence, -np.inf, np.minimum(sharp, 0.0))

    def _by_contour_alone(self, epsilon: FloatArray) -> FloatArray:
        """log delta at epsilon >= 0, by the best order nowhere: it guides a search for a value above `SURE`."""
        sharp = np.minimum(self._by_contour(epsilon), 0.0)
        return sharp if (sharp < 0.0).all() and (epsilon < self.max_divergence).all() else self._above_zero(epsilon)

    def _by_contour(self, epsilon: FloatArray) -> FloatArray:
        return summed_log_deltas(self._smooth, np.full(len(epsilon), self.order_limit), epsilon)

    @cached
    def _smooth(self) -> list[tuple[SmoothPair | SmoothRows, int]]:
        return [(pair.rows, times) for pair, times in self.members if isinstance(pair, SmoothPair)]

    def _on_lattice(self, epsilon: FloatArray) -> FloatArray:
        """One lattice serves the epsilons near the one that it was made for."""
        result = np.full(len(epsilon), np.nan)
        while (left := np.isnan(result) & (epsilon < self.max_divergence)).any():
            centre = float(epsilon[left].min())
            made = lattice.at_epsilon(self.members, centre)
            near = left & (epsilon <= centre + made.reach)
            result[near] = [made.log_delta(float(x)) for x in epsilon[near]]
        return np.where(np.isnan(result), -np.inf, result)
