"""Bets against a claimed privacy curve: the wealth of a mixture of bets, draw by draw (sequential_audit.md).

A bet has an event, an epsilon, a direction and a size. For a pair of draws (X, Y) it multiplies its wealth by
1 + size (1{X in event} - e^epsilon 1{Y in event} - delta), whose mean is at most 1 if the claim is true and the bet was
chosen before the pair. In the other direction X and Y change places; a bet in both directions has the mean of both
terms. Only the outcomes of the events matter, so the wealth against any scaled claim is a function of their counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray

# Shape (pairs, families, epsilons): 8 1{X in A} + 4 1{Y in A} + 2 1{Y in B} + 1{X in B}, where A and B are the events
# that should be likelier under the first and under the second distribution.
Outcomes = NDArray[np.uint8]

SIZES = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.7])  # as parts of the largest permitted bet, 1 / (e^epsilon + delta)
# Scales of the claimed epsilons, in the order in which they are refuted, from 0 to 100; 1 is the claim itself.
SCALES = np.concatenate([np.arange(50) / 50.0, 1.0 + np.arange(100) / 100.0, 2.0 * 1.05 ** np.arange(81)])
OUTCOMES = 16
_LEADER = 0.2  # share of the bet that looks best on the past
_ARRAYS = ("counts", "leader_counts", "point_at")
_NUMBERS = 1 << 20  # wealths that are held at once


def log_factors(epsilons: FloatArray, deltas: FloatArray) -> FloatArray:
    """Return the log of the factors of one pair of draws, shape (3, k, sizes, 16), from k epsilons and deltas.

    The first axis is the direction: of the first distribution over the second, the reverse, and both.
    """
    decay = np.exp(-epsilons)
    whole = 1.0 + deltas * decay
    gain, loss, fee = decay / whole, 1.0 / whole, deltas * decay / whole
    one = np.stack([-fee, -loss - fee, gain - fee, gain - loss - fee], axis=-1)  # by 2 · own + other
    forward, backward = np.repeat(one, 4, axis=-1), np.tile(one, 4)
    steps = np.stack([forward, backward, (forward + backward) / 2.0])
    return np.log1p(SIZES[:, None] * steps[:, :, None, :])


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The bet that would have grown most on the past: its family, direction, epsilon and size, as indices."""

    family: int
    direction: int
    at: int
    size: int


