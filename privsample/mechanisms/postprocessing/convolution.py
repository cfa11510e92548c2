"""Random steps after a private output, with no new look at the data."""

from abc import abstractmethod
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import generator, positive, positive_integer
from privsample._entropy import draw_with_entropy_check
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.postprocessing.convolution import noise_after
from privsample.distributions.noise import GaussianNoise
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism, Wrapper, account_of
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.examples import QUIET, Example
from privsample.mechanisms.neighbours import Draw, Loss, Neighbours
from privsample.mechanisms.noise.additive import AdditiveNoise, GaussianMechanism, LaplaceMechanism
from privsample.mechanisms.noise.neighbours import shifted_loss
from privsample.mechanisms.postprocessing.neighbours import neighbours_after_noise
from privsample.mechanisms.release import Release

LARGEST = float(np.finfo(np.float64).max)


class PostProcessing(Wrapper):
    """A random step after `base`: released at once by `release`, or by `of` from a release of the base alone.

    `release` takes the base's data, and draws the base's names.
    """

    __slots__ = ()

    @abstractmethod
    def _step(self, draws: Draws, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """The base's draws, one step on."""

    def _draw(self, statistic: Any, rng: np.random.Generator) -> Draws:
        before = self.base._draw_checked(statistic, rng).draws
        return draw_with_entropy_check(rng, lambda: self._step(before, rng))

    def _many_draws(self, outer: Mechanism) -> Draw | None:
        return self.base._many_draws(outer)

    def of(self, release: Release, *, rng: np.random.Generator | None = None) -> Release:
        """The step after a release of the base: no new look at the data. Whoever sees the first pays for the first.

        Together both cost what the base costs, and so do several steps after one release: they share its noise, and
        may tell more than their accounts added. Raises: ValueError, where another mechanism made the release.
        """
        source, account = generator(rng), account_of_step(self, self.base, release, rng)
        moved = draw_with_entropy_check(source, lambda: self._step(release.draws, source))
        return Release(mechanism=self, draws=moved, account=account)


def account_of_step(
    mechanism: Mechanism, base: Mechanism, release: Release, rng: np.random.Generator | None
) -> Accountant:
    """The account of a step after a release of `base`. Raises: TypeError, ValueError, for any other release."""
    if not isinstance(release, Release):
        raise TypeError(f"a step follows a Release, got {type(release).__name__}")
    if release.mechanism != base:
        raise ValueError(
            f"this release was not made by {base}: it comes from {type(release.mechanism).__name__}, or was "
            "already processed elsewhere, and its distribution is not the one that this account is about"
        )
    fresh = Assumption.RNG_FRESH in release.account.assumptions
    return mechanism._account_with_rng if fresh else account_of(mechanism, rng)


@frozen_value
class PostNoise(PostProcessing):
    """More noise of the base's kind on every number that it releases: deviation or scale `noise`.

    base: a GaussianMechanism or a LaplaceMechanism; after Gaussian noise, any number of times.
    """

    base: Mechanism
    noise: float
    free_parameters = (FreeParameter(name="noise", direction="smallest", advice="ask for delta > 0"),)
    command = CommandLine(
        help={
            "base": 'e.g. "gaussian sensitivity=1 noise-std=2"',
            "noise": "the further noise's standard deviation (Gaussian) or scale (Laplace)",
        }
    )

    def __post_init__(self) -> None:
        set_fields(self, noise=positive(noise=self.noise))
        self.accountant  # noqa: B018 - building it checks the base's kind

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """More noise after each kind, and too little of it."""
        gaussian = cls(base=GaussianMechanism(sensitivity=1, noise_std=1), noise=1.0)
        laplace = cls(base=LaplaceMechanism(sensitivity=1, scale=0.5), noise=1.0)
        return (
            Example.with_wrong_fields("gaussian-post-noise", gaussian, noise=0.5, bug=QUIET),
            Example.with_wrong_fields("laplace-post-noise", laplace, noise=0.3, bug=QUIET),
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """Those of the noise that all began with; after Gaussian noise the density is known."""
        group = positive_integer(group=group)
        return neighbours_after_noise(self, group, width=prod(self._additive.shape), loss=_loss_after_noise)

    @property
    def _additive(self) -> AdditiveNoise:
        """What the noise began with. Raises: TypeError."""
        match self.base:
            case PostNoise():
                return self.base._additive
            case AdditiveNoise():
                return self.base
        raise TypeError(f"base must add Gaussian or Laplace noise, got {type(self.base).__name__}")

    @cached
    def accountant(self) -> Accountant:
        """The account of the two noises together."""
        coordinates = int(np.prod(self._additive.shape))
        return noise_after(self.base.accountant, self.noise, coordinates=max(coordinates, 1))

    def _step(self, draws: Draws, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        gaussian = isinstance(self._additive, GaussianMechanism)
        more = rng.standard_normal if gaussian else lambda shape: rng.laplace(0.0, 1.0, shape)
        with np.errstate(over="ignore"):
            return {
                name: np.clip(numbers + self.noise * more(numbers.shape), -LARGEST, LARGEST)
                for name, numbers in draws.items()
            }


def _loss_after_noise(account: Accountant, shift: float) -> Loss | None:
    if not isinstance(account, GaussianAccountant):
        return None
    loss = shifted_loss(GaussianNoise(noise_std=account.noise_std), 0.0, shift)
    return lambda noisy: loss(noisy[:, :1])
