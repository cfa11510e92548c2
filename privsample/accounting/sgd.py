"""The account of one pass of noisy projected gradient descent whose last state is released: docs/notes/sgd.md."""

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray, holdable, nonnegative_integer, positive, positive_integer
from privsample._logspace import LEAST_LOSS, half_square
from privsample._value import put, value
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import LossPair, binary_pair
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.postprocessing.contraction import noise_of_equal_steps
from privsample.distributions.steps.losses import ConvexLoss
from privsample.relations import ReplaceOne

_BINS = 600  # of the steps: each is charged as its latest
_UP = 1 + 1e-12
_LARGE = 500.0  # an exponent whose exponential is a float


@value
class OrderPair(LossPair):
    """Gaussian pairs of which one is drawn and told, mu[i] with chance e^log_weights[i]. Its own reverse.

    By joint convexity it dominates the mixture of mechanisms that are each dominated by one of them, when which one
    ran stays secret.
    """

    mus: FloatArray
    log_weights: FloatArray

    @property
    def max_loss(self) -> float:
        """Unbounded."""
        return np.inf

    def renyi(self, orders: FloatArray) -> FloatArray:
        """log(mean of e^((a-1) a mu^2/2))/(a-1): never the mean of the divergences."""
        alpha = np.asarray(orders, dtype=np.float64)
        exponents = ((alpha - 1.0) * alpha)[..., None] * (self.mus * self.mus / 2)
        moderate = exponents.max(axis=-1) < _LARGE  # a late position's weight may be too small to add to one
        small = np.log1p((np.exp(self.log_weights) * np.expm1(np.minimum(exponents, _LARGE))).sum(axis=-1))
        large = np.logaddexp.reduce(self.log_weights + exponents, axis=-1)
        return np.asarray(np.where(moderate, small, large) / (alpha - 1.0) * _UP)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """log of the mean of the curves."""
        e = np.asarray(epsilon, dtype=np.float64)
        total = np.full(e.shape, -np.inf)
        for weight, mu in zip(self.log_weights.tolist(), self.mus.tolist(), strict=True):
            total = np.logaddexp(total, weight + GaussianPair(mu=mu).log_delta(e))
        return np.minimum(total + 1e-14, 0.0)

    def reverse(self) -> "OrderPair":
        """Itself."""
        return self

    @property
    def dear(self) -> bool:
        """Many Gaussians for each value."""
        return True


@value
class SGDAccountant(Accountant):
    """The last state of descent over n records in batches, one step each, under ReplaceOne(n). Kind: upper bound.

    Each step moves the state by `rate` times the batch's mean gradient with noise N(0, noise_std^2) in each coordinate,
    and projects it. A replaced record displaces the state once, by at most rate G / batch, G the loss's
    `gradient_sensitivity`; its own noise and that of every later step, `public_tail` further ones included, hide it,
    each seen through the contractions between.
    With `hidden_order` the records were shuffled uniformly in secret: then the curves of all positions are averaged
    (e^((a-1) rdp) at each order); without, the worst position, the last, counts for all.
    Source: Balle, Barthe, Gaboardi and Geumlek 2019, Algorithm 1 and equation (2); Feldman, Mironov, Talwar and
    Thakurta 2018; Bok, Su and Altschuler 2024 (each position is Gaussian); docs/notes/sgd.md.
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
        put(self, n=positive_integer(n=self.n), batch=positive_integer(batch=self.batch))
        put(self, rate=positive(rate=self.rate), noise_std=positive(noise_std=self.noise_std))
        put(self, public_tail=nonnegative_integer(public_tail=self.public_tail))
        if not isinstance(self.hidden_order, bool):
            raise TypeError(f"hidden_order must be True or False, got {self.hidden_order!r}")
        if not self.batch <= self.n:
            raise ValueError(f"batch must be at most n = {self.n}, got {self.batch}")
        positive(**{"gradient_sensitivity / (batch * noise_std)": self._shift(0)})
        self.contraction  # noqa: B018 - checks the rate

    @property
    def relation(self) -> ReplaceOne:  # type: ignore[override]
        """n is public."""
        return ReplaceOne(n=self.n, unit=self.unit)

    @property
    def source(self) -> str:
        """The theorems and the proof note."""
        return (
            "Balle, Barthe, Gaboardi and Geumlek 2019, Algorithm 1 and equation (2); Feldman, Mironov, Talwar and "
            "Thakurta 2018; Bok, Su and Altschuler 2024; docs/notes/sgd.md"
        )

    @property
    def contraction(self) -> float:
        """What one step's map is Lipschitz with; at most 1."""
        return self.loss.contraction(self.rate)

    @property
    def steps(self) -> int:
        """On private records."""
        return -(-self.n // self.batch)

    @property
    def shifts(self) -> FloatArray:
        """The shift, in deviations, that hides each step's records, shape (steps,): position k lies in step k//batch.

        The release is that Gaussian for a record at a known position. Raises: ValueError, too many steps to hold.
        """
        holdable(self.steps, lower="n, or raise batch")
        return self._shift(np.arange(self.steps)[::-1] + self.public_tail)

    def _shift(self, later: ArrayLike) -> FloatArray:
        one = self.loss.gradient_sensitivity / (self.batch * self.noise_std) * _UP
        return np.asarray(one / noise_of_equal_steps(1.0, self.contraction, later))

    def accountant_at(self, index: int) -> Accountant:
        """What the release costs the record at this position, 0 to n - 1, of the order in which steps are taken.

        Under a hidden order this is what those learn who know the position.
        """
        if not 0 <= index < self.n:
            raise ValueError(f"index must lie in 0, ..., {self.n - 1}, got {index}")
        shift = float(self._shift(self.steps - 1 - index // self.batch + self.public_tail))
        return GaussianAccountant(
            sensitivity=max(shift, LEAST_LOSS), noise_std=1.0, relation=self.relation, assumptions=self.assumptions
        )

    @property
    def worst(self) -> Accountant:
        """What the release costs the last records, whoever knows the order."""
        return self.accountant_at(self.n - 1)

    def _bounds(self) -> PrivacyBounds:
        """By one pair, its own reverse. zCDP: the worst position's, which rules at large orders."""
        zcdp = half_square(float(self._shift(self.public_tail))) * _UP
        return PrivacyBounds.from_pairs([self._pair], zcdp=zcdp, exact=frozenset())

    @property
    def _pair(self) -> LossPair:
        if self.contraction == 0.0 and self.public_tail:
            return binary_pair(0.0)  # the last steps forget all that came before
        worst = max(float(self._shift(self.public_tail)), LEAST_LOSS)
        if not self.hidden_order:
            return GaussianPair(mu=worst)
        ends = np.unique(np.floor(np.geomspace(1.0, self.steps, _BINS)).astype(np.int64))
        later = np.append(0, ends[:-1])  # steps after the bin's latest; the first bin holds the last step alone
        short = self.steps * self.batch - self.n  # what the last batch lacks
        records = np.diff(np.append(0, ends * self.batch - short))
        shifts = np.maximum(self._shift(later + self.public_tail), worst * 1e-9)
        return OrderPair(mus=shifts, log_weights=np.log(records / self.n))
