"""Tallies of a column beside NumPy's sum of it, merged shards of many groups, and draws for all groups at once."""

from collections.abc import Callable, Iterator

import numpy as np

import privsample as ps
from benchmarks.measure import Row, milliseconds, paired, seconds

RECORDS = 100_000_000
GROUPS = 1_000_000
SHARDS = 64


def rows() -> Iterator[Row]:
    """Times of tallies, of their sums, of Arrow tables, and of draws for groups."""
    rng = np.random.default_rng(1)
    mechanism = ps.LaplaceSum(bounds=(0, 1), scale=2)
    yield from _of_a_column(mechanism, rng)
    mark = mechanism.tally([]).mechanism
    counts, keys = np.ones(GROUPS, dtype=np.int64), np.arange(GROUPS)
    sums = [rng.integers(0, 2**40, (GROUPS, 1)) for _ in range(4)]
    every = [ps.Tally(mechanism=mark, sums=each, counts=counts, keys=keys) for each in sums]
    library, peer = paired(
        lambda: ps.merge_tallies(every[k % 4] for k in range(SHARDS)),
        lambda: sum((sums[k % 4] for k in range(SHARDS)), start=np.zeros((GROUPS, 1), dtype=np.int64)),
        runs=3,
    )
    yield _beside("merge 64 shards, each of the same 1e6 groups", library, peer, "numpy sum of the arrays", "none set")
    some = [_of_some_groups(mark, rng) for _ in range(4)]
    yield _alone("merge 64 shards, each of another half of 1e6 groups", lambda: _merged(some))
    table = every[0].to_arrow()
    yield _alone("1e6 groups to Arrow", every[0].to_arrow)
    yield _alone("1e6 groups from Arrow", lambda: ps.Tally.from_arrow(table))

    noisy = ps.NoisyStatistics(model=ps.BetaBernoulli(1, 1), n=1, scale=2.0)
    ones = rng.integers(0, 100, (GROUPS, 1))
    sizes = np.full(GROUPS, 100)
    yield _alone("noisy counts of 1e6 groups", lambda: noisy._draw_groups(ones, sizes, rng))
    yield _alone("noisy sums of 1e6 groups", lambda: mechanism._draw_groups(sums[0], sizes, rng))
    posterior = ps.DiffusedPosterior(model=ps.BetaBernoulli(1, 1), n=1, data_weight=0.1, exact=False)
    yield _alone("posteriors of 1e6 groups, exact=False", lambda: posterior._draw_groups(ones, sizes, rng))
    exact = ps.DiffusedPosterior(model=ps.BetaBernoulli(1, 1), n=1, data_weight=0.1)
    yield _alone("posteriors of 1e4 groups, exact", lambda: exact._draw_groups(ones[:10_000], sizes[:10_000], rng))


def _of_a_column(mechanism: ps.LaplaceSum, rng: np.random.Generator) -> Iterator[Row]:
    """Tallies of a column of doubles, without and with records that the public rule changes."""
    column = rng.random(RECORDS)
    library, peer = paired(lambda: mechanism.tally(column), column.sum, runs=3)
    yield _beside("tally of 1e8 doubles", library, peer, "numpy sum", "2")
    column[::100] = np.nan
    column[1::100] = 7.0
    library, peer = paired(lambda: mechanism.tally(column), lambda: np.nansum(np.clip(column, 0, 1)), runs=3)
    yield _beside("the same with missing and large records", library, peer, "numpy clip, nansum", "1")


def _of_some_groups(mark: str, rng: np.random.Generator) -> ps.Tally:
    """A tally of half of the groups."""
    keys = np.flatnonzero(rng.random(GROUPS) < 0.5)
    sums, counts = rng.integers(0, 2**40, (len(keys), 1)), np.ones(len(keys), dtype=np.int64)
    return ps.Tally(mechanism=mark, sums=sums, counts=counts, keys=keys)


def _merged(tallies: list[ps.Tally]) -> ps.Tally:
    return ps.merge_tallies(tallies[k % len(tallies)] for k in range(SHARDS))


def _beside(name: str, library: float, peer: float, what: str, target: str) -> Row:
    return Row(
        name=name,
        library=milliseconds(library),
        peer=f"{milliseconds(peer)} {what}",
        ratio=library / peer,
        target=f"ratio <= {target}" if target != "none set" else target,
    )


def _alone(name: str, function: Callable[[], object]) -> Row:
    function()
    took = min(seconds(function) for _ in range(3))
    return Row(name=name, library=milliseconds(took), peer="", ratio=None, target="none set")
