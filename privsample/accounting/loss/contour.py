"""Privacy curves of losses that add up, by inversion of their moment generating function.

delta(e) = 1/(2 pi i) int M(t) e^{-te} / (t (t+1)) dt along Re t = c, any 0 < c < order limit - 1, M(t) = E_P e^{tL}.
The trapezoidal rule of step h adds e^{ckK} delta(e + kK), K = 2 pi/h, for every integer k != 0: positive terms (Poisson
summation), so it errs upwards only. What is cut off is bounded by |M|, which falls along the line, and added.
Several curves of one form are inverted at once, each in a row of its own: their pairs are a `SmoothRows`.
Proof: docs/notes/contour.md. Compare Koskela, Jalko and Honkela 2020.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.accounting.loss.pair import ComplexArray, SmoothPair, SmoothRows

Member = SmoothPair | SmoothRows
Members = Sequence[tuple[Member, int]]
_EXPONENT = 34.0  # what is e^-34 of the integrand's peak is cut off, and its bound added
_MOST_POINTS = 50_000
_MOST_AT_ONCE = 1 << 18  # points on all rows together, which are held in memory


def summed_log_delta(members: Members, order_limit: float, epsilon: float) -> float:
    """log delta(epsilon) of the summed loss, epsilon >= 0, rounded up; +inf where no tight bound was found."""
    return float(summed_log_deltas(members, np.array([order_limit]), np.array([epsilon]))[0])


def summed_log_deltas(members: Members, order_limit: FloatArray, epsilon: FloatArray) -> FloatArray:
    """The same for each row, by its order limit and epsilon, (rows,); a pair that is no `SmoothRows` is in all rows."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        c = _saddle(members, order_limit, epsilon)
        height = _log_moment(members, c[:, None].astype(np.complex128))[:, 0].real - c * epsilon
        guess = height - np.log(c) - np.log1p(c) - 3.0  # a worse guess loosens the result and cannot lower it
        result = _by_trapezoids(members, order_limit, epsilon, c, height, guess)
        if (again := result < guess - 1.0).any():
            own, limit, e = _of_rows(members, again), order_limit[again], epsilon[again]
            better = _by_trapezoids(own, limit, e, c[again], height[again], result[again] - 1.0)
            result[again] = np.minimum(result[again], better)
    return np.where(np.isfinite(result), np.minimum(result, 0.0), np.inf)


def _of_rows(members: Members, rows: NDArray[np.bool_]) -> Members:
    """The members of some rows."""
    if rows.all():
        return members
    return [(pair.select_rows(rows) if isinstance(pair, SmoothRows) else pair, times) for pair, times in members]


def _by_trapezoids(
    members: Members, order_limit: FloatArray, epsilon: FloatArray, c: FloatArray, height: FloatArray, guess: FloatArray
) -> FloatArray:
    """Along Re t = c, with step and end chosen for a log delta of about `guess`; `height` is log M(c) - c epsilon."""
    peak = height - np.log(c) - np.log1p(c)
    width = _cut(members, c, peak - guess)
    step = np.minimum(2 * np.pi / _period(members, order_limit, epsilon, c, guess), width / 16)
    result = np.full(len(c), np.inf)
    left = np.isfinite(peak) & np.isfinite(width) & (step > 0) & (width / step < _MOST_POINTS)
    while left.any():  # most often all rows at once
        points = np.where(left, width / np.where(left, step, 1.0), 0.0).astype(np.int64) + 2
        now = left & (np.cumsum(np.where(left, 1, 0)) * points.max() <= max(_MOST_AT_ONCE, points.max()))
        result[now] = _summed(
            _of_rows(members, now), epsilon[now], c[now], height[now], peak[now], width[now], step[now], points[now]
        )
        left &= ~now
    return result


def _summed(
    members: Members,
    epsilon: FloatArray,
    c: FloatArray,
    height: FloatArray,
    peak: FloatArray,
    width: FloatArray,
    step: FloatArray,
    points: NDArray[np.int64],
) -> FloatArray:
    """The trapezoidal sum of each row over its points, and the bounds of what is cut off and of what rounding loses."""
    place = np.arange(points.max())
    kept = place < points[:, None]
    t = c[:, None] + 1j * (step[:, None] * np.where(kept, place, 0))
    log_m, error = _log_moment_with_error(members, t)
    terms = np.exp(log_m - t * epsilon[:, None] - np.log(t) - np.log1p(t) - peak[:, None]) * kept
    total = step / np.pi * (terms[:, 0].real / 2 + terms[:, 1:].real.sum(axis=1))
    beyond = np.exp(_log_decay(members, c, width[:, None])[:, 0]) * c * (1 + c) / (np.pi * width)
    largest = 4 * (8 + np.abs(height) + np.abs(c * epsilon))
    exponents = largest[:, None] + np.abs(log_m.imag) + np.abs(t.imag * epsilon[:, None])
    lost = step / np.pi * (np.abs(terms) * (1e-15 * exponents + np.expm1(error))).sum(axis=1)
    result: FloatArray = peak + np.log(total + beyond + lost)
    return np.where(np.isfinite(result), result, np.inf)


