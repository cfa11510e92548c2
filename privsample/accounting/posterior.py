"""Accounts of one draw from a diffused or concentrated conjugate posterior.

Source: Geumlek, Song and Chaudhuri 2017 (thesis of Geumlek, chapter 5): Algorithms 1-3, Theorem 10.
Proofs beyond the source are in docs/notes/posterior.md.
"""

from functools import singledispatch

import numpy as np

from privsample._checks import FloatArray, Real, positive_integer, share
from privsample._value import put, value
from privsample.accounting.additive import GaussianPair
from privsample.accounting.base import Accountant, Assumption
from privsample.accounting.conjugate import BetaPair, GammaRatePair, GammaShapePair, beta_log_delta
from privsample.accounting.loss import LossPair, worst_log_delta
from privsample.distributions.families import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    Model,
    NormalKnownVariance,
)
from privsample.relations import ReplaceOne

_TOLERANCE = 1e-9  # of the privacy curve where records are real: a block next to an end is never below the end
_ROUNDS, _BLOCKS = 40, 2000


@value
class PosteriorAccountant(Accountant):
    """One draw from the posterior of n records with data weight r and prior divisor m, under ReplaceOne(n).

    rdp is exact. The privacy curve is exact for Dirichlet with three or more categories, both Gammas and the Normal;
    for Beta-Bernoulli (and two categories) it is certified to lie within a relative 1e-9 above the worst pair.
    """

    model: Model
    n: int
    data_weight: float = 1.0
    prior_divisor: float = 1.0
    unit: str = "record"
    assumptions: frozenset[Assumption] = frozenset({Assumption.IDEAL_REALS})

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise TypeError(f"model must be one of privsample's models, got {type(self.model).__name__}")
        put(self, n=positive_integer(n=self.n))
        put(
            self, data_weight=share(data_weight=self.data_weight), prior_divisor=share(prior_divisor=self.prior_divisor)
        )

    @property
    def relation(self) -> ReplaceOne:  # type: ignore[override]
        """n is public; one record may be any other."""
        return ReplaceOne(n=self.n, unit=self.unit)

    @property
    def source(self) -> str:
        """The theorem and the proof note."""
        return "Geumlek, Song and Chaudhuri 2017, Theorem 10; privsample notes, posterior.md (privacy curves)"

    @property
    def pairs(self) -> tuple[LossPair, ...]:
        """The neighbouring posteriors of MATH section 2, both directions: worst at every order."""
        return extreme_pairs(self.model, self.n, self.data_weight, self.prior_divisor)

    @property
    def zcdp(self) -> float:
        """Half the squared shift for the Normal; +inf for the others, whose order limit is finite."""
        match self.pairs:
            case (GaussianPair(mu=mu),):
                return mu * mu / 2
            case _:
                return np.inf

    def _log_curve_draft(self, epsilon: Real) -> FloatArray:
        family = interior(self.model, self.n, self.data_weight, self.prior_divisor)
        ends = worst_log_delta(self.pairs, np.asarray(epsilon))
        return ends if family is None or family.whole else np.minimum(ends + _TOLERANCE, 0.0)

    def _log_curve(self, epsilon: Real) -> FloatArray:
        e, draft = np.asarray(epsilon, dtype=np.float64), np.asarray(self._log_curve_draft(epsilon))
        family = interior(self.model, self.n, self.data_weight, self.prior_divisor)
        if family is None:
            return draft
        values = [family.log_delta(float(x), float(top)) for x, top in zip(e.ravel(), draft.ravel(), strict=True)]
        return np.array(values).reshape(e.shape)


