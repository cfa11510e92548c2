"""Exact noise on tables of counts, for samplers that work on noisy tables."""

import numpy as np

from privsample._checks import FloatArray, positive
from privsample.accounting.assumptions import Assumption
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.records import points
from privsample.distributions.noise import Noise

_LARGEST = 2**61  # indices whose sums fit in 64 bits


def noise_grid(noise: Noise, grid: float | None, *, exact: bool) -> Grid | None:
    """The public grid of noise on counts, of a pitch of at most 1; None if `exact` is False. Raises ValueError.

    The default is 1 for discrete noise, otherwise 2^-40 of the scale of the noise, and at most 1.
    """
    if grid is not None:
        if not exact:
            raise ValueError(f"grid must be None with exact=False: only exact draws are rounded, got {grid!r}")
        if noise.integer_valued:
            raise ValueError(f"grid must be None with {noise.name} noise, which is an integer, got {grid!r}")
        if not positive(grid=grid) <= 1.0:
            raise ValueError(f"grid must be at most 1, so that counts lie on it, got {grid!r}")
    if not exact:
        return None
    if noise.integer_valued:
        return Grid(pitch=1.0)
    found = Grid.of_scale(noise.scale_parameter, grid=grid)
    return found if found.pitch <= 1.0 else Grid(pitch=1.0)


def noisy_tables(counts: FloatArray, noise: Noise, grid: Grid | None, rng: np.random.Generator) -> FloatArray:
    """Counts plus independent noise on each: exact on the grid, or in floating point without one.

    round(c + Z) = c + round(Z) for a count c, which lies on the grid. The sum of the indices is exact, and its double
    is a function of that sum alone (docs/notes/exact_noise.md).
    """
    if grid is None:
        return counts + noise.sample(counts.shape, rng)
    steps, drawn = 1 << -grid.exponent, noise.sample_indices(grid, counts.shape, rng)
    fits = drawn.dtype != object and int(np.abs(drawn).max(initial=0)) < _LARGEST
    if fits and float(counts.max(initial=0.0)) * steps < _LARGEST:
        return points(counts.astype(np.int64) * steps + drawn, grid)
    whole = np.array([int(count) * steps for count in counts.ravel().tolist()], dtype=object)
    return points(whole.reshape(counts.shape) + drawn.astype(object), grid)


def noise_assumptions(grid: Grid | None) -> frozenset[Assumption]:
    """What the account of the noise assumes."""
    return frozenset() if grid is not None else frozenset({Assumption.IDEAL_REALS})
