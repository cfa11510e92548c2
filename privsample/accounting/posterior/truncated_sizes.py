"""The privacy curves of truncated Beta posteriors for many numbers of records, certified together over all sums.

Proof: docs/notes/subsampling.md, "Many sizes", steps 3 and 4; tempered.md, section 3.
"""

import itertools
from collections.abc import Callable

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import log1mexp
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.curves.quadrature import log_integral
from privsample.accounting.loss.rows import CurveRows, Rows
from privsample.accounting.posterior.size_search import Block, certify
from privsample.accounting.posterior.threshold_sweep import sums_of_panels

_FEW = 6  # epsilons from which a sweep costs less than one integral for each
_NORMALIZER_ERROR = 1e-10  # bounds the error of two log normalizers
_ROUNDING = 64 * float(np.finfo(float).eps)  # bounds the rounding error of a log density relative to its weight
_NOISE = 1e-11  # agreement of two rules that counts as enough
_TOLERANCE = 2e-4  # relative excess of delta over the largest value found that ends the search in a block
_COARSE, _REPRESENTATIVE, _WINDOW = 9, 4, 9  # sums of the first scan; epsilons of the scan; sums kept of each size
_WIDEST = 1  # largest number of sizes of a row that are all searched; others have closed forms
_BLOCK = 1 << 15  # values of log densities times 24 that are held at once


