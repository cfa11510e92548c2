"""Markov chain for proportions of categories, given noisy counts: it moves hidden counts, at a cost independent of n.

The moves and their proofs are in docs/notes/inference.md, sections 6 and 7.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.dirichlet_categorical import DirichletCategorical
from privsample.distributions.noise import (
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    LaplaceNoise,
    Noise,
)
from privsample.inference.chains import Observation

TARGET = 0.4  # acceptance that the sizes of moves are tuned to
_REPEATS = 16  # moves of pairs in a sweep, at least; for more categories one or two for each category
_STARTS = 100


class CountChain:
    """Markov chain whose state is the hidden counts of the categories; the proportions are drawn given them.

    Noise of the four distributions of this library runs in compiled code, any other noise in Python.

    Parameters
    ----------
    observation : Observation
        A release of counts: its model is DirichletCategorical, or BetaBernoulli for zeros and ones.
    collapsed : bool, default True
        Integrate the proportions out of the moves. False moves the counts given the current proportions.

    Raises
    ------
    TypeError
        If the records of the model are not categories.
    """

    description = "exact: Metropolis moves of blocks of records between categories, proportions integrated out"

    def __init__(self, observation: Observation, *, collapsed: bool = True) -> None:
        self.alpha, observed = _categories(observation)
        self.scalar = isinstance(observation.model, BetaBernoulli)
        self.n = observation.n if observation.size_prior is None else None
        self.log_size = np.empty(0) if self.n is not None else np.array(observation.size_prior, dtype=np.float64)
        self.noise, self.collapsed = observation.noise, collapsed
        self.seen = ~np.isnan(observed).all(axis=0)
        self.observed = np.where(self.seen, observed, 0.0)
        self._kernel = _kernel(self.noise)
        self._spread = max(self.noise.scale_parameter / len(observed) ** 0.5, 1.0)  # of a count given its copies
        self._guess = self._weights()
        self._cumulative = np.cumsum(self._guess)
        self._scales = self._first_scales()
        self._walks = np.full(len(self.alpha), self._scales[3])  # a category that is not seen can move farther
        self._sweeps = 0
        self.counts: NDArray[np.int64] = np.zeros(len(self.alpha), np.int64)
        self.theta = self.alpha / self.alpha.sum()

    def start(self, rng: np.random.Generator) -> None:
        """Draw counts near the noisy ones, and proportions given them."""
        for attempt in range(_STARTS):
            away = self.noise.sample(self._guess.shape, rng) * 0.5**attempt
            total = self.n if self.n is not None else self._first_size(away, rng)
            self.counts = self._nearest(self.observed.mean(axis=0) + away, total)
            if np.isfinite(self._log_noise(self.counts)):
                self._draw_theta(rng)
                return
        raise ValueError(
            f"no counts near the released ones are possible with {self.noise.name} noise; the noise of the release "
            "must be the noise with which it was made"
        )

    def sweep(self, rng: np.random.Generator, *, tuning: bool) -> float:
        """Make all moves once, draw the proportions, and return the mean acceptance of the moves."""
        from privsample.inference import count_moves

        moves, firsts, seconds, sizes = self._plan(rng)
        share = self.alpha if self.collapsed else self.theta
        suffix = np.cumsum(share[::-1])[::-1].copy()
        fixed = (share, suffix, self.collapsed, self._guess, self.log_size)
        if self._kernel is None:
            chances = self._run_own(rng, (moves, firsts, seconds, sizes), fixed)
        else:
            chances = count_moves.run_moves(
                rng, moves, firsts, seconds, sizes, self.counts, *fixed, self.observed, self.seen, *self._kernel
            )
        if tuning:
            self._tune(moves, firsts, chances)
        self._draw_theta(rng)
        return float(chances.mean()) if len(chances) else 1.0

    def parameters(self) -> dict[str, FloatArray]:
        """The current proportions "theta", and the number of records "n" if it is not public."""
        theta = np.asarray(self.theta[-1]) if self.scalar else self.theta.copy()
        return {"theta": theta} | ({} if self.n is not None else {"n": np.asarray(float(self.counts.sum()))})

    def _weights(self) -> FloatArray:
        """Public guesses of the counts, on which sizes of moves depend: the noisy counts, at least about the noise."""
        total = np.nansum(np.where(self.seen, self.observed.mean(axis=0), 0.0))
        if self.n is not None:
            total = float(self.n)
        missing = max(total - self.observed.mean(axis=0).sum(), 0.0) * self.alpha * ~self.seen
        guess = self.observed.mean(axis=0) + missing / max(float(self.alpha[~self.seen].sum()), 1e-300)
        least = min(self._spread, max(total, 1.0) / len(guess))
        return np.maximum(guess, max(least, 1e-3))

    def _first_scales(self) -> FloatArray:
        """Sizes of the moves before tuning: such that the counts move by about the noise."""
        noise = self._spread
        share = self._guess / self._guess.sum()
        together = float((share**2).sum())
        return np.array([noise**2 / max(2 * (1 - together), 1e-3), noise, noise / together**0.5, noise])

    def _first_size(self, away: FloatArray, rng: np.random.Generator) -> int:
        """Draw a number of records: near the sum of the noisy counts, or from its prior if some count is not seen."""
        possible = np.flatnonzero(self.log_size > -np.inf)
        known = float((self.observed.mean(axis=0) + away)[self.seen].sum())
        if self.seen.all():
            return int(possible[np.abs(possible - known).argmin()])
        enough = possible[possible >= min(known, float(possible[-1]))]
        logs = self.log_size[enough]
        return int(rng.choice(enough, p=np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()))

    def _nearest(self, wanted: FloatArray, total: int) -> NDArray[np.int64]:
        """Nonnegative integers with this total, near the wanted counts; unseen categories take the rest."""
        wanted = np.clip(wanted, 0.0, float(total))
        if not self.seen.all():
            rest = max(float(total) - float(wanted[self.seen].sum()), 0.0)
            wanted = np.where(self.seen, wanted, rest * self.alpha / self.alpha[~self.seen].sum())
        wanted = wanted if wanted.sum() > 0 else self._guess
        excess = wanted.sum() - total
        for _ in range(len(wanted)):  # spread the excess evenly over counts that stay nonnegative
            inside = wanted > 0
            wanted = np.where(inside, np.maximum(wanted - excess / max(inside.sum(), 1), 0.0), wanted)
            excess = wanted.sum() - total
            if abs(excess) < 0.5:
                break
        counts = np.floor(wanted).astype(np.int64)
        short = total - int(counts.sum())
        largest = int(np.argmax(counts))
        if 0 <= short <= len(counts):
            counts[np.argsort(counts - wanted)[:short]] += 1
        else:
            counts[largest] += short
        return counts

    def _plan(self, rng: np.random.Generator) -> tuple[Any, ...]:
        """The moves of one sweep: kinds, categories and sizes, drawn independently of the state."""
        from privsample.inference.count_moves import BLOCK, PAIR, RESIZE, WALK

        width, unknown = len(self.alpha), self.n is None
        repeats = 1 + _REPEATS // width if width > 2 else 0
        order = np.concatenate([np.empty(0, np.int64), *(rng.permutation(width) for _ in range(repeats))])
        moves = [np.full(4, BLOCK), np.full(len(order), PAIR)]
        # half of the partners are likely large: only they can take the records of a category that is far too large
        large = np.searchsorted(self._cumulative, rng.random(len(order)) * self._cumulative[-1])
        partners = np.where(rng.random(len(order)) < 0.5, np.minimum(large, width - 1), np.roll(order, 1))
        firsts, seconds = [np.zeros(4, np.int64), order], [np.ones(4, np.int64), partners]
        if unknown:
            walked = rng.integers(width, size=4 + width // 4)
            moves += [np.full(4, RESIZE), np.full(len(walked), WALK)]
            firsts += [np.zeros(4, np.int64), walked]
            seconds += [np.ones(4, np.int64), (walked + 1) % width]
        kinds = np.concatenate(moves).astype(np.int64)
        first, second = np.concatenate(firsts), np.concatenate(seconds)
        second = np.where(first == second, (first + 1) % width, second)
        typical = np.where(kinds == WALK, self._walks[first], self._scales[kinds])
        least = np.where(kinds == PAIR, -2.0, -1.0)  # pairs of very different counts need different sizes
        sizes = typical * np.exp(rng.uniform(least, 1.0, len(kinds)))
        signs = np.where((kinds >= RESIZE) & (rng.random(len(kinds)) < 0.5), -1.0, 1.0)
        return kinds, first, second, signs * np.minimum(sizes, 2.0**61)

    def _tune(self, moves: NDArray[np.int64], firsts: NDArray[np.int64], chances: FloatArray) -> None:
        """Change the logarithm of each size in proportion to acceptance minus its target, by ever smaller steps."""
        from privsample.inference.count_moves import WALK

        self._sweeps += 1
        gain = max(3.0 / self._sweeps**0.6, 0.05)
        total = float(self.n if self.n is not None else max(len(self.log_size), 1))
        # blocks up to all records, pairs up to a few scales of the noise: farther moves of large counts would fail
        limits = np.array([np.e * total * total, 2.5 * self._spread, total, total])
        for kind in range(WALK):
            if (moves == kind).any():
                step = gain * (float(chances[moves == kind].mean()) - TARGET)
                self._scales[kind] = np.clip(self._scales[kind] * np.exp(step), 0.5, max(limits[kind], 1.0))
        for k, chance in zip(firsts[moves == WALK], chances[moves == WALK], strict=True):
            moved = self._walks[k] * np.exp(gain * (chance - TARGET))
            self._walks[k] = np.clip(moved, 0.5, max(limits[WALK], 1.0))

    def _draw_theta(self, rng: np.random.Generator) -> None:
        self.theta = rng.dirichlet(self.alpha + self.counts)

    def _log_noise(self, counts: NDArray[np.int64]) -> float:
        """Log density of the noise of all copies at these counts; differences of it lose digits at large counts."""
        return float(self.noise.log_mass(self.observed[:, self.seen] - counts[self.seen]).sum())

    def _run_own(self, rng: np.random.Generator, plan: tuple[Any, ...], fixed: tuple[Any, ...]) -> FloatArray:
        """Run the moves as `run_moves` does, with the noise's own density."""
        from privsample.inference import count_moves

        new, taken = self.counts.copy(), np.empty_like(self.counts)
        chances, now = np.empty(len(plan[0])), self._log_noise(self.counts)
        for i, (move, first, second, size) in enumerate(zip(*plan, strict=True)):
            log_ratio = count_moves.propose(rng, move, first, second, size, new, taken, *fixed)
            then = self._log_noise(new)
            chances[i] = np.exp(min(log_ratio + then - now, 0.0)) if log_ratio + then > -np.inf else 0.0
            if rng.random() < chances[i]:
                self.counts[:], now = new, then
            else:
                new[:] = self.counts
        return chances


def _categories(observation: Observation) -> tuple[FloatArray, FloatArray]:
    """The prior's pseudo-counts, shape (K,), and the copies of the counts, shape (copies, K), NaN where not seen."""
    model, observed = observation.model, np.asarray(observation.observed, dtype=np.float64)
    if isinstance(model, DirichletCategorical):
        return np.array(model.alpha), observed
    if not isinstance(model, BetaBernoulli):
        raise TypeError(f"the records must be categories, or zeros and ones, got the model {type(model).__name__}")
    if model.fractional:
        raise TypeError("fractional records have no likelihood: use .posterior(), the plug-in posterior")
    ones = observed.reshape(-1, 1)
    return np.array([model.beta, model.alpha]), np.concatenate([np.full_like(ones, np.nan), ones], axis=1)


def _kernel(noise: Noise) -> tuple[int, float] | None:
    """The compiled noise and its scale, or None for a distribution of another package."""
    if type(noise) in {LaplaceNoise, DiscreteLaplaceNoise}:
        return 0, noise.scale_parameter
    if type(noise) in {GaussianNoise, DiscreteGaussianNoise}:
        return 1, noise.scale_parameter
    return None
