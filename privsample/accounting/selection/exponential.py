"""Account of permute-and-flip, which is report-noisy-max with exponential noise."""

from dataclasses import replace

from privsample._checks import positive, positive_integer
from privsample._logspace import resolved, scaled_up
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import SizeFreeAccountant
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.laplace import LaplacePair
from privsample.relations import AddRemove, Relation, related


@frozen_value
class PermuteAndFlipAccountant(SizeFreeAccountant):
    """One choice among candidates by permute-and-flip, or by report-noisy-max with exponential noise.

    The largest change range between neighbours, times the rate, is the shift of the Laplace mechanism whose privacy
    curve this account has, for any number of candidates.

    Parameters
    ----------
    loss_range : float
        Rate times the largest difference, over pairs of candidates, of the changes of their utilities between
        neighbours, in nats, finite and > 0. It is the pure epsilon of one draw. The privacy loss itself may range over
        a longer interval: permute-and-flip is not bounded-range.
    relation : Relation, default AddRemove()
        Neighbouring relation of the guarantee.
    assumptions : frozenset of Assumption, default {IDEAL_REALS}
        Assumptions of the guarantee.

    Raises
    ------
    ValueError
        If `loss_range` is not finite and > 0.

    Notes
    -----
    Source: McKenna and Sheldon 2020, Theorem 1 (pure epsilon); docs/notes/exponential.md, section 4 (privacy curve).

    Kind: exact for the privacy curve of one draw; upper bound for the Rényi curve.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.PermuteAndFlipAccountant(loss_range=0.5)
    >>> account.pure_epsilon, round(float(account.delta(0.25)), 4), account.kind("rdp")
    (0.5, 0.1175, 'upper bound')
    """

    loss_range: float
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = frozenset({Assumption.IDEAL_REALS})

    def __post_init__(self) -> None:
        set_fields(self, relation=related(self.relation))
        set_fields(self, loss_range=resolved(positive(loss_range=self.loss_range)))

    @property
    def source(self) -> str:
        """The theorem on the pure guarantee, and where the privacy curve is proved."""
        return "McKenna and Sheldon 2020, Theorem 1; docs/notes/exponential.md, section 4"

    def _bounds(self) -> PrivacyBounds:
        """The Laplace pair of exponential.md, step 4.4; two candidates attain its privacy curve only."""
        return PrivacyBounds.from_pairs([LaplacePair(shift=self.loss_range)], exact=frozenset({"delta", "epsilon"}))

    def group(self, size: int) -> "PermuteAndFlipAccountant":
        """Groups have `size` times the range; exact as for one record."""
        size = positive_integer(size=size)
        return replace(self, loss_range=scaled_up(size, self.loss_range), relation=self.relation.group(size))
