"""Monte-Carlo tests of parameter values: the rank of a released statistic among simulated ones.

All random numbers are drawn once for each set, so the tests of different values share them. A test compares R + 1
statistics that are exchangeable if the value is true; its p-value is exact (docs/notes/confidence.md, Theorem 1).
"""

from fractions import Fraction
from math import ceil
from typing import NamedTuple

import numpy as np

from privsample._checks import FloatArray
from privsample._value import Memo, cached, frozen_value
from privsample.distributions.noise import Noise
from privsample.inference.simulated_statistics import StatisticSimulator, Theta

_STORED = 1 << 24  # base draws that are kept; more are drawn again for each value
_BLOCK = 1 << 15  # base draws of one block, which stays in the processor's cache
_ROUNDING = 1e-10  # relative; closer distances are ties
_SINGULAR = 1e-12  # variances below this part of the largest one are rounding errors
_LEAST = 1e-300  # divisor in place of 0


class Evidence(NamedTuple):
    """What one test says about a value.

    `rank` / (R + 1) is the p-value. `larger` and `smaller` are the numbers of statistics, with the observed one, that
    are not below and not above it; 0 if the statistic is not one number. `margin` is at most 1 where the value is in
    the set, and grows with the distance from it: a guide for searches, which decides nothing.
    """

    rank: int
    larger: int
    smaller: int
    margin: float
    distance: float
    residual: FloatArray  # observed minus mean of the simulated statistics
    covariance: FloatArray  # of the simulated statistics


