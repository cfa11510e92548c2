"""Diffusions of a statistic: a release can move to more private noise levels without new access to the data."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any, Self

import numpy as np

from privsample._checks import FloatArray, check_memory, generator, listed, positive, positive_integer
from privsample._entropy import draw_with_entropy_check
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.postprocessing.diffusion import diffused
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.records import default_pitch
from privsample.distributions.noise import GaussianNoise
from privsample.distributions.steps.diffusions import (
    BrownianDiffusion,
    Diffusion,
    GaussianDiffusion,
    OrnsteinUhlenbeckDiffusion,
)
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism, Wrapper
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.examples import Example
from privsample.mechanisms.neighbours import Draw, Loss, Neighbours
from privsample.mechanisms.noise.additive import GaussianMechanism
from privsample.mechanisms.noise.exact import ExactNoise, check_fine_grid
from privsample.mechanisms.noise.neighbours import describe_moved_statistic, moved_statistic, shifted_loss
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.postprocessing.convolution import LARGEST, account_of_step
from privsample.mechanisms.release import Release
from privsample.relations import AddRemove, Relation

_DEFAULT = AddRemove()


def _scaled_by_square(ratio: float, fields: Mapping[str, Any]) -> float:
    unit = positive(sensitivity=fields["sensitivity"]) ** 2
    return unit * ratio


class DiffusionMechanism(Mechanism):
    """Base class: a statistic of public shape, diffused for `time`; entries that are not finite count as 0.

    `release` takes the statistic, an array of shape `shape`, and releases "statistic", shape (1, *shape).
    """

    __slots__ = ()
    sensitivity: float
    time: float
    shape: tuple[int, ...]
    relation: Relation

    @property
    @abstractmethod
    def distribution(self) -> Diffusion:
        """The diffusion, whose transitions are drawn."""

    def _check_fields(self) -> None:
        shape = tuple(positive_integer(**{f"shape[{i}]": size}) for i, size in enumerate(listed(shape=self.shape)))
        set_fields(self, time=positive(time=self.time), sensitivity=positive(sensitivity=self.sensitivity), shape=shape)
        check_memory(prod(shape), lower="shape")
        self.accountant  # noqa: B018 - building it checks the rest

    @cached
    def _reader(self) -> GaussianMechanism:
        """A Gaussian mechanism for statistics of this shape, which reads and checks the data."""
        return GaussianMechanism(sensitivity=self.sensitivity, noise_std=1.0, relation=self.relation, shape=self.shape)

    def _statistic(self, data: Any) -> FloatArray:
        return self._reader._statistic(data)

    def _draw(self, statistic: FloatArray, rng: np.random.Generator) -> Draws:
        return {"statistic": self._move(statistic[None], self.time, rng)}

    def validate(self, data: Any) -> CuratorNotes:
        """Count the entries that are not finite and would count as 0, for the curator only. Raises SchemaError."""
        return self._reader.validate(data)

    @property
    def quantity(self) -> str:
        """The label "statistic after a diffusion"."""
        return "statistic after a diffusion"

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """A statistic of 0, and one whose first coordinate is moved by `group` times the sensitivity."""
        group = positive_integer(group=group)
        return (self._neighbours(group, lambda base: base, self.accountant, levels=1),)

    def _neighbours(
        self, group: int, around: Callable[[Self], Mechanism], account: Accountant, *, levels: int
    ) -> Neighbours:
        """The pair for `levels` noise levels; the first determines the loss, the others are post-processing."""
        shift = group * self.sensitivity
        return Neighbours(
            account=account,
            descriptions=describe_moved_statistic(shift),
            datasets=moved_statistic(self.shape, shift),
            draw=self._paths(around),
            loss=self._path_loss(shift),
            width=levels * self._dimension,
        )

    def _path_loss(self, shift: float) -> Loss | None:
        """The loss of paths, shape (count, levels * dimension), for two statistics at this distance, where known."""
        del shift
        return None

    def _many_draws(self, outer: Mechanism) -> Draw | None:
        if outer is self:
            return self._paths(lambda base: base)
        return self._paths(lambda base: replace(outer, base=base)) if isinstance(outer, MultilevelRelease) else None

    def _paths(self, around: Callable[[Self], Mechanism]) -> Draw:
        """Many paths, shape (count, levels * dimension): one release of each."""

        def draw(data: Any, count: int, rng: np.random.Generator) -> FloatArray:
            one = around(self)
            return np.array([one.release(data, rng=rng)["statistic"].ravel() for _ in range(count)])

        return draw

    def at(self, time: float) -> Self:
        """The same diffusion after another time.

        Parameters
        ----------
        time : float
            The time, finite and > 0.

        Returns
        -------
        DiffusionMechanism
            The diffusion at that time, of the same class.
        """
        return replace(self, time=time)  # type: ignore[type-var]

    def _in_floats(self) -> Self:
        """The same diffusion, drawn in floating-point numbers: what a step from rounded numbers is accounted as."""
        return self

    def diffuse(self, release: Release, *, time: float, rng: np.random.Generator | None = None) -> Release:
        """Continue a release of this diffusion to a later time, without new access to the data.

        The result is more private. The cost for an observer of both releases is that of the earlier one. The same holds
        for several later releases: they share its noise, so together they may reveal more than the sum of their
        accounts, but never more than the earlier release.

        Parameters
        ----------
        release : Release
            A release of this diffusion, at any time.
        time : float
            The later time, finite and greater than the time of the release.
        rng : numpy.random.Generator, optional
            Random generator, for simulations: the account then assumes RNG_FRESH. None draws from the system's entropy.

        Returns
        -------
        Release
            The release at the later time, with its own account.

        Raises
        ------
        ValueError
            If the time is not later, if the release is not one of this diffusion, for example because it was processed,
            or if it lies on a `grid` coarser than 2^-30 of its noise.
        TypeError
            If it is not a Release.
        """
        began = getattr(release, "mechanism", None)
        own = self._in_floats()
        same = isinstance(began, DiffusionMechanism) and began._in_floats().at(self.time) == own
        start = began if same and isinstance(began, DiffusionMechanism) else self
        start._check_continuable()
        source, account = generator(rng), account_of_step(own.at(time), start, release, rng)
        gone = _time_between(start.time, time)
        moved = draw_with_entropy_check(source, lambda: self._move(release["statistic"], gone, source))
        partly = release.partly_digested
        return Release(mechanism=own.at(time), draws={"statistic": moved}, account=account, partly_digested=partly)

    def _check_continuable(self) -> None:
        """Check that the account of a later time holds after a release of this one. Raises: ValueError."""

    def _move(self, state: FloatArray, time: float, rng: np.random.Generator) -> FloatArray:
        """The state after a further `time`."""
        with np.errstate(over="ignore"):
            return np.clip(self.distribution.step(state, time, rng), -LARGEST, LARGEST)

    @property
    def _dimension(self) -> int:
        return int(np.prod(self.shape)) if self.shape else 1


class GaussianDiffusionMechanism(ExactNoise, DiffusionMechanism):
    """Base class: a diffusion with Gaussian transitions, whose account is exact.

    With `exact` the first release is drawn exactly. A release that `diffuse` continues, or a later level of one path,
    adds floating-point noise to rounded numbers: its own account assumes IDEAL_REALS, that of the path does not.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def distribution(self) -> GaussianDiffusion:
        """The transition distribution of the diffusion."""

    @cached
    def accountant(self) -> GaussianAccountant:
        """The exact account at `time`."""
        ideal = diffused(self.distribution, self.time, self.sensitivity, self.relation)
        return replace(ideal, assumptions=self._assumptions | {Assumption.TRUSTED_SENSITIVITY})

    @property
    def _released_name(self) -> str:
        return "statistic"

    def _exact_grid(self) -> Grid:
        ideal = diffused(self.distribution, self.time, self.sensitivity, self.relation)
        return Grid(pitch=self.grid or default_pitch(ideal.noise_std))

    def _check_fields(self) -> None:
        self._check_exact()
        DiffusionMechanism._check_fields(self)

    def _in_floats(self) -> Self:
        return replace(self, exact=False, grid=None)  # type: ignore[type-var]

    def _check_continuable(self) -> None:
        check_fine_grid(self, self.accountant.noise_std, step="a later time")

    @cached
    def _reader(self) -> GaussianMechanism:
        """The Gaussian mechanism whose output is this one's, except for the factor `distribution.shrink(time)`."""
        noise_std = self.accountant.noise_std
        return GaussianMechanism(
            sensitivity=self.sensitivity,
            noise_std=noise_std,
            relation=self.relation,
            shape=self.shape,
            exact=self.exact,
            grid=self.pitch,
        )

    def _draw(self, statistic: FloatArray, rng: np.random.Generator) -> Draws:
        noisy = self._reader._draw(statistic, rng)["statistic"]
        return {"statistic": self.distribution.shrink(self.time) * noisy}

    def _path_loss(self, shift: float) -> Loss:
        """The loss of the first level, which the others post-process."""
        deviation = float(np.sqrt(self.distribution.variance(self.time)))
        loss = shifted_loss(GaussianNoise(noise_std=deviation), 0.0, self.distribution.shrink(self.time) * shift)
        return lambda path: loss(path[:, :1])

    def _paths(self, around: Callable[[Self], Mechanism]) -> Draw:
        """Coordinates diffuse independently, so one release of many equal statistics gives as many draws."""

        def draw(data: Any, count: int, rng: np.random.Generator) -> FloatArray:
            shape = (count, *self.shape)
            many = around(replace(self, shape=shape))  # type: ignore[type-var]
            entries = self._reader._entries(data)  # raises SchemaError before they are repeated
            path = many.release(np.broadcast_to(entries, shape), rng=rng)["statistic"]
            return np.asarray(np.moveaxis(path, 0, 1))

        return draw

    def mean_squared_error(self, norm: float) -> float:
        """The expected squared L2 error of a release, E|release - statistic|^2.

        Parameters
        ----------
        norm : float
            L2 norm of the statistic, >= 0, in its unit.

        Returns
        -------
        float
            The error: squared bias plus total variance.

        Notes
        -----
        Balle, Barthe, Gaboardi and Geumlek 2019, equation (4). Kind: exact.
        """
        kept = self.distribution.shrink(self.time)
        return float(
            ((1.0 - kept) * norm) * ((1.0 - kept) * norm) + self._dimension * self.distribution.variance(self.time)
        )


