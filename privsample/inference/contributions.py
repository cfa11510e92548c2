"""The contribution of each record to the statistic of a model: its statistic is the sum of these."""

from collections.abc import Callable
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.models.base import Model
from privsample.distributions.models.dirichlet_categorical import DirichletCategorical
from privsample.distributions.models.moments import MomentModel


def contributions_of(model: Model) -> Callable[[FloatArray], FloatArray]:
    """The function from records, shape (n,) or (n, columns), to their contributions, shape (n, coordinates).

    The public rule of the model is applied first: records are clipped to its bounds. A sum is computed for all records
    at once, as are counts and moments; for other statistics `model.statistic` is called for each record.
    """
    kind: Any = type(model)
    if isinstance(model, MomentModel):
        return lambda x: _moments(model, x)
    if isinstance(model, DirichletCategorical):
        return lambda x: _one_hot(model, x)
    if kind.statistic is Model.statistic:
        return lambda x: model.domain.clean(x).astype(np.float64)[:, None]
    return lambda x: np.array([np.ravel(model.statistic(x[i : i + 1])) for i in range(len(x))], dtype=np.float64)


def record_width(model: Model) -> int | None:
    """The number of columns of a record, or None if a record is one number."""
    width = len(model.moments.bounds) if isinstance(model, MomentModel) else 1
    return None if width == 1 else width


def _moments(model: MomentModel, x: FloatArray) -> FloatArray:
    """Products of the scaled columns, as `Moments.sums` adds them up."""
    scaled = model.moments.scaled(x.reshape(len(x), -1))
    augmented = np.column_stack([np.ones(len(x)), scaled])
    first, second = model.moments.pairs
    return model.moments.weights * augmented[:, first] * augmented[:, second]


def _one_hot(model: DirichletCategorical, x: FloatArray) -> FloatArray:
    """One in the column of the category."""
    return np.eye(len(model.alpha))[model.domain.clean(x).astype(np.int64)]
