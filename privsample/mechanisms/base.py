"""The contract: a mechanism draws, its accountant says what that costs."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, generator
from privsample._entropy import check_entropy, draw_with_entropy_check
from privsample._value import Memo, cached, frozen_value
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.targets import Target
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.calibration import FreeParameter, calibrated
from privsample.mechanisms.neighbours import Draw, Neighbours
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.release import Release

if TYPE_CHECKING:
    from privsample.mechanisms.examples import Example

Draws = Mapping[str, NDArray[Any]]
_NOTHING_NOTED = CuratorNotes(title="nothing was noted", facts={})


@frozen_value
class DrawsWithNotes:
    """What one release draws, and what the curator may know of how it went: a `_draw` may return it."""

    draws: Draws
    notes: CuratorNotes = _NOTHING_NOTED


class Mechanism(Memo, ABC):
    """A frozen choice of parameters, all public, that decides the cost before data are seen.

    A subclass is a frozen dataclass of its parameters and says three things more: `accountant`, `_statistic` and
    `_draw`. All else has a default, and the default says when to replace it.

    Attributes
    ----------
    free_parameters : tuple of FreeParameter
        What `calibrate` may choose; the first is its default. Without any, `calibrate` only checks.
    unreachable_advice : str
        What to do where a mechanism without free parameters misses its target: the last words of the error.
    command : CommandLine
        How the mechanism appears on the command line, where its fields do not say enough.
    """

    __slots__ = ()
    free_parameters: ClassVar[tuple[FreeParameter, ...]] = ()
    command: ClassVar[CommandLine] = CommandLine()
    unreachable_advice: ClassVar[str] = "nothing is left to choose: change the parameters"
    # True where `_draw` itself calls `draw_with_entropy_check` around each of its draws, because it does long work
    # between them, as Markov chains are, that an interrupt must be able to end.
    _checks_entropy: ClassVar[bool] = False

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name in ("release", "calibrate"):
            if name in cls.__dict__:
                raise TypeError(
                    f"{cls.__name__} must not define {name}, which is the same for all mechanisms: say how data are "
                    "read in _statistic, how to draw in _draw, and what calibrate may choose in free_parameters"
                )

    @property
    @abstractmethod
    def accountant(self) -> Accountant:
        """The cost of one `release`: a function of the fields alone."""

    @abstractmethod
    def _statistic(self, data: Any) -> Any:
        """What `_draw` needs of the data: read them, check their schema, apply the public rule for odd values.

        Total on the public schema: no record's value can make it fail or change its message.
        Raises: SchemaError, for data of another shape, type or public size.
        """

    @abstractmethod
    def _draw(self, statistic: Any, rng: np.random.Generator) -> Draws | DrawsWithNotes:
        """The draws by name, arrays of shape (draws, ...), from what `_statistic` returned, which stays as it is.

        All randomness comes from `rng`. It may not fail for any data, unless the account covers that it does.
        """

    @final
    def release(self, data: Any, *, rng: np.random.Generator | None = None) -> Release:
        """Draw once. Total on the public schema: no record's value can make it fail.

        Parameters
        ----------
        data
            The records or the statistic, as the class says.
        rng : numpy.random.Generator, optional
            For simulations: it adds the assumption RNG_FRESH. None draws from the system's entropy.

        Returns
        -------
        Release
            The draws, under the names that the class says, with the account.

        Raises
        ------
        SchemaError
            For data of another shape, type or public size.
        TypeError
            For a seed.
        OSError
            Where the operating system gave no entropy. In each case nothing is released.
        """
        return self._release_with_notes(data, rng)[0]

    @final
    def _release_with_notes(self, data: Any, rng: np.random.Generator | None) -> tuple[Release, CuratorNotes]:
        source = generator(rng)
        self._check_generator(rng)
        account = account_of(self, rng)
        found = self._draw_checked(self._statistic(data), source)
        return Release(mechanism=self, draws=found.draws, account=account), found.notes

    @final
    def _draw_checked(self, statistic: Any, rng: np.random.Generator) -> DrawsWithNotes:
        """`_draw`, thrown away if the system's entropy failed: for `release`, and for mechanisms around this one."""
        if self._checks_entropy:
            found = self._draw(statistic, rng)
            check_entropy(rng)
        else:
            found = draw_with_entropy_check(rng, lambda: self._draw(statistic, rng))
        return found if isinstance(found, DrawsWithNotes) else DrawsWithNotes(draws=found)

    def _check_generator(self, rng: np.random.Generator | None) -> None:
        """What else must hold before data are read, of a caller's generator or of an optional package: nothing."""

    @cached
    def _own_account(self) -> Accountant:
        return self.accountant

    @cached
    def _account_with_rng(self) -> Accountant:
        return self._own_account.assuming(Assumption.RNG_FRESH)

    @classmethod
    @final
    def calibrate(cls, *, target: Target, by: str | None = None, **fields: Any) -> Self:
        """The mechanism that just meets the target, on the safe side, by the best value of one free parameter.

        Parameters
        ----------
        target : Target
            The guarantee to be met: `DP`, `RDP`, `ZCDP`, or a share of a ledger.
        by : str, optional
            Which of the class's `free_parameters` to choose: the first by default.
        **fields
            All other fields of the class; those with a default may be left out.

        Returns
        -------
        Self
            The mechanism, whose account was checked. A mechanism without free parameters is checked only.

        Raises
        ------
        UnreachableTarget
            Where no value meets the target; the message says what to change.
        TypeError
            For fields that are unknown, missing, or chosen here.
        """
        return calibrated(cls, cls.free_parameters, target, by=by, given=fields, advice=cls.unreachable_advice)

    def validate(self, data: Any) -> CuratorNotes:
        """The curator's own step: what the public rules would change in these data. Nothing is drawn or spent.

        By default the data are only read. Raises: SchemaError, as `release` would.
        """
        self._statistic(data)
        return CuratorNotes(title="the data have the expected form", facts={})

    @property
    def title(self) -> str:
        """The mechanism's name for people: by default, its class's name in words."""
        return class_in_words(type(self))

    @property
    def description(self) -> str:
        """How the mechanism protects a record, in one line for people who have never heard of it."""
        return "What was released depends partly on chance, and that hides what any single record holds."

    @property
    def quantity(self) -> str:
        """What one released number is, as a short label."""
        return "statistic"

    def for_size(self, size: int) -> "Mechanism":
        """The same mechanism for `size` records, at least one: what `Subsampled` runs on its sample.

        Raises: TypeError, by default: the mechanism does not take records, or none that could be sampled.
        """
        del size
        raise TypeError(
            f"{type(self).__name__} does not take records that could be sampled; "
            "for noise on a sum use GaussianSum, LaplaceSum or ClippedSum"
        )

    def code_count(self) -> int:
        """How many codes there are, where the mechanism releases independent codes of which a neighbour changes one.

        Raises: TypeError, by default: it does not promise that; ValueError, where only these parameters do not.
        """
        raise TypeError(
            f"a kernel takes codes of which a neighbour changes one, and {type(self).__name__} does not promise such; "
            "where it samples records, put the kernel inside: Subsampled(base=MarkovKernel(...), ...)"
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """Pairs of datasets that nearly attain the account of one draw for groups of `group`, for an audit.

        An audit looks at each in both directions. Raises: TypeError, by default: they are not known; ValueError, for
        groups larger than the data, or more records than can be simulated.
        """
        del group
        raise TypeError(
            f"the worst neighbours of {type(self).__name__} are not known to the audit: pass datasets=(first, second) "
            "or a list of such pairs, as neighbouring_pairs makes them"
        )

    def worst_neighbours_through(
        self, outer: "Mechanism", kernels: tuple[FloatArray, ...], group: int
    ) -> tuple[Neighbours, ...]:
        """The worst neighbours of `outer`, which sends each code of this mechanism through the kernels, in turn.

        For mechanisms with a `code_count`. Raises: TypeError, by default: they are not known.
        """
        del outer, kernels, group
        raise TypeError(f"the worst neighbours of a kernel after {type(self).__name__} are not known to the audit")

    def _many_draws(self, outer: "Mechanism") -> Draw | None:
        """Independent outputs of `outer`, many from one release; None, by default: an audit makes a release for each.

        `outer` is this mechanism itself, or what post-processes each of its draws on its own. The function takes the
        data as `release` does. A mechanism defines it only where what it returns is distributed as the outputs of so
        many releases of the same data are, independence included.
        """
        del outer
        return None

    def extreme_records(self) -> NDArray[Any]:
        """Records of the public domain of which one in place of another may reveal most, one along the first axis.

        For audits of `Subsampled`, which search among datasets of these. Raises: TypeError, by default: they are not
        known.
        """
        raise TypeError(
            f"records that may tell most of {type(self).__name__} are not known to the audit: pass datasets"
        )

    @classmethod
    def examples(cls) -> "tuple[Example, ...]":
        """Small instances, each with a mutant that audits must catch; none, by default.

        `privsample audit` lists them by name, and the tests hold them to the distributions that every mechanism obeys.
        """
        return ()


def class_in_words(kind: type) -> str:
    """A class's name with spaces: "Noisy median"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).capitalize()


class Wrapper(Mechanism):
    """A mechanism around another, its field `base`, whose data it takes."""

    __slots__ = ()
    base: Mechanism
    _checks_entropy: ClassVar[bool] = True

    def _statistic(self, data: Any) -> Any:
        return self.base._statistic(data)

    def _check_generator(self, rng: np.random.Generator | None) -> None:
        self.base._check_generator(rng)

    def validate(self, data: Any) -> CuratorNotes:
        """The base's."""
        return self.base.validate(data)


def compose_draws(account: Accountant, draws: int) -> Accountant:
    """The account of so many independent draws."""
    return account if draws == 1 else draws * account


def account_of(mechanism: Mechanism, rng: np.random.Generator | None) -> Accountant:
    """The mechanism's account, with the assumption that a caller's own generator adds."""
    return mechanism._own_account if rng is None else mechanism._account_with_rng
