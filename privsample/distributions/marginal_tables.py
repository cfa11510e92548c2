"""Public categorical columns, and the counts of sets of them: the layout of marginal tables in one row of numbers."""

from collections.abc import Mapping
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import check_memory, is_encodable, listed, positive_integer
from privsample._data import category_names
from privsample._value import Memo, cached, frozen_value
from privsample.distributions.domains import Domain

Columns = tuple[tuple[str, tuple[str, ...]], ...]
Sets = tuple[tuple[str, ...], ...]


@frozen_value
class MarginalTables(Memo):
    """The marginal tables of public sets of columns, as one row of counts.

    columns: the names of the columns with those of their categories, at least two each. marginals: sets of columns,
    each once, in the order of the columns.
    """

    columns: Columns
    marginals: Sets

    @cached
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(name for name, _ in self.columns)

    @cached
    def sizes(self) -> tuple[int, ...]:
        """The number of categories of each column."""
        return tuple(len(categories) for _, categories in self.columns)

    @cached
    def places(self) -> tuple[tuple[int, ...], ...]:
        """The columns of each table, by their places."""
        return tuple(tuple(self.names.index(name) for name in marginal) for marginal in self.marginals)

    @cached
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each table."""
        return tuple(tuple(self.sizes[place] for place in places) for places in self.places)

    @cached
    def ends(self) -> tuple[int, ...]:
        """The place of the first count of each table, and the number of counts at the end."""
        return tuple(np.cumsum([0, *map(prod, self.shapes)]).tolist())

    @property
    def width(self) -> int:
        """The number of counts in all tables."""
        return self.ends[-1]

    @cached
    def labels(self) -> tuple[str, ...]:
        """What each count counts, such as "sex=F, income=high"."""
        known = dict(self.columns)
        return tuple(
            ", ".join(f"{name}={category}" for name, category in zip(marginal, cell, strict=True))
            for marginal in self.marginals
            for cell in product(*(known[name] for name in marginal))
        )

    @cached
    def domains(self) -> tuple[Domain, ...]:
        """The codes of each column; a value that is missing or not listed counts as the first category."""
        return tuple(
            Domain(low=0.0, high=size - 1.0, missing=0.0, integer_valued=True, outside_is_missing=True)
            for size in self.sizes
        )

    def codes(self, records: NDArray[Any]) -> NDArray[np.int64]:
        """Records, shape (n, columns), as codes of categories by the public rule."""
        cleaned = [domain.clean(column) for domain, column in zip(self.domains, records.T, strict=True)]
        return np.column_stack(cleaned).astype(np.int64)

    def cells(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The place of the count of each record in each table, shape (n, tables)."""
        found = np.empty((len(codes), len(self.marginals)), dtype=np.int64)
        for table, (places, shape) in enumerate(zip(self.places, self.shapes, strict=True)):
            found[:, table] = self.ends[table] + np.ravel_multi_index(tuple(codes[:, places].T), shape)
        return found

    def counts(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts of all tables, shape (width,)."""
        return np.concatenate(
            [
                np.bincount(np.ravel_multi_index(tuple(codes[:, places].T), shape), minlength=prod(shape))
                for places, shape in zip(self.places, self.shapes, strict=True)
            ]
        )

    def split(self, row: NDArray[Any]) -> dict[tuple[str, ...], NDArray[Any]]:
        """The tables by their sets of columns, from rows of shape (..., width)."""
        return {
            marginal: row[..., first:last].reshape(*row.shape[:-1], *shape)
            for marginal, shape, first, last in zip(self.marginals, self.shapes, self.ends, self.ends[1:], strict=False)
        }


def marginal_tables(columns: Any, marginals: Any) -> MarginalTables:
    """Check public columns and sets of them; None stands for all pairs. Raises TypeError or ValueError."""
    known = checked_columns(columns)
    names = [name for name, _ in known]
    if marginals is None:
        sets: Sets = tuple(combinations(names, 2)) if len(names) > 1 else ((names[0],),)
    else:
        sets = tuple(_marginal(marginal, names) for marginal in listed(marginals=marginals))
    if not sets:
        raise ValueError("marginals must hold at least one set of columns, got none")
    for marginal in sets:
        if sets.count(marginal) > 1:
            raise ValueError(f"marginals must differ, got {marginal} twice")
    if unused := [name for name in names if not any(name in marginal for marginal in sets)]:
        raise ValueError(
            f"marginals must hold every column, but none holds {', '.join(unused)}: leave them out of columns"
        )
    sizes = {name: len(categories) for name, categories in known}
    check_memory(sum(prod(sizes[name] for name in marginal) for marginal in sets), lower="marginals")
    return MarginalTables(columns=known, marginals=sets)


def checked_columns(columns: Any) -> Columns:
    """The names of the columns with those of their categories. Raises TypeError or ValueError."""
    if isinstance(columns, Mapping):
        pairs = list(columns.items())
    elif isinstance(columns, (list, tuple)) and all(isinstance(row, (list, tuple)) and row for row in columns):
        pairs = [(row[0], row[1:]) for row in columns]
    else:
        raise TypeError(f"columns must map the name of each column to its categories, got {type(columns).__name__}")
    found = tuple((_column_name(name), _categories(name, categories)) for name, categories in pairs)
    if not found:
        raise ValueError("columns must hold at least one column, got none")
    if len({name for name, _ in found}) != len(found):
        raise ValueError("columns must have different names")
    return found


def _column_name(name: Any) -> str:
    if not (isinstance(name, str) and name.strip()):
        raise TypeError(f"columns must have names that are not empty, got {name!r}")
    if not is_encodable(name):
        raise ValueError("columns must have names that UTF-8 can encode, got lone surrogates")
    return str(name)


def _categories(name: str, categories: Any) -> tuple[str, ...]:
    """The names of the categories of a column; a number K stands for the names 0, ..., K-1."""
    where = f"columns[{name!r}]"
    if isinstance(categories, str) or not np.iterable(categories):
        count = positive_integer(**{where: categories})
        check_memory(count, lower=f"the categories of {where}")
        given: tuple[Any, ...] = tuple(map(str, range(count)))
    else:
        given = tuple(categories)
    try:
        found = category_names(given, len(given))
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where}: {error}") from None
    if len(found) < 2:
        raise ValueError(f"{where} must have at least two categories, got {len(found)}")
    return found


def _marginal(marginal: Any, names: list[str]) -> tuple[str, ...]:
    given = (marginal,) if isinstance(marginal, str) else listed(**{"marginals[...]": marginal})
    unknown = [name for name in given if name not in names]
    if unknown or not given:
        raise ValueError(f"marginals must be sets of the columns {', '.join(names)}, got {given!r}")
    if len(set(given)) != len(given):
        raise ValueError(f"marginals must name a column once in a set, got {given!r}")
    return tuple(sorted(map(str, given), key=names.index))
