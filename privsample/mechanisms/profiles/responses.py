"""Profile-based privacy: release observations so that their source is hidden and the rest is kept."""

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
from privsample.mechanisms.profiles.solver import cheapest_matrices, least_flips, least_matrices

_BOLD = "solved at a larger epsilon"


def _two_bits() -> ProfileGraph:
    return ProfileGraph(profiles={"a": 0.8, "b": 0.4}, edges=[("a", "b")])


def _chain_of_bits() -> ProfileGraph:
    return ProfileGraph(profiles={"a": 0.9, "b": 0.6, "c": 0.2}, edges=[("a", "b"), ("b", "c")])


def _roles() -> ProfileGraph:
    return ProfileGraph(
        profiles={"nurse": (0.7, 0.2, 0.1), "doctor": (0.2, 0.5, 0.3), "visitor": (0.1, 0.3, 0.6)},
        edges=[("nurse", "doctor"), ("doctor", "visitor")],
    )


def edge_flips(program: Program) -> FloatArray:
    """The least flip that hides each edge of two-symbol profiles, (edges,): D/(2D + e^eps - 1), D = [p - e^eps q]_+.

    Source: Geumlek 2020, Observation 10, with the positive parts that it lacks (docs/notes/profiles.md).
    """
    p, q = program.distributions[program.ends[:, 0]], program.distributions[program.ends[:, 1]]
    gap = np.maximum(np.maximum(p, q) * np.exp(-program.epsilon) - np.minimum(p, q), 0.0).max(axis=1)
    return np.asarray(gap / (2 * gap - np.expm1(-program.epsilon)))


def _flipping(flips: FloatArray) -> FloatArray:
    """Matrices (m, 2, 2) that exchange either symbol for the other with probability flips (m,)."""
    return np.stack([np.stack([1 - flips, flips], axis=-1), np.stack([flips, 1 - flips], axis=-1)], axis=-2)


def _one_flip(program: Program) -> FloatArray:
    """The flip that the worst edge needs, for all."""
    return _flipping(np.full(len(program.distributions), edge_flips(program).max()))


def _two_symbols(graph: ProfileGraph) -> None:
    if graph.symbols != 2:
        raise ValueError(f"profiles must have two symbols, got {graph.symbols}; use SmoothCategorical")


def _weights(weights: FloatArray, graph: ProfileGraph) -> FloatArray:
    """One weight for each profile; ones where none are given."""
    found = real_array(weights=weights).copy() if np.size(weights) else np.ones(len(graph))
    if found.shape != (len(graph),) or not np.all((found >= 0) & (found < np.inf)):
        raise ValueError(f"weights must be finite and >= 0, one for each of {len(graph)} profiles")
    found.flags.writeable = False
    return found


@frozen_value
class OneBit(ProfileMechanism):
    """Two profiles of one bit and one flip for both, in closed form.

    Source: Geumlek 2020, Algorithm 6 (single-bit two-profile mechanism).
    """

    graph: ProfileGraph
    epsilon: float
    observations: int = 1
    missing: int = 0
    matrices: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)

    def __post_init__(self) -> None:
        self._settle()

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Solved at a larger epsilon than is said."""
        example, mutant = (cls(graph=_two_bits(), epsilon=epsilon) for epsilon in (0.3, 0.6))
        return (Example(name="one-bit", mechanism=example, mutant=mutant, bug=_BOLD),)

    def _check(self) -> None:
        _two_symbols(self.graph)
        if len(self.graph) != 2:
            raise ValueError(f"graph must have two profiles, got {len(self.graph)}; use OneBitCluster or SmoothOneBit")

    def _part(self, program: Program) -> FloatArray:
        return _one_flip(program)


@frozen_value
class OneBitCluster(ProfileMechanism):
    """Profiles of one bit; each connected component flips with the probability that its worst edge needs.

    Source: Geumlek 2020, Algorithm 7 and Theorem 23.
    """

    graph: ProfileGraph
    epsilon: float
    observations: int = 1
    missing: int = 0
    matrices: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)

    def __post_init__(self) -> None:
        self._settle()

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Solved at a larger epsilon than is said."""
        example, mutant = (cls(graph=_chain_of_bits(), epsilon=epsilon) for epsilon in (0.3, 0.45))
        return (Example(name="one-bit-cluster", mechanism=example, mutant=mutant, bug=_BOLD),)

    def _check(self) -> None:
        _two_symbols(self.graph)

    def _part(self, program: Program) -> FloatArray:
        return _one_flip(program)


