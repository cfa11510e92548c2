"""Several coordinates of Laplace noise as one pair in closed form, where one is known. docs/notes/statistics.md."""

import numpy as np

from privsample._checks import FloatArray, positive
from privsample._logspace import resolved
from privsample._value import frozen_value, set_fields
from privsample.accounting.loss.exact import CertifiedCase, CertifiedPair, Claims
from privsample.accounting.loss.laplace import LaplacePair
from privsample.accounting.loss.pair import DiscretePair, LossPair, delta_below_zero
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.noise.discrete import DiscreteLaplacePair

_OUTCOMES = 1 << 12  # largest number of losses of an explicit table
_DEEPEST = 600.0  # smallest mass e^-600, which is a normal float


@frozen_value
class TwoLaplacePair(LossPair):
    """Two coordinates of Laplace noise of scale 1, both shifted by `shift`: a record that moves between two counts.

    Source: statistics.md, "Two coordinates of Laplace noise, shift z each".
    """

    shift: float

    def __post_init__(self) -> None:
        set_fields(self, shift=resolved(positive(shift=self.shift)))

    @property
    def max_divergence(self) -> float:
        """Twice the shift."""
        return 2 * self.shift

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Twice the Rényi curve of one coordinate."""
        return 2 * LaplacePair(shift=self.shift).renyi(orders)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """log of 1 - e^-t (1 + t/2), t = shift - e/2, for 0 <= e <= 2 shift."""
        e = np.asarray(epsilon, dtype=np.float64)
        t = np.maximum(self.shift - np.abs(e) / 2, 0.0)
        with np.errstate(divide="ignore"):
            above = np.log(-np.expm1(-t) - t / 2 * np.exp(-t))
        result = np.where(e >= 0, above, delta_below_zero(e, above))
        return np.minimum(result + 16 * np.finfo(np.float64).eps * (1.0 + np.abs(np.maximum(result, -1e300))), 0.0)

    def certified_pair(self) -> CertifiedPair:
        """One coordinate of twice the shift, which dominates both (statistics.md)."""
        return LaplacePair(shift=2 * self.shift).certified_pair()

    def certified_cases(self, claims: Claims) -> tuple[CertifiedCase, ...]:
        """The two coordinates."""
        del claims
        return (((2, LaplacePair(shift=self.shift).certified_pair()),),)

    def reverse(self) -> "TwoLaplacePair":
        """The pair itself."""
        return self


def independent_coordinates(members: tuple[tuple[LossPair, int], ...]) -> LossPair:
    """The pair of independent coordinates, each given with its multiplicity: in closed form or as a ProductPair."""
    match members:
        case ((pair, 1),):
            return pair
        case ((LaplacePair(shift=shift), 2),):
            return TwoLaplacePair(shift=shift)
    discrete = [(pair, times) for pair, times in members if isinstance(pair, DiscreteLaplacePair)]
    whole = sum(times * pair.shift for pair, times in discrete)
    if len(discrete) < len(members) or whole > _OUTCOMES or whole / discrete[0][0].scale > _DEEPEST:
        return ProductPair(members=members)
    mass = np.ones(1)
    for pair, times in discrete:
        for _ in range(times):
            mass = np.convolve(mass, np.exp(pair.log_masses))
    log_p = np.log(mass / mass.sum())
    losses = (2 * np.arange(whole + 1.0) - whole) / discrete[0][0].scale
    return DiscretePair(log_p=log_p, log_q=log_p[::-1], loss=losses, factors=members)
