"""Gaussian and Laplace noise on a statistic whose sensitivity the caller states."""

from abc import abstractmethod
from math import prod
from typing import Any, Self

import numpy as np

from privsample._checks import FloatArray, generator, holdable, listed, positive, positive_integer
from privsample._data import as_float
from privsample._entropy import undisturbed
from privsample._value import put, value
from privsample.accounting.base import Accountant
from privsample.accounting.noise.additive import GaussianAccountant, LaplaceAccountant
from privsample.accounting.targets import Target, smallest
from privsample.errors import SchemaError
from privsample.mechanisms.base import Mechanism, charged, repeated
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.release import Release
from privsample.relations import AddRemove, Relation

_LARGEST = float(np.finfo(np.float64).max)
_DEFAULT = AddRemove()
_ADVICE = "ask for delta > 0, or for a Renyi or zCDP guarantee"


class AdditiveNoise(Mechanism):
    """`draws` noisy copies of a statistic of public shape; what is not a finite number counts as 0."""

    __slots__ = ()
    shape: tuple[int, ...]
    draws: int

    @abstractmethod
    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Independent noise."""

    def release(self, data: Any, *, rng: np.random.Generator | None = None) -> Release:
        """Add noise to the statistic `data`, an array of shape `shape`. Returns: draws "statistic", (draws, *shape)."""
        source, account = generator(rng), charged(self, rng)
        statistic = self._statistic(data)
        statistic = np.where(np.isfinite(statistic), statistic, 0.0)
        noise = undisturbed(source, lambda: self._noise(source, (self.draws, *self.shape)))
        with np.errstate(over="ignore"):
            noisy = np.clip(statistic + noise, -_LARGEST, _LARGEST)
        return Release(mechanism=self, draws={"statistic": noisy}, account=account)

    def validate(self, data: Any) -> CuratorNotes:
        """How many entries are not finite and would count as 0, for the curator's eyes. Raises: SchemaError."""
        count = int((~np.isfinite(self._statistic(data))).sum())
        return CuratorNotes(title=f"a statistic of shape {self.shape}", facts={"not finite": count} if count else {})

    def _statistic(self, data: Any) -> FloatArray:
        try:  # a list entry by entry, or one text would make texts of all
            statistic = np.asarray(data, dtype=object if isinstance(data, (list, tuple)) else None)
        except Exception:  # noqa: BLE001 - the message could show the statistic
            raise SchemaError("the statistic must be an array of real numbers") from None
        if statistic.dtype.kind == "O":
            statistic = np.array([as_float(item) for item in statistic.ravel()]).reshape(statistic.shape)
        if statistic.dtype.kind not in "biuf":
            raise SchemaError(f"the statistic must be an array of real numbers, got type {statistic.dtype}")
        if statistic.shape != self.shape:
            raise SchemaError(f"the statistic must have shape {self.shape}, got {statistic.shape}")
        hidden = data.mask if isinstance(data, np.ma.MaskedArray) else False
        with np.errstate(over="ignore"):
            return np.where(hidden, np.nan, statistic.astype(np.float64))


def _normalize(self: Any) -> None:
    shape = tuple(positive_integer(**{f"shape[{i}]": size}) for i, size in enumerate(listed(shape=self.shape)))
    put(self, draws=positive_integer(draws=self.draws), shape=shape, sensitivity=positive(sensitivity=self.sensitivity))
    holdable(self.draws * prod(shape), lower="draws or shape")
    self.accountant  # noqa: B018 - building it checks the rest


@value
class GaussianMechanism(AdditiveNoise):
    """Normal noise of deviation `noise_std`; `sensitivity` is the most that one neighbour moves the statistic in L2."""

    sensitivity: float
    noise_std: float
    relation: Relation = AddRemove()
    shape: tuple[int, ...] = ()
    draws: int = 1

    def __post_init__(self) -> None:
        _normalize(self)

    @property
    def accountant(self) -> Accountant:
        """Exact."""
        one = GaussianAccountant(sensitivity=self.sensitivity, noise_std=self.noise_std, relation=self.relation)
        return repeated(one, self.draws)

    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        return self.noise_std * rng.standard_normal(shape)

    @classmethod
    def calibrate(
        cls,
        *,
        sensitivity: float,
        target: Target,
        relation: Relation = _DEFAULT,
        shape: tuple[int, ...] = (),
        draws: int = 1,
    ) -> Self:
        """The least noise that meets the target, on the safe side. Raises: UnreachableTarget."""
        fixed: dict[str, Any] = {"sensitivity": sensitivity, "relation": relation, "shape": shape, "draws": draws}
        unit = positive(sensitivity=sensitivity)
        return smallest(
            lambda ratio: cls(**fixed, noise_std=unit * ratio), lambda made: made.accountant, target, advice=_ADVICE
        )


@value
class LaplaceMechanism(AdditiveNoise):
    """Laplace noise of scale `scale`; `sensitivity` is the most one neighbour moves the statistic in L1."""

    sensitivity: float
    scale: float
    relation: Relation = AddRemove()
    shape: tuple[int, ...] = ()
    draws: int = 1

    def __post_init__(self) -> None:
        _normalize(self)

    @property
    def accountant(self) -> Accountant:
        """Exact for one coordinate, an upper bound for several."""
        one = LaplaceAccountant(sensitivity=self.sensitivity, scale=self.scale, relation=self.relation)
        return repeated(one, self.draws)

    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        return rng.laplace(0.0, self.scale, shape)

    @classmethod
    def calibrate(
        cls,
        *,
        sensitivity: float,
        target: Target,
        relation: Relation = _DEFAULT,
        shape: tuple[int, ...] = (),
        draws: int = 1,
    ) -> Self:
        """The least noise that meets the target, on the safe side. Raises: UnreachableTarget."""
        fixed: dict[str, Any] = {"sensitivity": sensitivity, "relation": relation, "shape": shape, "draws": draws}
        unit = positive(sensitivity=sensitivity)
        return smallest(
            lambda ratio: cls(**fixed, scale=unit * ratio), lambda made: made.accountant, target, advice=_ADVICE
        )
