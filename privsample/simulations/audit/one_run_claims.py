"""Claims as the test of a one-run audit uses them: how much mass wrong guesses have at least beside right ones.

If right guesses of one canary have mass r, wrong ones have at least mass B(r) = f(1 - r), where f is the symmetric
trade-off function of the claim. A smaller B makes the test weaker and keeps its level, so every B here is rounded down
(docs/notes/one_run.md, sections 2 and 5).
"""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
from scipy import special

from privsample._checks import FloatArray, number
from privsample._value import stored
from privsample.accounting.base import Accountant

Curve = Callable[[FloatArray], FloatArray]  # from epsilons to deltas
WrongMass = Callable[[float], float]  # B, from [0, 1] to [0, 1], non-decreasing, rounded down

_EPS = float(np.finfo(np.float64).eps)
LOST = 1.0 - 8 * _EPS  # lowers a positive number by more than a few roundings can raise it
_QUANTILE_ERROR = 1e-13  # exceeds the relative errors of the normal quantile and distribution function
_FARTHEST = 300.0  # epsilon in nats
_NEGLIGIBLE = 1e-15  # a delta, and a mass of wrong guesses
_TOLERANCE = 1e-3  # by which a new line must raise the corner below it; p-values then change by less than 1e-4
_MOST_POINTS = 2_000


@dataclass(frozen=True, slots=True)
class OneRunClaim:
    """A claim: B, and pairs (epsilon, delta) of which each holds in both directions, by increasing epsilon."""

    wrong_mass: WrongMass
    epsilons: FloatArray = field(default_factory=lambda: np.empty(0))
    deltas: FloatArray = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of_points(cls, epsilons: FloatArray, deltas: FloatArray) -> Self:
        """The claim of finitely many pairs."""
        return cls(wrong_mass_of_points(epsilons, deltas), epsilons, deltas)


def claim_of(claim: Any) -> OneRunClaim:
    """The claim of an account, or of a function from epsilon to delta.

    Raises TypeError for anything else, and ValueError for a delta outside [0, 1].
    """
    if isinstance(claim, Accountant):
        return stored(claim, "one-run claim", partial(_claim_of_account, claim))
    if callable(claim) and not isinstance(claim, type):
        return OneRunClaim.of_points(*_points_of_curve(partial(_each_delta, claim), last=math.inf))
    raise TypeError(f"claim must be an accountant or a function from epsilon to delta, got {type(claim).__name__}")


def _claim_of_account(account: Accountant) -> OneRunClaim:
    """The claim of an account, whose curve can take seconds to evaluate."""
    pure = account.pure_epsilon if account.infinity_mass == 0.0 else math.inf
    epsilons, deltas = _points_of_curve(account.delta, last=pure)
    if pure < math.inf:
        epsilons, deltas = np.append(epsilons, pure), np.append(deltas, 0.0)
    return OneRunClaim.of_points(epsilons, deltas)


def pure_claim(epsilon: float) -> OneRunClaim:
    """The claim of epsilon-differential privacy."""
    return approximate_claim(epsilon, 0.0)


def approximate_claim(epsilon: float, delta: float) -> OneRunClaim:
    """The claim of (epsilon, delta)-differential privacy."""
    return OneRunClaim.of_points(np.array([epsilon]), np.array([delta]))


def gaussian_claim(mu: float) -> OneRunClaim:
    """The claim of mu-Gaussian differential privacy: B(r) is the distribution function at quantile(r) - mu."""

    def wrong_mass(right: float) -> float:
        quantile = float(special.ndtri(right))
        lowered = quantile - mu - _QUANTILE_ERROR * (1.0 + abs(quantile))
        return float(special.ndtr(lowered)) * (1.0 - _QUANTILE_ERROR)

    return OneRunClaim(wrong_mass)


def _each_delta(claim: Callable[[float], Any], epsilons: FloatArray) -> FloatArray:
    """The deltas of a function that takes one epsilon. Raises ValueError."""
    found = []
    for epsilon in epsilons.tolist():
        name = f"the delta claimed at epsilon = {epsilon:.4g}"
        delta = number(**{name: claim(epsilon)})
        if not 0.0 <= delta <= 1.0:
            raise ValueError(f"{name} must lie in [0, 1], got {delta!r}")
        found.append(delta)
    return np.array(found)


