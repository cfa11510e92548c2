"""Dominating pairs of a mechanism on a subsample, from the dominating pairs of the mechanism.

Source: Balle, Barthe and Gaboardi 2018, Theorems 2 and 8-11; further proofs: docs/notes/subsampling.md.
"""

from abc import abstractmethod

import numpy as np

from privsample._checks import FloatArray, Real
from privsample._logspace import log1mexp
from privsample._value import frozen_value
from privsample.accounting.curves.conversion import Curve
from privsample.accounting.curves.renyi_integral import renyi_from_curves
from privsample.accounting.loss.alternatives import OneOfPairs, one_of_pairs
from privsample.accounting.loss.exact import CertifiedPair, exact, reversed_pair, weights_text
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import DiscretePair, LossPair, delta_below_zero, largest_parts
from privsample.accounting.subsampling.gaussian import PoissonGaussianPair, base_epsilon

_ULP = np.finfo(np.float64).eps
_LARGE = 700.0  # exponents up to this one do not overflow
_INTEGRAL = 1e3  # approximate number of values of the privacy curve for one value of the Rényi curve
_OVERHEAD = 200.0  # cost that the integral adds to each value: high orders take many panels
_NEGLIGIBLE = 37.0  # a relative weight of e^-37 is half a unit in the last place


def amplified(loss: Real, rate: Real) -> FloatArray:
    """log(1 + rate (e^loss - 1)): the loss of the subsampled mechanism for a loss of the mechanism; any real loss."""
    loss, rate = np.asarray(loss, dtype=np.float64), np.asarray(rate, dtype=np.float64)
    grown = rate * np.expm1(np.minimum(loss, _LARGE))
    with np.errstate(divide="ignore"):
        far = np.logaddexp(np.log1p(-rate), np.log(rate) + loss)
    return np.where((grown > -0.5) & (loss < _LARGE), np.log1p(np.maximum(grown, -0.5)), far)


def inner_epsilon(epsilon: FloatArray, rate: Real) -> FloatArray:
    """log(1 + (e^epsilon - 1)/rate), rounded down: where a sampled base is evaluated for epsilon >= 0.

    A decreasing curve is thereby rounded up.
    """
    rate = np.asarray(rate, dtype=np.float64)
    far = epsilon + np.log1p(-(1.0 - rate) * np.exp(-epsilon)) - np.log(rate)
    near = np.log1p(np.expm1(np.minimum(epsilon, 1.0)) / rate)
    inner = np.where(epsilon < 1.0, near, far)
    return inner - 6 * _ULP * inner


class SubsampledPair(LossPair):
    """A dominating pair given by its privacy curves, with the mechanism's Rényi curve as an upper bound."""

    __slots__ = ()

    @abstractmethod
    def ceiling(self, orders: FloatArray) -> FloatArray:
        """The Rényi curve of the mechanism without subsampling, an upper bound."""

    @property
    def renyi_cost(self) -> float:
        """The cost of an integral over both privacy curves."""
        return _INTEGRAL * (_OVERHEAD + self.curve_cost)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Rényi curve by integrating both privacy curves (Balle, Barthe and Gaboardi 2018, Theorem 6)."""
        curves = self.log_delta, self.reverse().log_delta
        return renyi_from_curves(curves, self.ceiling, self.max_divergence, self.order_limit, orders)


class RescaledPair(SubsampledPair):
    """A pair whose privacy curve is that of its base at other epsilons, multiplied by factors."""

    __slots__ = ()
    base: LossPair

    @abstractmethod
    def _from_base(self, curve: Curve, epsilon: FloatArray) -> FloatArray:
        """log delta from the privacy curve of the base."""

    @property
    def is_expensive(self) -> bool:
        """True if the base is expensive."""
        return self.base.is_expensive

    @property
    def curve_cost(self) -> float:
        """The cost of one value of the base's privacy curve, and of the rescaling."""
        return 0.5 + self.base.curve_cost

    @property
    def from_table(self) -> bool:
        """True if the base is tabulated."""
        return self.base.from_table

    @property
    def gaussian_part(self) -> tuple[float, float]:
        """That of the base, which dominates every sample; without a Gaussian shift the smaller max divergence."""
        shift, rest = self.base.gaussian_part
        return (shift, rest) if shift > 0.0 else (0.0, self.max_divergence)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """log delta from the privacy curve of the base."""
        return self._from_base(self.base.log_delta, epsilon)

    def approx_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """log delta from the approximate privacy curve of the base."""
        return self._from_base(self.base.approx_log_delta, epsilon)

    def ceiling(self, orders: FloatArray) -> FloatArray:
        """The Rényi curve of the base."""
        return self.base.renyi(orders)


