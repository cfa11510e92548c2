"""Rows of categorical features: the public rule for codes, for mechanisms that read histograms of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, count_noun, positive_integer
from privsample.distributions.domains import Domain
from privsample.distributions.rows import table
from privsample.errors import SchemaError
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.draws import one_by_one
from privsample.mechanisms.intervals import column_names
from privsample.mechanisms.neighbours import Dataset, Neighbours, records_outside_group
from privsample.mechanisms.notes import CuratorNotes


def category_codes(data: Any, categories: tuple[int, ...], n: int, *, named_by: str) -> NDArray[np.int64]:
    """Codes of n rows, (n, features), in range: values that are missing or out of range count as category 0.

    `named_by` is the field that declares n. Raises SchemaError.
    """
    return _codes(_rows(data, categories, n, named_by), categories)


def codes_of_part(data: Any, categories: tuple[int, ...]) -> NDArray[np.int64]:
    """As `category_codes`, of any number of rows."""
    return _codes(table(data, len(categories)), categories)


def extreme_rows(categories: tuple[int, ...]) -> FloatArray:
    """A record of zeros, and one of the last categories."""
    return np.array([np.zeros(len(categories)), np.array(categories) - 1.0])


def check_rows(count: int, n: int, named_by: str) -> None:
    """Check that the number of rows is the declared one. Raises SchemaError."""
    if count != n:
        raise SchemaError(f"n = {n} records were declared by {named_by}, the data hold {count}")


def variable_names(data: Any, count: int) -> tuple[str, ...]:
    """The names of the data's columns if there are `count` of them, else x0, x1, ..."""
    names = column_names(data)
    return names if len(names) == count else tuple(f"x{k}" for k in range(count))


def category_problems(data: Any, categories: tuple[int, ...], n: int, *, named_by: str) -> CuratorNotes:
    """Counts of the values that the public rule would replace, for the curator only. Raises SchemaError."""
    facts: dict[str, object] = {}
    for feature, (domain, column) in enumerate(
        zip(_domains(categories), _rows(data, categories, n, named_by).T, strict=True)
    ):
        facts |= {f"feature {feature}, {reason}": count for reason, count in domain.count_problems([column]).items()}
    return CuratorNotes(title=f"{count_noun(n, 'row')} of {count_noun(len(categories), 'code')}", facts=facts)


def category_neighbours(
    mechanism: Mechanism, categories: tuple[int, ...], n: int, *, width: int, group: int
) -> Neighbours:
    """Rows of zeros, and the same with the first `group` rows in the last categories; `width` numbers a release."""
    group = positive_integer(group=group)
    records_outside_group(group, n)

    def dataset(changed: int) -> Dataset:
        def build() -> FloatArray:
            rows = np.zeros((n, len(categories)))
            rows[:changed] = np.array(categories) - 1.0
            return rows

        return build

    among = f"{group:,} of {n:,} records"
    return Neighbours(
        account=mechanism.accountant,
        descriptions=(f"{among} of zeros", f"{among} of the last categories"),
        datasets=(dataset(0), dataset(group)),
        draw=one_by_one(mechanism),
        width=width,
    )


def _domains(categories: tuple[int, ...]) -> list[Domain]:
    """The domain of each feature."""
    return [
        Domain(low=0.0, high=count - 1.0, missing=0.0, integer_valued=True, outside_is_missing=True)
        for count in categories
    ]


def _rows(data: Any, categories: tuple[int, ...], n: int, named_by: str) -> FloatArray:
    rows = table(data, len(categories))
    check_rows(len(rows), n, named_by)
    return rows


def _codes(rows: FloatArray, categories: tuple[int, ...]) -> NDArray[np.int64]:
    codes = [domain.clean(column) for domain, column in zip(_domains(categories), rows.T, strict=True)]
    return np.column_stack(codes).astype(np.int64)
