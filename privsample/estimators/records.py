"""Records of an estimator: invalid values are refused or replaced, and the changes of declared rules are counted."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from privsample._checks import FloatArray, interval
from privsample._data import as_float
from privsample.distributions.domains import Domain
from privsample.distributions.rows import matrix
from privsample.errors import SchemaError
from privsample.estimators.targets import is_missing, labels_equal, target_list
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.release import Release

HandleInvalid = Literal["error", "replace"]
_NOTHING_SPENT = "Nothing was drawn or spent; validate(X, y) counts such records"
SEVERAL_CLASSES = (
    "for more than two classes fit one model per class to y == class, with epsilon and delta divided by the number of "
    "classes; scikit-learn's OneVsRestClassifier does so if it is public that every class occurs"
)


class DeclaredRecords(BaseEstimator, ABC):
    """Base class of estimators whose features have public `bounds`."""

    delta: float
    bounds: Any
    handle_invalid: HandleInvalid

    @abstractmethod
    def mechanism_for(self, n: int, features: int) -> Mechanism:
        """Return the mechanism that `fit` runs on n records.

        Parameters
        ----------
        n : int
            Number of records, >= 1.
        features : int
            Number of features, >= 1.

        Returns
        -------
        Mechanism
            The mechanism, calibrated to (epsilon, delta).

        Raises
        ------
        UnreachableTarget
            If no parameters of the mechanism meet (epsilon, delta).
        ValueError
            If a parameter of the estimator is invalid.
        """

    @abstractmethod
    def _check_targets(self, y: Any) -> None:
        """Raise SchemaError for targets that the declared rules do not cover."""

    @abstractmethod
    def _targets(self, y: Any) -> FloatArray:
        """Return the targets as the mechanism takes them, shape (n,); no value of a record raises an error."""

    @abstractmethod
    def _count_changed_targets(self, y: Any) -> dict[str, int]:
        """Count refused, replaced and clipped targets by reason. Not private: for the data curator only."""

    def validate(self, X: Any, y: Any) -> CuratorNotes:
        """Count the values that `fit` would refuse, replace or clip, for the data curator.

        The counts are computed from private data without noise and must not be published. Nothing is drawn or spent.

        Parameters
        ----------
        X : array-like, shape (n, features)
            Features, one row for each record.
        y : array-like, shape (n,)
            Targets or labels.

        Returns
        -------
        CuratorNotes
            The number of affected entries and records by reason.

        Raises
        ------
        SchemaError
            If X or y has the wrong shape; values of single records raise no error here.
        UnreachableTarget
            If no parameters of the mechanism meet (epsilon, delta).
        ValueError, TypeError
            If a parameter of the estimator is invalid.
        """
        rows = self._rows(X, y)
        own = self._count_changed_features(X, rows) | self._count_changed_targets(y)
        notes = self.mechanism_for(*rows.shape).validate((self._scaled(rows)[0], self._targets(y)))
        facts = dict(notes.facts) | {reason: count for reason, count in own.items() if count}
        return CuratorNotes(title=notes.title, facts=facts)

    def statement(self, delta: float | None = None) -> str:
        """Return the privacy statement of the fit in plain language.

        Parameters
        ----------
        delta : float, optional
            The delta at which epsilon is stated, in (0, 1). None: the `delta` of the fit.

        Returns
        -------
        str
            The statement, with epsilon in nats, the neighbouring relation and the assumptions.

        Raises
        ------
        NotFittedError
            If `fit` was not called.
        """
        check_is_fitted(self)
        release: Release = self.release_
        return release.statement(delta)

    def _checked_rows(self, X: Any, y: Any) -> FloatArray:
        """Return X as floats, shape (n, features). Raises SchemaError for its schema and for refused records."""
        rows = self._rows(X, y)
        if self.handle_invalid == "error":
            self._check_features(X)
            self._check_targets(y)
        return rows

    def _rows(self, X: Any, y: Any) -> FloatArray:
        """Return X as floats, shape (n, features), with NaN for non-numbers. Checks the schema only: SchemaError."""
        if sparse.issparse(X):
            raise TypeError("X must be dense, got a sparse matrix; use X.toarray()")
        rows = matrix(X)
        if min(rows.shape) == 0:
            what = "feature(s)" if rows.shape[0] else "sample(s)"
            raise SchemaError(f"found 0 {what} (shape={rows.shape}) while a minimum of 1 is required.")
        validate_data(self, X, skip_check_array=True)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if self.handle_invalid not in ("error", "replace"):
            raise ValueError(f"handle_invalid must be 'error' or 'replace', got {self.handle_invalid!r}")
        return rows

    def _check_features(self, X: Any) -> None:
        """Raise SchemaError for features that are neither numbers nor missing."""
        if any(row.any() for row in non_numeric_entries(X)):
            raise SchemaError(
                "X must hold numbers or missing entries, got others, such as text; encode them by a public rule first, "
                f"or set handle_invalid='replace' to count them as missing. {_NOTHING_SPENT}"
            )

    def _bounds(self, features: int) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper bounds, each of shape (features,); -1 and 1 if none are declared."""
        try:
            ends = (-1.0, 1.0) if self.bounds is None else self.bounds
            low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (features,)) for end in ends)
        except (TypeError, ValueError):
            raise ValueError(f"bounds must be (low, high), each a number or {features} numbers") from None
        if not (np.all(low < high) and np.all(np.isfinite(high - low))):
            raise ValueError("bounds must be finite, with low < high for each feature; check the declared bounds")
        return low, high

    def _scaled(self, rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return rows clipped to the bounds and mapped to [-1, 1] (unchanged without bounds), centre and half width."""
        low, high = self._bounds(rows.shape[1])
        centre, spread = (low + high) / 2, (high - low) / 2
        scaled = rows if self.bounds is None else (np.clip(rows, low, high) - centre) / spread
        return scaled, centre, spread

    def _count_changed_features(self, X: Any, rows: FloatArray) -> dict[str, int]:
        """Count replaced and clipped features by reason. Not private: for the data curator only."""
        facts = {
            "features that are neither numbers nor missing": sum(int(each.sum()) for each in non_numeric_entries(X))
        }
        if self.bounds is not None:
            outside = np.zeros(len(rows), dtype=np.int64)
            for low, high, values in zip(*self._bounds(rows.shape[1]), rows.T, strict=True):
                outside += _outside(float(low), float(high), values)
            facts["features out of bounds"] = int(outside.sum())
            facts["rows with features out of bounds"] = int((outside > 0).sum())
        return facts


class DeclaredClasses(DeclaredRecords):
    """Base class of classifiers whose two classes are declared and not read from the data."""

    classes: Any

    def _class_labels(self) -> NDArray[Any]:
        """Return the negative and the positive class, shape (2,). Raises ValueError."""
        if isinstance(self.classes, (str, bytes)) or np.shape(self.classes) != (2,):
            raise ValueError(
                f"classes must be a pair (negative, positive) of labels, got {self.classes!r}: {SEVERAL_CLASSES}"
            )
        pair, labels = list(self.classes), np.asarray(self.classes)
        if labels_equal(pair[0], pair[1]) or not all(labels_equal(label, label) for label in pair):
            raise ValueError(f"classes must be two different labels, not missing, got {self.classes!r}")
        if not all(labels_equal(label, own) for label, own in zip(labels.tolist(), pair, strict=True)):
            raise ValueError(f"classes must be of one type, got {self.classes!r}: NumPy would convert both to strings")
        return labels

    def _check_targets(self, y: Any) -> None:
        """Raise SchemaError for labels that are not in `classes`."""
        negative, positive = self._class_labels().tolist()
        if not all(labels_equal(at, positive) or labels_equal(at, negative) for at in target_list(y)):
            raise SchemaError(
                f"y must hold labels in classes = ({negative!r}, {positive!r}), got others; declare "
                f"classes=(negative, positive), or map labels by a public rule; {SEVERAL_CLASSES}; or set "
                f"handle_invalid='replace' to count all others as the negative class. {_NOTHING_SPENT}"
            )

    def _targets(self, y: Any) -> FloatArray:
        """Return 1 for the positive class and 0 for all other labels, shape (n,)."""
        positive = self._class_labels().tolist()[1]
        return np.array([labels_equal(label, positive) for label in target_list(y)], dtype=np.float64)

    def _count_changed_targets(self, y: Any) -> dict[str, int]:
        """Count labels that are not declared, and labels if all are of one class. For the data curator only."""
        negative, positive = self._class_labels().tolist()
        labels = target_list(y)
        ones = sum(labels_equal(label, positive) for label in labels)
        zeros = sum(labels_equal(label, negative) for label in labels)
        counted = ones + zeros
        alone = counted if min(ones, zeros) == 0 else 0
        return {"labels that are not in classes": len(labels) - counted, "labels, all of one class": alone}


class DeclaredTargets(DeclaredRecords):
    """Base class of regressors whose targets have public bounds."""

    target_bounds: Any

    def _target_bounds(self) -> tuple[float, float]:
        """Return the lower and upper bound. Raises ValueError."""
        if self.target_bounds is None:
            raise ValueError("target_bounds must be declared, got None: they cannot be read from private data")
        return interval(target_bounds=self.target_bounds)

    def _check_targets(self, y: Any) -> None:
        """Raise SchemaError for targets that are not numbers."""
        if np.isnan(_numbers(y)).any():
            raise SchemaError(
                "y must hold a number for each record, got targets that are missing or not numbers; encode them by a "
                f"public rule, or set handle_invalid='replace' to count them as the middle of target_bounds. "
                f"{_NOTHING_SPENT}"
            )

    def _targets(self, y: Any) -> FloatArray:
        """Return targets clipped to their bounds and mapped to [-1, 1], NaN for non-numbers; shape (n,)."""
        low, high = self._target_bounds()
        return (np.clip(_numbers(y), low, high) - (low + high) / 2) / ((high - low) / 2)

    def _count_changed_targets(self, y: Any) -> dict[str, int]:
        """Count clipped targets. Not private: for the data curator only."""
        low, high = self._target_bounds()
        return {"targets out of target_bounds": int(_outside(low, high, _numbers(y)).sum())}


def check_records(estimator: Any, X: Any, y: Any) -> None:
    """Raise SchemaError for records that the estimator, or the last step of a pipeline, refuses in every fit."""
    last = getattr(estimator, "_final_estimator", estimator)
    if isinstance(last, DeclaredRecords) and y is not None and last.handle_invalid == "error":
        if last is estimator:
            last._check_features(X)
        last._check_targets(y)


def non_numeric_entries(X: Any) -> Iterator[NDArray[np.bool_]]:
    """Yield a mask for each row: entries that are neither numbers nor missing. Numeric arrays yield nothing."""
    entries = X if isinstance(X, (list, tuple)) else np.asarray(np.ma.filled(X, np.nan) if _hides_objects(X) else X)
    if isinstance(entries, np.ndarray) and entries.dtype.kind != "O":
        return
    for row in entries:
        yield np.array([bool(np.isnan(as_float(item))) and not is_missing(item) for item in row], dtype=np.bool_)


def _hides_objects(X: Any) -> bool:
    """Return whether X is a masked array of objects."""
    return isinstance(X, np.ma.MaskedArray) and X.dtype.kind == "O"


def _numbers(y: Any) -> FloatArray:
    """Return targets as floats, NaN for non-numbers, shape (n,)."""
    return np.array([as_float(item) for item in target_list(y)])


def _outside(low: float, high: float, values: FloatArray) -> NDArray[np.bool_]:
    """Return which values are out of the bounds by more than rounding error, shape (k,)."""
    return Domain(low=low, high=high, missing=low).outside(values)
