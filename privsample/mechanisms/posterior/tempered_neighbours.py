"""Worst neighbours of draws from a truncated posterior, over all values of the other records.

The bounds cut off the tails that make one-sided data the worst case of an untruncated posterior. The worst common
records move the posterior near a bound, or to where it is widest. They are found by quadrature.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.distributions.models.base import Model, Records
from privsample.distributions.parametric.truncated import TruncatedUnivariate
from privsample.mechanisms.privacy_curves import FACTORS, excess, last_high

_NODES, _PLACES = 8, 33

Posterior = Callable[[FloatArray], Any]  # from a statistic to a truncated posterior of one number


def worst_common_records(posterior: Posterior, model: Model, n: int, records: Records, group: int) -> list[int]:
    """The worst numbers of common records with the higher value: in total variation, and at larger epsilon."""
    rest = n - group
    low, high = (model.statistic(np.array([record])) for record in records[1:])

    def curve(raised: int, factors: FloatArray) -> FloatArray:
        others = (rest - raised) * low + raised * high
        one, other = (IntegratedDensity.of(posterior(others + group * end)) for end in (low, high))
        p, q = (one.cells * np.exp(density.log_density(one.at)) for density in (one, other))
        return excess(p, q, factors)

    first = _largest(lambda k: float(curve(k, FACTORS[:1])[0]), rest)
    out = FACTORS[[last_high(curve(first, FACTORS))]]
    return list(dict.fromkeys([first, _largest(lambda k: float(curve(k, out)[0]), rest)]))


def _largest(worth: Callable[[int], float], most: int) -> int:
    """The whole number up to `most` with the largest `worth`, which must be unimodal."""
    low, high = 0, most
    while True:
        places = np.unique(np.rint(np.linspace(low, high, _PLACES)).astype(int))
        best = int(places[np.argmax([worth(int(place)) for place in places])])
        if high - low < _PLACES:
            return best
        step = -(-(high - low) // (_PLACES - 1))
        low, high = max(low, best - step), min(high, best + step)


@frozen_value
class IntegratedDensity:
    """A univariate distribution with a quadrature rule that normalizes its density."""

    distribution: TruncatedUnivariate
    at: FloatArray
    cells: FloatArray
    log_total: float

    @classmethod
    def of(cls, distribution: Any) -> "IntegratedDensity":
        """Panels whose widths double away from the bounds and the median, with eight Gauss-Legendre nodes each."""
        quarter, middle, most = np.quantile(distribution.sample(1_001, np.random.default_rng(0)), [0.25, 0.5, 0.75])
        halves, steps = 2.0 ** -np.arange(60.0), (most - quarter) * 2.0 ** np.arange(-3.0, 60.0)
        ends = [
            distribution.low + (middle - distribution.low) * halves,
            distribution.high - (distribution.high - middle) * halves,
        ]
        breaks = np.concatenate([*ends, middle - steps, middle + steps, [distribution.low, distribution.high]])
        breaks = np.unique(np.clip(breaks, distribution.low, distribution.high))
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        half = np.diff(breaks)[:, None] / 2
        at, cells = (breaks[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()
        logs = distribution.log_density(at)
        top = float(logs.max())
        total = top + float(np.log((cells * np.exp(logs - top)).sum()))
        return cls(distribution=distribution, at=at, cells=cells, log_total=total)

    def log_density(self, x: FloatArray) -> FloatArray:
        """The normalized log density, elementwise."""
        return np.asarray(self.distribution.log_density(x) - self.log_total)
