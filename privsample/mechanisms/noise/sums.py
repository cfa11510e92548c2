"""Noisy sums of records: mechanisms with Gaussian or Laplace noise that can run on a subsample."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from privsample._checks import (
    LARGEST_INTEGER,
    FloatArray,
    generator,
    holdable,
    how_many,
    interval,
    positive,
    positive_integer,
)
from privsample._data import chunks
from privsample._entropy import undisturbed
from privsample._value import put, value
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.noise.additive import GaussianAccountant, LaplaceAccountant
from privsample.accounting.targets import Target, smallest
from privsample.distributions.domains import Domain
from privsample.distributions.rows import moved_rows, table, within_norm
from privsample.errors import SchemaError
from privsample.mechanisms.base import Mechanism, charged, repeated
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.release import Release
from privsample.relations import AddRemove, Relation, ReplaceOne, of_single_records

_LARGEST = float(np.finfo(np.float64).max)
_DEFAULT = AddRemove()
_IDEAL = frozenset({Assumption.IDEAL_REALS})
S = TypeVar("S", bound="NoisySum")
_ADVICE = "ask for delta > 0, or for a Renyi or zCDP guarantee"


class NoisySum(Mechanism):
    """`draws` noisy sums of what the records contribute, under AddRemove or ReplaceOne."""

    __slots__ = ()
    relation: Relation
    draws: int

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """The most that one neighbour moves the sum."""

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """Where the numbers that are added up live."""

    @abstractmethod
    def records(self, data: Any) -> NDArray[Any]:
        """The records as an array, one along the first axis. Raises: SchemaError."""

    @abstractmethod
    def _contributions(self, records: NDArray[Any]) -> FloatArray:
        """What each record adds, (k,) or (k, width): total on every value."""

    @abstractmethod
    def _facts(self, records: NDArray[Any]) -> dict[str, int]:
        """How many records the public rule changes, by reason."""

    @abstractmethod
    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Independent noise."""

    def release(self, data: Any, *, rng: np.random.Generator | None = None) -> Release:
        """Sum and add noise. Returns: draws "sum", shape (draws,) or (draws, width). Raises: SchemaError, TypeError."""
        source, account = generator(rng), charged(self, rng)
        total = self._contributions(self._checked(data)).sum(axis=0)
        noise = undisturbed(source, lambda: self._noise(source, (self.draws, *np.shape(total))))
        with np.errstate(over="ignore"):
            return Release(mechanism=self, draws={"sum": np.clip(total + noise, -_LARGEST, _LARGEST)}, account=account)

    def validate(self, data: Any) -> CuratorNotes:
        """What the public rule would change in these data, for the curator's eyes. Raises: SchemaError."""
        records = self._checked(data)
        facts = {reason: count for reason, count in self._facts(records).items() if count}
        return CuratorNotes(title=f"{how_many(len(records), 'record')} to add up", facts=facts)

    def _checked(self, data: Any) -> NDArray[Any]:
        records = self.records(data)
        if isinstance(self.relation, ReplaceOne) and len(records) != self.relation.n:
            raise SchemaError(f"n = {self.relation.n} records were declared, the data hold {len(records)}")
        return records


def _normalize(self: Any) -> None:
    relation = of_single_records(self.relation)
    self.domain.summable(relation.n if isinstance(relation, ReplaceOne) else LARGEST_INTEGER, self.sensitivity)
    put(self, draws=positive_integer(draws=self.draws))
    holdable(self.draws * getattr(self, "width", 1), lower="draws or width" if hasattr(self, "width") else "draws")
    self.accountant  # noqa: B018 - building it checks the rest


def _least(build: Callable[[float], S], target: Target) -> S:
    """The sum with the least noise that meets the target."""
    unit = build(1.0).sensitivity
    return smallest(lambda ratio: build(unit * ratio), lambda made: made.accountant, target, advice=_ADVICE)


class ColumnSum(NoisySum):
    """The sum of a column of numbers, each first moved into `bounds`; a missing one counts as the number nearest 0."""

    __slots__ = ()
    bounds: tuple[float, float]

    @property
    def domain(self) -> Domain:
        """The bounds."""
        low, high = self.bounds
        return Domain(low=low, high=high, missing=min(max(0.0, low), high))

    @property
    def sensitivity(self) -> float:
        """The most that one neighbour moves the sum: the width of the bounds, or their larger size under AddRemove."""
        low, high = self.bounds
        return high - low if isinstance(self.relation, ReplaceOne) else max(abs(low), abs(high))

    def records(self, data: Any) -> NDArray[Any]:
        """One column of numbers (array protocol or Arrow stream)."""
        return np.concatenate([np.empty(0), *chunks(data)])

    def _contributions(self, records: NDArray[Any]) -> FloatArray:
        return np.asarray(self.domain.clean(records), dtype=np.float64)

    def _facts(self, records: NDArray[Any]) -> dict[str, int]:
        return self.domain.problems(records)


