"""Profile-based privacy: release observations so that their source profile is hidden and the rest is preserved."""

from dataclasses import field
from typing import ClassVar

import numpy as np

from privsample._checks import FloatArray, real_array
from privsample._value import frozen_value, set_fields
from privsample.distributions.profile_graph import ProfileGraph
from privsample.distributions.steps.channels import response
from privsample.mechanisms.examples import Example
from privsample.mechanisms.profiles.base import ProfileMechanism
from privsample.mechanisms.profiles.program import Program
from privsample.mechanisms.profiles.solver import (
    minimal_cost_matrices,
    minimal_flips,
    minimal_matrices,
    relative_weights,
)

_LARGER_EPSILON = "computed for a larger epsilon"


def _two_bits() -> ProfileGraph:
    return ProfileGraph(profiles={"a": 0.8, "b": 0.4}, edges=[("a", "b")])


def _chain_of_bits() -> ProfileGraph:
    return ProfileGraph(profiles={"a": 0.9, "b": 0.6, "c": 0.2}, edges=[("a", "b"), ("b", "c")])


def _example_graph() -> ProfileGraph:
    return ProfileGraph(
        profiles={"nurse": (0.7, 0.2, 0.1), "doctor": (0.2, 0.5, 0.3), "visitor": (0.1, 0.3, 0.6)},
        edges=[("nurse", "doctor"), ("doctor", "visitor")],
    )


def edge_flips(program: Program) -> FloatArray:
    """The least flip that protects each edge of two-symbol profiles, (edges,): D/(2D + e^eps - 1), D = [p - e^eps q]_+.

    Geumlek 2020, Observation 10, with the positive parts that it omits (docs/notes/profiles.md).
    """
    p, q = program.distributions[program.ends[:, 0]], program.distributions[program.ends[:, 1]]
    gap = np.maximum(np.maximum(p, q) * np.exp(-program.epsilon) - np.minimum(p, q), 0.0).max(axis=1)
    return np.asarray(gap / (2 * gap - np.expm1(-program.epsilon)))


def _flipping(flips: FloatArray) -> FloatArray:
    """Matrices (m, 2, 2) that exchange either symbol for the other with probability flips (m,)."""
    return np.stack([np.stack([1 - flips, flips], axis=-1), np.stack([flips, 1 - flips], axis=-1)], axis=-2)


def _one_flip(program: Program) -> FloatArray:
    """The flip that the worst edge needs, for all profiles."""
    return _flipping(np.full(len(program.distributions), edge_flips(program).max()))


def _two_symbols(graph: ProfileGraph) -> None:
    if graph.symbols != 2:
        raise ValueError(f"profiles must have two symbols, got {graph.symbols}; use SmoothCategorical")


def _weights(weights: FloatArray, graph: ProfileGraph) -> FloatArray:
    """One weight for each profile; ones if none are given."""
    found = real_array(weights=weights).copy() if np.size(weights) else np.ones(len(graph))
    if found.shape != (len(graph),) or not np.all((found >= 0) & (found < np.inf)):
        raise ValueError(f"weights must be finite and >= 0, one for each of {len(graph)} profiles")
    found.flags.writeable = False
    return found