def _log_moment(members: Members, t: ComplexArray) -> ComplexArray:
    """log E e^{tL} of the summed loss at complex t, (rows, points), 0 < Re t < order limit - 1."""
    total: ComplexArray = np.zeros_like(t)
    for pair, times in members:
        own = pair.log_mgf(t) if isinstance(pair, SmoothRows) else pair.log_mgf(t.ravel()).reshape(t.shape)
        total = total + times * own
    return total


def _log_moment_with_error(members: Members, t: ComplexArray) -> tuple[ComplexArray, FloatArray]:
    total, error = np.zeros_like(t), np.zeros(t.shape)
    for pair, times in members:
        if isinstance(pair, SmoothRows):
            total = total + times * pair.log_mgf(t)
        else:
            own, beside = pair.log_mgf_with_error(t.ravel())
            total, error = total + times * own.reshape(t.shape), error + times * beside.reshape(t.shape)
    return total, error


def _log_decay(members: Members, c: FloatArray, widths: FloatArray) -> FloatArray:
    """log of a bound of |M(c + iw)/M(c)| for every w from each width on; (rows, widths)."""
    total = np.zeros(widths.shape)
    for pair, times in members:
        if isinstance(pair, SmoothRows):
            total = total + times * pair.log_decay(c, widths)
        else:
            rows = [pair.log_decay(at, own) for at, own in zip(c.tolist(), widths, strict=True)]
            total = total + times * np.array(rows)
    return total


def _saddle(members: Members, order_limit: FloatArray, epsilon: FloatArray) -> FloatArray:
    """About where the integrand is least on the real line: any point is valid, this one needs the fewest terms."""
    low, high = -16.0, np.where(np.isinf(order_limit), 40.0, np.log(order_limit - 1.0) - 1e-9)
    rows, x = np.arange(len(epsilon)), np.linspace(np.full(len(epsilon), low), high, 33, axis=1)
    at = x[:, 0]
    for _ in range(3):  # its logarithm is convex in c: there is one valley
        c = np.exp(x)
        height = _log_moment(members, c + 0j).real - c * epsilon[:, None] - np.log(c) - np.log1p(c)
        best = np.argmin(np.where(np.isnan(height), np.inf, height), axis=1)
        at = x[rows, best]
        left, right = x[rows, np.maximum(best - 1, 0)], x[rows, np.minimum(best + 1, x.shape[1] - 1)]
        x = np.linspace(left, right, 9, axis=1)
    return np.exp(at)


def _cut(members: Members, c: FloatArray, depth: FloatArray) -> FloatArray:
    """A width where |M| has fallen far enough below the peak, e^depth above delta; +inf where it does not."""
    rows = np.arange(len(c))
    widths = np.tile(np.geomspace(1e-9, 1e18, 28), (len(c), 1))
    width, found = np.full(len(c), np.inf), np.ones(len(c), dtype=np.bool_)
    for _ in range(2):  # a decade, then where in it
        enough = (3.0 - depth - _EXPONENT + np.minimum(0.0, np.log(c)))[:, None] - np.log(
            (c * (1 + c))[:, None] / widths
        )
        fallen = _log_decay(members, c, widths) < enough
        found &= fallen.any(axis=1)
        at = np.argmax(fallen, axis=1)
        width = widths[rows, at]
        widths = np.geomspace(widths[rows, np.maximum(at - 1, 0)], width, 33, axis=1)
    return np.where(found, width, np.inf)


def _period(
    members: Members, order_limit: FloatArray, epsilon: FloatArray, c: FloatArray, log_delta: FloatArray
) -> FloatArray:
    """K so long that e^{-cK} delta(e - K) and e^{cK} delta(e + K) do not matter beside delta(e)."""
    doubled = c[:, None] + c[:, None] * np.ldexp(1.0, -np.arange(12))
    further = np.minimum(doubled, ((c + order_limit - 1.0) / 2.0)[:, None])
    # Chernoff: delta(x) <= M(t) e^{-tx}
    bounds = _log_moment(members, further + 0j).real - further * epsilon[:, None]
    behind = np.fmin.reduce((_EXPONENT + bounds - log_delta[:, None]) / (further - c[:, None]), axis=1)
    longest: FloatArray = np.fmax((_EXPONENT - log_delta) / c, behind)
    return longest
