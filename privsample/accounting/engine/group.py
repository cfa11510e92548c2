"""Group privacy from the bounds for one unit. Proofs: composition.md, sections 2 and 3."""

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import log1mexp, scaled_up
from privsample._value import cached, frozen_value
from privsample.accounting.engine import views
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.tables import tabulated, within_budget
from privsample.accounting.loss.exact import CertifiedCase, CertifiedPair, Claims
from privsample.accounting.loss.pair import DiscretePair, Envelope, binary_pair, certified_maximum, delta_below_zero
from privsample.errors import NotCertified

_UP = 1.0 + 16 * float(np.finfo(np.float64).eps)  # bounds the relative rounding error of a few operations
_VALUES = 90.0  # approximate number of values evaluated by a search for an epsilon
_SPLITS = np.array([1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0])  # multiples of the Gaussian's optimal p - 1


def group(bounds: PrivacyBounds, size: int) -> PrivacyBounds:
    """Bounds for groups of `size` units from bounds for one unit. Kind: upper bound, exact for `size` 1."""
    if size == 1:
        return _one_envelope(bounds)
    evaluations = len(_SPLITS) * size  # orders of the base for one order of the group
    bounds = within_budget(bounds, curve=_VALUES, renyi=_VALUES * evaluations)
    return PrivacyBounds.from_pairs(
        [GroupEnvelope(base=bounds, size=size)],
        # Rényi curves, and with them zCDP, cannot be chained along neighbours if there is an infinity mass
        zcdp=scaled_up(size**2, bounds.zcdp) if bounds.infinity_mass == 0.0 else np.inf,
        exact=frozenset(),
        curve_is_least=False,
        tabulated_renyi=lambda orders: GroupEnvelope(base=tabulated(bounds), size=size).renyi(orders),
    )


def _one_envelope(bounds: PrivacyBounds) -> PrivacyBounds:
    """The same bounds with one envelope in place of all pairs, so that the numbers do not change.

    A composition then makes no use of the pairs: the worst neighbours of its members may differ.
    """
    return PrivacyBounds.from_pairs(
        [GroupEnvelope(base=bounds, size=1)],
        renyi=bounds.renyi,
        order_limit=bounds.order_limit,
        infinity_mass=bounds.infinity_mass,
        pure_epsilon=bounds.pure_epsilon,
        zcdp=bounds.zcdp,
        exact=bounds.exact,
        own_renyi_cost=bounds.renyi_cost,
        tabulated_renyi=lambda orders: tabulated(bounds).renyi(orders),
        parts=bounds.parts,
    )


