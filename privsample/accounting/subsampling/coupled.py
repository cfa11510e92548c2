"""The dominating pair of a sampling scheme that is given by its couplings: both terms of advanced joint convexity.

Source: Balle, Barthe and Gaboardi 2018, Theorem 2; docs/notes/subsampling.md, "Schemes of your own".
"""

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.loss.exact import CertifiedCase, CertifiedPair, Claims
from privsample.accounting.loss.pair import LossPair, delta_below_zero
from privsample.accounting.subsampling.chorded import ChordedPair
from privsample.accounting.subsampling.pairs import amplified, inner_epsilon, mixture_pair, replaced_record_pair

_ULP = float(np.finfo(np.float64).eps)


@frozen_value
class CoupledTerm:
    """weight rate factor(t) D_t of `base`, t' = 1 + rate (t - 1), a term of the bound on D_t'.

    The factor is 1 - t'/t for the coupling "to_common", t'/t for the coupling "between", and 1 if `coupling` is None.
    """

    base: LossPair
    rate: float
    log_weight: float
    coupling: str | None

    @property
    def max_divergence(self) -> float:
        """The amplified largest loss of the base, rounded up."""
        result = float(amplified(self.base.max_divergence, self.rate))
        return result + 4 * _ULP * result

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The logarithm of the term at t' = e^epsilon >= 1, rounded up."""
        inner = inner_epsilon(epsilon, self.rate)
        with np.errstate(divide="ignore"):
            match self.coupling:
                case "to_common":  # 1 - t'/t = (1 - rate)(1 - 1/t)
                    factor = np.log1p(-self.rate) + np.log(-np.expm1(-inner))
                case "between":
                    factor = np.minimum(epsilon - inner, 0.0)
                case _:
                    factor = np.zeros_like(inner)
        rounding = 16 * _ULP * (1.0 + np.abs(np.where(np.isfinite(factor), factor, 0.0)) + np.abs(epsilon))
        return self.log_weight + np.log(self.rate) + factor + self.base.log_delta(inner) + rounding


@frozen_value
class CoupledPair(ChordedPair):
    """The maximum of the bounds `cases` at epsilon >= 0, each a sum of terms. It is its own reverse.

    One case need not bound both orders of two neighbours; all of them together do. A bound need not be convex in
    e^epsilon, and is replaced by its lower convex hull where that matters. Kind: upper bound.

    `merged` are the larger bounds with one coupling, whose terms have no factor: certificates have a notation for them.
    """

    cases: tuple[tuple[CoupledTerm, ...], ...]
    merged: tuple[tuple[CoupledTerm, ...], ...]

    @property
    def _terms(self) -> tuple[CoupledTerm, ...]:
        return tuple(term for case in self.cases for term in case)

    @property
    def max_divergence(self) -> float:
        """The largest of all terms."""
        return max(term.max_divergence for term in self._terms)

    @property
    def order_limit(self) -> float:
        """The least of the bases."""
        return min(term.base.order_limit for term in self._terms)

    @property
    def curve_cost(self) -> float:
        """The cost of one value of all terms."""
        return sum(1.0 + term.base.curve_cost for term in self._terms)

    @property
    def from_table(self) -> bool:
        """True if a base is tabulated."""
        return any(term.base.from_table for term in self._terms)

    def certified_cases(self, claims: Claims) -> tuple[CertifiedCase, ...]:
        """The merged bounds, each of which is about one order of two datasets and its own reverse."""
        del claims
        return tuple(((1, pair),) for pair in self.certified_pair()["pairs"])

    def certified_pair(self) -> CertifiedPair:
        """The maximum of the merged bounds."""
        once = np.zeros(1)
        found = [
            mixture_pair(
                [(replaced_record_pair(t.base, np.array([t.rate]), once), t.log_weight) for t in case]
            ).certified_pair()
            for case in self.merged
        ]
        return {"kind": "maximum", "pairs": found}

    def ceiling(self, orders: FloatArray) -> FloatArray:
        """The largest Rényi curve of the bases."""
        return np.asarray(np.max([term.base.renyi(orders) for term in self._terms], axis=0))

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """log of the largest sum; for negative epsilon from the identity for a pair that is its own reverse."""
        e = np.asarray(epsilon, dtype=np.float64)
        sums = [np.logaddexp.reduce([term.log_delta(np.abs(e)) for term in case], axis=0) for case in self.cases]
        above = np.minimum(np.max(sums, axis=0) + 8 * _ULP, 0.0)
        return np.where(e >= 0, above, delta_below_zero(e, above))

    def reverse(self) -> "CoupledPair":
        """The pair itself."""
        return self
