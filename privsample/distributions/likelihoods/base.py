"""The interface of the likelihoods of regressions (docs/notes/langevin.md, sections 4 and 5)."""

from abc import ABC, abstractmethod

import numpy as np

from privsample._checks import FloatArray
from privsample.relations import AddRemove, Relation, ReplaceOne

UP = 1.0 + 2.0**-49  # bounds the relative rounding error of a few operations
_MOST_ROOM = 1e100  # rows that are shorter still are truncated earlier, so that no slope overflows
_MOST_SLOPE = 1e250


class RegressionLikelihood(ABC):
    """The likelihood of a target y given a row z: a function of the scores z.w, log-concave in the coefficients w.

    The loss of a record is minus its log likelihood, and convex in w. All constants hold for every row of L2 norm at
    most `norm`, every target, and all coefficients.

    Examples
    --------
    >>> import privsample as ps
    >>> likelihood = ps.LogisticLikelihood()
    >>> isinstance(likelihood, ps.RegressionLikelihood), likelihood.smoothness(norm=2.0) >= 1.0
    (True, True)
    """

    __slots__ = ()

    @property
    def score_columns(self) -> int:
        """Number of scores of a record: 1, or the number of classes."""
        return 1

    @abstractmethod
    def smoothness(self, norm: float) -> float:
        """An upper bound on the eigenvalues of the Hessian of the loss of one record, rounded up.

        Parameters
        ----------
        norm : float
            Largest L2 norm of a row, > 0.

        Returns
        -------
        float
            The bound on the largest eigenvalue, in units of 1/(coefficient squared).
        """

    @abstractmethod
    def gradient_norm(self, norm: float) -> float:
        """An upper bound on the L2 norm of the gradient of one record, rounded up.

        Parameters
        ----------
        norm : float
            Largest L2 norm of a row, > 0.

        Returns
        -------
        float
            The bound on the norm, for a record of weight 1.
        """

    def gradient_sensitivity(self, norm: float, relation: Relation, dimension: int = 2) -> float:
        """An upper bound on the L2 distance between the sums of gradients of two neighbouring datasets, rounded up.

        Parameters
        ----------
        norm : float
            Largest L2 norm of a row, > 0.
        relation : ReplaceOne or AddRemove
            The neighbouring relation; groups are not considered.
        dimension : int, default 2
            Number of coefficients, >= 1, with the intercept; some likelihoods have a smaller constant for one.

        Returns
        -------
        float
            The bound on the distance, for records of weight 1.

        Raises
        ------
        TypeError
            If the relation is another one.
        """
        del dimension
        return records_that_change(relation) * self.gradient_norm(norm)

    @abstractmethod
    def slopes(self, scores: FloatArray, targets: FloatArray, room: FloatArray) -> FloatArray:
        """Derivatives of the losses with respect to the scores; the gradient of a record is slope times row.

        Parameters
        ----------
        scores : numpy.ndarray
            Scores, shape (n, chains), or (n, chains, score_columns) if there are several columns.
        targets : numpy.ndarray
            Targets after the public rule, shape (n,).
        room : numpy.ndarray
            The largest norm of a row divided by the norm of each row, shape (n,); only clipped likelihoods read it.

        Returns
        -------
        numpy.ndarray
            The derivatives, of the shape of `scores`.
        """

    @abstractmethod
    def clean_targets(self, targets: FloatArray) -> FloatArray:
        """Map targets to valid ones by the public rule, which is defined for every float.

        Parameters
        ----------
        targets : numpy.ndarray
            Targets, shape (n,); a missing target is NaN.

        Returns
        -------
        numpy.ndarray
            Valid targets, of the same shape.
        """

    @abstractmethod
    def count_problems(self, targets: FloatArray) -> dict[str, int]:
        """Count the targets that the public rule changes, by reason.

        Parameters
        ----------
        targets : numpy.ndarray
            Targets, shape (n,); a missing target is NaN.

        Returns
        -------
        dict of str to int
            The count of each reason. The counts depend on the data and are for the curator only.
        """

    @abstractmethod
    def mean(self, scores: FloatArray) -> FloatArray:
        """The mean of a target, or the probabilities of its classes, given the scores.

        Parameters
        ----------
        scores : numpy.ndarray
            Scores of any shape; if there are several columns, the last axis holds them.

        Returns
        -------
        numpy.ndarray
            Means, of the shape of `scores`; probabilities of several classes are along the last axis.
        """

    @property
    @abstractmethod
    def extreme_targets(self) -> tuple[float, float]:
        """Two targets whose gradients differ most for the same row."""


def records_that_change(relation: Relation) -> int:
    """The number of records whose terms differ between neighbours: 2 (one out, one in), or 1. Raises TypeError."""
    if isinstance(relation, ReplaceOne):
        return 2
    if isinstance(relation, AddRemove):
        return 1
    raise TypeError(f"relation must be ReplaceOne(...) or AddRemove(...), got {type(relation).__name__}")


def room_of(lengths: FloatArray, norm: float) -> FloatArray:
    """The ratio of `norm` to the lengths of rows, rounded down and bounded; 1 for rows of zeros."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(np.where(lengths > 0.0, np.minimum(norm / lengths, _MOST_ROOM) / UP, 1.0))


def truncated(slopes: FloatArray, clip: float, room: FloatArray) -> FloatArray:
    """Slopes truncated to +-clip times room, which clips the gradient of each record to clip times the largest norm.

    The truncated slope is still nondecreasing in the score, so that the loss remains convex (langevin.md, section 5).
    """
    with np.errstate(over="ignore"):  # a warning would reveal that a row is short
        limit = np.minimum(clip * room[:, None], _MOST_SLOPE)
    return np.asarray(np.clip(slopes, -limit, limit))
