"""A statistic that diffuses by the user's own diffusion."""

import numpy as np

from privsample._checks import FloatArray, nonnegative, numbers_of
from privsample._value import cached, frozen_value
from privsample.accounting.base import Accountant
from privsample.accounting.postprocessing.diffusion import diffused, diffusion_account
from privsample.distributions.steps.diffusions import Diffusion, GaussianDiffusion, OrnsteinUhlenbeckDiffusion
from privsample.errors import NumericalFailure
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.examples import Example
from privsample.mechanisms.postprocessing.diffusion import DiffusionMechanism
from privsample.relations import AddRemove, Relation

_ADVICE = "ask for delta > 0, or for a Rényi or zCDP guarantee; the diffusion must forget its start"


@frozen_value
class DiffusedStatistic(DiffusionMechanism):
    """A diffusion of your own that starts at a statistic: `diffusion` draws the transitions and bounds their cost.

    `release` takes the statistic, an array of shape `shape`, and releases "statistic", shape (1, *shape). An entry that
    is not a finite number counts as 0. `diffuse` continues a release to a later time, and `MultilevelRelease` releases
    several times of one path. The account holds if the diffusion is as stated; it has the assumption STATED, unless the
    diffusion is one of the library.

    Parameters
    ----------
    diffusion : Diffusion
        The diffusion: a subclass of your own, or `StatedDiffusion` with functions.
    sensitivity : float
        Largest L2 distance between the statistics of two neighbouring datasets, finite and > 0, in the statistic's
        unit.
    time : float
        Time of the diffusion, finite and > 0, in the unit of `diffusion`.
    relation : Relation, default AddRemove()
        The neighbouring relation: `AddRemove()`, or `ReplaceOne(n=...)` for a public number of records n.
    shape : tuple of int, default ()
        Public shape of the statistic; () is a single number.

    Raises
    ------
    TypeError
        If `diffusion` is not a Diffusion.
    ValueError
        If a field lies outside its range, or the diffusion's bound is not finite and >= 0.

    Notes
    -----
    Balle, Barthe, Gaboardi and Geumlek 2019, Theorem 6. Kind: upper bound; exact for Gaussian transitions of the
    library.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> motion = ps.StatedDiffusion(
    ...     transition=lambda x, time, rng: x + np.sqrt(2 * time) * rng.standard_normal(x.shape),
    ...     sensitivity_bound=lambda time, distance: distance**2 / (4 * time),
    ... )
    >>> mechanism = ps.DiffusedStatistic(diffusion=motion, sensitivity=1, time=10)
    >>> release = mechanism.release(212.0)
    >>> later = mechanism.diffuse(release, time=40)
    >>> round(float(release.account.rdp(2)), 3), round(float(later.account.rdp(2)), 4)
    (0.05, 0.0125)
    """

    diffusion: Diffusion
    sensitivity: float
    time: float
    relation: Relation = AddRemove()
    shape: tuple[int, ...] = ()
    free_parameters = (FreeParameter(name="time", direction="smallest", advice=_ADVICE),)
    command = CommandLine(
        data=("statistic",),
        help={
            "diffusion": 'the diffusion, e.g. "ornstein-uhlenbeck-diffusion theta=1 rho=1"',
            "time": "how long it diffuses",
        },
    )

    def __post_init__(self) -> None:
        if not isinstance(self.diffusion, Diffusion):
            raise TypeError(
                f"diffusion must be a Diffusion, such as StatedDiffusion(...), got {type(self.diffusion).__name__}"
            )
        self._check_fields()

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example, and a mutant that stops the diffusion too early."""
        example = cls(diffusion=OrnsteinUhlenbeckDiffusion(theta=1, rho=1), sensitivity=1, time=0.5)
        return (
            Example.with_wrong_fields("diffused-statistic", example, time=0.25, bug="stopped too early", samples=5_000),
        )

    @property
    def distribution(self) -> Diffusion:
        """The diffusion, whose transitions are drawn."""
        return self.diffusion

    @cached
    def accountant(self) -> Accountant:
        """The account at `time`, by the intrinsic sensitivity of the diffusion."""
        if isinstance(self.diffusion, GaussianDiffusion):
            return diffused(self.diffusion, self.time, self.sensitivity, self.relation)
        bound = self.diffusion.intrinsic_sensitivity(self.time, self.sensitivity)
        return diffusion_account(nonnegative(intrinsic_sensitivity=bound), self.relation)

    def _check_generator(self, rng: np.random.Generator | None) -> None:
        """Try the transition on zeros before data are read."""
        DiffusionMechanism._check_generator(self, rng)
        self._move(np.zeros((1, *self.shape)), self.time, np.random.default_rng(0))

    def _move(self, state: FloatArray, time: float, rng: np.random.Generator) -> FloatArray:
        """The state after a further `time`. Raises NumericalFailure or TypeError if the user's transition fails."""
        moved = numbers_of(DiffusionMechanism._move(self, state, time, rng), "a transition")
        if moved.shape != state.shape:
            raise TypeError(f"a transition must preserve the shape of the states, {state.shape}, got {moved.shape}")
        if np.isnan(moved).any():
            raise NumericalFailure("a transition of the diffusion returned NaN, so nothing is released")
        return moved
