"""The multinomial logistic likelihood of targets of several classes."""

import math

import numpy as np
from scipy import special

from privsample._checks import FloatArray, positive_integer
from privsample._value import frozen_value, set_fields
from privsample.distributions.likelihoods.base import UP, RegressionLikelihood
from privsample.distributions.likelihoods.classes import clean_classes, count_class_problems


@frozen_value
class SoftmaxLikelihood(RegressionLikelihood):
    """P(y = k) proportional to e^(score k), with a score for each class (multinomial logistic regression).

    Each class has its own coefficients, all with the same prior. A target that is no class 0, ..., classes - 1 counts
    as 0.

    Parameters
    ----------
    classes : int
        Number K of classes, >= 2.

    Raises
    ------
    TypeError, ValueError
        If `classes` is no whole number or out of range.

    Notes
    -----
    Rows are scaled down, not gradients: clipped gradients of this loss are not the gradients of any convex loss
    (docs/notes/langevin.md, section 5). Kind: upper bound.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> likelihood = ps.SoftmaxLikelihood(classes=3)
    >>> round(likelihood.gradient_norm(norm=1.0), 4), likelihood.mean(np.zeros(3)).round(4).tolist()
    (1.4142, [0.3333, 0.3333, 0.3333])
    """

    classes: int

    def __post_init__(self) -> None:
        classes = positive_integer(classes=self.classes)
        if not classes >= 2:
            raise ValueError(f"classes must be at least 2, got {classes}")
        set_fields(self, classes=classes)

    @property
    def score_columns(self) -> int:
        """The number of classes."""
        return self.classes

    def smoothness(self, norm: float) -> float:
        """The curvature norm^2/2."""
        return norm * norm / 2.0 * UP

    def gradient_norm(self, norm: float) -> float:
        """The square root of 2 times the norm."""
        return math.sqrt(2.0) * norm * UP

    def slopes(self, scores: FloatArray, targets: FloatArray, room: FloatArray) -> FloatArray:
        """The probabilities of the classes, minus 1 at the target's class."""
        del room
        found = special.softmax(scores, axis=2)
        found[np.arange(len(targets)), :, targets.astype(np.intp)] -= 1.0
        return np.asarray(found)

    def clean_targets(self, targets: FloatArray) -> FloatArray:
        """The labels; one that is no class counts as 0."""
        return clean_classes(targets, self.classes)

    def count_problems(self, targets: FloatArray) -> dict[str, int]:
        """Count the labels that are missing, and those that are no class."""
        return count_class_problems(targets, self.classes)

    def mean(self, scores: FloatArray) -> FloatArray:
        """The probabilities of the classes along the last axis."""
        return np.asarray(special.softmax(scores, axis=-1))

    @property
    def extreme_targets(self) -> tuple[float, float]:
        """The last class and the first."""
        return self.classes - 1.0, 0.0
