"""Tempered Gibbs updates of a hidden Markov chain that are drawn exactly.

Each update is an exponential mechanism of its own. The emission probabilities are drawn exactly and rounded to a public
grid inside their bounds. The states are drawn exactly given the rounded probabilities. So all that later sweeps read is
among the outputs that the account composes (docs/notes/exact_draws.md; gibbs.md, section 2).
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._value import Memo, cached, frozen_value
from privsample.distributions.exact.balls import enclose, flint
from privsample.distributions.exact.choice import exact_choice
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.rational import RationalDirichlet, rounded_numbers
from privsample.distributions.exact.words import WordStream
from privsample.distributions.models.hmm import CategoricalHMM, Chain, States, count_moves, log_dirichlet, move
from privsample.distributions.models.truncation import share_bounds


@frozen_value
class ExactUpdates(Memo):
    """Tempered updates of a model at temperature T, with shares of K categories of at least truncation/K.

    The shares are rounded to multiples of `pitch` inside their bounds.
    """

    model: CategoricalHMM
    temperature: float
    truncation: float
    pitch: float

    def sample(
        self,
        histograms: FloatArray,
        sweeps: int,
        last_sweeps: int,
        rng: np.random.Generator,
        updated: NDArray[np.bool_] | None,
    ) -> Chain:
        """The last `last_sweeps` of `sweeps` sweeps from random states; `updated` as in `CategoricalHMM.sample`.

        The first states and the transition probabilities do not depend on the records given the states, so
        floating-point draws of them are post-processing.
        """
        model, words = self.model, WordStream(rng)
        counts = histograms.astype(np.int64)
        z = rng.integers(0, model.states, len(counts))
        moves = count_moves(model, z)
        kept: list[tuple[States, FloatArray, FloatArray]] = []
        for sweep in range(sweeps):
            shares = self.draw_emissions(counts, z, words)
            steps = range(len(z)) if updated is None else np.flatnonzero(updated[sweep]).tolist()
            self._sweep(z, moves, _Scores(counts, shares), words, steps)
            if sweep >= sweeps - last_sweeps:
                transitions = np.exp(log_dirichlet(moves + model.transition_prior, rng))
                kept.append((z.copy(), shares, transitions))
        states, emissions, transitions = (np.array(part) for part in zip(*kept, strict=True))
        return Chain(states=states, emissions=emissions, transitions=transitions)

    @cached
    def _grids(self) -> list[Grid]:
        """The grid of each feature, inside the bounds of its shares."""
        ends = (share_bounds(self.truncation / k, k) for k in self.model.categories)
        return [Grid(pitch=self.pitch, low=low, high=high) for low, high in ends]

    def draw_emissions(self, counts: NDArray[np.int64], z: States, words: WordStream) -> FloatArray:
        """Rounded emission probabilities given the states z, shape (states, cells)."""
        chosen = np.zeros((self.model.states, len(z)), dtype=np.int64)
        chosen[z, np.arange(len(z))] = 1
        totals, prior = chosen @ counts, Fraction(self.model.emission_prior)
        shares = np.empty(totals.shape)
        for part, grid in zip(self.model.features, self._grids, strict=True):
            for row, own in zip(shares, totals, strict=True):
                alpha = tuple(prior + int(count) for count in own[part])
                drawn = RationalDirichlet(alpha=alpha).tempered(self.temperature).truncated(grid.low, grid.high)
                row[part] = rounded_numbers(drawn.sampler()(words), grid)
        return shares

    def _sweep(self, z: States, moves: FloatArray, scores: "_Scores", words: WordStream, steps: Any) -> None:
        """Update z at `steps`, and the transition counts `moves`, both in place; each state is drawn exactly."""
        length, inverse = len(z) // self.model.chains, 1 / Fraction(self.temperature)
        for t in steps:
            before = int(z[t - 1]) if t % length else -1
            after = int(z[t + 1]) if (t + 1) % length else -1
            move(moves, before, int(z[t]), after, -1.0)
            odds = self._odds(moves, before, after)
            z[t] = exact_choice(scores.weights(t, odds, inverse), words)
            move(moves, before, int(z[t]), after, 1.0)

    def _odds(self, moves: FloatArray, before: int, after: int) -> list[Fraction]:
        """The probability of each state given the adjacent states, up to a constant, as exact fractions."""
        prior, states = Fraction(self.model.transition_prior), range(self.model.states)
        odds = [Fraction(1)] * len(states)
        for k in states:
            if before >= 0:
                odds[k] *= int(moves[before, k]) + prior
            if after >= 0:
                into = int(moves[k, after]) + int(before == after == k)
                leaving = int(moves[k].sum()) + int(before == k)
                odds[k] *= (into + prior) / (leaving + len(states) * prior)
        return odds


class _Scores:
    """Log likelihoods of each step's counts in each state, enclosed at any precision."""

    def __init__(self, counts: NDArray[np.int64], shares: FloatArray) -> None:
        self._counts = counts
        self._shares = shares
        self._guess = counts @ np.log(shares).T
        self._balls: dict[int, Any] = {}

    def weights(self, t: int, odds: list[Fraction], inverse: Fraction) -> list[Callable[[int], Any]]:
        """For each state, the enclosed value of (odds e^score)^inverse, up to a factor that all states share."""
        top = float(self._guess[t].max())

        def weight(k: int) -> Callable[[int], Any]:
            return lambda bits: ((self._at(bits)[t, k] - top + enclose(odds[k]).log()) * enclose(inverse)).exp()

        return [weight(k) for k in range(len(odds))]

    def _at(self, bits: int) -> Any:
        """The scores of all steps and states at the working precision, shape (steps, states)."""
        if bits not in self._balls:
            matrix = flint().arb_mat
            logs = matrix([[flint().arb(share).log() for share in row] for row in self._shares.tolist()])
            self._balls[bits] = matrix(self._counts.tolist()) * logs.transpose()
        return self._balls[bits]
