"""Account of privacy loss distributions (PLDs), as other libraries represent them."""

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray, probability, real_array
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.pair import DiscretePair
from privsample.accounting.stated.base import EXACT, STATED, StatedAccountant, check_ordered, stated_bounds
from privsample.accounting.stated.finite import merged_table
from privsample.relations import AddRemove, Relation, related

_TOLERANCE, _EXCESS = 1e-9, 1e-6  # largest amounts by which the sum of the masses may be below and above 1


@frozen_value
class LossDistribution:
    """A privacy loss distribution (PLD) on finitely many values: the distribution of log P/Q under P.

    Parameters
    ----------
    losses : array of float, shape (losses,)
        Finite, strictly increasing losses in nats.
    masses : array of float, shape (losses,)
        Probability of each loss under P, >= 0. Values between -1e-9 and 0, as FFTs return them, are replaced by 0.
    infinity_mass : float, default 0
        Probability mass of infinite loss, in [0, 1).

    Raises
    ------
    ValueError
        If the losses do not increase, or if the sum of the masses and `infinity_mass` is below 1 - 1e-9 or above
        1 + 1e-6.

    Notes ----- Masses under Q are e^-loss times those under P; the remaining mass of Q lies on outcomes without mass
    under P. If rounding makes the mass of Q larger than 1, as it does at very negative losses, the lowest losses are
    raised to the first loss at which it is at most 1, which is an upper bound. If the masses of P sum to less than 1,
    all are raised by one factor. If they sum to more than 1, the excess is removed from the lowest losses; the result
    is still an upper bound, since no privacy curve exceeds 1 (stated.md, section 6).

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> pld = ps.LossDistribution(losses=[-1.0, 1.0], masses=[1 / (1 + np.e), np.e / (1 + np.e)])
    >>> f"{float(ps.LossDistributionAccountant(first=pld).delta(0.0)):.6f}"
    '0.462117'
    """

    losses: FloatArray
    masses: FloatArray
    infinity_mass: float = 0.0

    def __post_init__(self) -> None:
        losses, masses = _check_column(losses=self.losses), _check_column(masses=self.masses)
        infinite = probability(infinity_mass=self.infinity_mass)
        if losses.shape != masses.shape:
            raise ValueError(f"losses and masses must have one shape, got {losses.shape} and {masses.shape}")
        if not np.all(np.diff(losses) > 0.0):
            raise ValueError("losses must be strictly increasing")
        if not masses.min() >= -_TOLERANCE:
            raise ValueError(f"masses must be probabilities, got {float(masses.min())!r}")
        masses = np.maximum(masses, 0.0)
        total = float(masses.sum()) + infinite
        if not -_TOLERANCE <= total - 1.0 <= _EXCESS:
            raise ValueError(
                f"masses and infinity_mass must sum to 1 (at most {_TOLERANCE:g} less or {_EXCESS:g} more), "
                f"got {total:.12g}; add missing mass to infinity_mass"
            )
        for column in (losses, masses):
            column.flags.writeable = False
        set_fields(self, losses=losses, masses=masses, infinity_mass=infinite)

    @property
    def table(self) -> DiscretePair:
        """The dominating pair, with masses that sum to 1; the class documentation states how they are corrected."""
        masses = remove_excess_mass(self.masses, self.infinity_mass)
        used = masses > 0.0
        if not used.any():
            raise ValueError("masses must be positive for some finite loss: there is no guarantee")
        loss, log_p = self.losses[used], np.log(masses[used])
        log_total = float(np.log(min(masses.sum() + self.infinity_mass, 1.0)))
        log_p = log_p - log_total
        log_infinite = np.log(self.infinity_mass) - log_total if self.infinity_mass > 0.0 else -np.inf
        start = _first_feasible_loss(log_p, loss)
        merged = float(np.logaddexp.reduce(log_p[: start + 1]))
        log_p, loss = np.append(merged, log_p[start + 1 :]), loss[start:]
        log_q = log_p - loss
        rest = -np.expm1(min(float(np.logaddexp.reduce(log_q)), 0.0))
        with np.errstate(divide="ignore"):
            only_q = np.log(rest)
        return merged_table(
            np.concatenate([[-np.inf], log_p, [log_infinite]]),
            np.concatenate([[only_q], log_q, [-np.inf]]),
            np.concatenate([[-np.inf], loss, [np.inf]]),
        )


