"""Records of an estimator: invalid values are refused or replaced, and the changes of declared rules are counted."""

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from privsample._checks import FloatArray, interval, positive
from privsample._data import as_float
from privsample._repr import short_repr
from privsample.errors import SchemaError
from privsample.estimators.features import MOST_NAMED, NOTHING_SPENT, DeclaredFeatures, PrivateFit, outside
from privsample.estimators.targets import labels_equal, target_list
from privsample.mechanisms.notes import CuratorNotes

SEVERAL_CLASSES = (
    "for more than two classes fit one model per class to y == class, with epsilon and delta divided by the number of "
    "classes; scikit-learn's OneVsRestClassifier does so if it is public that every class occurs; or use "
    "PrivateLogisticRegression, which takes any number of classes"
)


class DeclaredRecords(PrivateFit, DeclaredFeatures, ABC):
    """Base class of estimators that learn from features with public `bounds`, and targets."""

    norm: float | None

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
            If no parameters of the mechanism meet the target.
        ValueError, TypeError
            If a parameter of the estimator is invalid.
        """
        rows = self._rows(X, y)
        own = self._count_changed_features(X, rows) | self._count_changed_targets(y)
        notes = self.mechanism_for(*rows.shape).validate((self._scaled(rows)[0], self._targets(y)))
        facts = dict(notes.facts) | {reason: count for reason, count in own.items() if count}
        return CuratorNotes(title=notes.title, facts=facts)

    def _check_norm(self) -> None:
        """Raise ValueError if neither `norm` nor `bounds` is declared."""
        if self.norm is None and self.bounds is None:
            raise ValueError(
                "norm or bounds must be declared publicly, got neither: they cannot be read from private data"
            )

    def _checked_rows(self, X: Any, y: Any) -> FloatArray:
        """Return X as floats, shape (n, features). Raises SchemaError for its schema and for refused records."""
        rows = self._rows(X, y)
        if self.handle_invalid == "error":
            self._check_features(X)
            self._check_targets(y)
        return rows

    def _rows(self, X: Any, y: Any) -> FloatArray:
        """Return X as floats, shape (n, features), with NaN for non-numbers. Checks the schema only: SchemaError."""
        rows = self._numeric_rows(X)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        return rows


class DeclaredClasses(DeclaredRecords):
    """Base class of classifiers whose classes are declared and not read from the data."""

    classes: Any
    _only_two: ClassVar[bool] = True  # whether the model is of two classes alone

    def _class_labels(self) -> NDArray[Any]:
        """Return the declared classes, shape (classes,); of two the negative one is the first. Raises ValueError."""
        shape: tuple[int, ...] = () if isinstance(self.classes, (str, bytes)) else np.shape(self.classes)
        if len(shape) != 1 or shape[0] < 2 or (self._only_two and shape[0] > 2):
            what = f"a pair (negative, positive) of labels, got {self.classes!r}: {SEVERAL_CLASSES}"
            raise ValueError(
                f"classes must be {what if self._only_two else f'two or more labels, got {self.classes!r}'}"
            )
        own, labels = list(self.classes), np.asarray(self.classes)
        same = [labels_equal(one, other) for i, one in enumerate(own) for other in own[:i]]
        if any(same) or not all(labels_equal(label, label) for label in own):
            raise ValueError(f"classes must be different labels, not missing, got {self.classes!r}")
        if not all(labels_equal(label, at) for label, at in zip(labels.tolist(), own, strict=True)):
            raise ValueError(f"classes must be of one type, got {self.classes!r}: NumPy would convert all to strings")
        return labels

    def _check_targets(self, y: Any) -> None:
        """Raise SchemaError for labels that are not in `classes`."""
        labels = self._class_labels().tolist()
        if (self._positions(y) < 0).any():
            advice = f"declare classes=(negative, positive), or map labels by a public rule; {SEVERAL_CLASSES}"
            if not self._only_two:
                advice = "declare all classes that a record may have, or map labels by a public rule"
            raise SchemaError(
                f"y must hold labels in classes = ({', '.join(map(repr, labels))}), got others; {advice}; or set "
                f"handle_invalid='replace' to count all others as {labels[0]!r}, the first class. {NOTHING_SPENT}"
            )

    def _positions(self, y: Any) -> NDArray[np.intp]:
        """Return the position of each label in `classes`, -1 for labels that are not declared; shape (n,)."""
        labels = self._class_labels().tolist()
        numbers = None if isinstance(y, (list, tuple)) else np.asarray(y)
        if numbers is not None and numbers.ndim == 1 and numbers.dtype.kind in "biuf":  # a million labels in an instant
            masks = [np.broadcast_to(numbers == own, numbers.shape) for own in labels]
            return np.asarray(np.select(masks, range(len(labels)), -1), dtype=np.intp)
        found = [next((k for k, own in enumerate(labels) if labels_equal(at, own)), -1) for at in target_list(y)]
        return np.array(found, dtype=np.intp)

    def _targets(self, y: Any) -> FloatArray:
        """Return the position of each label in `classes`, 0 for labels that are not declared; shape (n,)."""
        return np.maximum(self._positions(y), 0).astype(np.float64)

    def _count_changed_targets(self, y: Any) -> dict[str, int]:
        """Count labels that are not declared, by label, and labels if all are of one class. For the curator only."""
        positions = self._positions(y)
        known = np.unique(positions[positions >= 0])
        others = [at for at, position in zip(target_list(y), positions, strict=True) if position < 0]
        facts = {
            "labels that are not in classes": len(others),
            "labels, all of one class": int((positions >= 0).sum()) if len(known) < 2 else 0,
        }
        for words, count in Counter(short_repr(at, 40) for at in others).most_common(MOST_NAMED):
            facts[f"label {words}, not in classes"] = count
        return facts


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
                f"{NOTHING_SPENT}"
            )

    def _targets(self, y: Any) -> FloatArray:
        """Return targets clipped to their bounds and mapped to [-1, 1], NaN for non-numbers; shape (n,)."""
        low, high = self._target_bounds()
        return (np.clip(_numbers(y), low, high) - (low + high) / 2) / ((high - low) / 2)

    def _count_changed_targets(self, y: Any) -> dict[str, int]:
        """Count clipped targets. Not private: for the data curator only."""
        low, high = self._target_bounds()
        return {"targets out of target_bounds": int(outside(low, high, _numbers(y)).sum())}


class DeclaredCounts(DeclaredRecords):
    """Base class of regressors whose targets are counts with a public largest one."""

    max_count: Any

    def _largest_count(self) -> float:
        """Return the largest count. Raises ValueError."""
        if self.max_count is None:
            raise ValueError("max_count must be declared, got None: it cannot be read from private data")
        return positive(max_count=self.max_count)

    def _check_targets(self, y: Any) -> None:
        """Raise SchemaError for targets that are no counts."""
        if not _are_counts(_numbers(y)).all():
            raise SchemaError(
                "y must hold a count for each record, got targets that are missing, negative or not whole numbers; "
                "encode them by a public rule, or set handle_invalid='replace' to clip numbers to [0, max_count] and "
                f"to count all others as 0. {NOTHING_SPENT}"
            )

    def _targets(self, y: Any) -> FloatArray:
        """Return the targets as numbers, NaN for non-numbers; the likelihood clips them. Shape (n,)."""
        return _numbers(y)

    def _count_changed_targets(self, y: Any) -> dict[str, int]:  # noqa: ARG002 - the base class passes y
        """Return no counts of its own: the mechanism counts targets that are no counts or above `max_count`."""
        return {}


def check_records(estimator: Any, X: Any, y: Any) -> None:
    """Raise SchemaError for records that the estimator, or the first or last step of a pipeline, always refuses."""
    last = getattr(estimator, "_final_estimator", estimator)
    first = estimator.steps[0][1] if isinstance(estimator, Pipeline) else estimator
    if isinstance(first, DeclaredFeatures) and first.handle_invalid == "error":
        first._check_features(X)
    if isinstance(last, DeclaredRecords) and y is not None and last.handle_invalid == "error":
        last._check_targets(y)


def _are_counts(numbers: FloatArray) -> NDArray[np.bool_]:
    """Return which numbers are counts, shape (n,)."""
    return np.asarray((numbers >= 0) & (numbers == np.floor(numbers)))


def _numbers(y: Any) -> FloatArray:
    """Return targets as floats, NaN for non-numbers, shape (n,)."""
    return np.array([as_float(item) for item in target_list(y)])
