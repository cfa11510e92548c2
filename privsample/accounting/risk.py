"""Errors of tests between neighbours, and success of attacks on one record. Proofs: docs/notes/risk.md."""

from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray, rates
from privsample.accounting.engine.directions import Direction, DirectionCurve, direction_bounds
from privsample.errors import RelationMismatch
from privsample.relations import ProfileEdge

if TYPE_CHECKING:
    from privsample.accounting.base import Accountant

_EPS = float(np.finfo(np.float64).eps)


class RiskBounds:
    """What a release can reveal about one record, as error rates of tests and as success of attacks.

    The methods are those of every `Accountant`. A test decides from the release which of two neighbours it was made
    from. In the direction "remove" the test asks whether the record is present: its false positive rate is the
    probability of "present" if the record is absent. In the direction "add" it asks whether the record is absent. By
    default each bound holds in the worse direction. Relations other than AddRemove have no named directions, and their
    bounds hold for both orders of the neighbours.
    """

    __slots__ = ()

    def tradeoff(self, false_positive_rate: ArrayLike, *, direction: Direction | None = None) -> FloatArray:
        """Trade-off function f: the least type II error of a test between neighbours with this false positive rate.

        Parameters
        ----------
        false_positive_rate : array of float, any shape
            Probabilities in [0, 1] with which the test decides for the alternative although it is false (type I error).
        direction : {"remove", "add"}, optional
            The direction of the relation. None takes the worse one.

        Returns
        -------
        float or array of float
            Lower bounds on the probability that the test misses a true alternative, rounded down, of the shape of
            `false_positive_rate`.

        Raises
        ------
        ValueError
            If a rate is NaN or outside [0, 1], or if `direction` is unknown.
        RelationMismatch
            If a direction is named under another relation than AddRemove.

        Notes
        -----
        Wasserman and Zhou 2010, Theorem 2.4; Dong, Roth and Su 2022, Proposition 2.12; docs/notes/risk.md, step 1: the
        largest bound over every epsilon. Kind: exact where the privacy curve is.

        Examples
        --------
        >>> import privsample as ps
        >>> account = ps.LaplaceAccountant(sensitivity=1, scale=1)
        >>> account.tradeoff([0.01, 0.1, 0.3, 0.7]).round(6).tolist()
        [0.972817, 0.728172, 0.306566, 0.110364]
        """
        a = rates(false_positive_rate=false_positive_rate)
        found: FloatArray = np.min([curve.errors(a)[1] for curve in _curves(self, direction)], axis=0)
        return found[()]

    def power(self, false_positive_rate: ArrayLike, *, direction: Direction | None = None) -> FloatArray:
        """Largest power of a test between neighbours with this false positive rate: 1 - f without cancellation.

        Parameters
        ----------
        false_positive_rate : array of float, any shape
            Probabilities in [0, 1], as for `tradeoff`.
        direction : {"remove", "add"}, optional
            The direction of the relation. None takes the worse one.

        Returns
        -------
        float or array of float
            Upper bounds on the true positive rate, rounded up, of the shape of `false_positive_rate`.

        Raises
        ------
        ValueError
            If a rate is NaN or outside [0, 1], or if `direction` is unknown.
        RelationMismatch
            If a direction is named under another relation than AddRemove.

        Notes
        -----
        docs/notes/risk.md, step 1: the least delta(epsilon) + e^epsilon a over every real epsilon, which is accurate at
        small rates a. Kind: exact where the privacy curve is.

        Examples
        --------
        >>> import privsample as ps
        >>> account = ps.GaussianAccountant(sensitivity=1, noise_std=1)
        >>> [f"{power:.4g}" for power in account.power([0.01, 1e-12])]
        ['0.09236', '7.974e-10']
        """
        a = rates(false_positive_rate=false_positive_rate)
        found: FloatArray = np.max([curve.errors(a)[0] for curve in _curves(self, direction)], axis=0)
        return found[()]

    def advantage(self, *, direction: Direction | None = None) -> float:
        """Largest difference between true and false positive rate of a test: the total variation distance, delta(0).

        Parameters
        ----------
        direction : {"remove", "add"}, optional
            The direction of the relation. None takes the worse one; exact bounds are equal in both.

        Returns
        -------
        float
            The membership advantage, rounded up, in [0, 1].

        Raises
        ------
        ValueError
            If `direction` is unknown.
        RelationMismatch
            If a direction is named under another relation than AddRemove.

        Notes
        -----
        docs/notes/risk.md, step 2. Kind: exact where the privacy curve is.

        Examples
        --------
        >>> import privsample as ps
        >>> round(ps.GaussianAccountant(sensitivity=1, noise_std=1).advantage(), 6)
        0.382925
        """
        return max(float(curve.excess(np.zeros(1))[0]) for curve in _curves(self, direction))

    def accuracy(self, prior: ArrayLike, *, direction: Direction | None = None) -> FloatArray:
        """Largest probability of a correct decision between two neighbours, against a prior of the alternative.

        Parameters
        ----------
        prior : array of float, any shape
            Prior probabilities in [0, 1]: that the record is present in the direction "remove", and that it is absent
            in the direction "add".
        direction : {"remove", "add"}, optional
            The direction of the relation. None takes the worse one.

        Returns
        -------
        float or array of float
            Upper bounds, rounded up, of the shape of `prior`.

        Raises
        ------
        ValueError
            If a prior is NaN or outside [0, 1], or if `direction` is unknown.
        RelationMismatch
            If a direction is named under another relation than AddRemove.

        Notes
        -----
        docs/notes/risk.md, step 2: 1 - prior + prior delta(log((1 - prior)/prior)), at positive and negative epsilons.
        Kind: exact where the privacy curve is.

        Examples
        --------
        >>> import privsample as ps
        >>> account = ps.GaussianAccountant(sensitivity=1, noise_std=1)
        >>> account.accuracy([0.1, 0.5, 0.8]).round(6).tolist()
        [0.901336, 0.691462, 0.813844]
        """
        p = rates(prior=prior)
        with np.errstate(divide="ignore"):
            present, absent = np.log(p), np.log1p(-p)
            epsilon = absent - present
            # The excess falls with the distance from 0 on both sides, so that a shorter distance is a valid one.
            error = np.nan_to_num(4 * _EPS * (np.abs(absent) + np.abs(present)))
        epsilon = np.sign(epsilon) * np.maximum(np.abs(epsilon) - error, 0.0)
        excess = np.max([curve.excess(epsilon) for curve in _curves(self, direction)], axis=0)
        found = (np.maximum(p, 1.0 - p) + p * excess) * (1.0 + 4 * _EPS)
        return np.minimum(found, 1.0)[()]

    def risk(self, baseline: ArrayLike, *, direction: Direction | None = None) -> FloatArray:
        """Largest success probability of an attack on one record, given its success without that record's release.

        The attack is any guess about one record: who it belongs to, the value of an attribute, or the whole record. An
        attack that is right with probability `baseline` without the release is right with probability at most
        1 - f(baseline) with it, whatever else the attacker knows about other records.

        Parameters
        ----------
        baseline : array of float, any shape
            Bounds in [0, 1] on the success of every attack that does not see the release of this record: under
            AddRemove it sees a release without the record, and under ReplaceOne one with another record in its place.
        direction : {"remove", "add"}, optional
            The direction of the relation. None takes the worse one; "remove" is enough for attacks on a record that is
            in the data.

        Returns
        -------
        float or array of float
            Upper bounds, rounded up, of the shape of `baseline`.

        Raises
        ------
        ValueError
            If a baseline is NaN or outside [0, 1], or if `direction` is unknown.
        RelationMismatch
            Under ProfileEdge, whose neighbours are not all pairs of values, or if a direction is named under another
            relation than AddRemove.

        Notes
        -----
        The target record is independent of the other records given what the attacker knows, and under ReplaceOne it is
        replaced by a record from the same distribution. The bound is about one target, chosen before the release, and
        says nothing about the success against many records together.

        docs/notes/risk.md, step 3. Kind: upper bound.

        Examples
        --------
        >>> import privsample as ps
        >>> account = ps.GaussianAccountant(sensitivity=1, noise_std=1)
        >>> account.risk([0.01, 0.1]).round(4).tolist()
        [0.0924, 0.3891]
        """
        p = rates(baseline=baseline)
        if isinstance(cast("Accountant", self).relation, ProfileEdge):
            raise RelationMismatch(
                "risk compares a record with any other record in its place, and ProfileEdge only profiles that an edge "
                "joins; use power or accuracy"
            )
        return self.power(p, direction=direction)

    def positive_predictive_value(
        self, false_positive_rate: ArrayLike, prior: ArrayLike, *, direction: Direction | None = None
    ) -> FloatArray:
        """Largest probability that the alternative is true if a test with this false positive rate decides for it.

        It tends to 1 as the false positive rate goes to 0, unless the guarantee is pure, so that it means nothing
        without the rate.

        Parameters
        ----------
        false_positive_rate : array of float
            Probabilities in (0, 1], as for `tradeoff`.
        prior : array of float
            Prior probabilities of the alternative in [0, 1]; both arrays are broadcast.
        direction : {"remove", "add"}, optional
            The direction of the relation. None takes the worse one.

        Returns
        -------
        float or array of float
            Upper bounds, rounded up, of the broadcast shape.

        Raises
        ------
        ValueError
            If a rate is 0, if a number is NaN or outside its range, if the shapes cannot be broadcast, or if
            `direction` is unknown.
        RelationMismatch
            If a direction is named under another relation than AddRemove.

        Notes
        -----
        docs/notes/risk.md, step 4. Kind: exact where the privacy curve is.

        Examples
        --------
        >>> import privsample as ps
        >>> account = ps.LaplaceAccountant(sensitivity=1, scale=1)
        >>> account.positive_predictive_value([0.1, 0.001], 0.01).round(4).tolist()
        [0.0267, 0.0267]
        """
        a, p = rates(false_positive_rate=false_positive_rate), rates(prior=prior)
        if not (a > 0.0).all():
            raise ValueError(
                "false_positive_rate must be > 0, got 0.0: a test without false positives has no limit on its value; "
                "state a rate such as 1e-6"
            )
        try:
            a, p = np.broadcast_arrays(a, p)
        except ValueError:
            raise ValueError(
                f"false_positive_rate and prior must have shapes that broadcast, got {a.shape} and {p.shape}"
            ) from None
        false = (1.0 - p) * (a / self.power(a, direction=direction)) * (1.0 - 4 * _EPS)
        with np.errstate(invalid="ignore"):
            found = np.where(p > 0.0, p / (p + false) * (1.0 + 4 * _EPS), 0.0)
        return np.minimum(found, 1.0)[()]


def _curves(bounds: RiskBounds, direction: Direction | None) -> tuple[DirectionCurve, ...]:
    """The privacy curves of the directions that were asked for."""
    return direction_bounds(cast("Accountant", bounds), direction)
