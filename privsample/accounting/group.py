"""Group privacy of any accountant, from its curves alone."""

import numpy as np

from privsample._checks import FloatArray, Real, positive_integer
from privsample._logspace import log1mexp
from privsample._value import put, value
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Kind, View
from privsample.accounting.loss import DiscretePair, binary_pair, delta_below_zero
from privsample.relations import Relation, ReplaceOne

_SPLITS = np.array([1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0])


@value
class Group(Accountant):
    """`base` for groups of `size`. Kind: upper bound.

    Three routes, of which every view takes the least. Renyi: the weak triangle inequality along a chain of neighbours,
    its free order chosen so that zCDP comes out as size^2 rho exactly. Privacy curve: delta_k(e) <=
    (e^e - 1) delta(e/k)/(e^(e/k) - 1). Pure: the pair that dominates every mechanism with size times the base's loss.
    A `relation` that is given is taken on trust: `to` knows the steps from one to another.
    Source: Mironov 2017, Proposition 11; Balle, Barthe and Gaboardi 2018, section 2; Kairouz, Oh and Viswanath 2015,
    Theorem 2; docs/notes/composition.md.
    """

    base: Accountant
    size: int
    relation: Relation | None = None  # type: ignore[assignment]
    assumptions: frozenset[Assumption] = frozenset()

    def __post_init__(self) -> None:
        size = positive_integer(size=self.size)
        if self.relation is None:
            put(self, relation=self.base.relation.group(size))
        if isinstance(self.base.relation, ReplaceOne):
            size = min(size, self.base.relation.n)
        put(self, size=size, assumptions=self.assumptions | self.base.assumptions)

    @property
    def source(self) -> str:
        """The rule and the base's source."""
        return f"Mironov 2017, Proposition 11 (group privacy); {self.base.source}"

    @property
    def _chains(self) -> bool:
        """Renyi curves chain along neighbours only where they hold without a failure probability."""
        return self.base.failure == 0.0

    @property
    def _renyi_limit(self) -> float:
        return _limit(self.base._renyi_limit, self.size) if self._chains else 1.0

    @property
    def max_loss(self) -> float:
        """size times the base's."""
        return self.size * self.base.max_loss if self._chains else np.inf

    @property
    def zcdp(self) -> float:
        """size^2 times the base's (Bun and Steinke 2016, Proposition 1.9)."""
        return self.size**2 * self.base.zcdp

    @property
    def _pure(self) -> DiscretePair | None:
        """What the pure guarantee alone implies, where there is one."""
        return binary_pair(self.max_loss) if np.isfinite(self.max_loss) else None

    @property
    def _has_curve(self) -> bool:
        return True

    @property
    def _curve_is_least(self) -> bool:
        return self.size == 1

    def _kind(self, view: View) -> Kind:
        """Always an upper bound, unless the group is one."""
        return self.base.kind(view) if self.size == 1 else "upper bound"

    def _renyi(self, orders: FloatArray) -> FloatArray:
        if not self._chains:
            return np.full(orders.shape, np.inf)
        chained = self._chain(orders, self.size, _SPLITS)
        return chained if self._pure is None else np.minimum(chained, self._pure.renyi(orders))

    def _chain(self, orders: FloatArray, size: int, splits: FloatArray) -> FloatArray:
        """R_a <= (a - 1/p)/(a - 1) R_pa over the first half + R_q over the second, q = (pa - 1)/(p - 1), any p > 1."""
        if size == 1:
            return self.base._renyi(orders)
        first, second = size - size // 2, size // 2
        limit_first, limit_second = (_limit(self.base._renyi_limit, part) for part in (first, second))
        a = orders[..., None]
        with np.errstate(invalid="ignore", divide="ignore"):
            low, high = (a - 1) / (limit_second - a), limit_first / a - 1  # where both orders stay below their limits
            inside = (low < high) & (a < limit_second)
        best = second / first * (a - 1) / a * splits
        x = np.where(inside, np.clip(best, low * (1 + 1e-9), np.where(np.isinf(high), best, high * (1 - 1e-9))), 1.0)
        share = (a - 1 / (1 + x)) / (a - 1)
        middle = np.array([1.0])
        bound = share * self._chain(a * (1 + x), first, middle) + self._chain(1 + (a - 1) * (1 + 1 / x), second, middle)
        result: FloatArray = np.where(inside, bound, np.inf).min(axis=-1)
        return result

    def _log_curve_draft(self, epsilon: Real) -> FloatArray:
        e = np.asarray(epsilon, dtype=np.float64)
        each = np.minimum(np.abs(e) / self.size, self.base.max_loss)  # beyond, only the factor would grow
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(each > 0, _log_ratio(each, self.size), np.log(self.size))
        above = np.minimum(ratio + self.base.log_delta(each), 0.0)
        chained = np.where(e >= 0, above, delta_below_zero(e, above))
        return chained if self._pure is None else np.minimum(chained, self._pure.log_delta(e))


def _log_ratio(each: FloatArray, size: int) -> FloatArray:
    """log((e^(size x) - 1)/(e^x - 1)) at x > 0."""
    return (size - 1) * each + log1mexp(-size * each) - log1mexp(-each)


def _limit(base: float, size: int) -> float:
    """The limit of the chained curve: 1/(1 - (1 - 1/base)^size) in closed form, by L = L1 L2/(L1 + L2 - 1)."""
    with np.errstate(divide="ignore"):  # a limit next to one
        return np.inf if np.isinf(base) else float(1.0 / -np.expm1(size * np.log1p(-1.0 / base)))