@frozen_value
class GroupEnvelope(Envelope):
    """Upper bound for all datasets that are `size` steps apart, each step bounded by `base`.

    Three bounds are combined by their minimum. Rényi curve: the weak triangle inequality along a chain of neighbours
    (Mironov 2017, Proposition 11), with the free order chosen such that a zCDP guarantee rho becomes size^2 rho.
    Privacy curve: delta_k(e) <= (e^e - 1) delta(e/k)/(e^(e/k) - 1). Pure guarantee: the randomized response that
    dominates every mechanism with `size` times the base's epsilon (Kairouz, Oh and Viswanath 2015, Theorem 2).
    """

    base: PrivacyBounds
    size: int

    @property
    def _has_renyi_curve(self) -> bool:
        """True if the base has no infinity mass; otherwise Rényi curves cannot be chained along neighbours."""
        return self.base.infinity_mass == 0.0

    @property
    def order_limit(self) -> float:
        """Order limit of the chained Rényi curve; 1 if the base has an infinity mass."""
        return _chained_order_limit(self.base.order_limit, self.size) if self._has_renyi_curve else 1.0

    @property
    def max_divergence(self) -> float:
        """`size` times the base's pure guarantee, in nats."""
        return scaled_up(self.size, self.base.pure_epsilon) if self._has_renyi_curve else np.inf

    @cached
    def _pure(self) -> DiscretePair | None:
        """Randomized response that dominates every mechanism with the group's pure guarantee.

        None without such a guarantee, and for one unit, whose base is reported as it is.
        """
        return binary_pair(self.max_divergence) if np.isfinite(self.max_divergence) and self.size > 1 else None

    @property
    def curve_cost(self) -> float:
        """Cost of the base's curve and of the pure guarantee's."""
        return 2.0 + self.base.curve_cost

    @property
    def renyi_cost(self) -> float:
        """Cost of chains of the base's curve, one for each free order."""
        return len(_SPLITS) * self.size * (0.2 + self.base.renyi_cost)

    @property
    def from_table(self) -> bool:
        """True if a curve of the base is tabulated."""
        return self.base.from_table

    def certified_pair(self) -> CertifiedPair:
        """For one unit, the pair of the base; for groups, the pure guarantee."""
        if self.size == 1:
            return certified_maximum(self.base.pairs)
        if self._pure is None:
            raise NotCertified(
                "the general bound for groups is not the curve of a pair, so that certificates compose it only if the "
                "account has a pure guarantee; certify the group of one release, or use a mechanism's own bound"
            )
        return self._pure.certified_pair()

    def certified_cases(self, claims: Claims) -> tuple[CertifiedCase, ...]:
        """For one release the better of the chained bound and of the pure guarantee at the first claim."""
        if self.size > 1:
            epsilon = np.array([claims[0][0]])
            chained = self.log_delta(epsilon)[0]
            if self._pure is None or chained < self._pure.log_delta(epsilon)[0]:
                return (((1, {"kind": "group", "size": self.size, "pair": certified_maximum(self.base.pairs)}),),)
        return (((1, self.certified_pair()),),)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The minimum of the chained Rényi curve and of the pure guarantee's Rényi curve."""
        if not self._has_renyi_curve:
            return np.full(orders.shape, np.inf)
        chained = self._chained_renyi(orders, self.size, _SPLITS)
        return chained if self._pure is None else np.minimum(chained, self._pure.renyi(orders))

    def _chained_renyi(self, orders: FloatArray, size: int, splits: FloatArray) -> FloatArray:
        """Rényi bound along a chain of `size` steps, by recursion on two halves (composition.md, section 2).

        R_a <= (a - 1/p)/(a - 1) R_pa over the first half + R_q over the second, q = (pa - 1)/(p - 1), for any p > 1;
        p - 1 is `splits` times the optimum of Gaussian noise.
        """
        if size == 1:
            return self.base.renyi(orders)
        first, second = size - size // 2, size // 2
        limit_first, limit_second = (_chained_order_limit(self.base.order_limit, part) for part in (first, second))
        a = orders[..., None]
        with np.errstate(invalid="ignore", divide="ignore"):
            low, high = (a - 1) / (limit_second - a), limit_first / a - 1  # range in which both orders are allowed
            inside = (low < high) & (a < limit_second)
        best = second / first * (a - 1) / a * splits
        x = np.where(inside, np.clip(best, low * (1 + 1e-9), np.where(np.isinf(high), best, high * (1 - 1e-9))), 1.0)
        share = 1 + x / ((1 + x) * (a - 1))  # (a - 1/p)/(a - 1) at p = 1 + x, without cancellation
        middle = np.array([1.0])
        # Rényi curves are non-decreasing in the order, so rounding both orders up rounds the bound up.
        ahead, behind = a * (1 + x) * _UP, (1 + (a - 1) * (1 + 1 / x)) * _UP
        bound = (share * self._chained_renyi(ahead, first, middle) + self._chained_renyi(behind, second, middle)) * _UP
        result: FloatArray = np.where(inside, bound, np.inf).min(axis=-1)
        return result

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The minimum of the chained privacy curve (composition.md, section 3) and of the pure guarantee's curve."""
        e = np.asarray(epsilon, dtype=np.float64)
        part = np.minimum(np.abs(e) / self.size, self.base.pure_epsilon)  # beyond, delta is 0 and only the factor grows
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(part > 0, _log_ratio(part, self.size), np.log(self.size))
        above = np.minimum(ratio + views.log_delta(self.base, np.clip(part, -1e300, 1e300)), 0.0)
        chained = np.where(e >= 0, above, delta_below_zero(e, above))
        return chained if self._pure is None else np.minimum(chained, self._pure.log_delta(e))


def _log_ratio(x: FloatArray, size: int) -> FloatArray:
    """log((e^(size x) - 1)/(e^x - 1)) at x > 0, without overflow."""
    return (size - 1) * x + log1mexp(-size * x) - log1mexp(-x)


def _chained_order_limit(base: float, size: int) -> float:
    """Order limit of a chain of `size` steps, 1/(1 - (1 - 1/base)^size) (composition.md, section 2)."""
    with np.errstate(divide="ignore"):  # log of 0 for a limit of 1
        return np.inf if np.isinf(base) else float(1.0 / -np.expm1(size * np.log1p(-1.0 / base)))