@value
class BetaFamily:
    """All pairs Beta(a + r s + r, b + r t) against Beta(a + r s, b + r t + r), t = n - 1 - s, and their mirrors.

    Every s in [low, high] is dominated by the pair with a + r low and b + r (n-1-high): adding independent Gamma
    variables to both sides of the Beta's quotient is post-processing (docs/notes/posterior.md, Lemma 2).
    """

    a: float
    b: float
    step: float
    n: int
    whole: bool

    def log_delta(self, epsilon: float, goal: float) -> float:
        """The privacy curve of the whole family at epsilon, certified: `goal`, its value at the ends, or above it.

        Blocks of sums are split until each one's bound is at most the goal; what does not go below raises the result.
        """
        last = self.n - 1
        low, high = self._first_blocks(last)
        worst, left = goal, _ROUNDS
        while low.size:
            left -= 1
            bound = self._bounds(low, high, last, epsilon)
            single = high - low <= (0.0 if self.whole else 1e-9 * last)
            worst = max(worst, float(np.max(bound, where=single, initial=-np.inf)))
            stays = (bound > worst) & ~single
            if left == 0 or stays.sum() > _BLOCKS:
                return max(worst, float(np.max(bound)))
            low, high = self._split(low[stays], high[stays])
        return worst

    def _bounds(self, low: FloatArray, high: FloatArray, last: int, epsilon: float) -> FloatArray:
        """What dominates each block, both directions."""
        up, down = self.step * low, self.step * (last - high)
        parts = (beta_log_delta(x, y, self.step, epsilon) for x, y in _both(self.a, self.b, up, down))
        return np.maximum(*parts)

    def _first_blocks(self, last: int) -> tuple[FloatArray, FloatArray]:
        """Blocks that grow threefold from both ends: single sums first where sums are whole."""
        if self.whole:
            growth = np.unique(np.floor(3.0 ** np.arange(np.log(max(last / 2, 1)) / np.log(3.0) + 1)))
            cuts = np.unique(np.clip(np.concatenate([[1], growth, last - growth + 1, [last]]), 1, max(last, 1)))
            return cuts[:-1], cuts[1:] - 1
        growth = last / 2 * np.append(0.0, 3.0 ** -np.arange(22.0)[::-1])
        cuts = np.unique(np.concatenate([growth, last - growth]))
        return cuts[:-1], cuts[1:]

    def _split(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Each block in eight, or in single sums."""
        shares = np.arange(9) / 8
        if self.whole:
            cuts = low[:, None] + np.round((high + 1 - low)[:, None] * shares)
            first, last = cuts[:, :-1].ravel(), cuts[:, 1:].ravel() - 1
            return first[first <= last], last[first <= last]
        cuts = low[:, None] + (high - low)[:, None] * shares
        return cuts[:, :-1].ravel(), cuts[:, 1:].ravel()


def _both(a: float, b: float, up: FloatArray, down: FloatArray) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """The block's pair and its mirror."""
    return (a + up, b + down), (b + down, a + up)


@singledispatch
def extreme_pairs(model: Model, n: int, r: float, m: float) -> tuple[LossPair, ...]:
    """Neighbouring posteriors that are worst at every order (MATH section 2, the table), both directions.

    A new model registers its own. Raises: TypeError, for a model without one.
    """
    del n, r, m
    raise TypeError(f"no account is known for the posterior of {type(model).__name__}")


@singledispatch
def interior(model: Model, n: int, r: float, m: float) -> BetaFamily | None:
    """The family that the privacy curve has to range over, where the extreme pairs are not proven to be its worst."""
    del model, n, r, m
    return None


def _beta_ends(a: float, b: float, n: int, r: float) -> tuple[LossPair, ...]:
    """The other n - 1 records all failures, or all successes; both directions are mirror images."""
    rest = r * (n - 1)
    corners = ((a, b + rest), (a + rest, b), (b, a + rest), (b + rest, a))
    return tuple(dict.fromkeys(BetaPair(a=first, b=second, step=r) for first, second in corners))


@extreme_pairs.register
def _(model: BetaBernoulli, n: int, r: float, m: float) -> tuple[LossPair, ...]:
    return _beta_ends(model.alpha / m, model.beta / m, n, r)


@interior.register
def _(model: BetaBernoulli, n: int, r: float, m: float) -> BetaFamily | None:
    return BetaFamily(a=model.alpha / m, b=model.beta / m, step=r, n=n, whole=not model.fractional)


@extreme_pairs.register
def _(model: DirichletCategorical, n: int, r: float, m: float) -> tuple[LossPair, ...]:
    first, second = sorted(model.alpha)[:2]
    if len(model.alpha) == 2:
        return _beta_ends(first / m, second / m, n, r)
    pairs = (BetaPair(a=first / m, b=second / m, step=r), BetaPair(a=second / m, b=first / m, step=r))
    return tuple(dict.fromkeys(pairs))


@interior.register
def _(model: DirichletCategorical, n: int, r: float, m: float) -> BetaFamily | None:
    if len(model.alpha) > 2:
        return None
    first, second = sorted(model.alpha)
    return BetaFamily(a=first / m, b=second / m, step=r, n=n, whole=True)


@extreme_pairs.register
def _(model: GammaPoisson, n: int, r: float, m: float) -> tuple[LossPair, ...]:
    del n  # other records only raise the shape, which is post-processing
    return tuple(GammaShapePair(shape=model.shape / m, step=r * model.upper, rising=up) for up in (True, False))


@extreme_pairs.register
def _(model: GammaExponential, n: int, r: float, m: float) -> tuple[LossPair, ...]:
    shape, rate, step = model.shape / m + r * n, model.rate / m, r * model.upper
    return tuple(GammaRatePair(shape=shape, rate=rate, step=step, rising=up) for up in (True, False))


@extreme_pairs.register
def _(model: NormalKnownVariance, n: int, r: float, m: float) -> tuple[LossPair, ...]:
    low, high = model.bounds
    precision = 1 / (m * model.variance) + r * n / model.noise_variance
    return (GaussianPair(mu=r * (high - low) / model.noise_variance / precision**0.5),)
