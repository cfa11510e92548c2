"""Random walks whose steps are tuned while a chain tunes, and stay fixed afterwards."""

import numpy as np

from privsample._checks import FloatArray

_REFRESHED = 25  # sweeps between two new shapes of the proposal
_TARGETS = {1: 0.44, 2: 0.35}  # acceptance rates by dimension
_TARGET = 0.26


class Step:
    """The step size of a random walk, tuned to an acceptance rate by stochastic approximation.

    Parameters
    ----------
    size : float
        The first step size, > 0.
    target : float, default 0.44
        The acceptance rate.
    """

    def __init__(self, size: float, target: float = _TARGETS[1]) -> None:
        self.size, self.target, self._count = size, target, 0

    def tune(self, log_ratio: float) -> None:
        """Move the step size towards the target, given the log ratio of one proposal; call it while tuning only."""
        self._count += 1
        self.size *= float(np.exp((probability_of(log_ratio) - self.target) / self._count**0.6))


def probability_of(log_ratio: float) -> float:
    """The acceptance probability; 0 for NaN."""
    return float(np.exp(min(log_ratio, 0.0))) if not np.isnan(log_ratio) else 0.0


class Walk:
    """A symmetric random walk in several dimensions: in all of them, or in one, at random.

    Steps in all coordinates are tuned to an acceptance rate in every direction by the robust adaptive Metropolis
    algorithm of Vihola 2012: directions in which proposals are accepted too often become longer, the others shorter.
    Unlike the covariance of the states this fits moves that hold other variables fixed. Steps in one coordinate have
    sizes of their own, which are tuned faster.

    Parameters
    ----------
    spreads : array of shape (dimension,)
        The first standard deviation of each coordinate, > 0.
    """

    def __init__(self, spreads: FloatArray) -> None:
        self.root, self._count = np.diag(spreads), 0
        self._target = _TARGETS.get(len(spreads), _TARGET)
        self._direction = np.zeros(len(spreads))
        self._steps = [Step(float(spread)) for spread in spreads]
        self._single: int | None = None

    def propose(self, z: FloatArray, rng: np.random.Generator) -> FloatArray:
        """A proposal from the state z, shape (dimension,)."""
        self._direction, self._single = rng.standard_normal(len(z)), None
        if len(z) == 1 or rng.random() < 0.5:
            self._single = int(rng.integers(len(z)))
            moved = z.copy()
            moved[self._single] += self._steps[self._single].size * self._direction[self._single]
            return moved
        return np.asarray(z + self.root @ self._direction)

    def tune(self, log_ratio: float, z: FloatArray) -> None:
        """Adapt to the log ratio of the last proposal; `z` is the state after it. Call it while tuning only."""
        del z
        if self._single is not None:
            self._steps[self._single].tune(log_ratio)
            return
        self._count += 1
        rate = min(1.0, len(self._direction) / self._count**0.6)
        change = rate * (probability_of(log_ratio) - self._target)
        along = self.root @ self._direction / float(np.linalg.norm(self._direction))
        # |change| < 1, so that the matrix stays positive definite
        self.root = np.linalg.cholesky(self.root @ self.root.T + change * np.outer(along, along))


class LearnedWalk(Walk):
    """A symmetric random walk with the covariance of the states, for moves whose acceptance rate has no lower bound.

    New records are drawn with each proposal, so that even the smallest step may be accepted rarely: a walk that is
    tuned to an acceptance rate would stop moving. The factor is that of Roberts, Gelman and Gilks 1997.
    """

    def __init__(self, spreads: FloatArray) -> None:
        super().__init__(spreads)
        self._mean, self._scatter, self._floor = np.zeros(len(spreads)), np.diag(spreads**2), (1e-3 * spreads) ** 2
        self._factor = 2.4 / len(spreads) ** 0.5 if len(spreads) else 1.0

    def propose(self, z: FloatArray, rng: np.random.Generator) -> FloatArray:
        """A proposal from the state z, shape (dimension,)."""
        return np.asarray(z + self.root @ rng.standard_normal(len(z)))

    def tune(self, log_ratio: float, z: FloatArray) -> None:
        """Learn from the state `z` after the last proposal."""
        del log_ratio
        if self._count == 0:
            self._mean = z
        self._count += 1
        # older states, which may be far from the posterior, are forgotten
        weight = max(1.0 / (self._count + 20), 0.01)
        gap = z - self._mean
        self._mean = self._mean + weight * gap
        self._scatter = (1.0 - weight) * self._scatter + weight * np.outer(gap, gap)
        if self._count % _REFRESHED == 0:
            self.root = self._factor * np.linalg.cholesky(self._scatter + np.diag(self._floor))