def _points_of_curve(curve: Curve, *, last: float) -> tuple[FloatArray, FloatArray]:
    """Points of a privacy curve that is constant above the epsilon `last`, from which B follows.

    Between two epsilons the curve is evaluated once more while this visibly raises the corner of their two lines.
    """
    powers = 2.0 ** np.arange(-8.0, 9.0)
    epsilons = np.array([0.0, *powers[powers < min(last, _FARTHEST)], min(last, _FARTHEST)])
    deltas = np.asarray(curve(epsilons), dtype=np.float64)
    count = 1 + int((deltas[:-1] > _NEGLIGIBLE).sum())
    epsilons, deltas = epsilons[:count], deltas[:count]
    open_cells = np.ones(count - 1, dtype=bool)
    while open_cells.any() and len(epsilons) < _MOST_POINTS:
        at = np.flatnonzero(open_cells)
        middles = (epsilons[at] + epsilons[at + 1]) / 2
        found = np.asarray(curve(middles), dtype=np.float64)
        corner, height = _corners(epsilons[at], deltas[at], epsilons[at + 1], deltas[at + 1])
        raised = np.exp(-middles) * (corner - found)
        useful = (raised > height * (1.0 + _TOLERANCE)) & (raised > _NEGLIGIBLE) & (corner < 1.0)
        epsilons, deltas = np.insert(epsilons, at + 1, middles), np.insert(deltas, at + 1, found)
        halves = at + np.arange(len(at))  # where the first halves of the cells are among the new cells
        open_cells = np.zeros(len(epsilons) - 1, dtype=bool)
        open_cells[halves] = open_cells[halves + 1] = useful
    return epsilons, deltas


def _corners(e1: FloatArray, d1: FloatArray, e2: FloatArray, d2: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Where the lines e^-e1 (r - d1) and e^-e2 (r - d2) meet, e1 < e2, as the mass r and the height."""
    steep, flat = np.exp(-e1), np.exp(-e2)
    meet = d1 + (d1 - d2) * flat / (steep - flat)
    return meet, steep * (meet - d1)


def wrong_mass_of_points(epsilons: FloatArray, deltas: FloatArray) -> WrongMass:
    """B of finitely many (epsilon, delta), increasing in epsilon, each of which holds in both directions.

    B(r) is the largest of 0, the lines e^-epsilon (r - delta), and the lines 1 - delta - e^epsilon (1 - r). Each of
    them is a valid bound by itself, so a corner that is rounded makes B smaller only.
    """
    slopes = np.exp(np.concatenate([-epsilons[::-1], epsilons]))
    offsets = np.concatenate([(np.exp(-epsilons) * deltas)[::-1], np.exp(epsilons) - (1.0 - deltas)])
    kept, corners = _upper_envelope(slopes.tolist(), offsets.tolist())
    count = len(epsilons)
    both = np.concatenate([deltas[::-1], deltas])
    lines = [(float(slopes[k]), float(both[k]), k < count) for k in kept]

    def wrong_mass(right: float) -> float:
        slope, delta, flat = lines[bisect_right(corners, right)]
        if flat:  # the difference of two doubles is exact up to one rounding
            return max(slope * (right - delta) * LOST, 0.0)
        taken = slope * (1.0 - right)
        return max(1.0 - delta - taken - 8 * _EPS * (1.0 + taken), 0.0)

    return wrong_mass


def _upper_envelope(slopes: list[float], offsets: list[float]) -> tuple[list[int], list[float]]:
    """Which of the lines slope r - offset, by non-decreasing slope, are the largest somewhere, and their corners."""
    kept: list[int] = []
    corners: list[float] = []
    for k, (slope, offset) in enumerate(zip(slopes, offsets, strict=True)):
        while kept:
            rise, below = slope - slopes[kept[-1]], offset - offsets[kept[-1]]
            if rise > 0.0 and below > 0.0 and (not corners or below / rise > corners[-1]):
                corners.append(below / rise)
                break
            kept.pop()
            if corners:
                corners.pop()
        kept.append(k)
    return kept, corners
