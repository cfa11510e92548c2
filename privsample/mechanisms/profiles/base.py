"""Shared code of profile-based mechanisms: solve each component, check every edge, release, save and load."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from privsample._checks import FloatArray, count_noun, positive, positive_integer, real_array, whole_number
from privsample._data import chunks
from privsample._value import cached, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.profiles import ProfileAccountant
from privsample.distributions.domains import Domain
from privsample.distributions.profile_graph import Name, ProfileGraph
from privsample.distributions.steps.channels import (
    IntArray,
    Sampler,
    is_multiple_of_unit,
    output_distributions,
    response,
    response_change,
)
from privsample.errors import NumericalFailure, SchemaError
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.codes import after_kernels, code_loss, worst_rows
from privsample.mechanisms.columns import read_column
from privsample.mechanisms.neighbours import Dataset, Draw, Neighbours
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.profiles.program import Program, SolverFailed, joint_program, programs
from privsample.mechanisms.profiles.repair import protects_edges, repaired
from privsample.relations import ProfileEdge

_MOST = 50.0  # upper end of the search: above, randomized response changes no symbol in doubles
_NOTHING = 1e-12  # rounding tolerance when a mechanism is compared with randomized response
_PRINTED = 10**100  # Python refuses to print whole numbers of thousands of digits
_LEAST = 1e-9  # two different distributions in doubles cannot be closer than this


class ProfileMechanism(Mechanism):
    """Base class: each observation is replaced by a draw from its row of the profile's matrix.

    The matrices are computed once and kept in `matrices`, shape (profiles, d, d); entry [i, x, y] is the probability of
    releasing y for x observed under profile i. Every entry is a whole multiple of 2^-53 and is drawn exactly. Matrices
    that are given, for example by a file, are not computed again: every edge is checked on the stored doubles.

    `release` takes any data with columns data["profile"], names of the graph or one name for all, and data["symbol"]: a
    mapping, or a pandas, polars or Arrow table. If the names are text, whole numbers count profiles from 0. Each row
    may come from a different source, with the same profile or another; up to `observations` rows may come from one
    source. The observations of a source must be independent; otherwise the account does not hold. The draws are
    "symbols", whole numbers of shape (1, n), in the order given; n is public.
    """

    __slots__ = ()
    graph: ProfileGraph
    epsilon: float
    observations: int
    missing: int
    matrices: FloatArray
    free_parameters = (FreeParameter(name="epsilon", upper=_MOST, advice="doubles cannot represent a smaller epsilon"),)

    _uniform_repair: ClassVar[bool] = True  # repair by the uniform distribution, so that flips stay symmetric

    _solves_jointly: ClassVar[bool] = False  # one program for several components, each with its own optimum
    command = CommandLine(
        help={
            "graph": 'a JSON file, e.g. {"profiles": {"a": [0.2, 0.8], "b": [0.6, 0.4]}, "edges": [["a", "b"]]}',
            "epsilon": "the guarantee of every edge",
            "weights": "one weight for each profile (default: ones)",
            "cost": "the cost of releasing each symbol for each other, e.g. 0,1;1,0",
            "observations": "the largest number of observations of one source (default: 1)",
            "missing": "the symbol that replaces invalid ones (default: 0)",
        },
        arguments={"matrices": None},
    )

    @abstractmethod
    def _part(self, program: Program) -> FloatArray:
        """Matrices (m, d, d) for one connected component, or for several components that are solved together."""

    def _check_fields(self) -> None:
        """Check the fields, and compute the matrices or check the given ones."""
        if not isinstance(self.graph, ProfileGraph):
            raise TypeError(f"graph must be a ProfileGraph, got {type(self.graph).__name__}")
        epsilon = positive(epsilon=self.epsilon)
        if not epsilon >= _LEAST:
            raise ValueError(f"epsilon must be at least {_LEAST:g}: doubles cannot represent less, got {epsilon:g}")
        set_fields(self, epsilon=epsilon, observations=positive_integer(observations=self.observations))
        missing = whole_number(missing=self.missing)
        if not 0 <= missing < self.graph.symbols:
            found = "a huge number" if abs(missing) > _PRINTED else repr(missing)
            raise ValueError(f"missing must be a symbol, 0 to {self.graph.symbols - 1}, got {found}")
        set_fields(self, missing=missing)
        self._check()
        matrices = real_array(matrices=self.matrices).copy() if np.size(self.matrices) else self._solved()
        if matrices.shape != (*self.graph.distributions.shape, self.graph.symbols) or not is_multiple_of_unit(matrices):
            raise ValueError("matrices must be of shape (profiles, d, d), in multiples of 2^-53, rows adding up to one")
        matrices.flags.writeable = False
        set_fields(self, matrices=matrices)
        self.accountant  # noqa: B018 - building it checks every edge

    @property
    def _minimizes_change(self) -> bool:
        """True if observations are released unchanged in components where that protects every edge."""
        return True

    def _check(self) -> None:
        """Check the fields that only this class has."""

    def _solved(self) -> FloatArray:
        """The repaired matrices of all connected components."""
        graph, aim = self.graph, self._minimizes_change
        result = np.tile(np.eye(graph.symbols), (len(graph), 1, 1))
        todo = [
            each
            for each in programs(graph, self.epsilon)
            if not (aim and protects_edges(each.distributions, each.ends, each.epsilon))
        ]
        for program in [joint_program(todo)] if self._solves_jointly and todo else todo:
            result[program.members] = self._solve_or_fail(self._part, program)
        for program in todo:
            result[program.members] = self._solve_or_fail(self._repaired_or_response, program, result[program.members])
        return result

    def _solve_or_fail(self, step: Callable[..., FloatArray], program: Program, *more: FloatArray) -> FloatArray:
        try:
            return step(program, *more)
        except SolverFailed as error:
            raise NumericalFailure(self._failure(program, error)) from None

    def _repaired_or_response(self, program: Program, raw: FloatArray) -> FloatArray:
        """Matrices that protect every edge: the repaired ones, or randomized response if it changes less."""
        mended = repaired(program, raw, even=self._uniform_repair)
        changes = _largest_of_each(program.distributions, mended) * self._relative_weights(program)
        if not self._minimizes_change or changes.max() <= self.baseline + _NOTHING:
            return mended
        return repaired(program, response(len(raw), self.graph.symbols, self.epsilon), even=self._uniform_repair)

    def _relative_weights(self, program: Program) -> FloatArray:
        """The weights of the largest changes in the objective, (m,), the largest of them 1."""
        return np.ones(len(program.distributions))

    def _failure(self, program: Program, error: Exception) -> str:
        """The solver's own message, and the edge that is hardest to protect."""
        distributions, ends = program.distributions, program.ends
        if not len(ends):
            return f"the solver failed: {error}"
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = np.nan_to_num(
                np.abs(np.log(distributions[ends[:, 0]]) - np.log(distributions[ends[:, 1]])), nan=0.0, posinf=np.inf
            )
        worst = int(loss.max(axis=1).argmax())
        most = loss[worst].max()
        a, b = (self.graph.names[program.members[end]] for end in ends[worst])
        return (
            f"the solver failed ({error}), although constant outputs protect every edge; the hardest edge is "
            f"({a!r}, {b!r}): its loss, unchanged, is {most:.6g}, {most - self.epsilon:.6g} above epsilon"
        )

    @cached
    def accountant(self) -> Accountant:
        """The exact account of all observations of one source, from the output distributions of the matrices."""
        single = self._single
        return single if self.observations == 1 else single.independent_observations(self.observations)

    @cached
    def _single(self) -> ProfileAccountant:
        return ProfileAccountant(
            relation=ProfileEdge(graph=self.graph), distributions=self.distributions, stated_epsilon=self.epsilon
        )

    @cached
    def distributions(self) -> FloatArray:
        """The output distribution of each profile, shape (profiles, d)."""
        return output_distributions(self.graph.distributions, self.matrices)

    @property
    def largest_change(self) -> float:
        """The largest probability, over profiles and observed symbols, of releasing one particular other symbol."""
        return float(_largest_of_each(self.graph.distributions, self.matrices).max())

    @property
    def distortion(self) -> FloatArray:
        """For each profile, the probability of releasing another symbol than the observed one, (profiles,)."""
        moved = self.matrices * ~np.eye(self.graph.symbols, dtype=bool)
        return np.asarray(np.einsum("kx,kxy->k", self.graph.distributions, moved))

    @property
    def baseline(self) -> float:
        """The `largest_change` of randomized response at the same epsilon, which hides every observation.

        Warner 1965 (two symbols); Kairouz, Bonawitz and Ramage 2016 (more).
        """
        return response_change(self.graph.symbols, self.epsilon)

    @cached
    def domain(self) -> Domain:
        """The symbols {0, ..., d-1}; values that are missing or outside count as `missing`."""
        high = self.graph.symbols - 1.0
        return Domain(low=0.0, high=high, missing=float(self.missing), integer_valued=True, outside_is_missing=True)

    def code_count(self) -> int:
        """The number of symbols, if each source is observed once. Raises ValueError otherwise."""
        if self.observations != 1:
            raise ValueError(f"a kernel takes one observation of each source, got observations={self.observations}")
        return self.graph.symbols

    @property
    def quantity(self) -> str:
        """The label "released symbol"."""
        return "released symbol"

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The most different pairs of profiles within `group` edges of each other."""
        group = positive_integer(group=group)
        return self.worst_neighbours_through(self, (), group)

    def worst_neighbours_through(
        self, outer: Mechanism, kernels: tuple[FloatArray, ...], group: int
    ) -> tuple[Neighbours, ...]:
        """The pairs of profiles within `group` edges of each other that the kernels leave most different.

        A dataset names a profile. Its symbols are only examples: each draw observes the profile again.
        """
        graph, distributions = self.graph.within(group), after_kernels(self.distributions, kernels)
        if not len(graph.ends):
            raise ValueError("the graph must have an edge: without edges there is no guarantee to audit")

        def draw(data: Any, count: int, rng: np.random.Generator) -> FloatArray:
            distribution = graph.distributions[graph.names.index(data["profile"])]
            observed = rng.choice(graph.symbols, size=count * self.observations, p=distribution)
            released = outer.release({"profile": data["profile"], "symbol": observed}, rng=rng)
            return released["symbols"][0].reshape(count, -1)

        def dataset(profile: int) -> Dataset:
            return lambda: {"profile": graph.names[profile], "symbol": np.arange(graph.symbols)}

        def pair(a: int, b: int) -> Neighbours:
            return Neighbours(
                account=outer.accountant,
                descriptions=(f"profile {graph.names[a]}", f"profile {graph.names[b]}"),
                datasets=(dataset(a), dataset(b)),
                draw=draw,
                loss=code_loss(distributions[a], distributions[b]),
                width=self.observations,
            )

        return tuple(pair(*found) for found in worst_rows(distributions, graph.ends))

    def _many_draws(self, outer: Mechanism) -> Draw:
        """One release of many copies of the data, because observations are released independently of each other."""

        def draw(data: Any, count: int, rng: np.random.Generator) -> FloatArray:
            self._columns(data)  # raises SchemaError before they are repeated
            names, symbols = np.asarray(data["profile"]), read_column(data["symbol"])
            many = {
                "profile": np.tile(names, count) if names.ndim else data["profile"],
                "symbol": np.tile(symbols, count),
            }
            return outer.release(many, rng=rng)["symbols"].reshape(count, -1)

        return draw

    def _statistic(self, data: Any) -> tuple[IntArray, IntArray]:
        return self._columns(data)

    def _draw(self, statistic: tuple[IntArray, IntArray], rng: np.random.Generator) -> Draws:
        return {"symbols": self._sampler.draw(*statistic, rng)[None]}

    @cached
    def _sampler(self) -> Sampler:
        return Sampler(self.matrices)

    def validate(self, data: Any) -> CuratorNotes:
        """Count the values that the public rule would replace, for the curator only. Raises SchemaError."""
        profile, _ = self._columns(data)
        counts = np.bincount(profile, minlength=len(self.graph))
        unobserved = int((counts == 0).sum())
        facts = self.domain.count_problems(chunks(data["symbol"])) | {"profiles without observations": unobserved}
        return CuratorNotes(
            title=f"{count_noun(len(profile), 'observation')}, expected {self.domain.description}", facts=facts
        )

    def _columns(self, data: Any) -> tuple[IntArray, IntArray]:
        try:
            sources, observed = data["profile"], data["symbol"]
        except Exception:  # noqa: BLE001 - the library's own message may show a record
            raise SchemaError('data must have the columns "profile" and "symbol"') from None
        parts = [self.domain.clean(chunk).astype(np.int64) for chunk in chunks(observed)]
        symbol = np.concatenate([np.empty(0, dtype=np.int64), *parts])
        profile = positions(self.graph.names, sources)
        if profile.ndim == 0:
            profile = np.broadcast_to(profile, symbol.shape)
        if profile.shape != symbol.shape:
            raise SchemaError(f"there must be one profile for each symbol, got {len(profile)} for {len(symbol)}")
        return profile, symbol


def _largest_of_each(distributions: FloatArray, matrices: FloatArray) -> FloatArray:
    """The largest off-diagonal entry of each profile in the rows of symbols that occur, (m,)."""
    occurring = np.where((distributions > 0)[:, :, None], matrices, 0.0)
    return np.asarray((occurring * ~np.eye(distributions.shape[1], dtype=bool)).max(axis=(1, 2)))


def positions(names: tuple[Name, ...], sources: Any) -> IntArray:
    """Position of each source among the names: shape () for one name, (n,) for a column. Raises SchemaError."""
    unknown = SchemaError("the profile column holds something that is not a profile of the graph")
    known = {name: k for k, name in enumerate(names)}
    try:
        column = np.asarray(sources)
    except Exception:  # noqa: BLE001 - the library's own message may show a record
        raise unknown from None
    if column.ndim == 0:
        return np.asarray(positions(names, column[None])[0])
    if column.ndim != 1:
        raise SchemaError(f"profiles must be one name or one column of names, got shape {column.shape}")
    if column.dtype.kind in "iu":
        numbers = sum(isinstance(name, int) for name in names)
        if numbers == 0 or names == tuple(range(len(names))):
            if len(column) and not (column.min() >= 0 and column.max() < len(names)):
                raise unknown
            return column.astype(np.int64, copy=False)
        if numbers == len(names):
            order = np.argsort(names)
            held = np.asarray(names)[order]
            at = np.minimum(np.searchsorted(held, column), len(held) - 1)
            if not np.array_equal(held[at], column):
                raise unknown
            return np.asarray(order[at], dtype=np.int64)
    try:
        return np.fromiter((known[name] for name in column.tolist()), dtype=np.int64, count=len(column))
    except (KeyError, TypeError):
        raise unknown from None
