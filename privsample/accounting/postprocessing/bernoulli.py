"""Account of Bernoulli draws whose probabilities a private mechanism released. Proofs: docs/notes/bernoulli.md."""

from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray, check_memory, positive_integer, real_array, renyi_orders
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.curves import zcdp
from privsample.accounting.engine import views
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.routes import affordable
from privsample.accounting.engine.tables import within_budget
from privsample.accounting.loss.pair import Envelope, delta_below_zero
from privsample.accounting.postprocessing.bernoulli_bounds import (
    binary_log_odds,
    checked_margin,
    farthest_renyi,
    log_hockey_stick,
    log_odds_bound,
    mixture_loss,
    rounding,
    symmetric_renyi,
)
from privsample.accounting.postprocessing.bernoulli_search import renyi_bound
from privsample.accounting.selection.chosen import pure_curve
from privsample.relations import Relation

_UP = 1e-12  # exceeds the relative rounding error
_VALUES = 200  # approximate number of values of the base that are needed
_CALL, _SEARCH = 1e2, 1e4  # costs of a call for one value, and of the search for one Bernoulli draw
_LEAST = float(np.finfo(np.float64).smallest_subnormal)


@frozen_value
class BernoulliAccountant(Accountant):
    """Bernoulli draws whose probabilities a private mechanism released; only the draws are published.

    The mechanism of account `base` releases d = `dimension` probabilities, which are clipped to [margin, 1 - margin]. k
    = `draws` vectors of d independent Bernoulli draws with these probabilities are published, and the probabilities
    stay secret. The relation is that of the base.

    The Rényi curve is the minimum of that of the base; of dk r_a(c), the largest divergence between any two vectors of
    probabilities; of the contraction of power divergences by Le Cam's divergence (orders up to 2) or by the total
    variation distance (larger orders); of the contraction of the pure guarantee; and, for d = k = 1, of Algorithm 2,
    which is exact for the worst base at each order. The privacy curve is the contracted privacy curve of the base. At
    margin 0 the account is that of the base.

    Parameters
    ----------
    base : Accountant
        The account of the mechanism that releases the probabilities.
    margin : float
        The probabilities are clipped to [margin, 1 - margin]; in [0, 1/2).
    draws : int
        Number k of vectors of draws, >= 1.
    dimension : int
        Number d of probabilities, >= 1.
    assumptions : frozenset of Assumption, default frozenset()
        Assumptions of the guarantee. Those of the base are added.

    Raises
    ------
    TypeError
        If `base` is not an account.
    ValueError
        If a number is outside its range.

    Notes
    -----
    Source: Imola and Chaudhuri 2021, Theorems 1 and 5; Balle, Barthe, Gaboardi and Geumlek 2019, Theorem 1 (2);
    Ordentlich and Polyanskiy 2022; docs/notes/bernoulli.md. The proof of Lemma 3 of the first paper, and hence of its
    Theorem 3, does not hold for k > 1; its Algorithm 2 is used as a lower bound there.

    Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> base = ps.PureAccountant(stated_epsilon=1.0)
    >>> account = ps.BernoulliAccountant(base=base, margin=0.1, draws=1, dimension=1)
    >>> round(account.pure_epsilon, 3)
    0.776
    """

    base: Accountant
    margin: float
    draws: int
    dimension: int
    assumptions: frozenset[Assumption] = frozenset()

    def __post_init__(self) -> None:
        if not isinstance(self.base, Accountant):
            raise TypeError(f"base must be an account, got {type(self.base).__name__}; use mechanism.accountant")
        set_fields(self, margin=checked_margin(self.margin), draws=positive_integer(draws=self.draws))
        set_fields(self, dimension=positive_integer(dimension=self.dimension))
        check_memory(self.trials, lower="draws or dimension")
        set_fields(self, assumptions=self.assumptions | self.base.assumptions)

    @property
    def relation(self) -> Relation:  # type: ignore[override]
        """The relation of the base."""
        return self.base.relation

    @property
    def source(self) -> str:
        """The theorems, and the source of the base."""
        return f"Imola and Chaudhuri 2021, Theorems 1 and 5; docs/notes/bernoulli.md; {self.base.source}"

    @property
    def trials(self) -> int:
        """Number N = dk of Bernoulli draws."""
        return self.draws * self.dimension

    def _bounds(self) -> PrivacyBounds:
        """The least Rényi bound and the contracted privacy curve; at margin 0 the bounds of the base."""
        base = self._base_bounds
        if self.margin == 0.0:
            return replace(base, composes_by_pairs=False)
        own = zcdp.of_pure(self._largest_loss)
        return PrivacyBounds.from_pairs(
            [BernoulliEnvelope(account=self)],
            renyi=self._renyi,
            order_limit=np.inf,
            pure_epsilon=self._largest_loss,
            zcdp=own if base.infinity_mass > 0.0 else min(own, base.zcdp),
            exact=frozenset(),
            own_renyi_cost=base.renyi_cost + (_SEARCH if self.trials == 1 else _CALL),
            tabulated=base.from_table,
            composes_by_pairs=False,  # each value needs values of the base
            curve_is_least=self.trials
            == 1,  # a Rényi value is then a search, and its conversion is rarely below the curve
        )

    @cached
    def _base_bounds(self) -> PrivacyBounds:
        """The bounds of the base, tabulated if a search needs too many values."""
        base = self.base.bounds
        return base if self.margin == 0.0 else affordable(within_budget(base, curve=_VALUES, renyi=_VALUES))

    @cached
    def _largest_loss(self) -> float:
        """The pure epsilon log((exp(b + x) + 1)/(exp(b) + exp(x))), b that of the base and x = dk log((1-c)/c).

        It is x if the privacy loss of the base is unbounded.
        """
        base = self.base.pure_epsilon
        loss = self.trials * log_odds_bound(self.margin) * (1 + _UP)
        if self.base.infinity_mass > 0.0 or np.isinf(base):
            return loss
        return min(float(-mixture_loss(base, np.array(loss))) * (1 + _UP) + _LEAST, base, loss)

    def _renyi(self, orders: FloatArray) -> FloatArray:
        """The least bound at each order."""
        at = np.ravel(orders)
        return np.array([self._least(float(a), float(e)) for a, e in zip(at, self._base(at), strict=True)]).reshape(
            np.shape(orders)
        )

    def _base(self, orders: FloatArray) -> FloatArray:
        """The Rényi curve of the base conditional on a finite loss; +inf from its order limit on."""
        return np.asarray(self._base_bounds.renyi(orders), dtype=np.float64)

    def _least(self, order: float, epsilon: float) -> float:
        """The least bound at one order, from the base's Rényi divergence conditional on a finite loss."""
        s, top = order - 1.0, float(self.rdp_limit(order))
        found = renyi_bound(epsilon, order, self.trials, self.margin)
        if self.base.infinity_mass == 0.0 and np.isfinite(self.base.pure_epsilon):
            lost, pure = rounding(self.trials), symmetric_renyi(self.base.pure_epsilon, order, self.trials, self.margin)
            found = min(found, pure * (1 + lost) + (lost / s if s * pure > 0.5 else 0.0))
        if self.base.infinity_mass > 0.0:
            failed, held = np.log(self.base.infinity_mass) + s * top, np.log1p(-self.base.infinity_mass) + s * found
            found = min(float(np.logaddexp(failed, held)) / s * (1 + _UP), top)
        return found

    def contracted_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """log of the contracted privacy curve of the base, which holds in both directions.

        Parameters
        ----------
        epsilon : array of float, any shape
            Privacy losses in nats.

        Returns
        -------
        array of float
            log delta, of the shape of `epsilon`.
        """
        e = real_array(epsilon=epsilon)
        each = np.abs(e)
        base = np.asarray(views.log_delta(self._base_bounds, np.clip(each, -1e300, 1e300)))
        with np.errstate(over="ignore"):
            further = np.where(each < 1.0, np.log(np.expm1(np.minimum(each, 1.0)) + (each == 0.0)), 0.0)
            further = np.where(each < 1.0, further, each + np.log1p(-np.exp(-np.maximum(each, 1.0))))
            further = np.where(each == 0.0, 0.0, np.logaddexp(0.0, further - base))
        above = np.minimum(base + log_hockey_stick(further, self.trials, self.margin), 0.0)
        pure = pure_curve(self._largest_loss)
        above = np.minimum(above, np.array([pure(float(x)) for x in np.ravel(each)]).reshape(e.shape))
        return np.where(e >= 0.0, above, delta_below_zero(e, above))

    def group(self, size: int) -> Self:
        """The same draws with the base's guarantee for groups."""
        return replace(self, base=self.base.group(size))

    def with_relation(self, relation: Relation) -> Self:
        """The same draws with the base under another relation."""
        return replace(self, base=self.base.with_relation(relation))

    def rdp_limit(self, orders: ArrayLike) -> FloatArray:
        """The limit dk r_a(c) of the Rényi curve, an upper bound for every base (Imola and Chaudhuri 2021, Theorem 5).

        Parameters
        ----------
        orders : array of float, any shape
            Orders, finite and > 1.

        Returns
        -------
        float or array of float
            Divergences in nats, of the shape of `orders`; +inf at margin 0.
        """
        return farthest_renyi(renyi_orders(orders), self.trials, self.margin)[()]

    def rdp_lower_bound(self, orders: ArrayLike) -> FloatArray:
        """Lower bound on the Rényi curve for the worst base with the same Rényi divergence, at each order separately.

        It is Theorem 4 at r_a(p) = rdp of the base, p in (0, 1/2]. No single base need attain it at every order.

        Parameters
        ----------
        orders : array of float, any shape
            Orders, finite and > 1.

        Returns
        -------
        float or array of float
            Divergences in nats, of the shape of `orders`.
        """
        alpha = renyi_orders(orders)
        epsilon = np.asarray(self.base.rdp(alpha))
        odds = binary_log_odds(np.where(np.isfinite(epsilon), epsilon, 0.0), alpha)
        found = [
            symmetric_renyi(float(u), float(a), self.trials, self.margin)
            if np.isfinite(e)
            else float(self.rdp_limit(a))
            for u, a, e in zip(odds.ravel(), alpha.ravel(), epsilon.ravel(), strict=True)
        ]
        return np.array(found).reshape(alpha.shape)[()]

    def conjectured_rdp(self, orders: ArrayLike) -> FloatArray:
        """The Rényi curve for the worst base if Imola and Chaudhuri's conjecture holds: `rdp_lower_bound`.

        It is not a guarantee.

        Parameters
        ----------
        orders : array of float, any shape
            Orders, finite and > 1.

        Returns
        -------
        float or array of float
            Divergences in nats, of the shape of `orders`.
        """
        return self.rdp_lower_bound(orders)


@frozen_value
class BernoulliEnvelope(Envelope):
    """Envelope of all pairs of neighbours of Bernoulli draws: their contracted curve and their Rényi bounds."""

    account: BernoulliAccountant

    @property
    def max_divergence(self) -> float:
        """The pure epsilon of the account."""
        return self.account._largest_loss

    @property
    def curve_cost(self) -> float:
        """The cost of one value of the base's privacy curve and of the contraction."""
        return _CALL + self.account._base_bounds.curve_cost

    @property
    def from_table(self) -> bool:
        """True if the base is tabulated."""
        return self.account._base_bounds.from_table

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The Rényi curve of the account."""
        return self.account._renyi(orders)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The contracted privacy curve."""
        return self.account.contracted_log_delta(epsilon)
