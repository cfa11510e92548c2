"""Dominating pairs in the notation of certificates, which privsample/verify.py reads (docs/notes/certificates.md)."""

from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from privsample._checks import FloatArray

CertifiedPair = dict[str, Any]  # {"kind": ..., parameters}; numbers are exact rationals as text
CertifiedCase = tuple[tuple[int, CertifiedPair], ...]  # releases: multiplicity and pair
CertifiedRenyi = tuple[Fraction, tuple[Fraction, ...]]  # rho of zCDP, and lengths of intervals that contain losses
Claims = tuple[tuple[float, float], ...]  # (epsilon, log delta), for which cases may be chosen

_LEAST_LOG_WEIGHT = -690.0
_ULP = float(np.finfo(np.float64).eps)


def exact(number: float | Fraction) -> str:
    """A double or a fraction as the text of the same rational number."""
    return str(Fraction(number))


def rounded_up(number: float, digits: int = 4) -> str:
    """The least decimal with so many digits that is at least `number`, as text."""
    found = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(float(number)))
    return f"{found.normalize():f}" if found == 0 or 1e-4 < found < 1e6 else f"{found.normalize():e}".replace("e+", "e")


def finite_table(log_p: FloatArray, log_q: FloatArray, slack: float = 0.0) -> CertifiedPair:
    """A finite pair from logarithms of masses; `slack` bounds the relative error of each mass.

    The error of exp and of the logarithms is a few units in the last place of the largest exponent. The text of a mass
    is its double, and the masses are known up to the error that is stated beside them.
    """
    finite = [masses[np.isfinite(masses)] for masses in (log_p, log_q)]
    deepest = max((float(np.abs(masses).max(initial=0.0)) for masses in finite), default=0.0)
    p, q = np.minimum(np.exp(log_p), 1.0), np.minimum(np.exp(log_q), 1.0)  # rounding may exceed 1, the exact masses not
    error = 2 * slack + 8 * _ULP * (2.0 + deepest)
    error = max(error, *(2 * float(abs(sum(map(Fraction, masses.tolist())) - 1)) for masses in (p, q)))
    return {
        "kind": "finite",
        "p": list(map(exact, p.tolist())),
        "q": list(map(exact, q.tolist())),
        "error": exact(error),
    }


def weights_text(log_weights: FloatArray) -> list[str]:
    """Weights of a mixture as exact numbers, rounded up; scaled down only where their sum would exceed 1.

    The curve of a mixture increases with each weight, as the rest has zero loss.
    """
    above = np.maximum(log_weights, _LEAST_LOG_WEIGHT)  # a weight that underflows is raised too
    weights = list(map(Fraction, (np.exp(above) * (1.0 + 8 * _ULP * (1.0 + np.abs(above)))).tolist()))
    total = max(sum(weights, Fraction(0)), Fraction(1))
    return [str(weight / total) for weight in weights]


_SYMMETRIC = (
    "gaussian", "laplace", "randomized_response", "discrete_laplace", "discrete_gaussian", "bounded_range",
    "replaced_record", "maximum",
)  # fmt: skip


def reversed_pair(pair: CertifiedPair) -> CertifiedPair:
    """The pair in the other order."""
    match pair["kind"]:
        case "reverse":
            return dict(pair["pair"])
        case "finite":
            return pair | {"p": pair["q"], "q": pair["p"]}
        case "beta":
            return pair | {"a": pair["b"], "b": pair["a"]}
        case kind if kind in _SYMMETRIC:
            return pair
    return {"kind": "reverse", "pair": pair}
