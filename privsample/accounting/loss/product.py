"""The dominating pair of a composition: independent releases from the same records, whose privacy losses add up."""

import itertools
from collections import Counter
from fractions import Fraction
from math import comb, prod, sqrt

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import weighted_sum_up
from privsample._value import cached, frozen_value
from privsample.accounting.curves.conversion import epsilon_from_renyi, least_epsilon, log_delta_from_renyi
from privsample.accounting.loss.contour import summed_log_deltas
from privsample.accounting.loss.enumeration import enumerate_product
from privsample.accounting.loss.exact import CertifiedCase, CertifiedRenyi, Claims
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import DiscretePair, LossPair, SmoothPair, SmoothRows, delta_below_zero
from privsample.accounting.loss.shared_grid import SharedGrids

_ULP = float(np.finfo(np.float64).eps)
_MOST_CHOICES = 64  # largest number of products of alternatives that are kept separate
_CONTOUR, _GRID = 3e3, 6e4  # costs of one contour integral and of one grid of few releases
_DISCRETIZED = 1300  # values of an expensive member's curve that one grid needs
_PER_MEMBER, _PER_RELEASE, _LARGEST_GRID = 1.2e4, 600.0, 1e6  # cost of a typical grid, and of the largest
_FARTHEST = 1e9  # the largest epsilon around which a grid is built
LEAST_CONTOUR_LOG_DELTA = -150.0  # below this log delta a contour integral may be looser than a Rényi conversion


