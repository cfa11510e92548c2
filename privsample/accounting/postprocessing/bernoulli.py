"""The account of binary draws whose chances a private mechanism released. Proofs: docs/notes/bernoulli.md."""

from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray, check_memory, number, positive_integer, real_array, renyi_orders
from privsample._logspace import half_square
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.engine import views
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.routes import affordable
from privsample.accounting.engine.tables import within_budget
from privsample.accounting.loss.pair import Envelope, delta_below_zero
from privsample.accounting.postprocessing.bernoulli_bounds import (
    binary_log_odds,
    binary_renyi,
    dobrushin,
    evidence,
    log_hockey_stick,
    mixed_loss,
    rounding,
    squared,
    symmetric_renyi,
)
from privsample.accounting.postprocessing.bernoulli_search import corner_renyi
from privsample.accounting.selection.chosen import pure_curve
from privsample.relations import Relation

_UP = 1e-12
_VALUES = 200  # that an account asks its base for, about
_CALL, _SEARCH = 1e2, 1e4  # costs of one value by itself, and of the search for one coin
_LEAST = float(np.finfo(np.float64).smallest_subnormal)
_SEARCHED = (1e-8, 500.0)  # epsilons between which the search for one coin is made


@frozen_value
class BernoulliAccountant(Accountant):
    """k = `draws` vectors of d = `dimension` coins, whose chances `base` released, moved into [margin, 1 - margin].

    The Rényi curve is the least of: what the base costs; dk r_a(c), what any two chances can differ by; what the
    coins keep of a power divergence, by Le Cam's divergence up to order 2 and total variation beyond; what they keep of
    a pure guarantee; and for d = k = 1 Algorithm 2, which is exact for the worst base with this cost at this order.
    The privacy curve is the base's times what the coins keep of it. At margin 0 the coins may show the base's output
    itself, and the account is the base's.
    Kind: upper bound. Source: Imola and Chaudhuri 2021, Theorems 1 and 5; Balle, Barthe, Gaboardi and Geumlek 2019,
    Theorem 1 (2); Ordentlich and Polyanskiy 2022. For k > 1 the first paper's Lemma 3, hence its Theorem 3, does not
    hold as it is proven: there its Algorithm 2 is a lower bound.
    """

    base: Accountant
    margin: float
    draws: int
    dimension: int
    assumptions: frozenset[Assumption] = frozenset()

    def __post_init__(self) -> None:
        if not isinstance(self.base, Accountant):
            raise TypeError(
                f"base must be an account, got {type(self.base).__name__}; a mechanism's is its .accountant"
            )
        set_fields(self, margin=_margin(self.margin), draws=positive_integer(draws=self.draws))
        set_fields(self, dimension=positive_integer(dimension=self.dimension))
        check_memory(self.coins, lower="draws or dimension")
        set_fields(self, assumptions=self.assumptions | self.base.assumptions)

    @property
    def relation(self) -> Relation:  # type: ignore[override]
        """The base's."""
        return self.base.relation

    @property
    def source(self) -> str:
        """The theorems, and the base's."""
        return f"Imola and Chaudhuri 2021, Theorems 1 and 5; docs/notes/bernoulli.md; {self.base.source}"

    @property
    def coins(self) -> int:
        """N = dk."""
        return self.draws * self.dimension

    def _bounds(self) -> PrivacyBounds:
        """By the least of the Rényi bounds and by the contracted privacy curve; at margin 0, the base's."""
        base = self._base_bounds
        if self.margin == 0.0:
            return replace(base, composes_by_pairs=False)
        own = half_square(self._largest_loss)
        return PrivacyBounds.from_pairs(
            [BernoulliEnvelope(account=self)],
            renyi=self._renyi,
            order_limit=np.inf,
            pure_epsilon=self._largest_loss,
            zcdp=own if base.infinity_mass > 0.0 else min(own, base.zcdp),
            exact=frozenset(),
            own_renyi_cost=base.renyi_cost + (_SEARCH if self.coins == 1 else _CALL),
            tabulated=base.from_table,
            composes_by_pairs=False,  # each value asks the base
            curve_is_least=self.coins == 1,  # then a Rényi value is a search, and the curve hardly ever above it
        )

    @cached
    def _base_bounds(self) -> PrivacyBounds:
        """The base's, by table where a search asks too much of them; at margin 0 they are the account's own."""
        base = self.base.bounds
        return base if self.margin == 0.0 else affordable(within_budget(base, curve=_VALUES, renyi=_VALUES))

    @cached
    def _largest_loss(self) -> float:
        """log((e^(e + x) + 1)/(e^e + e^x)) of the base's e, where it never fails, and x = dk log((1-c)/c)."""
        base = self.base.pure_epsilon
        told = self.coins * evidence(self.margin) * (1 + _UP)
        if self.base.infinity_mass > 0.0 or np.isinf(base):
            return told
        return min(float(-mixed_loss(base, np.array(told))) * (1 + _UP) + _LEAST, base, told)

    def _renyi(self, orders: FloatArray) -> FloatArray:
        at = np.ravel(orders)
        return np.array([self._least(float(a), float(e)) for a, e in zip(at, self._base(at), strict=True)]).reshape(
            np.shape(orders)
        )

    def _base(self, orders: FloatArray) -> FloatArray:
        """The base's curve beside its failure; +inf from its limit on."""
        return np.asarray(self._base_bounds.renyi(orders), dtype=np.float64)

    def _least(self, order: float, epsilon: float) -> float:
        """At one order, from what the base costs beside its failure."""
        s, top = order - 1.0, float(self.asymptote(order))
        found = min(epsilon, top, self._contracted(order, epsilon))
        if self.base.infinity_mass == 0.0 and np.isfinite(self.base.pure_epsilon):
            lost, pure = rounding(self.coins), symmetric_renyi(self.base.pure_epsilon, order, self.coins, self.margin)
            found = min(found, pure * (1 + lost) + (lost / s if s * pure > 0.5 else 0.0))
        if self.coins == 1 and _SEARCHED[0] < epsilon < _SEARCHED[1]:
            found = min(found, corner_renyi(epsilon, order, 1, self.margin).high)
        if self.base.infinity_mass > 0.0:
            failed, held = np.log(self.base.infinity_mass) + s * top, np.log1p(-self.base.infinity_mass) + s * found
            found = min(float(np.logaddexp(failed, held)) / s * (1 + _UP), top)
        return found

    def _contracted(self, order: float, epsilon: float) -> float:
        """log(1 + kept (e^((a-1) epsilon) - 1))/(a-1)."""
        kept = (squared if order <= 2.0 else dobrushin)(self.coins, self.margin)
        grown = (order - 1.0) * epsilon
        if grown < 1.0:
            return float(np.log1p(kept * np.expm1(grown))) / (order - 1.0) * (1 + _UP)
        with np.errstate(divide="ignore"):
            both = np.logaddexp(np.log(kept) + grown, np.log1p(-kept)) if np.isfinite(grown) else np.inf
        return float(both) / (order - 1.0) * (1 + _UP)

    def contracted_curve(self, epsilon: FloatArray) -> FloatArray:
        """log of the base's privacy curve times what the draws keep of it, in either direction; shape of epsilon."""
        e = real_array(epsilon=epsilon)
        each = np.abs(e)
        base = np.asarray(views.log_delta(self._base_bounds, np.clip(each, -1e300, 1e300)))
        with np.errstate(over="ignore"):
            further = np.where(each < 1.0, np.log(np.expm1(np.minimum(each, 1.0)) + (each == 0.0)), 0.0)
            further = np.where(each < 1.0, further, each + np.log1p(-np.exp(-np.maximum(each, 1.0))))
            further = np.where(each == 0.0, 0.0, np.logaddexp(0.0, further - base))
        above = np.minimum(base + log_hockey_stick(further, self.coins, self.margin), 0.0)
        pure = pure_curve(self._largest_loss)
        above = np.minimum(above, np.array([pure(float(x)) for x in np.ravel(each)]).reshape(e.shape))
        return np.where(e >= 0.0, above, delta_below_zero(e, above))

    def group(self, size: int) -> Self:
        """The same coins over the base's own guarantee for groups."""
        return replace(self, base=self.base.group(size))

    def with_relation(self, relation: Relation) -> Self:
        """The same draws, the base under another relation."""
        return replace(self, base=self.base.with_relation(relation))

    def asymptote(self, orders: ArrayLike) -> FloatArray:
        """dk r_a(c), what the draws cost at most whatever the base is; shape of orders. Theorem 5; an upper bound."""
        if self.margin == 0.0:
            return np.full(np.shape(orders), np.inf)[()]
        return np.asarray(self.coins * binary_renyi(evidence(self.margin), renyi_orders(orders)) * (1 + _UP))[()]

    def lower_bound(self, orders: ArrayLike) -> FloatArray:
        """What the draws cost over the worst base that costs as much as this one does at each order, at least.

        Theorem 4 at r_a(p) = rdp of the base, p in (0, 1/2]; shape of orders. No base need be that bad at every order.
        """
        alpha = renyi_orders(orders)
        epsilon = np.asarray(self.base.rdp(alpha))
        odds = binary_log_odds(np.where(np.isfinite(epsilon), epsilon, 0.0), alpha)
        found = [
            symmetric_renyi(float(u), float(a), self.coins, self.margin) if np.isfinite(e) else float(self.asymptote(a))
            for u, a, e in zip(odds.ravel(), alpha.ravel(), epsilon.ravel(), strict=True)
        ]
        return np.array(found).reshape(alpha.shape)[()]

    def conjectured(self, orders: ArrayLike) -> FloatArray:
        """What the worst such base costs if Imola and Chaudhuri's conjecture holds: `lower_bound`. No guarantee."""
        return self.lower_bound(orders)


@frozen_value
class BernoulliEnvelope(Envelope):
    """All pairs of neighbours of an account of binary draws, by its contracted curve and its Rényi bounds."""

    account: BernoulliAccountant

    @property
    def max_divergence(self) -> float:
        """The account's."""
        return self.account._largest_loss

    @property
    def curve_cost(self) -> float:
        """The base's, and the contraction."""
        return _CALL + self.account._base_bounds.curve_cost

    @property
    def from_table(self) -> bool:
        """Where the base's curves are."""
        return self.account._base_bounds.from_table

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The account's."""
        return self.account._renyi(orders)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The contracted curve."""
        return self.account.contracted_curve(epsilon)


def _margin(margin: float) -> float:
    found = number(margin=margin)
    if not 0.0 <= found < 0.5:
        raise ValueError(
            f"margin must lie in [0, 1/2), got {margin!r}: chances are moved into [margin, 1 - margin]; 0 clips "
            "nothing and gains nothing"
        )
    return found
