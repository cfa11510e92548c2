"""Truncated one-parameter exponential families: standard deviations and Rényi divergences by quadrature.

The density at natural parameter phi is proportional to e^{phi y - U(y)} on [low, high], with U convex. The rounding
errors are bounded in tempered.md, section 5.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample._logspace import expm1_excess, log1p_excess
from privsample._value import frozen_value

_DROP, _HALVINGS, _PANELS = 40.0, 28, 3  # nats at which the density is cut; bisections; panels on each side
_FINE, _COARSE = np.polynomial.legendre.leggauss(16), np.polynomial.legendre.leggauss(12)
_NODES = (np.concatenate([_FINE[0], _COARSE[0]]) + 1.0) / 2
_SPLIT = len(_FINE[0])
_DROP_IN_DEVIATIONS = 9.0  # standard deviations over which a normal density decreases by e^-40
_RELATIVE_ERROR = 1e-9  # bounds rounding and truncated tails (tempered.md, section 5)
_ULP = float(np.finfo(np.float64).eps)
_BLOCK = 1024
_LARGE_WEIGHT = 1e7  # up to this weight a difference of a few terms has an absolute error of 1e-12 in a log density
_SMALL_LOSS = 1e-4  # below this loss, differences of exponentials have too few digits, and a series is used


Excess = Callable[[FloatArray, FloatArray], FloatArray]


class Potential(ABC):
    """The convex function U(y) in the exponent of the density."""

    __slots__ = ()

    @abstractmethod
    def slope(self, y: FloatArray) -> FloatArray:
        """U'(y)."""

    @abstractmethod
    def mode(self, phi: FloatArray) -> FloatArray:
        """The y with U'(y) = phi, up to rounding; infinite if there is none."""

    @abstractmethod
    def excess(self, y: FloatArray, z: FloatArray) -> FloatArray:
        """U(y + z) - U(y) - U'(y) z >= 0, computed without cancellation."""


