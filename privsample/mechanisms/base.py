"""The interface of mechanisms: a mechanism draws, and its accountant states the privacy cost."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, generator, nonnegative_integer
from privsample._entropy import check_entropy, draw_with_entropy_check
from privsample._value import Memo, cached, frozen_value
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.targets import Target, missing_target
from privsample.distributions.noise import Noise
from privsample.distributions.record_format import RecordFormat
from privsample.errors import SchemaError
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.calibration import FreeParameter, calibrated
from privsample.mechanisms.neighbours import Draw, Neighbours, SumRecords
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.release import Release
from privsample.mechanisms.tallies.fingerprints import fingerprint
from privsample.mechanisms.tallies.rule import RecordRule
from privsample.mechanisms.tallies.tally import Tally, exact_row, is_tally, part_names
from privsample.relations import ReplaceOne

if TYPE_CHECKING:
    from privsample.mechanisms.examples import Example

Draws = Mapping[str, NDArray[Any]]
_NO_NOTES = CuratorNotes(title="no notes", facts={})


@frozen_value
class DrawsWithNotes:
    """The draws of one release with notes for the curator; a `_draw` method may return both.

    Parameters
    ----------
    draws : mapping of str to numpy.ndarray
        The draws by name, each of shape (draws, ...).
    notes : CuratorNotes, default empty notes
        Data-dependent facts about the run, such as the number of proposals. They are not part of the release.
    coords : mapping of str to sequence of str, default empty
        Names of coordinates by axis that were drawn and are covered by the account, such as released keys. They are
        part of the release.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> notes = ps.CuratorNotes(title="sampler", facts={"proposals": 7})
    >>> found = ps.DrawsWithNotes(draws={"mean": np.array([0.2])}, notes=notes)
    >>> sorted(found.draws), found.notes.facts["proposals"]
    (['mean'], 7)
    """

    draws: Draws
    notes: CuratorNotes = _NO_NOTES
    coords: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@frozen_value
class ReadData:
    """Data that a mechanism has read: what its `_draw` needs, and the names of coordinates. As private as the data."""

    mechanism: "Mechanism"
    statistic: Any
    coords: Mapping[str, tuple[str, ...]]


class Mechanism(Memo, ABC):
    """Base class of all mechanisms: immutable public parameters that determine the privacy cost of a release.

    A subclass is a frozen dataclass of its parameters; the cost does not depend on the data. It must define
    `accountant`, `_statistic` and `_draw`. Every other method has a default, whose docstring says when to override it.

    Attributes
    ----------
    free_parameters : tuple of FreeParameter
        Parameters that `calibrate` may choose; the first is the default. If the tuple is empty, `calibrate` only checks
        the target.
    unreachable_advice : str
        End of the message of the error that `calibrate` raises if a mechanism without free parameters does not meet the
        target.
    command : CommandLine
        Names and help texts of the command-line options that cannot be derived from the fields and their types.
    record_format : RecordFormat or None
        How the data hold records, such as `ColumnFormat()` for one column, so that `Subsampled` can sample them. None,
        the default, if the mechanism does not take records.
    record_strata : tuple of int or None
        The numbers of records of public strata, in the order of the data, if a record may only be replaced within its
        stratum: `StratifiedSampling` samples such records. None, the default, if all records are exchangeable.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> mechanism = ps.GaussianMechanism.calibrate(sensitivity=1, target=ps.DP(epsilon=1, delta=1e-6))
    >>> round(mechanism.noise_std, 3), round(float(mechanism.accountant.epsilon(1e-6)), 3)
    (4.225, 1.0)
    >>> mechanism.release(3.0, rng=np.random.default_rng(1))["statistic"].shape
    (1,)
    """

    __slots__ = ()
    free_parameters: ClassVar[tuple[FreeParameter, ...]] = ()
    command: ClassVar[CommandLine] = CommandLine()
    record_format: ClassVar[RecordFormat | None] = None
    record_strata: ClassVar[tuple[int, ...] | None] = None
    unreachable_advice: ClassVar[str] = "the mechanism has no free parameter; change the parameters"
    # True if `_draw` itself calls `draw_with_entropy_check` around each of its draws, because the long work between
    # them, such as a Markov chain, must remain interruptible.
    _checks_entropy: ClassVar[bool] = False
    # True if `_draw` returns names of coordinates, which are then part of the random output.
    _draws_coords: ClassVar[bool] = False
    _kernel_advice: ClassVar[str] = (
        "a random step from all that it releases is AppliedKernel(base=..., kernel=StatedKernel(...)), whose kernel "
        "states its mixing constants"
    )

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name in ("release", "calibrate", "tally"):
            if name in cls.__dict__:
                raise TypeError(
                    f"{cls.__name__} must not define {name}, which is the same for all mechanisms: define how data are "
                    "read in _statistic, how to draw in _draw, and what calibrate may choose in free_parameters"
                )
        checks: Any = cls.__dict__.get("validate")
        if checks is not None and not hasattr(checks, "__wrapped__"):
            cls.validate = _also_of_tallies(checks)  # type: ignore[method-assign]

    @property
    @abstractmethod
    def accountant(self) -> Accountant:
        """The privacy cost of one `release`, as a function of the fields alone."""

    @abstractmethod
    def _statistic(self, data: Any) -> Any:
        """Read the data, check their schema, apply the public rule for invalid values, and return what `_draw` needs.

        It must be defined for all data of the public schema: no value of a record may cause an exception or change the
        text of one. It raises SchemaError for data of another shape, type or public size.
        """

    @abstractmethod
    def _draw(self, statistic: Any, rng: np.random.Generator) -> Draws | DrawsWithNotes:
        """Draw the outputs from the return value of `_statistic`; return arrays of shape (draws, ...) by name.

        All randomness comes from `rng`, and `statistic` must not be changed. An exception is an observable output: the
        method may raise one only if the account counts it as an output.
        """

    @final
    def release(self, data: Any, *, rng: np.random.Generator | None = None) -> Release:
        """Make one release. No value of a record can cause an error.

        Parameters
        ----------
        data : object or Tally
            The records or the statistic, in the form that the class documents, or a tally of records. A second release
            of one tally is a second release, with its own cost.
        rng : numpy.random.Generator, optional
            Random generator, for simulations: the account then assumes RNG_FRESH. None uses the entropy of the
            operating system.

        Returns
        -------
        Release
            The draws, under the names that the class documents, together with the account.

        Raises
        ------
        SchemaError
            If the data have another shape, type or public size.
        TypeError
            If `rng` is a seed.
        OSError
            If the operating system provides no entropy. Whenever an error is raised, nothing is released.
        """
        return self._release_with_notes(data, rng)[0]

    @final
    def _release_with_notes(self, data: Any, rng: np.random.Generator | None) -> tuple[Release, CuratorNotes]:
        source = generator(rng)
        self._check_generator(rng)
        account = account_of(self, rng)
        read = data if isinstance(data, ReadData) else self._read_once(data)
        if read.mechanism is not self:
            raise TypeError("data that a mechanism has read are for draws of this mechanism only")
        found = self._draw_checked(read.statistic, source)
        coords = {**read.coords, **found.coords}
        return Release(mechanism=self, draws=found.draws, account=account, coords=coords), found.notes

    @final
    def _read_once(self, data: Any) -> ReadData:
        """Read the data once, for one release. Raises SchemaError."""
        return ReadData(mechanism=self, statistic=self._statistic_from(data), coords=self._coords(data))

    @final
    def tally(self, data: Any, *, part: str | None = None) -> Tally:
        """Compute the integer statistic of a part of the data; nothing is drawn and no privacy budget is spent.

        Tallies of disjoint parts add up, in any order, to the tally of all data, from which `release` draws. A tally is
        private.

        Parameters
        ----------
        data : object
            Some of the records, in the form that `release` takes.
        part : str, optional
            The name of the part. `merge_tallies` counts each name once, so that a part may be counted again after a
            failure. None, the default, gives no name.

        Returns
        -------
        Tally
            The tally.

        Raises
        ------
        SchemaError
            If the data have another shape or type.
        TypeError
            If the statistic is not a sum of integers of each record, or `part` is not a text.
        NotRegistered
            If the mechanism is of a class that files cannot name.
        """
        parts = part_names(part)
        sums, counts, keys = self._tallied(data)
        return Tally(mechanism=self._fingerprint, sums=sums, counts=counts, keys=keys, parts=parts)

    @final
    def _statistic_from(self, data: Any) -> Any:
        """What `_draw` needs, from data or from a tally."""
        if not is_tally(data):
            return self._statistic(data)
        if data.mechanism != self._fingerprint:
            raise SchemaError(
                "the tally must be of this mechanism, got that of another mechanism or of another version of "
                "privsample: make it with tally() of an equal mechanism"
            )
        return self._from_tally(data)

    @cached
    def _fingerprint(self) -> str:
        return fingerprint(self)

    def _tallied(self, data: Any) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64] | None]:
        """The sums, counts and keys of a tally, as in `Tally`; by default those of `_integers`, without groups."""
        sums, count = self._integers(data)
        return exact_row(sums), np.array([count]), None

    def _from_tally(self, tally: Tally) -> Any:
        """What `_draw` needs, from a tally of this mechanism; by default `_from_integers`. Raises SchemaError."""
        width = self._tally_width
        if tally.keys is not None or not (width is None or tally.sums.shape[1] == width):
            raise SchemaError("the tally must be one that this mechanism makes, got groups or another number of sums")
        self._check_possible(tally)
        return self._from_integers(tuple(tally.sums[0].tolist()), int(tally.counts[0]))

    def _check_possible(self, tally: Tally) -> None:
        """Check that records can have the sums of a tally of this mechanism. Raises SchemaError without numbers."""
        rule = self._record_rule
        if rule is not None and not rule.is_possible(tally.sums, tally.counts):
            raise SchemaError(
                "the tally must hold sums that its numbers of records can have, got others: it was altered; make it "
                "again with tally()"
            )

    def _integers(self, data: Any) -> tuple[tuple[int, ...], int]:
        """The statistic of any part of the data as integers that add up, and the number of records.

        A mechanism that defines it, and `_from_integers`, has tallies. By default it raises TypeError.
        """
        del data
        raise TypeError(self._why_no_tally)

    def _from_integers(self, sums: tuple[int, ...], count: int) -> Any:
        """What `_draw` needs, from the integers of all data and the number of records. Raises SchemaError."""
        del sums, count
        raise TypeError(self._why_no_tally)

    @property
    def _may_release_nothing(self) -> bool:
        """Whether `_draw` may return no draws, as the repetition of a mechanism does if it makes no run."""
        return False

    def _draw_groups(self, sums: NDArray[Any], counts: NDArray[np.int64], rng: np.random.Generator) -> Draws:
        """Draw for many groups from their integers, shape (groups, k), and their numbers of records, shape (groups,).

        Returns arrays of shape (draws, groups, ...) by name. A public number of records is that of each group, which
        need not be the mechanism's. By default, the draws are made group by group.
        """
        each = [
            sized._draw_checked(sized._from_integers(tuple(row), count), rng).draws
            for row, count in zip(sums.tolist(), counts.tolist(), strict=True)
            for sized in (self if self.record_format is None else self.for_size(count),)
        ]
        return {name: np.stack([draws[name] for draws in each], axis=1) for name in each[0]}

    @property
    def _tally_width(self) -> int | None:
        """The number of integers of the statistic, which tallies are compared with; None does not compare it."""
        return None

    @property
    def _record_rule(self) -> RecordRule | None:
        """How one record becomes integers, in a form that a database can compute; None if only `_integers` can."""
        return None

    @property
    def _why_no_tally(self) -> str:
        """The message of the error that `tally` raises, if the mechanism has no tallies."""
        could = type(self)._integers is not Mechanism._integers and getattr(self, "exact", None) is False
        how, advice = (" with exact=False", "set exact=True") if could else ("", "call release with all of the data")
        return f"{type(self).__name__}{how} has no tallies: its statistic is not a sum of integers; {advice}"

    @final
    def _draw_checked(self, statistic: Any, rng: np.random.Generator) -> DrawsWithNotes:
        """Call `_draw` and discard its result if the system's entropy source failed; for `release` and wrappers."""
        if self._checks_entropy:
            found = self._draw(statistic, rng)
            check_entropy(rng)
        else:
            found = draw_with_entropy_check(rng, lambda: self._draw(statistic, rng))
        return found if isinstance(found, DrawsWithNotes) else DrawsWithNotes(draws=found)

    def _check_generator(self, rng: np.random.Generator | None) -> None:
        """Check the caller's generator, or an optional package, before data are read. The default checks nothing."""

    @cached
    def _own_account(self) -> Accountant:
        return self.accountant

    @cached
    def _account_with_rng(self) -> Accountant:
        return self._own_account.assuming(Assumption.RNG_FRESH)

    @classmethod
    @final
    def calibrate(cls, *, target: Target | None = None, by: str | None = None, **fields: Any) -> Self:
        """The mechanism whose cost is as large as a target allows, found by a search over one free parameter.

        The parameter is rounded such that the account meets the target.

        Parameters
        ----------
        target : Target
            The guarantee to meet, which must be given: `DP`, `RDP`, `ZCDP`, `GDP`, or a part of a ledger's budget.
        by : str, optional
            Name of the free parameter to choose. None chooses the first of the class's `free_parameters`.
        **fields
            All other fields of the class; those with a default may be left out.

        Returns
        -------
        Self
            The mechanism, whose account was checked against the target. A mechanism without free parameters is only
            checked.

        Raises
        ------
        UnreachableTarget
            If no value meets the target; the message says what to change.
        TypeError
            If the target is missing, or a field is unknown or missing, or is the one that the search determines.
        ValueError
            If `by` is not a free parameter of the class.

        Warns
        -----
        LargeDeltaWarning
            If the target is a `DP` whose delta is at least 1/n, and the number n of records is public: publishing one
            random record in clear satisfies such a guarantee.
        """
        if target is None:
            raise missing_target(fields)
        return calibrated(cls, cls.free_parameters, target, by=by, given=fields, advice=cls.unreachable_advice)

    def validate(self, data: Any) -> CuratorNotes:
        """Count the values that the public rules would replace. Nothing is drawn and no privacy budget is spent.

        The default only checks the form of the data.

        Parameters
        ----------
        data : object
            The records or the statistic, as for `release`.

        Returns
        -------
        CuratorNotes
            The counts by reason. They depend on the data and are for the curator only.

        Raises
        ------
        SchemaError
            If `release` would refuse the data.
        """
        self._statistic_from(data)
        return CuratorNotes(title="the data have the expected form", facts={})

    @property
    def title(self) -> str:
        """The mechanism's name for readers: by default, the class name with spaces."""
        return readable_class_name(type(self))

    @property
    def description(self) -> str:
        """How the mechanism protects a record, in one sentence for readers who do not know the mechanism."""
        return "The released values are random, so that they reveal little about any single record."

    @property
    def quantity(self) -> str:
        """Short label of the released quantity, for axes and tables."""
        return "statistic"

    @property
    def _noise_distribution(self) -> Noise | None:
        """The distribution of the noise on each released number, if the draws are a statistic plus noise; or None."""
        return None

    @property
    def _grid(self) -> Mapping[str, float] | None:
        """The pitch of the public grid of each array of draws by name; None if the draws are not on a grid."""
        return None

    @property
    def _grid_text(self) -> str:
        """To what the draws are rounded, after "rounded"; empty if they are not on a grid."""
        return grid_text(self._grid)

    @property
    def _dims(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the axes after the first, for each array of draws by name, as `dims` in ArviZ; may be partial."""
        return {}

    def _coords(self, data: Any) -> Mapping[str, tuple[str, ...]]:
        """Names of the coordinates, by name of the axis, from the fields or from the names of the data's columns.

        The result is released: it must not depend on any record.
        """
        del data
        return {}

    def for_size(self, size: int) -> "Mechanism":
        """The same mechanism for another number of records; `Subsampled` applies the result to a sample.

        By default, a mechanism that declares a `record_format` is rebuilt with its field `n`, or the n of its field
        `relation`, set to `size`. A mechanism with neither takes any number of records and is returned as it is.

        Parameters
        ----------
        size : int
            Number of records, >= 0.

        Returns
        -------
        Mechanism
            The mechanism for `size` records.

        Raises
        ------
        TypeError
            If the mechanism does not take records that can be sampled.
        ValueError
            If `size` is 0 and the number of records is a field of the mechanism.
        """
        if self.record_format is None:
            raise TypeError(
                f"{type(self).__name__} does not take records that could be sampled; "
                "for noise on a sum use GaussianSum, LaplaceSum or ClippedSum, and a mechanism of your own declares "
                "record_format, such as ColumnFormat()"
            )
        size = nonnegative_integer(size=size)
        named: Any = self
        if "n" in getattr(type(self), "__dataclass_fields__", ()):
            return replace(named, n=size)
        relation = getattr(self, "relation", None)
        return replace(named, relation=replace(relation, n=size)) if isinstance(relation, ReplaceOne) else self

    def for_strata(self, sizes: tuple[int, ...]) -> "Mechanism":
        """The same mechanism for other numbers of records in its strata.

        By default, the mechanism for their total.

        Parameters
        ----------
        sizes : tuple of int
            Number of records of each stratum, >= 0, in the order of `record_strata`.

        Returns
        -------
        Mechanism
            The mechanism for these records.
        """
        return self.for_size(sum(sizes))

    def code_count(self) -> int:
        """Number of codes, for a mechanism that releases independent codes of which each record determines one.

        Returns
        -------
        int
            The number K of codes; they are 0, ..., K-1.

        Raises
        ------
        TypeError
            By default: the mechanism does not release such codes.
        ValueError
            If the class releases such codes, but not with these parameters.
        """
        raise TypeError(
            f"{type(self).__name__} does not release independent codes of which each record determines one, as a "
            f"Markov kernel requires; {self._kernel_advice}"
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """Pairs of neighbouring datasets whose privacy curves nearly attain that of the account, for audits.

        An audit tests each pair in both directions.

        Parameters
        ----------
        group : int, default 1
            Number of records in which the two datasets differ, >= 1.

        Returns
        -------
        tuple of Neighbours
            The pairs, with functions that draw the mechanism's outputs.

        Raises
        ------
        TypeError
            By default: such pairs are not known for this class.
        ValueError
            If the group is larger than the data, or the datasets are too large to simulate.
        """
        del group
        raise TypeError(
            f"{type(self).__name__} defines no worst neighbours: pass datasets=(first, second), or a list of such "
            "pairs, for example from neighbouring_pairs"
        )

    def worst_neighbours_through(
        self, outer: "Mechanism", kernels: tuple[FloatArray, ...], group: int
    ) -> tuple[Neighbours, ...]:
        """The worst neighbours of a mechanism that applies Markov kernels to the codes of this one.

        Only mechanisms with a `code_count` define it.

        Parameters
        ----------
        outer : Mechanism
            The outermost mechanism, whose releases are audited.
        kernels : tuple of numpy.ndarray
            Transition matrices in the order in which they are applied; each has shape (codes, outcomes).
        group : int
            Number of records in which the two datasets differ, >= 1.

        Returns
        -------
        tuple of Neighbours
            Pairs of datasets, with functions that draw the outputs of `outer`.

        Raises
        ------
        TypeError
            By default: such pairs are not known for this class.
        """
        del outer, kernels, group
        raise TypeError(f"{type(self).__name__} defines no worst neighbours for a Markov kernel applied to its codes")

    def _many_draws(self, outer: "Mechanism") -> Draw | None:
        """A function that simulates many independent releases of `outer` in one call, for audits; or None.

        None, the default, means that an audit calls `release` once for each output. `outer` is this mechanism, or a
        mechanism that post-processes each of its draws separately. The function takes the data as `release` does. The
        outputs must have the joint distribution of separate releases of the same data.
        """
        del outer
        return None

    def _sum_records(self, *, random_size: bool) -> tuple[SumRecords, ...]:
        """The worst records, for a mechanism that adds noise to a sum over its records; empty for all others.

        With `random_size`, the common record adds 0 if possible: then the size of a sample does not affect the sum.
        """
        del random_size
        return ()

    def extreme_records(self) -> NDArray[Any]:
        """Records of the public domain that change the output distribution most when one replaces another.

        Audits of `Subsampled` search datasets made of these records.

        Returns
        -------
        numpy.ndarray
            The records, one along the first axis, as the mechanism's `record_format` reads them.

        Raises
        ------
        TypeError
            By default: such records are not known for this class.
        """
        raise TypeError(f"{type(self).__name__} defines no extreme records: pass datasets=(first, second)")

    @classmethod
    def examples(cls) -> "tuple[Example, ...]":
        """Small instances of the class, each with a mutant (a broken copy) that an audit must refute; by default none.

        `privsample audit` lists them by name, and the tests check every mechanism on them.

        Returns
        -------
        tuple of Example
            The examples.
        """
        return ()


def _also_of_tallies(checks: Callable[..., CuratorNotes]) -> Callable[..., CuratorNotes]:
    """A method `validate` of data, which also checks whether `release` would accept a tally."""

    @wraps(checks)
    def validate(self: Mechanism, data: Any) -> CuratorNotes:
        if not is_tally(data):
            return checks(self, data)
        self._statistic_from(data)
        return CuratorNotes(title="a tally of this mechanism", facts={"records": int(data.counts.sum())})

    return validate


def readable_class_name(kind: type) -> str:
    """The class name with spaces, for example "Noisy median"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).capitalize()


