"""Exponential families of one number between two bounds: standard deviations and Rényi divergences, by quadrature.

The density at natural parameter phi is proportional to e^{phi y - U(y)}, U convex, y in [low, high].
Source: docs/notes/tempered.md, sections 4 and 5.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample._logspace import expm1_excess, log1p_excess
from privsample._value import frozen_value

_DROP, _HALVINGS, _PANELS = 40.0, 28, 3
_FINE, _COARSE = np.polynomial.legendre.leggauss(16), np.polynomial.legendre.leggauss(12)
_NODES = (np.concatenate([_FINE[0], _COARSE[0]]) + 1.0) / 2
_SPLIT = len(_FINE[0])
_DROP_IN_DEVIATIONS = 9.0  # standard deviations over which a normal density falls by e^-40
_RELATIVE_ERROR = 1e-9  # relative: more than rounding and the dropped tails take away (note, section 5)
_ULP = float(np.finfo(np.float64).eps)
_BLOCK = 1024
_LARGE_WEIGHT = 1e7  # weights up to which a difference of a few terms keeps 1e-12 of a log density
_SMALL_LOSS = 1e-4  # losses, in standard deviations, below which differences of exponentials keep too few digits


Excess = Callable[[FloatArray, FloatArray], FloatArray]


class Potential(ABC):
    """U, a convex function of y."""

    __slots__ = ()

    @abstractmethod
    def slope(self, y: FloatArray) -> FloatArray:
        """U'."""

    @abstractmethod
    def mode(self, phi: FloatArray) -> FloatArray:
        """Where U' = phi, any y where rounding hides it; infinite where it is nowhere."""

    @abstractmethod
    def excess(self, y: FloatArray, z: FloatArray) -> FloatArray:
        """U(y + z) - U(y) - U'(y) z, never negative, without cancellation."""


@frozen_value
class LogisticPotential(Potential):
    """weight log(1 + e^y): Beta distributions, y the logit of the share."""

    weight: float

    def slope(self, y: FloatArray) -> FloatArray:
        """Elementwise."""
        return self.weight * np.asarray(special.expit(y))

    def mode(self, phi: FloatArray) -> FloatArray:
        """The logit of phi/weight."""
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.log(phi) - np.log(self.weight - phi)
        return np.where(phi <= 0.0, -np.inf, np.where(phi >= self.weight, np.inf, inner))

    def excess(self, y: FloatArray, z: FloatArray) -> FloatArray:
        """By the mirror image where the share is above 1/2: the two terms then cancel by half at most."""
        p, z = special.expit(-np.abs(y)), np.where(y > 0.0, -z, z)
        near = np.clip(z, -30.0, 30.0)
        if self.weight < _LARGE_WEIGHT:
            inner = np.log1p(p * np.expm1(near)) - p * near
        else:
            inner = p * expm1_excess(near) - log1p_excess(p * np.expm1(near))
        far = np.logaddexp(np.log1p(-p), z + np.log(p)) - p * z
        return self.weight * np.where(np.abs(z) > 30.0, far, np.maximum(inner, 0.0))


@frozen_value
class ExponentialPotential(Potential):
    """weight e^y: Gamma distributions by their shape, y the logarithm of the number."""

    weight: float

    def slope(self, y: FloatArray) -> FloatArray:
        """Elementwise."""
        return self.weight * np.exp(y)

    def mode(self, phi: FloatArray) -> FloatArray:
        """log(phi/weight)."""
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(phi, 0.0)) - np.log(self.weight)

    def excess(self, y: FloatArray, z: FloatArray) -> FloatArray:
        """Elementwise."""
        weight = self.weight * np.exp(y)
        return weight * (expm1_excess(z) if np.max(weight, initial=0.0) >= _LARGE_WEIGHT else np.expm1(z) - z)


@frozen_value
class LogarithmicPotential(Potential):
    """-weight log y: Gamma distributions by their rate -phi, y the number itself."""

    weight: float

    def slope(self, y: FloatArray) -> FloatArray:
        """Elementwise."""
        return -self.weight / y

    def mode(self, phi: FloatArray) -> FloatArray:
        """-weight/phi."""
        with np.errstate(divide="ignore"):
            return np.where(phi < 0.0, -self.weight / np.minimum(phi, -0.0), np.inf)

    def excess(self, y: FloatArray, z: FloatArray) -> FloatArray:
        """Elementwise."""
        share = z / y
        return self.weight * (log1p_excess(share) if self.weight >= _LARGE_WEIGHT else share - np.log1p(share))


@frozen_value
class SquarePotential(Potential):
    """weight y^2/2: normal distributions, y the number itself."""

    weight: float

    def slope(self, y: FloatArray) -> FloatArray:
        """Elementwise."""
        return self.weight * y

    def mode(self, phi: FloatArray) -> FloatArray:
        """phi/weight."""
        return phi / self.weight

    def excess(self, y: FloatArray, z: FloatArray) -> FloatArray:
        """The same at every y."""
        del y
        return self.weight / 2 * z * z


