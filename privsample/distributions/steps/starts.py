"""Initial distributions of descents: random or fixed states that do not depend on private records."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from privsample._checks import FloatArray, finite, function, listed, positive
from privsample._value import frozen_value, set_fields


class InitialDistribution(ABC):
    """Abstract base class of initial distributions of a descent, whose states do not depend on private records.

    Notes
    -----
    Balle, Barthe, Gaboardi and Geumlek 2019, Algorithm 1: the initial distribution xi_0.

    Examples
    --------
    >>> import privsample as ps
    >>> isinstance(ps.UniformInBall(radius=1), ps.InitialDistribution)
    True
    """

    __slots__ = ()

    @abstractmethod
    def sample(self, width: int, rng: np.random.Generator) -> FloatArray:
        """One initial state.

        Parameters
        ----------
        width : int
            Number of coefficients, >= 1.
        rng : numpy.random.Generator
            Source of all randomness.

        Returns
        -------
        array of shape (width,)
            The state, before it is projected onto the ball of the loss.
        """


@frozen_value
class PointStart(InitialDistribution):
    """A fixed initial state.

    Parameters
    ----------
    point : tuple of float
        The state, finite; the intercept, if there is one, is last.

    Raises
    ------
    ValueError
        If a coordinate is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> ps.PointStart(point=(0.5, 0.0)).sample(2, np.random.default_rng(1)).tolist()
    [0.5, 0.0]
    """

    point: tuple[float, ...]

    def __post_init__(self) -> None:
        given = listed(point=self.point)
        set_fields(self, point=tuple(finite(**{f"point[{j}]": x}) for j, x in enumerate(given)))

    def sample(self, width: int, rng: np.random.Generator) -> FloatArray:
        """The point itself."""
        del width, rng
        return np.array(self.point)


@frozen_value
class UniformInBall(InitialDistribution):
    """An initial state that is uniform in a ball around 0.

    Parameters
    ----------
    radius : float
        Radius of the ball in L2, finite and > 0.

    Raises
    ------
    ValueError
        If `radius` is not finite and > 0.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> state = ps.UniformInBall(radius=2).sample(3, np.random.default_rng(1))
    >>> bool(np.linalg.norm(state) <= 2)
    True
    """

    radius: float

    def __post_init__(self) -> None:
        set_fields(self, radius=positive(radius=self.radius))

    def sample(self, width: int, rng: np.random.Generator) -> FloatArray:
        """A uniform direction, at a distance whose power `width` is uniform."""
        direction = rng.standard_normal(width)
        return np.asarray(self.radius * rng.random() ** (1 / width) * direction / np.linalg.norm(direction))


@frozen_value
class StatedStart(InitialDistribution):
    """An initial distribution given by a function of the user; it must not depend on private records. Not savable.

    Parameters
    ----------
    function : callable
        Maps (width, generator) to an initial state of shape (width,).

    Raises
    ------
    TypeError
        If `function` is not a function.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> ps.StatedStart(function=lambda width, rng: rng.normal(size=width)).sample(3, np.random.default_rng(1)).shape
    (3,)
    """

    function: Callable[[int, np.random.Generator], Any]

    def __post_init__(self) -> None:
        function(function=self.function)

    def sample(self, width: int, rng: np.random.Generator) -> FloatArray:
        """The state that the user's function returns."""
        return np.asarray(self.function(width, rng), dtype=np.float64)
