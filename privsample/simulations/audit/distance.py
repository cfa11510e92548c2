"""Checks that two datasets are neighbours, by the number of differing records or the distance of statistics."""

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.noise.additive import GaussianMechanism, LaplaceMechanism
from privsample.mechanisms.postprocessing.diffusion import DiffusionMechanism
from privsample.mechanisms.selection.exponential import CandidateSelection
from privsample.mechanisms.selection.utilities import StatedUtility
from privsample.relations import AddRemove, Relation, ReplaceOne

Statistical = GaussianMechanism | LaplaceMechanism | DiffusionMechanism | CandidateSelection


def check_neighbours(relation: Relation, first: Any, second: Any, group: int) -> None:
    """Check that datasets differ, and in at most `group` units of the relation.

    A dataset is an array or a table with a record in each row, or a tuple or mapping of such arrays.
    Raises: ValueError.
    """
    if not isinstance(relation, AddRemove | ReplaceOne):
        return  # observations of profiles are not records; the mechanism checks them
    here, there = _records(first, second)
    apart = _symmetric_difference_size(here, there)
    if apart == 0:
        raise ValueError("the datasets hold the same records; give datasets that differ")
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
            f"other, at most {relation.members * group} may; set group={-(-apart // relation.members)} to audit the "
            "claim for groups"
        )


def check_inputs(relation: Relation | None, first: Any, second: Any, group: int) -> None:
    """Check the inputs of a function: they must differ, and datasets of n records must be neighbours.

    Inputs with as many rows as the relation of the claim has records are datasets. Raises: ValueError.
    """
    if _equal(first, second):
        raise ValueError("the two inputs are equal; give inputs that differ")
    if isinstance(relation, ReplaceOne) and _sizes(first) == _sizes(second) == {relation.n}:
        try:
            check_neighbours(relation, first, second, group)
        except ValueError as error:
            raise ValueError(
                f"{error}; if the inputs are not records, give the claim as a function: claim=account.delta"
            ) from None


def _sizes(data: Any) -> set[int]:
    """Return the numbers of rows of an array, table or tuple of arrays; empty for other inputs."""
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
    """Return the innermost base of a mechanism if it reads a statistic instead of records, else None."""
    while (base := getattr(mechanism, "base", None)) is not None:
        mechanism = base
    if isinstance(mechanism, CandidateSelection):
        stated = isinstance(mechanism.utility, StatedUtility) and mechanism.utility.function is None
        return mechanism if stated else None
    return mechanism if isinstance(mechanism, Statistical) else None


def check_statistics(mechanism: Statistical, first: Any, second: Any, group: int) -> None:
    """Check that statistics differ by at most `group` sensitivities. Raises: ValueError, SchemaError."""
    for statistic in (first, second):
        mechanism.validate(statistic)
    if isinstance(mechanism, CandidateSelection):
        _check_utilities(mechanism, first, second, group)
    else:
        _check_distance(mechanism, first, second, group)


def _check_distance(
    mechanism: GaussianMechanism | LaplaceMechanism | DiffusionMechanism, first: Any, second: Any, group: int
) -> None:
    """Check that statistics differ by at most `group` sensitivities in the norm of the noise."""
    kind = 1 if isinstance(mechanism, LaplaceMechanism) else 2
    change = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    apart, most = float(np.linalg.norm(change.ravel(), kind)), mechanism.sensitivity * group
    if not 0.0 < apart <= most * (1 + 1e-12):
        raise ValueError(
            f"the statistics of neighbours must differ, by at most the sensitivity in the L{kind} norm: they are "
            f"{apart:g} apart, at most {most:g} is allowed"
        )


def _check_utilities(mechanism: CandidateSelection, first: Any, second: Any, group: int) -> None:
    """Check that the changes of utilities differ between candidates, by no more than is accounted for."""
    change = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    apart, most = float(np.ptp(change)), mechanism.utility.change_range(mechanism.relation) * group
    if not 0.0 < apart <= most * (1 + 1e-12):
        raise ValueError(
            "the changes of utilities between neighbours must differ between candidates, by no more than the account "
            f"states: they differ by up to {apart:g}, at most {most:g} is allowed"
        )


def _symmetric_difference_size(first: list[Hashable], second: list[Hashable]) -> int:
    here, there = Counter(first), Counter(second)
    return (here - there).total() + (there - here).total()


def _records(first: Any, second: Any) -> tuple[list[Hashable], list[Hashable]]:
    """Return hashable records of both datasets, equal if their numbers are equal for any array types."""
    here, there = _columns(first), _columns(second)
    if len(here) != len(there):
        raise ValueError(f"both datasets must have the same columns, got {len(here)} and {len(there)}")
    pairs = [_row_keys(one, other) for one, other in zip(here, there, strict=True)]
    return list(zip(*(pair[0] for pair in pairs), strict=True)), list(zip(*(pair[1] for pair in pairs), strict=True))


def _columns(data: Any) -> list[Any]:
    if isinstance(data, Mapping):
        data = tuple(data[name] for name in sorted(data))
    try:
        columns = [np.asarray(part) for part in (data if isinstance(data, tuple) else (data,))]
    except ValueError:  # ragged
        columns = [np.array(None)]
    if not columns or any(column.ndim == 0 or len(column) != len(columns[0]) for column in columns):
        raise ValueError(
            "a dataset must be an array with a record in each row, or a tuple or mapping of equally long arrays"
        )
    return columns


def _row_keys(first: Any, second: Any) -> tuple[list[Hashable], list[Hashable]]:
    """Return the rows of two columns as hashable keys: bytes, or the repr of objects."""
    try:
        common = np.result_type(first, second)
    except TypeError:  # dates and numbers
        common = np.dtype(object)
    if common.hasobject:
        return _object_keys(first), _object_keys(second)
    return row_keys(first.astype(common)), row_keys(second.astype(common))


def row_keys(column: Any) -> list[Hashable]:
    """Return hashable keys of rows: bytes with unique zero and NaN, or the repr of objects."""
    if column.dtype.hasobject:
        return _object_keys(column)
    if column.dtype.kind in "fc":
        column = np.where(np.isnan(column), np.nan, column + 0.0)
    return [row.tobytes() for row in np.ascontiguousarray(column)]


def _object_keys(column: Any) -> list[Hashable]:
    return [repr(row) for row in column.astype(object).tolist()]
