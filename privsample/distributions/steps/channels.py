"""Row-stochastic matrices that a sampler realises exactly in floating point, and their output distributions."""

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray

IntArray = NDArray[np.int64]
UNIT = 2.0**-53  # uniform doubles of NumPy are multiples of it
_BLOCK = 1 << 14


def round_to_units(matrices: FloatArray) -> FloatArray:
    """Round matrices (..., d, d) to multiples of 2^-53, off-diagonal entries down, with row sums of exactly one.

    Sums of such numbers below one are exact in doubles, in any order, and a uniform double of NumPy falls below one of
    them with exactly that probability. The sampled distribution therefore equals the stored matrix.
    """
    size = matrices.shape[-1]
    away = np.floor(np.clip(matrices, 0.0, 1.0) / UNIT) * UNIT
    diagonal = np.arange(size)
    away[..., diagonal, diagonal] = 0.0
    kept = 1.0 - away.sum(axis=-1)
    largest = away.argmax(axis=-1)[..., None]
    least = np.take_along_axis(away, largest, axis=-1) + np.minimum(kept, 0.0)[..., None]
    np.put_along_axis(away, largest, least, axis=-1)
    away[..., diagonal, diagonal] = np.maximum(kept, 0.0)
    return away


def is_multiple_of_unit(matrices: FloatArray) -> bool:
    """True if all entries are nonnegative multiples of 2^-53 and every row sums to exactly one."""
    units = matrices / UNIT
    whole = bool(np.all((units >= 0.0) & (units <= 1.0 / UNIT) & (units == np.rint(units))))
    return whole and bool(np.all(units.astype(np.int64).sum(axis=-1) == 1 << 53))


def output_distributions(distributions: FloatArray, matrices: FloatArray) -> FloatArray:
    """The output distribution of each profile: distributions (k, d) times matrices (k, d, d)."""
    return np.asarray(np.einsum("kx,kxy->ky", distributions, matrices))


def response_change(symbols: int, log_odds: float) -> float:
    """The probability of each false symbol in randomised response, e^-log_odds times that of the true symbol."""
    other = np.exp(-log_odds)
    return float(other / (1.0 + (symbols - 1) * other))


def response(profiles: int, symbols: int, log_odds: float) -> FloatArray:
    """The randomised response matrix, repeated for every profile: (profiles, d, d)."""
    change = response_change(symbols, log_odds)
    one = np.full((symbols, symbols), change)
    np.fill_diagonal(one, 1.0 - (symbols - 1) * change)
    return np.tile(one, (profiles, 1, 1))


class Sampler:
    """Draws from rows of matrices (k, d, d) by inversion with binary search; exact for whole units."""

    def __init__(self, matrices: FloatArray) -> None:
        size = matrices.shape[-1]
        self._width = 1 << (size - 1).bit_length()
        sums = np.full((matrices.shape[0] * size, self._width), 1.0)
        sums[:, :size] = matrices.cumsum(axis=-1).reshape(-1, size)
        self._sums, self._size = sums.ravel(), size

    def draw(self, profile: IntArray, symbol: IntArray, rng: np.random.Generator) -> IntArray:
        """One symbol for each pair of a profile and a symbol, both of shape (n,)."""
        result = np.empty(len(symbol), dtype=np.int64)
        for start in range(0, len(symbol), _BLOCK):
            part = slice(start, start + _BLOCK)
            row = (profile[part] * self._size + symbol[part]) * self._width
            uniform, found, step = rng.random(len(row)), row - 1, self._width
            while step > 1:
                step //= 2
                found += step * (self._sums.take(found + step) <= uniform)
            result[part] = found + 1 - row
        return result
