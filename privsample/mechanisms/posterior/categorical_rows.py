"""Rows of categorical features: the public rule for codes, for mechanisms that read histograms of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, count_noun
from privsample.distributions.domains import Domain
from privsample.distributions.rows import table
from privsample.errors import SchemaError
from privsample.mechanisms.notes import CuratorNotes


def category_codes(data: Any, categories: tuple[int, ...], n: int, *, named_by: str) -> NDArray[np.int64]:
    """Codes of n rows, (n, features), in range: values that are missing or out of range count as category 0.

    `named_by` is the field that declares n. Raises SchemaError.
    """
    rows = _rows(data, categories, n, named_by)
    codes = [domain.clean(column) for domain, column in zip(_domains(categories), rows.T, strict=True)]
    return np.column_stack(codes).astype(np.int64)


def category_problems(data: Any, categories: tuple[int, ...], n: int, *, named_by: str) -> CuratorNotes:
    """Counts of the values that the public rule would replace, for the curator only. Raises SchemaError."""
    facts: dict[str, object] = {}
    for feature, (domain, column) in enumerate(
        zip(_domains(categories), _rows(data, categories, n, named_by).T, strict=True)
    ):
        facts |= {f"feature {feature}, {reason}": count for reason, count in domain.count_problems([column]).items()}
    return CuratorNotes(title=f"{count_noun(n, 'row')} of {count_noun(len(categories), 'code')}", facts=facts)


def _domains(categories: tuple[int, ...]) -> list[Domain]:
    """The domain of each feature."""
    return [
        Domain(low=0.0, high=count - 1.0, missing=0.0, integer_valued=True, outside_is_missing=True)
        for count in categories
    ]


def _rows(data: Any, categories: tuple[int, ...], n: int, named_by: str) -> FloatArray:
    rows = table(data, len(categories))
    if len(rows) != n:
        raise SchemaError(f"n = {n} records were declared by {named_by}, the data hold {len(rows)}")
    return rows
