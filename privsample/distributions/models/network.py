"""Gibbs sampling for a Bayesian network of categorical variables, given noisy tables of counts. Proofs: gibbs.md, 5."""

from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy import special

from privsample._checks import FloatArray, check_memory, listed, positive, positive_integer, whole_number
from privsample._value import Memo, cached, frozen_value, set_fields
from privsample.distributions.models.hmm import log_dirichlet, project_onto_counts
from privsample.distributions.noise import Noise

LARGEST = 4096  # combinations of all categories
_WINDOW = 2048  # values of a count among which one update chooses
_LOG_TINY = float(np.log(np.finfo(np.float64).tiny))


@frozen_value
class CategoricalNetwork(Memo):
    """A Bayesian network of categorical variables with symmetric Dirichlet priors on all conditional probabilities.

    `edges` are pairs (parent, child) of variables. A *cell* is one combination of the categories of all variables. A
    family is a variable with its parents; its table has one cell for each combination of their categories, the
    variable's own category last. The released tables are those of the families that lie in no other family: their
    margins are the tables of the other families.
    """

    categories: tuple[int, ...]
    edges: tuple[tuple[int, int], ...] = ()
    prior: float = 1.0

    def __post_init__(self) -> None:
        given = listed(categories=self.categories)
        counts = tuple(positive_integer(**{f"categories[{v}]": k}) for v, k in enumerate(given))
        if not counts or min(counts) < 2:
            raise ValueError(f"categories must name at least two categories for each variable, got {self.categories}")
        if not prod(counts) <= LARGEST:
            raise ValueError(f"categories must have at most {LARGEST} combinations, got {prod(counts):,}")
        set_fields(self, categories=counts, edges=self._checked_edges(len(counts)), prior=positive(prior=self.prior))
        if not self._is_acyclic():
            raise ValueError(f"edges must not form a cycle, got {self.edges}")

    def _checked_edges(self, variables: int) -> tuple[tuple[int, int], ...]:
        """Distinct pairs of different variables in range, sorted. Raises TypeError or ValueError."""
        found = []
        for place, edge in enumerate(listed(edges=self.edges)):
            pair = tuple(whole_number(**{f"edges[{place}]": end}) for end in listed(**{f"edges[{place}]": edge}))
            if len(pair) != 2 or not all(0 <= end < variables for end in pair) or pair[0] == pair[1]:
                raise ValueError(
                    f"edges[{place}] must be two different variables (parent, child) among 0, ..., {variables - 1}, "
                    f"got {edge}"
                )
            found.append((pair[0], pair[1]))
        if len(set(found)) < len(found):
            raise ValueError(f"edges must be distinct, got {self.edges}")
        return tuple(sorted(found))

    def _is_acyclic(self) -> bool:
        """Whether the variables can be removed one after the other, each without parents that remain."""
        left = set(range(len(self.categories)))
        while left:
            free = {v for v in left if not any(parent in left for parent in self.parents(v))}
            if not free:
                return False
            left -= free
        return True

    def parents(self, variable: int) -> tuple[int, ...]:
        """The parents of a variable, in increasing order."""
        return tuple(parent for parent, child in self.edges if child == variable)

    @cached
    def families(self) -> tuple[tuple[int, ...], ...]:
        """The variables of each family: the parents, and the variable itself last."""
        return tuple((*self.parents(v), v) for v in range(len(self.categories)))

    @cached
    def tables(self) -> tuple[tuple[int, ...], ...]:
        """The families whose tables are released: those that lie in no other one."""
        sets = [frozenset(family) for family in self.families]
        return tuple(each for own, each in zip(sets, self.families, strict=True) if not any(own < one for one in sets))

    @property
    def cells(self) -> int:
        """The number of combinations of the categories of all variables."""
        return prod(self.categories)

    def size(self, variables: tuple[int, ...]) -> int:
        """The number of combinations of the categories of these variables."""
        return prod(self.categories[v] for v in variables)

    @property
    def probabilities(self) -> int:
        """The number of conditional probabilities: the cells of all families' tables."""
        return sum(map(self.size, self.families))

    @cached
    def _codes(self) -> NDArray[np.int64]:
        """The categories of every cell, (cells, variables)."""
        return np.array(np.unravel_index(np.arange(self.cells), self.categories)).T.astype(np.int64)

    def places(self, codes: NDArray[np.int64], variables: tuple[int, ...]) -> NDArray[np.int64]:
        """The cell of the table of these variables for each row of codes, (n,)."""
        shape = tuple(self.categories[v] for v in variables)
        return np.ravel_multi_index(tuple(codes[:, v] for v in variables), shape).astype(np.int64)

    def counts(self, codes: NDArray[np.int64]) -> FloatArray:
        """The released tables of rows of codes, (n, variables), one after the other, (table cells,)."""
        found = [np.bincount(self.places(codes, each), minlength=self.size(each)) for each in self.tables]
        return np.concatenate(found).astype(np.float64)

    def split(self, tables: FloatArray) -> list[FloatArray]:
        """The released tables, each as an array with one axis for each of its variables."""
        ends = np.cumsum([self.size(each) for each in self.tables])[:-1]
        shapes = [tuple(self.categories[v] for v in each) for each in self.tables]
        return [part.reshape(shape) for part, shape in zip(np.split(tables, ends), shapes, strict=True)]

    def family_counts(self, tables: FloatArray) -> list[FloatArray]:
        """The table of each family as (parents' combinations, own categories): margins of the released tables."""
        parts, found = self.split(tables), []
        for family in self.families:
            at = next(k for k, table in enumerate(self.tables) if set(family) <= set(table))
            axes = self.tables[at]
            margin = parts[at].sum(axis=tuple(k for k, v in enumerate(axes) if v not in family))
            kept = [v for v in axes if v in family]
            ordered = np.transpose(margin, [kept.index(v) for v in family])
            found.append(ordered.reshape(-1, self.categories[family[-1]]))
        return found

    def draw_probabilities(self, families: list[FloatArray], rng: np.random.Generator) -> FloatArray:
        """Logs of all conditional probabilities given the families' counts, one family after the other."""
        drawn = [np.maximum(log_dirichlet(counts + self.prior, rng), _LOG_TINY).ravel() for counts in families]
        return np.concatenate(drawn)

    def log_cells(self, log_probabilities: FloatArray, codes: NDArray[np.int64] | None = None) -> FloatArray:
        """Log probability of every cell, or of rows of codes: shape (..., cells) for probabilities (..., cells)."""
        rows = self._codes if codes is None else codes
        total, start = np.zeros((*log_probabilities.shape[:-1], len(rows))), 0
        for family in self.families:
            total += log_probabilities[..., start + self.places(rows, family)]
            start += self.size(family)
        return total

    def sample(
        self, noisy: FloatArray, n: int, noise: Noise | None, sweeps: int, kept: int, rng: np.random.Generator
    ) -> FloatArray:
        """The last `kept` of `sweeps` draws of all conditional probabilities, (kept, ...), given noisy tables.

        With `noise`, Gibbs sweeps that alternate between the probabilities and the unknown counts of all cells. With
        None, independent draws of the plug-in posterior, given the nearest tables of n records.
        """
        parts = [project_onto_counts(part.reshape(1, -1), np.array([float(n)])).ravel() for part in self.split(noisy)]
        plug_in = self.family_counts(np.concatenate(parts))
        if noise is None:
            return np.exp([self.draw_probabilities(plug_in, rng) for _ in range(kept)])
        log_probabilities = self.draw_probabilities(plug_in, rng)
        start = np.exp(self.log_cells(log_probabilities))
        chain = HiddenCells(self, noisy, rng.multinomial(n, start / start.sum()), noise)
        found = np.empty((kept, self.probabilities))
        for sweep in range(sweeps):
            chain.update(self.log_cells(log_probabilities), rng)
            log_probabilities = self.draw_probabilities(self.family_counts(chain.tables), rng)
            if sweep >= sweeps - kept:
                found[sweep - (sweeps - kept)] = np.exp(log_probabilities)
        return found


