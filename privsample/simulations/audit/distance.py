"""Whether two datasets are neighbours: how many records apart they are, or how far their statistics."""

from collections import Counter
from collections.abc import Hashable
from typing import Any

import numpy as np

from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.noise.additive import GaussianMechanism, LaplaceMechanism
from privsample.mechanisms.postprocessing.diffusion import DiffusionMechanism
from privsample.relations import AddRemove, Relation, ReplaceOne

Statistical = GaussianMechanism | LaplaceMechanism | DiffusionMechanism


def check_neighbours(relation: Relation, first: Any, second: Any, group: int) -> None:
    """Refuse datasets farther apart than `group` units of the relation, and datasets of the same records.

    A dataset is an array or a table with a record in each row, or a tuple of such arrays. Raises: ValueError.
    """
    if not isinstance(relation, AddRemove | ReplaceOne):
        return  # observations of profiles are not records: the mechanism itself checks their names
    here, there = _records(first, second)
    apart = _symmetric_difference_size(here, there)
    if apart == 0:
        raise ValueError("the datasets hold the same records: nothing can be learned from how their outputs differ")
    how = "added or removed"
    if isinstance(relation, ReplaceOne):
        if {len(here), len(there)} != {relation.n}:
            raise ValueError(
                f"both datasets must have the public n = {relation.n} records, got {len(here)} and {len(there)}"
            )
        apart, how = apart // 2, "replaced"
    if apart > relation.members * group:
        raise ValueError(
            f"the datasets are not neighbours under {relation}: {apart} records must be {how} to go from one to the "
            f"other, at most {relation.members * group} may; say group={-(-apart // relation.members)} to audit the "
            "claim for groups"
        )


def check_inputs(relation: Relation | None, first: Any, second: Any, group: int) -> None:
    """For a function, of which only the caller knows what it reads: refuse equal inputs, and n records far apart.

    Inputs are taken for datasets where both have as many rows as the claim's relation has records. Raises: ValueError.
    """
    if _equal(first, second):
        raise ValueError("the two inputs are equal: nothing can be learned from how their outputs differ")
    if isinstance(relation, ReplaceOne) and _sizes(first) == _sizes(second) == {relation.n}:
        try:
            check_neighbours(relation, first, second, group)
        except ValueError as error:
            raise ValueError(
                f"{error}; for inputs that are no records, claim a function: claim=account.delta"
            ) from None


def _sizes(data: Any) -> set[int]:
    """How many rows an array or a table has, or the arrays of a tuple; none for what is neither."""
    try:
        return {len(column) for column in _columns(data)}
    except Exception:  # noqa: BLE001 - inputs of any kind
        return set()


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, tuple) and isinstance(second, tuple):
        return len(first) == len(second) and all(map(_equal, first, second))
    try:
        return first is second or bool(np.array_equal(first, second))
    except Exception:  # noqa: BLE001 - inputs of any kind, which need not be comparable
        return False


def innermost_statistical(mechanism: Mechanism) -> Statistical | None:
    """The mechanism that all others are built on, where it reads a statistic and no records."""
    while (base := getattr(mechanism, "base", None)) is not None:
        mechanism = base
    return mechanism if isinstance(mechanism, Statistical) else None


def check_statistics(mechanism: Statistical, first: Any, second: Any, group: int) -> None:
    """Refuse statistics farther apart than `group` neighbours move them. Raises: ValueError; SchemaError, by shape."""
    for statistic in (first, second):
        mechanism.validate(statistic)
    kind = 1 if isinstance(mechanism, LaplaceMechanism) else 2
    change = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    apart, most = float(np.linalg.norm(change.ravel(), kind)), mechanism.sensitivity * group
    if not 0.0 < apart <= most * (1 + 1e-12):
        raise ValueError(
            f"the statistics of neighbours must differ, by at most the sensitivity in the L{kind} norm: they are "
            f"{apart:g} apart, at most {most:g} is allowed"
        )


def _symmetric_difference_size(first: list[Hashable], second: list[Hashable]) -> int:
    here, there = Counter(first), Counter(second)
    return (here - there).total() + (there - here).total()


def _records(first: Any, second: Any) -> tuple[list[Hashable], list[Hashable]]:
    """The records of both datasets, equal where their numbers are, whatever the type of the arrays."""
    here, there = _columns(first), _columns(second)
    if len(here) != len(there):
        raise ValueError(f"both datasets must have the same columns, got {len(here)} and {len(there)}")
    pairs = [_row_keys(one, other) for one, other in zip(here, there, strict=True)]
    return list(zip(*(pair[0] for pair in pairs), strict=True)), list(zip(*(pair[1] for pair in pairs), strict=True))


def _columns(data: Any) -> list[Any]:
    try:
        columns = [np.asarray(part) for part in (data if isinstance(data, tuple) else (data,))]
    except ValueError:  # ragged
        columns = [np.array(None)]
    if not columns or any(column.ndim == 0 or len(column) != len(columns[0]) for column in columns):
        raise ValueError("a dataset must be an array with a record in each row, or a tuple of equally long arrays")
    return columns


def _row_keys(first: Any, second: Any) -> tuple[list[Hashable], list[Hashable]]:
    """The rows of two columns as bytes; objects as they print."""
    try:
        common = np.result_type(first, second)
    except TypeError:  # dates and numbers
        common = np.dtype(object)
    if common.hasobject:
        return _object_keys(first), _object_keys(second)
    return row_keys(first.astype(common)), row_keys(second.astype(common))


def row_keys(column: Any) -> list[Hashable]:
    """Of the rows of an array, equal where these are: their bytes, with one zero and one NaN; objects as they print."""
    if column.dtype.hasobject:
        return _object_keys(column)
    if column.dtype.kind in "fc":
        column = np.where(np.isnan(column), np.nan, column + 0.0)
    return [row.tobytes() for row in np.ascontiguousarray(column)]


def _object_keys(column: Any) -> list[Hashable]:
    return [repr(row) for row in column.astype(object).tolist()]
