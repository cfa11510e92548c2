"""Exponentially tilted distributions of one clipped record, and their characteristic functions.

docs/notes/clipping.md, steps 1 and 4.
"""

from abc import ABC, abstractmethod
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from privsample._checks import FloatArray
from privsample._value import frozen_value

ComplexArray = NDArray[np.complex128]

_DEPTH = 60.0  # densities below e^-60 of the largest are omitted
_RULE = 64  # Gauss points in a panel: they integrate a peak of that depth to 1e-15
_PHASE = 50.0  # largest phase of e^(itx) within one panel, in radians
_PANELS = 2  # with more panels the closed form is used
_SPAN = 12.0  # standard deviations of the density that count as its span


class Tilted(NamedTuple):
    """One record under the tilt: weights proportional to e^(tilt x) times its distribution, which add up to one.

    `points` holds the atoms first, `atoms` of them, then the Gauss points of the density. `log_mgf` is the log of the
    moment generating function at the tilt, `mean` and `deviation` those under the tilt, and `peak` the largest density.
    """

    points: FloatArray
    weights: FloatArray
    atoms: int
    log_mgf: float
    mean: float
    deviation: float
    peak: float
    span: float

    @property
    def atom_mass(self) -> float:
        """The probability of all atoms."""
        return float(self.weights[: self.atoms].sum())

    def atoms_at(self, frequencies: FloatArray) -> ComplexArray:
        """The atoms' part of the centred characteristic function."""
        return self._sum(frequencies, slice(None, self.atoms))

    def density_at(self, frequencies: FloatArray) -> ComplexArray:
        """The density's part of the centred characteristic function, for as many radians as the panels hold."""
        return self._sum(frequencies, slice(self.atoms, None))

    @property
    def panels(self) -> int:
        """The number of panels of the Gauss-Legendre rule."""
        return (len(self.points) - self.atoms) // _RULE

    def _sum(self, frequencies: FloatArray, part: slice) -> ComplexArray:
        turned = np.exp(1j * np.outer(frequencies, self.points[part] - self.mean))
        return np.asarray(turned @ self.weights[part])


