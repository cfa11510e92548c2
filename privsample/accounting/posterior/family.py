"""All neighbouring Beta posteriors, and a certified search that the extreme sums of the other records are the worst.

Proof: posterior.md, section 3 (Lemma 2 and "Beta-Bernoulli and K = 2").
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np

from privsample._checks import FloatArray, Real
from privsample._value import cached, frozen_value
from privsample.accounting.curves.conversion import least_epsilon, safe_side
from privsample.accounting.loss.contour import summed_log_deltas
from privsample.accounting.loss.exact import CertifiedCase, CertifiedPair, Claims, exact
from privsample.accounting.loss.pair import Envelope, LossPair, SmoothPair, SmoothRows, worst_renyi
from privsample.accounting.loss.planner import LEAST_CONTOUR_LOG_DELTA
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.posterior.beta import BetaPair, BetaRows, beta_log_delta
from privsample.accounting.posterior.branch_and_bound import Rows, maximize_over_sums
from privsample.errors import NotCertified

PairCurve = Callable[[FloatArray, FloatArray, Real, FloatArray], FloatArray]

_TOLERANCE = 1e-9  # relative excess of the privacy curve over the ends, for records with real values
_SPLIT_MARGIN = 1e-8  # relative excess of the checker's curves, which are exact, is below this
_LARGE = 1e13  # parameters of a Beta distribution from which quadratures of its density are slow
_BLOCKS = 2000  # largest number of blocks in the search


@frozen_value
class BetaFamily:
    """All pairs Beta(a + r s + r k, b + r t) against Beta(a + r s, b + r t + r k), t = n - k - s, and their reverses.

    r is `step`, k is `group_size` (the number of the n records that are replaced at once), and s is the sum of the
    other n - k records: any whole number in [0, n - k] if `integer_valued`, otherwise any real number. All pairs with s
    in [low, high] are dominated by the pair with a + r low and b + r (n - k - high), because adding independent Gamma
    variables is post-processing (posterior.md, Lemma 2).
    """

    a: float
    b: float
    step: float
    n: int
    integer_valued: bool
    group_size: int = 1

    @property
    def slack(self) -> float:
        """Excess of the goal over the ends' log delta; > 0 for real sums, where a block next to an end exceeds it."""
        return 0.0 if self.integer_valued else _TOLERANCE

    def log_delta(self, epsilon: FloatArray, goal: FloatArray, curve: PairCurve = beta_log_delta) -> FloatArray:
        """Certified log delta of the whole family at each epsilon, all of shape (k,).

        `goal` is the log delta of the ends plus `slack`; the result is the goal unless an inner sum exceeds it.
        """

        def bounds(low: FloatArray, high: FloatArray, at: Rows) -> FloatArray:
            """Log delta of the pair that dominates each block, the larger of both directions."""
            a, b = self.a + self.step * low, self.b + self.step * (self.n - self.group_size - high)
            step = self.group_size * self.step
            return np.maximum(curve(a, b, step, epsilon[at]), curve(b, a, step, epsilon[at]))

        return maximize_over_sums(
            bounds, goal, self.n - self.group_size, integer_valued=self.integer_valued, most=_BLOCKS
        )


