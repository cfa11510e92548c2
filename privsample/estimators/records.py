"""Records of an estimator: what no declared rule covers is refused or replaced, and what they move is counted."""

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
from privsample.estimators.targets import column, is_missing, same
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.release import Release

HandleInvalid = Literal["error", "replace"]
_UNTOUCHED = "Nothing was drawn or spent; validate(X, y) counts such records"
SEVERAL_CLASSES = (
    "for more than two classes fit one model for each class, to y == class, with epsilon and delta divided by the "
    "number of classes; scikit-learn's OneVsRestClassifier does so where it is public that every class occurs"
)


class DeclaredRecords(BaseEstimator, ABC):
    """What is common to estimators whose features have public `bounds`: rows in, before anything is mended."""

    delta: float
    bounds: Any
    handle_invalid: HandleInvalid

    @abstractmethod
    def mechanism_for(self, n: int, features: int) -> Mechanism:
        """What `fit` will release from n rows of so many features. Raises: ValueError, UnreachableTarget."""

    @abstractmethod
    def _refuse_targets(self, y: Any) -> None:
        """Raise SchemaError for targets that are not as declared."""

    @abstractmethod
    def _targets(self, y: Any) -> FloatArray:
        """The targets that the mechanism takes, shape (n,); total on whatever a record holds."""

    @abstractmethod
    def _odd_targets(self, y: Any) -> dict[str, int]:
        """Targets that are refused, replaced or moved, by reason. For the curator's eyes only."""

    def validate(self, X: Any, y: Any) -> CuratorNotes:
        """What the declared rules would refuse, replace or move in these data as given, for the curator's eyes.

        Nothing is drawn or spent. Raises: SchemaError, ValueError, TypeError, UnreachableTarget, as `fit` does, but not
        for what single records hold.
        """
        rows = self._rows(X, y)
        own = self._moved_features(X, rows) | self._odd_targets(y)
        notes = self.mechanism_for(*rows.shape).validate((self._scaled(rows)[0], self._targets(y)))
        facts = dict(notes.facts) | {reason: count for reason, count in own.items() if count}
        return CuratorNotes(title=notes.title, facts=facts)

    def statement(self, delta: float | None = None) -> str:
        """A plain-words privacy statement of the fit, at the delta it was made for unless another is given.

        Raises: NotFittedError.
        """
        check_is_fitted(self)
        release: Release = self.release_
        return release.statement(delta)

    def _accepted_rows(self, X: Any, y: Any) -> FloatArray:
        """X as floats, shape (n, features). Raises: SchemaError, also for records that are refused."""
        rows = self._rows(X, y)
        if self.handle_invalid == "error":
            self._refuse_features(X)
            self._refuse_targets(y)
        return rows

    def _rows(self, X: Any, y: Any) -> FloatArray:
        """X as floats, shape (n, features), by its schema alone; what is no number is NaN. Raises: SchemaError."""
        if sparse.issparse(X):
            raise TypeError("X is sparse, and dense rows are needed; use X.toarray()")
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

    def _refuse_features(self, X: Any) -> None:
        """Raise SchemaError for features that are neither numbers nor missing."""
        if any(each.any() for each in no_numbers(X)):
            raise SchemaError(
                "X holds features that are neither numbers nor missing, such as text; numbers were expected: encode "
                f"them by a public rule first, or set handle_invalid='replace' to count them as missing. {_UNTOUCHED}"
            )

    def _bounds(self, features: int) -> tuple[FloatArray, FloatArray]:
        """Low and high ends, shape (features,); -1 and 1 where none are declared. Raises: ValueError."""
        try:
            ends = (-1.0, 1.0) if self.bounds is None else self.bounds
            low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (features,)) for end in ends)
        except (TypeError, ValueError):
            raise ValueError(f"bounds must be (low, high), each a number or {features} numbers") from None
        if not (np.all(low < high) and np.all(np.isfinite(high - low))):
            raise ValueError("bounds must be finite, with low < high for each feature")
        return low, high

    def _scaled(self, rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Rows moved into the bounds, then to [-1, 1], as they are without bounds; and the centre and half width."""
        low, high = self._bounds(rows.shape[1])
        centre, spread = (low + high) / 2, (high - low) / 2
        scaled = rows if self.bounds is None else (np.clip(rows, low, high) - centre) / spread
        return scaled, centre, spread

    def _moved_features(self, X: Any, rows: FloatArray) -> dict[str, int]:
        """What is replaced or moved in the features as they were given, by reason. For the curator's eyes only."""
        facts = {"features that are neither numbers nor missing": sum(int(each.sum()) for each in no_numbers(X))}
        if self.bounds is not None:
            outside = np.zeros(len(rows), dtype=np.int64)
            for low, high, values in zip(*self._bounds(rows.shape[1]), rows.T, strict=True):
                outside += _outside(float(low), float(high), values)
            facts["features out of bounds"] = int(outside.sum())
            facts["rows with features out of bounds"] = int((outside > 0).sum())
        return facts


class DeclaredClasses(DeclaredRecords):
    """What is common to classifiers whose two classes are declared, never looked up."""

    classes: Any

    def _class_labels(self) -> NDArray[Any]:
        """The negative and the positive class, shape (2,). Raises: ValueError."""
        if isinstance(self.classes, (str, bytes)) or np.shape(self.classes) != (2,):
            raise ValueError(
                f"classes must be a pair (negative, positive) of labels, got {self.classes!r}: {SEVERAL_CLASSES}"
            )
        pair, labels = list(self.classes), np.asarray(self.classes)
        if same(pair[0], pair[1]) or not all(same(label, label) for label in pair):
            raise ValueError(f"classes must be two different labels, not missing, got {self.classes!r}")
        if not all(same(label, own) for label, own in zip(labels.tolist(), pair, strict=True)):
            raise ValueError(f"classes must be of one type, got {self.classes!r}: one text would make texts of both")
        return labels

    def _refuse_targets(self, y: Any) -> None:
        """Raise SchemaError for labels that are not declared."""
        negative, positive = self._class_labels().tolist()
        if not all(same(at, positive) or same(at, negative) for at in column(y)):
            raise SchemaError(
                f"y holds labels that are not in classes = ({negative!r}, {positive!r}); only these two were expected: "
                f"declare classes=(negative, positive), or map labels by a public rule; {SEVERAL_CLASSES}; or set "
                f"handle_invalid='replace' to count all others as the negative class. {_UNTOUCHED}"
            )

    def _targets(self, y: Any) -> FloatArray:
        """1 where the label is the positive class, 0 elsewhere, shape (n,)."""
        positive = self._class_labels().tolist()[1]
        return np.array([same(label, positive) for label in column(y)], dtype=np.float64)

    def _odd_targets(self, y: Any) -> dict[str, int]:
        """Labels that are not declared, and whether all are of one class. For the curator's eyes only."""
        negative, positive = self._class_labels().tolist()
        labels = column(y)
        ones = sum(same(label, positive) for label in labels)
        zeros = sum(same(label, negative) for label in labels)
        counted = ones + zeros
        alone = counted if min(ones, zeros) == 0 else 0
        return {"labels that are not in classes": len(labels) - counted, "labels, all of one class": alone}


class DeclaredTargets(DeclaredRecords):
    """What is common to regressors whose targets have public bounds."""

    target_bounds: Any

    def _target_ends(self) -> tuple[float, float]:
        """Low and high. Raises: ValueError."""
        if self.target_bounds is None:
            raise ValueError("target_bounds must be declared: what the data hold cannot be looked up in private")
        return interval(target_bounds=self.target_bounds)

    def _refuse_targets(self, y: Any) -> None:
        """Raise SchemaError for targets that are missing or no numbers."""
        if np.isnan(_numbers(y)).any():
            raise SchemaError(
                "y holds targets that are missing or no numbers; a number for each record was expected: encode them by "
                f"a public rule, or set handle_invalid='replace' to count them as the middle of target_bounds. "
                f"{_UNTOUCHED}"
            )

    def _targets(self, y: Any) -> FloatArray:
        """Targets moved into their bounds, then to [-1, 1]; NaN where there is no number. Shape (n,)."""
        low, high = self._target_ends()
        return (np.clip(_numbers(y), low, high) - (low + high) / 2) / ((high - low) / 2)

    def _odd_targets(self, y: Any) -> dict[str, int]:
        """Targets that are moved. For the curator's eyes only."""
        low, high = self._target_ends()
        return {"targets out of target_bounds": int(_outside(low, high, _numbers(y)).sum())}


def refuse_records(estimator: Any, X: Any, y: Any) -> None:
    """Raise SchemaError for records that the estimator, or the last step of a pipeline, would refuse in every fit."""
    last = getattr(estimator, "_final_estimator", estimator)
    if isinstance(last, DeclaredRecords) and y is not None and last.handle_invalid == "error":
        if last is estimator:
            last._refuse_features(X)
        last._refuse_targets(y)


def no_numbers(X: Any) -> Iterator[NDArray[np.bool_]]:
    """Row by row, which entries are neither numbers nor missing; nothing where the type leaves only numbers."""
    entries = X if isinstance(X, (list, tuple)) else np.asarray(np.ma.filled(X, np.nan) if _hides_objects(X) else X)
    if isinstance(entries, np.ndarray) and entries.dtype.kind != "O":
        return
    for row in entries:
        yield np.array([bool(np.isnan(as_float(item))) and not is_missing(item) for item in row], dtype=np.bool_)


def _hides_objects(X: Any) -> bool:
    return isinstance(X, np.ma.MaskedArray) and X.dtype.kind == "O"


def _numbers(y: Any) -> FloatArray:
    return np.array([as_float(item) for item in column(y)])


def _outside(low: float, high: float, values: FloatArray) -> NDArray[np.bool_]:
    """Which values lie out of the bounds by more than rounding, shape (k,)."""
    return Domain(low=low, high=high, missing=low).outside(values)
