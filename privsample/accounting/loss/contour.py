"""Privacy curves of compositions, by numerical inversion of the moment generating function along a contour.

With M(t) = E_P e^{tL}, delta(e) = 1/(2 pi i) int M(t) e^{-te} / (t (t+1)) dt along Re t = c, for every c with
0 < c < order limit - 1 (contour.md, section 1). The trapezoidal rule of step h adds e^{ckK} delta(e + kK), K = 2 pi/h,
for every integer k != 0. These terms are positive, so its error is upwards only (section 2). The truncation error is
bounded by |M|, which decreases along the contour, and added (section 3).

Several curves of one form are inverted at once, one in each row; their pairs are a `SmoothRows`. Compare Koskela, Jälkö
and Honkela 2020.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.accounting.loss.pair import ComplexArray, SmoothPair, SmoothRows

Member = SmoothPair | SmoothRows
Members = Sequence[tuple[Member, int]]
_NEGLIGIBLE = 34.0  # the contour is truncated where the integrand is e^-34 of the result
_MOST_POINTS = 50_000  # largest number of points of one curve
_MOST_AT_ONCE = 1 << 18  # largest number of points of all rows together in memory


def summed_log_delta(members: Members, order_limit: float, epsilon: float) -> float:
    """Log delta of the summed loss at epsilon >= 0, rounded up; +inf if no tight bound was found."""
    return float(summed_log_deltas(members, np.array([order_limit]), np.array([epsilon]))[0])


def summed_log_deltas(members: Members, order_limit: FloatArray, epsilon: FloatArray) -> FloatArray:
    """Log delta of each row at its epsilon >= 0, shapes (rows,), rounded up; +inf where no tight bound was found.

    A member that is not a `SmoothRows` is part of every row.
    """
    return summed_log_delta_sides(members, order_limit, epsilon)[0]


def summed_log_delta_sides(
    members: Members, order_limit: FloatArray, epsilon: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Certified upper and lower sides of the log delta of each row, as `summed_log_deltas`.

    The lower side is -inf where the error bounds exceed the value (contour.md, section 3).
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        c = _saddle_point(members, order_limit, epsilon)
        height = _log_mgf(members, c[:, None].astype(np.complex128))[:, 0].real - c * epsilon
        guess = height - np.log(c) - np.log1p(c) - 3.0  # a poor guess loosens the result and cannot lower it
        upper, lower = _invert(members, order_limit, epsilon, c, height, guess)
        if (again := upper < guess - 1.0).any():
            own, limit, e = _select_rows(members, again), order_limit[again], epsilon[again]
            better, closer = _invert(own, limit, e, c[again], height[again], upper[again] - 1.0)
            upper[again], lower[again] = np.minimum(upper[again], better), np.maximum(lower[again], closer)
    return np.where(np.isfinite(upper), np.minimum(upper, 0.0), np.inf), lower


def _select_rows(members: Members, rows: NDArray[np.bool_]) -> Members:
    """The members with only the selected rows."""
    if rows.all():
        return members
    return [(pair.select_rows(rows) if isinstance(pair, SmoothRows) else pair, times) for pair, times in members]


def _invert(
    members: Members, order_limit: FloatArray, epsilon: FloatArray, c: FloatArray, height: FloatArray, guess: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Invert along Re t = c, with step and truncation width chosen for a log delta of about `guess`.

    `height` is log M(c) - c epsilon. Returns the upper and the lower sides of log delta.
    """
    peak = height - np.log(c) - np.log1p(c)
    width = _truncation_width(members, c, peak - guess)
    ahead, chernoff = _chernoff_bounds(members, order_limit, epsilon, c)
    step = np.minimum(2 * np.pi / _period(ahead, chernoff, c, guess), width / 16)
    upper, lower = np.full(len(c), np.inf), np.full(len(c), -np.inf)
    left = np.isfinite(peak) & np.isfinite(width) & (step > 0) & (width / step < _MOST_POINTS)
    while left.any():  # usually one pass; more if the rows together exceed the memory limit
        points = np.where(left, width / np.where(left, step, 1.0), 0.0).astype(np.int64) + 2
        now = left & (np.cumsum(np.where(left, 1, 0)) * points.max() <= max(_MOST_AT_ONCE, points.max()))
        alias = _log_aliasing(ahead[now], chernoff[now], c[now], 2 * np.pi / step[now])
        upper[now], lower[now] = _trapezoidal_sum(
            _select_rows(members, now),
            epsilon[now],
            c[now],
            height[now],
            peak[now],
            width[now],
            step[now],
            points[now],
            alias,
        )
        left &= ~now
    return upper, lower