def remove_excess_mass(masses: FloatArray, infinity_mass: float) -> FloatArray:
    """Lower the masses of the lowest losses until all masses sum to at most 1. Losses increase.

    The privacy curve is 1 at e^epsilon = 0 and convex, so the line from there to its value at the first remaining loss
    is an upper bound (stated.md, section 6).
    """
    excess = float(masses.sum()) + infinity_mass - 1.0
    if not excess > 0.0:
        return masses
    below = np.cumsum(masses)
    return np.where(below > excess, np.minimum(masses, below - excess), 0.0)


def _check_column(**named: ArrayLike) -> FloatArray:
    """Check a one-dimensional array of finite numbers and return a copy. Raises ValueError."""
    ((name, _),) = named.items()
    result = real_array(**named).copy()
    if result.ndim != 1 or not result.size or not np.isfinite(result).all():
        raise ValueError(f"{name} must be finite numbers, shape (losses,), got shape {result.shape}")
    return result


def _first_feasible_loss(log_p: FloatArray, loss: FloatArray) -> int:
    """Index of the first loss to which all lower losses can be raised so that Q's masses sum to at most 1."""
    log_below = np.logaddexp.accumulate(log_p)
    log_above = np.append(np.logaddexp.accumulate((log_p - loss)[::-1])[::-1][1:], -np.inf)
    possible = np.logaddexp(log_below - loss, log_above) <= _TOLERANCE / 2
    if not possible.any():
        raise ValueError("losses must have a mean of e^-loss of at most one: no two distributions have these losses")
    return int(np.argmax(possible))


@frozen_value
class LossDistributionAccountant(StatedAccountant):
    """A mechanism whose neighbours are dominated by stated privacy loss distributions.

    Parameters
    ----------
    first : LossDistribution
        Dominates neighbours in both orders or, if `second` is given, in the first order: under AddRemove the removal of
        a record.
    second : LossDistribution, optional
        Dominates neighbours in the second order: under AddRemove the addition of a record.
    relation : Relation, default AddRemove()
        Neighbouring relation of the guarantee.
    ordered : bool, optional
        Whether the relation determines which of two neighbours comes first, as for `PairAccountant`. It matters
        only with `second`.
    assumptions : frozenset of Assumption, default {STATED}
        Assumptions of the guarantee.

    Raises
    ------
    TypeError
        If `first` or `second` is not a LossDistribution.
    ValueError
        If no two distributions have these losses.

    Notes
    -----
    The class checks that two distributions with these losses exist. It assumes (STATED) that they dominate all
    neighbours.

    Source: Zhu, Dong and Wang 2022, Theorem 9; Koskela, Jälkö and Honkela 2020; docs/notes/stated.md, section 6.

    Kind: exact for the stated distributions.

    Examples
    --------
    >>> import privsample as ps
    >>> table = ps.LossDistribution(losses=[-0.5, 0.5], masses=[0.35, 0.55], infinity_mass=0.1)
    >>> account = ps.LossDistributionAccountant(first=table)
    >>> f"{account.infinity_mass:.3f} {account.pure_epsilon:.3f}"
    '0.100 0.500'
    """

    first: LossDistribution
    second: LossDistribution | None = None
    relation: Relation = AddRemove()
    ordered: bool | None = None
    assumptions: frozenset[Assumption] = STATED

    def __post_init__(self) -> None:
        relation = related(self.relation)
        for name, each in (("first", self.first), ("second", self.second)):
            if not isinstance(each, LossDistribution) and (name == "first" or each is not None):
                raise TypeError(f"{name} must be a LossDistribution, got {type(each).__name__}")
        set_fields(self, relation=relation, ordered=check_ordered(self.ordered, relation))
        self.bounds  # noqa: B018 - raises an error if there is no guarantee

    def _stated_bounds(self) -> PrivacyBounds:
        """The bounds of the tables of both distributions."""
        back = [] if self.second is None else [self.second.table]
        return stated_bounds([self.first.table], back, ordered=bool(self.ordered))

    @property
    def group_size(self) -> int:  # type: ignore[override]
        """Always 1; groups use the general bound."""
        return 1

    @property
    def source(self) -> str:
        """The theorems on privacy loss distributions."""
        return "Zhu, Dong and Wang 2022, Theorem 9; Koskela, Jalko and Honkela 2020"

    @property
    def _outcomes(self) -> int:
        """More than the limit of exact arithmetic, so that groups use the general bound."""
        return EXACT + 1
