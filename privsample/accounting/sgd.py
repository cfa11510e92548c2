"""Account of noisy projected gradient descent over epochs, of which the last state is released: docs/notes/sgd.md and
hidden_states.md."""

from dataclasses import replace
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import (
    FloatArray,
    check_memory,
    nonnegative,
    nonnegative_integer,
    one_of,
    positive,
    positive_integer,
    probability,
)
from privsample._logspace import LEAST_LOSS, half_square
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.directions import Direction
from privsample.accounting.epochs import epoch_shifts
from privsample.accounting.loss.exact import CertifiedPair, weights_text
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import LossPair, binary_pair
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.sgd_allocation import allocated_bounds, approximate_account
from privsample.distributions.steps.losses import ConvexLoss
from privsample.relations import ReplaceOne

Order = Literal["given", "shuffle_once", "reshuffle", "allocated"]
ORDERS = get_args(Order)
_BINS = 600  # groups of steps, each bounded by its last step
_UP = 1 + 1e-12  # exceeds the relative rounding error
_LARGE = 500.0  # exponents up to this one do not overflow


@frozen_value
class OrderPair(LossPair):
    """Mixture of Gaussian pairs whose index is revealed; index i has probability e^log_weights[i] and shift mus[i].

    By joint convexity it dominates the mixture of mechanisms, each dominated by one of the pairs, whose index stays
    secret (sgd.md, section 3). It is its own reverse.
    """

    mus: FloatArray
    log_weights: FloatArray

    @property
    def max_divergence(self) -> float:
        """Infinite: the Gaussian loss is unbounded."""
        return np.inf

    def renyi(self, orders: FloatArray) -> FloatArray:
        """log(mean of e^((a-1) a mu^2/2))/(a-1).

        The mean of the divergences would be smaller and is not a valid bound.
        """
        alpha = np.asarray(orders, dtype=np.float64)
        exponents = ((alpha - 1.0) * alpha)[..., None] * (self.mus * self.mus / 2)
        moderate = exponents.max(axis=-1) < _LARGE  # log1p of a sum of expm1 keeps small weights
        small = np.log1p((np.exp(self.log_weights) * np.expm1(np.minimum(exponents, _LARGE))).sum(axis=-1))
        large = np.logaddexp.reduce(self.log_weights + exponents, axis=-1)
        return np.asarray(np.where(moderate, small, large) / (alpha - 1.0) * _UP)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """log of the mean of the Gaussian privacy curves."""
        e = np.asarray(epsilon, dtype=np.float64)
        total = np.full(e.shape, -np.inf)
        for weight, mu in zip(self.log_weights.tolist(), self.mus.tolist(), strict=True):
            total = np.logaddexp(total, weight + GaussianPair(mu=mu).log_delta(e))
        # 1e-14 exceeds the rounding error of the sum
        return np.minimum(total + 1e-14, 0.0)

    def certified_pair(self) -> CertifiedPair:
        """The Gaussian pairs with their weights."""
        pairs = [GaussianPair(mu=mu).certified_pair() for mu in self.mus.tolist()]
        return {"kind": "mixture", "weights": weights_text(self.log_weights), "pairs": pairs}

    def reverse(self) -> "OrderPair":
        """The pair itself."""
        return self

    @property
    def is_expensive(self) -> bool:
        """True: each value needs many Gaussian pairs."""
        return True