@frozen_value
class PoissonPair(RescaledPair):
    """The pair (A, B) of `base` under Poisson sampling, where the record is sampled with probability `rate`.

    With `removed`, (1 - rate) B + rate A against B; otherwise A against (1 - rate) A + rate B. Kind: exact (Theorem 2).
    """

    base: LossPair
    rate: float
    removed: bool

    @property
    def max_divergence(self) -> float:
        """log(1 + rate (e^l - 1)) for removal, -log(1 + rate (e^-l - 1)) for addition, l that of the base."""
        top = self.base.max_divergence
        result = float(amplified(top, self.rate) if self.removed else -amplified(-top, self.rate))
        return result + 4 * _ULP * abs(result)

    @property
    def order_limit(self) -> float:
        """That of the base for removal; infinite for addition, whose loss is bounded."""
        return self.base.order_limit if self.removed else np.inf

    def certified_pair(self) -> CertifiedPair:
        """The base with the sampling rate."""
        base = self.base if self.removed else self.base.reverse()
        sampled = {"kind": "poisson_sample", "rate": exact(self.rate), "pair": base.certified_pair()}
        return sampled if self.removed else reversed_pair(sampled)

    def _from_base(self, curve: Curve, epsilon: FloatArray) -> FloatArray:
        """The curve of the base at another epsilon, scaled."""
        factor, e = base_epsilon(epsilon, self.rate, removed=self.removed)
        inside = np.isfinite(e)
        result = np.where(inside, factor * (1 - _ULP), 0.0) + curve(np.where(inside, e, 0.0)) + 2 * _ULP
        outside = np.where(np.isneginf(e), log1mexp(np.minimum(epsilon, 0.0)), -np.inf)
        return np.where(inside, np.minimum(result, 0.0), outside)

    def reverse(self) -> "PoissonPair":
        """The other direction, with the reverse of the base."""
        return PoissonPair(base=self.base.reverse(), rate=self.rate, removed=not self.removed)


@frozen_value
class ReplacedRecordPair(RescaledPair):
    """A replaced record that is sampled with probability rates[i], where index i is revealed. It is its own reverse.

    For e >= 0 its curve is sum_i weights[i] rates[i] D_(e^(e_i)) of the base, where e^e = 1 + rates[i] (e^(e_i) - 1)
    (subsampling.md, "A replaced record"). `rates` and `log_weights` have shape (k,); with the remaining probability the
    record is not sampled.
    """

    base: LossPair
    rates: FloatArray
    log_weights: FloatArray

    @property
    def max_divergence(self) -> float:
        """The amplified largest loss at the highest rate."""
        result = float(amplified(self.base.max_divergence, self.rates.max()))
        return result + 4 * _ULP * result

    @property
    def order_limit(self) -> float:
        """That of the base."""
        return self.base.order_limit

    def certified_pair(self) -> CertifiedPair:
        """The base with rates and weights, which are rounded up: the curve increases with both (subsampling.md)."""
        return {
            "kind": "replaced_record",
            "rates": list(map(exact, np.minimum(self.rates * (1.0 + 8 * _ULP), 1.0).tolist())),
            "weights": weights_text(self.log_weights),
            "pair": self.base.certified_pair(),
        }

    def _from_base(self, curve: Curve, epsilon: FloatArray) -> FloatArray:
        """The sum; for negative epsilon from the identity for a pair that is its own reverse."""
        e = np.asarray(epsilon, dtype=np.float64)
        inner = inner_epsilon(np.abs(e)[..., None], self.rates)
        terms = self.log_weights + np.log(self.rates) + curve(inner)
        above = np.minimum(np.logaddexp.reduce(terms, axis=-1) + 4 * _ULP, 0.0)
        return np.where(e >= 0, above, delta_below_zero(e, above))

    @property
    def curve_cost(self) -> float:
        """The cost of one value of the base for each rate."""
        return len(self.rates) * (0.1 + self.base.curve_cost)

    def reverse(self) -> "ReplacedRecordPair":
        """The pair itself."""
        return self


