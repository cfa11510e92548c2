"""Langevin chains on a million records: time beside the matrix-vector products alone, memory beside the data."""

import subprocess
import sys
from collections.abc import Iterator

import numpy as np

import privsample as ps
from benchmarks.measure import Row, seconds

RECORDS, FEATURES, STEPS, PRODUCTS = 1_000_000, 50, 200, 10
MEMORY = """
import resource
import numpy as np
from benchmarks.langevin import data, mechanism
mechanism(3).for_size(1).release((np.zeros((1, 50)), [0]))  # loads all packages
loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
records = data(np.dtype("DTYPE"))
mechanism(3).release(records)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - loaded) * 1024 / records[0].nbytes)
"""


def data(kind: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Normal rows, most of them shorter than the norm, and random labels."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((RECORDS, FEATURES), dtype=kind)
    rows /= kind.type(np.sqrt(FEATURES))
    return rows, rng.integers(0, 2, RECORDS)


def mechanism(steps: int) -> ps.LangevinPosterior:
    """A logistic regression with an intercept."""
    return ps.LangevinPosterior(
        likelihood=ps.LogisticLikelihood(),
        features=FEATURES,
        norm=1.2,
        relation=ps.ReplaceOne(RECORDS),
        intercept_std=1.0,
        data_weight=0.1,
        steps=steps,
    )


def rows() -> Iterator[Row]:
    """Both precisions: the release, the products that it cannot do without, and the memory of the whole process."""
    for name in ("float64", "float32"):
        records = data(np.dtype(name))
        state, slopes = np.zeros((FEATURES, 1), records[0].dtype), np.zeros((RECORDS, 1), records[0].dtype)

        def products(x=records[0], state=state, slopes=slopes) -> None:
            for _ in range(PRODUCTS):
                x @ state
                slopes.T @ x

        took = seconds(lambda records=records: mechanism(STEPS).release(records))
        least = min(seconds(products), seconds(products)) / PRODUCTS * STEPS
        yield Row(
            name=f"1e6 x {FEATURES} {name}, {STEPS} steps, against the products",
            library=f"{took:.3g} s",
            peer=f"{least:.3g} s products alone",
            ratio=took / least,
            target="below 60 s",
        )
        del records, products
        found = subprocess.run(
            [sys.executable, "-c", MEMORY.replace("DTYPE", name)], capture_output=True, text=True, check=True
        )
        yield Row(
            name=f"1e6 x {FEATURES} {name}: memory of the process, data included",
            library=f"{float(found.stdout):.3g} times",
            peer="1 times the data",
            ratio=float(found.stdout),
            target="below 1.5",
        )
