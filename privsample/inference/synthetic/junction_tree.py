"""Distributions on categorical columns that are products of small tables: exact marginals and draws by a junction tree.

docs/notes/synthetic.md, step 3. Tables over all columns are the special case of a single clique.
"""

from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.inference.synthetic.table_sums import Axes, add_up, marginals

LARGEST = 1 << 20  # cells of all cliques together


class Clique(NamedTuple):
    """A node of the tree. columns: sorted. parent: its place, -1 for the root. shared: columns that the parent has.

    tables: the places of the tables of the model that belong to it.
    """

    columns: Axes
    parent: int
    shared: Axes
    tables: tuple[int, ...]


class Calibrated(NamedTuple):
    """Several distributions. log_normalizer: log of the sum over all cells, shape (count,).

    conditionals: P(clique | shared) by clique, shape (count, ...).
    """

    log_normalizer: FloatArray
    conditionals: list[FloatArray]


class JunctionTree:
    """The tree of the cliques of a triangulated graph, in which the columns of each table are joined.

    Parameters
    ----------
    sizes : tuple of int
        The number of categories of each column.
    tables : tuple of tuple of int
        The columns of each table of the model, sorted.

    Raises
    ------
    ValueError
        If the cliques have more than 2^20 cells together.
    """

    def __init__(self, sizes: Axes, tables: tuple[Axes, ...]) -> None:
        self.sizes, self.tables = sizes, tables
        cells, cliques = min(
            (
                (sum(prod(sizes[c] for c in clique) for clique in found), found)
                for found in _triangulations(sizes, tables)
            ),
            key=lambda item: item[0],
        )
        if not cells <= LARGEST:
            raise ValueError(
                f"marginals must join columns less: the model would need tables of {cells:,} cells together, at most "
                f"{LARGEST:,}; leave out sets of columns, or merge categories"
            )
        self.cells, self.cliques = cells, _tree(cliques, tables)

    def calibrate(self, log_tables: list[FloatArray]) -> Calibrated:
        """The distributions proportional to the exponential of the sum of the tables, each of shape (count, ...)."""
        count = len(log_tables[0])
        potentials = [self._potential(clique, log_tables) for clique in self.cliques]
        conditionals: list[FloatArray] = [np.empty(0)] * len(self.cliques)
        log_normalizer = np.zeros(count)
        for k in reversed(range(len(self.cliques))):
            clique = self.cliques[k]
            own = tuple(place + 1 for place, column in enumerate(clique.columns) if column not in clique.shared)
            largest = potentials[k].max(axis=own, keepdims=True)
            weights = np.exp(potentials[k] - largest)
            total = weights.sum(axis=own, keepdims=True)
            weights /= total
            conditionals[k] = weights
            message = np.squeeze(largest + np.log(total), axis=own)
            if clique.parent < 0:
                log_normalizer = message
            else:
                columns = self.cliques[clique.parent].columns
                potentials[clique.parent] = potentials[clique.parent] + _spread(message, clique.shared, columns)
        return Calibrated(log_normalizer, conditionals)

    def _potential(self, clique: Clique, log_tables: list[FloatArray]) -> FloatArray:
        """The sum of the tables of a clique; a clique without tables is joined through its messages alone."""
        sizes = tuple(self.sizes[column] for column in clique.columns)
        if not clique.tables:
            return np.zeros((len(log_tables[0]), *sizes))
        axes = [_places(self.tables[table], clique.columns) for table in clique.tables]
        return add_up(axes, [log_tables[table] for table in clique.tables], sizes)

    def marginals(self, distribution: Calibrated) -> list[FloatArray]:
        """The marginal table of each table of the model, each of shape (count, ...)."""
        found: list[FloatArray] = [np.empty(0)] * len(self.tables)
        shares: dict[int, FloatArray] = {0: np.ones(len(distribution.log_normalizer))}
        for k, clique in enumerate(self.cliques):
            joint = distribution.conditionals[k] * _spread(shares.pop(k), clique.shared, clique.columns)
            children = [child for child, other in enumerate(self.cliques) if other.parent == k]
            wanted = [self.tables[table] for table in clique.tables] + [self.cliques[c].shared for c in children]
            tables = marginals(joint, [_places(columns, clique.columns) for columns in wanted])
            for place, table in zip(clique.tables, tables, strict=False):
                found[place] = table
            shares |= dict(zip(children, tables[len(clique.tables) :], strict=True))
        return found

    def sample(self, distribution: Calibrated, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Independent records from the first of the distributions, codes of shape (size, columns)."""
        codes = np.zeros((size, len(self.sizes)), dtype=np.int64)
        for clique, conditional in zip(self.cliques, distribution.conditionals, strict=True):
            own = tuple(column for column in clique.columns if column not in clique.shared)
            order = _places(clique.shared, clique.columns) + _places(own, clique.columns)
            rows = conditional[0].transpose(order).reshape(prod(self.sizes[c] for c in clique.shared), -1)
            given = np.zeros(size, dtype=np.int64)
            for column in clique.shared:
                given = given * self.sizes[column] + codes[:, column]
            drawn = _draw_rows(rows, given, rng)
            for column in reversed(own):
                codes[:, column], drawn = drawn % self.sizes[column], drawn // self.sizes[column]
        return codes


def _spread(table: FloatArray, shared: Axes, columns: Axes) -> FloatArray:
    """The table of some columns with an axis of length 1 for each of the others."""
    return np.expand_dims(table, tuple(k + 1 for k, column in enumerate(columns) if column not in shared))


def _draw_rows(rows: FloatArray, given: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """One draw from the distribution in the given row, for each of them, by inversion."""
    ends = np.cumsum(rows, axis=1)
    ends /= ends[:, -1:]
    flat = (ends + np.arange(len(rows))[:, None]).ravel()
    places = np.searchsorted(flat, given + rng.random(len(given)), side="right")
    return np.clip(places - given * rows.shape[1], 0, rows.shape[1] - 1)


def _places(columns: Axes, among: Axes) -> Axes:
    return tuple(among.index(column) for column in columns)


def _triangulations(sizes: Axes, tables: tuple[Axes, ...]) -> list[list[Axes]]:
    """The maximal cliques of the graph after eliminating columns by fewest cells, and by fewest new edges."""
    found = []
    for by_edges in (False, True):
        near = {
            column: {column, *(other for table in tables if column in table for other in table)}
            for column in range(len(sizes))
        }
        cliques: list[set[int]] = []
        while near:
            column = min(near, key=lambda c: _cost(c, near, sizes, by_edges=by_edges))
            clique = near.pop(column)
            for other in clique - {column}:
                near[other] = (near[other] | clique) - {column}
            if not any(clique <= other for other in cliques):
                cliques.append(clique)
        found.append([tuple(sorted(clique)) for clique in cliques])
    return found


def _cost(column: int, near: dict[int, set[int]], sizes: Axes, *, by_edges: bool) -> tuple[int, int]:
    clique = near[column]
    cells = prod(sizes[c] for c in clique)
    missing = sum(len(clique - near[other]) for other in clique)
    return (missing, cells) if by_edges else (cells, missing)


def _tree(cliques: list[Axes], tables: tuple[Axes, ...]) -> tuple[Clique, ...]:
    """Join each clique to one before it, such that the columns shared with all before it are shared with that one.

    Prim's algorithm: a spanning tree with the largest separators is a junction tree.
    """
    joined, left = [(cliques[0], -1, ())], cliques[1:]
    while left:
        best = max(
            (
                (len(set(clique) & set(other)), -k, -parent)
                for k, clique in enumerate(left)
                for parent, (other, _, _) in enumerate(joined)
            )
        )
        clique, parent = left.pop(-best[1]), -best[2]
        shared = tuple(column for column in clique if column in joined[parent][0])
        joined.append((clique, parent, shared))  # type: ignore[arg-type]
    homes = [next(k for k, (clique, _, _) in enumerate(joined) if set(table) <= set(clique)) for table in tables]
    return tuple(
        Clique(columns, parent, shared, tuple(t for t, home in enumerate(homes) if home == k))
        for k, (columns, parent, shared) in enumerate(joined)
    )
