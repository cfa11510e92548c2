"""Pairs of a mechanism that runs on a subsample, from the pairs of the mechanism itself.

Source: Balle, Barthe and Gaboardi 2018, Theorems 2 and 8-11; proofs beyond: docs/notes/subsampling.md.
"""

from abc import abstractmethod

import numpy as np

from privsample._checks import FloatArray, Real
from privsample._logspace import log1mexp
from privsample._value import frozen_value
from privsample.accounting.curves.conversion import Curve
from privsample.accounting.curves.renyi_integral import renyi_from_curves
from privsample.accounting.loss.alternatives import OneOfPairs, one_of_pairs
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import DiscretePair, LossPair, delta_below_zero
from privsample.accounting.subsampling.gaussian import PoissonGaussianPair, base_epsilon

_ULP = np.finfo(np.float64).eps
_LARGE = 700.0  # e to its power is a float
_INTEGRAL = 1e3  # values of the privacy curve that one of the Rényi curve takes, about
_NOTHING = 37.0  # e^-37 is half an ulp of one


def amplified(loss: Real, rate: Real) -> FloatArray:
    """log(1 + rate (e^loss - 1)): a loss of the mechanism as a loss of the subsampled one; any loss."""
    loss, rate = np.asarray(loss, dtype=np.float64), np.asarray(rate, dtype=np.float64)
    grown = rate * np.expm1(np.minimum(loss, _LARGE))
    with np.errstate(divide="ignore"):
        far = np.logaddexp(np.log1p(-rate), np.log(rate) + loss)
    return np.where((grown > -0.5) & (loss < _LARGE), np.log1p(np.maximum(grown, -0.5)), far)


class SubsampledPair(LossPair):
    """A pair that is known by its two curves and by the Rényi curve of the mechanism that it never exceeds."""

    __slots__ = ()

    @abstractmethod
    def ceiling(self, orders: FloatArray) -> FloatArray:
        """The mechanism's own Rényi curve."""

    @property
    def renyi_cost(self) -> float:
        """An integral over both curves."""
        return _INTEGRAL * self.curve_cost

    def renyi(self, orders: FloatArray) -> FloatArray:
        """By Theorem 6, from the two curves."""
        curves = self.log_delta, self.reverse().log_delta
        return renyi_from_curves(curves, self.ceiling, self.max_divergence, self.order_limit, orders)


class RescaledPair(SubsampledPair):
    """A pair whose curve is its base's at other epsilons, scaled."""

    __slots__ = ()
    base: LossPair

    @abstractmethod
    def _from_base(self, curve: Curve, epsilon: FloatArray) -> FloatArray:
        """log delta from the base's."""

    @property
    def is_expensive(self) -> bool:
        """Where the base is."""
        return self.base.is_expensive

    @property
    def curve_cost(self) -> float:
        """The base's."""
        return 0.5 + self.base.curve_cost

    @property
    def from_table(self) -> bool:
        """Where the base is."""
        return self.base.from_table

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """From the base's."""
        return self._from_base(self.base.log_delta, epsilon)

    def approx_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """From the base's draft."""
        return self._from_base(self.base.approx_log_delta, epsilon)

    def ceiling(self, orders: FloatArray) -> FloatArray:
        """The base's."""
        return self.base.renyi(orders)


@frozen_value
class PoissonPair(RescaledPair):
    """A record in the sample with probability `rate`; `base` is (A, B) without sampling.

    removed: (1 - rate) B + rate A against B; else A against (1 - rate) A + rate B. Kind: exact (Theorem 2).
    """

    base: LossPair
    rate: float
    removed: bool

    @property
    def max_divergence(self) -> float:
        """Of the mixture: log(1 + rate (e^l - 1)), or -log(1 + rate (e^-l - 1))."""
        top = self.base.max_divergence
        result = float(amplified(top, self.rate) if self.removed else -amplified(-top, self.rate))
        return result + 4 * _ULP * abs(result)

    @property
    def order_limit(self) -> float:
        """The base's where the record is taken out; else the loss is bounded."""
        return self.base.order_limit if self.removed else np.inf

    def _from_base(self, curve: Curve, epsilon: FloatArray) -> FloatArray:
        """The base's curve at another epsilon, scaled."""
        factor, e = base_epsilon(epsilon, self.rate, removed=self.removed)
        inside = np.isfinite(e)
        result = np.where(inside, factor * (1 - _ULP), 0.0) + curve(np.where(inside, e, 0.0)) + 2 * _ULP
        outside = np.where(np.isneginf(e), log1mexp(np.minimum(epsilon, 0.0)), -np.inf)
        return np.where(inside, np.minimum(result, 0.0), outside)

    def reverse(self) -> "PoissonPair":
        """The other direction, of the base's reverse."""
        return PoissonPair(base=self.base.reverse(), rate=self.rate, removed=not self.removed)


