"""The public rule for labels of K classes 0, ..., K-1, which several likelihoods share."""

import numpy as np

from privsample._checks import FloatArray


def clean_classes(targets: FloatArray, classes: int) -> FloatArray:
    """The labels; one that is no class 0, ..., classes - 1 counts as 0."""
    return np.where(np.isin(targets, np.arange(classes)), targets, 0.0)


def count_class_problems(targets: FloatArray, classes: int) -> dict[str, int]:
    """Count the labels that are missing, and those that are no class."""
    known = ~np.isnan(targets)
    wrong = int((~np.isin(targets[known], np.arange(classes))).sum())
    words = "neither 0 nor 1" if classes == 2 else f"no class 0 to {classes - 1}"
    return {"labels that are no number": int((~known).sum()), f"labels that are {words}": wrong}


def count_missing(targets: FloatArray) -> dict[str, int]:
    """Count the targets that are missing."""
    return {"targets that are no number": int(np.isnan(targets).sum())}
