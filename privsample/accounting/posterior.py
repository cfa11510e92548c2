"""Accounts of one draw from a diffused or concentrated conjugate posterior.

Source: Geumlek, Song and Chaudhuri 2017 (thesis of Geumlek, chapter 5): Algorithms 1-3, Theorem 10.
Proofs beyond the source are in docs/notes/posterior.md.
"""

from functools import singledispatch

import numpy as np

from privsample._checks import FloatArray, positive_integer, share
from privsample._value import put, value
from privsample.accounting.additive import GaussianPair
from privsample.accounting.base import Accountant, Assumption
from privsample.accounting.conjugate import BetaPair, GammaRatePair, GammaShapePair
from privsample.accounting.loss import LossPair
from privsample.distributions.families import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    Model,
    NormalKnownVariance,
)
from privsample.relations import ReplaceOne

_TOLERANCE = 1e-9  # of the privacy curve, where records are real numbers and no finite set of pairs is the worst
_BLOCKS = 4000


@value
class PosteriorAccountant(Accountant):
    """One draw from the posterior of n records with data weight r and prior divisor m, under ReplaceOne(n).

    rdp is exact. The privacy curve is exact for Dirichlet with three or more categories, both Gammas and the Normal; for
    Beta-Bernoulli (and two categories) it is certified to lie within a relative 1e-9 above the worst pair.
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
        put(self, data_weight=share(data_weight=self.data_weight), prior_divisor=share(prior_divisor=self.prior_divisor))

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

    def _log_curve_draft(self, epsilon: FloatArray) -> FloatArray:
        result: FloatArray = np.max([pair.log_delta(epsilon) for pair in self.pairs], axis=0)
        return result

    def _log_curve(self, epsilon: FloatArray) -> FloatArray:
        e, ends = np.asarray(epsilon, dtype=np.float64), self._log_curve_draft(epsilon)
        family = interior(self.model, self.n, self.data_weight, self.prior_divisor)
        if family is None:
            return ends
        values = [family.log_delta(float(x), float(top)) for x, top in zip(e.ravel(), ends.ravel(), strict=True)]
        return np.array(values).reshape(e.shape)


@value
class BetaFamily:
    """All pairs Beta(a + r s + r, b + r (n-1-s)) against Beta(a + r s, b + r (n-1-s) + r) and their mirrors, s in [0, n-1].

    Every s in [low, high] is dominated by the pair with a + r low and b + r (n-1-high): adding independent Gamma variables
    to both sides of the Beta's quotient is post-processing (docs/notes/posterior.md, Lemma 2).
    """

    a: float
    b: float
    step: float
    n: int
    whole: bool

    def log_delta(self, epsilon: float, ends: float) -> float:
        """The privacy curve of the whole family at epsilon, given its value at the ends: certified, rounded up."""
        return max(self._certify(self.a, self.b, epsilon, ends), self._certify(self.b, self.a, epsilon, ends))

    def _certify(self, a: float, b: float, epsilon: float, ends: float) -> float:
        """Split [0, n-1] into blocks until each block's bound is at most the ends' value."""
        last, worst = self.n - 1, ends
        goal = ends if self.whole else ends + _TOLERANCE
        if np.isneginf(ends) or last == 0:
            return ends
        open_blocks: list[tuple[float, float]] = [(1, last - 1)] if self.whole else [(0.0, float(last))]
        for _ in range(_BLOCKS):
            if not open_blocks:
                return max(worst, goal)
            low, high = open_blocks.pop()
            if low > high:
                continue
            pair = BetaPair(a=a + self.step * low, b=b + self.step * (last - high), step=self.step)
            bound = float(pair.log_delta(np.float64(epsilon)))
            if bound <= goal:
                continue
            if high <= low or high - low < 1e-12 * last:
                worst = goal = max(worst, bound)
                continue
            open_blocks += self._halves(low, high, last)
        return max(worst, float(BetaPair(a=a, b=b, step=self.step).log_delta(np.float64(epsilon))))

    def _halves(self, low: float, high: float, last: int) -> list[tuple[float, float]]:
        """Blocks shorter towards the ends, where the bound is nearly attained."""
        from_left, from_right = max(low, 0.0), max(last - high, 0.0)
        if from_left < from_right and high > 4 * (low + 1e-9):
            cut = max(2 * low, low + (high - low) * 2.0**-6)
        elif from_right < from_left and last - low > 4 * (last - high + 1e-9):
            cut = high - max(last - high, (high - low) * 2.0**-6)
        else:
            cut = low / 2 + high / 2
        if self.whole:
            cut = float(np.floor(cut))
            return [(low, cut), (cut + 1, high)]
        return [(low, cut), (cut, high)]


@singledispatch
def extreme_pairs(model: Model, n: int, r: float, m: float) -> tuple[LossPair, ...]:
    """Neighbouring posteriors that are worst at every order (MATH section 2, the table), both directions.

    A new model registers its own. Raises: TypeError, for a model without one.
    """
    raise TypeError(f"no account is known for the posterior of {type(model).__name__}")


@singledispatch
def interior(model: Model, n: int, r: float, m: float) -> BetaFamily | None:
    """The family that the privacy curve has to range over, where the extreme pairs are not proven to be its worst."""
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
