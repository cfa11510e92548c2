"""A Markov kernel of the user after a mechanism that releases numbers."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, numbers_of, positive_integer
from privsample._value import cached, frozen_value
from privsample.accounting.assumptions import Assumption, drawing_assumptions
from privsample.accounting.postprocessing.applied_kernel import AppliedKernelAccountant
from privsample.distributions.steps.transition_kernels import Kernel, UniformReset
from privsample.errors import NumericalFailure
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism
from privsample.mechanisms.draws import one_by_one
from privsample.mechanisms.examples import Example
from privsample.mechanisms.neighbours import Draw, Neighbours
from privsample.mechanisms.noise.additive import AdditiveNoise, GaussianMechanism
from privsample.mechanisms.noise.exact import check_fine_grid
from privsample.mechanisms.noise.sums import ClippedSum, GaussianSum
from privsample.mechanisms.postprocessing.convolution import PostNoise, PostProcessing
from privsample.mechanisms.selection.repetition import check_mechanism_type


@frozen_value
class AppliedKernel(PostProcessing):
    """A Markov kernel of your own after `base`: one random step from everything that the base releases.

    The base releases one array of numbers, with one draw. `release` takes the base's data, and draws the base's name.
    `of` makes the step from an existing release. The account follows from the constants that the kernel states, and has
    the assumption STATED.

    Parameters
    ----------
    base : Mechanism
        The inner mechanism, whose data `release` takes; with `draws=1`.
    kernel : Kernel
        The kernel: a subclass of your own, `StatedKernel` with a function, or `UniformReset`.

    Raises
    ------
    TypeError
        If `base` is not a mechanism, `kernel` is not a Kernel, or the kernel's constant needs Gaussian noise.
    ValueError
        If the base makes several draws, a constant is outside its range, or the kernel states `displacement_zcdp` and
        the base has a `grid` coarser than 2^-30 of its noise.

    Notes
    -----
    Balle, Barthe, Gaboardi and Geumlek 2019, Theorems 1 and 2; docs/notes/kernels.md. Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> base = ps.GaussianMechanism(sensitivity=1, noise_std=1)
    >>> mechanism = ps.AppliedKernel(base=base, kernel=ps.UniformReset(keep=0.2, low=-5, high=5))
    >>> round(float(base.accountant.delta(1.0)), 4), round(float(mechanism.accountant.delta(1.0)), 4)
    (0.1269, 0.0254)
    >>> mechanism.release(2.0)["statistic"].shape
    (1,)
    """

    base: Mechanism
    kernel: Kernel
    command = CommandLine(help={"kernel": 'the kernel, e.g. "uniform-reset keep=0.5 low=0 high=1"'})

    def __post_init__(self) -> None:
        check_mechanism_type(self.base)
        if not isinstance(self.kernel, Kernel):
            raise TypeError(
                f"kernel must be a Kernel, such as StatedKernel(...), got {type(self.kernel).__name__}; a matrix of "
                "probabilities goes to MarkovKernel"
            )
        if getattr(self.base, "draws", 1) != 1:
            raise ValueError("base must make one draw, because the kernel moves all that it releases: set draws=1")
        if self.kernel.displacement_zcdp < np.inf:
            _check_gaussian_noise(self.base)
        self.accountant  # noqa: B018 - building it checks the constants

    @cached
    def accountant(self) -> AppliedKernelAccountant:
        """The account after the kernel, from the constants that it states."""
        return AppliedKernelAccountant(
            base=self.base.accountant,
            dobrushin=self.kernel.dobrushin,
            doeblin=self.kernel.doeblin,
            ultra_mixing=self.kernel.ultra_mixing,
            displacement_zcdp=self.kernel.displacement_zcdp,
            privacy_points=self.kernel.privacy_points,
            assumptions=drawing_assumptions(exact=self.kernel.draws_exactly) | {Assumption.STATED},
        )

    @property
    def quantity(self) -> str:
        """The label "output of the kernel"."""
        return "output of the kernel"

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example, and a mutant that keeps the release more often than stated."""
        base = GaussianMechanism(sensitivity=2, noise_std=1)
        example = cls(base=base, kernel=UniformReset(keep=0.4, low=0, high=2))
        broken = UniformReset(keep=0.9, low=0, high=2)
        return (
            Example.with_wrong_fields(
                "applied-kernel",
                example,
                kernel=broken,
                bug="it keeps the release more often than stated",
                samples=2_000,
            ),
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The worst neighbours of the base."""
        group = positive_integer(group=group)
        return tuple(
            replace(pair, account=self.accountant, draw=one_by_one(self), loss=None, width=pair.width + 1)
            for pair in self.base.worst_neighbours(group)
        )

    def _many_draws(self, outer: Mechanism) -> Draw | None:
        return one_by_one(outer)

    def _check_generator(self, rng: np.random.Generator | None) -> None:
        """Try the kernel on zeros of the base's shape, where it is public, before data are read."""
        PostProcessing._check_generator(self, rng)
        if isinstance(self.base, AdditiveNoise):
            zeros = np.zeros((1, *self.base.shape))
            moved = numbers_of(self.kernel.step(zeros, np.random.default_rng(0)), "the kernel's step")
            _check_one_draw(moved, zeros.shape)

    def _step(self, draws: Draws, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        if len(draws) != 1:
            raise TypeError(f"base must release one array, got {', '.join(sorted(draws))}")
        ((name, x),) = draws.items()
        moved = numbers_of(self.kernel.step(np.asarray(x, dtype=np.float64), rng), "the kernel's step")
        _check_one_draw(moved, np.shape(x))
        if np.isnan(moved).any():
            raise NumericalFailure("the kernel returned NaN, so nothing is released")
        return {name: moved}


def _check_one_draw(moved: FloatArray, before: tuple[int, ...]) -> None:
    """Raise TypeError unless the array holds one draw, as that before the step does."""
    if moved.ndim == 0 or len(moved) != before[0]:
        raise TypeError(
            f"the kernel's step must return an array whose first axis, of the draws, has length {before[0]}, as in the "
            f"released array of shape {before}; got shape {moved.shape}"
        )


def _check_gaussian_noise(base: Mechanism) -> None:
    """Check that the release is a statistic plus Gaussian noise, in the unit in which its account states both.

    Raises: TypeError; ValueError, if the noise was rounded to a coarse grid.
    """
    match base:
        case PostNoise():
            _check_gaussian_noise(base.base)
        case GaussianMechanism() | GaussianSum() | ClippedSum():
            check_fine_grid(base, base.noise_std, step="a kernel with displacement_zcdp")
        case _:
            raise TypeError(
                "displacement_zcdp needs a GaussianMechanism, a GaussianSum or a ClippedSum as base, or PostNoise "
                "after a GaussianMechanism, because the displacement is measured in the unit of its release, got "
                f"{type(base).__name__}; state mixing constants"
            )
