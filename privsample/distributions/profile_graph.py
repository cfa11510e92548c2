"""Profile graphs: public distributions of observations, and edges between profiles that must be indistinguishable."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privsample._checks import FloatArray, nonnegative, positive_integer
from privsample._value import frozen_value, set_fields

Name = str | int
Edge = tuple[Name, Name]
IndexArray = NDArray[np.int64]

_SUM_TOLERANCE = 1e-9
_LEAST = 1e-100  # the product of a smaller probability and a matrix entry could underflow


@frozen_value
class ProfileGraph:
    """Named public distributions on {0, ..., symbols-1}, and edges between indistinguishable ones.

    A release must not distinguish two profiles that an edge joins. The graph is public, including its distributions.

    Parameters
    ----------
    profiles : mapping of str or int to array, or array
        Distributions by name, each of shape (symbols,), symbols >= 2; or an array of shape (profiles, symbols), whose
        rows are named 0, 1, .... A single number p is the Bernoulli distribution (1 - p, p). Probabilities must add up
        to 1 within 1e-9 and are then normalised; positive ones must be >= 1e-100.
    edges : iterable of pairs, networkx graph, or mapping, default ()
        Pairs of names; or a mapping from group names to lists of profile names, which joins all members of each group.

    Attributes
    ----------
    distributions : array of shape (profiles, symbols)
        The normalised distributions.
    ends : array of int, shape (edges, 2)
        The indices of the profiles of each edge.

    Raises
    ------
    TypeError
        If profiles, edges or names have the wrong type.
    ValueError
        If a distribution or an edge is invalid; the message names it.

    Examples
    --------
    >>> import privsample as ps
    >>> graph = ps.ProfileGraph(profiles={"a": 0.8, "b": 0.4, "c": 0.3}, edges={"team": ["a", "b", "c"]})
    >>> graph.edges
    (('a', 'b'), ('a', 'c'), ('b', 'c'))
    """

    profiles: Any  # stored as ((name, (p_0, p_1, ...)), ...)
    edges: Any = ()  # stored as ((name, name), ...), each once, in the order of the profiles
    distributions: FloatArray = field(init=False, compare=False, repr=False)  # (profiles, symbols), rows add up to one
    ends: IndexArray = field(init=False, compare=False, repr=False)  # (edges, 2), positions of the edges' profiles

    def __post_init__(self) -> None:
        profiles = tuple(
            (_name(name), _probabilities(name, distribution)) for name, distribution in _items(self.profiles)
        )
        position = {name: k for k, (name, _) in enumerate(profiles)}
        if not profiles:
            raise ValueError("profiles must hold at least one distribution")
        if len(position) != len(profiles):
            raise ValueError("profiles must have different names")
        first, symbols = profiles[0][0], len(profiles[0][1])
        for name, distribution in profiles:
            if len(distribution) != symbols:
                raise ValueError(
                    f"profile {name!r} must have {symbols} symbols like {first!r}, got {len(distribution)}"
                )
        ends = sorted({_edge(edge, position) for edge in _pairs(self.edges)})
        distributions = np.array([distribution for _, distribution in profiles])
        distributions /= distributions.sum(axis=1, keepdims=True)
        index = np.array(ends, dtype=np.int64).reshape(-1, 2)
        distributions.flags.writeable = index.flags.writeable = False
        names = list(position)
        set_fields(
            self,
            profiles=profiles,
            edges=tuple((names[a], names[b]) for a, b in ends),
            distributions=distributions,
            ends=index,
        )

    @property
    def names(self) -> tuple[Name, ...]:
        """The names of the profiles, in order."""
        return tuple(name for name, _ in self.profiles)

    @property
    def symbols(self) -> int:
        """The number of symbols that an observation can take."""
        return int(self.distributions.shape[1])

    def __len__(self) -> int:
        return len(self.profiles)

    def __repr__(self) -> str:
        return f"ProfileGraph({len(self)} profiles of {self.symbols} symbols, {len(self.edges)} edges)"

    @property
    def components(self) -> IndexArray:
        """The number of the connected component of each profile, shape (profiles,)."""
        return connected(len(self), self.ends)

    def within(self, distance: int) -> "ProfileGraph":
        """The graph with an edge between any two profiles at most `distance` edges apart.

        Parameters
        ----------
        distance : int
            Largest number of edges on a path between joined profiles, >= 1.

        Returns
        -------
        ProfileGraph
            The same profiles with the new edges.
        """
        from scipy.sparse.csgraph import dijkstra

        most = positive_integer(distance=distance)
        far = dijkstra(_adjacency(len(self), self.ends), directed=False, unweighted=True, limit=most)
        names = self.names
        pairs = [(names[a], names[b]) for a, b in zip(*np.nonzero(np.triu(np.isfinite(far), 1)), strict=True)]
        return ProfileGraph(profiles=self.profiles, edges=pairs)

    @classmethod
    def from_public_data(
        cls, sources: ArrayLike, observed: ArrayLike, *, symbols: int, edges: Any = (), smoothing: float = 1.0
    ) -> Self:
        """Estimate the profiles from PUBLIC data: smoothed relative frequencies of the symbols of each source.

        Profiles are published with every guarantee, which does not protect the data they were estimated from. Never
        estimate them from the observations that are to be privatised.

        Parameters
        ----------
        sources : array of shape (n,)
            Names of the sources, text or whole numbers.
        observed : array of int, shape (n,)
            Symbols in 0, ..., symbols-1.
        symbols : int
            Number of symbols, >= 1.
        edges : iterable of pairs, networkx graph, or mapping, default ()
            Edges between profiles, as for the class.
        smoothing : float, default 1
            Count that is added to every symbol of every source, finite and >= 0.

        Returns
        -------
        ProfileGraph
            One profile for each source, in sorted order.

        Raises
        ------
        ValueError
            If a symbol is out of range, or if a probability of the estimate is invalid.
        """
        names, codes = np.unique(np.asarray(sources), return_inverse=True)
        seen = np.asarray(observed)
        size, extra = positive_integer(symbols=symbols), nonnegative(smoothing=smoothing)
        if seen.shape != codes.shape or seen.dtype.kind not in "iub":
            raise ValueError(f"observed must be whole numbers, one for each of {len(codes)} sources, got {seen.dtype}")
        if not np.all((seen >= 0) & (seen < size)):
            raise ValueError(f"observed must lie in 0, ..., {size - 1}; clean public data before estimating from it")
        counts = np.full((len(names), size), extra)
        np.add.at(counts, (codes, seen.astype(np.int64)), 1.0)
        return cls(profiles=dict(zip(names.tolist(), counts / counts.sum(1, keepdims=True), strict=True)), edges=edges)


def connected(count: int, ends: IndexArray) -> IndexArray:
    """The number of the connected component of each of `count` nodes, given edges of shape (edges, 2)."""
    from scipy.sparse.csgraph import connected_components

    return np.asarray(connected_components(_adjacency(count, ends), directed=False)[1], dtype=np.int64)


def _adjacency(count: int, ends: IndexArray) -> Any:
    from scipy.sparse import coo_array

    return coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(count, count)).tocsr()


def _items(profiles: Any) -> Iterable[tuple[Any, Any]]:
    """Pairs (name, distribution) from a mapping, from the stored form of a ProfileGraph, or from an array."""
    if isinstance(profiles, Mapping):
        return list(profiles.items())
    if isinstance(profiles, tuple) and all(
        isinstance(p, tuple) and len(p) == 2 and isinstance(p[1], tuple) for p in profiles
    ):
        return profiles
    try:
        array = np.asarray(profiles, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            "profiles must map names to distributions, or be an array of distributions, one a row"
        ) from None
    if array.ndim not in (1, 2):
        raise ValueError(
            f"profiles must be an array of distributions, shape (profiles, symbols), got shape {array.shape}"
        )
    return list(enumerate(array))


def _name(name: Any) -> Name:
    if isinstance(name, np.generic):
        name = name.item()
    if isinstance(name, bool) or not isinstance(name, (str, int)):
        raise TypeError(f"a profile's name must be a string or an integer, got {type(name).__name__}")
    return name


def _probabilities(name: Any, distribution: Any) -> tuple[float, ...]:
    try:
        array = np.asarray(distribution, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"profile {name!r} must be a distribution: numbers >= 0 that add up to 1") from None
    if array.ndim == 0:
        if not 0.0 <= array <= 1.0:
            raise ValueError(f"profile {name!r} must be a probability in [0, 1], got {array}")
        array = np.array([1.0 - array, array])
    if array.ndim != 1 or len(array) < 2:
        raise ValueError(f"profile {name!r} must hold at least two numbers, one a symbol, got shape {array.shape}")
    bad = np.flatnonzero(~((array >= 0.0) & (array <= 1.0 + _SUM_TOLERANCE)))
    if len(bad):
        raise ValueError(f"profile {name!r} must hold probabilities; at symbol {bad[0]} it holds {array[bad[0]]}")
    total = float(array.sum())
    if not abs(total - 1.0) <= _SUM_TOLERANCE:
        way = "little" if total < 1 else "much"
        raise ValueError(
            f"profile {name!r} must add up to 1, it adds up to {total:.9g}: {abs(total - 1):.3g} too {way}"
        )
    tiny = np.flatnonzero((array > 0.0) & (array < _LEAST))
    if len(tiny):
        raise ValueError(f"profile {name!r} holds {array[tiny[0]]} at symbol {tiny[0]}: write 0 for less than {_LEAST}")
    return tuple(array.tolist())


def _pairs(edges: Any) -> Iterable[Any]:
    """Pairs of names from a list of pairs, a networkx graph, or a mapping of groups."""
    if isinstance(edges, Mapping):
        groups = [list(members) for members in edges.values()]
        return [(a, b) for members in groups for k, a in enumerate(members) for b in members[k + 1 :]]
    found = getattr(edges, "edges", edges)
    try:
        listed = list(found() if callable(found) else found)
        return listed if found is edges else [edge[:2] for edge in listed]  # networkx may add data or a key
    except TypeError:
        raise TypeError("edges must be pairs of names, a networkx graph, or groups of names") from None


def _edge(edge: Any, position: dict[Name, int]) -> tuple[int, int]:
    try:
        a, b = [edge] if isinstance(edge, str) else edge
        found = [position.get(_name(end)) for end in (a, b)]
    except (TypeError, ValueError):
        raise ValueError(
            f"an edge must be a pair of profile names, got {edge!r}; to join more than two, give groups: a mapping"
        ) from None
    for name, at in zip((a, b), found, strict=True):
        if at is None:
            raise ValueError(f"edge ({a!r}, {b!r}) names {name!r}, which is no profile")
    first, second = sorted(at for at in found if at is not None)
    if first == second:
        raise ValueError(f"edge ({a!r}, {b!r}) joins a profile to itself")
    return first, second
