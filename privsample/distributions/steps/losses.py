"""Convex losses of one record, with the constants that determine the privacy cost of a gradient step."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from privsample._checks import FloatArray, Real, nonnegative, positive, positive_integer
from privsample._value import frozen_value, set_fields
from privsample.distributions.steps.maps import Ball

_UP = 1 + 1e-12
_ROUNDING = 1e-12  # relative to a bound: smaller changes of targets are not reported
_LOST = 4 * float(np.finfo(np.float64).eps)
_RAISED = 1e-12  # added to each tangent, so that rounding cannot put it below sigma
_FLAT = 40.0  # sigma equals one in double precision above this
_TOUCHING = np.linspace(0.0, 1.0, 201)[1:]


class ConvexLoss(ABC):
    """A loss of the score x.w of a row x with L2 norm at most `norm`, plus penalty |w|^2/2; |w| <= radius.

    With an intercept, each row has a constant last entry 1, and w one more coefficient, last; the penalty, the norm and
    the radius include both.

    Attributes
    ----------
    features : int
        Number of features, >= 1.
    norm : float
        Largest L2 norm of a row, finite and > 0.
    radius : float
        Radius of the ball of coefficients, finite and > 0.
    penalty : float
        Coefficient of the L2 penalty, finite and >= 0.
    intercept : bool
        True if the model has an intercept.
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
        """G: the largest L2 distance between the gradients of two records at one point; the penalty cancels."""

    @property
    @abstractmethod
    def gradient_norm(self) -> float:
        """The largest L2 norm of the gradient of one record, without the penalty, rounded up."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """The smoothness beta: the largest curvature of the loss, including the penalty."""

    @abstractmethod
    def slopes(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Derivatives of the loss with respect to the score.

        Parameters
        ----------
        scores : array
            Scores x.w.
        targets : array
            Targets after the public rule, of the shape of `scores`.

        Returns
        -------
        array
            Derivatives, of the shape of `scores`.
        """

    @abstractmethod
    def clean_targets(self, targets: FloatArray) -> FloatArray:
        """Map targets to valid ones by the public rule, which is defined for every float.

        Parameters
        ----------
        targets : array
            Targets; a missing target is NaN.

        Returns
        -------
        array
            Valid targets, of the same shape.
        """

    @abstractmethod
    def count_problems(self, targets: FloatArray) -> dict[str, int]:
        """Count the targets that the public rule changes, by reason.

        Parameters
        ----------
        targets : array
            Targets; a missing target is NaN.

        Returns
        -------
        dict of str to int
            The count of each reason. The counts depend on the data and are for the curator only.
        """

    @property
    def convexity(self) -> float:
        """The strong convexity rho, which is the penalty."""
        return self.penalty

    @property
    def width(self) -> int:
        """The number of coefficients, including the intercept."""
        return self.features + int(self.intercept)

    @property
    def max_row_norm(self) -> float:
        """The largest L2 norm of a row, including the constant entry of the intercept, rounded up."""
        return float(np.hypot(self.norm, float(self.intercept))) * _UP

    @property
    def ball(self) -> Ball:
        """The projection onto the ball of coefficients."""
        return Ball(radius=self.radius)

    def contraction(self, rate: float) -> float:
        """Lipschitz constant max(|1 - rate rho|, |1 - rate beta|) of one gradient step, rounded up.

        Parameters
        ----------
        rate : float
            Learning rate, in (0, 2/smoothness].

        Returns
        -------
        float
            The constant, at most 1.

        Raises
        ------
        ValueError
            If the rate is out of range: steps would then expand distances.
        """
        rate, most = positive(rate=rate), 2.0 / self.smoothness
        if not rate <= most:
            raise ValueError(f"rate must be at most 2/smoothness = {most:.6g} here, got {rate:g}: steps would expand")
        largest = max(abs(1.0 - rate * self.convexity), abs(1.0 - rate * self.smoothness))
        return min(largest + _LOST, 1.0)  # rounded up: a million steps raise it to the power two million


def _largest_scaled_distance(max_norm: float, constant: Real, slope: Real) -> FloatArray:
    """Largest |c z - c' z'| over |z|, |z'| <= max_norm and 0 <= c <= constant + slope e.z/max_norm, |e| = 1.

    The maximum of 2 max_norm cos a (constant + slope sin a), where slope cos 2a = constant sin a: docs/notes/sgd.md.
    """
    y, k = np.asarray(constant, dtype=np.float64), np.asarray(slope, dtype=np.float64)
    sine = 2.0 * k / (y + np.hypot(y, np.sqrt(8.0) * k))
    return np.asarray(2.0 * max_norm * np.sqrt(1.0 - sine * sine) * (y + k * sine) * _UP)


def _checked(loss: Any) -> None:
    """Check and store the fields that all losses have."""
    set_fields(loss, features=positive_integer(features=loss.features), norm=positive(norm=loss.norm))
    set_fields(loss, radius=positive(radius=loss.radius), penalty=nonnegative(penalty=loss.penalty))
    if not isinstance(loss.intercept, (bool, np.bool_)):
        raise TypeError(f"intercept must be True or False, got {loss.intercept!r}")
    positive(**{"gradient_sensitivity * smoothness": loss.gradient_sensitivity * loss.smoothness})


