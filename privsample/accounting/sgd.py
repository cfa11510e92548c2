"""Account of noisy projected gradient descent in one pass, of which the last state is released: docs/notes/sgd.md."""

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray, check_memory, nonnegative_integer, positive, positive_integer
from privsample._logspace import LEAST_LOSS, half_square
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import LossPair, binary_pair
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.postprocessing.contraction import noise_of_equal_steps
from privsample.distributions.steps.losses import ConvexLoss
from privsample.relations import ReplaceOne

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

    def reverse(self) -> "OrderPair":
        """The pair itself."""
        return self

    @property
    def is_expensive(self) -> bool:
        """True: each value needs many Gaussian pairs."""
        return True


@frozen_value
class SGDAccountant(Accountant):
    """Noisy projected gradient descent in one pass over the records, of which the last state is released.

    Each step adds N(0, noise_std^2) noise to each coordinate of the mean gradient of a batch, moves the state by `rate`
    times the result, and projects it. Under ReplaceOne(n), a replaced record displaces the state in one step, by at
    most rate G / batch, where G is `loss.gradient_sensitivity`. The noise of that step and of all later steps hides the
    displacement, and every later step contracts it. With `hidden_order`, the records are in uniformly random secret
    order and the bound is a mixture over positions; otherwise it is that of the last position, which is the worst.

    Parameters
    ----------
    loss : ConvexLoss
        `LogisticLoss(...)` or `SquaredLoss(...)`, with its Lipschitz, smoothness and strong convexity constants.
    n : int
        Number of records, >= 1; public.
    rate : float
        Learning rate, finite and > 0; it must be small enough that each step is a contraction.
    noise_std : float
        Standard deviation of the noise of a step, before multiplication by `rate`, in units of the gradient, > 0.
    batch : int, default 1
        Records per step, from 1 to n.
    public_tail : int, default 0
        Number of further noisy steps on public records after the private ones, >= 0.
    hidden_order : bool, default True
        True if the records are shuffled uniformly and the order stays secret.
    unit : str, default "record"
        The name of what is protected.
    assumptions : frozenset of Assumption, default {IDEAL_REALS}
        Assumptions of the guarantee.

    Raises
    ------
    TypeError
        If `loss` is not a ConvexLoss or `hidden_order` is not a bool.
    ValueError
        If a number is outside its range, or `rate` is too large for a contraction.

    Notes
    -----
    Source: Balle, Barthe, Gaboardi and Geumlek 2019, Algorithm 1 and equation (2); Feldman, Mironov, Talwar and
    Thakurta 2018; Bok, Su and Altschuler 2024 (each position is Gaussian); docs/notes/sgd.md.

    Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> loss = ps.LogisticLoss(features=2, norm=1.0, radius=1.0)
    >>> account = ps.SGDAccountant(loss=loss, n=1000, rate=0.5, noise_std=1.0)
    >>> round(float(account.epsilon(1e-5)), 3), round(float(account.accountant_at(0).epsilon(1e-5)), 3)
    (4.609, 0.168)
    """

    loss: ConvexLoss
    n: int
    rate: float
    noise_std: float
    batch: int = 1
    public_tail: int = 0
    hidden_order: bool = True
    unit: str = "record"
    assumptions: frozenset[Assumption] = frozenset({Assumption.IDEAL_REALS})

    def __post_init__(self) -> None:
        if not isinstance(self.loss, ConvexLoss):
            raise TypeError(f"loss must be LogisticLoss(...) or SquaredLoss(...), got {type(self.loss).__name__}")
        set_fields(self, n=positive_integer(n=self.n), batch=positive_integer(batch=self.batch))
        set_fields(self, rate=positive(rate=self.rate), noise_std=positive(noise_std=self.noise_std))
        set_fields(self, public_tail=nonnegative_integer(public_tail=self.public_tail))
        if not isinstance(self.hidden_order, bool):
            raise TypeError(f"hidden_order must be True or False, got {self.hidden_order!r}")
        if not self.batch <= self.n:
            raise ValueError(f"batch must be at most n = {self.n}, got {self.batch}")
        positive(**{"gradient_sensitivity / (batch * noise_std)": self._shift(0)})
        self.contraction  # noqa: B018 - checks the rate

    @property
    def relation(self) -> ReplaceOne:  # type: ignore[override]
        """ReplaceOne(n): the number of records is public."""
        return ReplaceOne(n=self.n, unit=self.unit)

    @property
    def source(self) -> str:
        """The theorems, and the note with the proof."""
        return (
            "Balle, Barthe, Gaboardi and Geumlek 2019, Algorithm 1 and equation (2); Feldman, Mironov, Talwar and "
            "Thakurta 2018; Bok, Su and Altschuler 2024; docs/notes/sgd.md"
        )

    @property
    def contraction(self) -> float:
        """Lipschitz constant of the map of one step, at most 1."""
        return self.loss.contraction(self.rate)

    @property
    def steps(self) -> int:
        """Number of steps on private records."""
        return -(-self.n // self.batch)

    @property
    def shifts(self) -> FloatArray:
        """Mean shift of the equivalent Gaussian mechanism for the records of each step, shape (steps,), in standard
        deviations.

        The record at position k is used in step k // batch. Given its position, the release costs as much as this
        Gaussian mechanism (sgd.md, section 2). Raises ValueError if the steps do not fit into memory.
        """
        check_memory(self.steps, lower="n, or raise batch")
        return self._shift(np.arange(self.steps)[::-1] + self.public_tail)

    def _shift(self, later: ArrayLike) -> FloatArray:
        """The shift of a step that is followed by `later` further steps."""
        one = self.loss.gradient_sensitivity / (self.batch * self.noise_std) * _UP
        return np.asarray(one / noise_of_equal_steps(1.0, self.contraction, later))

    def accountant_at(self, index: int) -> Accountant:
        """The account of the release for the record at a known position of the order.

        With a hidden order it describes what an adversary who knows the position learns.

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
        if not 0 <= index < self.n:
            raise ValueError(f"index must lie in 0, ..., {self.n - 1}, got {index}")
        shift = float(self._shift(self.steps - 1 - index // self.batch + self.public_tail))
        return GaussianAccountant(
            sensitivity=max(shift, LEAST_LOSS), noise_std=1.0, relation=self.relation, assumptions=self.assumptions
        )

    @property
    def worst_account(self) -> Accountant:
        """The account of the last position, for an adversary who knows the order."""
        return self.accountant_at(self.n - 1)

    def _bounds(self) -> PrivacyBounds:
        """One pair, its own reverse. zCDP is that of the worst position, which dominates at large orders."""
        zcdp = half_square(float(self._shift(self.public_tail))) * _UP
        return PrivacyBounds.from_pairs([self._pair], zcdp=zcdp, exact=frozenset())

    @property
    def _pair(self) -> LossPair:
        """The dominating pair of the release (sgd.md, section 3)."""
        if self.contraction == 0.0 and self.public_tail:
            return binary_pair(0.0)  # a step with contraction 0 does not depend on the state before it
        worst = max(float(self._shift(self.public_tail)), LEAST_LOSS)
        if not self.hidden_order:
            return GaussianPair(mu=worst)
        ends = np.unique(np.floor(np.geomspace(1.0, self.steps, _BINS)).astype(np.int64))
        later = np.append(0, ends[:-1])  # steps after the last one of the bin; the first bin is the last step alone
        short = self.steps * self.batch - self.n  # records that the last batch lacks
        records = np.diff(np.append(0, ends * self.batch - short))
        shifts = np.maximum(self._shift(later + self.public_tail), worst * 1e-9)
        return OrderPair(mus=shifts, log_weights=np.log(records / self.n))
