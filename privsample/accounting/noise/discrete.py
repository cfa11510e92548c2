"""Dominating pairs of discrete Laplace and discrete Gaussian noise that is shifted by an integer.

Source: Ghosh, Roughgarden and Sundararajan 2009 (discrete Laplace); Canonne, Kamath and Steinke 2020 (discrete
Gaussian). Proofs are in docs/notes/statistics.md.
"""

from fractions import Fraction

import numpy as np

from privsample._checks import FloatArray, positive_integer
from privsample._logspace import expm1_excess, log1mexp, ratio_up
from privsample._value import frozen_value, set_fields
from privsample.accounting.curves.discretize import split_mass
from privsample.accounting.loss.exact import CertifiedPair, CertifiedRenyi, exact
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import LossPair, checked_divergence, delta_below_zero
from privsample.distributions.noise import DiscreteGaussianNoise, DiscreteLaplaceNoise

_ULP = float(np.finfo(np.float64).eps)
_FEW = 1 << 16  # largest number of outcomes that are listed
_WIDE = 1 << 13  # noise_std from which the privacy curve is a closed-form upper bound
_PLACES = np.arange(1.0, 10.0)
_COUNTED = 1e15  # floats of this size do not resolve single outcomes
_LEFT_OUT = -100.0  # log of the mass outside the outcomes that `discretize` lists


