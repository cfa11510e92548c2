"""Computation of the matrices: the least changes that protect every edge of a connected component of profiles.

The objective is the largest change of any profile, times the weight of the profile. Each answer is an optimum and,
among the optima, one with the least distortion: a second program is solved with the first optimum as a constraint.
Geumlek 2020, programs (7.6) and (7.7); the cuts and the weights: docs/notes/profiles.md.
"""

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.distributions.profile_graph import IndexArray, connected
from privsample.distributions.steps.channels import response_change
from privsample.mechanisms.profiles.program import Program, SolverFailed, sparse, stacked

_SLACK = 1e-9  # slack of the second program on the first optimum; the solver's tolerance is 1e-10
_TIES = 1e-7


def _largest_entry_bound(program: Program, least: float) -> float:
    """Upper bound on the objective in the second program: the optimum with slack, at most randomized response's."""
    return min(least + _SLACK, max(response_change(program.distributions.shape[1], program.epsilon), least))


def relative_weights(weights: FloatArray, part: IndexArray | None = None) -> FloatArray:
    """Weights (m,) over the largest of the same component, in [0, 1]; ones in a component that has only zeros."""
    part = np.zeros(len(weights), dtype=np.int64) if part is None else part
    largest = np.zeros(int(part.max()) + 1)
    np.maximum.at(largest, part, weights)
    own = largest[part]
    return np.asarray(np.where(own > 0.0, weights / np.where(own > 0.0, own, 1.0), 1.0))


def _entry_bounds(program: Program, least: float, relative: FloatArray) -> FloatArray:
    """Upper bounds (m,) on the entries of each profile in the second program, at most 1."""
    bound = _largest_entry_bound(program, least)
    return np.where(relative > bound, bound / np.maximum(relative, np.finfo(np.float64).tiny), 1.0)


def minimal_flips(program: Program, weights: FloatArray) -> FloatArray:
    """For two symbols, the flip probability (m,) of each profile; the largest weighted one is minimal by component."""
    size = len(program.distributions)
    part = connected(size, program.ends)
    parts, each, gap = int(part.max()) + 1, np.arange(size), program.distributions[:, 0] - program.distributions[:, 1]
    flips = sparse([2 * each, 2 * each + 1], [each, each], [-gap, gap], (2 * size, size))
    bounds = np.arange(size, size + parts)
    relative = relative_weights(weights, part)
    below = sparse([each, each], [each, bounds[part]], [relative, np.full(size, -1.0)], (size, size + parts))
    moves = stacked([[flips, sparse([], [], [], (2 * size, parts))]])
    first = program.least(
        np.repeat([0.0, 1.0], [size, parts]), np.ones(size + parts), moves, below, np.zeros(size), True
    )
    if first is None:
        raise SolverFailed("infeasible")
    ceilings = np.zeros(size)
    for k, bound in enumerate(first[bounds].tolist()):
        ceilings[part == k] = _entry_bounds(program, bound, relative[part == k])
    second = program.least(weights, ceilings, flips)
    return first[:size] if second is None else second


def minimal_matrices(program: Program, weights: FloatArray) -> FloatArray:
    """Matrices (m, d, d) whose largest off-diagonal entry, times the weight of its profile, is minimal."""
    relative = relative_weights(weights)
    entries, cuts, bound = _Entries(program), _Cuts(program, relative), -1.0
    while True:
        before = bound
        bound, more = cuts.tightened()
        if bound - before <= _SLACK or not more:  # possibly the optimum; the second program decides
            found = entries.least(
                entries.distortion(weights) * entries.preference,
                upper=_entry_bounds(program, bound, relative),
                feasible=not more,
            )
            if found is not None:
                return entries.matrices(found)
            if not more:
                raise SolverFailed("the second solve finds no matrices for the output distributions of the first")


def minimal_cost_matrices(program: Program, weights: FloatArray, cost: FloatArray) -> FloatArray:
    """Matrices (m, d, d) of least expected cost; cost[i, x, y] is the cost of releasing y for x under profile i."""
    entries = _Entries(program)
    weights = relative_weights(weights)  # products of large weights and costs, and differences of costs, overflow
    own = entries.expected(weights, cost / (float(np.abs(cost).max(initial=0.0)) or 1.0))
    own = own / max(float(np.abs(own).max(initial=0.0)), np.finfo(np.float64).tiny)
    first = entries.least(own, upper=1.0, feasible=True)
    if first is None:
        raise SolverFailed("infeasible")
    limit = float(own @ first) + _SLACK
    second = entries.least(entries.distortion(weights) * entries.preference, upper=1.0, row=own, limit=limit)
    return entries.matrices(first if second is None else second)


