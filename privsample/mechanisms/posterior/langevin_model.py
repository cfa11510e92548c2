"""Langevin draws for a PyMC model of the user: clipped gradients of single records, with a charge for every step."""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from privsample._checks import (
    FloatArray,
    check_memory,
    count_noun,
    function,
    one_of,
    open_unit_interval,
    positive,
    positive_integer,
    real_array,
)
from privsample._entropy import draw_with_entropy_check
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.subsampling.subsampled import SubsampledAccountant
from privsample.distributions.models.record_model import RecordModel
from privsample.distributions.record_columns import Columns, RecordColumn, checked_columns, clean_records, read_columns
from privsample.distributions.schemes import PoissonSampling
from privsample.distributions.steps.record_langevin import clipped_sums, langevin_step
from privsample.errors import SchemaError
from privsample.interop.pymc_graphs import quiet
from privsample.interop.pymc_records import RecordProgram, record_program
from privsample.interop.record_models import NormalMeanModel
from privsample.mechanisms.arguments import Argument, CommandLine
from privsample.mechanisms.base import Draws, Mechanism, compose_draws
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.examples import Example
from privsample.mechanisms.neighbours import Neighbours, records_outside_group
from privsample.mechanisms.notes import CuratorNotes
from privsample.relations import AddRemove, Relation, ReplaceOne, check_single_record_relation

_LARGEST_STEP = 1e6
_ADVICE = "ask for delta > 0, or for a Rényi or zCDP guarantee; or take fewer steps, or a smaller step_size or clip"
_UP = 1.0 + 1e-14  # exceeds the rounding error of two products


