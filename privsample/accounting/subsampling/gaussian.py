"""Dominating pair of Gaussian noise on a Poisson sample, such as one step of private gradient descent, and its moments.

With w(z) = 1 - q + q e^{mu z - mu^2/2} and q the sampling rate, every moment is an integral of phi(z) w(z)^s. The
integrand is analytic for |Im z| < pi/mu, where the trapezoidal rule converges exponentially. Proofs:
docs/notes/contour.md, section 6. Source of the pair: Mironov, Talwar and Zhang 2019, Theorem
4; Zhu and Wang 2019.
"""

from typing import NamedTuple

import numpy as np
from scipy import special

from privsample._checks import FloatArray, positive
from privsample._logspace import expm1_excess, log1mexp
from privsample._value import frozen_value, set_fields
from privsample.accounting.loss.exact import CertifiedPair, exact, reversed_pair
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import ComplexArray, SmoothPair, checked_divergence
from privsample.accounting.subsampling.gaussian_cells import discretize_sampled_gaussian

_DROP = 50.0  # truncation and step of a quadrature each have a relative error of e^-50
_REACH = np.sqrt(2 * _DROP)  # standard deviations at which a normal density has fallen by that factor
_ROUNDING = 4e-15
_MOMENT_ERROR = 2e-14  # of a log moment, relative
_ULP = 2.5e-16
_ANGLES = np.pi * np.concatenate(
    [np.geomspace(1e-4, 0.03, 20), np.linspace(0.04, 0.96, 24)]
)  # heights of strips of analyticity, times mu
_MOST_NODES = 100_000
_MOST_VALUES = 4_000_000  # values of an integrand in one call
_CHUNK = 500_000
_FAR = 200.0
_POWERS = np.array([[0.0], [1.0], [2.0], [4.0]])


