"""Canaries: records whose presence in one training run is decided by coins and guessed from the trained result."""

import pickle
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, check_memory, finite, listed, positive, positive_integer

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class CanarySet:
    """Canaries as given: a list of records, an array with one in each row, or rows with their targets."""

    records: Sequence[Any] | NDArray[Any]
    targets: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.records)

    @property
    def form(self) -> str:
        """How many records there are, and how they are given."""
        if not isinstance(self.records, np.ndarray):
            return f"a list of {len(self.records):,}"
        rows = f"an array of shape {self.records.shape}"
        return rows if self.targets is None else f"rows and targets, {rows}"

    def canary(self, index: int) -> Any:
        """One canary: a record, or a pair (row, target)."""
        return self.records[index] if self.targets is None else (self.records[index], self.targets[index])

    def chosen(self, included: BoolArray, substitutes: "CanarySet | None") -> Any:
        """The included canaries, or all of them with substitutes for those left out, in the form that was given."""
        if isinstance(self.records, np.ndarray):
            rows = self._either(self.records, included, None if substitutes is None else substitutes.records)
            if self.targets is None:
                return rows
            return rows, self._either(self.targets, included, None if substitutes is None else substitutes.targets)
        if substitutes is None:
            return [record for record, kept in zip(self.records, included, strict=True) if kept]
        pairs = zip(self.records, substitutes.records, included, strict=True)
        return [record if kept else other for record, other, kept in pairs]

    @staticmethod
    def _either(own: NDArray[Any], included: BoolArray, others: Any) -> NDArray[Any]:
        if others is None:
            return np.array(own[included])
        made: NDArray[Any] = np.where(included.reshape(-1, *[1] * (own.ndim - 1)), own, others)
        return made

    def keys(self) -> list[Any]:
        """For each canary a hashable value that equals that of an equal canary."""
        return [_key(self.canary(index)) for index in range(len(self))]


def canary_set(**named: Any) -> CanarySet:
    """The canaries of a list, an array, or a tuple (rows, targets). Raises TypeError or ValueError."""
    ((name, given),) = named.items()
    if isinstance(given, tuple):
        if len(given) != 2:
            raise ValueError(
                f"{name} must be a list of records, or a pair (rows, targets), got a tuple of {len(given)}: "
                "write [...] for a list"
            )
        rows, targets = (_array(name, part) for part in given)
        if rows.ndim < 2 or targets.ndim != 1 or len(rows) != len(targets):
            raise ValueError(
                f"{name} must have rows of shape (m, features) and targets of shape (m,), got {rows.shape} and "
                f"{targets.shape}"
            )
        return CanarySet(rows, targets)
    if isinstance(given, np.ndarray) and given.ndim:
        return CanarySet(_array(name, given))
    if isinstance(given, Mapping | AbstractSet) or hasattr(given, "iloc"):
        raise TypeError(
            f"{name} must be a list of records, an array with one in each row, or a pair (rows, targets), got "
            f"{type(given).__name__}: "
            f"{'pass its to_numpy()' if hasattr(given, 'iloc') else 'write its records as a list'}"
        )
    return CanarySet(listed(**named))


def _array(name: str, part: Any) -> NDArray[Any]:
    try:
        return np.array(part)
    except ValueError:
        raise ValueError(f"{name} must have rows of equal length, got {type(part).__name__} of unequal ones") from None


def check_canaries(canaries: CanarySet, substitutes: CanarySet | None) -> None:
    """Check that canaries differ from each other and from their substitutes. Raises ValueError."""
    keys, seen = canaries.keys(), dict[Any, int]()
    for index, key in enumerate(keys):
        if key in seen:
            raise ValueError(
                f"canaries must differ from each other, got canary {seen[key]} again as canary {index}: a "
                "score cannot tell which of the two was included; leave one of them out"
            )
        seen[key] = index
    if substitutes is None:
        return
    if substitutes.form != canaries.form:
        raise ValueError(
            f"substitutes must be given in the form of the canaries, one for each: {canaries.form}, got "
            f"{substitutes.form}"
        )
    for index, (own, other) in enumerate(zip(keys, substitutes.keys(), strict=True)):
        if own == other:
            raise ValueError(
                f"substitutes must differ from their canaries, got an equal one for canary {index}: its coin would "
                "change nothing"
            )


def _key(item: Any) -> Any:
    """A hashable value of a record; equal records have equal ones."""
    if isinstance(item, tuple):
        return tuple(_key(part) for part in item)
    if isinstance(item, np.ndarray):
        return (item.shape, item.dtype.str, (item + 0.0 if item.dtype.kind == "f" else item).tobytes())
    try:
        hash(item)
    except TypeError:
        try:
            return pickle.dumps(item)
        except Exception:  # noqa: BLE001 - a record that cannot be written is told apart by its place in memory
            return id(item)
    return item


def orthogonal_canaries(
    count: int, *, norm: float = 1.0, targets: tuple[float, float] = (0.0, 1.0)
) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    """Make canaries for linear models: rows along the coordinate axes, and substitutes with the other target.

    A canary moves a coefficient that no other canary moves, so that its coin is seen in one coefficient with the noise
    of training and nothing else. Its substitute moves the same coefficient in the opposite direction.

    Parameters
    ----------
    count : int
        Number of canaries and of features, >= 1.
    norm : float, default 1.0
        L2 norm of each row, finite and > 0: the largest that the model allows makes the audit strongest.
    targets : tuple of two float, default (0.0, 1.0)
        The two targets, finite and different: the classes of a classifier, or the bounds of the targets of a regressor.

    Returns
    -------
    canaries : tuple of ndarray
        Rows, shape (count, count), and targets, shape (count,): the two targets by turns.
    substitutes : tuple of ndarray
        The same rows with the other target.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Examples
    --------
    >>> import privsample as ps
    >>> canaries, substitutes = ps.orthogonal_canaries(2, norm=0.5)
    >>> canaries[0].tolist(), canaries[1].tolist(), substitutes[1].tolist()
    ([[0.5, 0.0], [0.0, 0.5]], [0.0, 1.0], [1.0, 0.0])
    """
    size, length = positive_integer(count=count), positive(norm=norm)
    check_memory(size * size, lower="count")
    if len(listed(targets=targets)) != 2:
        raise ValueError(f"targets must be two numbers, got {targets!r}")
    first, second = (finite(**{f"targets[{k}]": one}) for k, one in enumerate(targets))
    if first == second:
        raise ValueError(f"targets must be two different numbers, got {first!r} twice")
    rows, even = length * np.eye(size), np.arange(size) % 2 == 0
    return (rows, np.where(even, first, second)), (rows.copy(), np.where(even, second, first))