def _trapezoidal_sum(
    members: Members,
    epsilon: FloatArray,
    c: FloatArray,
    height: FloatArray,
    peak: FloatArray,
    width: FloatArray,
    step: FloatArray,
    points: NDArray[np.int64],
    log_aliasing: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Log of the trapezoidal sum of each row plus its errors, and of the sum less its errors (contour.md, section 3).

    Truncation and rounding have either sign; the error of the rule, at most `log_aliasing`, is upwards.
    """
    place = np.arange(points.max())
    kept = place < points[:, None]
    t = c[:, None] + 1j * (step[:, None] * np.where(kept, place, 0))
    log_m, error = _log_mgf_with_error(members, t)
    terms = np.exp(log_m - t * epsilon[:, None] - np.log(t) - np.log1p(t) - peak[:, None]) * kept
    total = step / np.pi * (terms[:, 0].real / 2 + terms[:, 1:].real.sum(axis=1))
    beyond = np.exp(_log_decay(members, c, width[:, None])[:, 0]) * c * (1 + c) / (np.pi * width)  # truncation error
    # Rounding error: 4 ulp of each term times the size of its exponents, plus the members' own errors of log M.
    largest = 4 * (8 + np.abs(height) + np.abs(c * epsilon))
    exponents = largest[:, None] + np.abs(log_m.imag) + np.abs(t.imag * epsilon[:, None])
    lost = step / np.pi * (np.abs(terms) * (1e-15 * exponents + np.expm1(error))).sum(axis=1)
    upper = peak + np.log(total + beyond + lost)
    lower = peak + np.log(np.maximum(total - beyond - lost - np.exp(log_aliasing - peak), 0.0))
    return np.where(np.isfinite(upper), upper, np.inf), np.where(np.isnan(lower), -np.inf, lower)


def _log_mgf(members: Members, t: ComplexArray) -> ComplexArray:
    """Log moment generating function of the summed loss at complex t, (rows, points), 0 < Re t < order limit - 1."""
    total: ComplexArray = np.zeros_like(t)
    for pair, times in members:
        own = pair.log_mgf(t) if isinstance(pair, SmoothRows) else pair.log_mgf(t.ravel()).reshape(t.shape)
        total = total + times * own
    return total


def _log_mgf_with_error(members: Members, t: ComplexArray) -> tuple[ComplexArray, FloatArray]:
    """As `_log_mgf`, with the sum of the members' error bounds."""
    total, error = np.zeros_like(t), np.zeros(t.shape)
    for pair, times in members:
        if isinstance(pair, SmoothRows):
            value, bound = pair.log_mgf_with_error(t)
        else:
            found = [pair.log_mgf_with_error(row) for row in t]  # a limit on nodes must not depend on the other rows
            value, bound = (np.array(part).reshape(t.shape) for part in zip(*found, strict=True))
        total, error = total + times * value, error + times * bound
    return total, error


def _log_decay(members: Members, c: FloatArray, widths: FloatArray) -> FloatArray:
    """Logarithm of a bound on |M(c + iw)/M(c)| for all w >= each width, shape (rows, widths)."""
    total = np.zeros(widths.shape)
    for pair, times in members:
        if isinstance(pair, SmoothRows):
            total = total + times * pair.log_decay(c, widths)
        else:
            rows = [pair.log_decay(at, own) for at, own in zip(c.tolist(), widths, strict=True)]
            total = total + times * np.array(rows)
    return total


def _saddle_point(members: Members, order_limit: FloatArray, epsilon: FloatArray) -> FloatArray:
    """Approximate minimum of the integrand on the real line; every point is valid, this one needs the fewest terms."""
    low, high = -16.0, np.where(np.isinf(order_limit), 40.0, np.log(order_limit - 1.0) - 1e-9)
    rows, x = np.arange(len(epsilon)), np.linspace(np.full(len(epsilon), low), high, 33, axis=1)
    at = x[:, 0]
    for _ in range(3):  # the log integrand is convex in c, so that nested grids find its only minimum
        c = np.exp(x)
        height = _log_mgf(members, c + 0j).real - c * epsilon[:, None] - np.log(c) - np.log1p(c)
        best = np.argmin(np.where(np.isnan(height), np.inf, height), axis=1)
        at = x[rows, best]
        left, right = x[rows, np.maximum(best - 1, 0)], x[rows, np.minimum(best + 1, x.shape[1] - 1)]
        x = np.linspace(left, right, 9, axis=1)
    return np.exp(at)


def _truncation_width(members: Members, c: FloatArray, depth: FloatArray) -> FloatArray:
    """Width from which on the truncation error is negligible; +inf if there is none.

    The peak of the integrand is e^depth times delta, so |M| must decrease by more than depth + 34 nats.
    """
    rows = np.arange(len(c))
    widths = np.tile(np.geomspace(1e-9, 1e18, 28), (len(c), 1))
    width, found = np.full(len(c), np.inf), np.ones(len(c), dtype=np.bool_)
    for _ in range(2):  # first the factor of ten, then the place within it
        enough = (3.0 - depth - _NEGLIGIBLE + np.minimum(0.0, np.log(c)))[:, None] - np.log(
            (c * (1 + c))[:, None] / widths
        )
        fallen = _log_decay(members, c, widths) < enough
        found &= fallen.any(axis=1)
        at = np.argmax(fallen, axis=1)
        width = widths[rows, at]
        widths = np.geomspace(widths[rows, np.maximum(at - 1, 0)], width, 33, axis=1)
    return np.where(found, width, np.inf)


def _chernoff_bounds(
    members: Members, order_limit: FloatArray, epsilon: FloatArray, c: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Distances t - c > 0 of several t, and log M(t) - t epsilon, shapes (rows, 12): delta(x) <= M(t) e^{-tx}."""
    doubled = c[:, None] + c[:, None] * np.ldexp(1.0, -np.arange(12))
    further = np.minimum(doubled, ((c + order_limit - 1.0) / 2.0)[:, None])
    return further - c[:, None], _log_mgf(members, further + 0j).real - further * epsilon[:, None]


def _period(ahead: FloatArray, chernoff: FloatArray, c: FloatArray, log_delta: FloatArray) -> FloatArray:
    """Period K for which e^{-cK} delta(e - K) and e^{cK} delta(e + K) are negligible (contour.md, section 4)."""
    behind = np.fmin.reduce((_NEGLIGIBLE + chernoff - log_delta[:, None]) / ahead, axis=1)
    longest: FloatArray = np.fmax((_NEGLIGIBLE - log_delta) / c, behind)
    return longest


def _log_aliasing(ahead: FloatArray, chernoff: FloatArray, c: FloatArray, period: FloatArray) -> FloatArray:
    """Logarithm of a bound on the error of the rule, the sum of e^{ckK} delta(e + kK) over k != 0, shape (rows,).

    delta <= 1 bounds the terms with k < 0 and Chernoff's bound those with k > 0; both are geometric series.
    """
    below, above = c * period, ahead * period[:, None]
    above_log = np.fmin.reduce(chernoff - above - np.log(-np.expm1(-above)), axis=1)
    found: FloatArray = np.logaddexp(-below - np.log(-np.expm1(-below)), above_log) + 1e-9
    return np.where(np.isnan(found), np.inf, found)
