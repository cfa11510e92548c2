"""The number of draws of a mechanism, and many independent outputs of it as a table of numbers."""

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
    """A function that makes `count` independent outputs from one release with that many draws.

    outer: a mechanism that post-processes each draw separately; by default the mechanism itself. One output of `outer`
    is computed from all draws of the mechanism.
    """
    around = mechanism if outer is None else outer
    each = 1 if around is mechanism else mechanism.draws

    def draw(data: Any, count: int, rng: np.random.Generator) -> FloatArray:
        many = with_innermost(around, mechanism, replace(mechanism, draws=count * each))
        drawn = many.release(data, rng=rng)[name]
        return drawn if each == 1 else drawn.reshape(count, -1)

    return draw


def one_by_one(mechanism: Mechanism) -> Draw:
    """A function that makes one release per output and returns its numbers in a row."""
    return lambda data, count, rng: np.array([release_row(mechanism.release(data, rng=rng)) for _ in range(count)])


def first_numbers(mechanism: Mechanism, width: int) -> Draw:
    """A function that makes one release per output and returns its first `width` numbers; zeros for missing ones."""

    def draw(data: Any, count: int, rng: np.random.Generator) -> FloatArray:
        outputs = np.zeros((count, width))
        for output in outputs:
            row = release_row(mechanism.release(data, rng=rng))[:width]
            output[: len(row)] = row
        return outputs

    return draw


def release_row(release: Release) -> FloatArray:
    """All numbers of a release in a row, and 1; only 0 after a selection that releases no draws."""
    parts = [np.ravel(release.draws[name]).astype(np.float64) for name in sorted(release.draws)]
    return np.concatenate([*parts, [float(bool(parts))]])