@frozen_value
class LangevinModel(Mechanism):
    """Langevin draws of the parameters of a PyMC model whose records are independent given the parameters.

    `build` takes the columns as symbolic arrays, whose first axis is that of the records, and returns a model with
    `observed=data[...]`. The chain starts at a draw from the prior, or at a public point, and makes `steps` steps

        x <- x + step_size (grad log prior(x) + data_weight sum_i clip(grad log p(record_i | x))) + N(0, 2 step_size I)

    in the unconstrained coordinates of PyMC, Jacobians included. The gradient of each record is clipped to L2 norm
    `clip`; one that is not finite counts as 0. Only the last state is released, in constrained coordinates: the free
    variables and the deterministic ones that do not depend on the data, by name, each of shape (draws, ...). Each draw
    is the last state of a chain of its own.

    The account charges every step, so it assumes nothing about the posterior: neither log-concavity nor convergence of
    the chain. It does not imply that the draws are close to the posterior: docs/guides/any_pymc_model.md shows when
    they are.

    `release` takes a mapping or table with the columns. A record with a missing value, or one that is not a finite
    number, is ignored.

    Parameters
    ----------
    build : function of the columns, or RecordModel
        Returns the PyMC model. It receives placeholders and must not read private data from elsewhere. A function is
        checked at once. A mechanism with a function cannot be saved; one with a registered RecordModel can.
    columns : mapping of str to RecordColumn
        The columns of the data by name; they may be left out for a RecordModel, which states them.
    relation : ReplaceOne or AddRemove
        The neighbouring relation for one record. Under ReplaceOne(n), data with another number of records are refused
        with SchemaError.
    clip : float
        Largest L2 norm of a record's gradient, in [1e-100, 1e100], in unconstrained coordinates.
    step_size : float
        Step size, finite and > 0, in unconstrained coordinates.
    steps : int
        Number of steps of each chain, >= 1.
    data_weight : float, default 1.0
        Weight of each record's log likelihood, in (0, 1] (power posterior).
    batch_probability : float, optional
        Probability in (0, 1) with which a step reads a record; the sum of its gradients is divided by it. It needs
        AddRemove. None, the default, reads all records in each step.
    start : {"prior", "initial point"} or mapping of str to array, default "prior"
        Start of the chains: a draw from the prior, the initial point of the model in PyMC, or public values by name in
        constrained coordinates. Variables that are not named start at the initial point.
    draws : int, default 1
        Number of independent chains, >= 1. The account covers all of them together.
    backend : {"numpy", "numba"}, default "numpy"
        What computes the gradients. "numpy" is ready at once. "numba" compiles for up to a minute, and is faster where
        each record needs linear algebra, such as the solution of a triangular system.

    Raises
    ------
    ImportError
        If PyMC is not installed.
    TypeError
        If a field has another type, or `build` returns no PyMC model.
    ValueError
        If a field is outside its range, the records of the model are not independent given the parameters, or a
        gradient cannot be taken.

    Notes
    -----
    Abadi et al. 2016 (clipped gradients); Dong, Roth and Su 2022 (composition of Gaussian steps);
    docs/notes/langevin_model.md. Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.LangevinModel(
    ...     ps.NormalMeanModel(),
    ...     relation=ps.ReplaceOne(n=100),
    ...     clip=2.0,
    ...     step_size=0.005,
    ...     steps=50,
    ... )
    >>> round(float(mechanism.accountant.epsilon(1e-6)), 3)
    7.286
    """

    build: Callable[[Any], Any] = field(kw_only=False)
    columns: Mapping[str, RecordColumn] = field(default_factory=dict)
    relation: Relation
    clip: float
    step_size: float
    steps: int
    data_weight: float = 1.0
    batch_probability: float | None = None
    start: Literal["prior", "initial point"] | Mapping[str, Any] = "prior"
    draws: int = 1
    backend: Literal["numpy", "numba"] = "numpy"
    free_parameters = (
        FreeParameter(name="data_weight", advice=_ADVICE),
        FreeParameter(name="step_size", upper=_LARGEST_STEP, advice=_ADVICE),
    )
    command = CommandLine(
        help={
            "clip": "the largest norm of a record's gradient",
            "step_size": "the length of a step",
            "steps": "the number of steps",
            "batch_probability": "the probability with which a step reads a record (default: all records)",
            "backend": "what computes the gradients (default: numpy)",
        },
        arguments={
            "build": Argument(
                name="build",
                kind=RecordModel,
                help='the model, e.g. "normal-mean-model prior-std=2"',
                fields=("build",),
            ),
            "columns": None,
            "start": Argument(
                name="start",
                choices={"prior": "prior", "initial-point": "initial point"},
                metavar="NAME",
                help="where the chains start: prior, or initial-point (default: prior)",
                required=False,
                fields=("start",),
            ),
        },
    )
    _checks_entropy: ClassVar[bool] = True
    _why_not_saved: ClassVar[str] = (
        "a mechanism that holds a function cannot be saved: write the model as a registered subclass of RecordModel "
        "(docs/guides/any_pymc_model.md)"
    )

    def __post_init__(self) -> None:
        if not isinstance(self.build, RecordModel):
            function(build=self.build)
        relation = check_single_record_relation(self.relation)
        own = self.build.columns if isinstance(self.build, RecordModel) and self.columns == {} else self.columns
        set_fields(self, columns=checked_columns(own), relation=relation, clip=positive(clip=self.clip))
        set_fields(self, step_size=positive(step_size=self.step_size), steps=positive_integer(steps=self.steps))
        set_fields(self, data_weight=positive(data_weight=self.data_weight), draws=positive_integer(draws=self.draws))
        check_memory(self.draws, lower="draws")
        if not 1e-100 <= self.clip <= 1e100:
            raise ValueError(f"clip must lie in [1e-100, 1e100], got {self.clip!r}")
        if not self.data_weight <= 1.0:
            raise ValueError(f"data_weight must lie in (0, 1], got {self.data_weight!r}")
        if self.batch_probability is not None:
            set_fields(self, batch_probability=open_unit_interval(batch_probability=self.batch_probability))
            if not isinstance(relation, AddRemove):
                raise ValueError("relation must be AddRemove() with batch_probability, got ReplaceOne")
        set_fields(self, start=_public_start(self.start))
        if not one_of(self.backend, ("numpy", "numba")):
            raise ValueError(f"backend must be 'numpy' or 'numba', got {self.backend!r}")
        if not isinstance(self.build, RecordModel):
            self._check_start()

    def _check_start(self) -> RecordProgram:
        """The compiled model, for which the start was checked. Raises TypeError or ValueError."""
        if isinstance(self.start, Mapping):
            self._program.point(self.start)
        return self._program

    @cached
    def _program(self) -> RecordProgram:
        """The compiled parts of the model."""
        return record_program(self.build, self._columns, self.backend)

    @property
    def _columns(self) -> Columns:
        return tuple(self.columns.items())

    @cached
    def accountant(self) -> Accountant:
        """The account of all steps of all chains, an upper bound."""
        reach = self.clip * self.data_weight * _UP  # what one record adds to the sum of the gradients
        if isinstance(self.relation, ReplaceOne):
            reach *= 2.0
        step: Accountant = GaussianAccountant(
            sensitivity=self.step_size * reach / (self.batch_probability or 1.0),
            noise_std=np.sqrt(2.0 * self.step_size),
            relation=self.relation,
            assumptions=frozenset({Assumption.FLOAT_CHAIN}),
        )
        if self.batch_probability is not None:
            step = SubsampledAccountant(base=step, scheme=PoissonSampling(rate=self.batch_probability))
        return compose_draws(step, self.steps * self.draws)

    @property
    def description(self) -> str:
        """How the mechanism protects a record."""
        return (
            "Each step of the chain adds noise to a sum of gradients, in which every record has limited influence; "
            "only the last state is released."
        )

    @property
    def quantity(self) -> str:
        """The label "parameters"."""
        return "parameters"

    @property
    def _dims(self) -> Mapping[str, tuple[str, ...]]:
        return self._program.dims

    def _coords(self, data: Any) -> Mapping[str, tuple[str, ...]]:
        del data
        return self._program.coords

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """One step with all records, and one on a batch, each with a mutant."""
        full = cls(NormalMeanModel(), relation=ReplaceOne(n=1), clip=1.0, step_size=0.5, steps=1, start="initial point")
        batch = replace(full, relation=AddRemove(), batch_probability=0.3)
        unclipped, whole = "the gradients are not clipped", "it reads all records in each step"
        return (
            Example.with_wrong_fields("langevin-model", full, clip=1e9, bug=unclipped, samples=2_000),
            Example.with_wrong_fields("langevin-model-batches", batch, batch_probability=None, clip=1 / 0.3, bug=whole),
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """Records with the longest opposite gradients, if the model is a RecordModel that names them."""
        group = positive_integer(group=group)
        if not isinstance(self.build, RecordModel):
            raise TypeError(
                "LangevinModel knows no worst neighbours of a model that is a function: pass datasets=(first, second), "
                "two neighbouring datasets, to the audit"
            )
        one = replace(self, draws=1)
        first, second = self.build.extreme_records()
        shared = records_outside_group(group, one.relation.n) if isinstance(one.relation, ReplaceOne) else 0

        def dataset(own: list[dict[str, Any]]) -> Callable[[], dict[str, NDArray[Any]]]:
            listed = [first, second] * (shared // 2) + [first] * (shared % 2) + own
            return lambda: {
                name: np.array([record[name] for record in listed], dtype=np.float64).reshape(
                    len(listed), *column.shape
                )
                for name, column in self._columns
            }

        replaced = isinstance(one.relation, ReplaceOne)
        records = "record" if group == 1 else "records"
        return (
            Neighbours(
                account=one.accountant,
                descriptions=(
                    f"{group:,} {records} with a long gradient",
                    f"{group:,} {records} with the opposite one" if replaced else "no record",
                ),
                datasets=(dataset([first] * group), dataset([second] * group if replaced else [])),
                draw=lambda data, count, rng: _rows(replace(one, draws=count).release(data, rng=rng).draws),
                width=self.build.released_numbers,
            ),
        )

    def _check_generator(self, rng: np.random.Generator | None) -> None:
        del rng
        self._check_start()

    def _statistic(self, data: Any) -> dict[str, NDArray[Any]]:
        return clean_records(self._columns, self._read(data))[0]

    def _read(self, data: Any) -> dict[str, FloatArray]:
        """The columns before the public rule. Raises SchemaError."""
        found = read_columns(self._columns, data)
        size = len(next(iter(found.values())))
        if isinstance(self.relation, ReplaceOne) and size != self.relation.n:
            raise SchemaError(f"n = {self.relation.n} records were declared, the data hold {size}")
        return found

    def _draw(self, statistic: dict[str, NDArray[Any]], rng: np.random.Generator) -> Draws:
        program = self._program
        check_memory(self.draws * program.width, lower="draws")
        states = self._first_states(statistic, rng)
        with quiet():
            for _ in range(self.steps):
                states = self._step(program, states, statistic, rng)
        return program.constrained(states)

    def _first_states(self, records: dict[str, NDArray[Any]], rng: np.random.Generator) -> FloatArray:
        """The starts of the chains, shape (draws, width), which depend on no record."""
        del records
        if self.start != "prior":
            public = self.start if isinstance(self.start, Mapping) else {}
            return np.tile(self._program.point(public), (self.draws, 1))
        seed = draw_with_entropy_check(rng, lambda: int(rng.integers(1 << 31)))
        return self._program.prior_draws(self.draws, seed)

    def _step(
        self, program: RecordProgram, states: FloatArray, records: dict[str, NDArray[Any]], rng: np.random.Generator
    ) -> FloatArray:
        """One step of all chains, shape (draws, width)."""
        rate = self.batch_probability or 1.0
        sums = clipped_sums(program.record_gradients, states, records, clip=self.clip, rate=rate, rng=rng)
        noise = draw_with_entropy_check(rng, lambda: rng.standard_normal(states.shape))
        drift = program.prior_gradients(states) + self.data_weight / rate * sums
        return langevin_step(states, drift, self.step_size, noise)

    def validate(self, data: Any) -> CuratorNotes:
        """Count the records that the public rule changes or ignores, for the curator only. Raises SchemaError.

        Gradients depend on the state of the chain; those that `clip` shortens are not counted.
        """
        self._check_start()
        numbers = self._read(data)
        _, invalid = clean_records(self._columns, numbers)
        facts = {f"{name}: moved to the bounds": column.changed(numbers[name]) for name, column in self._columns}
        for name, column in self._columns:
            facts |= {f"{name}: {reason}": count for reason, count in column.count_invalid(data[name]).items()}
        facts["records ignored, because an entry is invalid"] = invalid
        size = len(next(iter(numbers.values())))
        return CuratorNotes(
            title=f"{count_noun(size, 'record')} with the columns {', '.join(self.columns)}",
            facts={reason: count for reason, count in facts.items() if count},
        )


def _public_start(start: Any) -> str | dict[str, FloatArray]:
    """The start as its name, or as arrays by name. Raises TypeError."""
    if one_of(start, ("prior", "initial point")):
        return str(start)
    if not isinstance(start, Mapping):
        raise TypeError(f"start must be 'prior', 'initial point' or a mapping of public values by name, got {start!r}")
    return {str(name): real_array(**{f"start[{name!r}]": item}) for name, item in start.items()}


def _rows(draws: Draws) -> FloatArray:
    """All numbers of each draw in one row."""
    return np.column_stack([array.reshape(len(array), -1) for array in draws.values()])
