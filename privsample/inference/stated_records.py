"""Chains over hidden records of any distribution that the user states, with any prior.

Proofs are in docs/notes/inference.md, sections 1 to 4.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, check_memory, numbers_of
from privsample.distributions.parametric.conjugate import PosteriorDistribution
from privsample.inference.acceptance import NoiseAcceptance
from privsample.inference.chains import Observation
from privsample.inference.contributions import contributions_of, record_width
from privsample.inference.priors import Coordinates, StatedPrior, not_frozen
from privsample.inference.records import choose_start, refuse_size_prior
from privsample.inference.walks import LearnedWalk, Walk

_STARTS = 32  # states simulated from the prior, one of which becomes the first
_SHIFTS = 3  # moves of the parameters in each sweep, if there is only one way to move them
_NUMBERS = 4_000_000  # records of all these states together, at most
_NEAR, _HALVINGS = 4.0, 60  # scales of the noise between statistic and release at a good start; steps towards one
_SHARES, _CONTINUOUS = (np.arange(2000) + 0.5) / 2000, 1e-6  # where quantiles are inverted, and how well at least
Values = dict[str, FloatArray]


class _OwnDistribution:
    """A distribution of privsample with the methods of SciPy's."""

    def __init__(self, distribution: PosteriorDistribution) -> None:
        self.distribution = distribution
        self.logpdf = distribution.log_density

    def rvs(self, *, size: int, random_state: np.random.Generator) -> FloatArray:
        """Draws."""
        return self.distribution.sample(size, random_state)


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
        # copies, because the function may change an array in place
        self.distribution = records(**{name: value.copy()[()] for name, value in values.items()})
        if isinstance(self.distribution, PosteriorDistribution):
            self.distribution = _OwnDistribution(self.distribution)
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
        if issubclass(inner, stats.rv_continuous):
            searched = inner._ppf is stats.rv_continuous._ppf or inner._cdf is stats.rv_continuous._cdf
            return not searched and self._is_continuous
        return self.integer_valued or self._is_continuous

    @property
    def _is_continuous(self) -> bool:
        """False if some value has a probability of its own, 1/2000 or more: ranks would not be uniform there."""
        with np.errstate(all="ignore"):
            gaps = np.asarray(self.distribution.cdf(self.distribution.ppf(_SHARES))) - _SHARES
        return not (np.abs(gaps) > _CONTINUOUS).any()  # NaN has an error message of its own

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw n records, shape (n,) or (n, columns). Raises ValueError for another shape or for NaN."""
        try:
            drawn = self.distribution.rvs(size=n, random_state=rng)
        except ValueError as error:
            raise ValueError(f"records cannot be drawn {self.where}: {error}") from error
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
        with np.errstate(all="ignore"):
            below = np.array(self.distribution.cdf(x), dtype=np.float64)
            if self.integer_valued:
                return below - rng.random(x.shape) * self.distribution.pmf(x), np.zeros(x.shape, dtype=np.bool_)
            upper = (below > 0.5) if self._has("sf", "isf") else np.zeros(x.shape, dtype=np.bool_)
            if upper.any():  # near 1 the probability of smaller values has lost its digits
                below[upper] = self.distribution.sf(x[upper])
        return below, upper

    def at_ranks(self, ranks: tuple[FloatArray, NDArray[np.bool_]]) -> FloatArray:
        """The records of this distribution with these ranks."""
        shares, upper = ranks
        found = np.empty(shares.shape)
        with np.errstate(all="ignore"):
            found[~upper] = self.distribution.ppf(shares[~upper])
            if upper.any():
                found[upper] = self.distribution.isf(shares[upper])
        return found

    @property
    def where(self) -> str:
        """The parameters, for messages."""
        shown = ", ".join(f"{name}={np.array2string(value, precision=4)}" for name, value in self.values.items())
        return f"at {shown}: restrict the prior to parameters that records takes"


_Simulated = tuple[StatedDistribution, FloatArray, FloatArray]


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
        """Draw states from the prior, or between such states, and choose one of them by the density of the noise."""
        count = max(2, min(_STARTS, _NUMBERS // self.n))
        drawn = [{name: each.draw(rng) for name, each in self.prior.items()} for _ in range(count)]
        states = [self._simulated(values | self.coordinates.away_from_bounds(values), rng) for values in drawn]
        between, width = self._between(states, rng)
        spreads = np.array([self.coordinates.unconstrain(state.values) for state, *_ in states])
        low, high = np.quantile(spreads, [0.25, 0.75], axis=0)
        spread = np.maximum(np.minimum((high - low) / 1.35, width), 1e-6)
        states += between
        chosen = choose_start(self.acceptance, np.array([total for *_, total in states]), rng)
        self.state, self.x, _ = states[chosen]
        self.contributions, self.log_prior = self.contribution(self.x), self._log_prior(self.state.values)
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

    def _simulated(self, values: Values, rng: np.random.Generator) -> _Simulated:
        """The distribution of records at these parameters, records, and their statistic."""
        state = self._distribution(values)
        x = state.draw(self.n, rng)
        return state, x, self.contribution(x).sum(axis=0)

    def _between(self, states: list[_Simulated], rng: np.random.Generator) -> tuple[list[_Simulated], FloatArray]:
        """States between two with sums on either side of the release, by bisection, and the distance left between them.

        Under a prior that is much wider than the bounds almost all draws have all records clipped. There the density of
        the noise is flat, and a random walk would not find the release.
        """
        found: list[_Simulated] = []
        gaps = np.array([total for *_, total in states]) - self.acceptance.observed.mean(axis=0)
        near = _NEAR * self.acceptance.scale
        width = np.full(len(self.coordinates.low), np.inf)
        if gaps.shape[1] > 1 or not self.walked or np.abs(gaps).min() <= near:
            return found, width
        below, above = np.flatnonzero(gaps[:, 0] < 0), np.flatnonzero(gaps[:, 0] > 0)
        if not (len(below) and len(above)):
            return found, width
        ends = [states[int(rng.choice(side))][0].values for side in (below, above)]
        for _ in range(max(2, min(_HALVINGS, _NUMBERS // self.n))):
            low, high = (self.coordinates.unconstrain(values) for values in ends)
            width = np.abs(high - low)
            values = ends[0] | self.coordinates.constrain((low + high) / 2)
            if not self._log_prior(values) > -np.inf:
                break
            found.append(self._simulated(values, rng))
            gap = float((found[-1][2] - self.acceptance.observed.mean(axis=0))[0])
            if abs(gap) <= near:
                break
            ends[int(gap > 0)] = values
        return found, width

    @property
    def description(self) -> str:
        """What the parameters are moved by."""
        if not self.state.has_density:
            return "exact: data augmentation with simulated records"
        joint = "quantiles" if "quantiles" in self.moves else "simulation"
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
            inside = self.coordinates.are_inside(proposal, moved)
            log_prior = self._log_prior(moved) if inside else -np.inf
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