def _time_between(start: float, end: float) -> float:
    """The time between two times. Raises ValueError if the second is not later."""
    if not positive(time=end) > start:
        raise ValueError(f"times must increase: a release at time {start:g} cannot diffuse to time {end:g}")
    return end - start


@frozen_value
class BrownianMotion(GaussianDiffusionMechanism):
    """Brownian motion that starts at a statistic: Gaussian noise of variance 2 `time` on each entry.

    `release` takes the statistic, an array of shape `shape`, and releases "statistic", shape (1, *shape). `diffuse`
    continues a release to a later time.

    Parameters
    ----------
    sensitivity : float
        Largest L2 distance between the statistics of two neighbouring datasets, finite and > 0, in the statistic's
        unit.
    time : float
        Time of the diffusion dX = sqrt(2) dW, finite and > 0, in squared units of the statistic.
    relation : Relation, default AddRemove()
        The neighbouring relation: `AddRemove()`, or `ReplaceOne(n=...)` for a public number of records n.
    shape : tuple of int, default ()
        Public shape of the statistic; () is a single number.
    exact : bool, default True
        True draws exact noise and rounds its sum with the statistic to `grid`, so that the
        account of the first release does not assume IDEAL_REALS. False adds floating-point numbers.
    grid : float, optional
        Distance of the grid points, a power of two, in the statistic's unit. By default 2^-40 of the noise's scale.

    Raises
    ------
    ValueError
        If a field lies outside its range.

    Notes
    -----
    Balle, Barthe, Gaboardi and Geumlek 2019, section 5. Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.BrownianMotion(sensitivity=1, time=10)
    >>> release = mechanism.release(212.0)
    >>> later = mechanism.diffuse(release, time=40)
    >>> round(float(release.account.epsilon(1e-6)), 3), round(float(later.account.epsilon(1e-6)), 3)
    (0.941, 0.447)
    """

    sensitivity: float
    time: float
    relation: Relation = AddRemove()
    shape: tuple[int, ...] = ()
    exact: bool = True
    grid: float | None = None
    free_parameters = (
        FreeParameter(
            name="time",
            direction="smallest",
            value=_scaled_by_square,
            advice="ask for delta > 0, or for a Rényi or zCDP guarantee",
        ),
    )
    command = CommandLine(data=("statistic",), help={"time": "the diffusion time: the noise has variance 2 time"})

    def __post_init__(self) -> None:
        self._check_fields()

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example, and a mutant that stops the diffusion too early."""
        example = cls(sensitivity=1, time=0.5, shape=(2,))
        return (Example.with_wrong_fields("brownian-motion", example, time=0.35, bug="stopped too early"),)

    @property
    def distribution(self) -> BrownianDiffusion:
        """Brownian motion, dX = sqrt(2) dW."""
        return BrownianDiffusion()


@frozen_value
class OrnsteinUhlenbeck(GaussianDiffusionMechanism):
    """An Ornstein-Uhlenbeck process that starts at a statistic, shrinks it towards 0 and adds Gaussian noise.

    The output is e^(-theta time) times the statistic, plus noise of variance rho^2/theta (1 - e^(-2 theta time)) on
    each entry. `release` takes the statistic, an array of shape `shape`, and releases "statistic", shape (1, *shape).

    Parameters
    ----------
    sensitivity : float
        Largest L2 distance between the statistics of two neighbouring datasets, finite and > 0, in the statistic's
        unit.
    theta : float
        Rate of mean reversion, finite and > 0, per unit of time.
    rho : float
        Diffusion rate of the noise, finite and > 0.
    time : float
        Time of the diffusion, finite and > 0.
    relation : Relation, default AddRemove()
        The neighbouring relation: `AddRemove()`, or `ReplaceOne(n=...)` for a public number of records n.
    shape : tuple of int, default ()
        Public shape of the statistic; () is a single number.
    exact : bool, default True
        True draws exact noise and rounds its sum with the statistic to `grid`, before the factor, so that the
        account of the first release does not assume IDEAL_REALS. False adds floating-point numbers.
    grid : float, optional
        Distance of the grid points, a power of two, in the statistic's unit. By default 2^-40 of the noise's scale.

    Raises
    ------
    ValueError
        If a field lies outside its range.

    Notes
    -----
    Balle, Barthe, Gaboardi and Geumlek 2019, section 5. Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.OrnsteinUhlenbeck.optimal(sensitivity=1, radius=10, zcdp=0.1)
    >>> round(float(mechanism.accountant.epsilon(1e-6)), 3), round(mechanism.mean_squared_error(10), 3)
    (1.995, 4.762)
    """

    sensitivity: float
    theta: float
    rho: float
    time: float
    relation: Relation = AddRemove()
    shape: tuple[int, ...] = ()
    exact: bool = True
    grid: float | None = None
    command = CommandLine(
        data=("statistic",),
        help={"theta": "the rate of mean reversion", "rho": "the rate of the noise", "time": "how long it diffuses"},
    )

    def __post_init__(self) -> None:
        set_fields(self, theta=self.distribution.theta, rho=self.distribution.rho)
        self._check_fields()

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example, and a mutant that stops the diffusion too early."""
        example = cls(sensitivity=1, theta=1, rho=1, time=0.5)
        return (Example.with_wrong_fields("ornstein-uhlenbeck", example, time=0.35, bug="stopped too early"),)

    @property
    def distribution(self) -> OrnsteinUhlenbeckDiffusion:
        """The Ornstein-Uhlenbeck process with rate of mean reversion `theta` and diffusion rate `rho`."""
        return OrnsteinUhlenbeckDiffusion(theta=self.theta, rho=self.rho)

    @property
    def _grid(self) -> None:
        """None: the points of the grid are multiplied by e^(-theta time)."""
        return None

    @classmethod
    def optimal(
        cls,
        *,
        sensitivity: float,
        radius: float,
        zcdp: float,
        relation: Relation = _DEFAULT,
        shape: tuple[int, ...] = (),
    ) -> Self:
        """The process at time 1 with the least worst-case squared error under a zCDP guarantee.

        The worst case is over statistics of norm at most R = `radius`. For a statistic of d numbers and sensitivity s,
        the least error is d s^2 R^2 / (2 zcdp R^2 + d s^2).

        Parameters
        ----------
        sensitivity : float
            Largest L2 distance s between the statistics of two neighbouring datasets, finite and > 0, in the
            statistic's unit.
        radius : float
            Bound R on the L2 norm of the statistic, finite and > 0, in its unit.
        zcdp : float
            The zCDP parameter, finite and > 0: rdp(a) <= a zcdp, in nats.
        relation : Relation, default AddRemove()
            The neighbouring relation: `AddRemove()`, or `ReplaceOne(n=...)` for a public number of records n.
        shape : tuple of int, default ()
            Public shape of the statistic; () is a single number.

        Returns
        -------
        OrnsteinUhlenbeck
            The mechanism. Its parameters are rounded such that the guarantee holds.

        Notes
        -----
        Balle, Barthe, Gaboardi and Geumlek 2019, Theorem 8; docs/notes/diffusion.md.
        """
        rate = positive(zcdp=zcdp)
        spread = max(int(np.prod(shape)), 1) * positive(sensitivity=sensitivity) ** 2 / 2 / rate
        theta = float(np.log1p(spread / positive(radius=radius) ** 2))
        rho = float(sensitivity * np.sqrt(theta / (2 * rate * np.expm1(2 * theta))))
        rho *= (
            1 + (32 + 16 * theta) * np.finfo(float).eps
        )  # more than the rounding error of rho, so that the account is at most zcdp
        return cls(sensitivity=sensitivity, theta=theta, rho=rho, time=1.0, relation=relation, shape=shape)