@dataclass(kw_only=True)
class Wealth:
    """The counts of outcomes of every bet, the largest wealth so far, and the scales that are refuted.

    epsilons, claims: the claimed points, shape (k,). families: number of families of events. level: significance level.
    """

    epsilons: FloatArray
    claims: FloatArray
    families: int
    level: float
    draws: int = 0
    log_peak: float = 0.0
    scale_at: int = 0
    looks: list[tuple[int, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        points = len(self.epsilons)
        self.counts = np.zeros((self.families, points, OUTCOMES), dtype=np.int64)
        self.leader_counts = np.zeros((3, points, len(SIZES), OUTCOMES), dtype=np.int64)
        self.point_at = np.zeros(points, dtype=np.int64)
        self._logs = log_factors(self.epsilons, self.claims)
        self._bets = 3 * self.families * points * len(SIZES)

    def to_document(self) -> dict[str, Any]:
        """Return what changes while the audit runs as plain data."""
        return {
            "draws": self.draws,
            "log_peak": self.log_peak,
            "scale_at": self.scale_at,
            "looks": [list(look) for look in self.looks],
            **{name: getattr(self, name).tolist() for name in _ARRAYS},
        }

    def restore(self, document: Mapping[str, Any]) -> None:
        """Take over what `to_document` returned."""
        self.draws, self.log_peak = document["draws"], document["log_peak"]
        self.scale_at = document["scale_at"]
        self.looks = [(draws, log, scale) for draws, log, scale in document["looks"]]
        for name in _ARRAYS:
            setattr(self, name, np.array(document[name], dtype=np.int64))

    @property
    def needed(self) -> float:
        """Return the log wealth that refutes a claim at the level; rounding errors of all factors are added."""
        return float(-np.log(self.level)) + 1e-12 + 1e-15 * self.draws

    @property
    def violated(self) -> bool:
        """True if the claim was refuted."""
        return self.log_peak >= self.needed

    @property
    def p_value(self) -> float:
        """The inverse of the largest wealth so far, at most 1: a p-value at every time."""
        return min(self.level * float(np.exp(self.needed - self.log_peak)), 1.0)

    @property
    def scale(self) -> float:
        """The largest of `SCALES` up to which all scaled claims are refuted; 0 if none is."""
        return float(SCALES[self.scale_at - 1]) if self.scale_at else 0.0

    @property
    def lowers(self) -> FloatArray:
        """Lower bounds on the true epsilon at each claimed delta, shape (k,)."""
        scales = np.append(0.0, SCALES)[self.point_at]
        return np.asarray(scales * _units(self.epsilons))

    def best_leader(self, outcomes: Outcomes) -> Leader | None:
        """Return the bet that would have grown most on past draws, or None if none would have grown."""
        grown = _grown(_count(outcomes), self._logs)
        best = np.unravel_index(int(np.argmax(grown)), grown.shape)
        family, direction, at, size = (int(place) for place in best)
        return Leader(family=family, direction=direction, at=at, size=size) if grown[best] > 0.0 else None

    def advance(self, outcomes: Outcomes, leader: Leader | None) -> bool:
        """Add pairs of draws one by one up to the first that refutes the claim; returns whether one does."""
        rows = max(_NUMBERS // (self._bets), 1)
        for start in range(0, len(outcomes), rows):
            part = outcomes[start : start + rows]
            log_wealth = self._path(part, leader)
            refuting = np.flatnonzero(log_wealth >= self.needed + 1e-15 * len(part))
            used = int(refuting[0]) + 1 if len(refuting) else len(part)
            self._add(part[:used], leader)
            self.log_peak = max(self.log_peak, float(log_wealth[:used].max()))
            if len(refuting):
                return True
        return False

    def wait(self, pairs: int) -> None:
        """Add pairs of draws on which no bet was made, before any event is known."""
        self.draws += pairs

    def look(self) -> None:
        """Refute scaled claims at this time, and note the wealth and the scale."""
        while self.scale_at < len(SCALES) and self.log_wealth(float(SCALES[self.scale_at])) >= self.needed:
            self.scale_at += 1
        self._look_at_points()
        self.looks.append((self.draws, self.log_wealth(1.0), self.scale))

    def log_wealth(self, scale: float) -> float:
        """Return the log wealth of all bets now, against the claim whose epsilons are scaled.

        An epsilon of 0 cannot be scaled: bets against it are left out for scales above 1, where the claim omits it.
        """
        logs = log_factors(scale * self.epsilons, self.claims)
        if scale > 1.0:
            logs[:, self.epsilons == 0.0] = 0.0
        return float(self._mix(_grown(self.counts, logs), np.sum(self.leader_counts * logs)))

    def _path(self, outcomes: Outcomes, leader: Leader | None) -> FloatArray:
        """Return the log wealth after each of the pairs, shape (pairs,)."""
        base = _grown(self.counts, self._logs)
        grown = self._logs[:, np.arange(len(self.epsilons)), :, outcomes]  # shape (pairs, families, epsilons, 3, sizes)
        grown = np.cumsum(grown, axis=0) + base.transpose(0, 2, 1, 3)
        led = np.full(len(outcomes), np.sum(self.leader_counts * self._logs))
        if leader is not None:
            seen = outcomes[:, leader.family, leader.at]
            led += np.cumsum(self._logs[leader.direction, leader.at, leader.size, seen])
        return self._mix(grown, led)

    def _mix(self, bets: FloatArray, leader: FloatArray | np.float64) -> FloatArray:
        """Return the log of the mean wealth of the bets and the leader, over the last four axes."""
        count = int(np.prod(bets.shape[-4:]))
        flat = bets.reshape(*bets.shape[:-4], count)
        top = flat.max(axis=-1)
        mean = top + np.log(np.mean(np.exp(flat - top[..., None]), axis=-1))
        return np.asarray(np.logaddexp(mean + np.log1p(-_LEADER), leader + np.log(_LEADER)))

    def _add(self, outcomes: Outcomes, leader: Leader | None) -> None:
        self.draws += len(outcomes)
        self.counts += _count(outcomes)
        if leader is not None:
            seen = outcomes[:, leader.family, leader.at]
            led = self.leader_counts[leader.direction, leader.at, leader.size]
            led += np.bincount(seen, minlength=OUTCOMES)

    def _look_at_points(self) -> None:
        """Refute larger epsilons at each claimed delta by the bets against that delta alone."""
        share = np.log1p(-_LEADER) - np.log(self._bets)
        while True:
            tried = np.minimum(self.point_at, len(SCALES) - 1)
            logs = log_factors(SCALES[tried] * _units(self.epsilons), self.claims)
            grown = _grown(self.counts, logs).transpose(2, 0, 1, 3).reshape(len(self.epsilons), -1)
            refuted = (np.logaddexp.reduce(grown, axis=1) + share >= self.needed) & (self.point_at < len(SCALES))
            if not refuted.any():
                return
            self.point_at += refuted


def _count(outcomes: Outcomes) -> NDArray[np.int64]:
    """Count the outcomes, shape (families, epsilons, 16)."""
    return np.stack([(outcomes == kind).sum(axis=0) for kind in range(OUTCOMES)], axis=-1)


def _grown(counts: NDArray[np.int64], logs: FloatArray) -> FloatArray:
    """Return the log wealth of each bet, shape (families, 3, epsilons, sizes), from the counts of outcomes."""
    return np.asarray(np.einsum("fko,dkso->fdks", counts, logs))


def _units(epsilons: FloatArray) -> FloatArray:
    """Return the unit in which epsilon is searched at each claimed delta: the claimed epsilon, or 1 if it is 0."""
    return np.where(epsilons > 0.0, epsilons, 1.0)
