"""Profile-based privacy: what the output distributions of two profiles that an edge joins tell about which one it
was.
"""

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

_NOTHING = WorstPair(log_p=np.zeros((1, 1)), log_q=np.zeros((1, 1)))


@frozen_value
class ProfileAccountant(Accountant):
    """The cost of one observation: for every edge, both ways, the output distribution of one profile against the
    other's.

    distributions: (profiles, symbols), what comes out for each profile, as doubles computed with an error of a few ulp;
    stated_epsilon: the pure guarantee that was asked for, which the distributions are checked to keep.
    Kind: exact (rounded up by the error of the distributions). Source: Geumlek 2020, Definition 25.
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
            raise ValueError("distributions must add up to one, row by row")
        distributions.flags.writeable = False
        set_fields(self, distributions=distributions, stated_epsilon=positive(stated_epsilon=self.stated_epsilon))
        set_fields(self, assumptions=self.assumptions | {Assumption.KNOWN_PROFILES})
        if not self._pair.max_divergence <= self.stated_epsilon:
            raise ValueError(self._violation())

    @property
    def source(self) -> str:
        """The definition; the curves are those of the distributions themselves."""
        return "Geumlek 2020, Definition 25 (profile-based privacy)"

    def _bounds(self) -> PrivacyBounds:
        """By one pair for all edges, both ways: its own reverse."""
        return PrivacyBounds.from_pairs([self._pair])

    @cached
    def _pair(self) -> WorstPair:
        a, b = self.relation.graph.ends.T
        if not len(a):
            return _NOTHING
        with np.errstate(divide="ignore"):
            log_laws = np.log(self.distributions)
        slack = _UNIT * (self.distributions.shape[1] + 6)  # sums of positive products: every error is relative
        return WorstPair(log_p=log_laws[np.r_[a, b]], log_q=log_laws[np.r_[b, a]], slack=slack)

    def code_distributions(self) -> CodeDistributions | None:
        """The output distributions of the profiles, and the edges."""
        ends = self.relation.graph.ends
        return CodeDistributions(distributions=self.distributions, exchanged=ends) if len(ends) else None

    def _violation(self) -> str:
        """Which edge breaks the promise, and by how much."""
        pair, names = self._pair, self.relation.graph.edges
        worst, symbol = np.unravel_index(int((pair.loss + pair._error).argmax()), pair.loss.shape)
        loss = float(pair.loss[worst, symbol])
        return (
            f"edge {names[int(worst) % len(names)]} is not kept: at symbol {symbol} its loss is {loss:.17g}, "
            f"{loss - self.stated_epsilon:.3g} above epsilon = {self.stated_epsilon:g}"
        )

    def group(self, size: int) -> "ProfileAccountant":
        """Profiles with up to `size` edges between them: exact, from the distributions."""
        return ProfileAccountant(
            relation=self.relation.group(size),
            distributions=self.distributions,
            stated_epsilon=positive_integer(size=size) * self.stated_epsilon * (1 + 4 * _UNIT),
            assumptions=self.assumptions,
        )

    def independent_observations(self, times: int) -> Composed:
        """The cost of `times` observations of one profile, independent of each other, each privatised once: they add.

        The caller states the independence; without it nothing is known (Geumlek 2020, Observations 8 and
        13). Privatising one observation twice is never independent.
        """
        return times * self.assuming(Assumption.INDEPENDENT_OBSERVATIONS)
