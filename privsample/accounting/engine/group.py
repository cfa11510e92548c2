"""Group privacy from the bounds of one unit. Proofs: docs/notes/composition.md."""

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import log1mexp
from privsample._value import cached, frozen_value
from privsample.accounting.engine import views
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.tables import tabulated, within_budget
from privsample.accounting.loss.pair import DiscretePair, Envelope, binary_pair, delta_below_zero

_UP = 1.0 + 16 * float(np.finfo(np.float64).eps)  # more than a few roundings take away
_VALUES = 90.0  # that a search for an epsilon takes, about
_SPLITS = np.array([1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0])


def group(bounds: PrivacyBounds, size: int) -> PrivacyBounds:
    """Bounds for groups of `size` units; `bounds` are those for one. Kind: upper bound, unless `size` is one."""
    asked = len(_SPLITS) * size  # orders of the base for one of the group
    if size > 1:
        bounds = within_budget(bounds, curve=_VALUES, renyi=_VALUES * asked)
    envelope = GroupEnvelope(base=bounds, size=size)
    return PrivacyBounds.from_pairs(
        [envelope],
        zcdp=size**2 * bounds.zcdp,
        exact=bounds.exact if size == 1 else frozenset(),
        curve_is_least=size == 1,
        tabulated_renyi=lambda orders: GroupEnvelope(base=tabulated(bounds), size=size).renyi(orders),
    )


@frozen_value
class GroupEnvelope(Envelope):
    """Dominates all neighbours that are `size` steps apart, each step bounded by `base`.

    Three routes. Rényi: the weak triangle inequality along a chain of neighbours, its free order chosen so that zCDP
    comes out as size^2 rho exactly. Privacy curve: delta_k(e) <= (e^e - 1) delta(e/k)/(e^(e/k) - 1). Pure: the pair
    that dominates every mechanism with size times the pure guarantee.
    Source: Mironov 2017, Proposition 11; Balle, Barthe and Gaboardi 2018, section 2; Kairouz, Oh and Viswanath 2015,
    Theorem 2.
    """

    base: PrivacyBounds
    size: int

    @property
    def _chains(self) -> bool:
        """Rényi curves chain along neighbours only where they hold without an infinity mass."""
        return self.base.infinity_mass == 0.0

    @property
    def order_limit(self) -> float:
        """The limit of the chained curve; 1 where the base has an infinity mass."""
        return _limit(self.base.order_limit, self.size) if self._chains else 1.0

    @property
    def max_divergence(self) -> float:
        """size times the base's pure guarantee."""
        return self.size * self.base.pure_epsilon if self._chains else np.inf

    @cached
    def _pure(self) -> DiscretePair | None:
        """What the pure guarantee alone implies, where there is one."""
        return binary_pair(self.max_divergence) if np.isfinite(self.max_divergence) else None

    @property
    def curve_cost(self) -> float:
        """The base's, and that of the pure guarantee."""
        return 2.0 + self.base.curve_cost

    @property
    def renyi_cost(self) -> float:
        """Chains of the base's curve, one for each free order."""
        chains = len(_SPLITS) * self.size if self.size > 1 else 1
        return chains * (0.2 + self.base.renyi_cost)

    @property
    def from_table(self) -> bool:
        """Where the base's curves are."""
        return self.base.from_table

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The chained curve, or what the pure guarantee implies where that is less."""
        if not self._chains:
            return np.full(orders.shape, np.inf)
        chained = self._chain(orders, self.size, _SPLITS)
        return chained if self._pure is None else np.minimum(chained, self._pure.renyi(orders))

    def _chain(self, orders: FloatArray, size: int, splits: FloatArray) -> FloatArray:
        """R_a <= (a - 1/p)/(a - 1) R_pa over the first half + R_q over the second, q = (pa - 1)/(p - 1), any p > 1."""
        if size == 1:
            return self.base.renyi(orders)
        first, second = size - size // 2, size // 2
        limit_first, limit_second = (_limit(self.base.order_limit, part) for part in (first, second))
        a = orders[..., None]
        with np.errstate(invalid="ignore", divide="ignore"):
            low, high = (a - 1) / (limit_second - a), limit_first / a - 1  # where both orders stay below their limits
            inside = (low < high) & (a < limit_second)
        best = second / first * (a - 1) / a * splits
        x = np.where(inside, np.clip(best, low * (1 + 1e-9), np.where(np.isinf(high), best, high * (1 - 1e-9))), 1.0)
        share = 1 + x / ((1 + x) * (a - 1))  # (a - 1/p)/(a - 1) at p = 1 + x, without cancellation
        middle = np.array([1.0])
        # Rényi curves do not fall with the order: both orders are rounded up, and so is the sum
        ahead, behind = a * (1 + x) * _UP, (1 + (a - 1) * (1 + 1 / x)) * _UP
        bound = (share * self._chain(ahead, first, middle) + self._chain(behind, second, middle)) * _UP
        result: FloatArray = np.where(inside, bound, np.inf).min(axis=-1)
        return result

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The least of the group's curve and of what the pure guarantee implies."""
        e = np.asarray(epsilon, dtype=np.float64)
        each = np.minimum(np.abs(e) / self.size, self.base.pure_epsilon)  # beyond, only the factor would grow
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(each > 0, _log_ratio(each, self.size), np.log(self.size))
        above = np.minimum(ratio + views.log_delta(self.base, np.clip(each, -1e300, 1e300)), 0.0)
        chained = np.where(e >= 0, above, delta_below_zero(e, above))
        return chained if self._pure is None else np.minimum(chained, self._pure.log_delta(e))


def _log_ratio(each: FloatArray, size: int) -> FloatArray:
    """log((e^(size x) - 1)/(e^x - 1)) at x > 0."""
    return (size - 1) * each + log1mexp(-size * each) - log1mexp(-each)


def _limit(base: float, size: int) -> float:
    """The limit of the chained curve: 1/(1 - (1 - 1/base)^size) in closed form, by L = L1 L2/(L1 + L2 - 1)."""
    with np.errstate(divide="ignore"):  # a limit next to one
        return np.inf if np.isinf(base) else float(1.0 / -np.expm1(size * np.log1p(-1.0 / base)))
