"""Which event to test, chosen on draws that are used for nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privsample._checks import FloatArray
from privsample.simulations.binomials import Counts

_SHARES = np.concatenate([np.geomspace(2e-4, 0.02, 12), np.linspace(0.03, 0.97, 95), 1 - np.geomspace(0.02, 2e-4, 12)])


@dataclass(frozen=True, kw_only=True)
class Event:
    """{score > threshold} under the first law against the second; turned, {score < threshold} under the second."""

    threshold: float
    turned: bool

    def counts(self, first: FloatArray, second: FloatArray) -> Counts:
        """How often it happened: under the law that it speaks for, and under the other."""
        if self.turned:
            return int((second < self.threshold).sum()), int((first < self.threshold).sum())
        return int((first > self.threshold).sum()), int((second > self.threshold).sum())


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Where the claim looks weakest: the index of an epsilon, the event, and by how many standard errors."""

    at: int
    event: Event
    strength: float


def weakest(first: FloatArray, second: FloatArray, factors: FloatArray, claims: FloatArray) -> Choice:
    """The epsilon and the event at which the claims look weakest; factors are e^epsilon."""
    found = []
    for turned in (False, True):
        thresholds, excess, error = _table(first, second, factors, turned)
        strength = (excess - claims) / error
        row, at = np.unravel_index(np.argmax(strength), strength.shape)
        event = Event(threshold=float(thresholds[row]), turned=turned)
        found.append(Choice(at=int(at), event=event, strength=float(strength[row, at])))
    return max(found, key=lambda choice: choice.strength)


def telling(first: FloatArray, second: FloatArray, factors: FloatArray, turned: bool) -> Sequence[Event]:
    """For each factor the event from which the best lower limit is to be expected."""
    thresholds, excess, error = _table(first, second, factors, turned)
    rows = np.argmax(excess - 3 * error, axis=0)
    return [Event(threshold=float(thresholds[row]), turned=turned) for row in rows]


def _table(first: FloatArray, second: FloatArray, factors: FloatArray, turned: bool) -> tuple[FloatArray, ...]:
    """Thresholds, shape (k,); estimates of p - factor q and their standard errors, shape (k, factors)."""
    pooled = np.concatenate([first, second])
    values = np.unique(np.quantile(pooled, _SHARES))
    middles = (values[1:] + values[:-1]) / 2  # an atom lies wholly on one side
    thresholds = np.unique(np.concatenate([values, middles]))
    side, other = (-second, -first) if turned else (first, second)
    cuts = -thresholds if turned else thresholds
    p, q = (1 - np.searchsorted(np.sort(law), cuts, side="right") / len(law) for law in (side, other))
    p, q = p[:, None], q[:, None]
    error = np.sqrt(
        (p * (1 - p) + 1 / len(side)) / len(side) + factors**2 * (q * (1 - q) + 1 / len(other)) / len(other)
    )
    return thresholds, p - factors * q, error
