"""Accounts of profile-based privacy: output distributions of profiles that are joined by an edge."""

import numpy as np

from privsample._checks import FloatArray, positive, positive_integer, real_array
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Composed
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.codes import CodeDistributions
from privsample.accounting.loss.worst import WorstPair
from privsample.distributions.profile_graph import ProfileGraph
from privsample.errors import RelationMismatch
from privsample.relations import ProfileEdge

_UNIT = float(np.finfo(np.float64).eps)

_NO_EDGE = WorstPair(log_p=np.zeros((1, 1)), log_q=np.zeros((1, 1)))


@frozen_value
class ProfileAccountant(Accountant):
    """One observation under profile-based privacy: the output distributions of a mechanism on each profile.

    For every edge of the profile graph, in both directions, the output distribution of one profile is compared with
    that of the other.

    Parameters
    ----------
    relation : ProfileEdge
        The profile graph.
    distributions : array of float, shape (profiles, symbols)
        Output probabilities for each profile, each row summing to 1, accurate to a few units in the last place.
    stated_epsilon : float
        The pure epsilon, in nats, > 0, that the distributions must satisfy on every edge; it is checked.
    assumptions : frozenset of Assumption, default {KNOWN_PROFILES, INDEPENDENT_PROFILES}
        Assumptions of the guarantee; KNOWN_PROFILES is always added.

    Raises
    ------
    RelationMismatch
        If `relation` is not a ProfileEdge.
    ValueError
        If `distributions` is not such an array, or if an edge has a larger privacy loss than `stated_epsilon`.

    Notes
    -----
    Source: Geumlek 2020, Definition 25.

    Kind: exact, rounded up by the error of the distributions.

    Examples
    --------
    >>> import privsample as ps
    >>> graph = ps.ProfileGraph(profiles={"a": 0.8, "b": 0.4}, edges=[("a", "b")])
    >>> account = ps.ProfileAccountant(
    ...     relation=ps.ProfileEdge(graph=graph), distributions=[[0.6, 0.4], [0.45, 0.55]], stated_epsilon=0.5
    ... )
    >>> round(account.pure_epsilon, 4), round(float(account.delta(0)), 4)
    (0.3185, 0.15)
    """

    relation: ProfileEdge
    distributions: FloatArray
    stated_epsilon: float
    assumptions: frozenset[Assumption] = frozenset({Assumption.KNOWN_PROFILES, Assumption.INDEPENDENT_PROFILES})

    def __post_init__(self) -> None:
        if not isinstance(self.relation, ProfileEdge):
            raise RelationMismatch(f"relation must be a ProfileEdge, got {self.relation}")
        if not isinstance(self.relation.graph, ProfileGraph):
            raise TypeError(f"the relation must hold a ProfileGraph, got {type(self.relation.graph).__name__}")
        distributions, graph = real_array(distributions=self.distributions).copy(), self.relation.graph
        if distributions.ndim != 2 or len(distributions) != len(graph) or not np.all(distributions >= 0):
            raise ValueError(
                f"distributions must be probabilities, one row for each of {len(graph)} profiles, "
                f"got {distributions.shape}"
            )
        if not np.all(np.abs(distributions.sum(axis=1) - 1.0) <= 1e-9):
            raise ValueError("each row of distributions must sum to 1")
        distributions.flags.writeable = False
        set_fields(self, distributions=distributions, stated_epsilon=positive(stated_epsilon=self.stated_epsilon))
        set_fields(self, assumptions=self.assumptions | {Assumption.KNOWN_PROFILES})
        if not self._pair.max_divergence <= self.stated_epsilon:
            raise ValueError(self._violation())

    @property
    def source(self) -> str:
        """The definition of profile-based privacy."""
        return "Geumlek 2020, Definition 25 (profile-based privacy)"

    def _bounds(self) -> PrivacyBounds:
        """One pair for all edges in both directions; it is its own reverse."""
        return PrivacyBounds.from_pairs([self._pair])

    @cached
    def _pair(self) -> WorstPair:
        """All edges in both directions as one pair, with the error of the distributions."""
        a, b = self.relation.graph.ends.T
        if not len(a):
            return _NO_EDGE
        with np.errstate(divide="ignore"):
            log_p = np.log(self.distributions)
        slack = _UNIT * (self.distributions.shape[1] + 6)  # bound of the relative error of sums of positive products
        return WorstPair(log_p=log_p[np.r_[a, b]], log_q=log_p[np.r_[b, a]], slack=slack)

    def code_distributions(self) -> CodeDistributions | None:
        """The output distributions of the profiles, and the edges.

        Returns
        -------
        CodeDistributions or None
            The distributions with the pairs of profiles that an edge joins; None if there is no edge.
        """
        ends = self.relation.graph.ends
        return CodeDistributions(distributions=self.distributions, exchanged=ends) if len(ends) else None

    def _violation(self) -> str:
        """The message that names the edge with the largest privacy loss."""
        pair, names = self._pair, self.relation.graph.edges
        worst, symbol = np.unravel_index(int((pair.loss + pair._error).argmax()), pair.loss.shape)
        loss = float(pair.loss[worst, symbol])
        return (
            f"distributions must satisfy stated_epsilon = {self.stated_epsilon:g} on every edge: on edge "
            f"{names[int(worst) % len(names)]} the privacy loss at symbol {symbol} is {loss:.17g}, "
            f"{loss - self.stated_epsilon:.3g} above it"
        )

    def group(self, size: int) -> "ProfileAccountant":
        """Profiles at most `size` edges apart; exact, from the distributions."""
        return ProfileAccountant(
            relation=self.relation.group(size),
            distributions=self.distributions,
            stated_epsilon=positive_integer(size=size) * self.stated_epsilon * (1 + 4 * _UNIT),
            assumptions=self.assumptions,
        )

    def independent_observations(self, times: int) -> Composed:
        """Compose independent observations of one profile, each privatised once.

        The independence is an assumption that the caller states (INDEPENDENT_OBSERVATIONS). Without it there is no
        guarantee; two releases of one observation are never independent.

        Parameters
        ----------
        times : int
            Number of observations, >= 1.

        Returns
        -------
        Composed
            The account of all observations.

        Notes
        -----
        Source: Geumlek 2020, Observations 8 and 13.
        """
        return times * self.assuming(Assumption.INDEPENDENT_OBSERVATIONS)
