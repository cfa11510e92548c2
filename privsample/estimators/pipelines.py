"""Pipelines: steps that learn nothing pass, steps with an account are charged, all others are refused.

A step learns if its `fit` reads values of records. What it learned is part of the published pipeline, and transforms
all records (docs/notes/estimators.md).
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, PolynomialFeatures
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.utils import get_tags

_ONLY_SIZES = (PolynomialFeatures, GaussianRandomProjection, SparseRandomProjection, FrozenEstimator)
_INSTEAD = {
    "preprocessing": (
        "scale by public bounds with BoundsScaler, or with PrivateStandardScaler, whose cost is charged; give an "
        "encoder all its categories, and handle_unknown='ignore' or 'use_encoded_value'"
    ),
    "decomposition": "project by a public matrix, in a FunctionTransformer or by GaussianRandomProjection",
    "feature_selection": "choose the columns from public knowledge, or by PrivateSearchCV over lists of columns",
    "compose": (
        "choose columns by names, positions or make_column_selector(pattern=...): one record can change the type of a "
        "column; and set sparse_threshold=0, because otherwise the number of zeros decides whether they are sparse"
    ),
    "impute": (
        "leave missing entries to privsample's estimators, which replace them by a public rule, or use "
        "SimpleImputer(strategy='constant', fill_value=..., keep_empty_features=True)"
    ),
}
_ELSE = "use a step that transforms each record by itself, by public numbers"


def is_stateless(step: Any) -> bool:
    """Return whether fitting the step reads no value of a record: at most the numbers and names of columns.

    A step of another package counts as stateless if its scikit-learn tag `requires_fit` is False, unless it inherits
    this tag from a class whose `fit` or `transform` it overrides. The function of a FunctionTransformer is trusted to
    transform each record by itself.
    """
    match step:
        case None | "passthrough" | "drop":
            return True
        case ColumnTransformer() if _reads_records(step):
            return False
        case Pipeline() | FeatureUnion() | ColumnTransformer():
            return all(is_stateless(part) for _, part in _parts(step))
        case SimpleImputer() if type(step) is SimpleImputer:
            return bool(step.strategy == "constant" and step.keep_empty_features and not step.add_indicator)
        case OneHotEncoder() | OrdinalEncoder() if type(step) in (OneHotEncoder, OrdinalEncoder):
            declared = not isinstance(step.categories, str) and step.handle_unknown != "error"
            return bool(declared and step.min_frequency is None and step.max_categories is None)
    if type(step) in _ONLY_SIZES:
        return True
    try:
        return not get_tags(step).requires_fit and _states_its_own_tags(type(step))
    except Exception:  # noqa: BLE001 - an object without tags says nothing about itself
        return False


def _reads_records(step: ColumnTransformer) -> bool:
    """Return whether columns are chosen by a function of the records, or their number of zeros decides the output.

    A `make_column_selector` reads names of columns alone, unless it asks for their types, which one record can change.
    """
    if any(callable(columns) and not _reads_names(columns) for _, _, columns in step.transformers):
        return True
    return bool(step.sparse_threshold) and any(getattr(part, "sparse_output", False) for part in _leaves(step))


def _reads_names(columns: Any) -> bool:
    """Return whether a function that chooses columns reads their names alone."""
    exact = type(columns) is make_column_selector
    return exact and columns.dtype_include is None and columns.dtype_exclude is None


def _states_its_own_tags(kind: type) -> bool:
    """Return whether no class overrides fit or transform of the class that states the tags."""
    stated = next(at for at, base in enumerate(kind.__mro__) if "__sklearn_tags__" in vars(base))
    methods = ("fit", "transform", "fit_transform")
    return not any(name in vars(base) for base in kind.__mro__[:stated] for name in methods)


def check_steps(estimator: Any) -> None:
    """Raise ValueError for a pipeline with a step that no stated account can cover.

    These are the steps of scikit-learn that learn from the records, whose results have no noise, and a cache, which
    would reuse the draws of an earlier run.
    """
    for name, step in estimator.steps[:-1] if isinstance(estimator, Pipeline) else ():
        for part in _leaves(step):
            if type(part).__module__.startswith("sklearn.") and not is_stateless(part):
                raise ValueError(refusal(name, part))
        for part in _containers(step):
            if isinstance(part, ColumnTransformer) and _reads_records(part):
                raise ValueError(refusal(name, part))
    for part in _containers(estimator):
        if isinstance(part, Pipeline) and part.memory is not None:
            raise ValueError(
                "memory of a pipeline must be None, got a cache: it would return the draws of an earlier fit again"
            )


def refusal(name: str, step: Any) -> str:
    """Return the message about a step that learns from private data without an account: what to use instead."""
    readers = (part for part in _containers(step) if isinstance(part, ColumnTransformer) and _reads_records(part))
    learner = next((part for part in _leaves(step) if not is_stateless(part)), next(readers, step))
    room = type(learner).__module__.split(".")
    advice = _INSTEAD.get(room[1] if len(room) > 1 and room[0] == "sklearn" else "", _ELSE)
    if hasattr(learner, "accountant_for"):
        advice = "make it a step of the outermost pipeline, where it is charged"
    return (
        f"step {name!r} of the pipeline ({type(learner).__name__}) learns from private data without an account; "
        f"{advice}; or fit it to public data and put FrozenEstimator(step) in its place. Nothing was drawn or spent"
    )


def output_width(name: str, step: Any, features: int | None) -> int | None:
    """Return the number of columns that a stateless step returns for so many features; None if it is unknown.

    The step transforms two rows of zeros, because no private record may be used for a plan. Raises ValueError if it
    transforms a row differently beside other rows, as a function that subtracts the mean of a column does.
    """
    if features is None or step in (None, "passthrough"):
        return features
    if _mixes_rows(step, features):
        raise ValueError(refusal(name, step))
    zeros = np.zeros((2, features))
    try:
        return int(clone(step).fit(zeros, None).transform(zeros).shape[1])
    except Exception:  # noqa: BLE001 - for example columns chosen by name; the number stays unknown
        return None


def _mixes_rows(step: Any, features: int) -> bool:
    """Return whether random rows are transformed differently together than each by itself, as far as this is known."""
    rows = np.random.default_rng(0).standard_normal((3, features))
    random = any(isinstance(part, (GaussianRandomProjection, SparseRandomProjection)) for part in _leaves(step))
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # such as those of a logarithm of these rows
            made = clone(step).fit(rows, None)
            alone = [(made if random else clone(step).fit(row)).transform(row) for row in np.split(rows, len(rows))]
            both = _dense(made.transform(rows)), np.vstack([_dense(part) for part in alone])
        return both[0].shape != both[1].shape or not np.allclose(*both, rtol=1e-6, atol=1e-9, equal_nan=True)
    except Exception:  # noqa: BLE001 - for example columns chosen by name, which these rows do not have
        return False


def _dense(rows: Any) -> Any:
    """Return transformed rows as a dense array of floats."""
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)


def _parts(container: Any) -> list[tuple[str, Any]]:
    """The named parts of a pipeline, a union or a transformer of columns."""
    if isinstance(container, Pipeline):
        return list(container.steps)
    if isinstance(container, FeatureUnion):
        return list(container.transformer_list)
    return [(name, part) for name, part, _ in container.transformers] + [("remainder", container.remainder)]


def _leaves(step: Any) -> Iterator[Any]:
    """The steps within nested pipelines, unions and transformers of columns."""
    if isinstance(step, (Pipeline, FeatureUnion, ColumnTransformer)):
        for _, part in _parts(step):
            yield from _leaves(part)
    else:
        yield step


def _containers(step: Any) -> Iterator[Any]:
    """The pipeline, union or transformer of columns itself, and all that are nested in it."""
    if isinstance(step, (Pipeline, FeatureUnion, ColumnTransformer)):
        yield step
        for _, part in _parts(step):
            yield from _containers(part)
