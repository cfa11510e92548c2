"""Which event to test, chosen on draws that are used for nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from privsample._checks import FloatArray
from privsample.simulations.audit.binomials import Counts

_SHARES = np.concatenate([np.geomspace(2e-4, 0.02, 12), np.linspace(0.03, 0.97, 95), 1 - np.geomspace(0.02, 2e-4, 12)])


@dataclass(frozen=True, kw_only=True)
class Event:
    """{score > threshold} under the first distribution against the second; turned, {score < threshold} under the
    second.
    """

    threshold: float
    swapped: bool

    def counts(self, first: FloatArray, second: FloatArray) -> Counts:
        """How often it happened: under the distribution that it speaks for, and under the other."""
        if self.swapped:
            return int((second < self.threshold).sum()), int((first < self.threshold).sum())
        return int((first > self.threshold).sum()), int((second > self.threshold).sum())


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Where the claim looks weakest: the index of an epsilon, the event, and by how many standard errors."""

    at: int
    event: Event
    strength: float


def weakest_claims(
    first: FloatArray, second: FloatArray, epsilons: FloatArray, claims: FloatArray, *, loss: bool
) -> tuple[Choice, ...]:
    """The epsilon and the event at which the claims look weakest, and the event at the first epsilon, if it is another.

    Most faults show at the first epsilon as well, where frequencies are least at the mercy of chance.
    Where the scores are losses, log density ratios, only the best event for each epsilon is tried, a loss above it.
    """
    found = []
    for swapped in (False, True):
        own = (-epsilons if swapped else epsilons) if loss else _cuts(first, second)
        excess, error = _table(first, second, np.exp(epsilons), own, swapped)
        strength = (excess - claims) / error
        if loss:
            strength = np.where(np.eye(len(epsilons), dtype=bool), strength, -np.inf)
        for at, row in enumerate(np.argmax(strength, axis=0)):
            event = Event(threshold=float(own[row]), swapped=swapped)
            found.append(Choice(at=at, event=event, strength=float(strength[row, at])))
    found.sort(key=attrgetter("strength"), reverse=True)
    return (found[0],) if found[0].at == 0 else (found[0], next(choice for choice in found if choice.at == 0))


def most_informative_events(
    first: FloatArray, second: FloatArray, factors: FloatArray, swapped: bool
) -> Sequence[Event]:
    """For each factor the event from which the best lower limit is to be expected."""
    thresholds = _cuts(first, second)
    excess, error = _table(first, second, factors, thresholds, swapped)
    rows = np.argmax(excess - 3 * error, axis=0)
    return [Event(threshold=float(thresholds[row]), swapped=swapped) for row in rows]


def _cuts(first: FloatArray, second: FloatArray) -> FloatArray:
    """Thresholds at quantiles of the scores and between them, so that an atom lies wholly on one side."""
    values = np.unique(np.quantile(np.concatenate([first, second]), _SHARES))
    return np.unique(np.concatenate([values, (values[1:] + values[:-1]) / 2]))


def _table(
    first: FloatArray, second: FloatArray, factors: FloatArray, thresholds: FloatArray, swapped: bool
) -> tuple[FloatArray, FloatArray]:
    """Estimates of p - factor q and their standard errors, shape (thresholds, factors)."""
    side, other = (-second, -first) if swapped else (first, second)
    cuts = -thresholds if swapped else thresholds
    p, q = (
        1 - np.searchsorted(np.sort(distribution), cuts, side="right") / len(distribution)
        for distribution in (side, other)
    )
    p, q = p[:, None], q[:, None]
    error = np.sqrt(
        (p * (1 - p) + 1 / len(side)) / len(side) + factors**2 * (q * (1 - q) + 1 / len(other)) / len(other)
    )
    return p - factors * q, error