@frozen_value
class TruncatedBetaCurveRows(CurveRows):
    """All pairs Beta(a + r s + r, b + r t) against Beta(a + r s, b + r t + r), t = m - s, truncated, in one row.

    s ranges over the whole numbers from 0 to m, r is `step`, and m is the number of the other records, from `others` to
    `last`, which increase from row to row. The truncation is |logit theta| <= `half`. `closed` has closed forms that
    also hold; they alone are used for rows of very many sizes.
    """

    a: float
    b: float
    step: float
    half: float
    others: FloatArray
    last: FloatArray
    closed: CurveRows
    integer_valued = True

    def __post_init__(self) -> None:
        others, last = np.array(self.others, dtype=np.float64), np.array(self.last, dtype=np.float64)
        others.flags.writeable = last.flags.writeable = False
        set_fields(self, others=others, last=last)

    @property
    def max_divergence(self) -> float:
        """The range of the loss in nats."""
        return self.closed.max_divergence

    @property
    def value_cost(self) -> float:
        """Some integrals for each size."""
        return 100.0

    def ceiling(self, orders: FloatArray) -> FloatArray:
        """The closed forms of the smallest number of records."""
        return self.closed.ceiling(orders)

    def approx_log_delta(self, rows: Rows, epsilon: FloatArray) -> FloatArray:
        """The closed forms, or the largest values found by a local search over the sums."""
        return self._least(rows, epsilon, self._found)

    def log_delta(self, rows: Rows, epsilon: FloatArray) -> FloatArray:
        """The closed forms, or the certified maximum over all sums."""

        def certified(others: FloatArray, at: FloatArray) -> FloatArray:
            return certify(self, others, at, self._found(others, at), tolerance=_TOLERANCE)

        return self._least(rows, epsilon, certified)

    def loose_log_delta(self, rows: Rows, epsilon: FloatArray) -> FloatArray:
        """The closed forms alone."""
        return self.closed.log_delta(rows, epsilon)

    def _least(
        self, rows: Rows, epsilon: FloatArray, curves: Callable[[FloatArray, FloatArray], FloatArray]
    ) -> FloatArray:
        """The closed forms, or the largest of the curves of all sizes of a row if these are few."""
        result = self.closed.log_delta(rows, epsilon)
        counts = (self.last - self.others)[rows].astype(int) + 1
        narrow = counts <= _WIDEST
        row = np.repeat(np.flatnonzero(narrow), counts[narrow])
        if row.size:
            sizes = np.concatenate([np.arange(self.others[at], self.last[at] + 1.0) for at in rows[narrow]])
            largest = np.full(epsilon.shape, -np.inf)
            np.maximum.at(largest, row, curves(sizes, epsilon[row]))
            result[narrow] = np.minimum(result, largest)[narrow]
        return result

    def first_sums(self, least: float, most: float) -> list[tuple[float, float]]:
        """Ranges of sums for sizes from `least` to `most`."""
        del least
        edges = np.unique(np.round(np.linspace(0.0, most + 1.0, _COARSE)))
        return [(float(low), float(high) - 1.0) for low, high in itertools.pairwise(edges)]

    def last_sum(self, size: float) -> float:
        """The largest sum of one size."""
        return size

    def block_bounds(self, blocks: list[Block], epsilon: FloatArray) -> FloatArray:
        """The bound on each block: P with most successes and fewest failures, the threshold with the opposite."""
        low, high, least, most = (np.array(column) for column in zip(*[self._corners(b) for b in blocks], strict=True))
        return self._worst_order(low, most - low, high, np.maximum(least - high, 0.0), epsilon)

    def _corners(self, block: Block) -> tuple[float, float, float, float]:
        """The sums and the numbers of other records at the ends of a block."""
        return block.low, min(block.high, block.most), block.least, block.most

    def _worst_order(
        self, few: FloatArray, many_rest: FloatArray, many: FloatArray, few_rest: FloatArray, epsilon: FloatArray
    ) -> FloatArray:
        """Largest bound of both orders; sums from `few` to `many`, rests from `few_rest` to `many_rest`."""
        found = self._bounds(few, many_rest, many, few_rest, epsilon, swapped=False)
        if self.a == self.b:  # the sums of a whole size are symmetric; for a block, the mirrored one is another block
            return found
        return np.maximum(found, self._bounds(few_rest, many, many_rest, few, epsilon, swapped=True))

    def _bounds(
        self,
        few: FloatArray,
        many_rest: FloatArray,
        many: FloatArray,
        few_rest: FloatArray,
        epsilon: FloatArray,
        *,
        swapped: bool,
    ) -> FloatArray:
        """The Lemma's bound in one order: log E_P [1 - e^(-r (y - t))]_+ , rounded up, shape (rows, points).

        With `swapped`, a success is a failure: a and b are exchanged.
        """
        mass_p = self._log_masses(many + 1, few_rest, swapped)
        growth = self._log_masses(few + 1, many_rest, swapped) - self._log_masses(few, many_rest + 1, swapped)
        a, b = (self.b, self.a) if swapped else (self.a, self.b)
        shape = (a + self.step * (many + 1))[:, None], (b + self.step * few_rest)[:, None]
        weight = (a + b + self.step * (many + many_rest + 1.0)) * (1.0 + self.half)
        lost = (_NORMALIZER_ERROR + _ROUNDING * weight)[:, None]
        start = (epsilon - lost + growth[:, None]) / self.step
        size = max(_BLOCK // max(epsilon.shape[1], 8), 1)
        parts = [
            self._integrals(shape[0][at : at + size], shape[1][at : at + size], start[at : at + size])
            for at in range(0, len(few), size)
        ]
        result = np.concatenate([np.empty((0, epsilon.shape[1])), *parts]) - mass_p[:, None] + 2 * lost
        return np.minimum(result, 0.0)

    def _integrals(self, a: FloatArray, b: FloatArray, start: FloatArray) -> FloatArray:
        """Log of the integrals of the density beyond each start times 1 - e^(-step (y - start)), columns a and b."""
        half, step = self.half, self.step

        def density(at: Rows, y: FloatArray) -> FloatArray:
            return _log_density(a[at], b[at], y)

        result = np.full(start.shape, np.inf)
        if start.shape[1] >= _FEW:
            inside = np.append(np.clip(start, -half, half), np.full((len(start), 1), half), axis=1)
            nothing = np.full(len(start), -np.inf)
            total, above = (found[:, :-1] for found in sums_of_panels(density, step, inside, nothing, nothing))
            settled = np.isfinite(above) & (total < np.inf)
            with np.errstate(divide="ignore"):
                before = log1mexp(-step * np.maximum(-half - start, 0.0)) + np.where(settled, above, 0.0)
            result = np.where(settled, np.logaddexp(np.where(settled, total, 0.0), before), np.inf)
        result = np.where(start < half, result, -np.inf)
        at, point = np.nonzero(np.isposinf(result) & (start < half))
        if at.size:
            begin = np.maximum(start[at, point], -half)[:, None]
            threshold = start[at, point, None]

            def integrand(row: Rows, u: FloatArray) -> FloatArray:
                y = begin[row] + u
                return density(at[row], y) + log1mexp(-step * np.maximum(y - threshold[row], 0.0))

            result[at, point] = log_integral(integrand, len(at), (half - begin)[:, 0], noise=_NOISE)
        return result

    @cached
    def _known_masses(self) -> dict[tuple[float, float, bool], float]:
        """Log normalizers by numbers of successes and failures."""
        return {}

    def _log_masses(self, successes: FloatArray, failures: FloatArray, swapped: bool) -> FloatArray:
        """Log normalizer of the truncated posterior of so many records of each kind."""
        known = self._known_masses
        keys = [(s, f, swapped) for s, f in zip(successes.tolist(), failures.tolist(), strict=True)]
        missing = [key for key in dict.fromkeys(keys) if key not in known]
        if missing:
            a, b = (self.b, self.a) if swapped else (self.a, self.b)
            shapes = np.array([(a + self.step * s, b + self.step * f) for s, f, _ in missing])
            found = log_integral(
                lambda at, u: _log_density(shapes[at, :1], shapes[at, 1:], u - self.half),
                len(missing),
                np.full(len(missing), 2 * self.half),
                noise=_NOISE,
            )
            known.update(zip(missing, found.tolist(), strict=True))
        return np.array([known[key] for key in keys])

    def _found(self, others: FloatArray, epsilon: FloatArray) -> FloatArray:
        """The largest log delta of each size over a few sums around the best ones of a local search."""
        points, result = epsilon.shape[1], np.full(epsilon.shape, -np.inf)
        chosen = np.unique(np.linspace(0, points - 1, min(points, _REPRESENTATIVE)).astype(int))
        middle = np.floor(others / 2)
        for first, last in ((np.zeros(len(others)), middle), (middle, others)):  # each half has a local maximum
            best = np.stack([self._best_sums(others, first, last, epsilon[:, [at]]) for at in chosen], axis=1)
            low, high = best.min(axis=1), best.max(axis=1)
            sums = np.round(low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, _WINDOW if points > 1 else 1))
            new = np.append(np.ones((len(sums), 1), dtype=bool), np.diff(sums, axis=1) > 0, axis=1)
            size, place = np.nonzero(new)
            s = sums[size, place]
            values = self._worst_order(s, others[size] - s, s, others[size] - s, epsilon[size])
            np.maximum.at(result, size, values)
        return result

    def _best_sums(self, others: FloatArray, first: FloatArray, last: FloatArray, epsilon: FloatArray) -> FloatArray:
        """The sums from first to last with the largest log delta found by a local search at one epsilon."""
        every = np.arange(len(others))
        sums = np.round(first[:, None] + (last - first)[:, None] * np.linspace(0.0, 1.0, _COARSE))
        spacing, best, value = (last - first) / (_COARSE - 1), first, np.full(len(others), -np.inf)
        while True:
            flat = sums.ravel()
            rest = np.repeat(others, sums.shape[1]) - flat
            found = self._worst_order(flat, rest, flat, rest, np.repeat(epsilon, sums.shape[1], axis=0))
            found = found.reshape(sums.shape)
            at = found.argmax(axis=1)
            better = found[every, at] > value
            best, value = np.where(better, sums[every, at], best), np.maximum(value, found[every, at])
            if spacing.max() <= 0.5:
                return best
            spacing = spacing / 2
            moves = np.maximum(np.round(spacing), 1.0)[:, None] * np.array([-1.0, 1.0])
            sums = np.clip(best[:, None] + moves, first[:, None], last[:, None])


def _log_density(a: FloatArray, b: FloatArray, y: FloatArray) -> FloatArray:
    """Log density of Beta(a, b) on the logit scale, without its normalizer; the logits are moderate."""
    up = np.log1p(np.exp(-np.abs(y)))
    return -a * (up + np.maximum(-y, 0.0)) - b * (up + np.maximum(y, 0.0))
