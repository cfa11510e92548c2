"""Gaussian and Laplace noise on a statistic whose sensitivity the caller states."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from privsample._checks import FloatArray, check_memory, listed, positive, positive_integer
from privsample._data import as_float, readable_dtype
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.noise.additive import GaussianAccountant, LaplaceAccountant
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.records import default_pitch, points
from privsample.distributions.noise import GaussianNoise, LaplaceNoise
from privsample.errors import SchemaError
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism, compose_draws
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.draws import many_draws
from privsample.mechanisms.examples import TOO_LITTLE_NOISE, Example
from privsample.mechanisms.neighbours import Draw, Neighbours
from privsample.mechanisms.noise.exact import ExactNoise
from privsample.mechanisms.noise.neighbours import describe_moved_statistic, moved_statistic, shifted_loss
from privsample.mechanisms.notes import CuratorNotes
from privsample.relations import AddRemove, Relation

_LARGEST = float(np.finfo(np.float64).max)
_ADVICE = "ask for delta > 0, or for a Rényi or zCDP guarantee"


def _scaled_by_sensitivity(ratio: float, fields: Mapping[str, Any]) -> float:
    return positive(sensitivity=fields["sensitivity"]) * ratio


class AdditiveNoise(ExactNoise):
    """Base class: `draws` noisy copies of a statistic of public shape; entries that are not finite count as 0."""

    __slots__ = ()
    sensitivity: float
    shape: tuple[int, ...]
    draws: int

    @property
    @abstractmethod
    def _noise_distribution(self) -> GaussianNoise | LaplaceNoise:
        """The distribution of the noise on each number."""

    @property
    def _released_name(self) -> str:
        return "statistic"

    @property
    def _unit(self) -> float:
        raise TypeError(self._why_no_tally)

    @property
    def _why_no_tally(self) -> str:
        return (
            f"{type(self).__name__} has no tallies: it takes a statistic of all data; for a sum of records use "
            "GaussianSum, LaplaceSum or ClippedSum"
        )

    def _exact_grid(self) -> Grid:
        return Grid(pitch=self.grid or default_pitch(self._noise_distribution.scale_parameter))

    @property
    def _assumptions(self) -> frozenset[Assumption]:
        return ExactNoise._assumptions.__get__(self) | {Assumption.TRUSTED_SENSITIVITY}

    def _draw(self, statistic: FloatArray, rng: np.random.Generator) -> Draws:
        shape, noise = (self.draws, *self.shape), self._noise_distribution
        if self.pitch is not None:
            # The rounded sum of the given doubles and of real noise: a post-processing of the ideal release.
            grid = Grid(pitch=self.pitch)
            return {"statistic": points(noise.indices_around(np.broadcast_to(statistic, shape), grid, rng), grid)}
        with np.errstate(over="ignore"):
            return {"statistic": np.clip(statistic + noise.sample(shape, rng), -_LARGEST, _LARGEST)}

    def validate(self, data: Any) -> CuratorNotes:
        """Count the entries that are not finite and would count as 0, for the curator only. Raises SchemaError."""
        count = int((~np.isfinite(self._entries(data))).sum())
        return CuratorNotes(title=f"a statistic of shape {self.shape}", facts={"not finite": count} if count else {})

    def _many_draws(self, outer: Mechanism) -> Draw:
        return many_draws(self, "statistic", outer)

    @property
    def quantity(self) -> str:
        """The label "noisy statistic"."""
        return "noisy statistic"

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """A statistic of 0, and one whose first coordinate is moved by `group` times the sensitivity."""
        group = positive_integer(group=group)
        one: Any = replace(self, draws=1)  # type: ignore[type-var]
        shift = group * self.sensitivity
        loss = shifted_loss(self._noise_distribution, 0.0, shift)
        return (
            Neighbours(
                account=one.accountant,
                descriptions=describe_moved_statistic(shift),
                datasets=moved_statistic(self.shape, shift),
                draw=one._many_draws(one),
                loss=lambda noisy: loss(noisy[:, :1]),
                width=prod(self.shape),
            ),
        )

    def _statistic(self, data: Any) -> FloatArray:
        entries = self._entries(data)
        return np.where(np.isfinite(entries), entries, 0.0)

    def _entries(self, data: Any) -> FloatArray:
        """The statistic as floats, masked entries as NaN. Raises SchemaError."""
        try:  # an object array: NumPy would convert a list with one string to strings only
            statistic = np.asarray(data, dtype=object if isinstance(data, (list, tuple)) else None)
        except Exception:  # noqa: BLE001 - the message could show the statistic
            raise SchemaError("the statistic must be an array of real numbers") from None
        if statistic.dtype.kind == "O":
            statistic = np.array([as_float(item) for item in statistic.ravel()]).reshape(statistic.shape)
        if statistic.dtype.kind not in "biuf":
            raise SchemaError(f"the statistic must be an array of real numbers, got {readable_dtype(statistic.dtype)}")
        if statistic.shape != self.shape:
            raise SchemaError(f"the statistic must have shape {self.shape}, got {statistic.shape}")
        hidden = data.mask if isinstance(data, np.ma.MaskedArray) else False
        with np.errstate(over="ignore"):
            return np.where(hidden, np.nan, statistic.astype(np.float64))


def _normalize(self: Any) -> None:
    shape = tuple(positive_integer(**{f"shape[{i}]": size}) for i, size in enumerate(listed(shape=self.shape)))
    set_fields(
        self, draws=positive_integer(draws=self.draws), shape=shape, sensitivity=positive(sensitivity=self.sensitivity)
    )
    check_memory(self.draws * prod(shape), lower="draws or shape")
    self._check_exact()
    self.pitch, self.accountant  # noqa: B018 - building it checks the rest


@frozen_value
class GaussianMechanism(AdditiveNoise):
    """Gaussian noise on a statistic of known L2 sensitivity.

    `release` takes the statistic, an array of shape `shape`, and releases "statistic", shape (draws, *shape). An entry
    that is not a finite number counts as 0. The guarantee holds under `relation`, whose neighbours the sensitivity must
    cover.

    Parameters
    ----------
    sensitivity : float
        Largest L2 distance between the statistics of two neighbouring datasets, finite and > 0, in the statistic's
        unit.
    noise_std : float
        Standard deviation of the noise on each entry, finite and > 0, in the statistic's unit.
    relation : Relation, default AddRemove()
        The neighbouring relation: `AddRemove()`, or `ReplaceOne(n=...)` for a public number of records n.
    shape : tuple of int, default ()
        Public shape of the statistic; () is a single number.
    draws : int, default 1
        Number of independent draws in one release, >= 1. The account covers all of them together.
    exact : bool, default True
        True draws exact noise and rounds its sum with the statistic to `grid`, so that the account does not assume
        IDEAL_REALS. False adds floating-point numbers.
    grid : float, optional
        Distance of the grid points, a power of two, in the statistic's unit. By default 2^-40 of the noise's scale.

    Raises
    ------
    ValueError
        If a field lies outside its range.

    Notes
    -----
    Balle and Wang 2018 (analytic Gaussian mechanism). Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.GaussianMechanism(sensitivity=1, noise_std=5)
    >>> round(float(mechanism.accountant.epsilon(1e-6)), 3)
    0.834
    >>> mechanism.release(3.0)["statistic"].shape
    (1,)
    """

    sensitivity: float
    noise_std: float
    relation: Relation = AddRemove()
    shape: tuple[int, ...] = ()
    draws: int = 1
    exact: bool = True
    grid: float | None = None
    free_parameters = (
        FreeParameter(name="noise_std", direction="smallest", value=_scaled_by_sensitivity, advice=_ADVICE),
    )
    command = CommandLine(data=("statistic",), help={"sensitivity": "the L2 sensitivity of the statistic"})

    def __post_init__(self) -> None:
        _normalize(self)

    @cached
    def accountant(self) -> Accountant:
        """The exact account of all draws."""
        one = GaussianAccountant(
            sensitivity=self.sensitivity,
            noise_std=self.noise_std,
            relation=self.relation,
            assumptions=self._assumptions,
        )
        return compose_draws(one, self.draws)

    @property
    def title(self) -> str:
        """The fixed text "Statistic with Gaussian noise"."""
        return "Statistic with Gaussian noise"

    @property
    def description(self) -> str:
        """The standard deviation of the noise and the sensitivity, in one sentence."""
        return (
            f"Normal noise of standard deviation {self.noise_std:.4g} was added to a statistic that one record changes "
            f"by at most {self.sensitivity:g}."
        )

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example for a number, and a mutant that adds too little noise."""
        example = cls(sensitivity=2, noise_std=2)
        return (Example.with_wrong_fields("gaussian", example, noise_std=1.6, bug=TOO_LITTLE_NOISE, samples=20_000),)

    @property
    def _noise_distribution(self) -> GaussianNoise:
        return GaussianNoise(noise_std=self.noise_std)


