"""Accounts of guarantees that are known from elsewhere, each with the tightest curves that the guarantee implies."""

from dataclasses import replace

import numpy as np

from privsample._checks import nonnegative, positive, positive_integer, probability
from privsample._logspace import product_up, resolved, scaled_up
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import SizeFreeAccountant
from privsample.accounting.curves import zcdp
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.bounded_range import MOST_DRAWS, BoundedRangeEnvelope
from privsample.accounting.loss.pair import DiscretePair, binary_pair
from privsample.relations import AddRemove, Relation, related

_STATED = frozenset({Assumption.STATED})


@frozen_value
class PureAccountant(SizeFreeAccountant):
    """The tightest curves that hold for every epsilon-differentially private mechanism.

    They are the curves of binary randomized response, which dominates all such mechanisms.

    Parameters
    ----------
    stated_epsilon : float
        The epsilon of the guarantee, in nats, finite and >= 0.
    relation : Relation, default AddRemove()
        Neighbouring relation of the guarantee.
    assumptions : frozenset of Assumption, default {STATED}
        Assumptions of the guarantee.

    Notes
    -----
    Source: Kairouz, Oh and Viswanath 2015, Theorem 2.

    Kind: exact for the dominating mechanism.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.PureAccountant(stated_epsilon=0.1)
    >>> round(float((100 * account).epsilon(1e-6)), 3), round(float(account.rdp(2)), 5)
    (4.775, 0.00996)
    """

    stated_epsilon: float
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = _STATED

    def __post_init__(self) -> None:
        set_fields(self, relation=related(self.relation))
        set_fields(self, stated_epsilon=nonnegative(stated_epsilon=self.stated_epsilon))

    @property
    def source(self) -> str:
        """Author, year and theorem of the dominating mechanism."""
        return "Kairouz, Oh and Viswanath 2015, Theorem 2"

    def _bounds(self) -> PrivacyBounds:
        """The dominating pair of binary randomized response, which is its own reverse."""
        return PrivacyBounds.from_pairs([binary_pair(self.stated_epsilon)], pure_epsilon=self.stated_epsilon)

    def group(self, size: int) -> "PureAccountant":
        """The account for groups of `size` records: pure DP with `size` times epsilon."""
        size = positive_integer(size=size)
        return replace(self, stated_epsilon=scaled_up(size, self.stated_epsilon), relation=self.relation.group(size))


@frozen_value
class ApproximateAccountant(SizeFreeAccountant):
    """The tightest curves that hold for every (epsilon, delta)-differentially private mechanism.

    They are the curves of the mechanism that reveals its input with probability delta and is binary randomized response
    otherwise. It dominates all such mechanisms.

    Parameters
    ----------
    stated_epsilon : float
        The epsilon of the guarantee, in nats, finite and >= 0.
    stated_delta : float
        delta of the guarantee, in [0, 1).
    relation : Relation, default AddRemove()
        Neighbouring relation of the guarantee.
    assumptions : frozenset of Assumption, default {STATED}
        Assumptions of the guarantee.

    Notes
    -----
    Source: Kairouz, Oh and Viswanath 2015, Theorem 2.

    Kind: exact for the dominating mechanism.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.ApproximateAccountant(stated_epsilon=0.1, stated_delta=1e-8)
    >>> round(float((100 * account).epsilon(1e-5)), 3), account.infinity_mass
    (4.33, 1e-08)
    """

    stated_epsilon: float
    stated_delta: float
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = _STATED

    def __post_init__(self) -> None:
        set_fields(self, relation=related(self.relation))
        set_fields(self, stated_epsilon=nonnegative(stated_epsilon=self.stated_epsilon))
        set_fields(self, stated_delta=probability(stated_delta=self.stated_delta))

    @property
    def source(self) -> str:
        """Author, year and theorem of the dominating mechanism."""
        return "Kairouz, Oh and Viswanath 2015, Theorem 2"

    def _bounds(self) -> PrivacyBounds:
        """The pair of binary randomized response with two additional outcomes of infinite loss."""
        rest = binary_pair(self.stated_epsilon)
        return PrivacyBounds.from_pairs(
            [self._with_failure(rest) if self.stated_delta else rest],
            renyi=rest.renyi,
            order_limit=np.inf,
            infinity_mass=self.stated_delta,
            pure_epsilon=self.stated_epsilon,
        )

    def _with_failure(self, rest: DiscretePair) -> DiscretePair:
        """The pair with two additional outcomes of infinite loss, of probability `stated_delta` each."""
        fail, keep = np.log(self.stated_delta), np.log1p(-self.stated_delta)
        log_p = np.concatenate([[fail, -np.inf], keep + rest.log_p])
        log_q = np.concatenate([[-np.inf, fail], keep + rest.log_q])
        loss = np.concatenate([[np.inf, -np.inf], rest.loss])
        return DiscretePair(log_p=log_p, log_q=log_q, loss=loss)

    def group(self, size: int) -> "ApproximateAccountant":
        """Groups have size * epsilon and delta (e^(size epsilon) - 1)/(e^epsilon - 1) (Vadhan 2017, Lemma 2.2)."""
        size, epsilon = positive_integer(size=size), self.stated_epsilon
        with np.errstate(over="ignore"):
            # (e^(k e) - 1)/(e^e - 1) as e^((k-1) e) times a ratio of expm1, which does not overflow early
            sums = np.exp((size - 1) * epsilon) * np.expm1(-size * epsilon)
            ratio = float(size) if epsilon == 0 else float(sums / np.expm1(-epsilon))
        if size > 1:  # two ulp for each of the three functions and products, and the rounding of both exponents
            ratio *= 1 + (16 + 2 * size * epsilon) * float(np.finfo(np.float64).eps)
        delta = min(self.stated_delta * ratio, 1 - 2.0**-53) if self.stated_delta else 0.0
        relation = self.relation.group(size)
        if delta >= 1 - 2.0**-53:
            raise ValueError(f"size must be smaller: a group of {size} has delta = 1, so there is no guarantee")
        return replace(self, stated_epsilon=scaled_up(size, epsilon), stated_delta=delta, relation=relation)


