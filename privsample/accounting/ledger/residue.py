"""The Gaussian guarantee that is left after a release: the largest mu' with f (x) G_mu' >= G_mu (ledger.md, section 8).

Both sides are compared by their privacy curves at all epsilon >= 0. The curve of G_mu is log-concave in epsilon, and so
is each term of the composed curve, which is a mixture of shifted curves of G_mu'. On a cell of epsilons, each term lies
below its tangent in logarithms at the middle of the cell. A sum of exponentials is log-convex, so that it suffices to
compare this majorant with the curve of G_mu at the two ends of the cell.
"""

import math

import numpy as np
from scipy import optimize, special

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.loss.gaussian import GaussianPair, gaussian_log_delta
from privsample.accounting.loss.pair import DiscretePair, LossPair

_NODES = ((0.03, 257), (0.003, 33), (0.0, 9))  # losses of a discretized pair, fewer for smaller ones; they are bounds
_FIRST_POINTS, _CELLS_PER_OCTAVE = 24, 24.0
_SPLIT, _MOST_CELLS, _LEAST_CELL = 3, 4000, 1e-9
_EXCHANGES = 12
_TIGHT = 1e-10  # relative margin of the charge, within which its certificate needs cells of moderate size
_ROUNDING = 1e-13  # margin of the charge relative to mu^2, above the rounding errors of the curves
_MOST_RATIO = 1000.0  # mu over the largest loss, above which a certificate would need too many cells
_LEAST_CHARGE = 1e-9  # least charge, and least remainder, relative to mu^2
_BINDING = 1e-3  # excess, relative to the largest, of epsilons that are kept


