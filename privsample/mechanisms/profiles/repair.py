"""Repair of a solver's matrices, so that the stored doubles protect every edge: docs/notes/profiles.md."""

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.profile_graph import IndexArray
from privsample.distributions.steps.channels import UNIT, output_distributions, round_to_units
from privsample.mechanisms.profiles.program import Program, SolverFailed


def repaired(program: Program, matrices: FloatArray, *, even: bool) -> FloatArray:
    """Matrices (m, d, d) in multiples of 2^-53 whose output distributions protect every edge; a margin covers rounding.

    Every row is mixed with one common distribution c / C with weight C, the sum of c. At each symbol, c(y) repairs the
    worst edge: c(y) = max [Q_i(y) - r Q_j(y)]_+ / (r - 1) + a (r + 1) / (r - 1). The maximum is over the edges in both
    directions, r is e^epsilon reduced by the margin, and a is the rounding error of whole units. Rows of symbols that
    never occur are not changed. With `even` the distribution is uniform and is mixed into all rows, so that a symmetric
    flip stays symmetric. Raises Unsolved if the solver's solution is too inaccurate to be repaired.
    """
    distributions, ends, epsilon = program.distributions, program.ends, program.epsilon
    plain = round_to_units(matrices)
    if protects_edges(output_distributions(distributions, plain), ends, epsilon):
        return plain
    symbols = distributions.shape[1]
    output = output_distributions(distributions, matrices)
    possible = (output + distributions).max(axis=0) > 0.0  # rounding leaves small diagonal entries of unused symbols
    needed = np.where(possible, _mixing_amounts(output, ends, epsilon, (symbols + 1) * UNIT), 0.0)
    if even:
        needed = np.full(symbols, needed.max())
    share = float(needed.sum())
    if not share <= 1.0:
        raise SolverFailed(f"the solver's solution violates an edge too far to be repaired: a share of {share:.3g}")
    mixed = (1.0 - share) * matrices + needed
    return round_to_units(mixed if even else np.where((distributions > 0)[:, :, None], mixed, matrices))


def protects_edges(output: FloatArray, ends: IndexArray, epsilon: float) -> bool:
    """True if the output distributions (m, d) protect every edge with the margin."""
    return not len(ends) or not _mixing_amounts(output, ends, epsilon, 0.0).any()


def _mixing_amounts(output: FloatArray, ends: IndexArray, epsilon: float, rounding: float) -> FloatArray:
    """The c(y) of each symbol: the amount of it that must be mixed in."""
    symbols = output.shape[1]
    margin = 1e-13 + 16 * symbols * np.finfo(np.float64).eps
    ratio_less_one = np.expm1(min(epsilon - margin, 700.0))  # the exponential overflows beyond 709
    a, b = ends.T
    gap = np.maximum(output[a], output[b]) - np.minimum(output[a], output[b]) * (1.0 + ratio_less_one)
    return np.asarray(np.maximum(gap.max(axis=0), 0.0) / ratio_less_one + rounding * (1.0 + 2.0 / ratio_less_one))
