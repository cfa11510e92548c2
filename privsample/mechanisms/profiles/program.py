"""Linear programs over the profiles of connected components, with one privacy constraint for each edge."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray
from privsample.distributions.profile_graph import IndexArray, ProfileGraph

_TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# HiGHS fails on some programs or wrongly reports infeasibility: retry without presolve, then with its own tolerances
_OTHERWISE: tuple[dict[str, Any], ...] = ({**_TOLERANCES, "presolve": False}, {})
_INFEASIBLE = 2


class SolverFailed(Exception):
    """The solver returned no solution; the message says why."""


def sparse(rows: ArrayLike, columns: ArrayLike, values: ArrayLike, shape: tuple[int, int]) -> Any:
    """A sparse matrix of these values, broadcast against their positions; values at the same position are added."""
    from scipy.sparse import csr_array

    at, across, held = np.broadcast_arrays(rows, columns, np.asarray(values, dtype=np.float64))
    return csr_array((held.ravel(), (at.ravel(), across.ravel())), shape=shape)


def stacked(blocks: list[list[Any]]) -> Any:
    """One sparse matrix of blocks; None is a block of zeros."""
    from scipy.sparse import block_array

    return block_array(blocks, format="csr")


@dataclass(frozen=True, kw_only=True)
class Program:
    """Profiles with distributions (m, d), and the edges `ends` (edges, 2) to be protected up to epsilon.

    members (m,): positions of the profiles in their graph.
    """

    distributions: FloatArray
    ends: IndexArray
    epsilon: float
    members: IndexArray

    @cached_property
    def private(self) -> Any:
        """Sparse constraints, rows <= 0, on the flattened output distributions, which protect every edge.

        Each edge is protected in both directions.

        If every two profiles are joined by an edge, all distributions must lie between one envelope and e^epsilon times
        it: d additional unknowns replace one row for each pair.
        """
        size, symbols = self.distributions.shape
        each, outputs = np.arange(symbols), np.arange(self.distributions.size)
        if size > 3 and len(self.ends) == size * (size - 1) // 2:
            envelope, width = len(outputs) + np.tile(each, size), len(outputs) + symbols
            pairs = [(outputs, envelope, self.epsilon), (envelope, outputs, 0.0)]
        else:
            a, b = ((side[:, None] * symbols + each).ravel() for side in self.ends.T)
            pairs, width = [(a, b, self.epsilon), (b, a, self.epsilon)], len(outputs)
        blocks = []
        for high, low, loss in pairs:
            rows, shape = np.arange(len(high)), (len(high), width)
            blocks.append([sparse(rows, high, np.exp(-loss), shape) - sparse(rows, low, 1.0, shape)])
        return stacked(blocks)

    def least(
        self,
        cost: FloatArray,
        upper: FloatArray,
        moves: Any,
        rows: Any = None,
        limits: FloatArray | None = None,
        feasible: bool = False,
    ) -> FloatArray | None:
        """The z that minimizes cost @ z with private output distributions P + moves @ z, or None if there is none.

        The constraints are 0 <= z <= upper and rows @ z <= limits. cost, upper: (v,); moves: sparse (m d, v); rows:
        sparse (r, v). With `feasible` a solution is known to exist, and an answer of infeasibility is not accepted
        until further solver options have been tried. Raises Unsolved if the solver fails.
        """
        from scipy.optimize import linprog

        private = self.private
        free = private.shape[1]  # the output distributions, and the envelope if there is one
        outputs = np.arange(self.distributions.size)
        equal = stacked([[-moves, sparse(outputs, outputs, 1.0, (len(outputs), free))]])
        nothing = sparse([], [], [], (private.shape[0], len(cost)))
        above, limit = [[nothing, private]], np.zeros(private.shape[0])
        if rows is not None and limits is not None:
            above.append([rows, None])
            limit = np.r_[limit, limits]
        unit = float(np.abs(cost).max(initial=0.0)) or 1.0  # the solver's tolerances are absolute
        program = {
            "c": np.r_[cost / unit, np.zeros(free)],
            "A_ub": stacked(above),
            "b_ub": limit,
            "A_eq": equal,
            "b_eq": self.distributions.ravel(),
            "bounds": np.column_stack([np.zeros(len(cost) + free), np.r_[upper, np.ones(free)]]),
            "method": "highs-ipm",
        }
        found = linprog(**program, options=_TOLERANCES)
        answers = (0,) if feasible else (0, _INFEASIBLE)
        for options in _OTHERWISE:
            if found.status not in answers:
                found = linprog(**program, options=options)
        if found.status == _INFEASIBLE:
            return None
        if found.status != 0:
            raise SolverFailed(found.message)
        return np.asarray(np.clip(found.x[: len(cost)], 0.0, upper))  # the solver satisfies its bounds only up to 1e-10


def programs(graph: ProfileGraph, epsilon: float) -> list[Program]:
    """One program for each connected component of a graph."""
    part = graph.components
    of_edge = part[graph.ends[:, 0]]
    profiles, edges = np.argsort(part, kind="stable"), np.argsort(of_edge, kind="stable")
    place = np.empty(len(graph), dtype=np.int64)
    place[profiles] = np.arange(len(graph)) - np.searchsorted(part[profiles], part[profiles])
    each = np.arange(part.max() + 1)
    first, first_edge = np.searchsorted(part[profiles], each), np.searchsorted(of_edge[edges], each)
    found = []
    for members, own in zip(np.split(profiles, first[1:]), np.split(edges, first_edge[1:]), strict=True):
        found.append(
            Program(
                distributions=graph.distributions[members],
                ends=place[graph.ends[own]],
                epsilon=epsilon,
                members=members,
            )
        )
    return found


def joint_program(parts: list[Program]) -> Program:
    """Several programs as one, without edges between them."""
    starts = np.cumsum([0, *(len(part.distributions) for part in parts)])
    return Program(
        distributions=np.concatenate([part.distributions for part in parts]),
        ends=np.concatenate([part.ends + start for part, start in zip(parts, starts, strict=False)]),
        epsilon=parts[0].epsilon,
        members=np.concatenate([part.members for part in parts]),
    )