@frozen_value
class ZCDPAccountant(SizeFreeAccountant):
    """Any rho-zCDP mechanism, whose Rényi divergence is at most rho a at every order a.

    Parameters
    ----------
    rho : float
        rho of the guarantee, in nats, finite and >= 0.
    relation : Relation, default AddRemove()
        Neighbouring relation of the guarantee.
    assumptions : frozenset of Assumption, default {STATED}
        Assumptions of the guarantee.

    Notes
    -----
    Source: Bun and Steinke 2016, Definition 1.1 and Proposition 1.9.

    Kind: exact for the Rényi curve; upper bound for the privacy curve, which is converted from it.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.ZCDPAccountant(rho=0.1)
    >>> float(account.rdp(2)), round(float(account.epsilon(1e-6)), 3)
    (0.2, 2.142)
    """

    rho: float
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = _STATED

    def __post_init__(self) -> None:
        set_fields(self, relation=related(self.relation))
        set_fields(self, rho=nonnegative(rho=self.rho))

    @property
    def source(self) -> str:
        """The definition, and the theorem on groups."""
        return "Bun and Steinke 2016, Definition 1.1 and Proposition 1.9"

    def _bounds(self) -> PrivacyBounds:
        """The Rényi curve rho a. There is no pure guarantee unless rho = 0."""
        pure = np.inf if self.rho else 0.0
        return PrivacyBounds.from_renyi(lambda orders: product_up(self.rho, orders), zcdp=self.rho, pure_epsilon=pure)

    def group(self, size: int) -> "ZCDPAccountant":
        """Groups have size^2 rho (Bun and Steinke 2016, Proposition 1.9)."""
        size = positive_integer(size=size)
        return replace(self, rho=scaled_up(size * size, self.rho), relation=self.relation.group(size))


@frozen_value
class BoundedRangeAccountant(SizeFreeAccountant):
    """Any mechanism whose privacy loss lies in an interval of known length, such as every exponential mechanism.

    An exponential mechanism that draws candidate c with probability proportional to e^(rate u(c)) has the range rate
    times (max - min) over c of the change of u(c) between neighbours. This is at most 2 rate times the sensitivity of
    u.

    Parameters
    ----------
    loss_range : float
        Length of the interval, in nats, finite and > 0: the pure epsilon of one draw.
    draws : int, default 1
        Number of independent draws of the same mechanism from the same data, from 1 to 128. Their account is exact,
        and smaller than that of `draws * account`, whose releases may have different worst cases.
    relation : Relation, default AddRemove()
        Neighbouring relation of the guarantee.
    assumptions : frozenset of Assumption, default {STATED}
        Assumptions of the guarantee. With a proof of your own, use {IDEAL_REALS} in place of {STATED}.

    Notes
    -----
    Source: Dong, Durfee and Rogers 2020, Theorem 2 and section 4 (several draws); Cesar and Rogers 2021, Lemma 3.2
    (zCDP). The proofs are in docs/notes/exponential.md, sections 1 and 2.

    Kind: exact for the dominating mechanism.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.BoundedRangeAccountant(loss_range=0.5)
    >>> account.pure_epsilon, round(float((10 * account).epsilon(1e-6)), 3)
    (0.5, 3.632)
    >>> round(float(ps.BoundedRangeAccountant(loss_range=0.5, draws=10).epsilon(1e-6)), 3)
    3.569
    """

    loss_range: float
    draws: int = 1
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = _STATED

    def __post_init__(self) -> None:
        set_fields(self, relation=related(self.relation))
        draws = positive_integer(draws=self.draws)
        if not draws <= MOST_DRAWS:
            raise ValueError(f"draws must be at most {MOST_DRAWS}, got {draws}; compose accounts of fewer draws")
        set_fields(self, loss_range=resolved(positive(loss_range=self.loss_range)), draws=draws)

    @property
    def source(self) -> str:
        """Author, year and theorem of the dominating mechanism."""
        return "Dong, Durfee and Rogers 2020, Theorem 2"

    def _bounds(self) -> PrivacyBounds:
        """The envelope of all such mechanisms."""
        envelope = BoundedRangeEnvelope(loss_range=self.loss_range, draws=self.draws)
        rho = float(product_up(zcdp.of_bounded_range(self.loss_range), float(self.draws)))
        return PrivacyBounds.from_pairs([envelope], zcdp=rho)

    def group(self, size: int) -> "BoundedRangeAccountant":
        """Groups have `size` times the range."""
        size = positive_integer(size=size)
        return replace(self, loss_range=scaled_up(size, self.loss_range), relation=self.relation.group(size))