@frozen_value
class SGDAccountant(Accountant):
    """Noisy projected gradient descent over one or more epochs, of which the last state is released.

    Each step adds N(0, noise_std^2) noise to each coordinate of the mean gradient of a batch, moves the state by `rate`
    times the result, and projects it. Under ReplaceOne(n), a replaced record displaces the state once in each epoch, by
    at most rate G / batch, where G is `loss.gradient_sensitivity`. The noise of that step and of all later steps hides
    the displacement, and every later step contracts it. If the order of the records is secret and uniformly random, the
    bound is a mixture over positions; otherwise it is that of the last position, which is the worst.

    Parameters
    ----------
    loss : ConvexLoss
        `LogisticLoss(...)` or `SquaredLoss(...)`, with its Lipschitz, smoothness and strong convexity constants.
    n : int
        Number of records, >= 1; public.
    rate : float
        Learning rate, finite and > 0; it must be small enough that no step increases distances.
    noise_std : float
        Standard deviation of the noise of a step, before multiplication by `rate`, in units of the gradient, > 0.
    batch : int, default 1
        Records per step, from 1 to n.
    epochs : int, default 1
        Number of passes over the records, >= 1.
    public_tail : int, default 0
        Number of further noisy steps on public records after the private ones, >= 0.
    order : {"shuffle_once", "reshuffle", "given", "allocated"}, default "shuffle_once"
        Order in which an epoch reads the records. "shuffle_once": uniformly random and secret, the same in each epoch.
        "reshuffle": uniformly random and secret, drawn anew for each epoch. "given": as given, which may be public.
        "allocated": each record takes part in one step of each epoch, uniformly random, secret and independent of the
        other records; sums of gradients are divided by `batch`, whatever their number. The account covers all states.
    unit : str, default "record"
        The name of what is protected.
    assumptions : frozenset of Assumption, default {FLOAT_CHAIN}
        Assumptions of the guarantee.

    Raises
    ------
    TypeError
        If `loss` is not a ConvexLoss.
    ValueError
        If a number is outside its range, `order` is unknown, or `rate` is too large for a contraction.

    Notes
    -----
    Source: Balle, Barthe, Gaboardi and Geumlek 2019, Algorithm 1 and equation (2); Feldman, Mironov, Talwar and
    Thakurta 2018; Bok, Su and Altschuler 2024 (each position is Gaussian); docs/notes/sgd.md and, for several
    epochs, docs/notes/hidden_states.md.

    Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> loss = ps.LogisticLoss(features=2, norm=1.0, radius=1.0)
    >>> account = ps.SGDAccountant(loss=loss, n=1000, rate=0.5, noise_std=1.0)
    >>> round(float(account.epsilon(1e-5)), 3), round(float(account.accountant_at(0).epsilon(1e-5)), 3)
    (4.609, 0.168)
    >>> longer = ps.SGDAccountant(loss=loss, n=1000, rate=0.5, noise_std=1.0, epochs=100)
    >>> round(float(longer.epsilon(1e-5)), 3), round(float(longer.composed.epsilon(1e-5)), 3)
    (4.629, 206.561)
    """

    loss: ConvexLoss
    n: int
    rate: float
    noise_std: float
    batch: int = 1
    epochs: int = 1
    public_tail: int = 0
    order: Order = "shuffle_once"
    unit: str = "record"
    assumptions: frozenset[Assumption] = frozenset({Assumption.FLOAT_CHAIN})

    def __post_init__(self) -> None:
        if not isinstance(self.loss, ConvexLoss):
            raise TypeError(f"loss must be LogisticLoss(...) or SquaredLoss(...), got {type(self.loss).__name__}")
        set_fields(self, n=positive_integer(n=self.n), batch=positive_integer(batch=self.batch))
        set_fields(self, rate=positive(rate=self.rate), noise_std=positive(noise_std=self.noise_std))
        set_fields(self, public_tail=nonnegative_integer(public_tail=self.public_tail))
        set_fields(self, epochs=positive_integer(epochs=self.epochs))
        if not one_of(self.order, ORDERS):
            raise ValueError(f"order must be one of {', '.join(map(repr, ORDERS))}, got {self.order!r}")
        if not self.batch <= self.n:
            raise ValueError(f"batch must be at most n = {self.n}, got {self.batch}")
        positive(**{"gradient_sensitivity / (batch * noise_std)": self._move})
        self.contraction  # noqa: B018 - checks the rate

    @property
    def relation(self) -> ReplaceOne:  # type: ignore[override]
        """ReplaceOne(n): the number of records is public."""
        return ReplaceOne(n=self.n, unit=self.unit)

    @property
    def source(self) -> str:
        """The theorems, and the notes with the proofs."""
        if self._allocated:
            return "random allocation: docs/notes/allocation.md; docs/notes/sgd.md, section 5"
        several = ", hidden_states.md" if self.epochs > 1 else ""
        return (
            "Balle, Barthe, Gaboardi and Geumlek 2019, Algorithm 1 and equation (2); Feldman, Mironov, Talwar and "
            f"Thakurta 2018; Bok, Su and Altschuler 2024; docs/notes/sgd.md{several}"
        )

    @property
    def contraction(self) -> float:
        """Lipschitz constant of the map of one step, at most 1."""
        return self.loss.contraction(self.rate)

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps of one epoch."""
        return -(-self.n // self.batch)

    @property
    def steps(self) -> int:
        """Number of steps on private records, over all epochs."""
        return self.epochs * self.steps_per_epoch

    @property
    def shifts(self) -> FloatArray:
        """Mean shift of the equivalent Gaussian mechanism for the records of each step of an epoch, in standard
        deviations, shape (steps_per_epoch,).

        The record at position k of the last epoch is used in its step k // batch. Given its position, the release costs
        at most as much as this Gaussian mechanism (sgd.md, section 2; hidden_states.md, section 6). Raises ValueError
        if the steps do not fit into memory.
        """
        self._check_positions()
        check_memory(self.steps_per_epoch, lower="n, or raise batch")
        return self._shift(np.arange(self.steps_per_epoch)[::-1])

    @property
    def _move(self) -> float:
        """Distance by which a record displaces the state in one step, in standard deviations of the step's noise."""
        return float(self.loss.gradient_sensitivity / (self.batch * self.noise_std) * _UP)

    def _shift(self, later: ArrayLike) -> FloatArray:
        """The shift of a step of the last epoch that is followed by `later` further steps of the epoch."""
        distance = 2.0 * self.loss.radius * self.batch / (self.rate * self.loss.gradient_sensitivity) * _UP
        places = tuple(np.ravel(later).tolist())
        unit = _unit_shifts(
            distance, self.contraction, self.steps_per_epoch, self.epochs, self.public_tail, self.order, places
        )
        return np.reshape(self._move * unit, np.shape(later))

    def accountant_at(self, index: int) -> Accountant:
        """The account of the release for the record at a known position of the order.

        With a secret order it describes what an adversary who knows the position learns; with order "reshuffle", one
        who knows the position in the last epoch.

        Parameters
        ----------
        index : int
            Position of the record, from 0 to n - 1.

        Returns
        -------
        Accountant
            A GaussianAccountant under ReplaceOne(n).

        Raises
        ------
        ValueError
            If `index` is outside this range.
        """
        self._check_positions()
        if not 0 <= index < self.n:
            raise ValueError(f"index must lie in 0, ..., {self.n - 1}, got {index}")
        return self._gaussian(float(self._shift(self.steps_per_epoch - 1 - index // self.batch)))

    @property
    def worst_account(self) -> Accountant:
        """The account of the last position, for an adversary who knows the order."""
        return self.accountant_at(self.n - 1)

    def _check_positions(self) -> None:
        """Raise ValueError if records have no positions."""
        if self._allocated:
            raise ValueError(
                "order must not be 'allocated' for accounts by position: its records are allocated independently"
            )

    @property
    def _allocated(self) -> bool:
        """True if records are allocated to several steps."""
        return self.order == "allocated" and self.steps_per_epoch > 1

    @property
    def _record_shift(self) -> float:
        """Distance by which one record's own gradient moves the state in one step, in standard deviations of noise."""
        return max(self.loss.gradient_norm / (self.batch * self.noise_std) * _UP, LEAST_LOSS)

    @property
    def approximate(self) -> Accountant:
        """An account that guides searches: the account itself, or with order "allocated" an approximation of it.

        The approximation is no upper bound.
        """
        if not self._allocated:
            return self
        return approximate_account(self._record_shift, self.steps_per_epoch, self.epochs, self.relation)

    @property
    def composed(self) -> Accountant:
        """The account of all steps if every state were released: Gaussian composition over epochs, without mixtures."""
        return self._gaussian(self._move * float(np.sqrt(self.epochs)) * _UP)

    def _gaussian(self, shift: float) -> GaussianAccountant:
        """The account of one Gaussian mechanism with this shift."""
        return GaussianAccountant(
            sensitivity=max(shift, LEAST_LOSS), noise_std=1.0, relation=self.relation, assumptions=self.assumptions
        )

    @property
    def _one_position(self) -> bool:
        """True if all records are charged as one position: in a given order, or if every step reads all of them."""
        return self.order == "given" or self.steps_per_epoch == 1

    def group(self, size: int) -> Accountant:
        """Groups of `size` records: `size` times the shift of a given order or full batches, else the general bound."""
        if not self._one_position or (self.contraction == 0.0 and self.public_tail):
            return Accountant.group(self, size)
        size = positive_integer(size=size)
        shift = min(size, self.n) * max(float(self._shift(0)), LEAST_LOSS) * _UP
        return replace(self._gaussian(shift), relation=self.relation.group(size))

    def mu(self, regret: float = 0.0, *, direction: Direction | None = None) -> float:
        """The least mu, at regret 0 in closed form: the shift of the worst position, whose loss has the heaviest tail.

        Parameters
        ----------
        regret : float, default 0.0
            Number in [0, 1) by which delta(epsilon) may exceed that of a mu-Gaussian mechanism.
        direction : None
            Must be None: the relation is ReplaceOne.

        Returns
        -------
        float
            mu > 0, never below the least one.

        Raises
        ------
        ValueError
            If `regret` is outside its range.
        RelationMismatch
            If a direction is named.

        Examples
        --------
        >>> import privsample as ps
        >>> loss = ps.LogisticLoss(features=2, norm=1.0, radius=1.0)
        >>> account = ps.SGDAccountant(loss=loss, n=1000, rate=0.5, noise_std=1.0)
        >>> account.mu() == account.worst_account.mu(), account.mu(regret=1e-4) < account.mu()
        (True, True)
        """
        known, allowed = self._worst_shift, probability(regret=regret)
        if known is None or direction is not None:
            return Accountant.mu(self, regret, direction=direction)
        return known if allowed == 0.0 else min(known, Accountant.mu(self, regret))

    def regret(self, mu: float, *, direction: Direction | None = None) -> float:
        """The least regret of a mu: 0 from the shift of the worst position on.

        Parameters
        ----------
        mu : float
            Finite and >= 0.
        direction : None
            Must be None: the relation is ReplaceOne.

        Returns
        -------
        float
            The regret in [0, 1], never below the least one.

        Raises
        ------
        ValueError
            If `mu` is outside its range.
        RelationMismatch
            If a direction is named.

        Examples
        --------
        >>> import privsample as ps
        >>> loss = ps.LogisticLoss(features=2, norm=1.0, radius=1.0)
        >>> account = ps.SGDAccountant(loss=loss, n=1000, rate=0.5, noise_std=1.0)
        >>> account.regret(account.mu())
        0.0
        """
        known, shift = self._worst_shift, nonnegative(mu=mu)
        if known is not None and direction is None and shift >= known:
            return 0.0
        return Accountant.regret(self, mu, direction=direction)

    @property
    def _worst_shift(self) -> float | None:
        """A mu of the Gaussian guarantee in closed form; None if the release does not depend on the records."""
        if self._allocated:
            return self.composed.mu()
        pair = self._pair
        if isinstance(pair, OrderPair):
            return float(pair.mus.max())
        return pair.mu if isinstance(pair, GaussianPair) else None

    def _bounds(self) -> PrivacyBounds:
        """One pair, its own reverse. zCDP is that of the worst position, which dominates at large orders.

        Randomly allocated records are charged as a group of two; the zCDP is that of known steps, if it is less.
        """
        if self._allocated:
            found = allocated_bounds(self._record_shift, self.steps_per_epoch, self.epochs)
            return replace(found, zcdp=min(found.zcdp, self.composed.zcdp))
        zcdp = half_square(float(self._shift(0))) * _UP
        return PrivacyBounds.from_pairs([self._pair], zcdp=zcdp, exact=frozenset())

    @property
    def _pair(self) -> LossPair:
        """The dominating pair of the release (sgd.md, section 3; hidden_states.md, section 6)."""
        if self.contraction == 0.0 and self.public_tail:
            return binary_pair(0.0)  # a step with contraction 0 does not depend on the state before it
        worst = max(float(self._shift(0)), LEAST_LOSS)
        if self._one_position:
            return GaussianPair(mu=worst)
        ends = np.unique(np.floor(np.geomspace(1.0, self.steps_per_epoch, _BINS)).astype(np.int64))
        later = np.append(0, ends[:-1])  # steps after the last one of the bin; the first bin is the last step alone
        short = self.steps_per_epoch * self.batch - self.n  # records that the last batch lacks
        records = np.diff(np.append(0, ends * self.batch - short))
        shifts = np.maximum(self._shift(later), worst * 1e-9)
        return OrderPair(mus=shifts, log_weights=np.log(records / self.n))


@lru_cache(maxsize=256)
def _unit_shifts(
    distance: float, constant: float, period: int, epochs: int, tail: int, order: Order, later: tuple[int, ...]
) -> FloatArray:
    """The shifts where one step moves the state by one standard deviation; all shifts are proportional to that move.

    A record whose earlier positions are secret and drawn anew counts as the last of each earlier epoch, which costs no
    less (hidden_states.md, section 6).
    """
    left = np.array(later, dtype=np.float64)
    gap = period - left if order == "reshuffle" else np.full(len(left), float(period))
    found = epoch_shifts(
        move=1.0,
        distance=distance,
        constant=constant,
        period=period,
        epochs=epochs,
        tail=tail,
        after=left + tail,
        gap=gap,
    )
    found.flags.writeable = False
    return found