@frozen_value
class MixturePair(SubsampledPair):
    """Mixture of pairs whose index is revealed, i with weight e^log_weights[i].

    The remaining probability mass has zero loss.
    """

    members: tuple[LossPair, ...]
    log_weights: FloatArray

    @property
    def max_divergence(self) -> float:
        """The largest of the members."""
        return max(pair.max_divergence for pair in self.members)

    @property
    def gaussian_part(self) -> tuple[float, float]:
        """The largest shift and the largest remaining loss of the members."""
        return largest_parts(self.members)

    @property
    def order_limit(self) -> float:
        """The least of the members."""
        return min(pair.order_limit for pair in self.members)

    @property
    def is_expensive(self) -> bool:
        """True if a member is expensive."""
        return any(pair.is_expensive for pair in self.members)

    @property
    def curve_cost(self) -> float:
        """The sum of the costs of the members whose weights are not negligible."""
        matter = self.log_weights > self.log_weights.max() - _NEGLIGIBLE
        return sum(pair.curve_cost for pair, own in zip(self.members, matter, strict=True) if own)

    @property
    def renyi_cost(self) -> float:
        """The cost of an integral, with more panels for each member that is not negligible."""
        matter = int((self.log_weights > self.log_weights.max() - _NEGLIGIBLE).sum())
        return _INTEGRAL * matter * (_OVERHEAD + self.curve_cost)

    @property
    def from_table(self) -> bool:
        """True if a member is tabulated."""
        return any(pair.from_table for pair in self.members)

    def certified_pair(self) -> CertifiedPair:
        """The members with their weights."""
        pairs = [pair.certified_pair() for pair in self.members]
        return {"kind": "mixture", "weights": weights_text(self.log_weights), "pairs": pairs}

    def ceiling(self, orders: FloatArray) -> FloatArray:
        """The maximum of the members' upper bounds."""
        return np.max([getattr(pair, "ceiling", pair.renyi)(orders) for pair in self.members], axis=0)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """log of the weighted sum of the members' curves."""
        e = np.asarray(epsilon, dtype=np.float64)
        above = self._sum(np.abs(e))
        below = self.reverse()._sum(np.abs(e)) if (e < 0).any() else above
        return np.where(e >= 0, above, delta_below_zero(e, below))

    def _sum(self, epsilon: FloatArray) -> FloatArray:
        """log of the weighted sum at epsilon >= 0, in order of decreasing weight until the rest is negligible."""
        order = np.argsort(-self.log_weights)
        later = np.append(np.logaddexp.accumulate(self.log_weights[order[::-1]])[-2::-1], -np.inf)
        total, open_ = np.full(epsilon.shape, -np.inf), np.ones(epsilon.shape, dtype=bool)
        for at, rest in zip(order, later, strict=True):
            total[open_] = np.logaddexp(total[open_], self.log_weights[at] + self.members[at].log_delta(epsilon[open_]))
            complete = open_ & (
                rest < total - _NEGLIGIBLE
            )  # the remaining members are negligible even if their curves are 1
            total[complete] = np.logaddexp(total[complete], rest)
            open_ &= ~complete
            if not open_.any():
                break
        return np.minimum(total + 4 * _ULP, 0.0)

    def reverse(self) -> "MixturePair":
        """The mixture of the members' reverses."""
        return MixturePair(members=tuple(pair.reverse() for pair in self.members), log_weights=self.log_weights)


def poisson_pair(base: LossPair, rate: float, *, removed: bool) -> LossPair:
    """The pair under Poisson sampling, in its most specific form."""
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
    """The pair of a finite table under Poisson sampling, in the direction of removal."""
    loss = amplified(base.loss, rate)
    infinite = np.isposinf(base.loss)
    log_p = np.where(infinite, base.log_p + np.log(rate), base.log_q + np.where(infinite, 0.0, loss))
    return DiscretePair(log_p=log_p, log_q=base.log_q, loss=loss)


def replaced_record_pair(base: LossPair, rates: FloatArray, log_weights: FloatArray) -> LossPair:
    """A ReplacedRecordPair, or the equivalent DiscretePair of a finite base."""
    if not isinstance(base, DiscretePair):
        return ReplacedRecordPair(base=base, rates=rates, log_weights=log_weights)
    up = base.loss > 0
    loss = amplified(base.loss[up][:, None], rates)
    infinite = np.isposinf(loss)
    log_q = base.log_q[up][:, None] + log_weights
    lost = base.log_p[up][:, None] + np.log(rates) + log_weights
    log_p = np.where(infinite, lost, log_q + np.where(infinite, 0.0, loss))
    return _symmetrize(log_p.ravel(), log_q.ravel(), loss.ravel())


def _symmetrize(log_p: FloatArray, log_q: FloatArray, loss: FloatArray) -> DiscretePair:
    """The pair of outcomes of positive loss, their mirror images, and an outcome of zero loss for the rest."""
    rest = _log_remainder(np.append(log_p, log_q))
    return DiscretePair(
        log_p=np.concatenate([log_p, log_q, rest]),
        log_q=np.concatenate([log_q, log_p, rest]),
        loss=np.concatenate([loss, -loss, np.zeros_like(rest)]),
    )


def _log_remainder(log_masses: FloatArray) -> FloatArray:
    """log of 1 minus the sum of the masses, shape (1,); shape (0,) if nothing remains."""
    lacking = -np.expm1(np.logaddexp.reduce(log_masses, initial=-np.inf))
    return np.log(np.array([lacking] if lacking > 0.0 else []))


def mixture_pair(members: list[tuple[LossPair, float]]) -> LossPair:
    """The mixture of pairs with these log weights: a single pair, a DiscretePair, or a MixturePair."""
    pairs, weights = tuple(pair for pair, _ in members), np.array([weight for _, weight in members])
    if len(pairs) == 1 and abs(weights[0]) <= 4 * _ULP:
        return pairs[0]
    finite = [pair for pair in pairs if isinstance(pair, DiscretePair)]
    if len(finite) < len(pairs):
        return MixturePair(members=pairs, log_weights=weights)
    rest = _log_remainder(weights)
    log_p = [weight + pair.log_p for pair, weight in zip(finite, weights, strict=True)]
    log_q = [weight + pair.log_q for pair, weight in zip(finite, weights, strict=True)]
    return DiscretePair(
        log_p=np.concatenate([*log_p, rest]),
        log_q=np.concatenate([*log_q, rest]),
        loss=np.concatenate([*(pair.loss for pair in finite), np.zeros_like(rest)]),
    )
