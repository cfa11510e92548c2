"""The probit likelihood of targets of two classes, with truncated slopes."""

import numpy as np
from scipy import special

from privsample._checks import FloatArray, positive
from privsample._value import frozen_value, set_fields
from privsample.distributions.likelihoods.base import UP, RegressionLikelihood, truncated
from privsample.distributions.likelihoods.classes import clean_classes, count_class_problems


@frozen_value
class ProbitLikelihood(RegressionLikelihood):
    """P(y = 1) = Phi(score), with clipped gradients. A target is 1 if it equals 1 and 0 otherwise.

    The gradient of a record is unbounded and therefore clipped, which amounts to another convex loss: where a record
    strongly contradicts its label, the loss grows linearly in the score and not quadratically as the probit loss does.

    Parameters
    ----------
    clip : float, default 1.0
        Largest absolute slope of a row of the largest norm, finite and > 0. The slope of a shorter row may be larger in
        proportion, so that the largest norm of a gradient is `clip` times the largest norm of a row.

    Raises
    ------
    TypeError, ValueError
        If `clip` is no number or out of range.

    Notes
    -----
    docs/notes/langevin.md, sections 4 and 5. Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> likelihood = ps.ProbitLikelihood(clip=0.5)
    >>> round(likelihood.gradient_norm(norm=2.0), 6), likelihood.mean(0.0).tolist()
    (1.0, 0.5)
    """

    clip: float = 1.0

    def __post_init__(self) -> None:
        set_fields(self, clip=positive(clip=self.clip))

    def smoothness(self, norm: float) -> float:
        """The curvature norm^2."""
        return norm * norm * UP

    def gradient_norm(self, norm: float) -> float:
        """`clip` times the norm."""
        return self.clip * norm * UP

    def slopes(self, scores: FloatArray, targets: FloatArray, room: FloatArray) -> FloatArray:
        """Minus the ratio of density and distribution function at the signed score, times the sign, truncated."""
        signs = 2.0 * targets[:, None] - 1.0
        with np.errstate(over="ignore"):  # erfcx overflows where the ratio vanishes
            ratio = np.sqrt(2.0 / np.pi) / special.erfcx(-signs * scores / np.sqrt(2.0))
        return truncated(-signs * ratio, self.clip, room)

    def clean_targets(self, targets: FloatArray) -> FloatArray:
        """1 where the target is 1, otherwise 0."""
        return clean_classes(targets, 2)

    def count_problems(self, targets: FloatArray) -> dict[str, int]:
        """Count the labels that are missing, and those that are neither 0 nor 1."""
        return count_class_problems(targets, 2)

    def mean(self, scores: FloatArray) -> FloatArray:
        """The probability of 1."""
        return np.asarray(special.ndtr(scores))

    @property
    def extreme_targets(self) -> tuple[float, float]:
        """The two classes."""
        return 1.0, 0.0