class ClippedRecord(ABC):
    """The distribution of one record after clipping, at one value of the parameter."""

    __slots__ = ()
    integer_valued: ClassVar[bool]

    @property
    @abstractmethod
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value."""

    @abstractmethod
    def tilted(self, tilt: float, frequency: float = 0.0) -> Tilted:
        """The record under the tilt, with Gauss points for characteristic functions up to this frequency."""

    @abstractmethod
    def characteristic(self, tilted: Tilted, tilt: float, frequencies: FloatArray) -> tuple[ComplexArray, ComplexArray]:
        """The centred characteristic function under the tilt at ascending frequencies: of the atoms, of the density."""


class DensityRecord(ClippedRecord):
    """A record with a log-concave density between its bounds, and atoms at bounds."""

    __slots__ = ()
    integer_valued: ClassVar[bool] = False

    @property
    @abstractmethod
    def atoms(self) -> tuple[FloatArray, FloatArray]:
        """Locations and log probabilities of the atoms."""

    @abstractmethod
    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density between the bounds."""

    @abstractmethod
    def support(self, tilt: float, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Where, in [low, high], the tilted density is above e^-60 of its largest value there; elementwise."""

    def _support(self, tilt: float) -> tuple[float, float]:
        """Between the bounds; under an extreme tilt, at least two neighbouring doubles."""
        low, high = self.support(tilt, np.array(self.ends[0]), np.array(self.ends[1]))
        return float(low), max(float(high), float(np.nextafter(low, np.inf)))

    @abstractmethod
    def transform(self, tilt: float, frequencies: FloatArray, log_scale: float) -> ComplexArray:
        """Integral of e^((tilt + it) x - log_scale) times the density between the bounds, in closed form.

        Accurate to rounding for t far from 0, where quadrature would need many points.
        """

    def tilted(self, tilt: float, frequency: float = 0.0) -> Tilted:
        """The record under the tilt: the atoms, and a Gauss-Legendre rule in panels for the density."""
        low, high = self._support(tilt)
        panels = min(1 + int(frequency * (high - low) / _PHASE), _PANELS)
        unit, masses = gauss(panels)
        inner = low + (high - low) * unit
        places, log_masses = self.atoms
        density = self.log_density(inner) + tilt * inner
        logs = np.concatenate([log_masses + tilt * places, density + np.log(masses * (high - low))])
        points = np.concatenate([places, inner])
        largest = logs.max()
        weights = np.exp(logs - largest)
        total = weights.sum()
        log_mgf = float(largest + np.log(total))
        weights /= total
        mean = float(weights @ points)
        deviation = float(np.sqrt(weights @ (points - mean) ** 2))
        peak = float(np.exp(density.max() - log_mgf))
        within = np.exp(density - density.max()) * masses
        middle = float(within @ inner / within.sum())
        span = min(high - low, _SPAN * float(np.sqrt(within @ (inner - middle) ** 2 / within.sum())))
        return Tilted(points, weights, len(places), log_mgf, mean, deviation, peak, span)

    def characteristic(self, tilted: Tilted, tilt: float, frequencies: FloatArray) -> tuple[ComplexArray, ComplexArray]:
        """The density's part by the Gauss-Legendre rule, and in closed form at high frequencies."""
        low, high = self._support(tilt)
        near = int(np.searchsorted(frequencies, _PHASE * tilted.panels / (high - low)))
        parts = [tilted.density_at(frequencies[:near])]
        if near < len(frequencies):
            far = frequencies[near:]
            parts.append(self.transform(tilt, far, tilted.log_mgf) * np.exp(-1j * far * tilted.mean))
        return tilted.atoms_at(frequencies), np.concatenate(parts)


@frozen_value
class ClippedExponential(DensityRecord):
    """An exponential time with this rate, clipped to [0, upper]."""

    rate: float
    upper: float

    @property
    def ends(self) -> tuple[float, float]:
        """0 and `upper`."""
        return 0.0, self.upper

    @property
    def atoms(self) -> tuple[FloatArray, FloatArray]:
        """At `upper`."""
        return np.array([self.upper]), np.array([-self.rate * self.upper])

    def log_density(self, x: FloatArray) -> FloatArray:
        """log rate - rate x."""
        return np.log(self.rate) - self.rate * x

    def support(self, tilt: float, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """From the end at which the tilted density is largest."""
        slope = self.rate - tilt
        reach = _DEPTH / abs(slope) if slope else np.inf
        return (low, np.minimum(high, low + reach)) if slope >= 0 else (np.maximum(low, high - reach), high)

    def transform(self, tilt: float, frequencies: FloatArray, log_scale: float) -> ComplexArray:
        """rate (1 - e^(-w upper)) / w, w = rate - z."""
        w = self.rate - tilt - 1j * frequencies
        return np.asarray(self.rate / w * (np.exp(-log_scale) - np.exp(-w * self.upper - log_scale)))


@frozen_value
class ClippedNormal(DensityRecord):
    """A normal number with this mean and standard deviation, clipped to `bounds`."""

    mean: float
    deviation: float
    bounds: tuple[float, float]

    @property
    def ends(self) -> tuple[float, float]:
        """`bounds`."""
        return self.bounds

    @property
    def atoms(self) -> tuple[FloatArray, FloatArray]:
        """At both bounds."""
        low, high = (np.array(self.bounds) - self.mean) / self.deviation
        return np.array(self.bounds), np.array([special.log_ndtr(low), special.log_ndtr(-high)])

    def log_density(self, x: FloatArray) -> FloatArray:
        """Normal."""
        z = (x - self.mean) / self.deviation
        return -0.5 * z**2 - np.log(self.deviation * np.sqrt(2 * np.pi))

    def support(self, tilt: float, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """An interval around the tilted mean, or from the bound nearest to it."""
        centre = self.mean + tilt * self.deviation**2
        top = np.clip(centre, low, high)
        # |x - centre| = reach where the density is e^-60 of its largest; (reach - off) without cancellation.
        off, room = np.abs(centre - top), 2 * _DEPTH * self.deviation**2
        reach = room / (off + np.sqrt(off**2 + room))
        return np.maximum(low, top - reach), np.minimum(high, top + reach)

    def transform(self, tilt: float, frequencies: FloatArray, log_scale: float) -> ComplexArray:
        """The full integral minus two tails, each a density at a bound times a scaled complementary error function."""
        s, z = self.deviation, tilt + 1j * frequencies
        centre = self.mean + tilt * s**2

        def tail(end: float, sign: float) -> ComplexArray:
            """Beyond `end`, on the side of this sign."""
            height = np.exp(float(self.log_density(np.array(end))) + tilt * end - log_scale)
            x = sign * (end - self.mean - z * s**2) / (s * np.sqrt(2))
            return np.asarray(height * np.exp(1j * frequencies * end) * s * np.sqrt(np.pi / 2) * special.wofz(1j * x))

        low, high = self.bounds
        if low >= centre:
            return tail(low, 1.0) - tail(high, 1.0)
        if high < centre:
            return tail(high, -1.0) - tail(low, -1.0)
        whole = np.exp(z * self.mean + (z * s) ** 2 / 2 - log_scale)
        return np.asarray(whole - tail(low, -1.0) - tail(high, 1.0))


@frozen_value
class ClippedPoisson(ClippedRecord):
    """A Poisson count with this mean, clipped to {0, ..., upper}."""

    mean: float
    upper: int
    integer_valued: ClassVar[bool] = True

    @property
    def ends(self) -> tuple[float, float]:
        """0 and `upper`."""
        return 0.0, float(self.upper)

    def tilted(self, tilt: float, frequency: float = 0.0) -> Tilted:
        """The counts of non-negligible probability; every point is an atom."""
        del frequency
        centre = min(self.mean * np.exp(min(tilt, 600.0)), float(self.upper))  # under the tilt, before clipping
        reach = 13 * np.sqrt(centre + 13) + 13
        counts = np.arange(max(np.floor(centre - reach), 0.0), min(np.ceil(centre + reach), self.upper) + 1)
        logs = special.xlogy(counts, self.mean) - self.mean - special.gammaln(counts + 1)
        if counts[-1] == self.upper:
            with np.errstate(divide="ignore"):  # if the tail probability underflows, the mass of `upper` alone is used
                logs[-1] = max(np.log(special.gammainc(self.upper, self.mean)), logs[-1])
        logs = logs + tilt * counts
        largest = logs.max()
        weights = np.exp(logs - largest)
        total = weights.sum()
        weights /= total
        mean = float(weights @ counts)
        deviation = float(np.sqrt(weights @ (counts - mean) ** 2))
        span = min(float(np.ptp(counts)), _SPAN * float(np.sqrt(centre + 1)))
        return Tilted(counts, weights, len(counts), float(largest + np.log(total)), mean, deviation, 0.0, span)

    def characteristic(self, tilted: Tilted, tilt: float, frequencies: FloatArray) -> tuple[ComplexArray, ComplexArray]:
        """A finite sum, or the characteristic function of a Poisson count if no relevant count is clipped."""
        nothing = np.zeros(len(frequencies), dtype=np.complex128)
        if tilted.points[-1] == self.upper:
            return tilted.atoms_at(frequencies), nothing
        mean = self.mean * np.exp(tilt)
        exponent = -2 * np.sin(frequencies / 2) ** 2 + 1j * (np.sin(frequencies) - frequencies)
        return np.exp(mean * exponent), nothing


@cache
def gauss(panels: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of Gauss-Legendre rules in equal panels of (0, 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(_RULE)
    starts = np.arange(panels)[:, None]
    points: FloatArray = ((starts + (1 + nodes) / 2) / panels).ravel()
    masses: FloatArray = np.tile(weights / (2 * panels), panels)
    return points, masses
