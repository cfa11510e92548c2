"""Chains over hidden records of one number, for models whose prior is conjugate to the records before clipping."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from privsample._checks import FloatArray, check_memory
from privsample.distributions.models.gamma_exponential import GammaExponential
from privsample.distributions.models.gamma_poisson import GammaPoisson
from privsample.distributions.models.normal_known_variance import NormalKnownVariance
from privsample.inference.acceptance import NoiseAcceptance
from privsample.inference.chains import Observation
from privsample.inference.walks import Step

STARTS = 32  # states simulated from the prior, and near the release, one of which becomes the first
_SHIFTS = 3  # moves of the parameter with the records in each sweep


class ConjugateRecords(ABC):
    """A chain over a parameter and n records, given noisy sums of the clipped records.

    A sweep draws the parameter given the records, offers a new record to each position, and moves the parameter
    together with all records (inference.md, sections 1 to 3).

    Parameters
    ----------
    observation : Observation
        The model, the number of records, the noise and the noisy copies of the sum.
    """

    description = "exact: data augmentation with conjugate records"
    least, most = -np.inf, np.inf  # the smallest and the largest parameter

    def __init__(self, observation: Observation) -> None:
        check_memory(8 * observation.n, lower="the number of records, or use PrivateStatistics.draw or mcmc")
        refuse_size_prior(observation)
        self.model: Any = observation.model
        self.n, self.bounds = observation.n, (self.model.domain.low, self.model.domain.high)
        self.acceptance = NoiseAcceptance(observation.noise, observation.observed)
        self.theta, self.x, self.contributions = 1.0, np.zeros(self.n), np.zeros((self.n, 1))
        self.step = Step(1.0)

    @abstractmethod
    def simulate(self, theta: float, rng: np.random.Generator) -> FloatArray:
        """Draw the records before clipping, shape (n,)."""

    @abstractmethod
    def move(self, new: float, rng: np.random.Generator) -> FloatArray:
        """The records under the parameter `new`, if their non-centred coordinates stay; shape (n,)."""

    @abstractmethod
    def unconstrain(self, theta: FloatArray) -> FloatArray:
        """Map the parameter to the real line."""

    @abstractmethod
    def constrain(self, z: float) -> tuple[float, float]:
        """The parameter at a real number, and the log of its derivative there."""

    def start(self, rng: np.random.Generator) -> None:
        """Draw states from the prior and near the release, and choose one of them by the density of the noise."""
        prior = np.maximum(self.model.prior.sample(STARTS, rng), self.least)
        if not prior.max() <= self.most:
            raise ValueError(f"{self.model.parameter} must be below {self.most:g} under the prior, got {prior.max():g}")
        plug_in = np.clip([self._plug_in(rng) for _ in range(STARTS)], self.least, self.most)
        thetas = np.column_stack([plug_in, prior]).ravel()
        states = [self.simulate(float(theta), rng) for theta in thetas[: max(4, min(2 * STARTS, 2_000_000 // self.n))]]
        sums = np.array([self._clipped(x).sum() for x in states])
        chosen = choose_start(self.acceptance, sums[:, None], rng)
        self.theta, self.x = float(thetas[chosen]), states[chosen]
        self.contributions = self._clipped(self.x)
        self.step = Step(max(float(np.std(self.unconstrain(plug_in))), 1e-6))

    def _plug_in(self, rng: np.random.Generator) -> float:
        """A draw given the noisy sum with noise added once more, as if nothing had been clipped.

        Draws from a prior that is much wider than the bounds have all records clipped: far from the release the density
        of the noise is then flat, and a chain would not leave.
        """
        noisy = self.acceptance.observed.mean() + self.acceptance.noise.sample((), rng)
        return float(self.model.posterior(self.model.feasible(noisy, self.n), self.n).sample(1, rng)[0])

    def _clipped(self, x: FloatArray) -> FloatArray:
        """The contributions of records to the statistic, shape (n, 1)."""
        return np.clip(x, *self.bounds)[:, None]

    def sweep(self, rng: np.random.Generator, *, tuning: bool) -> float:
        """Draw the parameter given the records, offer new records, then move the parameter with the records."""
        drawn = float(self.model.posterior(self.x.sum(), self.n).sample(1, rng)[0])
        self.theta = max(drawn, self.least)
        proposed = self.simulate(self.theta, rng)
        moves = self.acceptance.offer(self.contributions, self._clipped(proposed), rng)
        np.copyto(self.x, proposed, where=moves.accepted)
        with np.errstate(over="ignore", invalid="ignore"):  # a proposal that overflows is rejected
            for _ in range(_SHIFTS):
                self._shift(rng, tuning=tuning)
        return moves.rate

    def _shift(self, rng: np.random.Generator, *, tuning: bool) -> None:
        """Move the parameter by a random walk, and the records with it (inference.md, section 3)."""
        z = float(self.unconstrain(np.asarray(self.theta)))
        (new, slope), (_, old_slope) = self.constrain(z + self.step.size * rng.standard_normal()), self.constrain(z)
        log_ratio = -np.inf if not self.least <= new <= self.most else self._offer_shift(new, slope - old_slope, rng)
        if tuning:
            self.step.tune(log_ratio)

    def _offer_shift(self, new: float, log_slope: float, rng: np.random.Generator) -> float:
        """Move parameter and records, or not; return the log ratio."""
        x = self.move(new, rng)
        contributions = self._clipped(x)
        prior = self.model.prior
        log_ratio = float(prior.log_density(np.asarray(new)) - prior.log_density(np.asarray(self.theta)))
        log_ratio += log_slope
        log_ratio += self.acceptance.log_ratio(self.contributions.sum(axis=0), contributions.sum(axis=0))
        if log_ratio > -rng.standard_exponential():
            self.theta, self.x, self.contributions = new, x, contributions
        return log_ratio

    def parameters(self) -> dict[str, FloatArray]:
        """The current parameter under its name."""
        return {self.model.parameter: np.asarray(self.theta)}


def choose_start(acceptance: NoiseAcceptance, sums: FloatArray, rng: np.random.Generator) -> int:
    """Choose one of several statistics, shape (states, coordinates), with weights that grow with the noise density.

    A state from the prior may be thousands of noise scales away from the release, and a chain would take as many sweeps
    to come near. The square root of the density keeps the starts of the chains further apart than the posterior.
    """
    logs = 0.5 * np.array([acceptance.log_ratio(sums[0], one) for one in sums])
    logs[~np.isfinite(logs)] = -np.inf
    weights = np.exp(logs - logs.max()) if np.isfinite(logs).any() else np.ones(len(logs))
    return int(rng.choice(len(weights), p=weights / weights.sum()))


def refuse_size_prior(observation: Observation) -> None:
    """Raise TypeError if the number of records is not public, which chains over records need."""
    if observation.size_prior is not None:
        raise TypeError(
            f"size_prior is for counts of categories, got one for {type(observation.model).__name__}: the chain of its "
            "records needs their number"
        )


class _Positive:
    """A parameter > 0, on the log scale."""

    least = 1e-290  # a Gamma draw may underflow to 0, at which the records would be infinite

    def unconstrain(self, theta: FloatArray) -> FloatArray:
        """The logarithm."""
        return np.log(theta)

    def constrain(self, z: float) -> tuple[float, float]:
        """The exponential function and the log of its derivative."""
        z = min(max(z, -660.0), 700.0)
        return float(np.exp(z)), z


class ExponentialRecords(_Positive, ConjugateRecords):
    """Waiting times: the products of rate and time are the non-centred coordinates."""

    model: GammaExponential

    def simulate(self, theta: float, rng: np.random.Generator) -> FloatArray:
        """Exponential times."""
        return rng.standard_exponential(self.n) / theta

    def move(self, new: float, rng: np.random.Generator) -> FloatArray:
        """The times in the ratio of the rates."""
        del rng
        return self.x * (self.theta / new)


class PoissonRecords(_Positive, ConjugateRecords):
    """Counts: the points of Poisson processes of rate 1, of which a record counts those below the mean."""

    model: GammaPoisson
    most = 1e15  # NumPy draws no larger Poisson counts, and a float holds them all

    def simulate(self, theta: float, rng: np.random.Generator) -> FloatArray:
        """Poisson counts."""
        return rng.poisson(theta, self.n).astype(np.float64)

    def move(self, new: float, rng: np.random.Generator) -> FloatArray:
        """Counts with points added between two means, or thinned."""
        if new > self.theta:
            return self.x + rng.poisson(new - self.theta, self.n)
        return rng.binomial(self.x.astype(np.int64), new / self.theta).astype(np.float64)


class NormalRecords(ConjugateRecords):
    """Normal records of known variance: the deviations from the mean are the non-centred coordinates."""

    model: NormalKnownVariance

    def simulate(self, theta: float, rng: np.random.Generator) -> FloatArray:
        """Normal records."""
        return theta + self.model.noise_variance**0.5 * rng.standard_normal(self.n)

    def move(self, new: float, rng: np.random.Generator) -> FloatArray:
        """The records shifted by the change of the mean."""
        del rng
        return self.x + (new - self.theta)

    def unconstrain(self, theta: FloatArray) -> FloatArray:
        """The mean itself."""
        return theta

    def constrain(self, z: float) -> tuple[float, float]:
        """The mean itself."""
        return z, 0.0
