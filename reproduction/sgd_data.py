"""Data sets for private gradient descent: rows scaled by public constants, and splits into training and test data."""

from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._value import frozen_value
from reproduction.flights import FEATURES, lines

Parts = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


@frozen_value
class Task:
    """Rows (n, features) within [-1, 1] and labels (n,), 0 or 1; norm: public, fixed without a look at the records.

    Training takes `train` records of each random split, at most `test` of the others test.
    """

    name: str
    rows: FloatArray
    labels: FloatArray
    norm: float
    train: int
    test: int

    def splits(self, count: int, first: int = 0) -> Iterator[Parts]:
        """Training rows and labels, test rows and labels; seeded: these are simulations, not releases."""
        for seed in range(first, first + count):
            order = np.random.default_rng(seed).permutation(len(self.rows))
            taken, left = order[: self.train], order[self.train : self.train + self.test]
            yield self.rows[taken], self.labels[taken], self.rows[left], self.labels[left]


@cache
def late_arrivals() -> Task:
    """Whether a flight arrives more than 15 minutes late, from what is known when it leaves."""
    names = ("month", "carrier", "origin", "dep_delay", "arr_delay", "distance", "hour")
    table = dict(zip(names, map(np.array, zip(*lines(*names), strict=True)), strict=True))
    known = {name: _numbers(table[name]) for name in ("dep_delay", "arr_delay", "distance", "hour")}
    delay = np.clip(known["dep_delay"], -20.0, 60.0) / 40.0 - 0.5
    spans = [delay, known["distance"] / 2500.0 - 1.0, known["hour"] / 12.0 - 1.0]
    groups = [_hot(table["carrier"], FEATURES["carrier"]), _hot(table["origin"], FEATURES["airport"])]
    groups.append(_hot(table["month"], tuple(map(str, range(1, 13)))))
    rows = np.column_stack([*np.clip(spans, -1.0, 1.0), *groups])
    labels = (known["arr_delay"] > 15.0).astype(np.float64)
    return Task(
        name="late arrivals",
        rows=rows,
        labels=labels,
        norm=6.0**0.5,  # three numbers and three ones: the largest there is
        train=100_000,
        test=50_000,
    )


def _numbers(column: NDArray[np.str_]) -> FloatArray:
    """As floats; 0 where nothing was recorded."""
    return np.where(np.isin(column, ("", "NA")), "0", column).astype(np.float64)


@cache
def breast_cancer() -> Task:
    """scikit-learn's breast-cancer data; each feature is moved into [0, its public upper bound]."""
    from sklearn.datasets import load_breast_cancer

    rows, labels = load_breast_cancer(return_X_y=True)
    rows = np.clip(rows / TUMOUR, 0.0, 1.0) * 2.0 - 1.0
    return Task(
        name="breast cancer",
        rows=rows,
        labels=labels.astype(np.float64),
        norm=10.0**0.5,  # the root mean square of thirty uniform numbers
        train=455,
        test=114,
    )


@cache
def digits(first: int, second: int) -> Task:
    """scikit-learn's images of two digits, 8 by 8 numbers of 0, ..., 16; label 1: the second digit."""
    from sklearn.datasets import load_digits

    images, kinds = load_digits(return_X_y=True)
    known = (kinds == first) | (kinds == second)
    train = 4 * int(known.sum()) // 5
    return Task(
        name=f"digits {first} and {second}",
        rows=images[known] / 8.0 - 1.0,
        labels=(kinds[known] == second).astype(np.float64),
        norm=4.5,  # halfway between one extreme number and 64
        train=train,
        test=int(known.sum()) - train,
    )


# Round numbers that an expert would name, without the data: radius, texture, perimeter, area, smoothness, compactness,
# concavity, concave points, symmetry, fractal dimension; for the mean, its standard error and the worst cell.
_MEANS = (30, 40, 200, 2500, 0.2, 0.4, 0.5, 0.2, 0.4, 0.1)
_ERRORS = (3, 5, 20, 500, 0.03, 0.15, 0.4, 0.05, 0.08, 0.03)
_WORST = (40, 50, 250, 4000, 0.25, 1.0, 1.2, 0.3, 0.6, 0.2)
TUMOUR = np.array([*_MEANS, *_ERRORS, *_WORST])


def _hot(column: NDArray[np.str_], known: tuple[str, ...]) -> FloatArray:
    """One column for each known entry, 1 where it is, shape (n, known)."""
    return np.asarray(column[:, None] == np.array(known)[None], dtype=np.float64)
