"""The number of draws that a mechanism makes, and many independent outputs of it as a table of numbers."""

from dataclasses import replace
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.neighbours import Draw
from privsample.mechanisms.release import Release


def one_draw(mechanism: Mechanism) -> Mechanism:
    """The same mechanism with a single draw."""
    return replace(mechanism, draws=1) if getattr(mechanism, "draws", 1) != 1 else mechanism  # type: ignore[type-var]


def many_draws(mechanism: Any, name: str) -> Draw:
    """One release of the same mechanism with as many draws as are asked for, where draws are independent."""
    return lambda data, count, rng: replace(mechanism, draws=count).release(data, rng=rng)[name]


def one_by_one(mechanism: Mechanism) -> Draw:
    """One release for each draw, as its numbers in a row."""
    return lambda data, count, rng: np.array([release_row(mechanism.release(data, rng=rng)) for _ in range(count)])


def release_row(release: Release) -> FloatArray:
    """All numbers of a release in a row, and whether there were any: a choice among no runs releases none."""
    parts = [np.ravel(release.draws[name]).astype(np.float64) for name in sorted(release.draws)]
    return np.concatenate([*parts, [float(bool(parts))]])