@frozen_value
class PoissonGaussianPair(SmoothPair):
    """Gaussian noise on a Poisson sample: a record is sampled with probability `rate` and then moves the mean by `mu`.

    With `removed`, P = (1 - rate) N(0, 1) + rate N(mu, 1) against Q = N(0, 1); otherwise P and Q are exchanged.
    Kind: exact.
    """

    mu: float
    rate: float
    removed: bool

    def __post_init__(self) -> None:
        rate = positive(rate=self.rate)
        if not rate < 1.0:
            raise ValueError(f"rate must be below 1, got {rate}; for rate 1 use GaussianPair")
        set_fields(self, mu=positive(mu=self.mu), rate=rate, removed=bool(self.removed))

    @property
    def max_divergence(self) -> float:
        """Infinite for removal; -log(1 - rate) for addition."""
        return np.inf if self.removed else float(-np.log1p(-self.rate))

    @property
    def suits_contours(self) -> bool:
        """False: the moments of few steps of a small sample are dominated by losses far above those that matter."""
        return False

    @property
    def gaussian_part(self) -> tuple[float, float]:
        """The shift without sampling: both directions are dominated by the Gaussian pair (gaussian_dp.md, step 4)."""
        return self.mu, 0.0

    def reverse(self) -> "PoissonGaussianPair":
        """The pair of the other direction."""
        return PoissonGaussianPair(mu=self.mu, rate=self.rate, removed=not self.removed)

    def certified_pair(self) -> CertifiedPair:
        """The Gaussian pair with the sampling rate."""
        gaussian = GaussianPair(mu=self.mu).certified_pair()
        sampled = {"kind": "poisson_sample", "rate": exact(self.rate), "pair": gaussian}
        return sampled if self.removed else reversed_pair(sampled)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The Gaussian privacy curve at another epsilon, scaled (Balle, Barthe and Gaboardi 2018, Theorem 2)."""
        log_factor, base = base_epsilon(epsilon, self.rate, removed=self.removed)
        inside = np.isfinite(base)
        below = log1mexp(np.minimum(epsilon, 0.0))
        # log_factor <= 0 is rounded up; base_epsilon has rounded the argument down
        result = log_factor * (1 - 4 * _ULP) + GaussianPair(mu=self.mu).log_delta(np.where(inside, base, 0.0))
        return np.where(inside, result, np.where(np.isneginf(base), below, -np.inf))

    def discretize(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """Masses of cells by quadrature, which keep their digits at every rate; the infinity mass by the curve."""
        masses = discretize_sampled_gaussian(nodes, self.mu, self.rate, removed=self.removed)
        return masses, float(self.log_delta(nodes[-1:])[0])

    def renyi(self, orders: FloatArray) -> FloatArray:
        """The log moment, by quadrature of positive terms, divided by the order minus 1."""
        t = np.asarray(orders, dtype=np.float64) - 1.0
        return checked_divergence(self._log_moment(t.ravel()).reshape(t.shape) / t) * (1 + _MOMENT_ERROR)

    def log_mgf(self, t: ComplexArray) -> ComplexArray:
        """log of the moment generating function by the trapezoidal rule, up to multiples of 2 pi i."""
        return self.log_mgf_with_error(t)[0]

    def log_mgf_with_error(self, t: ComplexArray) -> tuple[ComplexArray, FloatArray]:
        """log moments and error bounds, by one quadrature for each real part; NaN if too many nodes are needed."""
        real, row = np.unique(t.real, return_inverse=True)
        result = self._log_moment(real)[row].astype(np.complex128)
        error = _MOMENT_ERROR * np.abs(result.real)
        for index, c in enumerate(real):
            here = np.flatnonzero((row == index) & (t.imag != 0.0))
            if here.size:
                width = np.abs(t.imag[here])
                log_phi, own_error = self._log_characteristic(float(c), width)
                error[here] += own_error
                result[here] += np.where(t.imag[here] > 0.0, log_phi, log_phi.conj())
        return result, error

    def log_decay(self, c: float, widths: FloatArray) -> FloatArray:
        """Bound of log |M(c + iw)/M(c)|, by a path of integration off the real line.

        See contour.md, section 6.3.
        """
        s = float(self._exponent(np.asarray(c)))
        line = _line(self, s, float(_step(s, self.mu, self.rate)) / 2)
        if line is None:
            return np.zeros_like(widths)
        return np.array([_fall_off_the_line(line, float(width)) for width in widths])

    def _exponent(self, t: FloatArray) -> FloatArray:
        """The exponent s with E_P e^{tL} = integral of phi w^s."""
        return 1.0 + t if self.removed else -t

    def _log_moment(self, t: FloatArray) -> FloatArray:
        """log E_P e^{tL} for real t > 0, shape (k,), with relative error 1e-14; +inf if it needs too many nodes."""
        s = self._exponent(t)
        low, high = _truncation_bounds(s, self.mu, self.rate)
        nodes = (high - low) / _step(s, self.mu, self.rate) + 2
        size = np.where(nodes < _MOST_NODES, np.ceil(np.log2(nodes)), 0.0)
        result = np.full(len(t), np.inf)
        for own in np.unique(size[size > 0]):
            rows = np.flatnonzero(size == own)
            for some in np.array_split(rows, 1 + int(len(rows) * 2**own) // _CHUNK):
                result[some] = self._quadrature(t[some], low[some], high[some], int(nodes[some].max()))
        return result

    def _quadrature(self, t: FloatArray, low: FloatArray, high: FloatArray, nodes: int) -> FloatArray:
        """log moments on grids with equal numbers of nodes; by log1p of positive terms where the moment is near 1."""
        s = self._exponent(t)[:, None]
        step = (high - low)[:, None] / (nodes - 1)
        z = low[:, None] + step * np.arange(nodes)
        log_w = _loss(z, self.mu, self.rate)
        log_weight = -0.5 * z * z + np.log(step / np.sqrt(2 * np.pi))
        result: FloatArray = np.logaddexp.reduce(log_weight + s * log_w, axis=1)
        near = result < 0.5
        loss, log_p = (log_w, log_weight + log_w) if self.removed else (-log_w, log_weight)
        loss, log_p, t = loss[near], log_p[near], t[near, None]
        power = t * loss
        grown = np.exp(log_p) * expm1_excess(np.minimum(power, 30.0))
        grown = np.where(power < 30.0, grown, np.exp(np.minimum(log_p + power, 1.0)))  # p alone may underflow there
        fallen = np.exp(log_p) * expm1_excess(np.minimum(-loss, 30.0))
        far = np.exp(np.minimum(log_p - loss, 1.0)) - np.exp(log_p) * (1.0 - loss)  # e^-loss alone may overflow there
        fallen = np.where(-loss < 30.0, fallen, far)
        result[near] = np.log1p((grown + t * fallen).sum(axis=1))
        return result

    def _log_characteristic(self, c: float, widths: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """log of M(c + iw)/M(c) at w > 0 and an error bound, shape (k,); for large w on a line off the real axis."""
        s = float(self._exponent(np.asarray(c)))
        height, step_off = _height(s, self.mu, self.rate)
        near = _step(s, self.mu, self.rate, widths) > step_off / 4
        result, error = np.full(len(widths), np.nan + 0j), np.full(len(widths), np.inf)
        parts = [(near, _on_the_line, float(widths[near].max(initial=0.0)), 0.0), (~near, _off_the_line, 0.0, height)]
        for here, log_phi, width, y in parts:
            line = _line(self, s, float(_step(s, self.mu, self.rate, width)) if y == 0.0 else step_off)
            rows = np.flatnonzero(here)
            if line is None or rows.size * line.z.size > _MOST_VALUES:
                continue
            for some in np.array_split(rows, 1 + rows.size * line.z.size // _CHUNK):
                result[some], error[some] = log_phi(line, widths[some], y)
        return (result if self.removed else result.conj()), error


class _Line(NamedTuple):
    """Nodes on the real line; at each, the normalised weight phi w^s, log w and its slope divided by mu."""

    mu: float
    rate: float
    s: float
    z: FloatArray
    mass: FloatArray
    loss: FloatArray
    slope: FloatArray

    @property
    def rest(self) -> FloatArray:
        """1 minus the slope: the probability, given z, that the record was not sampled."""
        return 1.0 - self.slope


def base_epsilon(epsilon: FloatArray, rate: float, *, removed: bool) -> tuple[FloatArray, FloatArray]:
    """(log f, b) with D_{exp(epsilon)} of the sampled pair = f D_{exp(b)} of the base, rounded up.

    b = -inf where the divergence is 1 - e^epsilon, and +inf where it is zero. For addition (`removed` false) the base
    pair is (Q, P). Source: Balle, Barthe and Gaboardi 2018, Theorem 2.
    """
    epsilon = np.asarray(epsilon, dtype=np.float64)
    keep = np.log1p(-rate)  # log(1 - q)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if removed:
            log_factor = np.full(epsilon.shape, np.log(rate))
            near = np.log1p(np.expm1(np.minimum(epsilon, 1.0)) / rate)
            far = epsilon + np.log1p(-np.exp(keep - epsilon)) - np.log(rate)
            base = np.where(epsilon > keep, np.where(epsilon < 1.0, near, far), -np.inf)
        else:
            gap = np.minimum(epsilon + keep - 2 * _ULP * np.abs(epsilon), 0.0)
            log_factor = log1mexp(gap)
            near = np.log1p(np.expm1(epsilon) / -np.expm1(gap))
            base = np.where(epsilon > -1.0, near, epsilon + np.log(rate) - log_factor)
            base = np.where(epsilon < -keep, base, np.inf)
        return log_factor, np.where(np.isfinite(base), base - 6 * _ULP * np.abs(base), base)


def _loss(z: FloatArray, mu: float, rate: float) -> FloatArray:
    """log w with full relative precision: by log1p and expm1 where w is near 1."""
    exponent = mu * (z - mu / 2)
    small = (np.abs(exponent) < 1.0) | ((exponent + np.log(rate) < -1.0) & (rate < 0.5))
    near = np.log1p(rate * np.expm1(np.where(small, exponent, 0.0)))
    return np.where(small, near, np.logaddexp(np.log1p(-rate), np.log(rate) + exponent))


def _slope(z: FloatArray, mu: float, rate: float) -> FloatArray:
    """The slope of log w divided by mu: the probability, given z, that the record was sampled."""
    result: FloatArray = special.expit(mu * (z - mu / 2) + np.log(rate) - np.log1p(-rate))
    return result


def _log_growth(s: FloatArray | float, mu: float, rate: float, height: FloatArray) -> FloatArray:
    """Bound of the log growth of the integral of |phi w^s| from the real line to this height.

    |w| increases nowhere; it decreases by at most the factor cos(mu height/2), and to at least 1 - rate while
    mu height <= pi/2 (contour.md, section 6.1).
    """
    turn, down = mu * height, np.maximum(-np.asarray(s), 0.0)
    by_turn = -down * np.log(np.cos(np.minimum(turn / 2, 1.55)))
    z = mu / 2 - (mu / 2 + _REACH) * np.linspace(0.0, 1.0, 12)
    least = np.max(
        special.log_ndtr(z) - down[..., None] * _loss(z, mu, rate), axis=-1
    )  # lower bound of log of the integral of phi w^s
    by_floor = np.where(turn <= np.pi / 2, -down * np.log1p(-rate) - np.maximum(least, 0.0), np.inf)
    result: FloatArray = height * height / 2 + np.minimum(by_turn, by_floor)
    return result


def _step(s: FloatArray | float, mu: float, rate: float, width: FloatArray | float = 0.0) -> FloatArray:
    """A step at which the trapezoidal rule has a relative error of e^-50 for the integral of phi |w^(s + i width)|."""
    a = _ANGLES / mu
    lost = _DROP + _log_growth(np.asarray(s)[..., None], mu, rate, a) + np.asarray(width)[..., None] * mu * a
    result: FloatArray = np.max(2 * np.pi * a / lost, axis=-1)
    return result


def _height(s: float, mu: float, rate: float) -> tuple[float, float]:
    """A height above the real line, and the step there; the integrand is bounded there for every width."""
    a = _ANGLES / mu
    steps = np.pi * a / (_DROP + _log_growth(s, mu, rate, a))
    best = int(np.argmax(steps))
    return float(a[best] / 2), float(steps[best])


def _truncation_bounds(s: FloatArray, mu: float, rate: float) -> tuple[FloatArray, FloatArray]:
    """Bounds outside which phi w^s, and for moderate s phi (w - 1)^2, have a relative mass below e^-50; (k,) each."""
    low, high = np.zeros_like(s), np.maximum(s, 2.0) * mu
    down, far = s < 0.0, s * mu > _FAR
    if down.any():
        mode_low, mode_high = _mode(s[down], mu, rate)
        low[down], high[down] = mode_low, np.maximum(mode_high, high[down])
    low, high = low - _REACH, high + _REACH
    if far.any():
        low[far], high[far] = _far_truncation_bounds(s[far], mu, rate, (low[far], high[far]))
    return low, high


def _mode(s: FloatArray, mu: float, rate: float) -> tuple[FloatArray, FloatArray]:
    """An interval around the only root of z = s mu slope(z) for s < 0, the mode of the log-concave phi w^s."""
    low, high = s * mu, np.zeros_like(s)
    for _ in range(8 + max(0, int(np.log2(np.max(-s) * mu)))):
        middle = (low + high) / 2
        above = middle > s * mu * _slope(middle, mu, rate)
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return low, high


def _far_truncation_bounds(
    s: FloatArray, mu: float, rate: float, simple: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Truncation bounds for large s, around the outermost modes, by the monotone iteration z <- s mu slope(z)."""
    drop, ends = _DROP + np.log(s * mu), np.array([0.0 * s, s * mu])
    for _ in range(60):
        ends = s * mu * _slope(ends, mu, rate)
    settled = np.all(np.abs(ends - s * mu * _slope(ends, mu, rate)) < 1e-6, axis=0)
    lower, upper = s * _loss(ends, mu, rate) - ends * ends / 2
    left = np.where(lower < upper - drop, ends[1], ends[0])
    right = np.where(upper < lower - drop, ends[0], ends[1])
    d = _REACH * np.exp2(np.arange(0.0, 1.0 + np.log2(np.max(s * mu)), 0.5))[:, None]
    below = d * (d / 2 - left + s * mu * _slope(left - d, mu, rate)) >= drop
    above = d * (d / 2 + right - s * mu * _slope(right + d, mu, rate)) >= drop
    low, high = left - d[below.argmax(axis=0), 0], right + d[above.argmax(axis=0), 0]
    return np.where(settled, low, simple[0]), np.where(settled, high, simple[1])


