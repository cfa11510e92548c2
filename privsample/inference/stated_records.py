"""Chains over hidden records of any distribution that the user states, with any prior.

Proofs are in docs/notes/inference.md, sections 1 to 4.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, check_memory, numbers_of
from privsample.inference.acceptance import NoiseAcceptance
from privsample.inference.chains import Observation
from privsample.inference.contributions import contributions_of, record_width
from privsample.inference.priors import Coordinates, StatedPrior, not_frozen
from privsample.inference.records import choose_start, refuse_size_prior
from privsample.inference.walks import LearnedWalk, Walk

_STARTS = 32  # states simulated from the prior, one of which becomes the first
_SHIFTS = 3  # moves of the parameters in each sweep, if there is only one way to move them
_NUMBERS = 4_000_000  # records of all these states together, at most
Values = dict[str, FloatArray]


class StatedDistribution:
    """The distribution of one record given the parameters, as the user's function returns it.

    Parameters
    ----------
    records : callable
        The function, from parameters by name to a distribution.
    values : dict of str to array
        The parameters.
    width : int or None
        The number of columns of a record; None if a record is one number.
    """

    def __init__(self, records: Callable[..., Any], values: Values, width: int | None) -> None:
        self.values, self.width = values, width
        self.distribution = records(**{name: value[()] if value.ndim == 0 else value for name, value in values.items()})
        if wrong := not_frozen(self.distribution):
            raise TypeError(
                "records must return a frozen distribution, such as scipy.stats.norm(mean, 1), with "
                f"rvs(size=, random_state=), got {wrong}"
            )
        self.integer_valued = not self._has("logpdf") and self._has("logpmf")

    def _has(self, *names: str) -> bool:
        return all(callable(getattr(self.distribution, name, None)) for name in names)

    @property
    def has_density(self) -> bool:
        """True if the log density or log mass function is defined."""
        return self._has("logpdf") or self._has("logpmf")

    @property
    def has_quantiles(self) -> bool:
        """True if distribution function and quantiles are defined, other than by numerical inversion."""
        if self.width is not None or not self._has("cdf", "ppf") or (self.integer_valued and not self._has("pmf")):
            return False
        from scipy import stats

        inner: Any = type(getattr(self.distribution, "dist", None))
        return not issubclass(inner, stats.rv_continuous) or (
            inner._ppf is not stats.rv_continuous._ppf and inner._cdf is not stats.rv_continuous._cdf
        )

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw n records, shape (n,) or (n, columns). Raises ValueError for another shape or for NaN."""
        drawn = self.distribution.rvs(size=n, random_state=rng)
        found = np.array(numbers_of(drawn, "rvs of the records"))  # a copy, because the chain changes it
        shape = (n,) if self.width is None else (n, self.width)
        if found.shape != shape:
            if found.size != np.prod(shape):
                raise ValueError(f"records must draw numbers of shape {shape}, got {found.shape} {self.where}")
            found = found.reshape(shape)  # SciPy drops axes of length 1
        if np.isnan(found).any():
            raise ValueError(f"records must draw numbers, got NaN {self.where}")
        return found

    def log_likelihood(self, x: FloatArray) -> float:
        """The summed log density of records. Raises ValueError if it is NaN or +inf."""
        with np.errstate(all="ignore"):
            found = self.distribution.logpmf(x) if self.integer_valued else self.distribution.logpdf(x)
            total = float(np.sum(found))
        if np.isnan(total) or total == np.inf:
            raise ValueError(f"records must have a finite log density or -inf, got {total} {self.where}")
        return total

    def ranks(self, x: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, NDArray[np.bool_]]:
        """The probabilities of smaller values, or of larger ones where those are near 1, and where they are of larger.

        Of a distribution on integers, a uniform number between the probabilities below and at the value.
        """
        below = np.asarray(self.distribution.cdf(x), dtype=np.float64)
        if self.integer_valued:
            return below - rng.random(x.shape) * self.distribution.pmf(x), np.zeros(x.shape, dtype=np.bool_)
        upper = (below > 0.5) if self._has("sf", "isf") else np.zeros(x.shape, dtype=np.bool_)
        if upper.any():  # near 1 the probability of smaller values has lost its digits
            below[upper] = self.distribution.sf(x[upper])
        return below, upper

    def at_ranks(self, ranks: tuple[FloatArray, NDArray[np.bool_]]) -> FloatArray:
        """The records of this distribution with these ranks."""
        shares, upper = ranks
        if not upper.any():
            return np.asarray(self.distribution.ppf(shares), dtype=np.float64)
        found = np.empty(shares.shape)
        found[~upper], found[upper] = self.distribution.ppf(shares[~upper]), self.distribution.isf(shares[upper])
        return found

    @property
    def where(self) -> str:
        """The parameters, for messages."""
        shown = ", ".join(f"{name}={np.array2string(value, precision=4)}" for name, value in self.values.items())
        return f"at {shown}: restrict the prior to parameters that records takes"


