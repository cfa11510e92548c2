"""Envelope of an exact rejection sampler for logistic regression posteriors, and its expected number of proposals.

All quantities are in units of the prior. With v = w - w0, the negative log density rises by at least
g.v + |v|^2/2 + v'Hv psi(rho |v|), where g is its gradient at w0, H the data's part of its Hessian there, rho the
largest norm of a row and psi(t) = (e^-t + t - 1)/t^2. Proofs are in docs/notes/glm.md.
"""

import math

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample._value import frozen_value, set_fields

_GROWTH = 1.25
_COUNT = 24
_STARTS = np.geomspace(0.05, 4.0, 23)  # of the first radius, in units of sqrt(dimension)
_SLACK = 1e-6  # raises the log of the bound: half for the gradient at w0, half for rounding errors (glm.md, section 5)
_MOST_LOG_PROPOSALS = 40.0


@frozen_value
class RejectionEnvelope:
    """Shells inner < |v| <= outer around the mode, in each of which a Gaussian function bounds the density.

    The Gaussian function has precision tilt * I + curvature * H and value e^(-(1 - tilt) inner^2 / 2) at the centre, up
    to the factor of g. All arrays have shape (shells,). `log_proposals` is an upper bound, for any data, on the log of
    the expected number of proposals per draw if w0 is the mode. It grows by less than 1e-6 if the gradient at w0 is at
    most `gradient_tolerance` in norm.
    """

    inner: FloatArray
    outer: FloatArray
    tilt: FloatArray
    curvature: FloatArray
    log_proposals: float

    def __post_init__(self) -> None:
        for name in ("inner", "outer", "tilt", "curvature"):
            array = np.array(getattr(self, name), dtype=np.float64)
            array.flags.writeable = False
            set_fields(self, **{name: array})

    @property
    def log_heights(self) -> FloatArray:
        """Logs of the Gaussian functions at the centre, without the factor of g; shape (shells,)."""
        return np.asarray(-0.5 * (1.0 - self.tilt) * self.inner**2)

    @property
    def gradient_tolerance(self) -> float:
        """Largest norm of the gradient at w0 for which the public number of proposals is proved to be enough.

        Each Gaussian function has at most e^(|g|^2/(2 tilt)) times its mass at g = 0 (glm.md, section 5).
        """
        return math.sqrt(_SLACK * float(self.tilt.min()))

    def proposals(self, draws: int, failure_probability: float) -> int:
        """`proposal_count` for any data, if the gradient at w0 is at most `gradient_tolerance` in norm."""
        return proposal_count(self.log_proposals + _SLACK, draws, failure_probability)


def proposal_count(log_cost: float, draws: int, failure_probability: float) -> int:
    """A number N of proposals among which fewer than `draws` are accepted with at most `failure_probability`.

    Each is accepted by itself with a probability of at least p = e^-log_cost. N is the smallest number for which the
    bound of Chernoff 1952 is small enough: P(Bin(N, p) <= k - 1) <= e^(-N KL((k - 1)/N, p)) with k draws, where KL is
    the Kullback-Leibler divergence of two Bernoulli distributions. For one draw the bound is (1 - p)^N, which is exact.
    Raises ValueError if the number cannot be held.
    """
    if not log_cost + math.log(draws) <= _MOST_LOG_PROPOSALS:
        raise ValueError(f"too many proposals are needed: e^{log_cost:.1f} for one draw")
    p = math.exp(-log_cost)
    if p == 1.0:
        return draws
    goal = -math.log(failure_probability) * (1.0 + 1e-12)  # rounded up

    def is_enough(count: int) -> bool:
        share = (draws - 1) / count
        if share >= p:
            return False
        rare = share * (math.log(share) + log_cost) if share else 0.0
        rest = (1.0 - share) * (math.log1p(-share) - math.log1p(-p))
        return count * (rare + rest) >= goal

    low, high = draws - 1, draws
    while not is_enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def plan(*, weight: float, reach: float, dimension: int) -> RejectionEnvelope:
    """The envelope with the smallest bound, for any data of total weight n r and rows of norm at most `reach`."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        mean = weight * reach * reach / (4 * dimension)  # of the eigenvalues of H, at most
        whole = _whole_space(mean, dimension)
        upper, log_normalizer = _normalizer(mean, reach, dimension)
        made = [_concentric(start, mean, upper, log_normalizer, reach, dimension) for start in _STARTS]
        return min([whole, *made], key=lambda shells: np.nan_to_num(shells.log_proposals, nan=np.inf))


def _whole_space(mean: float, dimension: int) -> RejectionEnvelope:
    """One shell with the curvature of the prior alone; the bound is the largest determinant of I + H."""
    cost = 0.5 * dimension * float(np.log1p(mean))
    one, zero = np.ones(1), np.zeros(1)
    return RejectionEnvelope(inner=zero, outer=np.full(1, np.inf), tilt=one, curvature=zero, log_proposals=cost)


def _normalizer(mean: float, reach: float, dimension: int) -> tuple[float, float]:
    """alpha, and the log of a lower bound on the normaliser over det(I + alpha H)^(-1/2): the mass in a ball."""
    radii = np.sqrt(dimension) * _STARTS
    inside = np.log(special.gammainc(dimension / 2, radii**2 / 2))
    upper = 2 * _psi_above(reach * radii)
    best = int(np.nanargmax(np.nan_to_num(inside - 0.5 * dimension * np.log1p(upper * mean), nan=-np.inf)))
    return float(upper[best]), float(inside[best])


def _concentric(
    start: float, mean: float, upper: float, log_normalizer: float, reach: float, dimension: int
) -> RejectionEnvelope:
    """Shells with geometrically growing radii from `start` on."""
    outer = np.sqrt(dimension) * start * _GROWTH ** np.arange(_COUNT)
    inner, outer = np.append(0.0, outer), np.append(outer, np.inf)
    curvature = 2 * _psi_below(reach * outer)
    best = dimension / inner**2 - curvature * mean
    tilt = np.clip(best, curvature / upper, 1.0)
    heights = -0.5 * (1.0 - tilt) * inner**2
    costs = heights + 0.5 * dimension * (np.log1p(upper * mean) - np.log(tilt + curvature * mean))
    total = float(np.logaddexp.reduce(costs)) - log_normalizer
    return RejectionEnvelope(inner=inner, outer=outer, tilt=tilt, curvature=curvature, log_proposals=total)


def _psi_below(t: FloatArray) -> FloatArray:
    """(e^-t + t - 1)/t^2, 1/2 at 0, 0 at infinity."""
    series = 0.5 - t / 6 + t * t / 24 - t**3 / 120
    direct = (np.expm1(-t) + t) / (t * t)
    return np.where(t < 1e-3, series, np.where(np.isinf(t), 0.0, direct))


def _psi_above(t: FloatArray) -> FloatArray:
    """(e^t - t - 1)/t^2, 1/2 at 0."""
    return np.where(t < 1e-3, 0.5 + t / 6 + t * t / 24 + t**3 / 100, (np.expm1(t) - t) / (t * t))
