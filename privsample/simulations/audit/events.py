"""Choice of the tested event on the selection draws."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol

import numpy as np

from privsample._checks import FloatArray
from privsample.simulations.audit.binomials import Counts

_SHARES = np.concatenate([np.geomspace(2e-4, 0.02, 12), np.linspace(0.03, 0.97, 95), 1 - np.geomspace(0.02, 2e-4, 12)])


class TestedEvent(Protocol):
    """An event that was chosen before the evaluation draws, in one direction of the pair."""

    @property
    def swapped(self) -> bool:
        """True if the event should be likelier under the second distribution."""

    def counts(self, first: Any, second: Any) -> Counts:
        """Count the draws in the event: of the distribution under which it should be likelier, and of the other."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """The event {score > threshold} of the first distribution; if `swapped`, {score < threshold} of the second."""

    threshold: float
    swapped: bool

    def counts(self, first: FloatArray, second: FloatArray) -> Counts:
        """Count the draws in the event: of the distribution under which it should be likelier, and of the other."""
        if self.swapped:
            return int((second < self.threshold).sum()), int((first < self.threshold).sum())
        return int((first > self.threshold).sum()), int((second > self.threshold).sum())


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Candidate test: index of epsilon, event, and estimated excess over the claim in standard errors."""

    at: int
    event: TestedEvent
    strength: float


def strongest_tests(
    first: FloatArray, second: FloatArray, epsilons: FloatArray, claims: FloatArray, *, loss: bool
) -> tuple[Choice, ...]:
    """Return the strongest candidate test, and the strongest one at the first epsilon if it is another.

    Many bugs are visible at the first epsilon too, where the estimates have the smallest variance. If scores are log
    density ratios (`loss`), the optimal event {loss > epsilon} is the only candidate at each epsilon.
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
    """Return for each factor the event with the largest expected lower confidence bound."""
    thresholds = _cuts(first, second)
    excess, error = _table(first, second, factors, thresholds, swapped)
    rows = np.argmax(excess - 3 * error, axis=0)
    return [Event(threshold=float(thresholds[row]), swapped=swapped) for row in rows]


def strongest_thresholds(
    first: FloatArray, second: FloatArray, epsilons: FloatArray, claims: FloatArray, swapped: bool
) -> FloatArray:
    """Return for each epsilon the threshold whose event exceeds the claim by the most standard errors."""
    thresholds = _cuts(first, second)
    excess, error = _table(first, second, np.exp(epsilons), thresholds, swapped)
    return thresholds[np.argmax((excess - claims) / error, axis=0)]


def steepest_thresholds(first: FloatArray, second: FloatArray, claims: FloatArray, swapped: bool) -> FloatArray:
    """Return for each claimed delta the threshold with the largest lower bound on epsilon, log((p - delta) / q).

    Two standard errors are subtracted from p and added to q.
    """
    thresholds = _cuts(first, second)
    p, q, here, there = _shares(first, second, thresholds, swapped)
    low, high = p - 2 * np.sqrt(here), q + 2 * np.sqrt(there)
    return thresholds[np.argmax((low[:, None] - claims) / high[:, None], axis=0)]


def _cuts(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return thresholds at quantiles of the scores and halfway between them; any atom can be in or out of the event."""
    values = np.unique(np.quantile(np.concatenate([first, second]), _SHARES))
    return np.unique(np.concatenate([values, (values[1:] + values[:-1]) / 2]))


def _table(
    first: FloatArray, second: FloatArray, factors: FloatArray, thresholds: FloatArray, swapped: bool
) -> tuple[FloatArray, FloatArray]:
    """Estimate p - factor q and the standard errors, shape (thresholds, factors)."""
    p, q, here, there = (column[:, None] for column in _shares(first, second, thresholds, swapped))
    return p - factors * q, np.sqrt(here + factors**2 * there)


def _shares(
    first: FloatArray, second: FloatArray, thresholds: FloatArray, swapped: bool
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Estimate p and q of the event at each threshold, and the variances of both estimates."""
    side, other = (-second, -first) if swapped else (first, second)
    cuts = -thresholds if swapped else thresholds
    p, q = (
        1 - np.searchsorted(np.sort(distribution), cuts, side="right") / len(distribution)
        for distribution in (side, other)
    )
    return p, q, (p * (1 - p) + 1 / len(side)) / len(side), (q * (1 - q) + 1 / len(other)) / len(other)
