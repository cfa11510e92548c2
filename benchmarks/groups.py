"""Releases for groups: 10^7 rows in 10^6 groups beside the group-by sum of pandas and polars, and the release."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

import privsample as ps
from benchmarks.measure import Row, milliseconds, paired, seconds

ROWS, GROUPS = 10**7, 10**6
RUNS = 3


def rows() -> Iterator[Row]:
    """The tally beside each peer that is installed; the release and its file."""
    rng = np.random.default_rng(0)
    keys, values = rng.integers(0, GROUPS, ROWS), rng.random(ROWS) * 10
    mechanism = ps.by("shop", ps.GaussianSum(bounds=(0, 10), noise_std=40), keys=range(GROUPS))
    for name, peer in _peers(keys, values).items():
        own, theirs = paired(lambda: mechanism.tally((keys, values)), peer, runs=RUNS)
        yield Row(
            name="tally of 1e7 rows in 1e6 groups",
            library=milliseconds(own),
            peer=f"{milliseconds(theirs)} {name}",
            ratio=own / theirs,
            target="<= 1.5",
        )
    tally = mechanism.tally((keys, values))
    release = mechanism.release(tally)
    for name, function in {
        "release of 1e6 groups": lambda: mechanism.release(tally),
        "its file as JSON": release.to_json,
    }.items():
        yield Row(name=name, library=milliseconds(seconds(function)), peer="", ratio=None, target="seconds")


def _peers(keys: Any, values: Any) -> dict[str, Callable[[], object]]:
    """The same sums in floating-point numbers, by each peer that is installed."""
    found: dict[str, Callable[[], object]] = {}
    if find_spec("pandas"):
        import pandas as pd

        table = pd.DataFrame({"key": keys, "value": values})
        found["pandas"] = lambda: table.groupby("key")["value"].sum()  # noqa: PLW0108 - the grouping is timed too
    if find_spec("polars"):
        import polars as pl

        frame = pl.DataFrame({"key": keys, "value": values})
        found["polars"] = lambda: frame.group_by("key").agg(pl.col("value").sum())
    return found