@frozen_value
class MultilevelRelease(Wrapper):
    """One path of a diffusion, released at several noise levels: at `base.time` and at each of the later `times`.

    All levels together cost what the first level costs, because the others are post-processing of it. Each level alone
    costs less; `split_levels` makes one release of each level, for observers who see one level each. `release` takes
    the base's statistic, and releases "statistic", shape (levels, *shape), the least noisy level first.

    Parameters
    ----------
    base : DiffusionMechanism
        The diffusion, a BrownianMotion, OrnsteinUhlenbeck or DiffusedStatistic, at the time of the least noisy level.
    times : tuple of float
        The later times, increasing, finite and greater than `base.time`.

    Raises
    ------
    TypeError
        If the base is not a diffusion.
    ValueError
        If the times do not increase.

    Notes
    -----
    Balle, Barthe, Gaboardi and Geumlek 2019, section 5; docs/notes/diffusion.md. Kind: exact.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.MultilevelRelease(base=ps.BrownianMotion(sensitivity=1, time=10), times=(40, 160))
    >>> release = mechanism.release(212.0)
    >>> [round(float(level.account.epsilon(1e-6)), 3) for level in mechanism.split_levels(release)]
    [0.941, 0.447, 0.213]
    """

    base: DiffusionMechanism
    times: tuple[float, ...]
    _checks_entropy = False  # there is no long work between the draws
    command = CommandLine(
        help={"base": 'the diffusion, e.g. "brownian-motion sensitivity=1 time=0.5"', "times": "the later times"}
    )

    def __post_init__(self) -> None:
        if not isinstance(self.base, DiffusionMechanism):
            raise TypeError(
                f"base must be BrownianMotion, OrnsteinUhlenbeck or DiffusedStatistic, got {type(self.base).__name__}"
            )
        set_fields(
            self, times=tuple(positive(**{f"times[{i}]": time}) for i, time in enumerate(listed(times=self.times)))
        )
        for start, end in pairwise((self.base.time, *self.times)):
            _time_between(start, end)

    @cached
    def accountant(self) -> Accountant:
        """The account of the least noisy level, which covers all levels."""
        return self.base.accountant

    def _draw(self, statistic: FloatArray, rng: np.random.Generator) -> Draws:
        path = [self.base._draw(statistic, rng)["statistic"]]
        for start, end in pairwise((self.base.time, *self.times)):
            path.append(self.base._move(path[-1], _time_between(start, end), rng))
        return {"statistic": np.concatenate(path)}

    def _many_draws(self, outer: Mechanism) -> Draw | None:
        return self.base._many_draws(outer)

    @property
    def quantity(self) -> str:
        """The label "noisy statistic"."""
        return "noisy statistic"

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A mutant whose first level is released too early."""
        motion = BrownianMotion(sensitivity=1, time=0.5)
        example, bug = cls(base=motion, times=(1.0, 2.0)), "the first noise level is released too early"
        return (Example.with_wrong_fields("multilevel-release", example, base=motion.at(0.35), bug=bug),)

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The base's worst neighbours, with all levels released."""
        group = positive_integer(group=group)
        levels = 1 + len(self.times)
        return (self.base._neighbours(group, lambda base: replace(self, base=base), self.accountant, levels=levels),)

    def split_levels(self, release: Release) -> tuple[Release, ...]:
        """Each noise level as a release of its own, with its own account.

        Parameters
        ----------
        release : Release
            A release of this mechanism.

        Returns
        -------
        tuple of Release
            One release for each level, the least noisy first. The cost for an observer of several levels is that of the
            least noisy one.

        Raises
        ------
        ValueError
            If the release is not one of this mechanism, or the base has a `grid` coarser than 2^-30 of its noise.
        TypeError
            If it is not a Release.
        """
        self.base._check_continuable()
        added = account_of_step(self, self, release, None).assumptions - self.accountant.assumptions
        found = []
        levels = (self.base, *(self.base._in_floats().at(time) for time in self.times))
        for own, draw in zip(levels, release["statistic"], strict=True):
            account = own._account_with_rng if Assumption.RNG_FRESH in added else own._own_account
            partly = release.partly_digested
            found.append(
                Release(mechanism=own, draws={"statistic": draw[None]}, account=account, partly_digested=partly)
            )
        return tuple(found)
