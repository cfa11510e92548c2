"""Privacy curves of several accounts of one kind, evaluated together: one account in each row."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._value import Memo, cached, frozen_value, set_fields
from privsample.accounting.curves.chords import CurveChords
from privsample.accounting.loss.bounded_range import BoundedRangeEnvelope
from privsample.accounting.loss.gaussian import gaussian_log_delta, gaussian_renyi
from privsample.accounting.loss.pair import LossPair

_TABLE = 4096  # number of epsilons from which a table of a curve costs less than its values
Rows = NDArray[np.intp]


class CurveRows(Memo, ABC):
    """The privacy curves of an account for several numbers of records; both orders of the neighbours are bounded."""

    __slots__ = ()

    @property
    @abstractmethod
    def max_divergence(self) -> float:
        """The largest max divergence of all rows, in nats."""

    @property
    def order_limit(self) -> float:
        """The smallest order limit of all rows; +inf by default."""
        return np.inf

    @property
    @abstractmethod
    def value_cost(self) -> float:
        """Approximate cost of one value of one row, in the unit of `LossPair.curve_cost`."""

    @abstractmethod
    def ceiling(self, orders: FloatArray) -> FloatArray:
        """An upper bound on the Rényi curves of all rows at each order; a closed form."""

    def limit_renyi(self, orders: FloatArray, divergence: FloatArray) -> FloatArray:
        """The smaller of a divergence and of the best known bound on the Rényi curves of all rows, at each order.

        The default is `ceiling`.
        """
        return np.minimum(divergence, self.ceiling(orders))

    @abstractmethod
    def log_delta(self, rows: Rows, epsilon: FloatArray) -> FloatArray:
        """Log delta of the given rows, rounded up.

        `rows` are increasing, shape (k,). `epsilon` >= 0, shape (k, points), does not decrease along a row.
        """

    def approx_log_delta(self, rows: Rows, epsilon: FloatArray) -> FloatArray:
        """An approximation of `log_delta` that guides searches and is never reported; by default `log_delta`."""
        return self.log_delta(rows, epsilon)

    def loose_log_delta(self, rows: Rows, epsilon: FloatArray) -> FloatArray:
        """An upper bound on `log_delta` that may be looser and cheaper; by default `log_delta`."""
        return self.log_delta(rows, epsilon)


@frozen_value
class GaussianRows(CurveRows):
    """N(mu[i], 1) against N(0, 1) in row i, mu > 0; with `loss_range`, the smaller of this and the bounded range."""

    mu: FloatArray
    loss_range: float = np.inf

    def __post_init__(self) -> None:
        mu = np.array(self.mu, dtype=np.float64)
        mu.flags.writeable = False
        set_fields(self, mu=mu)

    @property
    def max_divergence(self) -> float:
        """The range of the loss in nats, infinite if there is none."""
        return self.loss_range

    @property
    def value_cost(self) -> float:
        """That of a closed form."""
        return 0.5

    @property
    def _bounded(self) -> BoundedRangeEnvelope:
        return BoundedRangeEnvelope(loss_range=self.loss_range)

    def ceiling(self, orders: FloatArray) -> FloatArray:
        """The Rényi curve of the largest shift, or of the bounded range if that is smaller."""
        found = gaussian_renyi(float(self.mu.max()), orders)
        return found if np.isinf(self.loss_range) else np.minimum(found, self._bounded.renyi(orders))

    def log_delta(self, rows: Rows, epsilon: FloatArray) -> FloatArray:
        """The closed form of each row."""
        found = gaussian_log_delta(self.mu[rows, None], epsilon)
        return found if np.isinf(self.loss_range) else np.minimum(found, self._bounded.log_delta(epsilon))


@frozen_value
class SharedRows(CurveRows):
    """The same pair, which dominates both orders of the neighbours, for every number of records."""

    pair: LossPair

    @property
    def max_divergence(self) -> float:
        """That of the pair."""
        return self.pair.max_divergence

    @property
    def order_limit(self) -> float:
        """That of the pair."""
        return self.pair.order_limit

    @property
    def value_cost(self) -> float:
        """That of the pair."""
        return self.pair.curve_cost

    def ceiling(self, orders: FloatArray) -> FloatArray:
        """The Rényi curve of the pair."""
        return self.pair.renyi(orders)

    def log_delta(self, rows: Rows, epsilon: FloatArray) -> FloatArray:
        """Log delta of the pair; for very many epsilons by the chords of a table, an upper bound."""
        del rows
        return self.pair.log_delta(epsilon) if epsilon.size <= _TABLE else self._chords(epsilon)

    def approx_log_delta(self, rows: Rows, epsilon: FloatArray) -> FloatArray:
        """Approximate log delta of the pair."""
        del rows
        return self.pair.approx_log_delta(epsilon)

    @cached
    def _chords(self) -> CurveChords:
        """The table of the pair's privacy curve."""
        return CurveChords.of(self.pair.log_delta, self.max_divergence, _TABLE).convex