class StatedRecords:
    """A chain over parameters with stated priors and over n records of a stated distribution.

    Parameters
    ----------
    observation : Observation
        The model, which defines the statistic and the bounds of records, and the noisy copies.
    prior : mapping of str to StatedPrior
        The prior of each parameter.
    records : callable
        From the parameters by name to the distribution of one record.
    """

    def __init__(
        self, observation: Observation, *, prior: Mapping[str, StatedPrior], records: Callable[..., Any]
    ) -> None:
        check_memory(8 * observation.n, lower="the number of records")
        refuse_size_prior(observation)
        self.prior, self.records, self.n = dict(prior), records, observation.n
        self.width = record_width(observation.model)
        self.contribution = contributions_of(observation.model)
        self.acceptance = NoiseAcceptance(observation.noise, observation.observed)
        self.walked = [name for name, each in self.prior.items() if each.density is not None]
        self.coordinates = Coordinates([self.prior[name] for name in self.walked])
        self.redrawn = [name for name in self.prior if name not in self.walked]
        self.state: StatedDistribution
        self.x: FloatArray
        self.contributions: FloatArray
        self.log_prior: float

    # The first state

    def start(self, rng: np.random.Generator) -> None:
        """Draw states from the prior, and choose one of them by the density of the noise."""
        count = max(2, min(_STARTS, _NUMBERS // self.n))
        states = [self._distribution({name: p.draw(rng) for name, p in self.prior.items()}) for _ in range(count)]
        drawn = [state.draw(self.n, rng) for state in states]
        sums = np.array([self.contribution(x).sum(axis=0) for x in drawn])
        chosen = choose_start(self.acceptance, sums, rng)
        self.state, self.x = states[chosen], drawn[chosen]
        self.contributions, self.log_prior = self.contribution(self.x), self._log_prior(self.state.values)
        spreads = np.array([self.coordinates.unconstrain(state.values) for state in states])
        low, high = np.quantile(spreads, [0.25, 0.75], axis=0)
        spread = np.maximum((high - low) / 1.35, 1e-6)
        self.moves: dict[str, tuple[Callable[[StatedDistribution, np.random.Generator], Any], Walk]] = {}
        if self.state.has_density:
            self.state.log_likelihood(self.x)  # a first evaluation: its mistakes appear before sampling
            self.moves["density"] = self._by_density, Walk(spread)
        if self.state.has_quantiles:
            if np.isnan(self.state.at_ranks(self.state.ranks(self.x, rng))).any():
                raise ValueError(f"ppf and cdf of the records must be numbers, got NaN {self.state.where}")
            self.moves["quantiles"] = self._by_quantiles, Walk(spread)
        if len(self.moves) < 2:
            self.moves["simulation"] = self._by_simulation, LearnedWalk(spread)

    @property
    def description(self) -> str:
        """What the parameters are moved by."""
        if not self.state.has_density:
            return "exact: data augmentation with simulated records"
        joint = "quantiles" if self.state.has_quantiles else "simulation"
        return f"exact: data augmentation with the density of records, and joint moves by their {joint}"

    # Sweeps

    def sweep(self, rng: np.random.Generator, *, tuning: bool) -> float:
        """Offer new records, then move the parameters in all ways that the distribution of records allows."""
        proposed = self.state.draw(self.n, rng)
        moves = self.acceptance.offer(self.contributions, self.contribution(proposed), rng)
        self.x[moves.accepted] = proposed[moves.accepted]
        for move, walk in self.moves.values():
            for _ in range(_SHIFTS if len(self.moves) == 1 else 1):
                self._move(move, walk, rng, tuning=tuning)
        return moves.rate

    def _move(
        self,
        move: Callable[[StatedDistribution, np.random.Generator], Any],
        walk: Walk,
        rng: np.random.Generator,
        *,
        tuning: bool,
    ) -> None:
        """Propose parameters by a random walk, or from their priors where those have no density; accept or not."""
        old, z = self.state.values, self.coordinates.unconstrain(self.state.values)
        walks = bool(self.walked) and not (self.redrawn and rng.random() < 0.5)
        proposal = walk.propose(z, rng) if walks else z
        if walks:
            moved = self.coordinates.constrain(proposal)
            log_prior = self._log_prior(moved)
        else:  # the prior and the proposal cancel
            moved, log_prior = {name: self.prior[name].draw(rng) for name in self.redrawn}, self.log_prior
        log_ratio = log_prior - self.log_prior
        if log_ratio > -np.inf:
            state = self._distribution(old | moved)
            found, x, contributions = move(state, rng)
            if walks:
                log_ratio += self.coordinates.log_slope(proposal) - self.coordinates.log_slope(z)
            log_ratio += found
            if log_ratio > -rng.standard_exponential():
                self.state, self.x, self.contributions, self.log_prior = state, x, contributions, log_prior
        if tuning and walks:
            walk.tune(log_ratio, self.coordinates.unconstrain(self.state.values))

    def _by_density(self, state: StatedDistribution, rng: np.random.Generator) -> tuple[float, FloatArray, FloatArray]:
        """Keep the records: the ratio of their densities (section 2)."""
        del rng
        ratio = state.log_likelihood(self.x) - self.state.log_likelihood(self.x)
        return ratio, self.x, self.contributions

    def _by_quantiles(
        self, state: StatedDistribution, rng: np.random.Generator
    ) -> tuple[float, FloatArray, FloatArray]:
        """Keep the ranks of the records: the ratio of the noise densities (section 3)."""
        with np.errstate(all="ignore"):
            x = state.at_ranks(self.state.ranks(self.x, rng))
        if not np.isfinite(x).all():  # a rank that was rounded to 0 or 1 cannot be mapped back
            return -np.inf, self.x, self.contributions
        return self._with_records(x)

    def _by_simulation(
        self, state: StatedDistribution, rng: np.random.Generator
    ) -> tuple[float, FloatArray, FloatArray]:
        """Draw all records anew: the ratio of the noise densities (section 4)."""
        return self._with_records(state.draw(self.n, rng))

    def _with_records(self, x: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        contributions = self.contribution(x)
        ratio = self.acceptance.log_ratio(self.contributions.sum(axis=0), contributions.sum(axis=0))
        return ratio, x, contributions

    def parameters(self) -> dict[str, FloatArray]:
        """The current parameters."""
        return self.state.values

    def _distribution(self, values: Values) -> StatedDistribution:
        return StatedDistribution(self.records, {name: values[name] for name in self.prior}, self.width)

    def _log_prior(self, values: Values) -> float:
        return sum(self.prior[name].log_density(values[name]) for name in self.walked)
