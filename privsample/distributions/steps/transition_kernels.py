"""Markov kernels on arrays of numbers: a random step, with constants that say how much of a difference it preserves."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from privsample._checks import FloatArray, coefficient, finite, flag, function, number, numbers_of, real_array
from privsample._value import frozen_value, set_fields
from privsample.distributions.exact.categorical import bernoulli_draws


def check_privacy_points(given: Any) -> FloatArray | None:
    """A read-only copy of rows (epsilon, gamma) by increasing epsilon; None stays None. Raises ValueError."""
    if given is None:
        return None
    points = real_array(privacy_points=given)
    if points.ndim != 2 or points.shape[1] != 2 or not len(points):
        raise ValueError(f"privacy_points must have shape (points, 2), rows (epsilon, gamma), got {points.shape}")
    epsilon, gamma = points.T
    if not (np.all(epsilon >= 0.0) and np.all(np.isfinite(epsilon)) and np.all((gamma >= 0.0) & (gamma <= 1.0))):
        raise ValueError("privacy_points must have finite epsilons >= 0 and gammas in [0, 1]")
    points = points[np.lexsort((gamma, epsilon))]
    points.flags.writeable = False
    return points


class Kernel(ABC):
    """Abstract base class of Markov kernels K that `AppliedKernel` draws from.

    A subclass of your own is a frozen dataclass that defines `step` and states constants, which are not validated.
    Without a constant below 1 and without `displacement_zcdp`, a step costs what the base costs.

    Attributes
    ----------
    dobrushin : float
        Dobrushin's coefficient: the largest total variation distance between K(x) and K(x'), in [0, 1]; by default 1.
    doeblin : float
        Doeblin's coefficient gamma, in [0, 1]: K(x) >= (1 - gamma) w for one distribution w and every x; by default 1.
    ultra_mixing : float
        Ultra-mixing coefficient gamma, in [0, 1]: K(x) >= (1 - gamma) K(x') for all x and x'; by default 1.
    displacement_zcdp : float
        rho > 0, such that the Rényi divergence of K(x + v) from K(x) is at most a rho |v|^2 at every order a; by
        default +inf.
    privacy_points : array of shape (points, 2) or None
        Rows (epsilon, gamma) with epsilon >= 0 and gamma in [0, 1], each of which says that K is
        (gamma, epsilon)-Dobrushin: the hockey-stick divergence of K(x) from K(x') at e^epsilon is at most gamma for all
        x and x'. K is then an (epsilon, gamma)-locally private randomizer. By default None.

    Notes
    -----
    Balle, Barthe, Gaboardi and Geumlek 2019, Definition 1 (mixing) and Theorem 2 (couplings).

    Examples
    --------
    >>> import privsample as ps
    >>> ps.UniformReset(keep=0.7, low=0, high=1).doeblin
    0.7
    """

    __slots__ = ()
    dobrushin: float = 1.0
    doeblin: float = 1.0
    ultra_mixing: float = 1.0
    displacement_zcdp: float = np.inf
    privacy_points: FloatArray | None = None

    @property
    def draws_exactly(self) -> bool:
        """Whether `step` has exactly the stated constants, also when floating-point numbers are drawn; else False."""
        return False

    @abstractmethod
    def step(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """One random step from a release.

        Parameters
        ----------
        x : array
            The whole array that the base releases.
        rng : numpy.random.Generator
            Source of all randomness.

        Returns
        -------
        array
            The result, of a public shape.
        """


@frozen_value
class StatedKernel(Kernel):
    """A Markov kernel of the user, given by a function that draws from it and by constants. It cannot be saved.

    Parameters
    ----------
    function : callable
        Maps (released array, generator) to the array after the step.
    dobrushin : float, default 1
        Dobrushin's coefficient, in [0, 1].
    doeblin : float, default 1
        Doeblin's coefficient, in [0, 1].
    ultra_mixing : float, default 1
        Ultra-mixing coefficient, in [0, 1].
    displacement_zcdp : float, default inf
        rho > 0: the Rényi divergence of K(x + v) from K(x) is at most a rho |v|^2 at every order a.
    privacy_points : array of float, shape (points, 2), optional
        Rows (epsilon, gamma): K is (gamma, epsilon)-Dobrushin, as `Kernel` documents.

    Raises
    ------
    TypeError
        If `function` is not a function of two arguments.
    ValueError
        If a constant is outside its range.

    Examples
    --------
    A step that replaces a release by a fresh normal draw with probability 1/4, so that all releases have a quarter of
    their distribution in common:

    >>> import numpy as np
    >>> import privsample as ps
    >>> kernel = ps.StatedKernel(
    ...     function=lambda x, rng: x if rng.random() < 0.75 else rng.normal(0, 3, x.shape),
    ...     dobrushin=0.75,
    ...     doeblin=0.75,
    ... )
    >>> kernel.doeblin
    0.75
    """

    _why_not_saved: ClassVar[str] = (
        "a kernel that holds a function cannot be saved: write a registered subclass of Kernel (docs/guides/extend.md)"
    )
    function: Callable[[FloatArray, np.random.Generator], Any]
    dobrushin: float = 1.0
    doeblin: float = 1.0
    ultra_mixing: float = 1.0
    displacement_zcdp: float = np.inf
    privacy_points: FloatArray | None = None

    def __post_init__(self) -> None:
        set_fields(self, privacy_points=check_privacy_points(self.privacy_points))
        function("released array", "generator", function=self.function)
        set_fields(self, dobrushin=coefficient(dobrushin=self.dobrushin), doeblin=coefficient(doeblin=self.doeblin))
        set_fields(self, ultra_mixing=coefficient(ultra_mixing=self.ultra_mixing))
        if not number(displacement_zcdp=self.displacement_zcdp) > 0.0:
            raise ValueError(f"displacement_zcdp must be > 0, got {self.displacement_zcdp!r}")

    def step(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """One random step by the user's function."""
        return numbers_of(self.function(x, rng), "function")


@frozen_value
class UniformReset(Kernel):
    """A kernel that keeps the release with probability `keep`, and otherwise replaces it by uniform numbers.

    Parameters
    ----------
    keep : float
        Probability that the release is kept, in [0, 1]; Doeblin's coefficient.
    low, high : float
        Bounds of the uniform numbers, finite, low < high.
    exact : bool, default True
        Whether the release is kept with exactly this probability. The replacing numbers are multiples of 2^-53 of the
        range: the account does not depend on their distribution. False compares one uniform floating-point number, and
        the account then assumes IDEAL_REALS.

    Raises
    ------
    ValueError
        If a field is outside its range.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> ps.UniformReset(keep=0, low=2, high=3).step(np.zeros(4), np.random.default_rng(1)).min() >= 2
    np.True_
    """

    keep: float
    low: float
    high: float
    exact: bool = True

    def __post_init__(self) -> None:
        set_fields(self, keep=coefficient(keep=self.keep), low=finite(low=self.low), high=finite(high=self.high))
        set_fields(self, exact=flag(exact=self.exact))
        if not 0.0 < self.high - self.low < np.inf:
            raise ValueError(f"low must be less than high, with a finite difference, got {self.low} and {self.high}")

    @property
    def doeblin(self) -> float:  # type: ignore[override]
        """The probability that the release is kept."""
        return self.keep

    def step(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """The release itself, or uniform numbers of its shape."""
        uniform = self.low + (self.high - self.low) * rng.random(x.shape)
        keeps = bernoulli_draws(np.array(self.keep), rng) if self.exact else rng.random() < self.keep
        return x if keeps else uniform

    @property
    def draws_exactly(self) -> bool:
        """The field `exact`."""
        return self.exact
