"""A fixed number of repetitions, whose best output can cost as much as all of them together."""

import numpy as np

from privsample._checks import FloatArray, positive_integer
from privsample._value import frozen_value, set_fields
from privsample.distributions.repetitions import RepetitionDistribution

_LARGEST = 1_000_000  # repetitions


@frozen_value
class FixedRepetitions(RepetitionDistribution):
    """The point mass: always the same number of repetitions.

    The account of a selection with this distribution is that of the composition of all runs, which for some mechanisms
    and scores is attained: a random number of repetitions, such as `TruncatedNegativeBinomial.logarithmic(mean=10)`,
    costs far less.

    Parameters
    ----------
    number : int
        The number of repetitions, from 1 to 1 000 000.

    Raises
    ------
    TypeError
        If `number` is not a number.
    ValueError
        If it is not a whole number in this range.

    Notes
    -----
    Source: Papernot and Steinke 2022, section 3.2 and Proposition 17 (Appendix D.1).

    Examples
    --------
    >>> import privsample as ps
    >>> run = ps.PureAccountant(stated_epsilon=0.1)
    >>> logarithmic = ps.TruncatedNegativeBinomial.logarithmic(mean=10)
    >>> for repetitions in (ps.FixedRepetitions(number=10), logarithmic):
    ...     best = ps.SelectionAccountant(base=run, repetitions=repetitions)
    ...     print(f"{best.epsilon(0.0):.2f}")
    1.00
    0.19
    """

    number: int

    def __post_init__(self) -> None:
        number = positive_integer(number=self.number)
        if number > _LARGEST:
            raise ValueError(f"number must be at most {_LARGEST}, got {number}")
        set_fields(self, number=number)

    @property
    def mean(self) -> float:  # type: ignore[override]
        """The number of repetitions."""
        return float(self.number)

    @property
    def maximum(self) -> float:  # type: ignore[override]
        """The number of repetitions."""
        return float(self.number)

    @property
    def fixed_number(self) -> int:
        """The number of repetitions."""
        return self.number

    def log_mass(self, k: FloatArray) -> FloatArray:
        """0 at the number, and -inf elsewhere."""
        return np.where(np.asarray(k) == self.number, 0.0, -np.inf)

    def log_rank_probability(self, w: FloatArray) -> FloatArray:
        """log(1 - (1 - w)^number)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(-np.expm1(self.number * np.log1p(-np.asarray(w)))))

    def log_pgf_derivative(self, w: FloatArray) -> FloatArray:
        """log(number (1 - w)^(number - 1))."""
        if self.number == 1:
            return np.zeros(np.shape(w))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.number) + (self.number - 1.0) * np.log1p(-np.asarray(w)))

    def pgf_curvature(self, w: FloatArray) -> FloatArray:
        """(number - 1)/(1 - w)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.number == 1, 0.0, (self.number - 1.0) / (1.0 - np.asarray(w)))

    def log_pgf(self, log_x: FloatArray) -> FloatArray:
        """Number times log x."""
        return np.asarray(self.number * np.asarray(log_x))

    def sample(self, rng: np.random.Generator) -> int:
        """The number of repetitions; nothing is drawn."""
        del rng
        return self.number

    def tilted(self, keep: float) -> "FixedRepetitions":
        """The same distribution, since one number alone has a mass."""
        del keep
        return self