class HiddenCells:
    """The unknown counts of all cells in a Gibbs sampler, with the released tables that they imply."""

    def __init__(self, network: CategoricalNetwork, noisy: FloatArray, counts: NDArray[np.int64], noise: Noise) -> None:
        codes = network._codes
        starts = np.cumsum([0, *(network.size(each) for each in network.tables)])
        check_memory(len(network.tables) * network.cells, lower="categories")
        self._places = np.array(
            [start + network.places(codes, each) for start, each in zip(starts, network.tables, strict=False)]
        )
        self._noisy, self._noise = noisy, noise
        self.counts = counts.copy()
        self.tables = np.zeros(len(noisy))
        for row in self._places:
            np.add.at(self.tables, row, self.counts)

    def update(self, log_cells: FloatArray, rng: np.random.Generator) -> None:
        """One sweep: all cells in random pairs; each pair shares its records anew, given all other counts."""
        order = rng.permutation(len(self.counts)).tolist()
        for i, j in zip(order[::2], order[1::2], strict=False):  # an odd cell waits for the next sweep
            self._share(i, j, float(log_cells[i] - log_cells[j]), rng)

    def _share(self, i: int, j: int, log_odds: float, rng: np.random.Generator) -> None:
        """Draw how many of the records of cells i and j are in i, from its conditional distribution."""
        now, both = int(self.counts[i]), int(self.counts[i] + self.counts[j])
        if both == 0:
            return
        low, high = 0, both
        if both > _WINDOW:  # a window of random place around the present value leaves the distribution invariant
            start = now - int(rng.integers(_WINDOW + 1))
            low, high = max(start, 0), min(start + _WINDOW, both)
        k = np.arange(low, high + 1)
        weights = k * log_odds - special.gammaln(k + 1.0) - special.gammaln(both - k + 1.0)
        for row in self._places:
            a, b = row[i], row[j]
            if a != b:
                more = k - now
                weights += self._noise.log_mass(self._noisy[a] - self.tables[a] - more)
                weights += self._noise.log_mass(self._noisy[b] - self.tables[b] + more)
        cumulative = np.cumsum(np.exp(weights - weights.max()))
        drawn = int(k[min(int(cumulative.searchsorted(rng.random() * cumulative[-1], side="right")), len(k) - 1)])
        for row in self._places:
            self.tables[row[i]] += drawn - now
            self.tables[row[j]] -= drawn - now
        self.counts[i], self.counts[j] = drawn, both - drawn
