"""The logistic likelihood of targets of two classes."""

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.distributions.likelihoods.base import UP, RegressionLikelihood, records_that_change
from privsample.distributions.likelihoods.classes import clean_classes, count_class_problems
from privsample.relations import Relation, ReplaceOne

SCALAR_GRADIENT_FACTOR = (
    1.0516339915453223  # sup over a >= 0 of sigma(a) + sup_{u <= 1} u sigma(-ua), rounded up; at a = 4.0316
)


@frozen_value
class LogisticLikelihood(RegressionLikelihood):
    """P(y = 1) = 1/(1 + e^-score). A target is 1 if it equals 1 and 0 otherwise.

    Notes
    -----
    docs/notes/langevin.md, section 4. Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> likelihood = ps.LogisticLikelihood()
    >>> round(likelihood.smoothness(norm=2.0), 6), likelihood.mean(0.0).tolist()
    (1.0, 0.5)
    """

    def smoothness(self, norm: float) -> float:
        """The curvature norm^2/4."""
        return norm * norm / 4.0 * UP

    def gradient_norm(self, norm: float) -> float:
        """The norm itself: slopes lie in (-1, 1)."""
        return norm

    def gradient_sensitivity(self, norm: float, relation: Relation, dimension: int = 2) -> float:
        """Twice the norm under ReplaceOne; 1.0516 times it with one coefficient (docs/notes/glm.md, section 2)."""
        if isinstance(relation, ReplaceOne) and dimension == 1:
            return SCALAR_GRADIENT_FACTOR * norm * UP
        return records_that_change(relation) * norm

    def slopes(self, scores: FloatArray, targets: FloatArray, room: FloatArray) -> FloatArray:
        """The probability of 1, minus the target."""
        del room
        return np.asarray(special.expit(scores) - targets[:, None])

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