def _line(pair: PoissonGaussianPair, s: float, step: float) -> _Line | None:
    """The nodes and weights for exponent s, or None if there would be too many nodes."""
    low, high = (float(end[0]) for end in _truncation_bounds(np.array([s]), pair.mu, pair.rate))
    if not (high - low) / step < _MOST_NODES:
        return None
    z = np.linspace(low, high, int((high - low) / step) + 2)
    loss = _loss(z, pair.mu, pair.rate)
    log_mass = -0.5 * z * z + s * loss
    mass = np.exp(log_mass - log_mass.max())
    return _Line(
        mu=pair.mu, rate=pair.rate, s=s, z=z, mass=mass / mass.sum(), loss=loss, slope=_slope(z, pair.mu, pair.rate)
    )


def _on_the_line(line: _Line, widths: FloatArray, _: float) -> tuple[ComplexArray, FloatArray]:
    """log M(c + iw)/M(c) as log1p of a sum without cancellation, for widths that the nodes resolve."""
    mean = line.mass @ line.loss
    angle = np.outer(widths, line.loss - mean)
    half = np.sin(angle / 2)
    less, imaginary = -2 * (half * half) @ line.mass, np.sin(angle) @ line.mass
    error = _ROUNDING * widths * (line.mass @ np.abs(line.loss)) + np.exp(-_DROP)
    size = 2 * less + less * less + imaginary * imaginary  # |phi|^2 - 1
    return _log_with_floor(size, np.arctan2(imaginary, 1 + less) + widths * mean, error)


