"""Losses of one record, convex in the coefficients, with the constants that decide what a step of descent costs."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy import special

from privsample._checks import FloatArray, Real, nonnegative, positive, positive_integer
from privsample._value import frozen_value, set_fields
from privsample.distributions.steps.maps import Ball

_UP = 1 + 1e-12
_ROUNDING = 1e-12  # of a bound: targets that are moved by less are not reported
_LOST = 4 * float(np.finfo(np.float64).eps)
_RAISED = 1e-12  # a line is raised by so much
_FLAT = 40.0  # sigma is one there
_TOUCHING = np.linspace(0.0, 1.0, 201)[1:]


class ConvexLoss(ABC):
    """A loss of x.w, x a row of L2 norm at most `norm`, plus penalty |w|^2/2; w lies in the ball of `radius`.

    With an intercept each row has one more entry, a one, and w one more coefficient, last; both count in full.
    """

    __slots__ = ()
    features: int
    norm: float
    radius: float
    penalty: float
    intercept: bool

    @property
    @abstractmethod
    def gradient_sensitivity(self) -> float:
        """G: the largest L2 distance of two records' gradients at one point of the ball; the penalty cancels."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """beta: the largest curvature, penalty included."""

    @abstractmethod
    def slopes(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """The derivatives in x.w; shape of scores."""

    @abstractmethod
    def clean_targets(self, targets: FloatArray) -> FloatArray:
        """The targets after the public rule: total on every float."""

    @abstractmethod
    def count_problems(self, targets: FloatArray) -> dict[str, int]:
        """How many targets the rule changes, by reason. For the curator's eyes only."""

    @property
    def convexity(self) -> float:
        """rho: the penalty."""
        return self.penalty

    @property
    def width(self) -> int:
        """Coefficients, intercept included."""
        return self.features + int(self.intercept)

    @property
    def reach(self) -> float:
        """The largest norm of a row, with its one."""
        return float(np.hypot(self.norm, float(self.intercept))) * _UP

    @property
    def ball(self) -> Ball:
        """Where the coefficients live."""
        return Ball(radius=self.radius)

    def contraction(self, rate: float) -> float:
        """max(|1 - rate rho|, |1 - rate beta|), from above: the step's Lipschitz constant. Raises: ValueError."""
        rate, most = positive(rate=rate), 2.0 / self.smoothness
        if not rate <= most:
            raise ValueError(f"rate must be at most 2/smoothness = {most:.6g} here, got {rate:g}: steps would expand")
        largest = max(abs(1.0 - rate * self.convexity), abs(1.0 - rate * self.smoothness))
        return min(largest + _LOST, 1.0)  # a million steps raise it to the power of two million


def _furthest(reach: float, constant: Real, slope: Real) -> FloatArray:
    """The greatest distance of c z and c' z', |z|, |z'| <= reach, 0 <= c <= constant + slope e.z/reach, |e| = 1.

    The maximum of 2 reach cos a (constant + slope sin a), where slope cos 2a = constant sin a: docs/notes/sgd.md.
    """
    y, k = np.asarray(constant, dtype=np.float64), np.asarray(slope, dtype=np.float64)
    sine = 2.0 * k / (y + np.hypot(y, np.sqrt(8.0) * k))
    return np.asarray(2.0 * reach * np.sqrt(1.0 - sine * sine) * (y + k * sine) * _UP)


def _checked(loss: Any) -> None:
    set_fields(loss, features=positive_integer(features=loss.features), norm=positive(norm=loss.norm))
    set_fields(loss, radius=positive(radius=loss.radius), penalty=nonnegative(penalty=loss.penalty))
    if not isinstance(loss.intercept, (bool, np.bool_)):
        raise TypeError(f"intercept must be True or False, got {loss.intercept!r}")
    positive(**{"gradient_sensitivity * smoothness": loss.gradient_sensitivity * loss.smoothness})


@frozen_value
class LogisticLoss(ConvexLoss):
    """log(1 + e^(-y x.w)), y = 1 where the target equals 1 and -1 elsewhere: beta = norm^2/4 + penalty."""

    features: int
    norm: float
    radius: float
    penalty: float = 0.0
    intercept: bool = True

    def __post_init__(self) -> None:
        _checked(self)

    @property
    def gradient_sensitivity(self) -> float:
        """At most twice the norm; a tenth of a percent above the least bound, or less. An upper bound.

        A record's gradient is -sigma(-s) z, z its row times its label and s = z.w, |s| <= k = norm radius. Each line
        above sigma on [-k, k] gives a bound; these touch it at u in (0, k]. Source: docs/notes/sgd.md, section 1.
        """
        k = self.reach * self.radius
        u = min(k, _FLAT) * _TOUCHING
        height, slope = special.expit(u), special.expit(u) * special.expit(-u)
        constant = height - u * slope + _RAISED
        above = constant - k * slope >= special.expit(-k) + _RAISED / 2  # sigma is convex on [-k, 0]
        found = _furthest(self.reach, constant[above], k * slope[above])
        return float(min(found.min(initial=np.inf), 2.0 * self.reach))

    @property
    def smoothness(self) -> float:
        """A quarter of the largest norm squared, and the penalty."""
        return self.reach * self.reach / 4 + self.penalty

    def slopes(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """-y sigma(-y s)."""
        return np.asarray(special.expit(scores) - targets)

    def clean_targets(self, targets: FloatArray) -> FloatArray:
        """1 where the target is 1, else 0."""
        return np.where(targets == 1.0, 1.0, 0.0)

    def count_problems(self, targets: FloatArray) -> dict[str, int]:
        """Labels that are neither 0 nor 1."""
        return {"labels that are neither 0 nor 1": int((~np.isin(targets, (0.0, 1.0))).sum())}


@frozen_value
class SquaredLoss(ConvexLoss):
    """(x.w - y)^2/2 with |y| at most `target`: beta = norm^2 + penalty."""

    features: int
    norm: float
    radius: float
    target: float
    penalty: float = 0.0
    intercept: bool = True

    def __post_init__(self) -> None:
        set_fields(self, target=positive(target=self.target))
        _checked(self)

    @property
    def gradient_sensitivity(self) -> float:
        """Maximum of 2 norm cos a (norm radius sin a + target) over angles a.

        Exact for two coefficients or more and no intercept, else an upper bound. Source: docs/notes/sgd.md, section 1.
        """
        return float(_furthest(self.reach, self.target, self.reach * self.radius))

    @property
    def smoothness(self) -> float:
        """The largest norm squared, and the penalty."""
        return self.reach * self.reach + self.penalty

    def slopes(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """s - y."""
        return scores - targets

    def clean_targets(self, targets: FloatArray) -> FloatArray:
        """Moved into [-target, target]; what is no number counts as 0."""
        return np.clip(np.where(np.isnan(targets), 0.0, targets), -self.target, self.target)

    def count_problems(self, targets: FloatArray) -> dict[str, int]:
        """Targets that are no number, or out of bounds by more than rounding."""
        known = ~np.isnan(targets)
        beyond = int((np.abs(targets[known]) > self.target * (1.0 + _ROUNDING)).sum())
        return {"targets that are no number": int((~known).sum()), "targets out of bounds": beyond}


def descent_pass(
    loss: ConvexLoss,
    start: FloatArray,
    rows: FloatArray,
    targets: FloatArray,
    *,
    rate: float,
    noise: FloatArray,
    batch: int,
) -> FloatArray:
    """The state after one step of gradient descent for each batch of rows, in their order, from `start`, (width,).

    rows, (k, width), and targets, (k,), after the public rule; noise, (ceil(k / batch), width), is added to the mean
    gradients. A short last batch counts as if records without a gradient filled it up.
    """
    w, keep, share, limit = start, 1.0 - rate * loss.penalty, rate / batch, loss.radius**2
    pushed = rate * noise
    for k, push in enumerate(pushed):
        part = slice(k * batch, (k + 1) * batch)
        x = rows[part]
        w = keep * w - share * (loss.slopes(x @ w, targets[part]) @ x) - push
        length = w @ w
        if length > limit:
            w *= loss.radius / np.sqrt(length)
    return w
