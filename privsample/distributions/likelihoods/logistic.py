"""The logistic likelihood of targets of two classes."""

import numpy as np
from scipy import special

from privsample._checks import FloatArray, positive
from privsample._value import frozen_value, set_fields
from privsample.distributions.likelihoods.base import UP, RegressionLikelihood, records_that_change, truncated
from privsample.distributions.likelihoods.classes import clean_classes, count_class_problems
from privsample.relations import Relation, ReplaceOne

SCALAR_GRADIENT_FACTOR = (
    1.0516339915453223  # sup over a >= 0 of sigma(a) + sup_{u <= 1} u sigma(-ua), rounded up; at a = 4.0316
)
_CLIPS_TO_ONE = 0.782  # below sigma(1 + W(1/e)) = 0.78219


@frozen_value
class LogisticLikelihood(RegressionLikelihood):
    """P(y = 1) = 1/(1 + e^-score). A target is 1 if it equals 1 and 0 otherwise.

    Parameters
    ----------
    clip : float, optional
        Largest absolute slope of a row of the largest norm, in (0, 1): records that contradict their label count less,
        and cost less. The slope of a shorter row may be larger in proportion. None clips nothing.

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
    >>> likelihood = ps.LogisticLikelihood()
    >>> round(likelihood.smoothness(norm=2.0), 6), likelihood.mean(0.0).tolist()
    (1.0, 0.5)
    """

    clip: float | None = None

    def __post_init__(self) -> None:
        if self.clip is not None:
            clip = positive(clip=self.clip)
            if not clip < 1.0:
                raise ValueError(f"clip must be below 1, the bound of all slopes, or None, got {clip:g}")
            set_fields(self, clip=clip)

    def smoothness(self, norm: float) -> float:
        """The curvature norm^2/4."""
        return norm * norm / 4.0 * UP

    def gradient_norm(self, norm: float) -> float:
        """The norm itself, as slopes lie in (-1, 1); or `clip` times the norm."""
        return norm if self.clip is None else self.clip * norm * UP

    def gradient_sensitivity(self, norm: float, relation: Relation, dimension: int = 2) -> float:
        """Twice the norm of a gradient under ReplaceOne, or less with one coefficient (docs/notes/langevin.md, 4)."""
        twice = records_that_change(relation) * self.gradient_norm(norm)
        if not (isinstance(relation, ReplaceOne) and dimension == 1):
            return twice
        factor = 1.0 if self.clip is not None and self.clip <= _CLIPS_TO_ONE else SCALAR_GRADIENT_FACTOR
        return min(twice, factor * norm * UP)

    def slopes(self, scores: FloatArray, targets: FloatArray, room: FloatArray) -> FloatArray:
        """The probability of 1, minus the target, truncated if `clip` is given."""
        found = np.asarray(special.expit(scores) - targets[:, None])
        return found if self.clip is None else truncated(found, self.clip, room)

    def clean_targets(self, targets: FloatArray) -> FloatArray:
        """1 where the target is 1, otherwise 0."""
        return clean_classes(targets, 2)

    def count_problems(self, targets: FloatArray) -> dict[str, int]:
        """Count the labels that are missing, and those that are neither 0 nor 1."""
        return count_class_problems(targets, 2)

    def mean(self, scores: FloatArray) -> FloatArray:
        """The probability of 1."""
        return np.asarray(special.expit(scores))

    @property
    def extreme_targets(self) -> tuple[float, float]:
        """The two classes."""
        return 1.0, 0.0
