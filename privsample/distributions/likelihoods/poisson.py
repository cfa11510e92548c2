"""The Poisson likelihood of counts, with clipped counts and clipped gradients."""

import numpy as np

from privsample._checks import FloatArray, positive
from privsample._value import frozen_value, set_fields
from privsample.distributions.likelihoods.base import UP, RegressionLikelihood, truncated
from privsample.distributions.likelihoods.classes import count_missing


@frozen_value
class PoissonLikelihood(RegressionLikelihood):
    """The likelihood of a count with mean e^score, with clipped gradients. Counts are clipped to [0, max_count].

    A missing count becomes 0.

    Parameters
    ----------
    max_count : float
        Largest count, finite and > 0; public.
    clip : float
        The difference of mean and count at which the gradient of a row of the largest norm is clipped, finite and > 0.
        Shorter rows are clipped at proportionally larger differences.

    Raises
    ------
    TypeError, ValueError
        If a field is no number or out of range.

    Notes
    -----
    docs/notes/langevin.md, sections 4 and 5. Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> likelihood = ps.PoissonLikelihood(max_count=10, clip=5)
    >>> round(likelihood.smoothness(norm=1.0), 6), likelihood.mean(0.0).tolist()
    (15.0, 1.0)
    """

    max_count: float
    clip: float

    def __post_init__(self) -> None:
        set_fields(self, max_count=positive(max_count=self.max_count), clip=positive(clip=self.clip))

    def smoothness(self, norm: float) -> float:
        """The curvature norm^2 (max_count + clip), where the slope is not truncated."""
        return norm * norm * (self.max_count + self.clip) * UP

    def gradient_norm(self, norm: float) -> float:
        """`clip` times the norm."""
        return self.clip * norm * UP

    def slopes(self, scores: FloatArray, targets: FloatArray, room: FloatArray) -> FloatArray:
        """The mean minus the count, truncated."""
        with np.errstate(over="ignore"):
            return truncated(np.exp(scores) - targets[:, None], self.clip, room)

    def clean_targets(self, targets: FloatArray) -> FloatArray:
        """Counts clipped to [0, max_count]; a missing one becomes 0."""
        return np.clip(np.where(np.isnan(targets), 0.0, targets), 0.0, self.max_count)

    def count_problems(self, targets: FloatArray) -> dict[str, int]:
        """Count the targets that are missing, negative, above the largest count, or no whole number."""
        known = targets[~np.isnan(targets)]
        return count_missing(targets) | {
            "negative counts": int((known < 0).sum()),
            "counts above max_count": int((known > self.max_count).sum()),
            "counts that are no whole number": int((known != np.round(known)).sum()),
        }

    def mean(self, scores: FloatArray) -> FloatArray:
        """The mean count e^score."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(scores))

    @property
    def extreme_targets(self) -> tuple[float, float]:
        """The largest count and 0."""
        return self.max_count, 0.0
