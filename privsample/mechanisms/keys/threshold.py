"""Noisy numbers of units, released with their keys where they exceed a threshold."""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, positive_integer
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.keys.threshold import ThresholdKeysAccountant
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.records import default_pitch, points
from privsample.distributions.noise import GaussianNoise, LaplaceNoise, Noise, noise_distribution
from privsample.mechanisms.arguments import CommandLine, noise_argument
from privsample.mechanisms.base import Draws
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.examples import TOO_LITTLE_NOISE, Example
from privsample.mechanisms.keys.base import PrivateKeys
from privsample.mechanisms.neighbours import Neighbours
from privsample.mechanisms.noise.exact import ExactNoise
from privsample.mechanisms.noise.neighbours import shifted_loss
from privsample.relations import AddRemove, Relation

NoiseName = Literal["laplace", "gaussian", "discrete laplace", "discrete gaussian"]
_EXACT = 2.0**53
_FAR = 9.0  # in scales of the noise: counts of worst neighbours that are nearly always released
_RAISE = "raise the scale, or ask for a larger epsilon or delta"


@frozen_value
class ThresholdKeys(ExactNoise, PrivateKeys):
    """Keys whose noisy number of units exceeds a threshold, with that noisy number.

    `release` takes `(units, keys)`, two columns of equal length that hold text or whole numbers: the unit and the key
    of each row. A unit counts once for each of its keys, and for at most `keys_per_unit` keys: those of most of its
    rows. Rows in which one of the two is missing are left out. A key that no unit has is never released. The release
    names the released keys in `coords["key"]`, and holds "count", their noisy numbers of units, shape (1, released
    keys). A released count was selected for being large: near the threshold it is too large on average.

    Parameters
    ----------
    scale : float
        Scale of the noise on each number of units, finite and > 0: the standard deviation parameter of "gaussian" and
        "discrete gaussian", the scale b of "laplace" and "discrete laplace".
    threshold : float
        A key is released only if its noisy number of units exceeds this number, finite and >= 1.
    noise : {"gaussian", "laplace", "discrete gaussian", "discrete laplace"}, default "gaussian"
        Distribution of the noise. Discrete noise gives whole numbers.
    keys_per_unit : int, default 1
        Largest number of keys for which a unit counts, >= 1.
    relation : Relation, default AddRemove()
        The neighbouring relation, `AddRemove(unit=...)`: one unit with all of its rows is added or removed.
    exact : bool, default True
        True draws exact noise and rounds it to `grid`, so that the account does not assume IDEAL_REALS. False adds
        floating-point numbers.
    grid : float, optional
        Distance of the grid points, a power of two, in units. By default 2^-40 of the noise's scale, and 1 for discrete
        noise. The threshold is rounded up to the grid.

    Raises
    ------
    ValueError
        If a field lies outside its range.

    Notes
    -----
    Wilkins, Kifer, Zhang and Karrer 2024; docs/notes/keys.md. Kind: exact for Gaussian noise up to 16 keys per
    unit, and for Laplace and discrete Laplace noise with one key per unit; otherwise an upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.ThresholdKeys(scale=1.0, threshold=8.0, noise="discrete gaussian")
    >>> release = mechanism.release((list(range(60)), ["rare"] + ["common"] * 59))
    >>> release.coords["key"], release["count"].shape
    (('common',), (1, 1))
    """

    scale: float
    threshold: float
    noise: NoiseName = "gaussian"
    keys_per_unit: int = 1
    relation: Relation = AddRemove()
    exact: bool = True
    grid: float | None = None
    free_parameters = (FreeParameter(name="threshold", direction="smallest", advice=_RAISE),)
    command = CommandLine(
        help={
            "scale": "the scale of the noise on each number of units",
            "threshold": "a key is released only if its noisy number of units exceeds this number",
            "keys_per_unit": "the largest number of keys for which a unit counts (default: 1)",
        },
        arguments={"noise": noise_argument("gaussian")},
    )

    def __post_init__(self) -> None:
        self._noise_distribution  # noqa: B018 - checks noise and scale
        self._check_exact()
        account = self.accountant
        set_fields(
            self,
            scale=self._noise_distribution.scale_parameter,
            threshold=account.threshold,
            keys_per_unit=account.keys_per_unit,
        )

    @cached
    def accountant(self) -> ThresholdKeysAccountant:
        """The account of one release."""
        return ThresholdKeysAccountant(
            noise=self._noise_distribution,
            threshold=self.threshold,
            keys_per_unit=self.keys_per_unit,
            relation=self.relation,
            assumptions=self._assumptions,
        )

    @cached
    def _noise_distribution(self) -> Noise:
        return noise_distribution(self.noise, self.scale)

    @property
    def _released_name(self) -> str:
        return self.quantity

    def _exact_grid(self) -> Grid:
        default = 1.0 if self._noise_distribution.integer_valued else default_pitch(self.scale)
        return Grid(pitch=self.grid or default)

    def _kept(self, units: NDArray[np.int64], rng: np.random.Generator) -> tuple[NDArray[np.bool_], Draws]:
        noisy = self._noisy(units, rng)
        kept = noisy > self._level
        return kept, {self.quantity: noisy[kept][None]}

    def _noisy(self, units: NDArray[np.int64], rng: np.random.Generator) -> FloatArray:
        """The numbers of units plus independent noise, rounded to the grid."""
        noise, counts = self._noise_distribution, units.astype(np.float64)
        if self.pitch is None:
            return counts + noise.sample(counts.shape, rng)
        grid = Grid(pitch=self.pitch)
        if isinstance(noise, (GaussianNoise, LaplaceNoise)):
            return points(noise.indices_around(counts, grid, rng), grid)
        return counts + points(noise.sample_indices(grid, counts.shape, rng), grid)

    @property
    def _level(self) -> float:
        """The threshold on the grid: a rounded number above it is rounded from a number above the threshold.

        Integers are not rounded, so that they are compared with the threshold itself.
        """
        if self.pitch is None or self._noise_distribution.integer_valued:
            return self.threshold
        if self.threshold / self.pitch >= _EXACT:  # doubles so large are multiples of the pitch
            return self.threshold
        return math.ceil(self.threshold / self.pitch) * self.pitch

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """Keys of so many units that they are nearly always released, and keys of no unit; and `group` more units."""
        group, noise = positive_integer(group=group), self._noise_distribution
        many = math.ceil(self.threshold + _FAR * max(self.scale, 1.0)) + 1
        moved = shifted_loss(noise, many, many + group)
        log_tail = float(noise.log_tail(np.asarray(max(self.threshold - group, 0.0)))) - math.log(2)
        absent = -self.keys_per_unit * math.log1p(-math.exp(log_tail))

        def shifted(outputs: FloatArray) -> FloatArray:
            return np.where((outputs > 0).all(axis=1), moved(outputs), 0.0)

        def appeared(outputs: FloatArray) -> FloatArray:
            return np.where((outputs > 0).any(axis=1), -np.inf, absent)

        return self._neighbours(many, group, shifted), self._neighbours(0, group, appeared)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example, and a mutant that adds too little noise."""
        example = cls(scale=2.0, threshold=12.0)
        return (Example.with_wrong_fields("threshold-keys", example, scale=1.6, bug=TOO_LITTLE_NOISE),)

    @property
    def quantity(self) -> str:
        """The name "count"."""
        return "count"

    @property
    def title(self) -> str:
        """The fixed text "Keys above a noisy threshold"."""
        return "Keys above a noisy threshold"

    @property
    def description(self) -> str:
        """The noise and the threshold, in one sentence."""
        return (
            f"A key was released if its number of units plus {self.noise} noise of scale {self.scale:.4g} exceeded "
            f"{self.threshold:.4g}; a key that nobody has is never released."
        )
