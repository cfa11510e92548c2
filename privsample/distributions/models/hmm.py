"""Gibbs sampling for a hidden Markov chain over time steps, each with many categorical records.

Given the state of its time step, the features of a record are independent (naive Bayes). Transition probabilities are
integrated out (Goldwater and Griffiths 2007). Emission probabilities are sampled, so that the records enter only
through histograms.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from privsample._checks import FloatArray, check_memory, listed, positive, positive_integer
from privsample._value import frozen_value, set_fields
from privsample.distributions.parametric.rejection import sample_truncated_dirichlet
from privsample.distributions.parametric.truncated import tempered_shape

States = NDArray[np.int64]
_LOG_TINY = float(np.log(np.finfo(np.float64).tiny))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The recorded sweeps: states (sweeps, steps), emissions (sweeps, states, cells), transitions (sweeps, S, S)."""

    states: States
    emissions: FloatArray
    transitions: FloatArray


@frozen_value
class CategoricalHMM:
    """A hidden Markov model with `states` states, categorical features and symmetric Dirichlet priors.

    Histograms have shape (steps, cells), with one cell for each category of each feature, feature by feature. The steps
    form `chains` chains of equal length, one after the other, with common emission and transition probabilities.
    """

    states: int
    categories: tuple[int, ...]
    emission_prior: float = 1.0
    transition_prior: float = 1.0
    chains: int = 1

    def __post_init__(self) -> None:
        set_fields(self, states=positive_integer(states=self.states))
        given = listed(categories=self.categories)
        counts = tuple(positive_integer(**{f"categories[{f}]": k}) for f, k in enumerate(given))
        if not counts or min(counts) < 2:
            raise ValueError(f"categories must name at least two categories for each feature, got {self.categories}")
        set_fields(self, categories=counts, emission_prior=positive(emission_prior=self.emission_prior))
        set_fields(self, transition_prior=positive(transition_prior=self.transition_prior))
        set_fields(self, chains=positive_integer(chains=self.chains))
        check_memory(self.states * (self.states + self.cells), lower="states or categories")

    @property
    def features(self) -> tuple[slice, ...]:
        """The cells of each feature, as slices."""
        ends = np.cumsum((0, *self.categories)).tolist()
        return tuple(slice(start, end) for start, end in itertools.pairwise(ends))

    @property
    def cells(self) -> int:
        """The number of columns of a histogram."""
        return sum(self.categories)

    def histograms(self, steps: NDArray[np.int64], codes: NDArray[np.int64], count: int) -> FloatArray:
        """Counts (count, cells) of records with time steps (n,) and categories (n, features), both in range."""
        starts = np.array([part.start for part in self.features])
        places = steps[:, None] * self.cells + starts + codes
        return np.bincount(places.ravel(), minlength=count * self.cells).reshape(count, -1).astype(np.float64)

    def sample(
        self,
        histograms: FloatArray,
        sweeps: int,
        last_sweeps: int,
        rng: np.random.Generator,
        *,
        temperature: float = 1.0,
        truncation: float | None = None,
        updated: NDArray[np.bool_] | None = None,
    ) -> Chain:
        """The last `last_sweeps` of `sweeps` Gibbs sweeps from random states.

        A sweep draws the emissions first, then the state of each step.

        Every conditional distribution is tempered at `temperature`; with `truncation` t, each share of K categories is
        truncated to at least t/K. `updated`, (sweeps, steps), names the steps whose states each sweep updates; None
        updates all.
        """
        if updated is None:
            updated = np.broadcast_to(np.ones(len(histograms), dtype=bool), (sweeps, len(histograms)))
        z = rng.integers(0, self.states, len(histograms))
        moves = count_moves(self, z)
        states, emissions, transitions = [], [], []
        for sweep in range(sweeps):
            log_shares = self.draw_emissions(histograms, z, rng, temperature, truncation)
            self._sweep(z, moves, histograms @ log_shares.T, rng, temperature, updated[sweep])
            if sweep >= sweeps - last_sweeps:
                states.append(z.copy())
                emissions.append(np.exp(log_shares))
                transitions.append(np.exp(log_dirichlet(moves + self.transition_prior, rng)))
        return Chain(states=np.array(states), emissions=np.array(emissions), transitions=np.array(transitions))

    def draw_emissions(
        self,
        histograms: FloatArray,
        z: States,
        rng: np.random.Generator,
        temperature: float,
        truncation: float | None,
    ) -> FloatArray:
        """Logs of the emission probabilities given the states z, shape (states, cells)."""
        chosen = np.zeros((self.states, len(z)))
        chosen[z, np.arange(len(z))] = 1.0
        weights = tempered_shape(self.emission_prior + chosen @ histograms, temperature)
        if truncation is not None:
            return np.log(self._sample_truncated(weights, truncation, rng))
        log_shares = [log_dirichlet(weights[:, part], rng) for part in self.features]
        return np.maximum(np.concatenate(log_shares, axis=1), _LOG_TINY)

    def _sample_truncated(self, weights: FloatArray, truncation: float, rng: np.random.Generator) -> FloatArray:
        """Truncated Dirichlet draws with shares of at least truncation / K, for all features of all states at once."""
        padded = np.zeros((len(weights), len(self.categories), max(self.categories)))
        places = np.array([f < k for k in self.categories for f in range(max(self.categories))])
        padded.reshape(len(weights), -1)[:, places] = weights
        least = np.tile(truncation / np.array(self.categories), len(weights))
        drawn = sample_truncated_dirichlet(padded.reshape(len(least), -1), least, rng)
        return drawn.reshape(len(weights), -1)[:, places]

    def _sweep(
        self,
        z: States,
        moves: FloatArray,
        scores: FloatArray,
        rng: np.random.Generator,
        temperature: float,
        updated: NDArray[np.bool_],
    ) -> None:
        """Update z at the steps `updated`, and the transition counts `moves`, given log likelihoods; both in place."""
        cumulative = np.empty(self.states)
        steps, length = np.flatnonzero(updated).tolist(), len(z) // self.chains
        for t, uniform in zip(steps, rng.random(len(steps)).tolist(), strict=True):
            before = int(z[t - 1]) if t % length else -1
            after = int(z[t + 1]) if (t + 1) % length else -1
            move(moves, before, int(z[t]), after, -1.0)
            score = (scores[t] + self._neighbours(moves, before, after)) / temperature
            np.cumsum(np.exp(score - score.max()), out=cumulative)
            state = int(cumulative.searchsorted(uniform * cumulative[-1], side="right"))
            z[t] = min(state, self.states - 1)
            move(moves, before, int(z[t]), after, 1.0)

    def _starts(self, steps: int) -> NDArray[np.bool_]:
        """Whether each of `steps` steps is the first of its chain, (steps,)."""
        return np.arange(steps) % (steps // self.chains) == 0

    def _neighbours(self, moves: FloatArray, before: int, after: int) -> FloatArray:
        """Log probability of each state given the adjacent states, up to a constant; -1 means no adjacent state."""
        prior = self.transition_prior
        if after < 0:
            return np.log(moves[before] + prior) if before >= 0 else np.zeros(self.states)
        into, leaving = moves[:, after] + prior, moves.sum(axis=1) + self.states * prior
        if before < 0:
            return np.log(into / leaving)
        leaving[before] += 1.0
        if before == after:
            into[before] += 1.0
        return np.log(moves[before] + prior) + np.log(into / leaving)

    def log_predictive(self, chain: Chain, histograms: FloatArray) -> FloatArray:
        """Log mean likelihood of each time step's histogram over the chain, (steps,), given the adjacent states.

        For held-out time steps; transitions as sampled.
        """
        found = np.empty((len(chain.states), len(histograms)))
        follows = ~self._starts(len(histograms))[1:]
        for k, (z, shares, moves) in enumerate(zip(chain.states, chain.emissions, chain.transitions, strict=True)):
            weights = np.ones((len(z), self.states))
            weights[1:][follows] *= moves[z[:-1][follows]]
            weights[:-1][follows] *= moves[:, z[1:][follows]].T
            weights /= weights.sum(axis=1, keepdims=True)
            with np.errstate(divide="ignore"):
                found[k] = special.logsumexp(np.log(weights) + histograms @ np.log(shares).T, axis=1)
        return special.logsumexp(found, axis=0) - np.log(len(found))


def random_scans(holding: NDArray[np.bool_], scan: int, sweeps: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """The steps that each sweep updates, (sweeps, steps): `scan` of those that hold records, and all others."""
    updated = np.broadcast_to(~holding, (sweeps, len(holding))).copy()
    places = np.flatnonzero(holding)
    for row in updated:
        row[rng.choice(places, scan, replace=False)] = True
    return updated


def count_moves(model: CategoricalHMM, z: States) -> FloatArray:
    """How often each state follows each other one within the chains, shape (states, states)."""
    moves = np.zeros((model.states, model.states))
    follows = ~model._starts(len(z))[1:]
    np.add.at(moves, (z[:-1][follows], z[1:][follows]), 1.0)
    return moves


def move(moves: FloatArray, before: int, state: int, after: int, amount: float) -> None:
    """Add the two transitions through one step to the counts, or subtract them."""
    if before >= 0:
        moves[before, state] += amount
    if after >= 0:
        moves[state, after] += amount


def log_dirichlet(alpha: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Logs of one draw for each row of alpha, (rows, K), from its Dirichlet distribution, however small alpha is.

    A Gamma(a) variable is one of Gamma(a + 1) times a uniform one to the power 1/a (Stuart 1962).
    """
    logs = np.log(rng.standard_gamma(alpha + 1.0)) - rng.standard_exponential(alpha.shape) / alpha
    logs -= logs.max(axis=1, keepdims=True)
    return logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))


def project_onto_counts(rows: FloatArray, totals: FloatArray) -> FloatArray:
    """The nearest rows, (rows, K), that are nonnegative with sums `totals`, (rows,): projection onto a simplex.

    Source: Held, Wolfe and Crowder 1974.
    """
    falling = -np.sort(-rows, axis=1)
    excess = (np.cumsum(falling, axis=1) - totals[:, None]) / np.arange(1, rows.shape[1] + 1)
    last = (falling > excess).sum(axis=1) - 1
    level = excess[np.arange(len(rows)), np.maximum(last, 0)]
    return np.maximum(rows - level[:, None], 0.0)
