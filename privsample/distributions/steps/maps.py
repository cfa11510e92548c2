"""Lipschitz maps of vectors in the Euclidean norm, with constants that are derived from the parameters."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from privsample._checks import FloatArray, finite, nonnegative, positive, real_array
from privsample._value import frozen_value, set_fields

_UP = 1 + 1e-12


class LipschitzMap(ABC):
    """Abstract base class of Lipschitz maps of vectors, which lie along the last axis of an array of shape (..., d).

    Examples
    --------
    >>> import privsample as ps
    >>> isinstance(ps.Scaling(factor=0.5), ps.LipschitzMap)
    True
    """

    __slots__ = ()

    @property
    @abstractmethod
    def constant(self) -> float:
        """A Lipschitz constant in the Euclidean norm, rounded up."""

    @abstractmethod
    def __call__(self, x: FloatArray) -> FloatArray:
        """The images of vectors, along the last axis."""


@frozen_value
class Scaling(LipschitzMap):
    """The map x -> factor x + offset.

    Parameters
    ----------
    factor : float
        Factor, finite.
    offset : float, default 0
        Offset added to every coordinate, finite.

    Raises
    ------
    ValueError
        If a parameter is not finite.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.Scaling(factor=-0.5).constant
    0.5
    """

    factor: float
    offset: float = 0.0

    def __post_init__(self) -> None:
        set_fields(self, factor=finite(factor=self.factor), offset=finite(offset=self.offset))

    @property
    def constant(self) -> float:
        """The Lipschitz constant |factor|."""
        return abs(self.factor)

    def __call__(self, x: FloatArray) -> FloatArray:
        """The images of vectors, along the last axis."""
        return self.factor * x + self.offset


@frozen_value
class Affine(LipschitzMap):
    """The map x -> matrix x + offset.

    Parameters
    ----------
    matrix : array of shape (d', d)
        Matrix of finite numbers.
    offset : float or array of shape (d',), default 0
        Offset, finite.

    Raises
    ------
    ValueError
        If an entry is not finite, or if the shapes do not fit.

    Examples
    --------
    >>> import privsample as ps
    >>> print(f"{ps.Affine(matrix=[[0.5, 0.0], [0.0, 0.2]]).constant:.3f}")
    0.500
    """

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
        """The spectral norm of the matrix, rounded up."""
        return float(np.linalg.norm(self.matrix, 2)) * _UP

    def __call__(self, x: FloatArray) -> FloatArray:
        """The images of vectors, along the last axis."""
        return x @ self.matrix.T + self.offset


@frozen_value
class Ball(LipschitzMap):
    """The projection onto the Euclidean ball of radius `radius` around `centre`.

    Parameters
    ----------
    radius : float
        Radius, finite and > 0.
    centre : float or array of shape (d,), default 0
        Centre, finite.

    Raises
    ------
    ValueError
        If `radius` is not finite and > 0, or `centre` not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> ps.Ball(radius=5)(np.array([6.0, 8.0]))
    array([3., 4.])
    """

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
        """The Lipschitz constant 1 of a projection onto a convex set."""
        return 1.0

    def __call__(self, x: FloatArray) -> FloatArray:
        """The projections of vectors, along the last axis."""
        centre = np.asarray(self.centre)
        if centre.ndim and x.shape[-1:] != centre.shape:  # NumPy would broadcast vectors of another length
            raise ValueError(f"centre has shape {centre.shape}, the vectors {x.shape[-1:]}")
        away = x - centre
        largest = np.maximum(np.abs(away).max(axis=-1, keepdims=True), self.radius)
        norm = largest * np.linalg.norm(away / largest, axis=-1, keepdims=True)
        return self.centre + away * np.minimum(1.0, self.radius / np.maximum(norm, self.radius))


@frozen_value
class Box(LipschitzMap):
    """The projection onto [low, high] in every coordinate.

    Parameters
    ----------
    low, high : float
        Bounds, finite, low < high.

    Raises
    ------
    ValueError
        If a bound is not finite, or if low >= high.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> ps.Box(low=0, high=1)(np.array([-2.0, 0.5]))
    array([0. , 0.5])
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        set_fields(self, low=finite(low=self.low), high=finite(high=self.high))
        if not self.low < self.high:
            raise ValueError(f"low must lie below high, got ({self.low}, {self.high})")

    @property
    def constant(self) -> float:
        """The Lipschitz constant 1 of a projection onto a convex set."""
        return 1.0

    def __call__(self, x: FloatArray) -> FloatArray:
        """The projections of vectors, along the last axis."""
        return np.clip(x, self.low, self.high)


@frozen_value
class StatedMap(LipschitzMap):
    """A user's function with a Lipschitz constant that the user states. It cannot be saved.

    Parameters
    ----------
    function : callable
        A function of arrays (..., d).
    stated : float
        A Lipschitz constant of `function` in the Euclidean norm, finite and >= 0. It is not validated.

    Raises
    ------
    TypeError
        If `function` is not callable.
    ValueError
        If `stated` is not finite and >= 0.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> ps.StatedMap(function=np.tanh, stated=1).constant
    1.0
    """

    function: Callable[[FloatArray], FloatArray]
    stated: float

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"function must be a function of one array, got {type(self.function).__name__}")
        set_fields(self, stated=nonnegative(stated=self.stated))

    @property
    def constant(self) -> float:
        """The Lipschitz constant that the user states."""
        return self.stated

    def __call__(self, x: FloatArray) -> FloatArray:
        """The images of vectors, along the last axis."""
        return np.asarray(self.function(x), dtype=np.float64)