@frozen_value
class ThinnedPair(RescaledPair):
    """One record replaced, in the sample with probability rates[i], where i is drawn and told. Its own reverse.

    Its curve is sum_i weights[i] rates[i] D_(e^(e_i)) of the base, e^e = 1 + rates[i] (e^(e_i) - 1), for e >= 0.
    rates, log_weights: shape (k,); with what is missing to total weight one the record is never in the sample.
    """

    base: LossPair
    rates: FloatArray
    log_weights: FloatArray

    @property
    def max_divergence(self) -> float:
        """At the highest rate."""
        result = float(amplified(self.base.max_divergence, self.rates.max()))
        return result + 4 * _ULP * result

    @property
    def order_limit(self) -> float:
        """The base's."""
        return self.base.order_limit

    def _from_base(self, curve: Curve, epsilon: FloatArray) -> FloatArray:
        """The sum; below zero what its own reverse then has."""
        e = np.asarray(epsilon, dtype=np.float64)
        size = np.abs(e)[..., None]
        far = size + np.log1p(-(1.0 - self.rates) * np.exp(-size)) - np.log(self.rates)
        near = np.log1p(np.expm1(np.minimum(size, 1.0)) / self.rates)
        inner = np.where(size < 1.0, near, far)
        terms = self.log_weights + np.log(self.rates) + curve(inner - 6 * _ULP * inner)
        above = np.minimum(np.logaddexp.reduce(terms, axis=-1) + 4 * _ULP, 0.0)
        return np.where(e >= 0, above, delta_below_zero(e, above))

    @property
    def curve_cost(self) -> float:
        """A value of the base for each rate."""
        return len(self.rates) * (0.1 + self.base.curve_cost)

    def reverse(self) -> "ThinnedPair":
        """Itself."""
        return self


@frozen_value
class MixturePair(SubsampledPair):
    """Pairs of which one is drawn and told, i with weight e^log_weights[i]; what is missing to one tells nothing."""

    members: tuple[LossPair, ...]
    log_weights: FloatArray

    @property
    def max_divergence(self) -> float:
        """The largest."""
        return max(pair.max_divergence for pair in self.members)

    @property
    def order_limit(self) -> float:
        """The least."""
        return min(pair.order_limit for pair in self.members)

    @property
    def is_expensive(self) -> bool:
        """Where a member is."""
        return any(pair.is_expensive for pair in self.members)

    @property
    def curve_cost(self) -> float:
        """The sum of the costs of those members whose weights matter."""
        matter = self.log_weights > self.log_weights.max() - _NOTHING
        return sum(pair.curve_cost for pair, own in zip(self.members, matter, strict=True) if own)

    @property
    def renyi_cost(self) -> float:
        """An integral over curves with many bends: for each member that matters panels are halved more often."""
        matter = int((self.log_weights > self.log_weights.max() - _NOTHING).sum())
        return _INTEGRAL * matter * self.curve_cost

    @property
    def from_table(self) -> bool:
        """Where a member is."""
        return any(pair.from_table for pair in self.members)

    def ceiling(self, orders: FloatArray) -> FloatArray:
        """The largest of the members' ceilings."""
        return np.max([getattr(pair, "ceiling", pair.renyi)(orders) for pair in self.members], axis=0)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The sum."""
        e = np.asarray(epsilon, dtype=np.float64)
        above = self._sum(np.abs(e))
        below = self.reverse()._sum(np.abs(e)) if (e < 0).any() else above
        return np.where(e >= 0, above, delta_below_zero(e, below))

    def _sum(self, epsilon: FloatArray) -> FloatArray:
        order = np.argsort(-self.log_weights)
        later = np.append(np.logaddexp.accumulate(self.log_weights[order[::-1]])[-2::-1], -np.inf)
        total, open_ = np.full(epsilon.shape, -np.inf), np.ones(epsilon.shape, dtype=bool)
        for at, rest in zip(order, later, strict=True):
            total[open_] = np.logaddexp(total[open_], self.log_weights[at] + self.members[at].log_delta(epsilon[open_]))
            settled = open_ & (rest < total - _NOTHING)  # the members left, at a curve of one, no longer count
            total[settled] = np.logaddexp(total[settled], rest)
            open_ &= ~settled
            if not open_.any():
                break
        return np.minimum(total + 4 * _ULP, 0.0)

    def reverse(self) -> "MixturePair":
        """The members' reverses."""
        return MixturePair(members=tuple(pair.reverse() for pair in self.members), log_weights=self.log_weights)