def _off_the_line(line: _Line, widths: FloatArray, height: float) -> tuple[ComplexArray, FloatArray]:
    """log M(c + iw)/M(c) at Im z = height, where |w^(i width)| decreases with the width."""
    modulus, theta = _move_up(line, np.full_like(line.z, height))
    base = line.mass * np.exp(height * height / 2 + line.s * (modulus + 1j * theta) - 1j * height * line.z)
    log_w = line.loss + modulus
    turns = np.exp(np.outer(widths, 1j * log_w - theta))
    phi, fallen = turns @ base, np.abs(turns)
    error = fallen @ np.abs(base) + widths * (fallen @ np.abs(base * (np.abs(log_w) + theta)))
    return _log_with_floor(phi.real**2 + phi.imag**2 - 1, np.angle(phi), _ROUNDING * error + np.exp(-_DROP))


def _log_with_floor(size: FloatArray, angle: FloatArray, error: FloatArray) -> tuple[ComplexArray, FloatArray]:
    """log phi from |phi|^2 - 1 and its angle, with |phi| raised to at least its error, and the relative error."""
    square = np.maximum(1 + size, error * error)
    log_square = np.where(size > -0.5, np.log1p(np.maximum(size, -0.5)), np.log(square))
    return 0.5 * log_square + 1j * angle, 2 * error / np.sqrt(square)


