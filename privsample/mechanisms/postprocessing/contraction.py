"""Lipschitz maps, noise and projections applied in steps to a Gaussian release (amplification by iteration)."""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, listed, nonnegative, positive_integer
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.postprocessing.contraction import contracted
from privsample.distributions.steps.maps import Ball, Box, LipschitzMap, Scaling
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism
from privsample.mechanisms.examples import Example
from privsample.mechanisms.neighbours import Neighbours
from privsample.mechanisms.noise.additive import GaussianMechanism
from privsample.mechanisms.noise.exact import check_fine_grid
from privsample.mechanisms.postprocessing.convolution import LARGEST, PostProcessing
from privsample.mechanisms.postprocessing.neighbours import neighbours_after_noise


@frozen_value
class NoisyStep:
    """One step x -> P(map(x) + noise) of a Markov chain, with a Lipschitz map and an optional projection P.

    Parameters
    ----------
    map : LipschitzMap
        The map: `Affine`, `Scaling`, `Ball`, `Box`, or `StatedMap` with a function of the caller.
    noise_std : float
        Standard deviation of the Gaussian noise on each coordinate, finite and >= 0.
    onto : Ball or Box, optional
        The convex set onto which P projects. None omits the projection.
    constant : float, optional
        Lipschitz constant of the map in L2, at least the constant derived from the map, which is the default. A
        constant above 1 is allowed: the step then does not contract, but its noise still amplifies privacy.

    Raises
    ------
    TypeError
        If `map` or `onto` is of another type.
    ValueError
        If a number lies outside its range, or `constant` is below `map.constant`.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> step = ps.NoisyStep(map=ps.Scaling(factor=0.8), noise_std=0.0, onto=ps.Ball(radius=1.0))
    >>> step.constant
    0.8
    >>> step(np.array([[0.5], [5.0]]), np.random.default_rng(0)).round(3).tolist()
    [[0.4], [1.0]]
    """

    map: LipschitzMap
    noise_std: float
    onto: Ball | Box | None = None
    constant: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.map, LipschitzMap):
            raise TypeError(
                f"map must be Affine, Scaling, Ball, Box, or StatedMap with your function, got "
                f"{type(self.map).__name__}"
            )
        if not isinstance(self.onto, Ball | Box | None):
            raise TypeError(f"onto must be Ball(...), Box(...) or None, got {type(self.onto).__name__}")
        derived = self.map.constant
        constant = derived if self.constant is None else nonnegative(constant=self.constant)
        if not constant >= derived:
            raise ValueError(
                f"constant must be at least {derived:.17g}, which is derived from the map, got {constant:g}"
            )
        set_fields(self, noise_std=nonnegative(noise_std=self.noise_std), constant=constant)

    def __call__(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Apply one step to the states x, shape (draws, ...), with noise from `rng`."""
        with np.errstate(over="ignore", invalid="ignore"):
            mapped = np.nan_to_num(self.map(x))  # the map may overflow for values near the largest double
            noisy = np.clip(mapped + self.noise_std * rng.standard_normal(mapped.shape), -LARGEST, LARGEST)
            return noisy if self.onto is None else np.nan_to_num(self.onto(noisy))


@frozen_value
class NoisyContraction(PostProcessing):
    """Noisy steps applied to a Gaussian release; only the last state is released.

    The noise of every step amplifies the privacy of the release (amplification by iteration). The maps act on the last
    axis of the statistic; a single number is treated as a vector of length 1. `release` takes the base's data; its
    draws have the base's names.

    Parameters
    ----------
    base : Mechanism
        A GaussianMechanism, or another NoisyContraction.
    steps : tuple of NoisyStep
        The steps in the order in which they are applied, at least one.

    Raises
    ------
    TypeError
        If the base or a step is of another type.
    ValueError
        If the maps do not accept the shape of the statistic, or the base has a `grid` coarser than 2^-30 of its noise.

    Notes
    -----
    Balle, Barthe, Gaboardi and Geumlek 2019, equation (2); Bok, Su and Altschuler 2024; docs/notes/contraction.md.
    Kind: exact for the worst maps with these constants.

    Examples
    --------
    >>> import privsample as ps
    >>> base = ps.GaussianMechanism(sensitivity=1, noise_std=2)
    >>> step = ps.NoisyStep(map=ps.Scaling(factor=0.8), noise_std=1.0)
    >>> mechanism = ps.NoisyContraction(base=base, steps=(step, step))
    >>> round(float(base.accountant.epsilon(1e-6)), 3), round(float(mechanism.accountant.epsilon(1e-6)), 3)
    (2.254, 1.543)
    """

    base: Mechanism
    steps: tuple[NoisyStep, ...]
    command = CommandLine(
        help={"steps": 'a step, e.g. "map=(scaling factor=0.8) noise-std=1"; several, each in parentheses'}
    )

    def __post_init__(self) -> None:
        set_fields(self, steps=listed(steps=self.steps))
        if not all(isinstance(step, NoisyStep) for step in self.steps) or not self.steps:
            raise TypeError("steps must be a list of NoisyStep(...), at least one")
        self.shape, self.accountant  # noqa: B018 - computing them checks the base and its noise
        try:
            self._end  # noqa: B018 - computing it applies each map once, which checks the shapes
        except ValueError as error:
            raise ValueError(f"the maps do not fit a statistic of shape {self.shape}: {error}") from None

    @property
    def quantity(self) -> str:
        """The label "state after noisy steps"."""
        return "state after noisy steps"

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example, and a mutant whose base adds too little noise."""
        step = NoisyStep(map=Scaling(factor=0.8), noise_std=1.0)
        example = cls(base=GaussianMechanism(sensitivity=1, noise_std=1), steps=(step,))
        quiet = GaussianMechanism(sensitivity=1, noise_std=0.5)
        bug = "its first noise is smaller than stated"
        return (Example.with_wrong_fields("contraction", example, base=quiet, bug=bug, samples=50_000),)

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The worst neighbours of the Gaussian mechanism at the start of the chain."""
        group = positive_integer(group=group)
        return neighbours_after_noise(self, group, width=prod(self.shape), loss=lambda account, shift: None)  # noqa: ARG005

    @cached
    def shape(self) -> tuple[int, ...]:
        """Shape of the statistic at the start of the chain."""
        match self.base:
            case NoisyContraction():
                return self.base._end
            case GaussianMechanism(shape=shape, noise_std=noise_std):
                check_fine_grid(self.base, noise_std, step="NoisyContraction")
                return shape
        raise TypeError(f"base must be a GaussianMechanism or a NoisyContraction, got {type(self.base).__name__}")

    @cached
    def _end(self) -> tuple[int, ...]:
        """Shape of the last state."""
        x = self._vectors(np.zeros((1, *self.shape)))
        for step in self.steps:
            x = step.map(x)
            x = x if step.onto is None else step.onto(x)
        return self._numbers(x).shape[1:]

    def _vectors(self, x: FloatArray) -> FloatArray:
        return x if self.shape else x[..., None]

    def _numbers(self, x: FloatArray) -> FloatArray:
        return x if self.shape or x.shape[1:] != (1,) else x[..., 0]

    @cached
    def accountant(self) -> Accountant:
        """The account after all steps, for the best shifts (docs/notes/contraction.md); exact for the worst maps."""
        noise_stds = tuple(step.noise_std for step in self.steps)
        return contracted(self.base.accountant, noise_stds, tuple(float(step.constant or 0.0) for step in self.steps))

    def _step(self, draws: Draws, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        states = {}
        for name, x in draws.items():
            state = self._vectors(x)
            for step in self.steps:
                state = step(state, rng)
            states[name] = self._numbers(state)
        return states
