"""The dominating pair of a mechanism that fails with a small probability and may then reveal anything."""

from fractions import Fraction

import numpy as np

from privsample._checks import FloatArray, open_unit_interval
from privsample._value import frozen_value, set_fields
from privsample.accounting.loss.exact import CertifiedCase, CertifiedPair, Claims, exact
from privsample.accounting.loss.pair import LossPair
from privsample.errors import NotCertified

_EPS = float(np.finfo(np.float64).eps)


@frozen_value
class FailurePair(LossPair):
    """A pair of which each distribution fails with probability `mass`, and is that of `base` otherwise.

    It dominates (1 - mass) M + mass V, for a mechanism M that `base` dominates and any mechanism V, because the convex
    combination of two mechanisms is a post-processing of either mechanism together with the choice (glm.md, section 5).
    The privacy curve is mass + (1 - mass) delta(epsilon) at every real epsilon.
    """

    base: LossPair
    mass: float

    def __post_init__(self) -> None:
        set_fields(self, mass=open_unit_interval(mass=self.mass))

    @property
    def max_divergence(self) -> float:
        """Infinite: a failure may reveal the dataset."""
        return np.inf

    @property
    def order_limit(self) -> float:
        """1: a failure has an infinite privacy loss, so no Rényi divergence is finite."""
        return 1.0

    @property
    def alternatives(self) -> tuple[LossPair, ...]:
        """The alternatives of the base, each with the failure."""
        return tuple(FailurePair(base=pair, mass=self.mass) for pair in self.base.alternatives)

    @property
    def is_envelope(self) -> bool:
        """Whether the base is an envelope."""
        return self.base.is_envelope

    @property
    def is_expensive(self) -> bool:
        """Whether the base is expensive."""
        return self.base.is_expensive

    @property
    def curve_cost(self) -> float:
        """Cost of the base."""
        return self.base.curve_cost

    @property
    def from_table(self) -> bool:
        """Whether curves of the base are tabulated."""
        return self.base.from_table

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """log(mass + (1 - mass) delta), rounded up: the outcomes of a failure differ between P and Q."""
        return self._with_mass(self.base.log_delta(epsilon))

    def approx_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The same with the base's approximation."""
        return self._with_mass(self.base.approx_log_delta(epsilon))

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Infinite at every order."""
        return np.full(np.shape(orders), np.inf)

    def least_epsilon(self, log_delta: float) -> float:
        """The epsilon of the base at (delta - mass)/(1 - mass), rounded up; +inf unless delta exceeds the mass."""
        log_mass = np.log(self.mass)
        ratio = np.exp(log_mass - log_delta + 4 * _EPS * (1.0 + abs(log_mass) + abs(log_delta)))  # rounded up
        if not ratio < 1.0:
            return np.inf
        rest = log_delta + np.log1p(-ratio) - self._log_success
        return self.base.least_epsilon(float(rest - 4 * _EPS * (1.0 + abs(rest))))

    def reverse(self) -> "FailurePair":
        """The base's reverse with the same failure."""
        return FailurePair(base=self.base.reverse(), mass=self.mass)

    def dominates(self, other: LossPair) -> bool:
        """True if the base dominates the other pair, or its base if it fails no more often."""
        if isinstance(other, FailurePair):
            return self.mass >= other.mass and self.base.dominates(other.base)
        return self.base.dominates(other)

    def certified_pair(self) -> CertifiedPair:
        """The mixture of the certified base with a pair of which every outcome has an infinite loss."""
        return {"kind": "mixture", "weights": self._weights, "pairs": [self.base.certified_pair(), _certain_failure()]}

    def certified_cases(self, claims: Claims) -> tuple[CertifiedCase, ...]:
        """Cases of the base: of one release with the failure, of several beside a release that only fails."""
        weights = self._weights
        failing = {"kind": "mixture", "weights": weights[1:], "pairs": [_certain_failure()]}
        return tuple(
            ((1, {"kind": "mixture", "weights": weights, "pairs": [case[0][1], _certain_failure()]}),)
            if len(case) == 1 and case[0][0] == 1
            else (*case, (1, failing))
            for case in self.base.certified_cases(claims)
        )

    @property
    def _weights(self) -> list[str]:
        """The probabilities of no failure and of a failure, exactly. Raises NotCertified if they are 0 and 1."""
        if not self.mass < 1.0:
            raise NotCertified("a release that fails with probability 1 has no guarantee")
        return [exact(1 - Fraction(self.mass)), exact(self.mass)]

    def discretize(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """The masses of the base times 1 - mass, with the failure at infinity."""
        log_masses, at_infinity = self.base.discretize(nodes)
        return log_masses + self._log_success + 4 * _EPS, float(self._with_mass(np.asarray(at_infinity)))

    @property
    def _log_success(self) -> float:
        """log(1 - mass); -inf for a mass of 1, to which that of a composition may be rounded."""
        return float(np.log1p(-self.mass)) if self.mass < 1.0 else -np.inf

    def _with_mass(self, log_delta: FloatArray) -> FloatArray:
        """log(mass + (1 - mass) delta), rounded up by more than the rounding errors of the logarithms."""
        log_mass = np.log(self.mass)
        found = np.logaddexp(log_mass, self._log_success + log_delta) + 4 * _EPS * (1.0 - log_mass)
        return np.asarray(np.minimum(found, 0.0))


def _certain_failure() -> CertifiedPair:
    """The certified pair of a release that always reveals its input."""
    return {"kind": "randomized_response", "epsilon": "0", "delta": "1", "others": 1}
