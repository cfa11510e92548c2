"""Profile-based mechanisms: every edge kept on the stored doubles, optimal, drawn as written."""

from fractions import Fraction

import mpmath as mp
import pytest

import privsample as ps

CHAIN = ps.ProfileGraph(
    profiles={"a": [0.5, 0.3, 0.2, 0.0], "b": [0.2, 0.3, 0.5, 0.0], "c": [0.1, 0.2, 0.3, 0.4]},
    edges=[("a", "b"), ("b", "c")],
)


def exact_laws(mechanism):
    """Output laws in rational numbers, from the doubles that are stored."""
    laws = []
    for (_, law), matrix in zip(mechanism.graph.profiles, mechanism.matrices, strict=True):
        p = [Fraction(x) for x in law]
        columns = range(len(p))
        laws.append([sum(p[x] * Fraction(matrix[x, y]) for x in columns) / sum(p) for y in columns])
    return laws


def broken_edges(mechanism):
    """Edges and symbols at which the exact law of one end exceeds e^epsilon times the other's."""
    laws = exact_laws(mechanism)
    with mp.workdps(60):
        factor = Fraction(int(mp.floor(mp.exp(mp.mpf(mechanism.epsilon)) * 10**40)), 10**40)
    return [
        (a, b, y)
        for i, j in mechanism.graph.ends.tolist()
        for a, b in ((i, j), (j, i))
        for y in range(mechanism.graph.symbols)
        if laws[a][y] > factor * laws[b][y]
    ]


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0, 20.0])
def test_every_edge_is_kept_on_the_stored_doubles(epsilon):
    made = ps.SmoothCategorical(graph=CHAIN, epsilon=epsilon)
    assert not broken_edges(made)
    assert made.largest_change <= made.baseline