@frozen_value
class LossMasses:
    """A discrete privacy loss that dominates a release: log P masses and losses in nats, shape (outcomes,) each."""

    log_p: FloatArray
    loss: FloatArray

    @property
    def most(self) -> float:
        """The largest loss."""
        return float(self.loss.max())

    def log_delta(self, mu: float, epsilon: FloatArray) -> FloatArray:
        """Upper bound on the log privacy curve of this loss with G_mu, shape of `epsilon` (epsilons,)."""
        return _log_sum(self.log_p + GaussianPair(mu=mu).log_delta(epsilon[:, None] - self.loss))

    def majorants(self, mu: float, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log of the cells' majorants at their two ends, shape (cells,) each."""
        middle = (low + high) / 2
        shifted, half = middle[:, None] - self.loss, ((high - low) / 2)[:, None]
        log_delta = GaussianPair(mu=mu).log_delta(shifted)
        slope = -np.exp(np.minimum(shifted + special.log_ndtr(-shifted / mu - mu / 2) - log_delta, 700.0))
        top = (
            self.log_p + log_delta + half * (1e-13 + _relative_error(mu, shifted) * np.abs(slope))
        )  # rounding errors of the slopes
        return _log_sum(top - half * slope), _log_sum(top + half * slope)


def loss_masses(pair: LossPair) -> LossMasses | None:
    """The privacy loss of a pair conditional on its being finite; None if it is unbounded."""
    if isinstance(pair, DiscretePair):
        kept = np.isfinite(pair.loss) & ~np.isneginf(pair.log_p)
        log_p = pair.log_p[kept]
        return LossMasses(log_p=log_p - np.logaddexp.reduce(log_p) + 1e-14, loss=pair.loss[kept])
    most = pair.max_divergence
    if not 0.0 < most < math.inf:
        return None
    top = most * (1.0 + 1e-9)
    count = next(nodes for least, nodes in _NODES if top > least)
    nodes = np.linspace(-min(top, pair.reverse().max_divergence * (1.0 + 1e-9)), top, count)
    log_p, at_infinity = pair.discretize(nodes)
    kept = ~np.isneginf(log_p)
    return LossMasses(log_p=log_p[kept], loss=nodes[kept]) if np.isneginf(at_infinity) else None


def residue(masses: LossMasses, mu: float) -> float | None:
    """The largest certified mu' with f (x) G_mu' >= G_mu, rounded down; None if none is found."""
    if mu > _MOST_RATIO * masses.most:
        return None
    points, charge = np.concatenate([[0.0], np.geomspace(0.05, 8.0, _FIRST_POINTS) * mu]), _LEAST_CHARGE * mu * mu
    for attempt in range(_EXCHANGES):  # each adds the epsilon at which the certificate failed
        margin = 4.0**attempt * (_TIGHT * charge + _ROUNDING * mu * mu)
        charge = _least_charge(masses, mu, points, charge) + margin
        if not charge < mu * mu * (1.0 - _LEAST_CHARGE):
            return None
        found = math.sqrt(mu * mu - charge) * (1.0 - 1e-15)
        worst = uncertified_epsilon(masses, mu, found)
        if worst is None:
            return found
        points = np.append(points[_excess(masses, mu, found, points) > -_BINDING], worst)
    return None


def _excess(masses: LossMasses, mu: float, left: float, epsilon: FloatArray) -> FloatArray:
    """log of the composed curve over that of G_mu at each epsilon, rounded up."""
    return masses.log_delta(left, epsilon) - _log_delta_below(mu, epsilon)


def _least_charge(masses: LossMasses, mu: float, points: FloatArray, least: float) -> float:
    """The least mu^2 - mu'^2, from `least` on, at which no excess at the points is positive, approximately."""

    def worst(charge: float) -> float:
        return float(_excess(masses, mu, math.sqrt(mu * mu - charge), points).max())

    most = mu * mu * (1.0 - _LEAST_CHARGE)
    if worst(least) <= 0.0:
        return least
    if worst(most) > 0.0:
        return mu * mu
    return float(optimize.brentq(worst, least, most, xtol=1e-300, rtol=1e-13, maxiter=200))


def uncertified_epsilon(masses: LossMasses, mu: float, left: float) -> float | None:
    """An epsilon at which f (x) G_left >= G_mu fails or is not certified; None if it is certified everywhere.

    Above `top` it holds because both tails are compared at the largest loss (ledger.md, section 8).
    """
    top = (masses.most / left - (mu - left) / 2) / (1.0 / left - 1.0 / mu) * (1.0 + 1e-6)
    count = max(math.ceil(math.log1p(max(top / mu, 0.0)) * _CELLS_PER_OCTAVE), 4)
    edges = np.expm1(np.linspace(0.0, math.log1p(max(top / mu, 1.0)), count)) * mu
    low, high = edges[:-1], edges[1:]
    while True:
        at_low, at_high = masses.majorants(left, low, high)
        fails = (at_low > _log_delta_below(mu, low)) | (at_high > _log_delta_below(mu, high))
        if not fails.any():
            return None
        low, high = low[fails], high[fails]
        middle = (low + high) / 2
        excess = _excess(masses, mu, left, middle)
        if excess.max() > 0.0 or len(low) > _MOST_CELLS or (high - low).max() < _LEAST_CELL * mu:
            return float(middle[np.argmax(excess)])
        parts = low[:, None] + (high - low)[:, None] * np.arange(_SPLIT + 1) / _SPLIT
        low, high = parts[:, :-1].ravel(), parts[:, 1:].ravel()


def _log_delta_below(mu: float, epsilon: FloatArray) -> FloatArray:
    """Lower bound on the log privacy curve of G_mu at epsilon >= 0: the upper bound minus twice its margin."""
    above, scaled = gaussian_log_delta(mu, epsilon), epsilon / mu
    margin = 2e-15 * (1.0 + (scaled + mu / 2) * (1.0 + np.abs(scaled - mu / 2))) - 4e-15 * above
    return above - 2.0 * margin


def _relative_error(mu: float, epsilon: FloatArray) -> FloatArray:
    """Bound on the relative error of the slope of log delta, which grows with the size of the exponents."""
    scaled = np.abs(epsilon) / mu
    return np.asarray(1e-13 + 1e-14 * (1.0 + scaled + mu) ** 2)


def _log_sum(terms: FloatArray) -> FloatArray:
    """Log of the sum of exponentials along the last axis, rounded up."""
    top = terms.max(axis=1)
    return top + np.log(np.exp(terms - top[:, None]).sum(axis=1)) + 1e-14
