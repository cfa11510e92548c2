"""Privacy curves of losses that add up, by inversion of their moment generating function.

delta(e) = 1/(2 pi i) int M(t) e^{-te} / (t (t+1)) dt along Re t = c, any 0 < c < order limit - 1, M(t) = E_P e^{tL}.
The trapezoidal rule of step h adds e^{ckK} delta(e + kK), K = 2 pi/h, for every integer k != 0: positive terms (Poisson
summation), so it errs upwards only. What is cut off is bounded by |M|, which falls along the line, and added.
Proof: docs/notes/contour.md. Source of the formula: MATH section 1; compare Koskela, Jalko and Honkela 2020.
"""

from collections.abc import Sequence

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.loss import ComplexArray, SmoothPair

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
        height = _real(members, c) - c * epsilon
        peak = height - np.log(c) - np.log1p(c)
        width = _cut(members, c)
        step = min(2 * np.pi / _period(members, order_limit, epsilon, c, peak), width / 16)
        if not (np.isfinite(peak) and np.isfinite(width) and step > 0 and width / step < _MOST_POINTS):
            return np.inf
        t = (c + 1j * step * np.arange(int(width / step) + 2)).astype(np.complex128)
        terms = np.exp(log_moment(members, t) - t * epsilon - np.log(t) - np.log1p(t) - peak)
        total = step / np.pi * (terms[0].real / 2 + terms[1:].real.sum())
        beyond = np.exp(_fall(members, c, np.array([width]))[0]) * c * (1 + c) / (np.pi * width)
        lost = 4e-15 * (8 + abs(height) + abs(c * epsilon)) * step / np.pi * np.abs(terms).sum()
        result = peak + np.log(total + beyond + lost)
    return float(min(result, 0.0)) if np.isfinite(result) else np.inf


def _real(members: Members, c: float) -> float:
    return float(log_moment(members, np.array([c + 0j]))[0].real)


def _fall(members: Members, c: float, widths: FloatArray) -> FloatArray:
    """log |M(c + iw)/M(c)| at each width w, an upper bound of it beyond."""
    return log_moment(members, c + 1j * np.append(0.0, widths)).real[1:] - _real(members, c)


def _saddle(members: Members, order_limit: float, epsilon: float) -> float:
    """About where the integrand is least on the real line: any point is valid, this one needs the fewest terms."""
    low, high = -16.0, 40.0 if np.isinf(order_limit) else float(np.log(order_limit - 1.0)) - 1e-9
    x, at = np.linspace(low, high, 97), low
    for _ in range(2):
        c = np.exp(x)
        height = log_moment(members, c + 0j).real - c * epsilon - np.log(c) - np.log1p(c)
        best = int(np.argmin(np.where(np.isnan(height), np.inf, height)))
        at = float(x[best])
        x = np.linspace(x[max(best - 1, 0)], x[min(best + 1, len(x) - 1)], 33)
    return float(np.exp(at))


def _cut(members: Members, c: float) -> float:
    """A width where |M| has fallen far enough; +inf where it does not."""
    widths, width = np.geomspace(1e-9, 1e18, 91), np.inf
    for _ in range(2):
        fall = _fall(members, c, widths) + np.log(c * (1 + c) / widths)
        enough = np.flatnonzero(fall < -_EXPONENT + min(0.0, np.log(c)))
        if not enough.size:
            return np.inf
        first = int(enough[0])
        width = float(widths[first])
        widths = np.geomspace(widths[max(first - 1, 0)], width, 9)
    return width


def _period(members: Members, order_limit: float, epsilon: float, c: float, peak: float) -> float:
    """K so long that e^{-cK} delta(e - K) and e^{cK} delta(e + K) do not matter beside delta(e)."""
    log_delta = peak - 3.0  # about; a worse guess loosens the result and cannot lower it
    further = min(2.0 * c, (c + order_limit - 1.0) / 2.0)
    bound = _real(members, further) - further * epsilon  # Chernoff: delta(x) <= M(t) e^{-tx}
    return max((_EXPONENT - log_delta) / c, (_EXPONENT + bound - log_delta) / (further - c))
