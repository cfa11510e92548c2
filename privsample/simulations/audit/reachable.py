"""Features of reachable values: numbers that a textbook sampler can produce for one dataset and not for the other.

A textbook sampler adds a function of a uniform number on a grid to the statistic. Given a guess of the statistic and of
the scale, an output is reachable if some uniform number leads to it, which is tested by computing the sampler forwards
on the few candidates (Mironov 2012; Haney, Desfontaines, Hartman, Shrestha and Hay 2022; Jin, McMurtry, Rubinstein and
Ohrimenko 2022).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.accounting.base import Accountant
from privsample.mechanisms.neighbours import Neighbours
from privsample.simulations.audit.bit_features import BitFeature, Cells, exponents

_DISTANCES = 64
_NEAREST = 2  # candidates on each side of the uniform number that double precision suggests


@dataclass(frozen=True, kw_only=True)
class ReachedBySum:
    """Whether the number is a floating-point sum of `statistic` and some noise, and the size of that noise."""

    statistic: float
    top: int
    cells: int = 2 * _DISTANCES

    @property
    def description(self) -> str:
        """What the feature reads in the output, a noun phrase."""
        return f"whether the output can be the rounded sum of {self.statistic!r} and a number"

    def cell(self, x: FloatArray) -> Cells:
        return _with_distance(reached_by_sum(x, self.statistic), x - self.statistic, self.top)

    def describe(self, cell: int) -> str:
        return _describe_reached(cell, self.top, self.statistic, "such a sum")


@dataclass(frozen=True, kw_only=True)
class ReachedByInverse:
    """Whether inverse-CDF sampling of Laplace noise can produce the number, and the size of that noise.

    The noise is +-scale log(k 2^-bits) with a whole number k: what NumPy and textbook programs compute.
    """

    statistic: float
    scale: float
    bits: int
    top: int
    cells: int = 2 * _DISTANCES

    @property
    def description(self) -> str:
        """What the feature reads in the output, a noun phrase."""
        return (
            f"whether the output can be {self.statistic!r} plus Laplace noise of scale {self.scale!r}, computed from a "
            f"uniform number of {self.bits} bits by the inverse of the distribution function"
        )

    def cell(self, x: FloatArray) -> Cells:
        reached = reached_by_inverse(x, self.statistic, self.scale, self.bits)
        return _with_distance(reached, x - self.statistic, self.top)

    def describe(self, cell: int) -> str:
        return _describe_reached(cell, self.top, self.statistic, "produced in this way")


def reached_by_sum(x: FloatArray, statistic: float, *, pitch: float = 0.0) -> NDArray[np.bool_]:
    """Return whether each number is statistic + z in floating-point arithmetic for some z, rounded to the pitch."""
    noise = x - statistic
    reached = _round(statistic + noise, pitch) == x
    for z in (np.nextafter(noise, np.inf), np.nextafter(noise, -np.inf)):  # the difference is itself rounded
        reached |= _round(statistic + z, pitch) == x
    return np.asarray(reached, dtype=np.bool_)


def reached_by_inverse(
    x: FloatArray, statistic: float, scale: float, bits: int, *, pitch: float = 0.0
) -> NDArray[np.bool_]:
    """Return whether each number is statistic +- scale log(k 2^-bits), k whole, rounded to the pitch (0: not rounded).

    The logarithm may be wrong by one in its last bit, as it differs between libraries.
    """
    noise = x - statistic
    size = np.abs(noise) / scale
    # k is near 2^bits exp(-size). Close to 2^bits, 1 - exp(-size) is more precise; the candidates cover the rest.
    whole = 2.0**bits
    nearest = np.where(size < 0.5, whole + np.rint(whole * np.expm1(-size)), np.rint(whole * np.exp(-size)))
    reached = np.zeros(len(x), dtype=np.bool_)
    for step in range(-_NEAREST, _NEAREST + 1):
        there = np.copysign(scale * np.log(np.clip(nearest + step, 1.0, whole) / whole), noise)
        for z in (there, np.nextafter(there, np.inf), np.nextafter(there, -np.inf)):
            reached |= _round(statistic + z, pitch) == x
    return reached


def _round(x: FloatArray, pitch: float) -> FloatArray:
    return np.rint(x / pitch) * pitch if pitch else x


def reachable_features(
    case: Neighbours, subject: Any, claim: Any, column: int, pilot: tuple[FloatArray, FloatArray]
) -> list[BitFeature]:
    """Return the features of reachable values of one column of outputs, given pilot outputs of both datasets."""
    found: list[BitFeature] = []
    scales = noise_scales(subject, claim, case.account)
    for data, table in zip(case.datasets, pilot, strict=True):
        x = table[:, column]
        for statistic in candidate_statistics(data(), table, column):
            top = int(exponents(x - statistic).max(initial=-1000)) + 1
            found.append(ReachedBySum(statistic=statistic, top=top))
            found += [
                ReachedByInverse(statistic=statistic, scale=scale, bits=bits, top=top)
                for scale in scales
                for bits in (52, 53)
            ]
    return list(dict.fromkeys(found))


def candidate_statistics(data: Any, outputs: FloatArray, column: int) -> list[float]:
    """Return guesses of the number to which noise was added: the data, their sum and mean, and a rounded median."""
    centre = float(np.median(outputs[:, column]))
    found = [float(np.rint(centre))]
    try:
        array = np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError):  # not a table of numbers: only the median is left
        return found
    width = outputs.shape[1]
    with np.errstate(all="ignore"):
        if array.ndim == 0:
            found.append(float(array))
        elif array.size == width:
            found.append(float(array.ravel()[column]))
        elif array.ndim == 1 and array.size and width == 1:
            found += [float(np.add.accumulate(array)[-1]), float(array.sum()), float(array.mean())]
        elif array.ndim == 2 and array.shape[1] == width and len(array):
            found += [float(array[:, column].sum()), float(array[:, column].mean())]
    return [value for value in dict.fromkeys(found) if np.isfinite(value)]


def noise_scales(subject: Any, claim: Any, account: Accountant | None) -> list[float]:
    """Return the scales of Laplace noise that the mechanism, the claim or the account states."""
    stated = [getattr(source, "scale", None) for source in (subject, claim, account)]
    return list(dict.fromkeys(float(scale) for scale in stated if isinstance(scale, (int, float)) and scale > 0.0))


def _with_distance(reached: NDArray[np.bool_], noise: FloatArray, top: int) -> Cells:
    distance = np.clip(top - exponents(noise), 0, _DISTANCES - 1)
    return reached.astype(np.int64) * _DISTANCES + distance


def _describe_reached(cell: int, top: int, statistic: float, what: str) -> str:
    reached, below = divmod(cell, _DISTANCES)
    far = "below" if below == _DISTANCES - 1 else f"2^{top - below} to"
    can = "can be" if reached else "cannot be"
    return f"a number at a distance of {far} 2^{top - below + 1} from {statistic!r} that {can} {what}"
