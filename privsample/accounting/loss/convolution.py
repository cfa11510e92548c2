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
    log_total = np.zeros(size // 2 + 1, dtype=np.complex128)
    log_noisy = np.zeros(size // 2 + 1)
    for member in members:
        folded = np.bincount(member.indices % size, member.masses, size)
        transform = rfft(folded)
        log_total += member.times * np.log(np.where(transform == 0.0, 1e-300, transform))  # avoids log of 0
        log_noisy += member.times * np.log(np.abs(transform) + noise)
    count = sum(member.times for member in members)
    total = np.exp(log_total)
    height = np.exp(log_total.real)
    lost = 2.0 / size * float((np.exp(log_noisy) - height).sum() + (noise + 4 * _EPS * count) * height.sum())
    return np.maximum(np.roll(irfft(total, size), -first % size), 0.0), lost
