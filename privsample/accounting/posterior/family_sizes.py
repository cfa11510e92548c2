"""The privacy curves of Beta posteriors for many numbers of records, certified together over all sums of the records.

Proof: docs/notes/subsampling.md, "Many sizes", steps 3 and 4; posterior.md, section 3 (Lemma 2).
"""

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value, set_fields
from privsample.accounting.loss.rows import CurveRows, Rows
from privsample.accounting.posterior.beta import BetaPair
from privsample.accounting.posterior.pairs import lower_product, lower_sum
from privsample.accounting.posterior.size_search import Block, certify
from privsample.accounting.posterior.threshold_sweep import beta_curves

_TOLERANCE = 1e-4  # relative excess of delta over the ends that ends the search in a block
_NEXT_TO_END = 1e-6  # share of real-valued sums next to an end that counts as the end


@frozen_value
class BetaCurveRows(CurveRows):
    """All pairs Beta(a + r s + r, b + r t) against Beta(a + r s, b + r t + r), t = m - s, and their reverses, in row m.

    r is `step`, m in `others` is the number of the other records, and s is the sum of their values: any whole number in
    [0, m] if `integer_valued`, otherwise any real number. `others` increases.
    """

    a: float
    b: float
    step: float
    others: FloatArray
    integer_valued: bool

    def __post_init__(self) -> None:
        others = np.array(self.others, dtype=np.float64)
        others.flags.writeable = False
        set_fields(self, others=others)

    @property
    def max_divergence(self) -> float:
        """Infinite: the loss is unbounded."""
        return np.inf

    @property
    def order_limit(self) -> float:
        """That of the ends, which have a record of the rarer kind in common with no other record."""
        return 1.0 + min(self.a, self.b) / self.step

    @property
    def value_cost(self) -> float:
        """Some microseconds: the quadratures of many epsilons are shared."""
        return 20.0

    def ceiling(self, orders: FloatArray) -> FloatArray:
        """The Rényi curve of the ends of the smallest size, which are the worst at every order."""
        low, high = self._shapes(float(self.others[0]))
        ends = [BetaPair(a=self.a, b=high, step=self.step), BetaPair(a=low, b=self.b, step=self.step)]
        return BetaPair.worst_renyi([*ends, *(end.reverse() for end in ends)], orders)

    def _shapes(self, count: float) -> tuple[float, float]:
        """a and b plus the step times a number of records, rounded down."""
        more = lower_product(count, self.step) if count else 0.0
        return lower_sum(self.a, more), lower_sum(self.b, more)

    def approx_log_delta(self, rows: Rows, epsilon: FloatArray) -> FloatArray:
        """Largest log delta of the ends: all other records are failures, or all are successes."""
        rest = self.others[rows] * (1.0 if self.integer_valued else 1.0 - _NEXT_TO_END)
        return self._worst_order(np.zeros(len(rest)), rest, epsilon)

    def _worst_order(self, few: FloatArray, many: FloatArray, epsilon: FloatArray) -> FloatArray:
        """Largest log delta with `few` records of one kind and `many` of the other, for both kinds and both orders."""
        shapes = [np.array([self._shapes(count) for count in counts.tolist()]).reshape(-1, 2) for counts in (few, many)]
        (few_a, few_b), (many_a, many_b) = (shape.T for shape in shapes)
        pairs = [(few_a, many_b), (many_b, few_a)]
        if self.a != self.b:
            pairs += [(many_a, few_b), (few_b, many_a)]
        return np.max([beta_curves(a, b, self.step, epsilon) for a, b in pairs], axis=0)

    def log_delta(self, rows: Rows, epsilon: FloatArray) -> FloatArray:
        """Log delta of the ends, raised where the bounds on other sums exceed it."""
        return certify(self, self.others[rows], epsilon, self.approx_log_delta(rows, epsilon), tolerance=_TOLERANCE)

    def first_sums(self, least: float, most: float) -> list[tuple[float, float]]:
        """Ranges of the number of records of the rarer kind; those next to the end are in the ends' curve."""
        first = 1.0 if self.integer_valued else _NEXT_TO_END * least
        return _growing(first, self.last_sum(most), whole=self.integer_valued)

    def last_sum(self, size: float) -> float:
        """Half of the records are of the rarer kind at most."""
        return float(np.floor(size / 2)) if self.integer_valued else size / 2

    def block_bounds(self, blocks: list[Block], epsilon: FloatArray) -> FloatArray:
        """Log delta of the pair with the fewest records of both kinds in each block, which dominates all others."""
        low, high, least = (
            np.array(column) for column in zip(*[(b.low, b.high, b.least) for b in blocks], strict=True)
        )
        return self._worst_order(low, np.maximum(least - high, least / 2), epsilon)


def _growing(first: float, last: float, *, whole: bool) -> list[tuple[float, float]]:
    """Ranges of sums from first to last that grow in width; ranges of whole numbers do not share their ends."""
    found, low = [], first
    while low <= last:
        high = min(3.0 * low - 1.0 if whole and low > 1.0 else low if whole else 3.0 * low, last)
        found.append((low, max(high, low)))
        low = max(high, low) + 1.0 if whole else high
        if high >= last:
            break
    return found
