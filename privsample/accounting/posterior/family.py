"""Neighbouring Beta posteriors with any sum of the other records: a certificate that the ends are the worst."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from privsample._checks import FloatArray, Real
from privsample._value import cached, frozen_value
from privsample.accounting.curves.conversion import least_epsilon, safe_side
from privsample.accounting.loss.contour import summed_log_deltas
from privsample.accounting.loss.pair import Envelope, LossPair, SmoothPair, SmoothRows, worst_renyi
from privsample.accounting.loss.product import LEAST_CONTOUR_LOG_DELTA, ProductPair
from privsample.accounting.posterior.beta import BetaPair, BetaRows, beta_log_delta
from privsample.accounting.posterior.branch_and_bound import Rows, maximize_over_sums

PairCurve = Callable[[FloatArray, FloatArray, Real, FloatArray], FloatArray]

_TOLERANCE = 1e-9  # of the privacy curve
_BLOCKS = 2000


@frozen_value
class BetaFamily:
    """All pairs Beta(a + r s + r k, b + r t) against Beta(a + r s, b + r t + r k), t = n - k - s, and their mirrors.

    r is `step` and k is `moved`, how many of the n records are replaced at once.
    Every s in [low, high] is dominated by the pair with a + r low and b + r (n-k-high): adding independent Gamma
    variables to both sides of the Beta's quotient is post-processing (docs/notes/posterior.md, Lemma 2).
    """

    a: float
    b: float
    step: float
    n: int
    whole: bool
    moved: int = 1

    @property
    def slack(self) -> float:
        """What the goal has to lie above the ends: where sums are real, a block next to an end is never below it."""
        return 0.0 if self.whole else _TOLERANCE

    def log_delta(self, epsilon: FloatArray, goal: FloatArray, curve: PairCurve = beta_log_delta) -> FloatArray:
        """The privacy curve of the whole family at each epsilon, certified: `goal`, its value at the ends, or above it.

        Parameters: epsilon, goal: (k,). Returns: (k,).
        """

        def bounds(low: FloatArray, high: FloatArray, at: Rows) -> FloatArray:
            """The privacy curve of what dominates each block, both directions."""
            a, b = self.a + self.step * low, self.b + self.step * (self.n - self.moved - high)
            step = self.moved * self.step
            return np.maximum(curve(a, b, step, epsilon[at]), curve(b, a, step, epsilon[at]))

        return maximize_over_sums(bounds, goal, self.n - self.moved, whole=self.whole, most=_BLOCKS)


@frozen_value
class BetaEnvelope(Envelope):
    """The privacy curve of a whole `family`, of which each member is drawn from `draws` times, beside `others`.

    The Rényi curve is that of the `ends`, which are proven to be worst at every order; that they are worst at every
    epsilon is certified by the search over the family, within a relative 1e-9.
    """

    family: BetaFamily
    ends: tuple[BetaPair, ...]
    draws: int = 1
    others: tuple[tuple[LossPair, int], ...] = ()

    @cached
    def members(self) -> tuple[LossPair, ...]:
        """The ends, each with its draws and the other pairs."""
        if self.draws == 1 and not self.others:
            return self.ends
        return tuple([self._with_others(end) for end in self.ends])

    def _with_others(self, end: BetaPair) -> ProductPair:
        return ProductPair(members=((end, self.draws), *self.others))

    @property
    def is_envelope(self) -> bool:
        """Its ends are worst at every order, so that Rényi curves never compose to less than its own."""
        return False

    @cached
    def order_limit(self) -> float:
        """The least of the ends'."""
        return min([pair.order_limit for pair in self.members])

    @property
    def max_divergence(self) -> float:
        """Unbounded."""
        return np.inf

    @property
    def curve_cost(self) -> float:
        """The search over the family."""
        return 8e2

    @cached
    def renyi_cost(self) -> float:
        """The sum of the ends' costs."""
        return sum([pair.renyi_cost for pair in self.members])

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The largest of the ends'."""
        return worst_renyi(self.members, orders)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Certified over the family."""
        e = np.asarray(epsilon, dtype=np.float64)
        return self.family.log_delta(e.ravel(), np.ravel(self.approx_log_delta(e)), self._curve).reshape(e.shape)

    def approx_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The ends' alone."""
        e = np.asarray(epsilon, dtype=np.float64)
        return np.minimum(self._end_curves(e).max(axis=0) + self.family.slack, 0.0)

    def _end_curves(self, epsilon: FloatArray) -> FloatArray:
        """The privacy curve of each end, (ends, ...)."""
        a, b = np.array([(end.a, end.b) for end in self.ends]).T
        rows = (np.repeat(a, epsilon.size), np.repeat(b, epsilon.size), self.ends[0].step)
        return self._curve(*rows, np.tile(epsilon.ravel(), len(a))).reshape(len(a), *epsilon.shape)

    def least_epsilon(self, log_delta: float) -> float:
        """The ends', checked by the certificate; found once for each value."""
        if log_delta not in self._epsilon_cache:
            self._epsilon_cache[log_delta] = self._least_epsilon(log_delta)
        return self._epsilon_cache[log_delta]

    @cached
    def _epsilon_cache(self) -> dict[float, float]:
        return {}

    @cached
    def _members_worst_first(self) -> tuple[LossPair, ...]:
        """The members, the one first that is the worst at one epsilon: most often it is the worst at all."""
        at_one = self._end_curves(np.ones(1))[:, 0]
        return tuple(self.members[place] for place in np.argsort(-at_one, kind="stable"))

    def _least_epsilon(self, log_delta: float) -> float:
        least, beside = 0.0, log_delta - self.family.slack
        for pair in self._members_worst_first:  # most often the first decides
            if least == 0.0 or (least < np.inf and not pair.log_delta(np.array([least]))[0] <= beside):
                least = max(pair.least_epsilon(beside), least)
        if least == 0.0:
            return least_epsilon(self.log_delta, self.approx_log_delta, log_delta)
        return safe_side(lambda e: bool(self.log_delta(np.array([e]))[0] <= log_delta), least, upward=True)

    def product(self, others: Sequence[tuple[LossPair, int]]) -> "BetaEnvelope":
        """The same family beside further pairs."""
        factors = [factor for pair, times in others for factor in ProductPair.of(pair, times).members]
        return replace(self, others=(*self.others, *factors))

    def _curve(self, a: FloatArray, b: FloatArray, step: Real, epsilon: FloatArray) -> FloatArray:
        """The privacy curve that each member of the family, Beta(a + step, b) against Beta(a, b + step), gives."""
        if self.draws == 1 and not self.others:
            return beta_log_delta(a, b, step, epsilon)
        limits = np.minimum(1.0 + b / step, min([pair.order_limit for pair, _ in self.others], default=np.inf))
        members: list[tuple[SmoothPair | SmoothRows, int]] = [(BetaRows(a=a, b=b, step=float(step)), self.draws)]
        members += [(pair.rows, times) for pair, times in self.others if isinstance(pair, SmoothPair)]
        found = summed_log_deltas(members, limits, np.abs(epsilon))
        settled = (epsilon >= 0) & (found > LEAST_CONTOUR_LOG_DELTA) & (found < np.inf)
        for row in np.flatnonzero(~settled):  # each pair by itself, which may be bounded by its best order
            own = BetaPair(a=float(a[row]), b=float(b[row]), step=float(step))
            found[row] = self._with_others(own).log_delta(epsilon[row])
        return found
