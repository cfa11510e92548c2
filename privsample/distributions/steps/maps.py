"""Maps of vectors whose Lipschitz constant, in the Euclidean norm, is derived and not believed."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from privsample._checks import FloatArray, finite, nonnegative, positive, real_array
from privsample._value import frozen_value, set_fields

_UP = 1 + 1e-12


class LipschitzMap(ABC):
    """A map of arrays (..., d), one vector on the last axis; a number is a vector of one."""

    __slots__ = ()

    @property
    @abstractmethod
    def constant(self) -> float:
        """A Lipschitz constant, rounded up."""

    @abstractmethod
    def __call__(self, x: FloatArray) -> FloatArray:
        """The images."""


@frozen_value
class Scaling(LipschitzMap):
    """x -> factor x + offset."""

    factor: float
    offset: float = 0.0

    def __post_init__(self) -> None:
        set_fields(self, factor=finite(factor=self.factor), offset=finite(offset=self.offset))

    @property
    def constant(self) -> float:
        """|factor|."""
        return abs(self.factor)

    def __call__(self, x: FloatArray) -> FloatArray:
        """The images."""
        return self.factor * x + self.offset


@frozen_value
class Affine(LipschitzMap):
    """x -> matrix x + offset; matrix of shape (d', d)."""

    matrix: FloatArray
    offset: float | FloatArray = 0.0

    def __post_init__(self) -> None:
        matrix, offset = real_array(matrix=self.matrix).copy(), real_array(offset=self.offset).copy()
        if matrix.ndim != 2 or not np.isfinite(matrix).all():
            raise ValueError(f"matrix must be finite numbers of shape (rows, columns), got shape {matrix.shape}")
        if offset.shape not in ((), matrix.shape[:1]) or not np.isfinite(offset).all():
            raise ValueError(f"offset must be finite numbers of shape {matrix.shape[:1]}, got shape {offset.shape}")
        matrix.flags.writeable = offset.flags.writeable = False
        set_fields(self, matrix=matrix, offset=offset)

    @property
    def constant(self) -> float:
        """The spectral norm."""
        return float(np.linalg.norm(self.matrix, 2)) * _UP

    def __call__(self, x: FloatArray) -> FloatArray:
        """The images."""
        return x @ self.matrix.T + self.offset


@frozen_value
class Ball(LipschitzMap):
    """The projection onto the ball of `radius` around `centre`: a convex set."""

    radius: float
    centre: float | FloatArray = 0.0

    def __post_init__(self) -> None:
        centre = real_array(centre=self.centre).copy()
        if centre.ndim > 1 or not np.isfinite(centre).all():
            raise ValueError("centre must be a finite number or vector")
        centre.flags.writeable = False
        set_fields(self, radius=positive(radius=self.radius), centre=centre)

    @property
    def constant(self) -> float:
        """1."""
        return 1.0

    def __call__(self, x: FloatArray) -> FloatArray:
        """The nearest points."""
        centre = np.asarray(self.centre)
        if centre.ndim and x.shape[-1:] != centre.shape:  # broadcasting would stretch
            raise ValueError(f"centre has shape {centre.shape}, the vectors {x.shape[-1:]}")
        away = x - centre
        largest = np.maximum(np.abs(away).max(axis=-1, keepdims=True), self.radius)
        norm = largest * np.linalg.norm(away / largest, axis=-1, keepdims=True)
        return self.centre + away * np.minimum(1.0, self.radius / np.maximum(norm, self.radius))


@frozen_value
class Box(LipschitzMap):
    """The projection onto [low, high] in every coordinate: a convex set."""

    low: float
    high: float

    def __post_init__(self) -> None:
        set_fields(self, low=finite(low=self.low), high=finite(high=self.high))
        if not self.low < self.high:
            raise ValueError(f"low must lie below high, got ({self.low}, {self.high})")

    @property
    def constant(self) -> float:
        """1."""
        return 1.0

    def __call__(self, x: FloatArray) -> FloatArray:
        """The nearest points."""
        return np.clip(x, self.low, self.high)


@frozen_value
class StatedMap(LipschitzMap):
    """A user's own function of arrays (..., d), whose Lipschitz constant is taken on trust. It cannot be saved."""

    function: Callable[[FloatArray], FloatArray]
    stated: float

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"function must be a function of one array, got {type(self.function).__name__}")
        set_fields(self, stated=nonnegative(stated=self.stated))

    @property
    def constant(self) -> float:
        """The stated one."""
        return self.stated

    def __call__(self, x: FloatArray) -> FloatArray:
        """The images."""
        return np.asarray(self.function(x), dtype=np.float64)
