"""Couplings of the distributions of samples of two neighbouring datasets, and the distances that they need.

All probabilities are integers over a common total, so that total variation distances, marginals and flows are exact.
Source: Balle, Barthe and Gaboardi 2018, Theorems 2 and 7; docs/notes/subsampling.md, "Schemes of your own".
"""

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from math import lcm

from privsample.relations import AddRemove, Relation

Sample = tuple[Hashable, ...]  # a multiset of records, in a fixed order
Masses = dict[Sample, int]  # relative probabilities
Distances = dict[int, Fraction]  # distance of two coupled samples -> probability
_ROUNDING = 10**12
Distance = Callable[[Sample, Sample], int]


def sorted_sample(records: Iterable[Hashable]) -> Sample:
    """The records of a sample in an order that depends on the multiset alone."""
    return tuple(sorted(records, key=lambda record: (type(record).__name__, repr(record))))


def whole_masses(probabilities: Mapping[Sample, float | Fraction]) -> Masses:
    """Probabilities as integers in the same proportions; zeros are left out."""
    exact = {sample: Fraction(p) for sample, p in probabilities.items() if p}
    scale = lcm(*(p.denominator for p in exact.values())) if exact else 1
    return {sample: int(p * scale) for sample, p in exact.items()}


def distance_under(relation: Relation) -> Distance:
    """The number of steps of the relation from one multiset of records to another.

    Under AddRemove, each record that only one of them holds is a step. Under ReplaceOne both have the same size, and
    each record that only the first holds is a step.
    """
    added = isinstance(relation, AddRemove)

    def distance(first: Sample, second: Sample) -> int:
        one, other = Counter(first), Counter(second)
        here, there = (one - other).total(), (other - one).total()
        if added:
            return here + there
        if here != there:
            raise ValueError(
                f"samples must have one size for a base under ReplaceOne, got {len(first)} and {len(second)} records: "
                "no number of replacements leads from one to the other"
            )
        return here

    return distance


def compatible_distances(first: Masses, second: Masses, distance: Distance) -> tuple[Distances, bool]:
    """Distances of a coupling of two distributions, and whether it is distance-compatible (Theorem 7).

    Mass is first moved only between samples at the distance from the first to the support of the second: a maximum
    flow. If it does not carry all mass, no coupling is distance-compatible; the rest is moved over distances that are
    one step longer, and so on. Probabilities are real numbers that were rounded: a rest of 1e-12 is rounding.
    """
    ahead, behind = sum(first.values()), sum(second.values())
    sources = [(sample, mass * behind) for sample, mass in first.items()]
    sinks = [(sample, mass * ahead) for sample, mass in second.items()]
    table = [[distance(here, there) for there, _ in sinks] for here, _ in sources]
    nearest = [min(row) for row in table]
    supply, demand = [mass for _, mass in sources], [mass for _, mass in sinks]
    total, found, further, compatible = ahead * behind, Counter[int](), 0, True
    while sum(supply) * _ROUNDING > total:
        edges = [
            [j for j, d in enumerate(row) if d == least + further and demand[j]] if mass else []
            for row, least, mass in zip(table, nearest, supply, strict=True)
        ]
        left, demand = maximum_flow(supply, demand, edges)
        for least, mass, rest in zip(nearest, supply, left, strict=True):
            found[least + further] += mass - rest
        supply, compatible = left, further == 0 and sum(left) * _ROUNDING <= total
        further += 1
    moved = sum(found.values())
    return {d: Fraction(mass, moved) for d, mass in found.items() if mass}, compatible


def maximum_flow(
    supply: Sequence[int], demand: Sequence[int], edges: Sequence[Sequence[int]]
) -> tuple[list[int], list[int]]:
    """What a maximum flow through these edges leaves of the supplies and of the demands (Edmonds and Karp 1972)."""
    left, right = list(supply), list(demand)
    flow: list[dict[int, int]] = [{} for _ in right]  # of each sink, by source
    for start in range(len(left)):
        while left[start]:
            path = _augmenting_path(start, right, edges, flow)
            if path is None:
                break
            forward, end = path[0::2], path[-1][1]
            backward = path[1::2]
            amount = min(left[start], right[end], *(flow[j][i] for i, j in backward))
            for i, j in forward:
                flow[j][i] = flow[j].get(i, 0) + amount
            for i, j in backward:
                flow[j][i] -= amount
                if not flow[j][i]:
                    del flow[j][i]
            left[start] -= amount
            right[end] -= amount
    return left, right


def _augmenting_path(
    start: int, right: list[int], edges: Sequence[Sequence[int]], flow: list[dict[int, int]]
) -> list[tuple[int, int]] | None:
    """The shortest path from a source to a sink with open demand: edges (source, sink) forward and back in turn."""
    before: dict[int, tuple[int, int | None]] = {}  # sink -> (source before it, sink before that source)
    origin: dict[int, int | None] = {start: None}  # source -> sink whose flow leads back to it
    waiting = deque([start])
    while waiting:
        i = waiting.popleft()
        for j in edges[i]:
            if j in before:
                continue
            before[j] = (i, origin[i])
            if right[j]:
                return _path_to(j, before)
            for back in flow[j]:
                if back not in origin:
                    origin[back] = j
                    waiting.append(back)
    return None


def _path_to(end: int, before: dict[int, tuple[int, int | None]]) -> list[tuple[int, int]]:
    """The path that ends at a sink, from its start: forward and backward edges in turn."""
    path: list[tuple[int, int]] = []
    sink: int | None = end
    while sink is not None:
        source, previous = before[sink]
        path.append((source, sink))
        if previous is not None:
            path.append((source, previous))
        sink = previous
    return path[::-1]


def larger_tails(distances: Sequence[Distances]) -> Distances:
    """The distances whose upper tails are the largest of the given ones: stochastically no smaller than any of them."""
    values = sorted({d for each in distances for d in each}, reverse=True)
    found: Distances = {}
    above = Fraction(0)
    for d in values:
        tail = max(sum((p for other, p in each.items() if other >= d), Fraction(0)) for each in distances)
        if tail > above:
            found[d] = tail - above
        above = max(above, tail)
    return found
