"""The pointwise maximum of many discrete pairs on one finite set, as one dominating pair."""

import numpy as np

from privsample._checks import FloatArray
from privsample._logspace import expm1_excess, log1mexp
from privsample._value import frozen_value, set_fields
from privsample.accounting.loss.exact import CertifiedCase, CertifiedPair, Claims, finite_table
from privsample.accounting.loss.pair import LossPair, checked_divergence

_UNIT = float(np.finfo(np.float64).eps)
_BLOCK = 1 << 16
_EVALUATION = 32 * _UNIT  # bounds the relative rounding error of a Rényi divergence in this module


def _parts(points: FloatArray, masses: int) -> list[FloatArray]:
    """The points in blocks of shape (block, 1, 1), whose broadcast with so many masses fits the cache."""
    return np.array_split(points.reshape(-1, 1, 1), points.size * masses // _BLOCK + 1)


@frozen_value
class WorstPair(LossPair):
    """Pointwise maximum of the curves of many pairs of distributions on one finite set.

    `log_p` and `log_q` are log masses of shape (pairs, outcomes). Each mass may differ from the true one by a relative
    `slack`, by which every result is rounded up. The privacy curve is that of one pair that dominates all of them (Zhu,
    Dong and Wang 2022, Proposition 10); the Rényi curve is the largest of their Rényi curves. Kind: exact.
    """

    log_p: FloatArray
    log_q: FloatArray
    slack: float = 0.0

    def __post_init__(self) -> None:
        p, q = np.array(self.log_p, dtype=np.float64), np.array(self.log_q, dtype=np.float64)
        if p.ndim != 2 or p.shape != q.shape or not p.size:
            raise ValueError(f"log_p and log_q must have one shape (pairs, outcomes), got {p.shape} and {q.shape}")
        for masses in (p, q):
            if not np.all(np.abs(np.logaddexp.reduce(masses, axis=1)) <= 1e-9):
                raise ValueError("log_p and log_q must be log masses of distributions, each adding up to one")
            masses.flags.writeable = False
        set_fields(self, log_p=p, log_q=q)

    @property
    def loss(self) -> FloatArray:
        """log_p - log_q as computed; -inf where P is zero, +inf where only Q is zero."""
        with np.errstate(invalid="ignore"):
            return np.where(np.isneginf(self.log_p), -np.inf, self.log_p - self.log_q)

    @property
    def _error(self) -> FloatArray:
        """Bound on the error of `loss`: the slack of both distributions and the rounding error of the logarithms."""
        finite = [np.where(np.isneginf(masses), 0.0, -masses) for masses in (self.log_p, self.log_q)]
        return np.where(self.slack > 0, 2 * self.slack + _UNIT * (1 + finite[0] + finite[1]), 0.0)

    @property
    def is_envelope(self) -> bool:
        """True if there are more pairs than one pair and its reverse."""
        return len(self.log_p) > 2

    @property
    def max_divergence(self) -> float:
        """Largest loss of all pairs in nats, rounded up, at least zero."""
        return max(float((self.loss + self._error).max()), 0.0)

    @property
    def curve_cost(self) -> float:
        """Proportional to the number of masses."""
        return 1.0 + self.log_p.size / 20

    @property
    def renyi_cost(self) -> float:
        """Proportional to the number of masses."""
        return 1.0 + self.log_p.size / 10

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Logarithm of the largest sum of [p - e^eps q]_+, rounded up."""
        e = np.asarray(epsilon, dtype=np.float64)
        loss, log_p = self.loss + self._error, self.log_p + self.slack
        terms = (log_p + log1mexp(np.minimum(part - loss, 0.0)) for part in _parts(e, loss.size))
        values = np.concatenate([np.logaddexp.reduce(each, axis=2).max(axis=1) for each in terms])
        return np.minimum(values.reshape(e.shape), 0.0)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Largest log(sum p e^{(a-1) L}) / (a-1), rounded up; small values are computed as log1p of positive terms."""
        a = np.asarray(orders, dtype=np.float64)
        loss = self.loss
        if np.isposinf(loss).any():
            return np.full(a.shape, np.inf)
        present = ~np.isneginf(loss)
        # Positive terms grow with |loss|, so `outward` adds the error to the modulus; the power sum grows with loss.
        outward = np.where(present, loss + np.where(loss >= 0, 1.0, -1.0) * self._error, 0.0)
        upward = np.where(present, loss + self._error, 0.0)
        never = np.exp(np.where(present, -np.inf, self.log_q) + self.slack).sum(axis=1)
        log_p = self.log_p + self.slack
        values = [self._largest(s, log_p, outward, upward, never) for s in _parts(a - 1.0, loss.size)]
        return checked_divergence(np.concatenate(values).reshape(a.shape) * (1 + _EVALUATION))

    @staticmethod
    def _largest(
        s: FloatArray, log_p: FloatArray, outward: FloatArray, upward: FloatArray, never: FloatArray
    ) -> FloatArray:
        """Largest divergence of all pairs at orders 1 + s for a block of s; `never` is Q's mass where P is zero."""
        with np.errstate(over="ignore", invalid="ignore"):
            terms = np.exp(log_p) * (expm1_excess(s * outward) + s * expm1_excess(-outward))
            near = np.log1p(np.where(np.isneginf(log_p), 0.0, terms).sum(axis=2) + s[..., 0] * never)
        far = np.logaddexp.reduce(log_p + s * upward, axis=2)
        largest: FloatArray = np.where(near < 1.0, near, far).max(axis=1) / s[:, 0, 0]
        return largest

    def certified_pair(self) -> CertifiedPair:
        """The maximum of all pairs."""
        tables = [finite_table(p, q, self.slack) for p, q in zip(self.log_p, self.log_q, strict=True)]
        return tables[0] if len(tables) == 1 else {"kind": "maximum", "pairs": tables}

    def certified_cases(self, claims: Claims) -> tuple[CertifiedCase, ...]:
        """Each pair by itself, since one of them dominates."""
        del claims
        rows = zip(self.log_p, self.log_q, strict=True)
        return tuple(((1, finite_table(p, q, self.slack)),) for p, q in rows)

    def reverse(self) -> "WorstPair":
        """Every pair with its distributions exchanged."""
        return WorstPair(log_p=self.log_q, log_q=self.log_p, slack=self.slack)
