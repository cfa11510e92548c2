"""Priors that the user states: independent distributions of the parameters by name, as SciPy's frozen distributions."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import special

from privsample._checks import FloatArray, numbers_of
from privsample.distributions.parametric.conjugate import PosteriorDistribution

_EXPECTED = "a frozen distribution, such as scipy.stats.norm(0, 1), with rvs(size=, random_state=) and logpdf or logpmf"


def not_frozen(given: Any) -> str:
    """What an object is that cannot be drawn from; "" for a distribution with parameters."""
    from scipy import stats

    if isinstance(given, type):
        return f"the class {given.__name__}"
    if isinstance(given, (stats.rv_continuous, stats.rv_discrete)):
        return f"{given.name} without its parameters"
    return "" if callable(getattr(given, "rvs", None)) else type(given).__name__


def _is_periodic(distribution: Any) -> bool:
    """True for SciPy's distribution on the circle, whose density is defined on the whole line."""
    from scipy import stats

    return (
        isinstance(getattr(distribution, "dist", None), type(stats.vonmises)) and distribution.support()[0] == -np.inf
    )


class StatedPrior:
    """The prior distribution of one parameter: a number, or an array of independent or dependent numbers.

    Parameters
    ----------
    name : str
        Name of the parameter.
    distribution : object
        With `rvs`, and with `logpdf` or `logpmf` if it is to be moved by random walks; or a distribution of privsample.

    Raises
    ------
    TypeError, ValueError
        If the object is no such distribution, or draws something else than finite numbers.
    """

    def __init__(self, name: str, distribution: Any) -> None:
        self.name, self.distribution = name, distribution
        self.own = isinstance(distribution, PosteriorDistribution)
        if not self.own and (wrong := not_frozen(distribution)):
            raise TypeError(f"prior[{name!r}] must be {_EXPECTED}, got {wrong}")
        if _is_periodic(distribution):
            raise ValueError(
                f"prior[{name!r}] must have a density with a finite integral, got vonmises, whose density is periodic: "
                "use scipy.stats.vonmises_line"
            )
        names = ("log_density",) if self.own else ("logpdf", "logpmf")
        found = [each for each in names if callable(getattr(distribution, each, None))]
        self.density = getattr(distribution, found[0]) if found else None
        self.integer_valued = found == ["logpmf"]
        trial = self._draw(np.random.default_rng(0))
        self.shape = trial.shape
        if trial.ndim > (0 if self.own else 1) or not np.isfinite(trial).all():
            raise ValueError(f"prior[{name!r}] must draw finite numbers, of shape () or (k,), got {trial!r:.60}")
        low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), self.shape) for end in self._support())
        self.low, self.high = low, high
        self._check_density(trial)

    def _support(self) -> tuple[Any, Any]:
        """The smallest and largest possible value, infinite if unknown."""
        if self.own:
            low, high = (float(self.distribution.quantile(np.asarray(q))) for q in (0.0, 1.0))
            return low, high
        support = getattr(self.distribution, "support", None)
        return support() if callable(support) else (-np.inf, np.inf)

    def _check_density(self, trial: FloatArray) -> None:
        """Check that the density is a number at a draw, and defined near it."""
        if self.density is None:
            return
        coordinates = Coordinates([self])
        trial = coordinates.away_from_bounds({self.name: trial})[self.name]
        if not np.isfinite(self.log_density(trial)):
            raise ValueError(f"prior[{self.name!r}] must have a finite log density at its draws, got none at {trial}")
        try:
            moved = coordinates.unconstrain({self.name: trial}) + (1.0 if self.integer_valued else 0.01)
            self.log_density(coordinates.constrain(moved)[self.name])
        except ValueError:
            raise ValueError(
                f"prior[{self.name!r}] must be a distribution over an open set, not over a surface as the Dirichlet "
                "distribution is: state independent numbers and let records compute the parameters from them"
            ) from None

    def _draw(self, rng: np.random.Generator) -> FloatArray:
        if self.own:
            return np.asarray(self.distribution.sample(1, rng)[0], dtype=np.float64)
        drawn = numbers_of(self.distribution.rvs(random_state=rng), f"prior[{self.name!r}].rvs")
        if drawn.size == 1:
            return drawn.reshape(())
        return drawn[0] if drawn.ndim == 2 and len(drawn) == 1 else drawn

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """One draw, shape () or (k,)."""
        return self._draw(rng)

    def log_density(self, value: FloatArray) -> float:
        """The log density, -inf outside the support. Raises ValueError if it is NaN."""
        assert self.density is not None
        with np.errstate(all="ignore"):
            found = float(np.sum(self.density(value)))
        if np.isnan(found):
            raise ValueError(f"prior[{self.name!r}] must have a log density, got NaN at {value}")
        return found


