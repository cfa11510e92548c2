"""Priors that the user states: independent distributions of the parameters by name, as SciPy's frozen distributions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special

from privsample._checks import FloatArray, numbers_of
from privsample.distributions.parametric.conjugate import PosteriorDistribution

_EXPECTED = "a frozen distribution, such as scipy.stats.norm(0, 1), with rvs(size=, random_state=) and logpdf or logpmf"


class StatedPrior:
    """The prior distribution of one parameter: a number, or an array of independent or dependent numbers.

    Coordinates on the real line are used for random walks: the logarithm of the distance from a single bound, the logit
    between two bounds, and the number itself without bounds or where it is an integer.

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
        if not self.own and (isinstance(distribution, type) or not callable(getattr(distribution, "rvs", None))):
            raise TypeError(f"prior[{name!r}] must be {_EXPECTED}, got {type(distribution).__name__}")
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
        if not np.isfinite(self.log_density(trial)):
            raise ValueError(f"prior[{self.name!r}] must have a finite log density at its draws, got none at {trial}")
        try:
            self.log_density(self.constrain(self.unconstrain(trial) + (1.0 if self.integer_valued else 0.01)))
        except ValueError:
            raise ValueError(
                f"prior[{self.name!r}] must be a distribution over an open set, not over a surface as the Dirichlet "
                "distribution is: state independent numbers and let records compute the parameters from them"
            ) from None

    def _draw(self, rng: np.random.Generator) -> FloatArray:
        if self.own:
            return np.asarray(self.distribution.sample(1, rng)[0], dtype=np.float64)
        drawn = numbers_of(self.distribution.rvs(random_state=rng), f"prior[{self.name!r}].rvs")
        return drawn.reshape(()) if drawn.size == 1 else drawn

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """One draw, shape () or (k,)."""
        return self._draw(rng)

    def log_density(self, value: FloatArray) -> float:
        """The log density, -inf outside the support. Raises ValueError if it is NaN."""
        assert self.density is not None
        found = float(np.sum(self.density(value)))
        if np.isnan(found):
            raise ValueError(f"prior[{self.name!r}] must have a log density, got NaN at {value}")
        return found

    def unconstrain(self, value: FloatArray) -> FloatArray:
        """Coordinates on the real line, shape (k,)."""
        low, high, v = np.atleast_1d(self.low), np.atleast_1d(self.high), np.atleast_1d(value)
        if self.integer_valued:
            return v.astype(np.float64)
        with np.errstate(all="ignore"):
            return np.select(
                [np.isfinite(low) & np.isfinite(high), np.isfinite(low), np.isfinite(high)],
                [special.logit((v - low) / (high - low)), np.log(v - low), -np.log(high - v)],
                v,
            )

    def constrain(self, z: FloatArray) -> FloatArray:
        """The parameter at coordinates on the real line."""
        low, high = np.atleast_1d(self.low), np.atleast_1d(self.high)
        if self.integer_valued:
            return np.rint(z).reshape(self.shape)
        with np.errstate(all="ignore"):
            value = np.select(
                [np.isfinite(low) & np.isfinite(high), np.isfinite(low), np.isfinite(high)],
                [low + (high - low) * special.expit(z), low + np.exp(z), high - np.exp(-z)],
                z,
            )
        return value.reshape(self.shape)

    def log_slope(self, z: FloatArray) -> float:
        """The log of the derivative of `constrain`, up to a constant."""
        low, high = np.isfinite(np.atleast_1d(self.low)), np.isfinite(np.atleast_1d(self.high))
        if self.integer_valued:
            return 0.0
        return float(
            np.select([low & high, low, high], [special.log_expit(z) + special.log_expit(-z), z, -z], 0.0).sum()
        )


def stated_priors(prior: Mapping[Any, Any]) -> dict[str, StatedPrior]:
    """Check a mapping from names to distributions. Raises TypeError and ValueError."""
    if not prior:
        raise ValueError("prior must name at least one parameter, got an empty mapping")
    for name in prior:
        if not (isinstance(name, str) and name.isidentifier()):
            raise TypeError(f"prior must map names of parameters, such as 'mean', to distributions, got {name!r}")
    return {name: StatedPrior(name, distribution) for name, distribution in prior.items()}
