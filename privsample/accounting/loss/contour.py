"""Privacy curves of losses that add up, by inversion of their moment generating function.

delta(e) = 1/(2 pi i) int M(t) e^{-te} / (t (t+1)) dt along Re t = c, any 0 < c < order limit - 1, M(t) = E_P e^{tL}.
The trapezoidal rule of step h adds e^{ckK} delta(e + kK), K = 2 pi/h, for every integer k != 0: positive terms (Poisson
summation), so it errs upwards only. What is cut off is bounded by |M|, which falls along the line, and added.
Proof: docs/notes/contour.md. Compare Koskela, Jalko and Honkela 2020.
"""

from collections.abc import Sequence

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.loss.pair import ComplexArray, SmoothPair

Members = Sequence[tuple[SmoothPair, int]]
_EXPONENT = 34.0  # what is e^-34 of the integrand's peak is cut off, and its bound added
_MOST_POINTS = 50_000


def log_moment(members: Members, t: ComplexArray) -> ComplexArray:
    """log E e^{tL} of the summed loss at complex t, 0 < Re t < order limit - 1."""
    return sum((times * pair.log_mgf(t) for pair, times in members), start=np.zeros_like(t))


def summed_log_delta(members: Members, order_limit: float, epsilon: float) -> float:
    """log delta(epsilon) of the summed loss, epsilon >= 0, rounded up; +inf where no tight bound was found."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        c = _saddle(members, order_limit, epsilon)
        peak = _real(members, c) - c * epsilon - np.log(c) - np.log1p(c)
        guess = peak - 3.0  # a worse guess loosens the result and cannot lower it
        result = _by_trapezoids(members, order_limit, epsilon, c, guess)
        if result < guess - 1.0:
            result = min(result, _by_trapezoids(members, order_limit, epsilon, c, result - 1.0))
    return float(min(result, 0.0)) if np.isfinite(result) else np.inf


def _by_trapezoids(members: Members, order_limit: float, epsilon: float, c: float, guess: float) -> float:
    """Along Re t = c, with step and end chosen for a log delta of about `guess`."""
    height = _real(members, c) - c * epsilon
    peak = height - np.log(c) - np.log1p(c)
    width = _cut(members, c, peak - guess)
    step = min(2 * np.pi / _period(members, order_limit, epsilon, c, guess), width / 16)
    if not (np.isfinite(peak) and np.isfinite(width) and step > 0 and width / step < _MOST_POINTS):
        return np.inf
    t = (c + 1j * step * np.arange(int(width / step) + 2)).astype(np.complex128)
    log_m, error = _log_moment_with_error(members, t)
    terms = np.exp(log_m - t * epsilon - np.log(t) - np.log1p(t) - peak)
    total = step / np.pi * (terms[0].real / 2 + terms[1:].real.sum())
    beyond = np.exp(_log_fall(members, c, np.array([width]))[0]) * c * (1 + c) / (np.pi * width)
    exponents = 4 * (8 + abs(height) + abs(c * epsilon)) + np.abs(log_m.imag) + np.abs(t.imag * epsilon)
    lost = step / np.pi * (np.abs(terms) @ (1e-15 * exponents + np.expm1(error)))
    result = float(peak + np.log(total + beyond + lost))
    return result if np.isfinite(result) else np.inf


def _real(members: Members, c: float) -> float:
    return float(log_moment(members, np.array([c + 0j]))[0].real)


def _log_moment_with_error(members: Members, t: ComplexArray) -> tuple[ComplexArray, FloatArray]:
    found = [(times, *pair.log_mgf_with_error(t)) for pair, times in members]
    zero: ComplexArray = np.zeros_like(t)
    return sum((n * log_m for n, log_m, _ in found), start=zero), sum((n * e for n, _, e in found), start=zero.real)


def _log_fall(members: Members, c: float, widths: FloatArray) -> FloatArray:
    """log of a bound of |M(c + iw)/M(c)| for every w from each width on."""
    return sum((times * pair.log_fall(c, widths) for pair, times in members), start=np.zeros(len(widths)))


def _saddle(members: Members, order_limit: float, epsilon: float) -> float:
    """About where the integrand is least on the real line: any point is valid, this one needs the fewest terms."""
    low, high = -16.0, 40.0 if np.isinf(order_limit) else float(np.log(order_limit - 1.0)) - 1e-9
    x, at = np.linspace(low, high, 33), low
    for _ in range(3):  # its logarithm is convex in c: there is one valley
        c = np.exp(x)
        height = log_moment(members, c + 0j).real - c * epsilon - np.log(c) - np.log1p(c)
        best = int(np.argmin(np.where(np.isnan(height), np.inf, height)))
        at = float(x[best])
        x = np.linspace(x[max(best - 1, 0)], x[min(best + 1, len(x) - 1)], 9)
    return float(np.exp(at))


def _cut(members: Members, c: float, depth: float = 3.0) -> float:
    """A width where |M| has fallen far enough below the peak, e^depth above delta; +inf where it does not."""
    width, widths = np.inf, np.geomspace(1e-9, 1e18, 28)
    for _ in range(2):  # a decade, then where in it
        enough = 3.0 - depth - _EXPONENT + min(0.0, np.log(c)) - np.log(c * (1 + c) / widths)
        fallen = _log_fall(members, c, widths) < enough
        if not fallen.any():
            return np.inf
        at = int(np.argmax(fallen))
        width = float(widths[at])
        widths = np.geomspace(widths[max(at - 1, 0)], width, 33)
    return width


def _period(members: Members, order_limit: float, epsilon: float, c: float, log_delta: float) -> float:
    """K so long that e^{-cK} delta(e - K) and e^{cK} delta(e + K) do not matter beside delta(e)."""
    further = np.minimum(c + c * np.ldexp(1.0, -np.arange(12)), (c + order_limit - 1.0) / 2.0)
    bounds = log_moment(members, further + 0j).real - further * epsilon  # Chernoff: delta(x) <= M(t) e^{-tx}
    behind = np.nanmin((_EXPONENT + bounds - log_delta) / (further - c))
    return float(max((_EXPONENT - log_delta) / c, behind))