class Coordinates:
    """Coordinates on the real line of several parameters, for random walks.

    The logarithm of the distance from a single bound, the logit between two bounds, and the number itself without
    bounds or where it is an integer.

    Parameters
    ----------
    priors : list of StatedPrior
        The parameters, in the order of the coordinates.
    """

    def __init__(self, priors: list[StatedPrior]) -> None:
        ends = [np.concatenate([np.zeros(0), *(np.ravel(at) for at in found)]) for found in _bounds(priors)]
        self.low, self.high = ends
        whole = np.repeat([each.integer_valued for each in priors], [each.low.size for each in priors]).astype(bool)
        below, above = np.isfinite(self.low) & ~whole, np.isfinite(self.high) & ~whole
        self.integer, self.between = np.flatnonzero(whole), np.flatnonzero(below & above)
        self.above_low, self.below_high = np.flatnonzero(below & ~above), np.flatnonzero(above & ~below)
        self.width = self.high - self.low
        stops = np.cumsum([0, *(each.low.size for each in priors)]).tolist()
        self.parts = [(each.name, each.shape, slice(*ends)) for each, ends in zip(priors, pairwise(stops), strict=True)]

    def unconstrain(self, values: dict[str, FloatArray]) -> FloatArray:
        """The coordinates of parameters, shape (dimension,)."""
        z = np.empty(len(self.low))
        for name, _, place in self.parts:
            z[place] = np.ravel(values[name])
        with np.errstate(all="ignore"):
            for at in self.between:
                z[at] = special.logit((z[at] - self.low[at]) / self.width[at])
            for at in self.above_low:
                z[at] = np.log(z[at] - self.low[at])
            for at in self.below_high:
                z[at] = -np.log(self.high[at] - z[at])
        return z

    def constrain(self, z: FloatArray) -> dict[str, FloatArray]:
        """The parameters at these coordinates."""
        v = z.copy()
        with np.errstate(all="ignore"):
            for at in self.between:
                v[at] = self.low[at] + self.width[at] * special.expit(z[at])
            for at in self.above_low:
                v[at] = self.low[at] + np.exp(z[at])
            for at in self.below_high:
                v[at] = self.high[at] - np.exp(-z[at])
        v[self.integer] = np.rint(v[self.integer])
        return {name: v[place].reshape(shape) for name, shape, place in self.parts}

    def are_inside(self, z: FloatArray, values: dict[str, FloatArray]) -> bool:
        """True if the parameters at the coordinates z are finite and were not rounded to a bound."""
        if not np.isfinite(z).all():
            return False
        v = np.concatenate([np.zeros(0), *(np.ravel(values[name]) for name, _, _ in self.parts)])
        whole = np.isin(np.arange(len(v)), self.integer)
        return bool(np.isfinite(v).all() and (whole | ((v > self.low) & (v < self.high))).all())

    def away_from_bounds(self, values: dict[str, FloatArray]) -> dict[str, FloatArray]:
        """The parameters, those at a bound moved inside: a draw of Gamma(0.001, 1) may be rounded to 0."""
        z = self.unconstrain(values)
        if self.are_inside(z, values):
            return values
        for place, far in ((self.between, 36.0), (self.above_low, 650.0), (self.below_high, 650.0)):
            z[place] = np.clip(z[place], -far, far)
        return self.constrain(z)

    def log_slope(self, z: FloatArray) -> float:
        """The log of the derivative of `constrain`, up to a constant."""
        logits = sum(float(special.log_expit(z[at]) + special.log_expit(-z[at])) for at in self.between)
        return logits + sum(float(z[at]) for at in self.above_low) - sum(float(z[at]) for at in self.below_high)


def _bounds(priors: list[StatedPrior]) -> tuple[list[FloatArray], list[FloatArray]]:
    return [each.low for each in priors], [each.high for each in priors]


def stated_priors(prior: Mapping[Any, Any]) -> dict[str, StatedPrior]:
    """Check a mapping from names to distributions. Raises TypeError and ValueError."""
    if not prior:
        raise ValueError("prior must name at least one parameter, got an empty mapping")
    for name in prior:
        if not (isinstance(name, str) and name.isidentifier()):
            raise TypeError(f"prior must map names of parameters, such as 'mean', to distributions, got {name!r}")
    return {name: StatedPrior(name, distribution) for name, distribution in prior.items()}