@frozen_value
class RankTest(Memo):
    """Tests of parameter values by one observed statistic and R simulated ones.

    Several noisy copies are added up, and `weights`, shape (coordinates, k), are applied to the sum of the noise:
    simulated statistics are `factor` times the simulator's plus the weighted noise. Sums of whole numbers are exact, so
    that ties are. `observed` has shape (k,). A value is in the set if `rank` exceeds `rejected`.
    """

    simulator: StatisticSimulator
    observed: FloatArray
    noise: Noise
    copies: int
    weights: FloatArray
    factor: float
    simulations: int
    rejected: int
    seed: tuple[int, ...]

    @cached
    def _noise(self) -> FloatArray:
        """The weighted noise of each simulated release, shape (R, k)."""
        size, rng = len(self.weights), self._generator(0)
        step = max(1, _BLOCK // max(self.copies * size, 1))
        blocks = [
            self.noise.sample((min(step, self.simulations - at), self.copies, size), rng).sum(axis=1)
            for at in range(0, self.simulations, step)
        ]
        return np.asarray(np.concatenate(blocks) @ self.weights)

    @cached
    def _ties(self) -> FloatArray:
        """Uniform numbers that break ties, of the simulated statistics and last of the observed one."""
        return self._generator(1).random(self.simulations + 1)

    @cached
    def _stored(self) -> tuple[FloatArray, ...] | None:
        """The base draws in blocks, or None if they are too many to keep."""
        if self.simulations * self.simulator.cells > _STORED:
            return None
        return tuple(self._base(k) for k in range(len(self._blocks)))

    @property
    def _blocks(self) -> range:
        return range(0, self.simulations, self._step)

    @property
    def _step(self) -> int:
        return max(1, _BLOCK // self.simulator.cells)

    def _base(self, block: int) -> FloatArray:
        first = self._blocks[block]
        return self.simulator.base(min(self._step, self.simulations - first), self._generator(2 + block))

    def _generator(self, stream: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(stream,)))

    def statistics(self, theta: Theta) -> FloatArray:
        """The simulated noisy statistics at these parameters, shape (R, coordinates)."""
        stored = self._stored
        blocks = range(len(self._blocks)) if stored is None else stored
        found = [
            self.simulator.statistics(self._base(block) if isinstance(block, int) else block, theta) for block in blocks
        ]
        return np.concatenate(found) * self.factor + self._noise

    def evidence(self, theta: Theta) -> Evidence:
        """The test of these parameters."""
        test = equal_tails if len(self.observed) == 1 else mahalanobis
        simulated = self.statistics(theta)
        # Powers of two as units: squares of very large numbers do not overflow, and ties stay exact.
        largest = np.maximum(np.abs(simulated).max(axis=0), np.abs(self.observed))
        powers = -np.frexp(largest)[1]
        return test(np.ldexp(simulated, powers), np.ldexp(self.observed, powers), self._ties, self.rejected)


def equal_tails(simulated: FloatArray, observed: FloatArray, ties: FloatArray, rejected: int) -> Evidence:
    """Twice the smaller of the ranks of one number from above and from below (docs/notes/confidence.md, Theorem 2).

    simulated: shape (R, 1); observed: shape (1,); ties: uniform numbers, shape (R + 1,), the last of the observed one.
    """
    column, own, size = simulated[:, 0], float(observed[0]), len(simulated)
    above = int(((column > own) | ((column == own) & (ties[:-1] > ties[-1]))).sum())
    larger, smaller = 1 + above, 1 + size - above
    residual, covariance = observed - simulated.mean(axis=0), np.atleast_2d(column.var())
    last = max(rejected // 2, 1)
    places = [last - 1, size - last]
    low, high = np.partition(column, places)[places]
    return Evidence(
        rank=min(2 * min(larger, smaller), size + 1),
        larger=larger,
        smaller=smaller,
        margin=abs(own - (low + high) / 2) / max((high - low) / 2, _LEAST),
        distance=abs(float(residual[0])) / max(float(covariance[0, 0]) ** 0.5, _LEAST),
        residual=residual,
        covariance=covariance,
    )


def mahalanobis(simulated: FloatArray, observed: FloatArray, ties: FloatArray, rejected: int) -> Evidence:
    """The rank of the Mahalanobis distance to mean and covariance of all R + 1 statistics.

    simulated: shape (R, k); observed: shape (k,); ties: uniform numbers, shape (R + 1,), the last of the observed one.
    """
    size, middle = len(simulated) + 1, simulated.mean(axis=0)
    residual, covariance = observed - middle, np.atleast_2d(np.cov(simulated.T, ddof=0))
    # Mean and covariance with the observed statistic, from those without it.
    centre = middle + residual / size
    whole = covariance * (1 - 1 / size) + np.outer(residual, residual) * ((1 - 1 / size) / size)
    distances = _lengths(np.vstack([simulated, observed]) - centre, inverse_root(whole))
    own, close = distances[-1], distances.max() * _ROUNDING
    beyond = (distances > own + close) | ((np.abs(distances - own) <= close) & (ties >= ties[-1]))
    critical = np.partition(distances, size - 1 - rejected)[size - 1 - rejected]
    alone = _lengths(residual[None, :], inverse_root(covariance))
    return Evidence(
        rank=int(beyond.sum()),
        larger=0,
        smaller=0,
        margin=float(own / max(critical, _LEAST)) ** 0.5,
        distance=float(alone[0]) ** 0.5,
        residual=residual,
        covariance=covariance,
    )


def _lengths(rows: FloatArray, root: FloatArray) -> FloatArray:
    """Squared lengths of rows @ root, summed in the same order for each row, so that equal rows have equal lengths."""
    total = np.zeros(len(rows))
    for column in root.T:
        part = np.zeros(len(rows))
        for j, factor in enumerate(column):
            part += rows[:, j] * factor
        total += part * part
    return total


def inverse_root(covariance: FloatArray) -> FloatArray:
    """A with A A^T = the pseudoinverse of the covariance; units of the coordinates do not matter."""
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    units = np.where(deviations > 0, deviations, 1.0)
    values, vectors = np.linalg.eigh(covariance / np.outer(units, units))
    kept = values > _SINGULAR * max(float(values[-1]), _LEAST)
    inverse = np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return np.asarray(vectors * inverse / units[:, None])


def rejected_ranks(level: float, simulations: int) -> int:
    """The largest k with k / (R + 1) <= 1 - level, where `level` is read as the decimal number that Python prints."""
    return int((simulations + 1) * (1 - Fraction(repr(level))))


def simulations_needed(level: float) -> int:
    """The least R at which one rank at either end can be rejected."""
    return ceil(2 / (1 - Fraction(repr(level)))) - 1
