"""Random steps after a private release, without new access to the data."""

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
from privsample.mechanisms.examples import TOO_LITTLE_NOISE, Example
from privsample.mechanisms.neighbours import Draw, Loss, Neighbours
from privsample.mechanisms.noise.additive import AdditiveNoise, GaussianMechanism, LaplaceMechanism
from privsample.mechanisms.noise.exact import check_fine_grid
from privsample.mechanisms.noise.neighbours import shifted_loss
from privsample.mechanisms.postprocessing.neighbours import neighbours_after_noise
from privsample.mechanisms.release import Release

LARGEST = float(np.finfo(np.float64).max)


class PostProcessing(Wrapper):
    """Base class: a random step after `base`.

    `release` draws from the base and makes the step at once; `of` makes the step from an existing release of the base.
    `release` takes the base's data, and draws the base's names.
    """

    __slots__ = ()

    @abstractmethod
    def _step(self, draws: Draws, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """The draws after one step from the base's draws."""

    def _draw(self, statistic: Any, rng: np.random.Generator) -> Draws:
        before = self.base._draw_checked(statistic, rng).draws
        return draw_with_entropy_check(rng, lambda: self._step(before, rng))

    def _many_draws(self, outer: Mechanism) -> Draw | None:
        return self.base._many_draws(outer)

    def of(self, release: Release, *, rng: np.random.Generator | None = None) -> Release:
        """The step from an existing release of the base, without new access to the data.

        The cost for an observer of both releases is that of the base's release. The same holds for several steps from
        one release: they share its noise, so together they may reveal more than the sum of their accounts, but never
        more than the base.

        Parameters
        ----------
        release : Release
            A release of `base`.
        rng : numpy.random.Generator, optional
            Random generator, for simulations: the account then assumes RNG_FRESH. None draws from the system's entropy.

        Returns
        -------
        Release
            The release of this mechanism.

        Raises
        ------
        ValueError
            If another mechanism made the release.
        TypeError
            If it is not a Release.
        """
        source, account = generator(rng), account_of_step(self, self.base, release, rng)
        moved = draw_with_entropy_check(source, lambda: self._step(release.draws, source))
        return Release(mechanism=self, draws=moved, account=account, partly_digested=release.partly_digested)


def account_of_step(
    mechanism: Mechanism, base: Mechanism, release: Release, rng: np.random.Generator | None
) -> Accountant:
    """The account of a step after a release of `base`. Raises TypeError or ValueError for any other release."""
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
    """Further noise on every number that `base` releases, of the same distribution as the base's noise.

    `release` takes the base's data, and releases "statistic".

    Parameters
    ----------
    base : Mechanism
        A GaussianMechanism or a LaplaceMechanism; after Gaussian noise also another PostNoise.
    noise : float
        Standard deviation (Gaussian) or scale (Laplace) of the further noise, finite and > 0.

    Raises
    ------
    TypeError
        If the base adds no Gaussian or Laplace noise.
    ValueError
        If `noise` lies outside its range, or the base has a `grid` coarser than 2^-30 of its noise.

    Notes
    -----
    docs/notes/diffusion.md (Gaussian); Balle, Barthe, Gaboardi and Geumlek 2019, Example 2 (Laplace).
    Kind: exact, except for Laplace noise on several numbers: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> base = ps.GaussianMechanism(sensitivity=1, noise_std=3)
    >>> mechanism = ps.PostNoise(base=base, noise=4.0)
    >>> round(float(mechanism.accountant.epsilon(1e-6)), 3)
    0.834
    >>> mechanism.of(base.release(2.0))["statistic"].shape
    (1,)
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
        check_fine_grid(self._additive, self._additive._noise_distribution.scale_parameter, step="PostNoise")

    @property
    def quantity(self) -> str:
        """The base's label, and "with further noise"."""
        return f"{self.base.quantity} with further noise"

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example for each noise distribution; the mutants add too little noise."""
        gaussian = cls(base=GaussianMechanism(sensitivity=1, noise_std=1), noise=1.0)
        laplace = cls(base=LaplaceMechanism(sensitivity=1, scale=0.5), noise=1.0)
        return (
            Example.with_wrong_fields("gaussian-post-noise", gaussian, noise=0.5, bug=TOO_LITTLE_NOISE),
            Example.with_wrong_fields("laplace-post-noise", laplace, noise=0.3, bug=TOO_LITTLE_NOISE),
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The worst neighbours of the first noise; after Gaussian noise the density is known."""
        group = positive_integer(group=group)
        return neighbours_after_noise(self, group, width=prod(self._additive.shape), loss=_loss_after_noise)

    @property
    def _additive(self) -> AdditiveNoise:
        """The mechanism that adds the first noise. Raises TypeError."""
        match self.base:
            case PostNoise():
                return self.base._additive
            case AdditiveNoise():
                return self.base
        raise TypeError(f"base must add Gaussian or Laplace noise, got {type(self.base).__name__}")

    @cached
    def accountant(self) -> Accountant:
        """The account of the sum of the two noises."""
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