class _Entries:
    """The off-diagonal entries as unknowns; entries in rows of symbols that never occur stay zero."""

    def __init__(self, program: Program) -> None:
        self._program = program
        off = ~np.eye(program.distributions.shape[1], dtype=bool)
        self._places = np.nonzero((program.distributions > 0)[:, :, None] & off)
        i, x, y = self._places
        self._mass, symbols = program.distributions[i, x], program.distributions.shape[1]
        self._row, column, shape = i * symbols + x, np.arange(len(i)), (program.distributions.size, len(i))
        self._moves = sparse(i * symbols + y, column, self._mass, shape) - sparse(self._row, column, self._mass, shape)
        self._sums = sparse(self._row, column, 1.0, shape)

    def distortion(self, weights: FloatArray) -> FloatArray:
        """The coefficient of each entry in the weighted probability of changing the observed symbol."""
        return np.asarray(weights[self._places[0]] * self._mass)

    @property
    def preference(self) -> FloatArray:
        """Factors within 1e-7 of one that resolve ties.

        They favour moves from symbols that the profile has more often than others do to symbols that it has less often,
        so that symbols which reveal nothing stay unchanged.
        """
        distributions = self._program.distributions
        ratio = distributions / np.maximum(distributions.mean(axis=0), 1e-300) / len(distributions)  # in [0, 1]
        i, x, y = self._places
        return np.asarray(1.0 + _TIES * (ratio[i, y] - ratio[i, x]))

    def expected(self, weights: FloatArray, cost: FloatArray) -> FloatArray:
        """The coefficient of each entry in the weighted expectation of `cost` (m, d, d)."""
        i, x, y = self._places
        return np.asarray(self.distortion(weights) * (cost[i, x, y] - cost[i, x, x]))

    def least(
        self,
        cost: FloatArray,
        *,
        upper: float | FloatArray,
        row: FloatArray | None = None,
        limit: float = 0.0,
        feasible: bool = False,
    ) -> FloatArray | None:
        """The cheapest entries up to `upper` that protect every edge, with row @ entries <= limit if a row is given.

        `upper` is one number, or one for each profile.
        """
        rows, limits = self._sums[:0], np.empty(0)
        own = np.minimum(np.broadcast_to(upper, len(self._program.distributions)), 1.0)
        if own.max() * (self._program.distributions.shape[1] - 1) > 1.0:  # otherwise no row sum can exceed one
            rows, limits = self._sums, np.ones(self._sums.shape[0])
        if row is not None:
            rows = stacked([[rows], [sparse(0, np.arange(len(row)), row, (1, len(row)))]])
            limits = np.append(limits, limit)
        return self._program.least(cost, own[self._places[0]], self._moves, rows, limits, feasible)

    def matrices(self, entries: FloatArray) -> FloatArray:
        """The entries in their positions, (m, d, d); the diagonal holds the remaining probability."""
        symbols = self._program.distributions.shape[1]
        result = np.zeros((*self._program.distributions.shape, symbols))
        result[self._places] = entries
        each = np.arange(symbols)
        result[:, each, each] = 1.0 - result.sum(axis=-1)
        return result


class _Cuts:
    """The output distributions Q that matrices with off-diagonal entries up to t/w can give, w the profile's weight.

    They are exactly those with w Q(S) <= w P(S) + (1 - P(S)) |S| t for every profile and every set S of symbols with
    |S| t < w: the cuts of a flow from P to Q. Only the inequalities for single symbols, and those that an answer
    violated, are kept.
    """

    def __init__(self, program: Program, relative: FloatArray) -> None:
        self._program, self._relative = program, relative
        size, symbols = program.distributions.shape
        self._profile = np.repeat(np.arange(size), symbols)
        self._sets = np.tile(np.eye(symbols, dtype=bool), (size, 1))

    def tightened(self) -> tuple[float, int]:
        """The least t for which private distributions satisfy the kept cuts, and the number of violated cuts.

        The t is a lower bound on the objective. The violated cuts are added to the kept ones.
        """
        output, bound = self._least()
        found = [self._violated(output, size, bound) for size in range(1, output.shape[1]) if size * bound < 1]
        self._profile = np.concatenate([self._profile, *(profile for profile, _ in found)])
        self._sets = np.concatenate([self._sets, *(sets for _, sets in found)])
        return bound, sum(len(profile) for profile, _ in found)

    def _violated(self, output: FloatArray, size: int, bound: float) -> tuple[IndexArray, NDArray[np.bool_]]:
        """Each profile's worst set of one size, if it is violated: profiles and sets."""
        distributions, relative = self._program.distributions, self._relative[:, None]
        excess = relative * (output - distributions) + size * bound * distributions
        worst = np.argsort(-excess, axis=1)[:, :size]
        above = np.take_along_axis(excess, worst, axis=1).sum(axis=1) - size * bound
        bad = np.flatnonzero((above > _SLACK) & (size * bound < self._relative))
        sets = np.zeros((len(bad), distributions.shape[1]), dtype=bool)
        np.put_along_axis(sets, worst[bad], True, axis=1)
        return bad, sets

    def _least(self) -> tuple[FloatArray, float]:
        """Output distributions (m, d) and t; the unknowns are the additions to P, the subtractions from P, and t."""
        distributions, count = self._program.distributions, self._program.distributions.size
        size, symbols = distributions.shape
        output, last = np.tile(np.arange(count), 2), 2 * count
        column, sign = np.arange(last), np.repeat([1.0, -1.0], count)
        moves = sparse(output, column, sign, (count, last + 1))
        balance = sparse(output // symbols, column, sign, (size, last + 1))
        row, symbol = np.nonzero(self._sets)
        place = self._profile[row] * symbols + symbol
        outside = np.where(self._sets, 0.0, distributions[self._profile]).sum(axis=1)
        shape = (len(self._sets), last + 1)
        own = self._relative[self._profile[row]]
        gained = sparse(np.r_[row, row], np.r_[place, place + count], np.r_[own, -own], shape)
        allowed = sparse(np.arange(shape[0]), last, outside * self._sets.sum(axis=1), shape)
        rows = stacked([[balance], [-balance], [gained - allowed]])
        upper = np.r_[np.ones(count), distributions.ravel(), 1.0]
        found = self._program.least(np.repeat([0.0, 1.0], [last, 1]), upper, moves, rows, np.zeros(rows.shape[0]), True)
        if found is None:
            raise SolverFailed("infeasible")
        return distributions + found[:count].reshape(distributions.shape) - found[count:last].reshape(
            distributions.shape
        ), float(found[last])