@frozen_value
class LaplaceMechanism(AdditiveNoise):
    """Laplace noise on a statistic of known L1 sensitivity.

    `release` takes the statistic, an array of shape `shape`, and releases "statistic", shape (draws, *shape). An entry
    that is not a finite number counts as 0. The guarantee holds under `relation`, whose neighbours the sensitivity must
    cover.

    Parameters
    ----------
    sensitivity : float
        Largest L1 distance between the statistics of two neighbouring datasets, finite and > 0, in the statistic's
        unit.
    scale : float
        Scale b of the Laplace noise on each entry, finite and > 0, in the statistic's unit; its variance is 2 b^2.
    relation : Relation, default AddRemove()
        The neighbouring relation: `AddRemove()`, or `ReplaceOne(n=...)` for a public number of records n.
    shape : tuple of int, default ()
        Public shape of the statistic; () is a single number.
    draws : int, default 1
        Number of independent draws in one release, >= 1. The account covers all of them together.
    exact : bool, default True
        True draws exact noise and rounds its sum with the statistic to `grid`, so that the account does not assume
        IDEAL_REALS. False adds floating-point numbers.
    grid : float, optional
        Distance of the grid points, a power of two, in the statistic's unit. By default 2^-40 of the noise's scale.

    Raises
    ------
    ValueError
        If a field lies outside its range.

    Notes
    -----
    Dwork, McSherry, Nissim and Smith 2006; Mironov 2017 (Rényi divergences).
    Kind: exact for one entry, upper bound for several.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.LaplaceMechanism(sensitivity=1, scale=2)
    >>> round(float(mechanism.accountant.epsilon(0.0)), 6)
    0.5
    >>> mechanism.release(3.0)["statistic"].shape
    (1,)
    """

    sensitivity: float
    scale: float
    relation: Relation = AddRemove()
    shape: tuple[int, ...] = ()
    draws: int = 1
    exact: bool = True
    grid: float | None = None
    free_parameters = (FreeParameter(name="scale", direction="smallest", value=_scaled_by_sensitivity, advice=_ADVICE),)
    command = CommandLine(data=("statistic",), help={"sensitivity": "the L1 sensitivity of the statistic"})

    def __post_init__(self) -> None:
        _normalize(self)

    @cached
    def accountant(self) -> Accountant:
        """The account of all draws: exact for one entry, an upper bound for several."""
        one = LaplaceAccountant(
            sensitivity=self.sensitivity, scale=self.scale, relation=self.relation, assumptions=self._assumptions
        )
        return compose_draws(one, self.draws)

    @property
    def title(self) -> str:
        """The fixed text "Statistic with Laplace noise"."""
        return "Statistic with Laplace noise"

    @property
    def description(self) -> str:
        """The scale of the noise and the sensitivity, in one sentence."""
        return (
            f"Laplace noise of scale {self.scale:.4g} was added to a statistic that one record changes "
            f"by at most {self.sensitivity:g}."
        )

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example for two numbers, and a mutant that adds too little noise."""
        example = cls(sensitivity=2, scale=2, shape=(2,))
        return (Example.with_wrong_fields("laplace", example, scale=1.6, bug=TOO_LITTLE_NOISE, samples=20_000),)

    @property
    def _noise_distribution(self) -> LaplaceNoise:
        return LaplaceNoise(scale=self.scale)
