"""Certified comparison of a privacy curve with the Gaussian privacy curve delta_mu at every epsilon >= 0.

Both curves are convex in x = e^epsilon. Between two nodes a privacy curve is at most its chord, and delta_mu is at
least each of its tangents, so that comparing two lines at two nodes proves the inequality between them. Beyond the last
node a `LossTail` proves it. Proofs: docs/notes/gaussian_dp.md.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from privsample._checks import FloatArray
from privsample._logspace import log1mexp
from privsample.accounting.curves.conversion import Curve
from privsample.accounting.engine.gaussian_tails import LossTail, log_delta_error, mu_at
from privsample.accounting.loss.gaussian import gaussian_log_delta
from privsample.errors import NumericalFailure

ACCURACY = 5e-10  # relative excess of a reported mu over the least, unless rounding errors of the curve are larger
_EPS = float(np.finfo(np.float64).eps)
_FIRST, _PER_ROUND = 24, 96  # numbers of nodes of the first round, and of each further one
_TRIALS = 64  # largest number of values of mu that a search tries
_FAR = 1e7  # multiple of the first range of epsilon at which a search ends
_REACH, _SHORT_REACH = 100.0, 40.0  # standard deviations to which nodes are used, of cheap and of expensive curves
_MOST_NODES = 12_000
_LEAST_REGRET = 1e-20  # absolute accuracy of a regret


@dataclass(frozen=True, slots=True)
class UpperCurve:
    """Upper bounds on the logarithm of a privacy curve at increasing nodes epsilon >= 0.

    Parameters
    ----------
    sharp : callable
        Upper bound on log delta at an array of epsilons >= 0.
    rough : callable or None, default None
        A cheaper and larger upper bound, used where it is small enough.
    most_parts : int, default 24
        Largest number of parts into which a cell is divided at once. A curve that computes many values in one call for
        the price of one takes a large number; one whose every value costs much takes a small one.
    epsilon, log_delta, is_sharp : array, shape (nodes,)
        The nodes, the bounds there, and whether each is by `sharp`.
    """

    sharp: Curve
    rough: Curve | None = None
    most_parts: int = _FIRST
    epsilon: FloatArray = field(default_factory=lambda: np.empty(0))
    log_delta: FloatArray = field(default_factory=lambda: np.empty(0))
    is_sharp: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))

    @property
    def most_nodes(self) -> int:
        """Number of nodes at which a search ends with what it has proved."""
        return _MOST_NODES * self.most_parts // _FIRST

    def with_first_nodes(self) -> "UpperCurve":
        """The curve with nodes up to six standard deviations of a Gaussian loss with the same delta at epsilon 0."""
        curve = self.with_nodes(np.zeros(1), _none)
        mu = float(mu_at(curve.epsilon[:1], curve.log_delta[:1])[0])
        return curve.with_nodes(_first_nodes(mu, np.inf), _none) if 0.0 < mu < np.inf else curve

    def least_mu(self, regret: float, low: float = 0.0) -> float:
        """The largest mu that `sharp` needs at a node, at least `low`: a lower bound on the result of a search."""
        excess, more = self.excess(regret), self.is_sharp
        if 0.0 < low < np.inf:
            more = more & (excess > gaussian_log_delta(low, self.epsilon))
        return float(mu_at(self.epsilon[more], excess[more]).max(initial=low))

    def with_nodes(self, epsilon: FloatArray, enough: Curve) -> "UpperCurve":
        """Further nodes: by `rough` where that is at most `enough`, a function of epsilon, and otherwise by `sharp`."""
        new = np.setdiff1d(epsilon, self.epsilon)
        values, sharp = np.empty(new.shape), np.ones(new.shape, dtype=np.bool_)
        if self.rough is not None:
            values = self.rough(new)
            sharp = ~(values <= enough(new))
        if sharp.any():
            values[sharp] = self.sharp(new[sharp])
        if np.isnan(values).any():
            raise NumericalFailure("a privacy curve is NaN, so no guarantee is stated")
        at = np.searchsorted(self.epsilon, new)
        return replace(
            self,
            epsilon=np.insert(self.epsilon, at, new),
            log_delta=np.insert(self.log_delta, at, values),
            is_sharp=np.insert(self.is_sharp, at, sharp),
        )

    def excess(self, regret: float) -> FloatArray:
        """Log of the excess of delta over `regret` at the nodes, rounded up; -inf where there is none."""
        return log_excess(self.log_delta, regret)

    def extended(self, mu: float, last: float, enough: Curve) -> "UpperCurve":
        """One further node at most, at up to twice the last epsilon, if that is below `last`."""
        end = self.epsilon[-1]
        if not end < min(last, _FAR * mu * (6.0 + mu)):
            return self
        return self.with_nodes(np.array([min(max(2 * end, 6.0 * mu), last)]), enough)

    def split(self, failing: NDArray[np.intp], enough: Curve) -> "UpperCurve":
        """Further nodes inside the cells with these indices, equally spaced in each."""
        parts = int(np.clip(_PER_ROUND // max(len(failing), 1), 2, self.most_parts))
        inner = np.arange(1, parts) / parts
        left, right = self.epsilon[failing][:, None], self.epsilon[failing + 1][:, None]
        return self.with_nodes((left + (right - left) * inner).ravel(), enough)


def log_excess(log_delta: FloatArray, regret: float) -> FloatArray:
    """log(delta - regret), rounded up; -inf where delta <= regret."""
    if regret == 0.0:
        return log_delta
    raised = log_delta + 4 * _EPS * (1.0 + np.abs(np.maximum(log_delta, -1e300)))
    with np.errstate(invalid="ignore"):
        reduced = raised + log1mexp(np.minimum(np.log(regret) - raised, 0.0))
    return np.where(log_delta > np.log(regret), reduced, -np.inf)


def is_dominated(log_delta: Curve, mu: float, *, tail: LossTail, regret: float = 0.0) -> bool:
    """Whether delta(epsilon) <= delta_mu(epsilon) + regret is proved for every epsilon >= 0.

    Parameters
    ----------
    log_delta : callable
        Upper bound on the logarithm of a privacy curve that is convex in e^epsilon, at an array of epsilons >= 0.
    mu : float
        Parameter of the Gaussian privacy curve, > 0.
    tail : LossTail
        What is known of the loss beyond the nodes.
    regret : float, default 0.0
        Number in [0, 1).

    Returns
    -------
    bool
        True only if it is proved.
    """
    return dominated(UpperCurve(sharp=log_delta), mu, tail=tail, regret=regret)[0]


def dominated(curve: UpperCurve, mu: float, *, tail: LossTail, regret: float = 0.0) -> tuple[bool, UpperCurve]:
    """`is_dominated` for a curve with nodes, and the curve with the nodes that the proof added."""
    enough = _enough(mu, regret)
    if not curve.epsilon.size:
        curve = curve.with_nodes(_first_nodes(mu, tail.start(mu)), enough)
    done = 0  # number of nodes before the last round; without new ones, cells are too narrow for doubles
    while done < len(curve.epsilon):
        done, excess = len(curve.epsilon), curve.excess(regret)
        if (excess > gaussian_log_delta(mu, curve.epsilon)).any():
            break
        last = _range_end(curve, excess, tail.start(mu))
        failing = np.flatnonzero(_fails(curve.epsilon, excess, mu) & (curve.epsilon[:-1] < last))
        if not failing.size and curve.epsilon[-1] >= last:
            return True, curve
        if done <= curve.most_nodes:
            curve = curve.extended(mu, last, enough).split(failing, enough)
    return False, curve


def least_mu(curve: UpperCurve, *, tail: LossTail, regret: float = 0.0) -> float:
    """The least mu >= 0 for which domination is proved, to `ACCURACY`; +inf if there is none. `curve` has nodes."""
    low, known = curve.least_mu(regret), tail.least_mu if regret == 0.0 else 0.0
    reach = _REACH if curve.rough is None else _SHORT_REACH
    accuracy = ACCURACY
    for _ in range(_TRIALS):
        mu = max(low, known) * (1.0 + accuracy)
        if regret == 0.0 < mu < np.inf:
            mu = _with_near_tail(mu, tail, reach)
        if not 0.0 < mu < min(tail.dominating_mu * (1.0 + ACCURACY), np.inf):
            return min(mu, tail.dominating_mu)
        found, curve = dominated(curve, mu, tail=tail, regret=regret)
        if found:
            return min(mu, tail.dominating_mu)
        needed = curve.least_mu(regret, low)
        if needed <= low or len(curve.epsilon) > curve.most_nodes:  # no node needs more: cells fail by rounding errors
            accuracy *= 4.0
        low = needed
    return tail.dominating_mu


def least_regret(curve: UpperCurve, mu: float, *, tail: LossTail) -> float:
    """The least regret for which domination by delta_mu is proved, to `ACCURACY`. `curve` has nodes."""
    found, curve = dominated(curve, mu, tail=tail)
    if found:
        return 0.0
    start, bound, low = tail.start(mu), 1.0, 0.0
    done = 0
    while done < len(curve.epsilon) <= curve.most_nodes:
        done, enough = len(curve.epsilon), _enough(mu, low)
        delta = np.exp(curve.log_delta) * (1.0 + 4 * _EPS * (1.0 - np.maximum(curve.log_delta, -1e3)))
        gap = delta - np.exp(gaussian_log_delta(mu, curve.epsilon))
        low = max(low, float(gap[curve.is_sharp].max()))
        goal = low * (1.0 + ACCURACY) + _LEAST_REGRET
        noise = 4 * log_delta_error(mu, curve.epsilon[:-1]) * delta[:-1]  # a smaller gap is lost in rounding errors
        upper = _largest_gaps(curve.epsilon, curve.log_delta, delta, mu)
        upper = np.where(curve.epsilon[:-1] < start, upper, 0.0)
        rest = float(delta[-1]) if curve.epsilon[-1] < start else 0.0
        bound = min(bound, max(float(upper.max(initial=0.0)), rest))
        last = start if rest > goal else 0.0
        curve = curve.extended(mu, last, enough).split(np.flatnonzero(upper > goal + noise), enough)
    return bound


def _with_near_tail(mu: float, tail: LossTail, reach: float) -> float:
    """A mu at least as large whose tail starts within `reach` standard deviations; +inf if no finite one is found."""
    raised, excess = mu, ACCURACY
    while not tail.start(raised) <= raised * (reach + raised / 2):
        if not excess < _FAR:
            return np.inf
        raised, excess = mu * (1.0 + excess), 4.0 * excess
    return raised


def _none(epsilon: FloatArray) -> FloatArray:
    """The logarithm of zero."""
    return np.full(epsilon.shape, -np.inf)


def _enough(mu: float, regret: float) -> Callable[[FloatArray], FloatArray]:
    """The logarithm of delta_mu + regret."""
    with np.errstate(divide="ignore"):
        own = np.log(regret)
    return lambda epsilon: np.logaddexp(gaussian_log_delta(mu, epsilon), own)


def _first_nodes(mu: float, start: float) -> FloatArray:
    """The nodes of the first round: to six standard deviations of the loss, or to the start of the tail."""
    return np.linspace(0.0, min(mu * (6.0 + mu / 2), max(start, 0.0)), _FIRST + 1)


def _range_end(curve: UpperCurve, excess: FloatArray, start: float) -> float:
    """The epsilon from which on no node is needed: the start of the tail, or the first node without excess."""
    empty = np.flatnonzero(np.isneginf(excess))
    return min(start, float(curve.epsilon[empty[0]]) if empty.size else np.inf)


def _tangents(epsilon: FloatArray, log_delta: FloatArray, mu: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """For each cell a tangent of delta_mu: the logarithm at its point, and its relative values at both nodes.

    The point is where the slope of delta_mu is that of the chord, or the node next to it; every point is valid. The
    relative values are rounded down: delta_mu(t) - B (x - e^t) over delta_mu(t), B = Phi(-t/mu - mu/2).
    """
    left, right = epsilon[:-1], epsilon[1:]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        fall = log1mexp(np.minimum(log_delta[1:] - log_delta[:-1], 0.0))
        slope = log_delta[:-1] + fall - right - log1mexp(left - right)
        t = -mu * (special.ndtri_exp(np.clip(slope, -1e300, -1e-300)) + mu / 2)
        t = np.clip(np.where(np.isnan(t), right, t), left, right)
        height = gaussian_log_delta(mu, t)
        high = t / mu + mu / 2
        steep = np.exp(special.log_ndtr(-high) + t - height)  # B e^t over delta_mu(t)
        error = log_delta_error(mu, t) + 8 * _EPS * (1.0 + np.abs(height) + t + high * high)
        at_left = 1.0 + steep * (1.0 - error) * -np.expm1(left - t) - error
        at_right = 1.0 - steep * (1.0 + 2 * error) * np.expm1(right - t) - error
    return height, at_left, at_right


def _fails(epsilon: FloatArray, log_delta: FloatArray, mu: float) -> NDArray[np.bool_]:
    """For each cell whether its chord is not proved to be below delta_mu."""
    height, at_left, at_right = _tangents(epsilon, log_delta, mu)
    up = 1.0 + 8 * _EPS * (1.0 + np.abs(height))
    with np.errstate(over="ignore", invalid="ignore"):
        proved = np.exp(log_delta[:-1] - height) * up <= at_left
        proved &= np.exp(log_delta[1:] - height) * up <= at_right
    return ~(proved | np.isneginf(log_delta[:-1]))


def _largest_gaps(epsilon: FloatArray, log_delta: FloatArray, delta: FloatArray, mu: float) -> FloatArray:
    """For each cell an upper bound on the largest difference between its chord and delta_mu."""
    height, at_left, at_right = _tangents(epsilon, log_delta, mu)
    with np.errstate(over="ignore", invalid="ignore"):
        lines = np.maximum(delta[:-1] - np.exp(height) * at_left, delta[1:] - np.exp(height) * at_right)
    return np.fmin(lines, delta[:-1])  # delta_mu >= 0
