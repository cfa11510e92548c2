"""A dominating pair of which one of the two distributions sometimes has an outcome that the other never has."""

from fractions import Fraction

import numpy as np

from privsample._checks import FloatArray, flag, probability
from privsample._value import frozen_value, set_fields
from privsample.accounting.loss.exact import CertifiedCase, CertifiedPair, Claims, exact
from privsample.accounting.loss.pair import DiscretePair, LossPair

_EPS = float(np.finfo(np.float64).eps)


def one_sided_table(mass: float) -> DiscretePair:
    """The pair of (mass, 1 - mass) and (0, 1): only the first distribution has the first outcome."""
    with np.errstate(divide="ignore"):  # a mass of 0 or 1
        log_p = np.array([np.log(mass), np.log1p(-mass)])
    return DiscretePair(log_p=log_p, log_q=np.array([-np.inf, 0.0]))


@frozen_value
class OneSidedFailurePair(LossPair):
    """The pair of `base` together with an independent outcome that only one distribution has, with probability `mass`.

    If `first`, that distribution is P: delta(epsilon) = mass + (1 - mass) delta_base(epsilon - log(1 - mass)). If not,
    it is Q: delta(epsilon) = delta_base(epsilon + log(1 - mass)). Both hold at every real epsilon (keys.md, section 3).
    """

    base: LossPair
    mass: float
    first: bool = True

    def __post_init__(self) -> None:
        set_fields(self, mass=probability(mass=self.mass), first=flag(first=self.first))

    @property
    def _log_rest(self) -> float:
        """log(1 - mass)."""
        return float(np.log1p(-self.mass))

    @property
    def max_divergence(self) -> float:
        """Infinite if P has the outcome, otherwise that of the base, minus log(1 - mass), rounded up."""
        if self.first and self.mass > 0.0:
            return np.inf
        return (self.base.max_divergence - self._log_rest) * (1.0 + 4 * _EPS)

    @property
    def order_limit(self) -> float:
        """1 if P has the outcome, since it has an infinite privacy loss; otherwise that of the base."""
        return 1.0 if self.first and self.mass > 0.0 else self.base.order_limit

    @property
    def is_expensive(self) -> bool:
        """Whether the base is expensive."""
        return self.base.is_expensive

    @property
    def curve_cost(self) -> float:
        """Cost of the base."""
        return self.base.curve_cost

    @property
    def renyi_cost(self) -> float:
        """Cost of the base."""
        return self.base.renyi_cost

    @property
    def from_table(self) -> bool:
        """Whether curves of the base are tabulated."""
        return self.base.from_table

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The formulas of the class, rounded up."""
        return self._with_mass(self.base.log_delta(self._moved(epsilon)))

    def approx_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The same with the base's approximation."""
        return self._with_mass(self.base.approx_log_delta(self._moved(epsilon)))

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Infinite if P has the outcome; otherwise the base's divergence minus log(1 - mass), rounded up."""
        if self.first and self.mass > 0.0:
            return np.full(np.shape(orders), np.inf)
        return (self.base.renyi(orders) - self._log_rest) * (1.0 + 4 * _EPS)

    def reverse(self) -> "OneSidedFailurePair":
        """The base's reverse, with the outcome in the other distribution."""
        return OneSidedFailurePair(base=self.base.reverse(), mass=self.mass, first=not self.first)

    def certified_pair(self) -> CertifiedPair:
        """The base, with a failure that reveals the dataset: an upper bound in both directions."""
        failing = {"kind": "randomized_response", "epsilon": "0", "delta": "1", "others": 1}
        weights = [exact(1 - Fraction(self.mass)), exact(self.mass)]
        return {"kind": "mixture", "weights": weights, "pairs": [self.base.certified_pair(), failing]}

    def certified_cases(self, claims: Claims) -> tuple[CertifiedCase, ...]:
        """The cases of the base, each beside the table of the outcome."""
        table = one_sided_table(self.mass) if self.first else one_sided_table(self.mass).reverse()
        return tuple((*case, (1, table.certified_pair())) for case in self.base.certified_cases(claims))

    def discretize(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """The base's masses at nodes that are moved by log(1 - mass), with the outcome at infinity."""
        sign = 1.0 if self.first else -1.0
        log_masses, at_infinity = self.base.discretize(nodes - sign * self._log_rest)
        # The rounding of the moved nodes changes the Q mass, which is raised together with the P mass.
        raised = 4 * _EPS * (1.0 + np.abs(nodes) - self._log_rest)
        kept = self._log_rest if self.first else 0.0
        return log_masses + kept + raised, float(self._with_mass(np.asarray(at_infinity)))

    def _moved(self, epsilon: FloatArray) -> FloatArray:
        """The base's epsilon, rounded down, so that delta is rounded up."""
        e = np.asarray(epsilon, dtype=np.float64)
        moved = e - self._log_rest if self.first else e + self._log_rest
        return np.asarray(moved - 4 * _EPS * (np.abs(e) - self._log_rest))

    def _with_mass(self, log_delta: FloatArray) -> FloatArray:
        """log(mass + (1 - mass) delta) if P has the outcome, rounded up; otherwise log delta."""
        if not self.first or self.mass == 0.0:
            return log_delta
        log_mass = float(np.log(self.mass))
        found = np.logaddexp(log_mass, self._log_rest + log_delta) + 4 * _EPS * (1.0 - log_mass)
        return np.asarray(np.minimum(found, 0.0))
