"""Posteriors given a statistic with noise: the hidden statistic is summed or integrated out. Tools for models.

Exact where that statistic is a count; Source: Bernstein and Sheldon 2018, section 2; docs/notes/statistics.md.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample.distributions.laws.conjugate import Law
from privsample.distributions.models.mixtures import ConjugateMixture
from privsample.distributions.noise import Noise

LOST = 1e-13  # share of the posterior that a window may leave out
LARGEST = 1 << 24  # values of the hidden count in a window
_DEPTH, _GRID = 60.0, 2001
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_PANELS = 64


class NoiseAware(NamedTuple):
    """A posterior law and, in words, what it models and how exactly."""

    law: Law
    method: str


class Counted(NamedTuple):
    """Consecutive values of a hidden count, their log weights, and the share of the posterior beyond them, at most."""

    values: FloatArray
    log_weights: FloatArray
    lost: float

    @property
    def words(self) -> str:
        """For the method."""
        return f"{len(self.values)} values of the hidden count; at most {self.lost:.1g} of the posterior left out"


def counted(
    log_mass: Callable[[float], float],
    steps: Callable[[FloatArray], FloatArray],
    most: float,
    noise: Noise,
    observed: FloatArray,
) -> Counted:
    """The counts in {0, ..., most} that the observations leave likely, whatever is far less likely left out.

    log_mass: log probability of one count before the observations; steps: its growth from each count to the next.
    The share left out is certified: beyond the window the noise's masses fall, and all counts together have mass one.
    Raises: ValueError, for a window of too many counts.
    """
    seen = np.sort(observed.ravel())
    reach = noise.reach(np.log(LOST) - 5.0)
    centre = np.clip(seen[[0, -1]], 0.0, most)
    while True:
        low, high = max(np.floor(centre[0] - reach), 0.0), min(np.ceil(centre[1] + reach), most)
        if not high - low < LARGEST:
            raise ValueError(
                f"the noise leaves more than {LARGEST} counts possible: use .posterior(), which takes the released "
                "statistic for the true one, or .mcmc(), with a central limit"
            )
        values = np.arange(low, high + 1)
        start = log_mass(low)
        log_weights = start + np.concatenate([[0.0], np.cumsum(steps(values[:-1]))])
        log_weights = log_weights + _log_likelihood(noise, seen, values)
        beyond = [x for x in (low - 1, high + 1) if 0 <= x <= most]
        outside = max((float(_log_likelihood(noise, seen, np.array([x]))[0]) for x in beyond), default=-np.inf)
        log_lost = outside - float(np.logaddexp.reduce(log_weights))
        if log_lost <= np.log(LOST):
            return Counted(values=values, log_weights=log_weights, lost=float(np.exp(log_lost)))
        reach *= 1.25


def _log_likelihood(noise: Noise, seen: FloatArray, values: FloatArray) -> FloatArray:
    return np.sum([noise.log_mass(y - values) for y in seen], axis=0)


def hidden_successes(a: float, b: float, n: int, noise: Noise, observed: FloatArray) -> tuple[ConjugateMixture, str]:
    """The posterior given a noisy count of successes of n, of a Beta(a, b) prior, and how exact it is."""

    def log_mass(s: float) -> float:
        chosen = -np.log1p(n) - special.betaln(n - s + 1, s + 1)
        return float(chosen + special.betaln(s + a, n - s + b) - special.betaln(a, b))

    def steps(s: FloatArray) -> FloatArray:
        return np.log1p((a - 1) / (s + 1)) + np.log((n - s) / (n - s - 1 + b))

    found = counted(log_mass, steps, n, noise, observed)
    s = found.values
    law = ConjugateMixture(family="Beta", first=a + s, second=b + n - s, log_weights=found.log_weights)
    return law, f"exact, a mixture over {found.words}"


def integrated(
    log_density: Callable[[FloatArray], FloatArray], noise: Noise, observed: FloatArray, *, positive: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Nodes over the hidden sum and log weights: Gauss's rule in panels between the kinks of the noise.

    The panels cover where the integrand is above e^-60 of its largest value, found by closing in on a grid. A positive
    sum is integrated over its logarithm.
    """
    seen, reach = np.unique(observed), noise.reach(-2 * _DEPTH)
    low, high = seen[0] - reach, seen[-1] + reach
    if positive:
        seen, high = np.log(seen[seen > 0]), np.log(max(high, reach))
        low = high - 4 * _DEPTH

    def log_integrand(x: FloatArray) -> FloatArray:
        s = np.exp(x) if positive else x
        return log_density(s) + _log_likelihood(noise, observed.ravel(), s) + (x if positive else 0.0)

    for _ in range(6):
        grid = np.linspace(low, high, _GRID)
        heights = log_integrand(grid)
        inside = np.flatnonzero(heights > heights.max() - _DEPTH)
        low, high = grid[max(inside[0] - 1, 0)], grid[min(inside[-1] + 1, _GRID - 1)]
    ends = np.unique(np.concatenate([[low, high], seen[(seen > low) & (seen < high)]]))
    edges = np.concatenate([np.linspace(a, b, _PANELS + 1)[:-1] for a, b in itertools.pairwise(ends)])
    edges = np.append(edges, ends[-1])
    half = np.diff(edges)[:, None] / 2
    nodes = (edges[:-1, None] + half * (1 + _NODES)).ravel()
    return np.exp(nodes) if positive else nodes, log_integrand(nodes) + np.log(half * _WEIGHTS).ravel()
