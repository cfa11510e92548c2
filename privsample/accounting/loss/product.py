"""The dominating pair of a composition: independent releases from the same records, whose privacy losses add up."""

import itertools
from collections import Counter
from fractions import Fraction
from math import comb, prod, sqrt

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import weighted_sum_up
from privsample._value import cached, frozen_value
from privsample.accounting.loss import planner
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


@frozen_value
class ProductPair(LossPair):
    """Product of independent pairs, each with a multiplicity: the product of all P against the product of all Q.

    The Rényi divergence is the sum. The privacy curve is the least upper bound that `planner` finds: by enumeration, a
    contour integral, a grid, a Rényi conversion or basic composition.
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

    @property
    def is_exact(self) -> bool:
        """True if the contour integral applies and usually has a tight bound."""
        return self.smooth and all(pair.suits_contours for pair, _ in self.members if isinstance(pair, SmoothPair))

    @cached
    def alternatives(self) -> "tuple[ProductPair, ...]":
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
        if self.table is not None:
            return self.table.curve_cost
        if self.smooth:
            return _CONTOUR
        width = 1.0 + sqrt(sum(times for _, times in self.members)) / 3  # the number of grid points grows like this
        return _GRID * width + _DISCRETIZED * sum(pair.curve_cost for pair, _ in self.members if pair.is_expensive)

    @property
    def is_on_grid(self) -> bool:
        """True if the privacy curve is computed on grids, of which one serves many epsilons."""
        return len(self.alternatives) == 1 and self.table is None and not self.smooth

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
                above[rows] = planner.log_deltas(pair, np.abs(e.ravel()[rows]))
        result = above.reshape(e.shape)
        return np.where(e < 0, delta_below_zero(e, result), result) if (e < 0).any() else result

    def least_epsilon(self, log_delta: float) -> float:
        """Smallest epsilon at a log delta, by the way that gives the least (planner.py)."""
        return self.answer(log_delta).epsilon

    def answer(self, log_delta: float) -> planner.Answer:
        """Smallest epsilon at a log delta, with the way that gave it."""
        if self.max_divergence == 0.0:
            return planner.Answer(0.0, "enumeration", gap=0.0)
        if len(each := self.alternatives) > 1:
            return max((pair.answer(log_delta) for pair in each), key=lambda answer: answer.epsilon)
        return planner.least_epsilon(self, log_delta)

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
    def table(self) -> DiscretePair | None:
        """The enumerated product if it is small enough, otherwise None."""
        return enumerate_product(self.members)

    @cached
    def rows(self) -> list[tuple[SmoothPair | SmoothRows, int]]:
        """The smooth members in the form that evaluates several epsilons at once."""
        return [(pair.rows, times) for pair, times in self.members if isinstance(pair, SmoothPair)]

    @cached
    def grids(self) -> SharedGrids:
        """The grids of this composition."""
        return SharedGrids(members=self.members)
