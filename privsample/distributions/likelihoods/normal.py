"""Likelihoods of real targets: Huber's, and the normal one with clipped gradients."""

from abc import abstractmethod

import numpy as np

from privsample._checks import FloatArray, positive
from privsample._value import frozen_value, set_fields
from privsample.distributions.likelihoods.base import UP, RegressionLikelihood, truncated
from privsample.distributions.likelihoods.classes import count_missing

_FAR = 1e6  # an extreme target, in units of the residual at which slopes are truncated


class RealLikelihood(RegressionLikelihood):
    """Base class: a real target with mean score, whose slope is a truncated residual; a missing target counts as 0."""

    __slots__ = ()
    noise_std: float

    @property
    @abstractmethod
    def _limit(self) -> float:
        """The largest slope of a row of the largest norm, in units of 1/noise_std."""

    def smoothness(self, norm: float) -> float:
        """The curvature norm^2/noise_std^2."""
        ratio = norm / self.noise_std
        return ratio * ratio * UP

    def gradient_norm(self, norm: float) -> float:
        """The truncation times norm/noise_std."""
        return self._limit * (norm / self.noise_std) * UP

    def clean_targets(self, targets: FloatArray) -> FloatArray:
        """The targets; a missing one becomes 0."""
        return np.where(np.isnan(targets), 0.0, targets)

    def count_problems(self, targets: FloatArray) -> dict[str, int]:
        """Count the targets that are missing."""
        return count_missing(targets)

    def mean(self, scores: FloatArray) -> FloatArray:
        """The score itself."""
        return np.asarray(scores, dtype=np.float64)

    @property
    def extreme_targets(self) -> tuple[float, float]:
        """Targets so far away that slopes are truncated."""
        far = _FAR * self._limit * self.noise_std
        return far, -far

    def _residuals(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.asarray((scores - targets[:, None]) / self.noise_std)


@frozen_value
class HuberLikelihood(RealLikelihood):
    """Huber's loss of the residual (score - y)/noise_std: quadratic up to `threshold`, linear beyond.

    The target may be any number; a missing one counts as 0. The gradient is bounded by itself, so that nothing has
    to be clipped.

    Parameters
    ----------
    threshold : float
        The residual at which the loss becomes linear, in units of `noise_std`, finite and > 0.
    noise_std : float, default 1.0
        Scale of the residuals, finite and > 0.

    Raises
    ------
    TypeError, ValueError
        If a field is no number or out of range.

    Notes
    -----
    Huber 1964; docs/notes/langevin.md, section 4. Kind: exact for the gradient sensitivity.

    Examples
    --------
    >>> import privsample as ps
    >>> likelihood = ps.HuberLikelihood(threshold=1.345)
    >>> round(likelihood.gradient_norm(norm=2.0), 6)
    2.69
    """

    threshold: float
    noise_std: float = 1.0

    def __post_init__(self) -> None:
        set_fields(self, threshold=positive(threshold=self.threshold), noise_std=positive(noise_std=self.noise_std))

    @property
    def _limit(self) -> float:
        return self.threshold

    def slopes(self, scores: FloatArray, targets: FloatArray, room: FloatArray) -> FloatArray:
        """The residuals clipped to the threshold, divided by noise_std."""
        del room
        return np.clip(self._residuals(scores, targets), -self.threshold, self.threshold) / self.noise_std


@frozen_value
class NormalLikelihood(RealLikelihood):
    """The likelihood of y ~ N(score, noise_std^2), with clipped gradients.

    The target may be any number; a missing one counts as 0. Clipping the gradient of a record amounts to a Huber loss
    whose threshold is inversely proportional to the norm of the row.

    Parameters
    ----------
    noise_std : float
        Standard deviation of the targets given the scores, finite and > 0; public.
    clip : float
        The residual, in units of `noise_std`, at which the gradient of a row of the largest norm is clipped, finite and
        > 0. Shorter rows are clipped at proportionally larger residuals.

    Raises
    ------
    TypeError, ValueError
        If a field is no number or out of range.

    Notes
    -----
    docs/notes/langevin.md, sections 4 and 5. Kind: exact for the gradient sensitivity.

    Examples
    --------
    >>> import privsample as ps
    >>> likelihood = ps.NormalLikelihood(noise_std=0.5, clip=2.0)
    >>> round(likelihood.gradient_norm(norm=1.0), 6), round(likelihood.smoothness(norm=1.0), 6)
    (4.0, 4.0)
    """

    noise_std: float
    clip: float

    def __post_init__(self) -> None:
        set_fields(self, noise_std=positive(noise_std=self.noise_std), clip=positive(clip=self.clip))

    @property
    def _limit(self) -> float:
        return self.clip

    def slopes(self, scores: FloatArray, targets: FloatArray, room: FloatArray) -> FloatArray:
        """The residuals, truncated in proportion to the room of their rows, divided by noise_std."""
        return truncated(self._residuals(scores, targets), self.clip, room) / self.noise_std
