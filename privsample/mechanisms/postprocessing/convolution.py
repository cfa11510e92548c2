"""Random steps after a private output, with no new look at the data."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privsample._checks import generator, positive
from privsample._entropy import undisturbed
from privsample._value import put, value
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.postprocessing.convolution import noise_after
from privsample.accounting.targets import Target, smallest
from privsample.mechanisms.base import Mechanism, charged
from privsample.mechanisms.noise.additive import AdditiveNoise, GaussianMechanism
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.release import Release

Draws = Mapping[str, NDArray[Any]]
LARGEST = float(np.finfo(np.float64).max)


class PostProcessing(Mechanism):
    """A random step after `base`: released at once by `release`, or by `of` from a release of the base alone."""

    __slots__ = ()
    base: Mechanism

    @abstractmethod
    def _step(self, draws: Draws, source: np.random.Generator) -> dict[str, NDArray[Any]]:
        """The base's draws, one step on."""

    def release(self, data: Any, *, rng: np.random.Generator | None = None) -> Release:
        """Draw from the base, take the step, and release its end only. Returns: draws of the base's names."""
        source, account = generator(rng), charged(self, rng)
        draws = self.base.release(data, rng=source).draws
        return Release(mechanism=self, draws=undisturbed(source, lambda: self._step(draws, source)), account=account)

    def of(self, release: Release, *, rng: np.random.Generator | None = None) -> Release:
        """The step after a release of the base: no new look at the data. Whoever sees the first pays for the first.

        Together both cost what the base costs, and so do several steps after one release: they share its noise, and
        may tell more than their accounts added. Raises: ValueError, where another mechanism made the release.
        """
        source, account = generator(rng), following(self, self.base, release, rng)
        return Release(
            mechanism=self, draws=undisturbed(source, lambda: self._step(release.draws, source)), account=account
        )

    def validate(self, data: Any) -> CuratorNotes:
        """The base's."""
        return self.base.validate(data)


def following(mechanism: Mechanism, base: Mechanism, release: Release, rng: np.random.Generator | None) -> Accountant:
    """The account of a step after a release of `base`. Raises: TypeError, ValueError, for any other release."""
    if not isinstance(release, Release):
        raise TypeError(f"a step follows a Release, got {type(release).__name__}")
    if release.mechanism != base:
        raise ValueError(
            f"this release was not made by {base}: it comes from {type(release.mechanism).__name__}, or was "
            "already processed elsewhere, and its law is not the one that this account is about"
        )
    account = charged(mechanism, rng)
    fresh = Assumption.RNG_FRESH in release.account.assumptions
    return account.assuming(Assumption.RNG_FRESH) if fresh else account


@value
class NoiseAfter(PostProcessing):
    """More noise of the base's kind on every number that it releases: deviation or scale `noise`.

    base: a GaussianMechanism or a LaplaceMechanism; after Gaussian noise, any number of times.
    """

    base: Mechanism
    noise: float

    def __post_init__(self) -> None:
        put(self, noise=positive(noise=self.noise))
        self.accountant  # noqa: B018 - building it checks the base's kind

    @property
    def _additive(self) -> AdditiveNoise:
        """What the noise began with. Raises: TypeError."""
        match self.base:
            case NoiseAfter():
                return self.base._additive
            case AdditiveNoise():
                return self.base
        raise TypeError(f"base must add Gaussian or Laplace noise, got {type(self.base).__name__}")

    @property
    def accountant(self) -> Accountant:
        """The account of the two noises together."""
        coordinates = int(np.prod(self._additive.shape))
        return noise_after(self.base.accountant, self.noise, coordinates=max(coordinates, 1))

    def _step(self, draws: Draws, source: np.random.Generator) -> dict[str, NDArray[Any]]:
        gaussian = isinstance(self._additive, GaussianMechanism)
        more = source.standard_normal if gaussian else lambda shape: source.laplace(0.0, 1.0, shape)
        with np.errstate(over="ignore"):
            return {
                name: np.clip(numbers + self.noise * more(numbers.shape), -LARGEST, LARGEST)
                for name, numbers in draws.items()
            }

    @classmethod
    def calibrate(cls, *, base: Mechanism, target: Target) -> Self:
        """The least further noise that meets the target, on the safe side. Raises: UnreachableTarget."""
        return smallest(
            lambda noise: cls(base=base, noise=noise), lambda made: made.accountant, target, advice="ask for delta > 0"
        )
