"""Profile-based privacy: what the output laws of two profiles that an edge joins tell about which one it was."""

import numpy as np

from privsample._checks import FloatArray, positive, positive_integer, real_array
from privsample._logspace import expm1_excess, log1mexp
from privsample._value import put, value
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.composition.composed import Composed
from privsample.accounting.loss import LossPair, checked_divergence
from privsample.distributions.profile_graph import ProfileGraph
from privsample.errors import RelationMismatch
from privsample.relations import ProfileEdge

_UNIT = float(np.finfo(np.float64).eps)
_BLOCK = 1 << 16
_EVALUATION = 32 * _UNIT  # relative error of a Renyi divergence as it is computed here


def _parts(points: FloatArray, masses: int) -> list[FloatArray]:
    """The points in blocks of shape (some, 1, 1), to be met with that many masses."""
    return np.array_split(points.reshape(-1, 1, 1), points.size * masses // _BLOCK + 1)


@value
class WorstPair(LossPair):
    """Many pairs of laws on one finite set as one: at each order and each epsilon the worst of them.

    log_p, log_q: log masses, shape (pairs, outcomes), each within a relative `slack` of the truth, which every number
    here is rounded up by. The privacy curve is that of one pair which dominates all (Zhu, Dong and Wang 2022,
    Proposition 10); the Renyi curve is the largest of the pairs' own. Kind: exact.
    """

    log_p: FloatArray
    log_q: FloatArray
    slack: float = 0.0

    def __post_init__(self) -> None:
        p, q = np.array(self.log_p, dtype=np.float64), np.array(self.log_q, dtype=np.float64)
        if p.ndim != 2 or p.shape != q.shape or not p.size:
            raise ValueError(f"log_p and log_q must have one shape (pairs, outcomes), got {p.shape} and {q.shape}")
        for masses in (p, q):
            if not np.all(np.abs(np.logaddexp.reduce(masses, axis=1)) <= 1e-9):
                raise ValueError("log_p and log_q must be log masses of laws, each adding up to one")
            masses.flags.writeable = False
        put(self, log_p=p, log_q=q)

    @property
    def loss(self) -> FloatArray:
        """log_p - log_q, as computed; -inf where P never is, +inf where only Q never is."""
        with np.errstate(invalid="ignore"):
            return np.where(np.isneginf(self.log_p), -np.inf, self.log_p - self.log_q)

    @property
    def _error(self) -> FloatArray:
        """How far `loss` may lie from the truth: by the slack of both laws, and by rounding of the logarithms."""
        finite = [np.where(np.isneginf(masses), 0.0, -masses) for masses in (self.log_p, self.log_q)]
        return np.where(self.slack > 0, 2 * self.slack + _UNIT * (1 + finite[0] + finite[1]), 0.0)

    @property
    def joint(self) -> bool:
        """Where there is more than one pair beside its reverse."""
        return len(self.log_p) > 2

    @property
    def max_loss(self) -> float:
        """The largest loss of all pairs, rounded up; never below zero."""
        return max(float((self.loss + self._error).max()), 0.0)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The largest sum of [p - e^eps q]_+."""
        e = np.asarray(epsilon, dtype=np.float64)
        loss, log_p = self.loss + self._error, self.log_p + self.slack
        terms = (log_p + log1mexp(np.minimum(part - loss, 0.0)) for part in _parts(e, loss.size))
        values = np.concatenate([np.logaddexp.reduce(each, axis=2).max(axis=1) for each in terms])
        return np.minimum(values.reshape(e.shape), 0.0)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The largest log(sum p e^{(a-1) L}) / (a-1); near zero as log1p of positive terms."""
        a = np.asarray(orders, dtype=np.float64)
        loss = self.loss
        if np.isposinf(loss).any():
            return np.full(a.shape, np.inf)
        present = ~np.isneginf(loss)
        outward = np.where(present, loss + np.where(loss >= 0, 1.0, -1.0) * self._error, 0.0)
        upward = np.where(present, loss + self._error, 0.0)
        never = np.exp(np.where(present, -np.inf, self.log_q) + self.slack).sum(axis=1)
        log_p = self.log_p + self.slack
        values = [self._largest(s, log_p, outward, upward, never) for s in _parts(a - 1.0, loss.size)]
        return checked_divergence(np.concatenate(values).reshape(a.shape) * (1 + _EVALUATION))

    @staticmethod
    def _largest(
        s: FloatArray, log_p: FloatArray, outward: FloatArray, upward: FloatArray, never: FloatArray
    ) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            terms = np.exp(log_p) * (expm1_excess(s * outward) + s * expm1_excess(-outward))
            near = np.log1p(np.where(np.isneginf(log_p), 0.0, terms).sum(axis=2) + s[..., 0] * never)
        far = np.logaddexp.reduce(log_p + s * upward, axis=2)
        largest: FloatArray = np.where(near < 1.0, near, far).max(axis=1) / s[:, 0, 0]
        return largest

    def reverse(self) -> "WorstPair":
        """Every pair with its laws exchanged."""
        return WorstPair(log_p=self.log_q, log_q=self.log_p, slack=self.slack)


_NOTHING = WorstPair(log_p=np.zeros((1, 1)), log_q=np.zeros((1, 1)))


@value
class ProfileAccountant(Accountant):
    """The cost of one observation: for every edge, both ways, the output law of one profile against the other's.

    laws: (profiles, symbols), what comes out for each profile, as doubles computed with an error of a few ulp;
    stated_epsilon: the pure guarantee that was asked for, which the laws are checked to keep.
    Kind: exact (rounded up by the error of the laws). Source: Geumlek 2020, Definition 25.
    """

    relation: ProfileEdge
    laws: FloatArray
    stated_epsilon: float
    assumptions: frozenset[Assumption] = frozenset({Assumption.KNOWN_PROFILES, Assumption.INDEPENDENT_PROFILES})

    def __post_init__(self) -> None:
        if not isinstance(self.relation, ProfileEdge):
            raise RelationMismatch(f"relation must be a ProfileEdge, got {self.relation}")
        if not isinstance(self.relation.graph, ProfileGraph):
            raise TypeError(f"the relation must hold a ProfileGraph, got {type(self.relation.graph).__name__}")
        laws, graph = real_array(laws=self.laws).copy(), self.relation.graph
        if laws.ndim != 2 or len(laws) != len(graph) or not np.all(laws >= 0):
            raise ValueError(f"laws must be probabilities, one row for each of {len(graph)} profiles, got {laws.shape}")
        if not np.all(np.abs(laws.sum(axis=1) - 1.0) <= 1e-9):
            raise ValueError("laws must add up to one, row by row")
        laws.flags.writeable = False
        put(self, laws=laws, stated_epsilon=positive(stated_epsilon=self.stated_epsilon))
        put(self, assumptions=self.assumptions | {Assumption.KNOWN_PROFILES})
        if not self._pair.max_loss <= self.stated_epsilon:
            raise ValueError(self._violation())

    @property
    def source(self) -> str:
        """The definition; the curves are those of the laws themselves."""
        return "Geumlek 2020, Definition 25 (profile-based privacy)"

    @property
    def pairs(self) -> tuple[LossPair, ...]:
        """One pair for all edges, both ways: its own reverse."""
        return (self._pair,)

    @property
    def _pair(self) -> WorstPair:
        a, b = self.relation.graph.ends.T
        if not len(a):
            return _NOTHING
        with np.errstate(divide="ignore"):
            log_laws = np.log(self.laws)
        slack = _UNIT * (self.laws.shape[1] + 6)  # sums of positive products: every error is relative
        return WorstPair(log_p=log_laws[np.r_[a, b]], log_q=log_laws[np.r_[b, a]], slack=slack)

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
        """Profiles with up to `size` edges between them: exact, from the laws."""
        return ProfileAccountant(
            relation=self.relation.group(size),
            laws=self.laws,
            stated_epsilon=positive_integer(size=size) * self.stated_epsilon * (1 + 4 * _UNIT),
            assumptions=self.assumptions,
        )

    def independent_observations(self, times: int) -> Composed:
        """The cost of `times` observations of one profile, independent of each other, each privatised once: they add.

        The caller states the independence; without it nothing is known (Geumlek 2020, Observations 8 and
        13). Privatising one observation twice is never independent.
        """
        return times * self.assuming(Assumption.INDEPENDENT_OBSERVATIONS)