@frozen_value
class OneBit(ProfileMechanism):
    """Profile-based privacy for two profiles of one bit: both profiles use the same flip probability, in closed form.

    `release` takes a mapping, or a pandas, polars or Arrow table, with the columns "profile" (names of the graph, or
    one name for all) and "symbol", and releases "symbols", whole numbers of shape (1, n) in the order given; n is
    public.

    Parameters
    ----------
    graph : ProfileGraph
        Two profiles over two symbols, joined by an edge.
    epsilon : float
        The guarantee of every edge for one observation, in nats, >= 1e-9.
    observations : int, default 1
        Largest number of independent observations of one source, >= 1. The account covers all of them.
    missing : int, default 0
        The symbol, in {0, ..., d-1}, that replaces every observation that is missing or out of range.
    matrices : numpy.ndarray of float, optional
        Transition matrices, shape (profiles, d, d); entry [i, x, y] is the probability of releasing y for x under
        profile i. By default they are computed. Given matrices must be whole multiples of 2^-53, and every edge is
        checked on them.

    Raises
    ------
    ValueError
        If a field lies outside its range, or given matrices are not valid.
    NumericalFailure
        If the solver fails; the message names the edge that is hardest to protect.

    Notes
    -----
    Geumlek 2020, Algorithm 6 (single-bit two-profile mechanism). Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> graph = ps.ProfileGraph(profiles={"a": 0.8, "b": 0.4}, edges=[("a", "b")])
    >>> mechanism = ps.OneBit(graph=graph, epsilon=0.3)
    >>> round(float(mechanism.largest_change), 3)
    0.327
    >>> mechanism.release({"profile": "a", "symbol": [1, 1, 0]})["symbols"].shape
    (1, 3)
    """

    graph: ProfileGraph
    epsilon: float
    observations: int = 1
    missing: int = 0
    matrices: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)

    def __post_init__(self) -> None:
        self._check_fields()

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A mutant computed for a larger epsilon than stated."""
        example, mutant = (cls(graph=_two_bits(), epsilon=epsilon) for epsilon in (0.3, 0.6))
        return (Example(name="one-bit", mechanism=example, mutant=mutant, bug=_LARGER_EPSILON),)

    def _check(self) -> None:
        _two_symbols(self.graph)
        if len(self.graph) != 2:
            raise ValueError(f"graph must have two profiles, got {len(self.graph)}; use OneBitCluster or SmoothOneBit")

    def _part(self, program: Program) -> FloatArray:
        return _one_flip(program)


@frozen_value
class OneBitCluster(ProfileMechanism):
    """Profile-based privacy for profiles of one bit: one flip probability for each connected component, in closed form.

    The flip is the one that the worst edge of the component needs. `release` takes a mapping, or a pandas, polars or
    Arrow table, with the columns "profile" (names of the graph, or one name for all) and "symbol", and releases
    "symbols", whole numbers of shape (1, n) in the order given; n is public.

    Parameters
    ----------
    graph : ProfileGraph
        Profiles over two symbols, and the edges between profiles that must be indistinguishable.
    epsilon : float
        The guarantee of every edge for one observation, in nats, >= 1e-9.
    observations : int, default 1
        Largest number of independent observations of one source, >= 1. The account covers all of them.
    missing : int, default 0
        The symbol, in {0, ..., d-1}, that replaces every observation that is missing or out of range.
    matrices : numpy.ndarray of float, optional
        Transition matrices, shape (profiles, d, d); entry [i, x, y] is the probability of releasing y for x under
        profile i. By default they are computed. Given matrices must be whole multiples of 2^-53, and every edge is
        checked on them.

    Raises
    ------
    ValueError
        If a field lies outside its range, or given matrices are not valid.
    NumericalFailure
        If the solver fails; the message names the edge that is hardest to protect.

    Notes
    -----
    Geumlek 2020, Algorithm 7 and Theorem 23. Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> graph = ps.ProfileGraph(profiles={"a": 0.9, "b": 0.6, "c": 0.2}, edges=[("a", "b"), ("b", "c")])
    >>> mechanism = ps.OneBitCluster(graph=graph, epsilon=0.3)
    >>> round(float(mechanism.largest_change), 3)
    0.327
    """

    graph: ProfileGraph
    epsilon: float
    observations: int = 1
    missing: int = 0
    matrices: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)

    def __post_init__(self) -> None:
        self._check_fields()

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A mutant computed for a larger epsilon than stated."""
        example, mutant = (cls(graph=_chain_of_bits(), epsilon=epsilon) for epsilon in (0.3, 0.45))
        return (Example(name="one-bit-cluster", mechanism=example, mutant=mutant, bug=_LARGER_EPSILON),)

    def _check(self) -> None:
        _two_symbols(self.graph)

    def _part(self, program: Program) -> FloatArray:
        return _one_flip(program)


