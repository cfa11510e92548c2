"""Data sets for private regressions: rows scaled by public constants, and the learners' public constants."""

from functools import cache

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value
from reproduction.logistic_accuracy import iris, wine
from reproduction.sgd_data import Task, breast_cancer


@frozen_value
class RegressionTask:
    """A data set with the number of its classes, 0 if the targets are numbers in [-1, 1]."""

    data: Task
    classes: int

    @property
    def features(self) -> int:
        """Number of features."""
        return int(self.data.rows.shape[1])


@cache
def tumours() -> RegressionTask:
    """scikit-learn's breast-cancer data."""
    return RegressionTask(data=breast_cancer(), classes=2)


@cache
def digit_pair(first: int, second: int) -> RegressionTask:
    """Images of two digits: the first against the second."""
    from sklearn.datasets import load_digits

    rows, labels = load_digits(return_X_y=True)
    chosen = (labels == first) | (labels == second)
    return _images(f"digits {first} and {second}", rows[chosen], labels[chosen] == second, 2)


@cache
def ten_digits() -> RegressionTask:
    """Images of all ten digits."""
    from sklearn.datasets import load_digits

    rows, labels = load_digits(return_X_y=True)
    return _images("ten digits", rows, labels, 10)


def _images(name: str, rows: FloatArray, labels: FloatArray, classes: int) -> RegressionTask:
    """Images of 8 by 8 pixels, whose grey values 0 to 16 are mapped to [-1, 1]."""
    return RegressionTask(
        data=_task(name, rows, np.asarray(labels, dtype=float), np.tile((0.0, 16.0), (64, 1))), classes=classes
    )


# Age, sex, body mass index, blood pressure, total, low-density and high-density cholesterol, their ratio, the logarithm
# of triglycerides, and glucose: round numbers that a physician would name, without the data.
_PATIENTS = np.array(
    [(18, 80), (1, 2), (15, 45), (60, 140), (80, 320), (20, 250), (20, 110), (1, 10), (3, 6.5), (50, 130)], dtype=float
)
_PROGRESSION = 350.0


@cache
def diabetes() -> RegressionTask:
    """scikit-learn's diabetes data; the progression, between 0 and 350, is mapped to [-1, 1]."""
    from sklearn.datasets import load_diabetes

    rows, targets = load_diabetes(return_X_y=True, scaled=False)
    scaled = np.clip(targets / _PROGRESSION, 0.0, 1.0) * 2.0 - 1.0
    return RegressionTask(data=_task("diabetes", rows, scaled, _PATIENTS), classes=0)


@cache
def cultivars() -> RegressionTask:
    """scikit-learn's wine data, which no choice of default parameters has used."""
    return RegressionTask(data=wine(), classes=2)


@cache
def species() -> RegressionTask:
    """Two species of scikit-learn's iris data, which no choice of default parameters has used."""
    return RegressionTask(data=iris(), classes=2)


def _task(name: str, rows: FloatArray, targets: FloatArray, bounds: FloatArray) -> Task:
    """Rows scaled to [-1, 1] by public bounds; four fifths of the records train."""
    low, high = bounds.T
    train = 4 * len(rows) // 5
    return Task(
        name=name,
        rows=np.clip((rows - low) / (high - low), 0.0, 1.0) * 2.0 - 1.0,
        labels=targets,
        norm=(len(bounds) / 3) ** 0.5,  # the root mean square of so many uniform numbers
        train=train,
        test=len(rows) - train,
    )
