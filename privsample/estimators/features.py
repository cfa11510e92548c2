"""Features of an estimator: read as floats, refused or replaced, clipped to public bounds and scaled."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from privsample._checks import FloatArray, one_of
from privsample._data import as_float
from privsample.accounting.base import Accountant
from privsample.accounting.targets import Target
from privsample.distributions.domains import Domain
from privsample.distributions.rows import matrix
from privsample.errors import SchemaError
from privsample.estimators.fit_target import fit_target, stated_delta
from privsample.estimators.targets import is_missing
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.intervals import column_names
from privsample.mechanisms.release import Release

HandleInvalid = Literal["error", "replace"]
MOST_NAMED = 10  # features or labels that a report lists by name, the most frequent first
NOTHING_SPENT = "Nothing was drawn or spent; validate counts such records"


class PrivateFit(ABC):
    """Base class of estimators whose `fit` is one release of a calibrated mechanism."""

    epsilon: float | None
    delta: float | None
    target: Target | None
    release_: Release

    @property
    def _target(self) -> Target:
        """The guarantee of one fit. Raises TypeError or ValueError."""
        return fit_target(self.epsilon, self.delta, self.target)

    @property
    def _stated_delta(self) -> float:
        """The delta at which statements report epsilon."""
        return stated_delta(self._target)

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
            The mechanism, calibrated to the target.

        Raises
        ------
        UnreachableTarget
            If no parameters of the mechanism meet the target.
        ValueError
            If a parameter of the estimator is invalid.
        """

    def accountant_for(self, n: int, features: int) -> Accountant:
        """Return the account of one `fit`, computed without data.

        Parameters
        ----------
        n : int
            Number of records, >= 1.
        features : int
            Number of features, >= 1.

        Returns
        -------
        Accountant
            The account of the release that `fit` makes, under ReplaceOne(n).

        Raises
        ------
        UnreachableTarget
            If no parameters of the mechanism meet the target.
        ValueError, TypeError
            If a parameter is invalid.
        """
        return self.mechanism_for(n, features).accountant

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
        check_is_fitted(self, "release_")
        return self.release_.statement(delta)


class DeclaredFeatures(BaseEstimator, ABC):
    """Base class of estimators whose features have public `bounds`."""

    bounds: Any
    handle_invalid: HandleInvalid

    def _numeric_rows(self, X: Any, *, reset: bool = True) -> FloatArray:
        """Return X as floats, shape (n, features), with NaN for non-numbers. Checks the schema only: SchemaError."""
        if sparse.issparse(X):
            raise TypeError("X must be dense, got a sparse matrix; use X.toarray()")
        rows = matrix(X, rule="Reshape your data: X must have shape (n, features)")
        if min(rows.shape) == 0:
            what = "feature(s)" if rows.shape[0] else "sample(s)"
            raise SchemaError(f"found 0 {what} (shape={rows.shape}) while a minimum of 1 is required.")
        validate_data(self, X, skip_check_array=True, reset=reset)
        if not one_of(self.handle_invalid, ("error", "replace")):
            raise ValueError(f"handle_invalid must be 'error' or 'replace', got {self.handle_invalid!r}")
        return rows

    def _check_features(self, X: Any) -> None:
        """Raise SchemaError for features that are neither numbers nor missing."""
        if any(row.any() for row in non_numeric_entries(X)):
            raise SchemaError(
                "X must hold numbers or missing entries, got others, such as text; encode them by a public rule first, "
                f"or set handle_invalid='replace' to count them as missing. {NOTHING_SPENT}"
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
        """Count replaced and clipped features by reason, and by feature. Not private: for the data curator only."""
        facts = {
            "features that are neither numbers nor missing": sum(int(each.sum()) for each in non_numeric_entries(X))
        }
        if self.bounds is not None:
            beyond = np.column_stack(
                [
                    outside(float(low), float(high), values)
                    for low, high, values in zip(*self._bounds(rows.shape[1]), rows.T, strict=True)
                ]
            )
            facts["features out of bounds"] = int(beyond.sum())
            facts["rows with features out of bounds"] = int(beyond.any(axis=1).sum())
            names = column_names(X) or tuple(map(str, range(rows.shape[1])))
            counts = beyond.sum(axis=0)
            for j in np.argsort(-counts, kind="stable")[:MOST_NAMED]:
                facts[f"feature {names[j]} out of bounds"] = int(counts[j])
        return facts


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


def outside(low: float, high: float, values: FloatArray) -> NDArray[np.bool_]:
    """Return which values are out of the bounds by more than rounding error, shape (k,)."""
    return Domain(low=low, high=high, missing=low).outside(values)