@frozen_value
class SmoothOneBit(ProfileMechanism):
    """Profile-based privacy for profiles of one bit, with a flip probability for each profile.

    The largest flip of a component is minimal, where the flip of a profile counts times its weight; among such flips,
    those with the least weighted sum are used. `release` takes a mapping, or a pandas, polars or Arrow table, with the
    columns "profile" (names of the graph, or one name for all) and "symbol", and releases "symbols", whole numbers of
    shape (1, n) in the order given; n is public.

    Parameters
    ----------
    graph : ProfileGraph
        Profiles over two symbols, and the edges between profiles that must be indistinguishable.
    epsilon : float
        The guarantee of every edge for one observation, in nats, >= 1e-9.
    weights : numpy.ndarray of float, optional
        Public weights of the profiles in the objective, shape (profiles,), finite and >= 0, of any scale; only ratios
        within a connected component matter. A weight of 0 leaves a profile out. By default ones.
    observations : int, default 1
        Largest number of independent observations of one source, >= 1. The account covers all of them.
    missing : int, default 0
        The symbol, in {0, ..., d-1}, that replaces every observation that is missing or out of range.
    matrices : numpy.ndarray of float, optional
        Transition matrices, shape (profiles, d, d); entry [i, x, y] is the probability of releasing y for x under
        profile i. By default they are computed. Given matrices must be whole multiples of 2^-53, and every edge is
        checked on them.

    Raises
    ------
    ValueError
        If a field lies outside its range, or given matrices are not valid.
    NumericalFailure
        If the solver fails; the message names the edge that is hardest to protect.

    Notes
    -----
    Geumlek 2020, program (7.6), Algorithm 8 and Theorem 24. Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> graph = ps.ProfileGraph(profiles={"a": 0.9, "b": 0.6, "c": 0.2}, edges=[("a", "b"), ("b", "c")])
    >>> mechanism = ps.SmoothOneBit(graph=graph, epsilon=0.3)
    >>> mechanism.distortion.round(3).tolist()
    [0.306, 0.327, 0.327]
    """

    graph: ProfileGraph
    epsilon: float
    weights: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)
    observations: int = 1
    missing: int = 0
    matrices: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)
    _solves_jointly: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._check_fields()

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A mutant computed for a larger epsilon than stated."""
        example, mutant = (cls(graph=_chain_of_bits(), epsilon=epsilon) for epsilon in (0.3, 0.45))
        return (Example(name="smooth-one-bit", mechanism=example, mutant=mutant, bug=_LARGER_EPSILON),)

    def _check(self) -> None:
        _two_symbols(self.graph)
        set_fields(self, weights=_weights(self.weights, self.graph))

    def _relative_weights(self, program: Program) -> FloatArray:
        return relative_weights(self.weights[program.members])

    def _part(self, program: Program) -> FloatArray:
        return _flipping(minimal_flips(program, self.weights[program.members]))


@frozen_value
class SmoothCategorical(ProfileMechanism):
    """Profile-based privacy for profiles of any number of symbols, with a matrix for each profile.

    The largest off-diagonal entry of a component is minimal, where an entry of profile i counts times weights_i. Among
    such matrices, those with the least weighted expected distortion, sum of weights_i P_i(x) (1 - A_i[x, x]), are used.
    With weights proportional to the public prior probabilities of the profiles, those that are used more often are
    changed less. With `cost`, the weighted expected cost is minimized in place of the largest entry. `release` takes a
    mapping, or a pandas, polars or Arrow table, with the columns "profile" (names of the graph, or one name for all)
    and "symbol", and releases "symbols", whole numbers of shape (1, n) in the order given; n is public.

    Parameters
    ----------
    graph : ProfileGraph
        The profiles (distributions over d symbols) and the edges between profiles that must be indistinguishable.
    epsilon : float
        The guarantee of every edge for one observation, in nats, >= 1e-9.
    weights : numpy.ndarray of float, optional
        Public weights of the profiles in the objective, shape (profiles,), finite and >= 0, of any scale; only ratios
        within a connected component matter. A weight of 0 leaves a profile out. By default ones.
    cost : numpy.ndarray of float, optional
        Cost of releasing y for x, shape (d, d) or (profiles, d, d), finite. By default the largest entry is minimized.
    observations : int, default 1
        Largest number of independent observations of one source, >= 1. The account covers all of them.
    missing : int, default 0
        The symbol, in {0, ..., d-1}, that replaces every observation that is missing or out of range.
    matrices : numpy.ndarray of float, optional
        Transition matrices, shape (profiles, d, d); entry [i, x, y] is the probability of releasing y for x under
        profile i. By default they are computed. Given matrices must be whole multiples of 2^-53, and every edge is
        checked on them.

    Raises
    ------
    ValueError
        If a field lies outside its range, or given matrices are not valid.
    NumericalFailure
        If the solver fails; the message names the edge that is hardest to protect.

    Notes
    -----
    Geumlek 2020, program (7.7), Algorithm 9 and Theorem 25; docs/notes/profiles.md. Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> profiles = {"nurse": (0.7, 0.2, 0.1), "doctor": (0.2, 0.5, 0.3)}
    >>> graph = ps.ProfileGraph(profiles=profiles, edges=[("nurse", "doctor")])
    >>> mechanism = ps.SmoothCategorical(graph=graph, epsilon=0.5)
    >>> round(float(mechanism.largest_change), 3), round(float(mechanism.baseline), 3)
    (0.136, 0.274)
    """

    graph: ProfileGraph
    epsilon: float
    weights: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)
    cost: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)
    observations: int = 1
    missing: int = 0
    matrices: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)
    _uniform_repair: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._check_fields()

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Mutants computed for a larger epsilon than stated, with equal and with different weights."""
        example, mutant = (cls(graph=_example_graph(), epsilon=epsilon) for epsilon in (0.4, 0.44))
        weights = np.array([0.6, 0.3, 0.1])
        weighted, other = (cls(graph=_example_graph(), epsilon=epsilon, weights=weights) for epsilon in (0.4, 0.6))
        return (
            Example(
                name="smooth-categorical",
                mechanism=example,
                mutant=mutant,
                bug="solved at 1.1 epsilon",
                samples=200_000,
            ),
            Example(name="weighted-categorical", mechanism=weighted, mutant=other, bug="solved at 1.5 epsilon"),
        )

    def _check(self) -> None:
        set_fields(self, weights=_weights(self.weights, self.graph))
        cost, shape = real_array(cost=self.cost).copy(), (*self.graph.distributions.shape, self.graph.symbols)
        if cost.size and (cost.shape not in (shape, shape[1:]) or not np.isfinite(cost).all()):
            raise ValueError(f"cost must be finite, of shape {shape[1:]} or {shape}, got shape {cost.shape}")
        cost.flags.writeable = False
        set_fields(self, cost=cost)

    @property
    def _minimizes_change(self) -> bool:
        return not self.cost.size

    def _relative_weights(self, program: Program) -> FloatArray:
        return relative_weights(self.weights[program.members])

    def _part(self, program: Program) -> FloatArray:
        weights = self.weights[program.members]
        if not self.cost.size:
            return minimal_matrices(program, weights)
        cost = np.broadcast_to(self.cost, (*self.graph.distributions.shape, self.graph.symbols))[program.members]
        return minimal_cost_matrices(program, weights, cost)