@frozen_value
class DiscreteLaplacePair(LossPair):
    """Discrete Laplace noise, P(k) proportional to e^(-|k| / scale), shifted by an integer, against itself.

    It is its own reverse. For shift 1 it is binary randomized response with epsilon = 1 / scale. All curves are exact
    (statistics.md, "Discrete Laplace").
    """

    shift: int
    scale: float

    def __post_init__(self) -> None:
        set_fields(self, shift=positive_integer(shift=self.shift), scale=DiscreteLaplaceNoise(scale=self.scale).scale)

    @property
    def max_divergence(self) -> float:
        """shift / scale, rounded up."""
        return ratio_up(self.shift, self.scale)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """log of (A e^((a-1)z) + B e^(-az))/(1+q) over a - 1, with q = e^(-u), u = 1/scale, z = u shift.

        For small divergences it is log1p of a sum of positive terms, which avoids the cancellation of log near 1.
        """
        alpha = np.asarray(orders, dtype=np.float64)
        s, u, z = alpha - 1.0, 1.0 / self.scale, self.max_divergence
        whole = -np.expm1(-(alpha + s) * u)
        up, down = -np.expm1(-2 * alpha * u) / whole, -np.exp(-u) * np.expm1(-2 * s * u) / whole  # A and B
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            slope = 2 * np.exp(-alpha * u) * (s * _sinh_excess(alpha * u) - alpha * _sinh_excess(s * u))
            plain = s * -np.expm1(-2 * alpha * u) + alpha * np.exp(-u) * np.expm1(-2 * s * u)
            slope = np.maximum(np.where(alpha * u < 1.0, slope, plain), 0.0) / whole  # (a-1) A - a B
            near = (up * expm1_excess(s * z) + down * expm1_excess(-alpha * z) + z * slope) / (1.0 + np.exp(-u))
            far = np.logaddexp(np.log(up) + s * z, np.log(down) - alpha * z) - np.log1p(np.exp(-u))
        return checked_divergence(np.where(near < 1.0, np.log1p(np.where(near < 1.0, near, 0.0)), far) / s)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """log of P(k >= j) - e^e Q(k >= j) = [q (1 - q^(s-j)) + 1 - e^e q^j]/(1 + q).

        Here s is the shift and j the first outcome with a loss above e.
        """
        e = np.asarray(epsilon, dtype=np.float64)
        u, z = 1.0 / self.scale, self.max_divergence
        inside = np.clip(e, -z, z)
        # rounding error of the loss, subtracted from epsilon so that delta is rounded up
        lost = 2 * _ULP * (z + np.abs(inside))
        middle = np.floor((inside * self.scale + self.shift) / 2)
        mass = np.zeros(e.shape)
        for j in (
            np.maximum(middle, 1.0),
            np.clip(middle + 1.0, 1.0, self.shift),
        ):  # the maximum over j is at one of these two
            with np.errstate(over="ignore"):
                beyond = np.expm1(inside - j * u - lost)
            mass = np.maximum(mass, -np.exp(-u) * np.expm1(-(self.shift - j) * u) - beyond)
        with np.errstate(divide="ignore"):
            result = np.where(e < -z, log1mexp(np.minimum(e, 0.0)), np.log(mass) - np.log1p(np.exp(-u)))
        return np.where(e >= z, -np.inf, _up(result))

    def reverse(self) -> "DiscreteLaplacePair":
        """The pair itself."""
        return self

    def certified_pair(self) -> CertifiedPair:
        """The shift and the scale, exactly."""
        return {"kind": "discrete_laplace", "places": self.shift, "scale": exact(self.scale)}

    def discretize(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """Split the mass of each outcome between the nodes around its loss; by the default method for large shifts."""
        if self.shift > _FEW:
            return LossPair.discretize(self, nodes)
        return split_mass(self.log_masses, (2 * np.arange(self.shift + 1.0) - self.shift) / self.scale, nodes)

    @property
    def log_masses(self) -> FloatArray:
        """log P of the shift + 1 values of the loss, (2k - shift)/scale for k = 0, ..., shift."""
        k, u = np.arange(self.shift + 1.0), 1.0 / self.scale
        with np.errstate(divide="ignore"):
            inner = np.where((k > 0) & (k < self.shift), np.log(-np.expm1(-u)), 0.0)
        return inner - np.log1p(np.exp(-u)) - (self.shift - k) * u


def _up(log_delta: FloatArray) -> FloatArray:
    """Round log delta up by more than the error of a few operations."""
    return np.minimum(log_delta + 8 * _ULP * (1.0 + np.abs(np.maximum(log_delta, -1e300))), 0.0)


def _sinh_excess(x: FloatArray) -> FloatArray:
    """sinh x - x, with an error of one unit in the last place of x^2."""
    return (expm1_excess(x) - expm1_excess(-x)) / 2


@frozen_value
class DiscreteGaussianPair(LossPair):
    """Discrete Gaussian noise, P(k) proportional to e^(-k^2 / (2 noise_std^2)), shifted by an integer, against itself.

    It is its own reverse. The Rényi curve is exact: a shift^2 / (2 noise_std^2) where a * shift is an integer, and
    slightly less elsewhere. The privacy curve is a sum over the outcomes; from noise_std 8192 on it is an upper bound
    that exceeds it by about 1/noise_std (statistics.md, "Discrete Gaussian").
    """

    shift: int
    noise_std: float

    def __post_init__(self) -> None:
        distribution = DiscreteGaussianNoise(noise_std=self.noise_std)
        set_fields(self, shift=positive_integer(shift=self.shift), noise_std=distribution.noise_std)

    @property
    def max_divergence(self) -> float:
        """Infinite: the loss is unbounded."""
        return np.inf

    @property
    def is_expensive(self) -> bool:
        """A sum over outcomes."""
        return True

    def renyi(self, orders: FloatArray) -> FloatArray:
        """[a(a-1) s^2 / (2 v) + log theta(as)/theta(0)]/(a-1), theta(x) the sum of e^(-(k-x)^2 / (2v)) over k."""
        alpha = np.asarray(orders, dtype=np.float64)
        s, sigma = alpha - 1.0, self.noise_std
        nearest = np.rint(alpha * self.shift)
        off = (alpha - nearest / self.shift) * self.shift
        if sigma >= 1.0:  # by Poisson summation
            plain = alpha * (self.shift / sigma) ** 2 / 2
            waves = np.exp(-2 * (np.pi * sigma * _PLACES) ** 2)
            lost = 4 * (waves * np.sin(np.pi * off[..., None] * _PLACES) ** 2).sum(-1) / (1 + 2 * waves.sum())
            return checked_divergence(np.maximum(plain + np.log1p(-lost) / s, 0.0))
        moved = nearest * (nearest - self.shift) + off * (2 * nearest - self.shift)
        return checked_divergence((moved / sigma / sigma / 2 + self._log_theta_ratio(off)) / s)

    def _log_theta_ratio(self, off: FloatArray) -> FloatArray:
        """log of theta(off)/theta(0), but for the factor e^(-off^2 / (2 v)); positive, |off| <= 1/2."""
        v = self.noise_std**2
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            tilt = off[..., None] * _PLACES / v
            at_rest = -(_PLACES**2) / v / 2
            near = np.exp(at_rest) * (expm1_excess(tilt) + expm1_excess(-tilt))
            far = np.exp(at_rest + tilt) + np.exp(at_rest - tilt) - 2 * np.exp(at_rest)
            more = np.where(np.abs(tilt) < 1.0, near, far).sum(-1)
        return np.log1p(more / (1 + 2 * np.exp(at_rest).sum()))

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """log of the sum of [p - e^e q]_+ over all outcomes (Canonne, Kamath and Steinke 2020, Theorem 7)."""
        e = np.asarray(epsilon, dtype=np.float64)
        above = self._bound(np.abs(e)) if self.noise_std >= _WIDE else self._summed(np.abs(e))
        return _up(np.where(e >= 0, above, delta_below_zero(e, above)))

    def reverse(self) -> "DiscreteGaussianPair":
        """The pair itself."""
        return self

    def certified_pair(self) -> CertifiedPair:
        """The shift and the variance parameter, exactly."""
        variance = exact(Fraction(self.noise_std) ** 2)
        return {"kind": "discrete_gaussian", "places": self.shift, "variance": variance}

    def certified_renyi(self) -> CertifiedRenyi:
        """Half the squared ratio of shift and noise (Canonne, Kamath and Steinke 2020, Theorem 4)."""
        return (self.shift / Fraction(self.noise_std)) ** 2 / 2, ()

    def discretize(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """Split the mass of each outcome between the nodes around its loss, if there are few outcomes.

        The mass of outcomes in the far tails is added to the infinite loss or to a larger loss, which is an upper
        bound.
        """
        distribution = DiscreteGaussianNoise(noise_std=self.noise_std)
        far = float(np.ceil(distribution.quantile_bound(_LEFT_OUT)))
        if 2 * far + self.shift > _FEW:
            return LossPair.discretize(self, nodes)
        k = np.arange(-far, self.shift + far + 1)
        log_p, loss = distribution.log_mass(k - self.shift), self._loss(k)
        log_p[0] = np.logaddexp(log_p[0], distribution.log_tail(np.array(self.shift + far)))
        masses, infinite = split_mass(log_p, loss, nodes)
        return masses, float(np.logaddexp(infinite, distribution.log_tail(np.array(far))))

    def _loss(self, k: FloatArray) -> FloatArray:
        """Privacy loss of each outcome, in nats."""
        return (self.shift / self.noise_std) * ((2 * k - self.shift) / self.noise_std) / 2

    def _summed(self, epsilon: FloatArray) -> FloatArray:
        """log delta at each epsilon >= 0 by summation; the terms that are left out are below 1e-17 of the sum."""
        distribution, shift, sigma = DiscreteGaussianNoise(noise_std=self.noise_std), self.shift, self.noise_std
        threshold = epsilon.ravel() / shift * sigma * sigma + shift / 2  # outcomes beyond it have a larger loss
        result = np.zeros(threshold.shape)
        for i, (at, e) in enumerate(zip(threshold, epsilon.ravel(), strict=True)):
            first = np.floor(at) - shift  # first outcome above the threshold, relative to the centre of P
            if first < -12 * sigma - 1:  # the tail below has mass 1e-30
                continue
            if first > _COUNTED:
                result[i] = distribution.log_tail(first)
                continue
            k = shift + np.arange(first, 2.0 + np.ceil(np.hypot(max(first, 0.0), 10 * sigma)))
            gap, lost = e - self._loss(k), 4 * _ULP * (1 + e + shift * (np.abs(k) / sigma) / sigma)
            terms = distribution.log_mass(k - shift) + log1mexp(np.minimum(gap, 0.0) - lost)
            result[i] = np.logaddexp.reduce(terms[gap <= lost])
        return np.minimum(result + 64 * _ULP * (1.0 + np.abs(np.maximum(result, -1e300))), 0.0).reshape(epsilon.shape)

    def _bound(self, epsilon: FloatArray) -> FloatArray:
        """log of the Gaussian curve plus the largest term of the sum, an upper bound of the sum.

        The sum of a unimodal function is at most its integral plus its largest value.
        """
        ratio = self.shift / self.noise_std
        away = epsilon / ratio - ratio / 2  # distance of the threshold from the centre of P, in noise_std
        peak = (np.hypot(away, 2.0) - away) / 2
        peak = np.where(away > 1.0, 2.0 / (np.hypot(away, 2.0) + away), peak)
        slope = np.log(ratio) + np.log(peak) - 0.5 * (peak + away) ** 2
        flat = -0.5 * np.maximum(away, 0.0) ** 2
        largest = np.minimum(slope, flat) - np.log(self.noise_std) - 0.5 * np.log(2 * np.pi)
        return np.minimum(np.logaddexp(GaussianPair(mu=ratio).log_delta(epsilon), largest), 0.0)