@frozen_value
class TruncatedFamily:
    """All distributions with density proportional to e^{phi y - potential(y)} on [low, high], for any real phi."""

    potential: Potential
    low: float
    high: float

    def deviation(self, phi: FloatArray) -> FloatArray:
        """The standard deviation of y at each natural parameter, shape (rows,), rounded up."""
        return self._by_blocks(self._deviation, phi)

    def renyi(self, phi: FloatArray, step: FloatArray, orders: FloatArray) -> FloatArray:
        """The Rényi divergence of the distribution at phi + step from that at phi, shapes (rows,), rounded up.

        Step may have either sign.
        """
        return self._by_blocks(self._renyi, phi, step, orders)

    def _by_blocks(self, function: Callable[..., FloatArray], *columns: FloatArray) -> FloatArray:
        starts = range(0, len(columns[0]), _BLOCK)
        return np.concatenate([np.empty(0), *(function(*(c[s : s + _BLOCK] for c in columns)) for s in starts)])

    def _centre(self, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The mode within the bounds, and the slope of the log density there."""
        centre = np.clip(self.potential.mode(phi), self.low, self.high)
        inside = (centre > self.low) & (centre < self.high)
        slope = phi - self.potential.slope(centre)
        low = centre <= self.low  # rounding must not turn the slope at an end around
        return centre, np.where(inside, slope, np.where(low, np.minimum(slope, 0.0), np.maximum(slope, 0.0)))

    def _distance_to_drop(self, centre: FloatArray, slopes: FloatArray, end: float) -> FloatArray:
        """How far from the centre towards an end, for (rows,), the log density with this slope falls by 40."""
        far, near = end - centre, np.zeros_like(centre)
        with np.errstate(divide="ignore"):
            steep = np.where(slopes * far < 0.0, _DROP / np.abs(slopes), np.inf)  # the slope alone takes it so far down
        far = np.clip(far, -steep, steep)
        beyond = slopes * far - self.potential.excess(centre, far) < -_DROP
        for _ in range(_HALVINGS):
            middle = (near + far) / 2
            inside = slopes * middle - self.potential.excess(centre, middle) >= -_DROP
            near, far = np.where(inside & beyond, middle, near), np.where(inside | ~beyond, far, middle)
        return far

    def _panels(self, first: FloatArray, last: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Nodes on [first, 0] and on [0, last], (rows, 2 panels, nodes), and the widths of the panels."""
        shares = np.arange(_PANELS) / _PANELS
        left = np.concatenate([first[:, None] * (shares + 1 / _PANELS), last[:, None] * shares], axis=1)
        width = np.concatenate([-first[:, None] + 0 * shares, last[:, None] + 0 * shares], axis=1) / _PANELS
        return left[:, :, None] + width[:, :, None] * _NODES, width

    def _deviation(self, phi: FloatArray) -> FloatArray:
        centre, slope = self._centre(phi)
        z, width = self._panels(*(self._distance_to_drop(centre, slope, end) for end in (self.low, self.high)))
        density = np.exp(slope[:, None, None] * z - self.potential.excess(centre[:, None, None], z))
        mass, _ = _two_rules(density, width)
        mean = _two_rules(density * z, width)[0] / mass
        total, error = _two_rules(density * (z - mean[:, None, None]) ** 2, width)
        return np.sqrt((total + error) / mass) * (1 + _RELATIVE_ERROR)

    def _log_mass(self, phi: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Centre; log of the integral of the density relative to its value there; and the error of this log."""
        centre, slope = self._centre(phi)
        z, width = self._panels(*(self._distance_to_drop(centre, slope, end) for end in (self.low, self.high)))
        density = np.exp(slope[:, None, None] * z - self.potential.excess(centre[:, None, None], z))
        mass, error = _two_rules(density, width)
        return centre, np.log(mass), error / mass + 64 * _ULP

    def _renyi(self, phi: FloatArray, step: FloatArray, orders: FloatArray) -> FloatArray:
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
        """By log1p of positive terms: E_P e^{sL} - 1 = E_P [(e^{sL} - 1 - sL) + s (e^{-L} - 1 + L)]."""
        size = np.abs(step) * np.maximum(s, 1.0)
        first = self._distance_to_drop(centre, slope - size, self.low)  # the farther of P, Q and the blend
        last = self._distance_to_drop(centre, slope + size, self.high)
        z, width = self._panels(first, last)
        c, j, t = (column[:, None, None] for column in (centre, step, s))
        log_p = slope[:, None, None] * z - self.potential.excess(c, z)
        p = np.exp(log_p)
        mass, error = _two_rules(p, width)
        grown, other = _two_rules(p * np.expm1(-j * z), width)
        loss = j * z + np.log1p(grown / mass)[:, None, None]
        total, lost = _two_rules(p * excess_of(t, loss), width)
        moved = (other + np.abs(grown) * error / mass) / mass  # at most, of L by the rule's error (note, section 5)
        excess = (total + lost) / (mass - error) / (1.0 - s * moved)
        return np.log1p(excess) / s * (1 + _RELATIVE_ERROR)

    def _renyi_large_loss(self, phi: FloatArray, step: FloatArray, orders: FloatArray) -> FloatArray:
        """By the log masses at the three parameters, all relative to P's mode."""
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
    """(e^{sL} - 1 - sL) + s (e^{-L} - 1 + L): positive terms."""
    return expm1_excess(s * loss) + s * expm1_excess(-loss)


def _weighted_difference(s: FloatArray, loss: FloatArray) -> FloatArray:
    """The same from two terms, which is quicker, and loses a rounding error of s L."""
    return np.expm1(s * loss) + s * np.expm1(-loss)


def _two_rules(values: FloatArray, width: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Integrals over all panels by the finer rule, and how far the coarser lies from it; (rows, panels, nodes)."""
    fine = values[..., :_SPLIT] @ _FINE[1] * width / 2
    coarse = values[..., _SPLIT:] @ _COARSE[1] * width / 2
    return fine.sum(axis=1), np.abs(fine - coarse).sum(axis=1)