@frozen_value
class ProductPair(LossPair):
    """Product of independent pairs, each with a multiplicity: the product of all P against the product of all Q.

    The Rényi divergence is the sum. The privacy curve is computed by the first method that applies: enumeration, if all
    members are discrete with few outcomes (relative error 1e-13); contour integral, if all members have a known moment
    generating function (relative error 1e-10); convolution on a grid (error about 3e-7 in epsilon). Each is rounded up
    by its error. If none gives a tight bound, the curve is bounded by the Rényi conversion at its best order.
    """

    members: tuple[tuple[LossPair, int], ...]

    @staticmethod
    def of(pair: LossPair, times: int) -> "ProductPair":
        """The composition of `times` releases of a pair; the multiplicities of a product are multiplied."""
        members = pair.members if isinstance(pair, ProductPair) else ((pair, 1),)
        return ProductPair(members=tuple((own, count * times) for own, count in members))

    @cached
    def smooth(self) -> bool:
        """True if every member's moment generating function is known, so that the contour integral applies."""
        return all(isinstance(pair, SmoothPair) for pair, _ in self.members)

    @cached
    def alternatives(self) -> tuple[LossPair, ...]:
        """Products with one alternative for each release; this product alone if they are too many.

        For the same neighbours, repeated releases may be dominated by different alternatives, so all multisets of
        alternatives are needed. This product is an upper bound on all of them (stated.md, section 2).
        """
        each = [(pair.alternatives, times) for pair, times in self.members]
        count = prod(comb(times + len(found) - 1, len(found) - 1) for found, times in each)
        if not 1 < count <= _MOST_CHOICES:
            return (self,)
        choices = [itertools.combinations_with_replacement(found, times) for found, times in each]
        products = (Counter(itertools.chain(*choice)) for choice in itertools.product(*choices))
        return tuple(ProductPair(members=tuple(counts.items())) for counts in products)

    @cached
    def is_envelope(self) -> bool:
        """True if a member is an envelope even after its alternatives were separated."""
        return any(part.is_envelope for product in self.alternatives for part, _ in getattr(product, "members", ()))

    @property
    def simplified(self) -> LossPair:
        """One Gaussian pair if all members are Gaussian, otherwise this product."""
        gaussian = [(pair.mu, times) for pair, times in self.members if isinstance(pair, GaussianPair)]
        if len(gaussian) < len(self.members):
            return self
        largest = max(mu for mu, _ in gaussian)
        total = sum(times * (mu / largest) ** 2 for mu, times in gaussian)
        return GaussianPair(mu=largest * float(np.sqrt(total)) * (1.0 + (len(gaussian) + 4) * _ULP))  # rounded up

    @cached
    def order_limit(self) -> float:
        """Smallest order limit of the members."""
        return min(pair.order_limit for pair, _ in self.members)

    @cached
    def max_divergence(self) -> float:
        """Sum of the members' max divergences in nats, rounded up."""
        return weighted_sum_up((pair.max_divergence, times) for pair, times in self.members)

    @cached
    def gaussian_part(self) -> tuple[float, float]:
        """Squares of the members' shifts add up, and so do their remaining losses; both are rounded up."""
        parts = [(*pair.gaussian_part, times) for pair, times in self.members]
        largest = max(shift for shift, _, _ in parts)
        squares = sum(times * (shift / largest) ** 2 for shift, _, times in parts) if largest > 0.0 else 0.0
        shift = largest * float(np.sqrt(squares)) * (1.0 + (len(parts) + 4) * _ULP)
        return shift, weighted_sum_up((rest, times) for _, rest, times in parts)

    @property
    def is_expensive(self) -> bool:
        """True, because each value is an integral or a convolution."""
        return True

    @property
    def curve_cost(self) -> float:
        """Cost of an enumeration, of a contour integral, or of a grid to which every member is discretized."""
        if len(each := self.alternatives) > 1:
            return sum(pair.curve_cost for pair in each)
        if self._table is not None:
            return self._table.curve_cost
        if self.smooth:
            return _CONTOUR
        width = 1.0 + sqrt(sum(times for _, times in self.members)) / 3  # the number of grid points grows like this
        return _GRID * width + _DISCRETIZED * sum(pair.curve_cost for pair, _ in self.members if pair.is_expensive)

    @property
    def is_on_grid(self) -> bool:
        """True if the privacy curve is computed on grids, of which one serves many epsilons."""
        return len(self.alternatives) == 1 and self._table is None and not self.smooth

    @property
    def grid_cost(self) -> float:
        """Cost of a typical grid. `curve_cost` allows for larger ones, which are needed next to the max divergence."""
        releases = sum(times for _, times in self.members)
        own = len(self.members) * _PER_MEMBER + min(_PER_RELEASE * releases, _LARGEST_GRID)
        return own + _DISCRETIZED * sum(pair.curve_cost for pair, _ in self.members if pair.is_expensive)

    @property
    def renyi_cost(self) -> float:
        """Sum of the members' costs."""
        return sum(pair.renyi_cost for pair, _ in self.members)

    @property
    def from_table(self) -> bool:
        """True if a member's curve is tabulated."""
        return any(pair.from_table for pair, _ in self.members)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Sum of the members' divergences, rounded up.

        Each product and each sum has a rounding error of at most half an ulp. The margin of one member's curve covers
        its product with its multiplicity.
        """
        total: FloatArray = np.sum([times * pair.renyi(orders) for pair, times in self.members], axis=0)
        return total * (1.0 + (len(self.members) - 1) * 2 * _ULP)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Log delta by the method of the class docstring; for epsilon < 0 from the reversed pair."""
        e, each = np.asarray(epsilon, dtype=np.float64), self.alternatives
        if len(each) > 1:
            return np.max([pair.log_delta(e) for pair in each], axis=0)
        above = np.empty(e.size)
        for negative in (False, True):
            rows = (e.ravel() < 0) == negative
            if rows.any():
                pair = self.reverse() if negative else self
                above[rows] = pair._above_zero(np.abs(e.ravel()[rows]))
        result = above.reshape(e.shape)
        return np.where(e < 0, delta_below_zero(e, result), result) if (e < 0).any() else result

    def least_epsilon(self, log_delta: float) -> float:
        """Smallest epsilon at a log delta, by a search on the contour integral or from one grid that is tight there.

        If the grid's truncated mass exceeds delta, the Rényi conversion at the best order is used.
        """
        if self.max_divergence == 0.0:
            return 0.0
        if len(each := self.alternatives) > 1:
            return max(pair.least_epsilon(log_delta) for pair in each)
        if self._table is not None:
            return min(self._table.least_epsilon(log_delta), self.max_divergence)
        if self.smooth:
            guide = self._contour_guide if log_delta > LEAST_CONTOUR_LOG_DELTA else self.approx_log_delta
            return least_epsilon(self.log_delta, guide, log_delta)
        found = self.grids.epsilon(log_delta)
        if np.isinf(found):
            found = epsilon_from_renyi(self.renyi, self.order_limit, log_delta)
        return min(found, self.max_divergence)

    def certified_cases(self, claims: Claims) -> tuple[CertifiedCase, ...]:
        """Every choice of a case of each member."""
        if len(each := self.alternatives) > 1:
            return tuple(itertools.chain.from_iterable(pair.certified_cases(claims) for pair in each))
        found = []
        for pair, times in self.members:
            cases = pair.certified_cases(claims)
            if times == 1 or len(cases) == 1:
                found.append([tuple((times * own, part) for own, part in case) for case in cases])
            elif comb(times + len(cases) - 1, times) <= _MOST_CHOICES:  # each release may have another worst case
                choices = itertools.combinations_with_replacement(cases, times)
                found.append([tuple(itertools.chain(*choice)) for choice in choices])
            else:
                found.append([((times, pair.certified_pair()),)])
        return tuple(tuple(itertools.chain(*choice)) for choice in itertools.product(*found))

    def certified_renyi(self) -> CertifiedRenyi:
        """The sum of the members' bounds."""
        found = [(times, pair.certified_renyi()) for pair, times in self.members]
        rho = sum((times * own for times, (own, _) in found), Fraction(0))
        return rho, tuple(itertools.chain.from_iterable(times * ranges for times, (_, ranges) in found))

    def reverse(self) -> "ProductPair":
        """(Q, P)."""
        return ProductPair(members=tuple((pair.reverse(), times) for pair, times in self.members))

    @cached
    def _table(self) -> DiscretePair | None:
        """The enumerated product if it is small enough, otherwise None."""
        return enumerate_product(self.members)

    def _above_zero(self, epsilon: FloatArray) -> FloatArray:
        """Log delta at each epsilon >= 0, shape (epsilons,)."""
        if self._table is not None:
            return np.where(epsilon >= self.max_divergence, -np.inf, self._table.log_delta(epsilon))
        sharp = self._by_contour(epsilon) if self.smooth else self._on_grid(epsilon)
        unsure = ~np.isneginf(sharp) & ~(sharp > LEAST_CONTOUR_LOG_DELTA) | np.isposinf(sharp)
        if unsure.any():
            renyi = [log_delta_from_renyi(self.renyi, self.order_limit, float(x)) for x in epsilon[unsure]]
            sharp[unsure] = np.fmin(sharp[unsure], renyi)
        return np.where(epsilon >= self.max_divergence, -np.inf, np.minimum(sharp, 0.0))

    def _contour_guide(self, epsilon: FloatArray) -> FloatArray:
        """Log delta at epsilon >= 0 without Rényi conversions, for a search for a value above the contour's limit."""
        sharp = np.minimum(self._by_contour(epsilon), 0.0)
        return sharp if (sharp < 0.0).all() and (epsilon < self.max_divergence).all() else self._above_zero(epsilon)

    def _by_contour(self, epsilon: FloatArray) -> FloatArray:
        """Log delta at each epsilon >= 0 by contour integrals."""
        return summed_log_deltas(self._smooth, np.full(len(epsilon), self.order_limit), epsilon)

    @cached
    def _smooth(self) -> list[tuple[SmoothPair | SmoothRows, int]]:
        """The smooth members in the form that evaluates several epsilons at once."""
        return [(pair.rows, times) for pair, times in self.members if isinstance(pair, SmoothPair)]

    def _on_grid(self, epsilon: FloatArray) -> FloatArray:
        """Log delta at each epsilon >= 0 on grids."""
        result, below = np.full(len(epsilon), -np.inf), epsilon < self.max_divergence
        result[below] = self.grids.log_deltas(np.minimum(epsilon[below], _FARTHEST))
        return result

    @cached
    def grids(self) -> SharedGrids:
        """The grids of this composition."""
        return SharedGrids(members=self.members)