@frozen_value
class LocalResponse(ProfileMechanism):
    """Randomized response over all symbols, the baseline: one matrix for all profiles and every graph.

    It hides every observation, and therefore also every profile. The account states the epsilon between profiles, which
    is at most `epsilon`. `release` takes a mapping, or a pandas, polars or Arrow table, with the columns "profile"
    (names of the graph, or one name for all) and "symbol", and releases "symbols", whole numbers of shape (1, n) in the
    order given; n is public.

    Parameters
    ----------
    graph : ProfileGraph
        The profiles (distributions over d symbols) and the edges between profiles that must be indistinguishable.
    epsilon : float
        The guarantee of every edge for one observation, in nats, >= 1e-9.
    observations : int, default 1
        Largest number of independent observations of one source, >= 1. The account covers all of them.
    missing : int, default 0
        The symbol, in {0, ..., d-1}, that replaces every observation that is missing or out of range.
    matrices : numpy.ndarray of float, optional
        Transition matrices, shape (profiles, d, d); entry [i, x, y] is the probability of releasing y for x under
        profile i. By default they are computed. Given matrices must be whole multiples of 2^-53, and every edge is
        checked on them.

    Raises
    ------
    ValueError
        If a field lies outside its range, or given matrices are not valid.
    NumericalFailure
        If the solver fails; the message names the edge that is hardest to protect.

    Notes
    -----
    Warner 1965 (two symbols); Kairouz, Bonawitz and Ramage 2016 (more); Geumlek 2020, Theorem 26. Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> graph = ps.ProfileGraph(profiles={"a": 0.8, "b": 0.4}, edges=[("a", "b")])
    >>> mechanism = ps.LocalResponse(graph=graph, epsilon=1.0)
    >>> round(float(mechanism.accountant.epsilon(0.0)), 3)
    0.413
    """

    graph: ProfileGraph
    epsilon: float
    observations: int = 1
    missing: int = 0
    matrices: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)

    def __post_init__(self) -> None:
        self._check_fields()

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A mutant computed for a larger epsilon than stated."""
        example, mutant = (cls(graph=_example_graph(), epsilon=epsilon) for epsilon in (1.0, 1.3))
        return (Example(name="local-response", mechanism=example, mutant=mutant, bug=_LARGER_EPSILON),)

    @property
    def _minimizes_change(self) -> bool:
        return False

    def _part(self, program: Program) -> FloatArray:
        return response(len(program.distributions), program.distributions.shape[1], self.epsilon)