@frozen_value
class BetaEnvelope(Envelope):
    """Envelope of a whole `family`, composed with itself `draws` times and with the pairs `others`.

    The Rényi curve is that of the `ends` (the extreme sums), which are proven to be the worst at every order. That they
    are the worst at every epsilon is certified by the search over the family, within a relative 1e-9.
    """

    family: BetaFamily
    ends: tuple[BetaPair, ...]
    draws: int = 1
    others: tuple[tuple[LossPair, int], ...] = ()

    @cached
    def members(self) -> tuple[LossPair, ...]:
        """The ends, each composed with its further draws and with the other pairs."""
        if self.draws == 1 and not self.others:
            return self.ends
        return tuple([self._with_others(end) for end in self.ends])

    def _with_others(self, end: BetaPair) -> ProductPair:
        """All draws of one member of the family together with the other pairs."""
        return ProductPair(members=((end, self.draws), *self.others))

    @property
    def is_envelope(self) -> bool:
        """False: the ends are the worst at every order, so that composed Rényi curves are not tighter."""
        return False

    @cached
    def order_limit(self) -> float:
        """Smallest order limit of the ends."""
        return min([pair.order_limit for pair in self.members])

    @property
    def max_divergence(self) -> float:
        """Infinite: the loss is unbounded."""
        return np.inf

    @property
    def curve_cost(self) -> float:
        """Cost of one search over the family; quadratures of a density of large parameters need more panels."""
        size = max([max(pair.a, pair.b) for pair in self.ends])
        return 8e2 * max(1.0, (size / _LARGE) ** (1 / 3))

    @cached
    def renyi_cost(self) -> float:
        """Sum of the ends' costs."""
        return sum([pair.renyi_cost for pair in self.members])

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Largest Rényi divergence of the ends at each order."""
        return worst_renyi(self.members, orders)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Log delta, certified over the family."""
        e = np.asarray(epsilon, dtype=np.float64)
        return self.family.log_delta(e.ravel(), np.ravel(self.approx_log_delta(e)), self._curve).reshape(e.shape)

    def approx_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Largest log delta of the ends, plus the slack."""
        e = np.asarray(epsilon, dtype=np.float64)
        return np.minimum(self._end_curves(e).max(axis=0) + self.family.slack, 0.0)

    def _end_curves(self, epsilon: FloatArray) -> FloatArray:
        """Log delta of each end, shape (ends, ...)."""
        a, b = np.array([(end.a, end.b) for end in self.ends]).T
        rows = (np.repeat(a, epsilon.size), np.repeat(b, epsilon.size), self.ends[0].step)
        return self._curve(*rows, np.tile(epsilon.ravel(), len(a))).reshape(len(a), *epsilon.shape)

    def certified_pair(self) -> CertifiedPair:
        """Raise NotCertified: the blocks of a composition of a family with other accounts are not known."""
        raise NotCertified(
            "a posterior of binary records is composed with another account by an envelope over all sums of the other "
            "records, for which certificates have no notation; certify each account alone, or give one posterior "
            "several draws"
        )

    def certified_cases(self, claims: Claims) -> tuple[CertifiedCase, ...]:
        """A pair that dominates each block of sums, with all draws; blocks are halved until they prove the claims."""
        family = self.family
        goals = np.array([claim[1] for claim in claims]) - _SPLIT_MARGIN
        epsilon = np.array([claim[0] for claim in claims])
        last = Fraction(family.n - family.group_size)
        open_, found = [(Fraction(0), last)], list[CertifiedCase]()
        while open_:
            low, high = open_.pop()
            a, b = Fraction(family.a) + Fraction(family.step) * low, Fraction(family.b)
            b += Fraction(family.step) * (last - high)
            step, middle = family.group_size * Fraction(family.step), (low + high) / 2
            rows = [(np.full(epsilon.shape, float(u)), np.full(epsilon.shape, float(v))) for u, v in ((a, b), (b, a))]
            proved = low == high or all((self._curve(*row, float(step), epsilon) <= goals).all() for row in rows)
            if proved or len(found) + len(open_) > _BLOCKS:
                pair: CertifiedPair = {"kind": "beta", "a": exact(a), "b": exact(b), "step": exact(step)}
                others = tuple(
                    (times * own, part) for pair_, times in self.others for own, part in _only(pair_, claims)
                )
                found.append(((self.draws, pair), *others))
            elif family.integer_valued:
                open_ += [(low, Fraction(floor(middle))), (Fraction(floor(middle) + 1), high)]
            else:
                open_ += [(low, middle), (middle, high)]
        return tuple(found)

    def least_epsilon(self, log_delta: float) -> float:
        """Smallest epsilon of the ends, confirmed by the certified curve; results are cached."""
        if log_delta not in self._epsilon_cache:
            self._epsilon_cache[log_delta] = self._least_epsilon(log_delta)
        return self._epsilon_cache[log_delta]

    @cached
    def _epsilon_cache(self) -> dict[float, float]:
        """Results of `least_epsilon` by log delta."""
        return {}

    @cached
    def _members_worst_first(self) -> tuple[LossPair, ...]:
        """The members in decreasing order of delta(1): the first is usually the worst at every epsilon."""
        at_one = self._end_curves(np.ones(1))[:, 0]
        return tuple(self.members[place] for place in np.argsort(-at_one, kind="stable"))

    def _least_epsilon(self, log_delta: float) -> float:
        """Start from the ends' epsilon at a delta reduced by the slack, and confirm it by the certified curve."""
        least, reduced = 0.0, log_delta - self.family.slack
        for pair in self._members_worst_first:  # usually the first pair determines epsilon
            if least == 0.0 or (least < np.inf and not pair.log_delta(np.array([least]))[0] <= reduced):
                least = max(pair.least_epsilon(reduced), least)
        if least == 0.0:
            return least_epsilon(self.log_delta, self.approx_log_delta, log_delta)
        return safe_side(lambda e: bool(self.log_delta(np.array([e]))[0] <= log_delta), least, upward=True)

    def product(self, others: Sequence[tuple[LossPair, int]]) -> "BetaEnvelope":
        """The same family composed with further pairs."""
        factors = [factor for pair, times in others for factor in ProductPair.of(pair, times).members]
        return replace(self, others=(*self.others, *factors))

    def _curve(self, a: FloatArray, b: FloatArray, step: Real, epsilon: FloatArray) -> FloatArray:
        """Log delta of each member Beta(a + step, b) against Beta(a, b + step), with its draws and the other pairs."""
        if self.draws == 1 and not self.others:
            return beta_log_delta(a, b, step, epsilon)
        limits = np.minimum(1.0 + b / step, min([pair.order_limit for pair, _ in self.others], default=np.inf))
        members: list[tuple[SmoothPair | SmoothRows, int]] = [(BetaRows(a=a, b=b, step=float(step)), self.draws)]
        members += [(pair.rows, times) for pair, times in self.others if isinstance(pair, SmoothPair)]
        found = summed_log_deltas(members, limits, np.abs(epsilon))
        settled = (epsilon >= 0) & (found > LEAST_CONTOUR_LOG_DELTA) & (found < np.inf)
        for row in np.flatnonzero(~settled):  # separately, because a Rényi conversion may be tighter there
            own = BetaPair(a=float(a[row]), b=float(b[row]), step=float(step))
            found[row] = self._with_others(own).log_delta(epsilon[row])
        return found


def _only(pair: LossPair, claims: Claims) -> CertifiedCase:
    """The releases of a pair that has a single worst case."""
    (case,) = pair.certified_cases(claims)
    return case
