"""Sums of independent discrete variables on a grid by Fourier transform, with a bound on the rounding error."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, check_memory

_EPS = float(np.finfo(np.float64).eps)


class GridMasses(NamedTuple):
    """Masses of one variable at multiples of the step, which add up to 1, and how many copies are added.

    indices: the multiples, shape (k,). masses: shape (k,).
    """

    times: int
    indices: NDArray[np.int64]
    masses: FloatArray


def convolve(members: Sequence[GridMasses], size: int, first: int) -> tuple[FloatArray, float]:
    """Masses of the sum at indices first, first + 1, ... modulo `size`, and a bound on their rounding error.

    Sums outside the grid are aliased into it by the transform; their masses are positive, so the result is an upper
    bound (grid.md, section 4). The error bound is that of section 5.
    """
    from scipy.fft import irfft, rfft

    noise = 8 * _EPS * np.log2(size)  # eta of section 5: error of one transform with inputs of absolute sum 1
    check_memory(size, lower="how many draws or releases are put together")
    log_total, log_noisy, start = np.zeros(size // 2 + 1, dtype=np.complex128), np.zeros(size // 2 + 1), first
    for member in members:
        # Indices count from the heaviest node, whose transform is its mass, without an error.
        heaviest = int(np.argmax(member.masses))
        others = np.where(np.arange(len(member.masses)) == heaviest, 0.0, member.masses)
        indices, lacking = member.indices - member.indices[heaviest], 1.0 - float(member.masses[heaviest])
        start -= member.times * int(member.indices[heaviest])
        log = _log1p(rfft(np.bincount(indices % size, others, size)) - lacking)
        log_total += member.times * log
        log_noisy += member.times * np.log(np.exp(log.real) + (noise + 64 * _EPS) * float(others.sum()))
    height = np.exp(log_total.real)
    rounding = (noise + 4 * _EPS * (2 + np.abs(log_total.real) + np.abs(log_total.imag))) * height
    lost = 2.0 / size * float((np.exp(log_noisy) - height).sum() + rounding.sum())
    return np.maximum(np.roll(irfft(np.exp(log_total), size), -start % size), 0.0), lost


def _log1p(w: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """log(1 + w), accurate relative to w where |w| is small; about -690 at w = -1."""
    one = 1.0 + w
    small, result = np.abs(w) <= 0.5, np.log(np.where(one == 0.0, 1e-300, one))
    near = w[small]
    result.real[small] = 0.5 * np.log1p(2 * near.real + near.real**2 + near.imag**2)
    return result
