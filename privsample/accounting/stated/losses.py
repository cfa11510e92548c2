"""An account of privacy loss distributions (PLDs), as other libraries hold them."""

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray, probability, real_array
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.pair import DiscretePair
from privsample.accounting.stated.base import EXACT, STATED, StatedAccountant, in_order, stated_bounds
from privsample.accounting.stated.finite import merged_table
from privsample.relations import AddRemove, Relation, related

_TOLERANCE, _EXCESS = 1e-9, 1e-6  # by which masses may add up to less, or more, than one


@frozen_value
class LossDistribution:
    """A privacy loss distribution (PLD) with finitely many losses: the loss log P/Q, with its probabilities under P.

    Parameters
    ----------
    losses : array, shape (losses,)
        Finite losses in nats, rising.
    masses : array, shape (losses,)
        The probability of each loss under P. A mass below zero, which an FFT leaves by rounding, is taken for zero.
    infinity_mass : float, default 0
        The probability of an infinite loss, in [0, 1).

    Raises
    ------
    ValueError
        For losses that do not rise, or masses that do not add up to one with `infinity_mass`: from 1e-9 below to
        1e-6 above it.

    Notes
    -----
    Masses under Q are e^-loss times those under P; what they lack to one are outcomes that P lacks. Where rounding
    leaves more than one, as it does far below zero, the lowest losses are raised to the first at which it does not:
    this is an upper bound. P's masses that lack a little to one are all raised; what they have too much is taken from
    the lowest losses, as no curve is above one (docs/notes/stated.md, section 6).

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
        losses, masses = _column(losses=self.losses), _column(masses=self.masses)
        infinite = probability(infinity_mass=self.infinity_mass)
        if losses.shape != masses.shape:
            raise ValueError(f"losses and masses must have one shape, got {losses.shape} and {masses.shape}")
        if not np.all(np.diff(losses) > 0.0):
            raise ValueError("losses must rise")
        if not masses.min() >= -_TOLERANCE:
            raise ValueError(f"masses must be probabilities, got {float(masses.min())!r}")
        masses = np.maximum(masses, 0.0)
        total = float(masses.sum()) + infinite
        if not -_TOLERANCE <= total - 1.0 <= _EXCESS:
            raise ValueError(
                f"masses and infinity_mass must add up to one, from {_TOLERANCE:g} below to {_EXCESS:g} above, "
                f"got {total:.12g}; add what is missing to infinity_mass"
            )
        for column in (losses, masses):
            column.flags.writeable = False
        set_fields(self, losses=losses, masses=masses, infinity_mass=infinite)

    @property
    def table(self) -> DiscretePair:
        """The dominating pair: masses are raised to add up to one, never lowered."""
        masses = without_excess(self.masses, self.infinity_mass)
        used = masses > 0.0
        if not used.any():
            raise ValueError("masses must have a finite loss: nothing is promised")
        loss, log_p = self.losses[used], np.log(masses[used])
        lacking = float(np.log(min(masses.sum() + self.infinity_mass, 1.0)))
        log_p = log_p - lacking
        log_infinite = np.log(self.infinity_mass) - lacking if self.infinity_mass > 0.0 else -np.inf
        start = _first_possible(log_p, loss)
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


def without_excess(masses: FloatArray, infinity_mass: float) -> FloatArray:
    """Masses at rising losses, the lowest lowered until all add up to at most one.

    The privacy curve is one at e^epsilon = 0 and convex: a line from there to its value at the first loss that is left
    is above it (docs/notes/stated.md, section 6).
    """
    excess = float(masses.sum()) + infinity_mass - 1.0
    if not excess > 0.0:
        return masses
    below = np.cumsum(masses)
    return np.where(below > excess, np.minimum(masses, below - excess), 0.0)


def _column(**named: ArrayLike) -> FloatArray:
    ((name, _),) = named.items()
    result = real_array(**named).copy()
    if result.ndim != 1 or not result.size or not np.isfinite(result).all():
        raise ValueError(f"{name} must be finite numbers, shape (losses,), got shape {result.shape}")
    return result


def _first_possible(log_p: FloatArray, loss: FloatArray) -> int:
    """The first loss to which all lower ones can be raised so that Q's masses add up to at most one."""
    log_below = np.logaddexp.accumulate(log_p)
    log_above = np.append(np.logaddexp.accumulate((log_p - loss)[::-1])[::-1][1:], -np.inf)
    possible = np.logaddexp(log_below - loss, log_above) <= _TOLERANCE / 2
    if not possible.any():
        raise ValueError("losses must have a mean of e^-loss of at most one: no two distributions have these losses")
    return int(np.argmax(possible))


@frozen_value
class LossDistributionAccountant(StatedAccountant):
    """Cost of a mechanism whose neighbours are dominated by stated privacy loss distributions.

    Parameters
    ----------
    first : LossDistribution
        Bounds neighbours (D, D') in both orders or, beside `second`, in the first order: under AddRemove the removal of
        a record, D holding the record that D' lacks.
    second : LossDistribution, optional
        Bounds neighbours in the second order: under AddRemove the addition of a record.
    relation : AddRemove, ReplaceOne or ProfileEdge, default AddRemove()
        Which datasets are neighbours.
    ordered : bool, optional
        Whether the relation tells which of two neighbours comes first; as in PairAccountant. It matters only beside
        `second`.
    assumptions : frozenset of Assumption, default {STATED}
        What the account takes for granted.

    Notes
    -----
    Checked: that the losses are those of two distributions. Taken on trust (STATED): that these dominate all
    neighbours.

    Source: Zhu, Dong and Wang 2022, Theorem 9; Koskela, Jalko and Honkela 2020. Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> table = ps.LossDistribution(losses=[-0.5, 0.5], masses=[0.35, 0.55], infinity_mass=0.1)
    >>> account = ps.LossDistributionAccountant(first=table)
    >>> f"{account.infinity_mass:.3f} {account.max_divergence:.3f}"
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
        set_fields(self, relation=relation, ordered=in_order(self.ordered, relation))
        self.bounds  # noqa: B018 - building them refuses what promises nothing

    def _stated_bounds(self) -> PrivacyBounds:
        back = [] if self.second is None else [self.second.table]
        return stated_bounds([self.first.table], back, ordered=bool(self.ordered))

    @property
    def group_size(self) -> int:  # type: ignore[override]
        """One: groups have the general bound."""
        return 1

    @property
    def source(self) -> str:
        """The theorems that a privacy loss distribution's numbers rest on."""
        return "Zhu, Dong and Wang 2022, Theorem 9; Koskela, Jalko and Honkela 2020"

    @property
    def _outcomes(self) -> int:
        return EXACT + 1
