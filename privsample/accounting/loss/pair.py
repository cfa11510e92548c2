"""The primitive: the distribution of the privacy loss of a dominating pair."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privsample._checks import FloatArray, real_array
from privsample._logspace import expm1_excess, log1mexp, resolved
from privsample._value import Memo, frozen_value, set_fields
from privsample.accounting.curves.conversion import least_epsilon
from privsample.accounting.curves.discretize import connect_the_dots, split_mass
from privsample.errors import NumericalFailure

_FEW = 512
_ULP = float(np.finfo(np.float64).eps)

ComplexArray = NDArray[np.complex128]


class LossPair(Memo, ABC):
    """A dominating pair of distributions (P, Q): what a guarantee says about one ordered pair of neighbours.

    Its privacy loss is L = log dP/dQ. A subclass gives the privacy curve, the Rényi curve, the max divergence and the
    reversed pair; everything else has a default that is valid for every pair.
    """

    __slots__ = ()

    @abstractmethod
    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """log of the hockey-stick divergence D_{e^epsilon}(P || Q), any real epsilon, rounded up; -inf at zero."""

    @abstractmethod
    def renyi(self, orders: FloatArray) -> FloatArray:
        """Rényi divergence R_a(P || Q) in nats, orders > 1; +inf at and above `order_limit`."""

    @property
    @abstractmethod
    def max_divergence(self) -> float:
        """Essential supremum of L under P, in nats: the max-divergence."""

    @property
    def order_limit(self) -> float:
        """Orders below it have finite divergence."""
        return np.inf

    def least_epsilon(self, log_delta: float) -> float:
        """The least epsilon >= 0 with at most this log delta."""
        return least_epsilon(self.log_delta, self.approx_log_delta, log_delta)

    @abstractmethod
    def reverse(self) -> "LossPair":
        """(Q, P)."""

    def dominates(self, other: "LossPair") -> bool:
        """Whether this pair is known to have nowhere a smaller privacy curve than `other`; False is always valid."""
        return self == other

    @property
    def alternatives(self) -> "tuple[LossPair, ...]":
        """Pairs of which one dominates each ordered pair of neighbours that this stands for; itself where it is one."""
        return (self,)

    @property
    def is_envelope(self) -> bool:
        """Whether this stands for several pairs at once: their Rényi curves may then compose to less than its own."""
        return False

    @property
    def is_expensive(self) -> bool:
        """Whether one value of the privacy curve takes more than a formula: `discretize` then asks for few."""
        return False

    @property
    def curve_cost(self) -> float:
        """About how long one value of the privacy curve takes, in values of a closed form (a microsecond or so).

        Costs say beforehand which route is affordable. They depend on the parameters alone, never on a clock, so that
        every machine takes the same route.
        """
        return 50.0 if self.is_expensive else 0.5

    @property
    def renyi_cost(self) -> float:
        """About how long one value of the Rényi curve takes, in the same unit."""
        return 0.2

    @property
    def from_table(self) -> bool:
        """Whether a curve was tabulated because its exact values are too expensive."""
        return False

    def approx_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """About `log_delta`, where that is dear: to find one's way by, never to answer with."""
        return self.log_delta(epsilon)

    def discretize(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """A discrete pair that dominates this one: log P masses at increasing losses `nodes`, and at an infinite loss.

        Its privacy curve joins this one's values at the nodes by straight lines in e^epsilon; the Q mass at a node is
        the P mass times e^-node. The masses may add up to more than one by rounding upwards, never to less.
        Source: Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, Algorithm 1.
        """
        count = _FEW if self.is_expensive else len(nodes)
        return connect_the_dots(self.log_delta, self.reverse().log_delta, nodes, count)

    def approx_discretize(self, nodes: FloatArray) -> FloatArray:
        """About the log masses of `discretize`, from `approx_log_delta` where that is dear."""
        return (
            connect_the_dots(self.approx_log_delta, self.reverse().approx_log_delta, nodes, _FEW // 4)[0]
            if self.is_expensive
            else self.discretize(nodes)[0]
        )

    @classmethod
    def worst_renyi(cls, pairs: Sequence[Self], orders: FloatArray) -> FloatArray:
        """The largest divergence of several pairs of this kind, at each order."""
        result: FloatArray = np.max([pair.renyi(orders) for pair in pairs], axis=0)
        return result

    @classmethod
    def worst_log_delta(cls, pairs: Sequence[Self], epsilon: FloatArray) -> FloatArray:
        """The largest privacy curve of several pairs of this kind, at each epsilon."""
        result: FloatArray = np.max([pair.log_delta(epsilon) for pair in pairs], axis=0)
        return result


class Envelope(LossPair):
    """An upper bound on both curves of many ordered pairs at once, of either order of the neighbours; its own reverse.

    In a composition its members may be worst for different neighbours, so that its Rényi curve, which composes exactly,
    may give less than its privacy curve does.
    """

    __slots__ = ()

    @property
    def members(self) -> tuple[LossPair, ...]:
        """Single pairs that are known to be the worst, or among the worst; empty where none are known."""
        return ()

    @property
    def is_envelope(self) -> bool:
        """It stands for several pairs."""
        return True

    @property
    def is_expensive(self) -> bool:
        """Each value searches for the worst member."""
        return True

    def reverse(self) -> Self:
        """The envelope itself: it covers both orders."""
        return self

    def product(self, others: "Sequence[tuple[LossPair, int]]") -> "Envelope | None":
        """The envelope of each member with `others`, all smooth, each so many times; None where none is known."""
        del others
        return None


class SmoothPair(LossPair):
    """A pair whose loss has a density and a known moment generating function M.

    Where |M(c + iw)| does not fall in |w| all the way, a pair gives its own `log_fall`.
    """

    __slots__ = ()

    @abstractmethod
    def log_mgf(self, t: ComplexArray) -> ComplexArray:
        """log E_P e^{tL} at complex t with 0 < Re t < order_limit - 1, on the branch that is continuous from real t.

        A branch that differs by multiples of 2 pi i serves as well: counts are whole.
        """

    def log_mgf_with_error(self, t: ComplexArray) -> tuple[ComplexArray, FloatArray]:
        """log_mgf, and what its error may exceed a few ulp of the exponents by."""
        return self.log_mgf(t), np.zeros(t.shape)

    def log_fall(self, c: float, widths: FloatArray) -> FloatArray:
        """log of a bound of |M(c + iw)/M(c)| for every w from each width on; here |M| falls."""
        fall: FloatArray = self.log_mgf(c + 1j * np.append(0.0, widths)).real
        return fall[1:] - fall[0]

    @property
    def rows(self) -> "SmoothPair | SmoothRows":
        """The same pair in every row, where its values are computed for several rows at once; by default, itself."""
        return self

    @abstractmethod
    def reverse(self) -> "SmoothPair":
        """(Q, P), smooth too."""


class SmoothRows(ABC):
    """Smooth pairs of one kind, one in each row, whose privacy curves are computed together."""

    __slots__ = ()

    @abstractmethod
    def log_mgf(self, t: ComplexArray) -> ComplexArray:
        """`SmoothPair.log_mgf` of each row's pair at its t, (rows, points)."""

    @abstractmethod
    def of_rows(self, rows: NDArray[np.bool_]) -> Self:
        """The pairs of some rows."""

    def log_fall(self, c: FloatArray, widths: FloatArray) -> FloatArray:
        """`SmoothPair.log_fall` of each row's pair, c of shape (rows,), widths of shape (rows, widths)."""
        along = np.concatenate([np.zeros((len(c), 1)), widths], axis=1)
        fall: FloatArray = self.log_mgf(c[:, None] + 1j * along).real
        return fall[:, 1:] - fall[:, :1]


def worst_renyi(pairs: Sequence[LossPair], orders: FloatArray) -> FloatArray:
    """The largest divergence of several pairs, at each order."""
    kinds = dict.fromkeys(type(pair) for pair in pairs)
    found = [kind.worst_renyi([pair for pair in pairs if type(pair) is kind], orders) for kind in kinds]
    return found[0] if len(found) == 1 else np.max(found, axis=0)


def worst_log_delta(pairs: Sequence[LossPair], epsilon: FloatArray) -> FloatArray:
    """The largest privacy curve of several pairs, at each epsilon."""
    kinds = dict.fromkeys(type(pair) for pair in pairs)
    found = [kind.worst_log_delta([pair for pair in pairs if type(pair) is kind], epsilon) for kind in kinds]
    return found[0] if len(found) == 1 else np.max(found, axis=0)


def delta_below_zero(epsilon: FloatArray, log_delta_reversed: FloatArray) -> FloatArray:
    """log D_{e^eps}(P||Q) for eps < 0 from log D_{e^-eps}(Q||P): 1 - e^eps + e^eps times it, without cancellation.

    Source: Balle, Barthe and Gaboardi 2018, section 2 (any real epsilon).
    """
    below = np.minimum(epsilon, 0.0)
    return np.minimum(np.logaddexp(log1mexp(below), below + log_delta_reversed), 0.0)


def checked_divergence(divergence: FloatArray) -> FloatArray:
    """A divergence that is NaN or below zero beyond rounding is a failure; rounding below zero becomes zero.

    Raises: NumericalFailure.
    """
    if np.isnan(divergence).any() or (divergence < -1e-12).any():
        raise NumericalFailure("a divergence came out as NaN or negative; no guarantee is claimed")
    return np.maximum(divergence, 0.0)


@frozen_value
class DiscretePair(LossPair):
    """Two distributions on the same finite set, given by their log masses. Everything is exact.

    Source: definitions; the Rényi form is log1p of positive terms, so tiny losses keep full precision.

    Parameters
    ----------
    log_p, log_q : array, shape (outcomes,)
        Logs of the probabilities under one dataset and under its neighbour; each adds up to one.
    loss : array, shape (outcomes,), optional
        The privacy loss log_p - log_q, where it is known better than that difference.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> pair = ps.DiscretePair(log_p=np.log([0.5, 0.5]), log_q=np.log([0.25, 0.75]))
    >>> round(pair.max_divergence, 6), round(pair.reverse().max_divergence, 6)
    (0.693147, 0.405465)
    """

    log_p: FloatArray
    log_q: FloatArray
    loss: FloatArray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        p, q = (_log_masses(log_p=self.log_p), _log_masses(log_q=self.log_q))
        if p.shape != q.shape:
            raise ValueError(f"log_p and log_q must have one shape, got {p.shape} and {q.shape}")
        with np.errstate(invalid="ignore"):
            computed = np.where(np.isneginf(p), -np.inf, p - q)
            loss = real_array(loss=self.loss).copy() if np.size(self.loss) else computed
            if loss.shape != p.shape or not np.all((loss == computed) | (np.abs(loss - computed) <= 1e-9)):
                raise ValueError("loss must be log_p - log_q")
        loss.flags.writeable = False
        set_fields(self, log_p=p, log_q=q, loss=loss)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Sum of [p - e^eps q]_+."""
        e = np.asarray(epsilon)[..., None]
        with np.errstate(invalid="ignore"):
            lost = _ULP * np.where(np.isfinite(self.loss), np.abs(self.loss) + np.abs(e), 0.0)
        gap = np.where(e < self.loss, np.minimum(e - self.loss, 0.0) - lost, 0.0)
        total = np.logaddexp.reduce(self.log_p + log1mexp(gap), axis=-1)
        return np.minimum(total + 4 * _ULP * (1.0 + np.abs(np.maximum(total, -1e300))), 0.0)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """log(sum p e^{(a-1) L}) / (a-1), rounded up: every term by what its exponent and its factors lost."""
        s = np.asarray(orders)[..., None] - 1.0
        if np.isposinf(self.loss).any():
            return np.full(np.shape(orders), np.inf)
        present = ~np.isneginf(self.loss)
        loss, log_p, only_q = self.loss[present], self.log_p[present], self.log_q[~present]
        lost = _ULP * (8.0 - 2 * log_p)
        never = np.exp(only_q * (1.0 - 2 * _ULP)).sum() * (1.0 + 8 * _ULP)  # outcomes of Q alone: KL's positive terms
        with np.errstate(over="ignore", invalid="ignore"):
            raised = s * loss
            exponents = lost + 2 * _ULP * np.abs(raised)
            p = np.exp(log_p) * (1.0 + exponents + 2 * _ULP * np.abs(loss))
            near = np.log1p((p * (expm1_excess(raised) + s * expm1_excess(-loss))).sum(-1) + s[..., 0] * never)
            terms = log_p + raised + exponents
            top = terms.max(axis=-1)
            far = top + np.log(np.exp(terms - top[..., None]).sum(axis=-1)) + 8 * _ULP * (1.0 + np.abs(top))
            far = np.where(np.isposinf(top), np.inf, far)
        return checked_divergence(np.where(near < 1.0, near, far) / s[..., 0] * (1.0 + 16 * _ULP))

    @property
    def max_divergence(self) -> float:
        """The largest loss."""
        return float(self.loss.max())

    @property
    def curve_cost(self) -> float:
        """Grows with the outcomes."""
        return 0.2 + len(self.loss) / 50

    @property
    def renyi_cost(self) -> float:
        """Grows with the outcomes."""
        return 0.3 + len(self.loss) / 20

    def reverse(self) -> "DiscretePair":
        """The two distributions exchanged."""
        return DiscretePair(log_p=self.log_q, log_q=self.log_p, loss=-self.loss)

    def discretize(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """Each outcome shared out between the two nodes around it, so that both its masses are kept."""
        return split_mass(self.log_p, self.loss, nodes)


def _log_masses(**named: ArrayLike) -> FloatArray:
    ((name, _),) = named.items()
    result = real_array(**named).copy()
    if result.ndim != 1 or not abs(np.logaddexp.reduce(result)) <= 1e-9:
        raise ValueError(f"{name} must be the log masses of one distribution, shape (outcomes,), adding up to one")
    result.flags.writeable = False
    return result


def binary_pair(epsilon: float) -> DiscretePair:
    """Randomized response with loss +-epsilon: dominates every pure epsilon guarantee. Kind: exact.

    Source: Kairouz, Oh and Viswanath 2015, Theorem 2.
    """
    e = resolved(epsilon)
    log_p = np.array([-np.logaddexp(0.0, -e), -np.logaddexp(0.0, e)])
    return DiscretePair(log_p=log_p, log_q=log_p[::-1], loss=np.array([e, -e]))
