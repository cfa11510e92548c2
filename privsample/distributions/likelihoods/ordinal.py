"""The ordered logistic likelihood of targets of ordered categories, with public cutpoints."""

from itertools import pairwise

import numpy as np
from scipy import special

from privsample._checks import FloatArray, finite, listed
from privsample._value import frozen_value, set_fields
from privsample.distributions.likelihoods.base import UP, RegressionLikelihood
from privsample.distributions.likelihoods.classes import clean_classes, count_class_problems


@frozen_value
class OrdinalLikelihood(RegressionLikelihood):
    """P(y <= j) = 1/(1 + e^(score - cutpoint j)) for ordered categories 0, ..., J, with fixed cutpoints.

    A target that is no category 0, ..., J counts as 0.

    Parameters
    ----------
    cutpoints : tuple of float
        The J >= 1 cutpoints, finite and increasing. They are public: chosen without the data.

    Raises
    ------
    TypeError, ValueError
        If the cutpoints are no list of increasing finite numbers.

    Notes
    -----
    docs/notes/langevin.md, section 4. Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> likelihood = ps.OrdinalLikelihood(cutpoints=(-1.0, 1.0))
    >>> likelihood.mean(0.0).round(4).tolist()
    [0.2689, 0.4621, 0.2689]
    """

    cutpoints: tuple[float, ...]

    def __post_init__(self) -> None:
        given = listed(cutpoints=self.cutpoints)
        cutpoints = tuple(finite(**{f"cutpoints[{k}]": item}) for k, item in enumerate(given))
        if not cutpoints or not all(low < high for low, high in pairwise(cutpoints)):
            raise ValueError(f"cutpoints must be one or more increasing numbers, got {cutpoints}")
        set_fields(self, cutpoints=cutpoints)

    @property
    def _ends(self) -> FloatArray:
        """The cutpoints between minus and plus infinity, shape (J + 2,)."""
        return np.array([-np.inf, *self.cutpoints, np.inf])

    def smoothness(self, norm: float) -> float:
        """The curvature norm^2/2, or norm^2/4 for two categories."""
        return norm * norm / (4.0 if len(self.cutpoints) == 1 else 2.0) * UP

    def gradient_norm(self, norm: float) -> float:
        """The norm itself: slopes lie in (-1, 1)."""
        return norm

    def slopes(self, scores: FloatArray, targets: FloatArray, room: FloatArray) -> FloatArray:
        """1 - s(upper cutpoint - score) - s(lower cutpoint - score), with the logistic function s."""
        del room
        place = targets.astype(np.intp)
        low, high = self._ends[place][:, None], self._ends[place + 1][:, None]
        return np.asarray(special.expit(scores - high) - special.expit(low - scores))

    def clean_targets(self, targets: FloatArray) -> FloatArray:
        """The categories; a target that is no category counts as 0."""
        return clean_classes(targets, len(self.cutpoints) + 1)

    def count_problems(self, targets: FloatArray) -> dict[str, int]:
        """Count the targets that are missing, and those that are no category."""
        return count_class_problems(targets, len(self.cutpoints) + 1)

    def mean(self, scores: FloatArray) -> FloatArray:
        """The probabilities of the categories along a new last axis."""
        below = special.expit(self._ends - np.asarray(scores, dtype=np.float64)[..., None])
        return np.asarray(np.diff(below, axis=-1))

    @property
    def extreme_targets(self) -> tuple[float, float]:
        """The last category and the first."""
        return float(len(self.cutpoints)), 0.0
