"""Statistics of many datasets at once, from blocks of their records."""

from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.models.base import Model
from privsample.distributions.models.dirichlet_categorical import DirichletCategorical
from privsample.distributions.models.moments import MomentModel


def moments_of_blocks(model: MomentModel, rows: FloatArray) -> FloatArray:
    """The statistics of blocks of rows, shape (count, n, columns), as `model.statistic` computes that of one block."""
    own = model.moments
    scaled = [(np.clip(rows[..., j], *own.bounds[j]) - own.middles[j]) / own.units[j] for j in range(len(own.bounds))]
    found = [
        scaled[j - 1].sum(axis=1) if i == 0 else np.einsum("rn,rn->r", scaled[i - 1], scaled[j - 1])
        for i, j in zip(*own.pairs, strict=True)
    ]
    return np.column_stack(found) * own.weights


def statistics_of_records(model: Model, records: FloatArray) -> FloatArray:
    """The statistics of blocks of records, shape (count, n) or (count, n, columns), after the public rule.

    Returns shape (count, coordinates). A model with a statistic of its own computes one block after another.
    """
    if isinstance(model, MomentModel):
        rows = records if records.ndim == 3 else records[..., None]
        return moments_of_blocks(model, np.where(np.isnan(rows), model.moments.middles, rows))
    if isinstance(model, DirichletCategorical):
        codes, size = _cleaned(model.domain, records).astype(np.int64), len(model.alpha)
        places = codes + size * np.arange(len(codes))[:, None]
        return np.bincount(places.ravel(), minlength=size * len(codes)).reshape(-1, size).astype(np.float64)
    if type(model).statistic is Model.statistic:
        return _cleaned(model.domain, records).sum(axis=1)[:, None]
    return np.array([np.ravel(model.statistic(block)) for block in records])


def _cleaned(domain: Any, values: FloatArray) -> FloatArray:
    return np.asarray(domain.clean(values.ravel()), dtype=np.float64).reshape(values.shape)
