"""Acceptance of new records by the noise density alone: ratios, and the loop over records compiled by Numba.

The density of Laplace noise and of discrete Laplace noise is proportional to e^(-|x| / scale), that of Gaussian noise
and of discrete Gaussian noise to e^(-x^2 / (2 scale^2)), on the reals or on the integers. The ratios are the same.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._compiled import compiled
from privsample.distributions.noise import (
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    LaplaceNoise,
    Noise,
)

_SQUARED: dict[type, bool] = {
    LaplaceNoise: False,
    DiscreteLaplaceNoise: False,
    GaussianNoise: True,
    DiscreteGaussianNoise: True,
}


class Moves(NamedTuple):
    """The outcome of one offer to each record: which were accepted, and the smallest log acceptance probability."""

    accepted: NDArray[np.bool_]
    least_log_probability: float

    @property
    def rate(self) -> float:
        """The share of offers that were accepted."""
        return float(self.accepted.mean())


class NoiseAcceptance:
    """Acceptance by the noise density at the noisy copies of a statistic, given its exact value.

    Parameters
    ----------
    noise : Noise
        Distribution of the noise on each coordinate of each copy.
    observed : array of shape (copies, ...)
        The noisy copies.
    """

    def __init__(self, noise: Noise, observed: FloatArray) -> None:
        # A copy: Numba would compile each loop once more for the read-only array of a release.
        self.noise, copies = noise, np.array(observed, dtype=np.float64, order="C")
        self.observed = copies.reshape(len(copies), -1)
        self.squared = _SQUARED.get(type(noise))
        self.scale = noise.scale_parameter
        if self.squared:  # the mean of the copies is sufficient
            self.scale /= len(copies) ** 0.5
            self.observed = self.observed.mean(axis=0, keepdims=True)

    def log_ratio(self, old: FloatArray, new: FloatArray) -> float:
        """Log density of the copies given the statistic `new`, minus that given `old`, each of shape (coordinates,)."""
        gap, step = self.observed - old, np.asarray(new - old)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.squared is None:
                return float((self.noise.log_mass(gap - step) - self.noise.log_mass(gap)).sum())
            if self.squared:  # one product, because the difference of two squares would cancel
                return float((step * (2.0 * gap - step)).sum() / 2.0 / self.scale / self.scale)
            return float((np.abs(gap) - np.abs(gap - step)).sum() / self.scale)

    def offer(self, current: FloatArray, proposed: FloatArray, rng: np.random.Generator) -> Moves:
        """Offer a new contribution to each record in turn; `current`, shape (records, coordinates), changes in place.

        Record i moves with probability min(1, ratio), where the ratio is that of the noise densities after and before
        (inference.md, section 1). The sum over records is computed anew at each call, so rounding cannot build up.
        """
        thresholds = -rng.standard_exponential(len(current))
        total = current.sum(axis=0)
        accepted = np.zeros(len(current), dtype=np.bool_)
        if self.squared is None:
            least = self._offer_one_by_one(current, proposed, thresholds, total, accepted)
        else:
            least = _compiled_offer()(
                current, proposed, thresholds, total, accepted, self.observed, self.scale, self.squared
            )
        return Moves(accepted, float(least))

    def _offer_one_by_one(
        self,
        current: FloatArray,
        proposed: FloatArray,
        thresholds: FloatArray,
        total: FloatArray,
        accepted: NDArray[np.bool_],
    ) -> float:
        """The loop for any noise, by its log density: slower, because each record takes a call."""
        least = 0.0
        density = float(self.noise.log_mass(self.observed - total).sum())
        for i in np.flatnonzero((proposed != current).any(axis=1)):
            moved = total + (proposed[i] - current[i])
            found = float(self.noise.log_mass(self.observed - moved).sum())
            least = min(least, found - density)
            if found - density > thresholds[i]:
                total, density, accepted[i] = moved, found, True
                current[i] = proposed[i]
        accepted |= (proposed == current).all(axis=1)
        return least


def _offer(
    current: FloatArray,
    proposed: FloatArray,
    thresholds: FloatArray,
    total: FloatArray,
    accepted: NDArray[np.bool_],
    observed: FloatArray,
    scale: float,
    squared: bool,
) -> float:
    """The loop over records; returns the smallest log acceptance probability. Compiled by `_compiled_offer`."""
    records, width = current.shape
    copies = observed.shape[0]
    factor = 0.5 / scale / scale if squared else 1.0 / scale
    least = 0.0
    for i in range(records):
        ratio = 0.0
        for k in range(width):
            step = proposed[i, k] - current[i, k]
            if step != 0.0:
                for j in range(copies):
                    gap = observed[j, k] - total[k]
                    if squared:
                        ratio += step * (2.0 * gap - step)
                    else:
                        ratio += abs(gap) - abs(gap - step)
        ratio *= factor
        least = min(least, ratio)
        if ratio > thresholds[i]:
            accepted[i] = True
            for k in range(width):
                total[k] += proposed[i, k] - current[i, k]
                current[i, k] = proposed[i, k]
    return least


@cache
def _compiled_offer() -> Callable[..., Any]:
    """The compiled loop; the compiled code is kept on disk where Numba finds a folder that it may write to."""
    return compiled(_offer)
