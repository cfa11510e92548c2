"""Privacy amplification by Bernoulli draws: Algorithms 1 to 3 of Imola and Chaudhuri (2021), with certified bounds."""

from dataclasses import fields

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray, number, positive_integer, real_array, renyi_orders, whole_number
from privsample._value import frozen_value, set_fields
from privsample.accounting.postprocessing.bernoulli_bounds import (
    binary_log_odds,
    checked_margin,
    majority_renyi,
    symmetric_renyi,
)
from privsample.accounting.postprocessing.bernoulli_corners import Corners
from privsample.accounting.postprocessing.bernoulli_search import corner_renyi, renyi_bound

_LARGEST_SEARCH = 4096  # entries of the matrix of probabilities; a search evaluates it some thousand times
_SEED = 20210601


@frozen_value
class AmplificationBounds:
    """Lower and upper bounds on the largest Rényi divergence after Bernoulli draws, from `bernoulli_amplification`.

    Parameters
    ----------
    lower : numpy.ndarray of float
        Divergences in nats that a pair of distributions attains: the largest that the searches found.
    upper : numpy.ndarray of float
        Proven upper bounds in nats, rounded up. The account uses them.
    symmetric : numpy.ndarray of float
        Divergences of the symmetric pair on the two farthest corners (Theorem 4), which the paper conjectures to be
        the largest.
    closed_form : numpy.ndarray of float
        Lower bounds in closed form (Theorem 2); 0 where the theorem does not apply.

    Raises
    ------
    ValueError
        If the arrays differ in shape.

    Examples
    --------
    >>> import privsample as ps
    >>> bounds = ps.bernoulli_amplification(1.0, order=5, margin=0.1)
    >>> isinstance(bounds, ps.AmplificationBounds)
    True
    """

    lower: FloatArray
    upper: FloatArray
    symmetric: FloatArray
    closed_form: FloatArray

    def __post_init__(self) -> None:
        for item in fields(self):
            array = real_array(**{item.name: getattr(self, item.name)}).copy()
            array.flags.writeable = False
            set_fields(self, **{item.name: array})
        if len({np.shape(getattr(self, item.name)) for item in fields(self)}) != 1:
            raise ValueError("lower, upper, symmetric and closed_form must have one shape")


def bernoulli_amplification(
    epsilon: ArrayLike, *, order: float, margin: float, dimension: int = 1, draws: int = 1, starts: int = 1
) -> AmplificationBounds:
    """Bound the largest Rényi divergence after Bernoulli draws, over all mechanisms with divergence `epsilon`.

    A mechanism with Rényi divergence `epsilon` at this order releases d = `dimension` probabilities in
    [margin, 1 - margin]. They stay secret, and k = `draws` vectors of d Bernoulli draws with these probabilities are
    published. The paper writes Post(epsilon) for the largest divergence of the draws. Its Algorithm 1 is the case
    `draws=1`, Algorithm 2 the case `dimension=1`, and Algorithm 3 the general case.

    Parameters
    ----------
    epsilon : array of float, any shape
        Rényi divergences of the probabilities, in nats, finite and >= 0.
    order : float
        Rényi order, finite and > 1.
    margin : float
        The probabilities lie in [margin, 1 - margin]; in [0, 1/2).
    dimension : int, default 1
        Number d of probabilities, >= 1.
    draws : int, default 1
        Number k of vectors of draws, >= 1.
    starts : int, default 1
        Random starting points of the search over distributions on the corners, besides the symmetric pair, for
        dimension > 1; with 0 there is no search. Equal arguments give equal results.

    Returns
    -------
    AmplificationBounds
        Arrays of the shape of `epsilon`.

    Raises
    ------
    ValueError
        If an argument is outside its range, or if the search would be too large: (2 draws + 2)^dimension is above 4096.

    Notes
    -----
    Imola and Chaudhuri 2021, Algorithms 1 to 3 and Theorems 1 to 5; docs/notes/bernoulli.md. The algorithms maximize a
    convex function, which may have several local maxima, so that a search yields lower bounds. For dimension = draws =
    1 a certified search closes the gap to a relative 1e-8. Theorem 3, on several draws, is not proved; the upper bound
    does not use it.

    Kind: lower bound (`lower`) and upper bound (`upper`).

    Examples
    --------
    >>> import privsample as ps
    >>> bounds = ps.bernoulli_amplification([0.1, 1.0, 10.0], order=5, margin=0.1)
    >>> bounds.lower.round(3).tolist(), bounds.upper.round(3).tolist()
    ([0.067, 0.739, 2.17], [0.067, 0.739, 2.17])
    >>> bounds = ps.bernoulli_amplification(1.0, order=5, margin=0.3, dimension=2)
    >>> round(float(bounds.lower), 3), round(float(bounds.upper), 3)
    (0.484, 0.778)
    """
    e = real_array(epsilon=epsilon)
    if not ((e >= 0.0) & (e < np.inf)).all():
        raise ValueError("epsilon must be finite and >= 0, in nats")
    case = _Case(
        order=float(renyi_orders(number(order=order))),
        margin=checked_margin(margin),
        dimension=positive_integer(dimension=dimension),
        draws=positive_integer(draws=draws),
        starts=_starts(starts),
    )
    rows = np.array([case.bounds(float(x)) for x in e.ravel()]).reshape(*e.shape, 4)
    return AmplificationBounds(lower=rows[..., 0], upper=rows[..., 1], symmetric=rows[..., 2], closed_form=rows[..., 3])


def _starts(starts: int) -> int:
    """Check the number of starting points."""
    found = whole_number(starts=starts)
    if found < 0:
        raise ValueError(f"starts must be >= 0, got {found}")
    return found


@frozen_value
class _Case:
    """The parameters of the draws and of the search."""

    order: float
    margin: float
    dimension: int
    draws: int
    starts: int

    def __post_init__(self) -> None:
        if self._searches and (2 * self.draws + 2) ** self.dimension > _LARGEST_SEARCH:
            raise ValueError(
                f"(2 draws + 2)^dimension must be at most {_LARGEST_SEARCH} for a search, got dimension="
                f"{self.dimension} and draws={self.draws}; set starts=0 for the bounds without a search"
            )

    @property
    def _searches(self) -> bool:
        """Whether distributions on more than two corners are searched."""
        return self.dimension > 1 and self.starts > 0 and self.margin > 0.0

    def bounds(self, epsilon: float) -> tuple[float, float, float, float]:
        """The lower and upper bound, the divergence of the symmetric pair, and its closed-form lower bound."""
        trials = self.dimension * self.draws
        if epsilon == 0.0 or self.margin == 0.0:  # the draws may reveal the probabilities, which may be 0 or 1
            return epsilon, epsilon, epsilon, majority_renyi(epsilon, self.order, trials, self.margin)
        symmetric = symmetric_renyi(float(binary_log_odds(epsilon, self.order)), self.order, trials, self.margin)
        upper = max(renyi_bound(epsilon, self.order, trials, self.margin), symmetric)
        lower = symmetric
        if self.dimension == 1:
            lower = max(lower, corner_renyi(epsilon, self.order, trials, self.margin).low)
        elif self._searches:
            corners = Corners(
                order=self.order,
                epsilon=epsilon,
                dimension=self.dimension,
                draws=self.draws,
                margin=self.margin,
            )
            lower = max(lower, corners.best(np.random.default_rng(_SEED), self.starts, conjectured=True))
        return min(lower, upper), upper, symmetric, majority_renyi(epsilon, self.order, trials, self.margin)