@value
class GaussianSum(ColumnSum):
    """The sum of a column within `bounds` with normal noise of deviation `noise_std`."""

    bounds: tuple[float, float]
    noise_std: float
    relation: Relation = AddRemove()
    draws: int = 1

    def __post_init__(self) -> None:
        put(self, bounds=interval(bounds=self.bounds), noise_std=positive(noise_std=self.noise_std))
        _normalize(self)

    @property
    def accountant(self) -> Accountant:
        """Exact."""
        one = GaussianAccountant(
            sensitivity=self.sensitivity, noise_std=self.noise_std, relation=self.relation, assumptions=_IDEAL
        )
        return repeated(one, self.draws)

    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        return self.noise_std * rng.standard_normal(shape)

    @classmethod
    def calibrate(
        cls, *, bounds: tuple[float, float], target: Target, relation: Relation = _DEFAULT, draws: int = 1
    ) -> Self:
        """The least noise that meets the target, on the safe side. Raises: UnreachableTarget."""
        return _least(lambda noise: cls(bounds=bounds, noise_std=noise, relation=relation, draws=draws), target)


@value
class LaplaceSum(ColumnSum):
    """The sum of a column within `bounds` with Laplace noise of scale `scale`."""

    bounds: tuple[float, float]
    scale: float
    relation: Relation = AddRemove()
    draws: int = 1

    def __post_init__(self) -> None:
        put(self, bounds=interval(bounds=self.bounds), scale=positive(scale=self.scale))
        _normalize(self)

    @property
    def accountant(self) -> Accountant:
        """Exact."""
        one = LaplaceAccountant(
            sensitivity=self.sensitivity, scale=self.scale, relation=self.relation, assumptions=_IDEAL
        )
        return repeated(one, self.draws)

    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        return rng.laplace(0.0, self.scale, shape)

    @classmethod
    def calibrate(
        cls, *, bounds: tuple[float, float], target: Target, relation: Relation = _DEFAULT, draws: int = 1
    ) -> Self:
        """The least noise that meets the target, on the safe side. Raises: UnreachableTarget."""
        return _least(lambda noise: cls(bounds=bounds, scale=noise, relation=relation, draws=draws), target)


@value
class ClippedSum(NoisySum):
    """The sum of rows of `width` numbers, each first scaled down to L2 norm `norm`, with normal noise in each entry.

    With Poisson sampling this is one step of private gradient descent. What is not a finite number counts as 0.
    """

    norm: float
    noise_std: float
    width: int
    relation: Relation = AddRemove()
    draws: int = 1

    def __post_init__(self) -> None:
        put(self, norm=positive(norm=self.norm), noise_std=positive(noise_std=self.noise_std))
        put(self, width=positive_integer(width=self.width))
        _normalize(self)

    @property
    def domain(self) -> Domain:
        """Of every entry of a row that was scaled down."""
        return Domain(low=-self.norm, high=self.norm, missing=0.0)

    @property
    def sensitivity(self) -> float:
        """The most that one neighbour moves the sum in L2: `norm`, twice that under ReplaceOne."""
        return 2 * self.norm if isinstance(self.relation, ReplaceOne) else self.norm

    @property
    def accountant(self) -> Accountant:
        """Exact."""
        one = GaussianAccountant(
            sensitivity=self.sensitivity, noise_std=self.noise_std, relation=self.relation, assumptions=_IDEAL
        )
        return repeated(one, self.draws)

    def records(self, data: Any) -> NDArray[Any]:
        """An array of shape (k, width)."""
        return table(data, self.width)

    def _contributions(self, records: NDArray[Any]) -> FloatArray:
        return within_norm(records, self.norm)

    def _facts(self, records: NDArray[Any]) -> dict[str, int]:
        return moved_rows(records, self.norm)

    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        return self.noise_std * rng.standard_normal(shape)

    @classmethod
    def calibrate(
        cls, *, norm: float, width: int, target: Target, relation: Relation = _DEFAULT, draws: int = 1
    ) -> Self:
        """The least noise that meets the target, on the safe side. Raises: UnreachableTarget."""
        return _least(
            lambda noise: cls(norm=norm, noise_std=noise, width=width, relation=relation, draws=draws), target
        )