@frozen_value
class LogisticLoss(ConvexLoss):
    """Logistic loss log(1 + e^(-y x.w)), with y = 1 where the target equals 1 and y = -1 elsewhere.

    Parameters
    ----------
    features : int
        Number of features, >= 1.
    norm : float
        Largest L2 norm of a row, finite and > 0; longer rows are scaled down.
    radius : float
        Radius of the ball of coefficients, finite and > 0.
    penalty : float, default 0
        Coefficient of |w|^2/2, finite and >= 0.
    intercept : bool, default True
        True if the model has an intercept.

    Raises
    ------
    TypeError, ValueError
        If a field has the wrong type or is out of range.

    Examples
    --------
    >>> import privsample as ps
    >>> print(f"{ps.LogisticLoss(features=3, norm=1, radius=5, intercept=False).smoothness:.3f}")
    0.250
    """

    features: int
    norm: float
    radius: float
    penalty: float = 0.0
    intercept: bool = True

    def __post_init__(self) -> None:
        _checked(self)

    @property
    def gradient_sensitivity(self) -> float:
        """An upper bound on the gradient sensitivity, at most twice the norm and within 0.1 % of the smallest bound.

        A record's gradient is -sigma(-s) z, where z is its row times its label, s = z.w and |s| <= k = norm radius.
        Each line above sigma on [-k, k] gives a bound; the lines used are tangents at u in (0, k] (docs/notes/sgd.md,
        section 1).
        """
        k = self.max_row_norm * self.radius
        u = min(k, _FLAT) * _TOUCHING
        height, slope = special.expit(u), special.expit(u) * special.expit(-u)
        constant = height - u * slope + _RAISED
        above = constant - k * slope >= special.expit(-k) + _RAISED / 2  # sigma is convex on [-k, 0]
        found = _largest_scaled_distance(self.max_row_norm, constant[above], k * slope[above])
        return float(min(found.min(initial=np.inf), 2.0 * self.max_row_norm))

    @property
    def gradient_norm(self) -> float:
        """The norm of the longest row times sigma(norm radius)."""
        return self.max_row_norm * min(float(special.expit(self.max_row_norm * self.radius)) + _RAISED, 1.0)

    @property
    def smoothness(self) -> float:
        """The smoothness norm^2/4 + penalty."""
        return self.max_row_norm * self.max_row_norm / 4 + self.penalty

    def slopes(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """The derivatives -y sigma(-y s)."""
        return np.asarray(special.expit(scores) - targets)

    def clean_targets(self, targets: FloatArray) -> FloatArray:
        """1 where the target is 1, otherwise 0."""
        return np.where(targets == 1.0, 1.0, 0.0)

    def count_problems(self, targets: FloatArray) -> dict[str, int]:
        """Count the labels that are neither 0 nor 1."""
        return {"labels that are neither 0 nor 1": int((~np.isin(targets, (0.0, 1.0))).sum())}


@frozen_value
class SquaredLoss(ConvexLoss):
    """Squared loss (x.w - y)^2/2 with |y| <= target.

    Parameters
    ----------
    features : int
        Number of features, >= 1.
    norm : float
        Largest L2 norm of a row, finite and > 0; longer rows are scaled down.
    radius : float
        Radius of the ball of coefficients, finite and > 0.
    target : float
        Largest absolute value of a target, finite and > 0; larger ones are clipped.
    penalty : float, default 0
        Coefficient of |w|^2/2, finite and >= 0.
    intercept : bool, default True
        True if the model has an intercept.

    Raises
    ------
    TypeError, ValueError
        If a field has the wrong type or is out of range.

    Examples
    --------
    >>> import privsample as ps
    >>> print(f"{ps.SquaredLoss(features=3, norm=1, radius=5, target=2, intercept=False).smoothness:.3f}")
    1.000
    """

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
        """The gradient sensitivity: the maximum of 2 norm cos a (norm radius sin a + target) over angles a.

        Exact for two or more coefficients and no intercept, otherwise an upper bound (docs/notes/sgd.md, section 1).
        """
        return float(_largest_scaled_distance(self.max_row_norm, self.target, self.max_row_norm * self.radius))

    @property
    def gradient_norm(self) -> float:
        """The norm of the longest row times norm radius + target."""
        return self.max_row_norm * (self.max_row_norm * self.radius + self.target) * _UP

    @property
    def smoothness(self) -> float:
        """The smoothness norm^2 + penalty."""
        return self.max_row_norm * self.max_row_norm + self.penalty

    def slopes(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """The derivatives s - y."""
        return scores - targets

    def clean_targets(self, targets: FloatArray) -> FloatArray:
        """Clip targets to [-target, target]; a missing target becomes 0."""
        return np.clip(np.where(np.isnan(targets), 0.0, targets), -self.target, self.target)

    def count_problems(self, targets: FloatArray) -> dict[str, int]:
        """Count the targets that are missing, or outside the bounds by more than rounding."""
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
    edges: NDArray[np.int64] | None = None,
) -> FloatArray:
    """One pass of projected noisy gradient descent over batches of rows; returns the final state, shape (width,).

    The rows, shape (k, width), and targets, shape (k,), have passed the public rule. `noise`, shape
    (ceil(k / batch), width), is added to the mean gradients. The gradient of a short last batch is divided by the full
    batch size, as if records with zero gradient completed it. `edges`, shape (steps + 1,), are the positions between
    which the steps read the rows, if batches have unequal sizes; sums are divided by `batch` all the same.
    """
    if edges is None:
        edges = np.minimum(np.arange(len(noise) + 1) * batch, len(rows))
    w, keep, share = start, 1.0 - rate * loss.penalty, rate / batch
    limit = loss.radius * loss.radius  # the operator ** would raise OverflowError
    pushed = rate * noise
    for k, push in enumerate(pushed):
        part = slice(edges[k], edges[k + 1])
        x = rows[part]
        w = keep * w - share * (loss.slopes(x @ w, targets[part]) @ x) - push
        length = w @ w
        if length > limit:
            w *= loss.radius / np.sqrt(length)
    return w