def poisson_pair(base: LossPair, rate: float, *, removed: bool) -> LossPair:
    """The pair of a Poisson sample in the form that serves it best."""
    match base:
        case _ if rate == 1.0:
            return base
        case OneOfPairs(members=members):
            return one_of_pairs(poisson_pair(pair, rate, removed=removed) for pair in members)
        case GaussianPair(mu=mu):
            return PoissonGaussianPair(mu=mu, rate=rate, removed=removed)
        case DiscretePair() if removed:
            return _discrete_poisson(base, rate)
        case DiscretePair():
            return _discrete_poisson(base.reverse(), rate).reverse()
        case _:
            return PoissonPair(base=base, rate=rate, removed=removed)


def _discrete_poisson(base: DiscretePair, rate: float) -> DiscretePair:
    loss = amplified(base.loss, rate)
    infinite = np.isposinf(base.loss)
    log_p = np.where(infinite, base.log_p + np.log(rate), base.log_q + np.where(infinite, 0.0, loss))
    return DiscretePair(log_p=log_p, log_q=base.log_q, loss=loss)


def thinned_pair(base: LossPair, rates: FloatArray, log_weights: FloatArray) -> LossPair:
    """A ThinnedPair, or the finite pair that it then is."""
    if not isinstance(base, DiscretePair):
        return ThinnedPair(base=base, rates=rates, log_weights=log_weights)
    up = base.loss > 0
    loss = amplified(base.loss[up][:, None], rates)
    infinite = np.isposinf(loss)
    log_q = base.log_q[up][:, None] + log_weights
    lost = base.log_p[up][:, None] + np.log(rates) + log_weights
    log_p = np.where(infinite, lost, log_q + np.where(infinite, 0.0, loss))
    return _mirrored(log_p.ravel(), log_q.ravel(), loss.ravel())


def _mirrored(log_p: FloatArray, log_q: FloatArray, loss: FloatArray) -> DiscretePair:
    """Outcomes of positive loss, the same with P and Q exchanged, and an outcome of loss zero for the rest."""
    rest = _rest(np.append(log_p, log_q))
    return DiscretePair(
        log_p=np.concatenate([log_p, log_q, rest]),
        log_q=np.concatenate([log_q, log_p, rest]),
        loss=np.concatenate([loss, -loss, np.zeros_like(rest)]),
    )


def _rest(log_masses: FloatArray) -> FloatArray:
    """log of what the masses lack to add up to one, shape (1,); shape (0,) where they lack nothing."""
    lacking = -np.expm1(np.logaddexp.reduce(log_masses, initial=-np.inf))
    return np.log(np.array([lacking] if lacking > 0.0 else []))


def mixed(members: list[tuple[LossPair, float]]) -> LossPair:
    """The mixture of pairs with these log weights: one pair, a finite pair, or a MixturePair."""
    pairs, weights = tuple(pair for pair, _ in members), np.array([weight for _, weight in members])
    if len(pairs) == 1 and abs(weights[0]) <= 4 * _ULP:
        return pairs[0]
    finite = [pair for pair in pairs if isinstance(pair, DiscretePair)]
    if len(finite) < len(pairs):
        return MixturePair(members=pairs, log_weights=weights)
    rest = _rest(weights)
    log_p = [weight + pair.log_p for pair, weight in zip(finite, weights, strict=True)]
    log_q = [weight + pair.log_q for pair, weight in zip(finite, weights, strict=True)]
    return DiscretePair(
        log_p=np.concatenate([*log_p, rest]),
        log_q=np.concatenate([*log_q, rest]),
        loss=np.concatenate([*(pair.loss for pair in finite), np.zeros_like(rest)]),
    )
