"""The number of draws that a mechanism makes, and many independent outputs of it as a table of numbers."""

from dataclasses import replace
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.codes import with_innermost
from privsample.mechanisms.neighbours import Draw
from privsample.mechanisms.release import Release


def one_draw(mechanism: Mechanism) -> Mechanism:
    """The same mechanism with a single draw."""
    return replace(mechanism, draws=1) if getattr(mechanism, "draws", 1) != 1 else mechanism  # type: ignore[type-var]


def many_draws(mechanism: Any, name: str, outer: Mechanism | None = None) -> Draw:
    """One release with as many draws of the mechanism as are asked for, where draws are independent.

    outer: what post-processes each draw on its own; the mechanism itself unless told. One output of another holds what
    becomes of all draws of the mechanism.
    """
    around = mechanism if outer is None else outer
    each = 1 if around is mechanism else mechanism.draws

    def draw(data: Any, count: int, rng: np.random.Generator) -> FloatArray:
        many = with_innermost(around, mechanism, replace(mechanism, draws=count * each))
        drawn = many.release(data, rng=rng)[name]
        return drawn if each == 1 else drawn.reshape(count, -1)

    return draw


def one_by_one(mechanism: Mechanism) -> Draw:
    """One release for each draw, as its numbers in a row."""
    return lambda data, count, rng: np.array([release_row(mechanism.release(data, rng=rng)) for _ in range(count)])


def release_row(release: Release) -> FloatArray:
    """All numbers of a release in a row, and whether there were any: a choice among no runs releases none."""
    parts = [np.ravel(release.draws[name]).astype(np.float64) for name in sorted(release.draws)]
    return np.concatenate([*parts, [float(bool(parts))]])
