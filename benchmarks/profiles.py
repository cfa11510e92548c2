"""Profile-based privacy: times of solving and releasing, compared with a limit or a named peer."""

from collections.abc import Iterator

import numpy as np

import privsample as ps
from benchmarks.measure import Row, milliseconds, paired, seconds

PROFILES, SYMBOLS, BITS, RELEASES = 200, 20, 2000, 10_000_000


def rows() -> Iterator[Row]:
    """The two large programs, many profiles of one bit, and ten million releases."""
    rng = np.random.default_rng(1)
    distributions = rng.dirichlet(np.ones(SYMBOLS), PROFILES)
    chain = [(k, k + 1) for k in range(PROFILES - 1)]
    scattered = {tuple(sorted(pair)) for pair in rng.integers(0, PROFILES, (2 * PROFILES, 2)).tolist()}
    sparse = [pair for pair in scattered if pair[0] != pair[1]]
    found = []
    for name, edges in (("chain", chain), (f"random graph of {len(sparse)} edges", sparse)):
        graph = ps.ProfileGraph(profiles=distributions, edges=edges)
        took = seconds(lambda g=graph: found.append(ps.SmoothCategorical(graph=g, epsilon=0.5)))
        yield _within(f"solve {PROFILES} profiles x {SYMBOLS} symbols, {name}", took, 30.0)
    edges = [(k, k + 1) for k in range(BITS - 1)]
    graph = ps.ProfileGraph(profiles=rng.random(BITS), edges=edges)
    pairs = ps.ProfileGraph(profiles=rng.random(BITS), edges=[(k, k + 1) for k in range(0, BITS, 2)])
    for made, shape, joined in (
        (ps.OneBitCluster, "a chain", graph),
        (ps.SmoothOneBit, "a chain", graph),
        (ps.SmoothOneBit, "pairs", pairs),
    ):
        took = seconds(lambda m=made, g=joined: m(graph=g, epsilon=0.5))
        yield _within(f"solve {BITS} profiles of one bit in {shape}, {made.__name__}", took, 5.0)
    data = {"profile": rng.integers(0, PROFILES, RELEASES), "symbol": rng.integers(0, SYMBOLS, RELEASES)}
    mechanism = found[0]
    for kind, source in (("caller's generator", rng), ("system entropy", None)):
        took = min(seconds(lambda s=source: mechanism.release(data, rng=s)) for _ in range(2))
        yield _within(f"{RELEASES:.0e} releases, {kind}", took, 2.0)
    few = {name: column[: RELEASES // 10] for name, column in data.items()}
    library, theirs = paired(
        lambda: mechanism.release(few, rng=rng), lambda: rng.choice(SYMBOLS, RELEASES // 10, p=distributions[0])
    )
    peer = f"{milliseconds(theirs)} numpy choice from one distribution"
    yield Row(name="1e6 releases", library=milliseconds(library), peer=peer, ratio=library / theirs, target="none set")


def _within(name: str, took: float, limit: float) -> Row:
    return Row(name=name, library=f"{took:.3g} s", peer=f"{limit:g} s allowed", ratio=took / limit, target="at most 1")