@frozen_value
class SmoothOneBit(ProfileMechanism):
    """Profiles of one bit, each with its own flip; the largest of a component is the least possible.

    Among such flips those with the least sum of weights times flips are taken.
    Source: Geumlek 2020, program (7.6), Algorithm 8 and Theorem 24.
    """

    graph: ProfileGraph
    epsilon: float
    weights: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)
    observations: int = 1
    missing: int = 0
    matrices: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)
    _together: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._settle()

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Solved at a larger epsilon than is said."""
        example, mutant = (cls(graph=_chain_of_bits(), epsilon=epsilon) for epsilon in (0.3, 0.45))
        return (Example(name="smooth-one-bit", mechanism=example, mutant=mutant, bug=_BOLD),)

    def _check(self) -> None:
        _two_symbols(self.graph)
        set_fields(self, weights=_weights(self.weights, self.graph))

    def _part(self, program: Program) -> FloatArray:
        return _flipping(least_flips(program, self.weights[program.members]))


@frozen_value
class SmoothCategorical(ProfileMechanism):
    """Profiles of any number of symbols, each with its own matrix.

    The largest entry off the diagonals of a component is the least possible and, among such matrices, the weighted
    expected distortion, sum of weights_i P_i(x) (1 - A_i[x, x]). With `cost`, (d, d) or (profiles, d, d), the weighted
    expected cost of releasing y for x takes the place of the largest entry.
    Source: Geumlek 2020, program (7.7), Algorithm 9 and Theorem 25; docs/notes/profiles.md.
    """

    graph: ProfileGraph
    epsilon: float
    weights: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)
    cost: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)
    observations: int = 1
    missing: int = 0
    matrices: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)
    _even: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._settle()

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Solved at a larger epsilon than is said."""
        example, mutant = (cls(graph=_roles(), epsilon=epsilon) for epsilon in (0.4, 0.44))
        return (
            Example(
                name="smooth-categorical",
                mechanism=example,
                mutant=mutant,
                bug="solved at 1.1 epsilon",
                samples=100_000,
            ),
        )

    def _check(self) -> None:
        set_fields(self, weights=_weights(self.weights, self.graph))
        cost, shape = real_array(cost=self.cost).copy(), (*self.graph.distributions.shape, self.graph.symbols)
        if cost.size and (cost.shape not in (shape, shape[1:]) or not np.isfinite(cost).all()):
            raise ValueError(f"cost must be finite, of shape {shape[1:]} or {shape}, got shape {cost.shape}")
        cost.flags.writeable = False
        set_fields(self, cost=cost)

    @property
    def _asis(self) -> bool:
        return not self.cost.size

    def _part(self, program: Program) -> FloatArray:
        weights = self.weights[program.members]
        if not self.cost.size:
            return least_matrices(program, weights)
        cost = np.broadcast_to(self.cost, (*self.graph.distributions.shape, self.graph.symbols))[program.members]
        return cheapest_matrices(program, weights, cost)


@frozen_value
class LocalResponse(ProfileMechanism):
    """The baseline: randomized response over all symbols, one matrix for all profiles, whatever the graph.

    It hides every observation, so it hides every profile too (Geumlek 2020, Theorem 26); the account
    says how little of epsilon the profiles then need.
    Source: Warner 1965 (two symbols); Kairouz, Bonawitz and Ramage 2016, section 3 (more).
    """

    graph: ProfileGraph
    epsilon: float
    observations: int = 1
    missing: int = 0
    matrices: FloatArray = field(default_factory=lambda: np.empty(0), repr=False)

    def __post_init__(self) -> None:
        self._settle()

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Solved at a larger epsilon than is said."""
        example, mutant = (cls(graph=_roles(), epsilon=epsilon) for epsilon in (1.0, 1.3))
        return (Example(name="local-response", mechanism=example, mutant=mutant, bug=_BOLD),)

    @property
    def _asis(self) -> bool:
        return False

    def _part(self, program: Program) -> FloatArray:
        return response(len(program.distributions), program.distributions.shape[1], self.epsilon)