def grid_text(grid: Mapping[str, float] | None) -> str:
    """To what draws on a grid are rounded, such as "theta to multiples of 2^-40"."""
    return ", ".join(f"{name} to multiples of {power_text(pitch)}" for name, pitch in (grid or {}).items())


def power_text(pitch: float) -> str:
    """A power of two in words: "2^-40", and small ones as numbers."""
    return f"{pitch:g}" if 0.01 < pitch < 1e4 else f"2^{math.frexp(pitch)[1] - 1}"


class Wrapper(Mechanism):
    """Base class of mechanisms that wrap another mechanism, the field `base`, and take the same data.

    Attributes
    ----------
    base : Mechanism
        The inner mechanism, whose data `release` and `validate` take.

    Examples
    --------
    >>> import privsample as ps
    >>> base = ps.GaussianMechanism(sensitivity=1, noise_std=1)
    >>> wrapper = ps.PostNoise(base=base, noise=1.0)
    >>> isinstance(wrapper, ps.Wrapper), wrapper.base is base
    (True, True)
    """

    __slots__ = ()
    base: Mechanism
    _checks_entropy: ClassVar[bool] = True
    # True if the draws are those of the base, on its grid.
    _releases_base_draws: ClassVar[bool] = False

    @property
    def _may_release_nothing(self) -> bool:
        return self.base._may_release_nothing

    def _statistic(self, data: Any) -> Any:
        return self.base._statistic(data)

    def _tallied(self, data: Any) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64] | None]:
        self._check_statistic()
        return self.base._tallied(data)

    def _from_tally(self, tally: Tally) -> Any:
        self._check_statistic()
        return self.base._from_tally(tally)

    def _integers(self, data: Any) -> tuple[tuple[int, ...], int]:
        self._check_statistic()
        return self.base._integers(data)

    def _from_integers(self, sums: tuple[int, ...], count: int) -> Any:
        self._check_statistic()
        return self.base._from_integers(sums, count)

    @property
    def _record_rule(self) -> RecordRule | None:
        return self.base._record_rule if self._keeps_statistic else None

    @property
    def _keeps_statistic(self) -> bool:
        """Whether `_draw` takes the statistic of the base, so that tallies of the base are those of this mechanism."""
        return type(self)._statistic is Wrapper._statistic

    def _check_statistic(self) -> None:
        if not self._keeps_statistic:
            raise TypeError(self._why_no_tally)

    @property
    def _grid(self) -> Mapping[str, float] | None:
        return self.base._grid if self._releases_base_draws else None

    @property
    def _grid_text(self) -> str:
        return self.base._grid_text if self._releases_base_draws else ""

    @property
    def _dims(self) -> Mapping[str, tuple[str, ...]]:
        return self.base._dims

    def _coords(self, data: Any) -> Mapping[str, tuple[str, ...]]:
        return self.base._coords(data)

    def _check_generator(self, rng: np.random.Generator | None) -> None:
        self.base._check_generator(rng)

    @property
    def record_format(self) -> RecordFormat | None:  # type: ignore[override]
        """The format of the base's records; None if the base takes no records."""
        return self.base.record_format

    @property
    def record_strata(self) -> tuple[int, ...] | None:  # type: ignore[override]
        """The strata of the base's records."""
        return self.base.record_strata

    def for_size(self, size: int) -> "Mechanism":
        """The same mechanism around the base for `size` records. Raises TypeError if the base takes no records."""
        return replace(self, base=self.base.for_size(size))  # type: ignore[type-var]

    def for_strata(self, sizes: tuple[int, ...]) -> "Mechanism":
        """The same mechanism around the base for other numbers of records in its strata."""
        return replace(self, base=self.base.for_strata(sizes))  # type: ignore[type-var]

    def extreme_records(self) -> NDArray[Any]:
        """The extreme records of the base."""
        return self.base.extreme_records()

    def validate(self, data: Any) -> CuratorNotes:
        """Count the values that the public rules of the base would replace in these data."""
        return self.base.validate(data)


def compose_draws(account: Accountant, draws: int) -> Accountant:
    """The account of `draws` independent draws with the same account."""
    return account if draws == 1 else draws * account


def account_of(mechanism: Mechanism, rng: np.random.Generator | None) -> Accountant:
    """The mechanism's account, with the assumption RNG_FRESH if the caller passed a generator."""
    return mechanism._own_account if rng is None else mechanism._account_with_rng