def _move_up(line: _Line, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log |w(z + iy)/w(z)| <= 0 and the angle of w(z + iy), by continuity in y; y broadcasts over the nodes."""
    turn, slope, rest = line.mu * y, line.slope, line.rest
    sine, half = np.sin(turn), np.sin(turn / 2) ** 2
    inside = np.arctan2(slope * sine, 1 - 2 * slope * half)
    beyond = turn - np.arctan2(rest * sine, 1 - 2 * rest * half)
    return 0.5 * np.log1p(-4 * slope * rest * half), np.where(slope < 0.5, inside, beyond)


def _fall_off_the_line(line: _Line, width: float) -> float:
    """The least bound over the paths z + i y(z), y = height times a power of the slope.

    See contour.md, section 6.3.
    """
    mu, s, mass, slope, rest = line.mu, line.s, line.mass, line.slope, line.rest
    shape = slope**_POWERS
    rise = _POWERS * mu * shape * rest
    gain = (shape * slope * mu) @ mass
    loss = (rise * rise + shape * shape * (1 - s * mu * mu * slope * rest)) @ mass
    most = np.minimum(2 * np.pi / 3 / mu * (np.exp2(_POWERS[:, 0]) if s > 0 else 1.0), _REACH)
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.where(loss > 0.0, np.minimum(width * gain / loss, most), most)
        height = np.minimum(np.multiply.outer(np.array([2.0, 1.0, 0.5, 0.25]), best), most)[..., None]
        y, slant = height * shape, height * rise
        modulus, theta = _move_up(line, y)
        growth = y * y / 2 + s * modulus + 0.5 * np.log1p(slant * slant) - width * theta
        change = np.expm1(growth)
        tail = (np.exp(_log_growth(s, mu, line.rate, height) - _DROP) * (1 + _POWERS * mu * height))[..., 0]
        near = np.log1p(change @ mass + 1e-6 * (np.abs(change) @ mass) + tail)
        far = np.log((1 + 1e-6) * (np.exp(growth) @ mass) + tail)
    return float(min(near.min(), far.min(), 0.0))