@frozen_value
class LogisticPotential(Potential):
    """U(y) = weight log(1 + e^y): Beta distributions, with y the logit of the proportion."""

    weight: float

    def slope(self, y: FloatArray) -> FloatArray:
        """weight times the logistic function of y."""
        return self.weight * np.asarray(special.expit(y))

    def mode(self, phi: FloatArray) -> FloatArray:
        """The logit of phi/weight; infinite for phi outside (0, weight)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.log(phi) - np.log(self.weight - phi)
        return np.where(phi <= 0.0, -np.inf, np.where(phi >= self.weight, np.inf, inner))

    def excess(self, y: FloatArray, z: FloatArray) -> FloatArray:
        """Computed at -|y| by symmetry, where the two terms cancel by at most a factor of two."""
        p, z = special.expit(-np.abs(y)), np.where(y > 0.0, -z, z)
        beyond = np.abs(z) > 30.0
        some_beyond = bool(beyond.any())
        near = np.clip(z, -30.0, 30.0) if some_beyond else z
        if self.weight < _LARGE_WEIGHT:
            inner = np.log1p(p * np.expm1(near)) - p * near
        else:
            inner = p * expm1_excess(near) - log1p_excess(p * np.expm1(near))
        inner = np.maximum(inner, 0.0)
        if not some_beyond:  # the other branch takes as long as this one
            return self.weight * inner
        far = np.logaddexp(np.log1p(-p), z + np.log(p)) - p * z
        return self.weight * np.where(beyond, far, inner)


@frozen_value
class ExponentialPotential(Potential):
    """U(y) = weight e^y: Gamma distributions with natural parameter their shape, y the logarithm of the variable."""

    weight: float

    def slope(self, y: FloatArray) -> FloatArray:
        """weight e^y."""
        return self.weight * np.exp(y)

    def mode(self, phi: FloatArray) -> FloatArray:
        """log(phi/weight); -inf for phi <= 0."""
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(phi, 0.0)) - np.log(self.weight)

    def excess(self, y: FloatArray, z: FloatArray) -> FloatArray:
        """weight e^y (e^z - 1 - z)."""
        weight = self.weight * np.exp(y)
        return weight * (expm1_excess(z) if np.max(weight, initial=0.0) >= _LARGE_WEIGHT else np.expm1(z) - z)


@frozen_value
class LogarithmicPotential(Potential):
    """U(y) = -weight log y: Gamma distributions with natural parameter minus their rate, y the variable itself."""

    weight: float

    def slope(self, y: FloatArray) -> FloatArray:
        """-weight/y."""
        return -self.weight / y

    def mode(self, phi: FloatArray) -> FloatArray:
        """-weight/phi; +inf for phi >= 0."""
        with np.errstate(divide="ignore"):
            return np.where(phi < 0.0, -self.weight / np.minimum(phi, -0.0), np.inf)

    def excess(self, y: FloatArray, z: FloatArray) -> FloatArray:
        """weight (z/y - log(1 + z/y))."""
        ratio = z / y
        return self.weight * (log1p_excess(ratio) if self.weight >= _LARGE_WEIGHT else ratio - np.log1p(ratio))


@frozen_value
class SquarePotential(Potential):
    """U(y) = weight y^2/2: normal distributions, with y the variable itself."""

    weight: float

    def slope(self, y: FloatArray) -> FloatArray:
        """weight y."""
        return self.weight * y

    def mode(self, phi: FloatArray) -> FloatArray:
        """phi/weight."""
        return phi / self.weight

    def excess(self, y: FloatArray, z: FloatArray) -> FloatArray:
        """weight z^2/2, independent of y."""
        del y
        return self.weight / 2 * z * z


@frozen_value
class TruncatedFamily:
    """The distributions with density proportional to e^{phi y - potential(y)} on [low, high], for all real phi."""

    potential: Potential
    low: float
    high: float

    def deviation(self, phi: FloatArray) -> FloatArray:
        """The standard deviation of y at each natural parameter, shape (rows,), rounded up."""
        return self._by_blocks(self._deviation, phi)

    def renyi(self, phi: FloatArray, step: FloatArray, orders: FloatArray) -> FloatArray:
        """Rényi divergence of the distribution at phi + step from that at phi, shapes (rows,), rounded up.

        `step` may have either sign.
        """
        return self._by_blocks(self._renyi, phi, step, orders)

    def _by_blocks(self, function: Callable[..., FloatArray], *columns: FloatArray) -> FloatArray:
        """Evaluate function(*columns) in blocks of rows."""
        starts = range(0, len(columns[0]), _BLOCK)
        return np.concatenate([np.empty(0), *(function(*(c[s : s + _BLOCK] for c in columns)) for s in starts)])

    def _centre(self, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The mode within the bounds, and the derivative of the log density there (0 up to rounding inside)."""
        centre = np.clip(self.potential.mode(phi), self.low, self.high)
        inside = (centre > self.low) & (centre < self.high)
        slope = phi - self.potential.slope(centre)
        low = centre <= self.low  # rounding must not reverse the sign of the slope at a bound
        return centre, np.where(inside, slope, np.where(low, np.minimum(slope, 0.0), np.maximum(slope, 0.0)))

    def _distance_to_drop(self, centre: FloatArray, slopes: FloatArray, end: float) -> FloatArray:
        """Signed distance from the centre towards `end`, at most to it, over which the log density decreases by 40.

        The log density at the centre has derivative `slopes`; all shapes are (rows,).
        """
        far, near = end - centre, np.zeros_like(centre)
        with np.errstate(divide="ignore"):
            steep = np.where(slopes * far < 0.0, _DROP / np.abs(slopes), np.inf)  # bound by the linear term alone
        far = np.clip(far, -steep, steep)
        beyond = slopes * far - self.potential.excess(centre, far) < -_DROP
        for _ in range(_HALVINGS):
            middle = (near + far) / 2
            inside = slopes * middle - self.potential.excess(centre, middle) >= -_DROP
            near, far = np.where(inside & beyond, middle, near), np.where(inside | ~beyond, far, middle)
        return far

    def _panels(self, first: FloatArray, last: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Nodes of the panels on [first, 0] and on [0, last], (rows, 6, nodes), and the panels' widths, (rows, 6)."""
        shares = np.arange(_PANELS) / _PANELS
        left = np.concatenate([first[:, None] * (shares + 1 / _PANELS), last[:, None] * shares], axis=1)
        width = np.concatenate([-first[:, None] + 0 * shares, last[:, None] + 0 * shares], axis=1) / _PANELS
        return left[:, :, None] + width[:, :, None] * _NODES, width

    def _deviation(self, phi: FloatArray) -> FloatArray:
        """Standard deviations for one block of rows; the quadrature error is added to the second moment."""
        centre, slope = self._centre(phi)
        z, width = self._panels(*(self._distance_to_drop(centre, slope, end) for end in (self.low, self.high)))
        density = np.exp(slope[:, None, None] * z - self.potential.excess(centre[:, None, None], z))
        mass, _ = _two_rules(density, width)
        mean = _two_rules(density * z, width)[0] / mass
        total, error = _two_rules(density * (z - mean[:, None, None]) ** 2, width)
        return np.sqrt((total + error) / mass) * (1 + _RELATIVE_ERROR)

    def _log_mass(self, phi: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The centre, the log of the integral of the density relative to its value there, and that log's error."""
        centre, slope = self._centre(phi)
        z, width = self._panels(*(self._distance_to_drop(centre, slope, end) for end in (self.low, self.high)))
        density = np.exp(slope[:, None, None] * z - self.potential.excess(centre[:, None, None], z))
        mass, error = _two_rules(density, width)
        return centre, np.log(mass), error / mass + 64 * _ULP

    def _renyi(self, phi: FloatArray, step: FloatArray, orders: FloatArray) -> FloatArray:
        """Rényi divergences for one block of rows, by the method that avoids cancellation for each row's loss."""
        s, size = orders - 1.0, np.abs(step)
        centre, slope = self._centre(phi + step)
        reaches = [self._distance_to_drop(centre, slope, end) for end in (self.low, self.high)]
        deviation = np.max(np.abs(reaches), axis=0) / _DROP_IN_DEVIATIONS
        near = (s * size * deviation <= 1.0) & (size * deviation <= 4.0)
        slight = near & (orders * size * deviation < _SMALL_LOSS)
        result = np.empty(len(phi))
        for rows, excess in ((slight, _weighted_excess), (near & ~slight, _weighted_difference)):
            if rows.any():
                result[rows] = self._renyi_small_loss(centre[rows], slope[rows], step[rows], s[rows], excess)
        if not near.all():
            result[~near] = self._renyi_large_loss(phi[~near], step[~near], orders[~near])
        return result

    def _renyi_small_loss(
        self, centre: FloatArray, slope: FloatArray, step: FloatArray, s: FloatArray, excess_of: Excess
    ) -> FloatArray:
        """Rényi divergence by log1p of positive terms (tempered.md, section 5, "Small losses").

        E_P e^{sL} - 1 = E_P [(e^{sL} - 1 - sL) + s (e^{-L} - 1 + L)], since E_P e^{-L} = 1.
        """
        size = np.abs(step) * np.maximum(s, 1.0)
        first = self._distance_to_drop(centre, slope - size, self.low)  # covers P, Q and the mixture p^a q^(1-a)
        last = self._distance_to_drop(centre, slope + size, self.high)
        z, width = self._panels(first, last)
        c, j, t = (column[:, None, None] for column in (centre, step, s))
        log_p = slope[:, None, None] * z - self.potential.excess(c, z)
        p = np.exp(log_p)
        mass, error = _two_rules(p, width)
        grown, other = _two_rules(p * np.expm1(-j * z), width)
        loss = j * z + np.log1p(grown / mass)[:, None, None]
        total, lost = _two_rules(p * excess_of(t, loss), width)
        moved = (other + np.abs(grown) * error / mass) / mass  # bound on the error of L from the quadrature
        excess = (total + lost) / (mass - error) / (1.0 - s * moved)
        return np.log1p(excess) / s * (1 + _RELATIVE_ERROR)

    def _renyi_large_loss(self, phi: FloatArray, step: FloatArray, orders: FloatArray) -> FloatArray:
        """Rényi divergence by the log masses of P, Q and p^a q^(1-a), all relative to P's mode ("Large losses")."""
        s = orders - 1.0
        centre, own, lost = self._log_mass(phi + step)
        base = phi - self.potential.slope(centre)
        logs, errors = [], orders * (lost + 8 * _ULP * np.abs(own))
        for more, weight in ((0.0 * step, s), (orders * step, 1.0 + 0.0 * s)):
            place, log_mass, error = self._log_mass(phi + more)
            z = place - centre
            height, excess = (base + more) * z, self.potential.excess(centre, z)
            logs.append(weight * (height - excess + log_mass))
            errors = errors + weight * (error + 8 * _ULP * (np.abs(height) + excess + np.abs(log_mass)))
        return (logs[0] + logs[1] - orders * own + errors) / s * (1 + _RELATIVE_ERROR)


def _weighted_excess(s: FloatArray, loss: FloatArray) -> FloatArray:
    """(e^{sL} - 1 - sL) + s (e^{-L} - 1 + L), a sum of positive terms, accurate for small s L."""
    return expm1_excess(s * loss) + s * expm1_excess(-loss)


def _weighted_difference(s: FloatArray, loss: FloatArray) -> FloatArray:
    """The same sum from two terms: faster, with a rounding error of s L."""
    return np.expm1(s * loss) + s * np.expm1(-loss)


def _two_rules(values: FloatArray, width: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Integrals over all panels by the finer rule, and their distance to the coarser rule's, shape (rows,) each."""
    fine = values[..., :_SPLIT] @ _FINE[1] * width / 2
    coarse = values[..., _SPLIT:] @ _COARSE[1] * width / 2
    return fine.sum(axis=1), np.abs(fine - coarse).sum(axis=1)
