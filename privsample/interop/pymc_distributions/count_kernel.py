"""Sums over a hidden count with a bounded relative error: densities, distribution functions and their derivatives.

Compiled by Numba. The terms of every sum are log-concave in the count: they are summed outwards from the largest one,
until a geometric series bounds the rest by 1e-16 of the sum. docs/notes/moments.md, section 4.
"""

import math
from functools import partial

import numpy as np

from privsample._compiled import compiled

_compiled = partial(compiled, error_model="numpy")
FAMILIES = {"laplace": 0, "gaussian": 1, "discrete laplace": 2, "discrete gaussian": 3}
OFF, SCALE, CURVATURE = range(3)  # what `derivative` returns
BELOW, ABOVE = 1.0, -1.0  # whether a distribution function is P(Y <= y) or P(Y > y)
MOST = 2.0**53  # floats represent all whole numbers up to here
RELATIVE = 1e-16  # largest share of a sum that is left out
_LAPLACE, _GAUSSIAN, _DISCRETE_LAPLACE, _DISCRETE_GAUSSIAN = range(4)
_SERIES = 16  # from here on, five terms of the series of the Stirling error suffice: the next is below 2e-16
_LOG_FACTORIAL_ERRORS = np.array(
    [
        0.0,
        0.08106146679532726,
        0.0413406959554093,
        0.02767792568499834,
        0.020790672103765093,
        0.016644691189821193,
        0.013876128823070748,
        0.01189670994589177,
        0.010411265261972096,
        0.009255462182712733,
        0.00833056343336287,
        0.007573675487951841,
        0.00694284010720953,
        0.006408994188004207,
        0.0059513701127588475,
        0.005554733551962801,
    ]
)
_LEAST = 1e-290  # smaller probabilities and means, but not 0, are replaced by this one, whose reciprocal is a float
_LARGE = 600.0  # exponents whose exponential neither overflows nor loses digits
_HALF_LOG = 0.5 * math.log(2 * math.pi)
_AGAIN = 16  # steps after which the ratio of Gaussian noise is computed anew: its rounding errors add up
_NEAR_ONE = -0.5  # log probability above which the complement is summed
_FAR = -10.0  # from here on down, the log of the normal distribution function has a continued fraction of 40 terms


@_compiled
def stirling_error(x):  # type: ignore[no-untyped-def]
    """Return log x! - log(sqrt(2 pi x) (x / e)^x) for whole x; 0 at 0."""
    if x < _SERIES:
        return _LOG_FACTORIAL_ERRORS[int(x)]
    square = 1.0 / (x * x)
    return (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / x


@_compiled
def deviance(x, mean, error):  # type: ignore[no-untyped-def]
    """Return x log(x / (mean + error)) + mean + error - x, with a small relative error (Loader 2000)."""
    if x == 0.0:
        return mean + error
    off = x - mean
    moved = error * (-off / mean)  # the derivative by the mean, times its rounding error
    if abs(off) > 0.1 * (x + mean):
        return x * (math.log(x) - math.log(mean)) - off + moved
    v = off / (x + mean)
    total, term = off * v, 2.0 * x * v
    for j in range(3, 40, 2):  # the series of the inverse hyperbolic tangent
        term *= v * v
        following = total + term / j
        if following == total:
            break
        total = following
    return total + moved


@_compiled
def _product_error(a, b):  # type: ignore[no-untyped-def]
    """Return a b minus its floating-point value (Dekker 1971)."""
    c = 134217729.0 * a
    a_high = c - (c - a)
    c = 134217729.0 * b
    b_high = c - (c - b)
    a_low, b_low = a - a_high, b - b_high
    return a_low * b_low - (((a * b - a_high * b_high) - a_low * b_high) - a_high * b_low)


@_compiled
def log_mass(s, n, p):  # type: ignore[no-untyped-def]
    """Return the log probability of the count s (Loader 2000): binomial, or Poisson of mean p if n is infinite."""
    if s < 0.0 or s > n:
        return -np.inf
    if n == np.inf:
        if p == 0.0:
            return 0.0 if s == 0.0 else -np.inf
        return -deviance(s, p, 0.0) - stirling_error(s) - (0.0 if s == 0.0 else _HALF_LOG + 0.5 * math.log(s))
    if p in (0.0, 1.0):
        return 0.0 if s == n * p else -np.inf
    off = n - s
    if s == 0.0:
        return n * math.log1p(-p)
    if off == 0.0:
        return n * math.log(p)
    own = stirling_error(n) - stirling_error(s) - stirling_error(off)
    mean, rest = n * p, n - n * p
    error = _product_error(n, p)  # at n = 1e12 the rounding of the mean alone would be an error of 1e-9
    own -= deviance(s, mean, error) + deviance(off, rest, ((n - rest) - mean) - error)
    return own - _HALF_LOG + 0.5 * (math.log(n) - math.log(s) - math.log(off))


@_compiled
def _odds(s, n, p):  # type: ignore[no-untyped-def]
    """Return P(count = s + 1) / P(count = s)."""
    if n == np.inf:
        return p / (s + 1.0)
    return (n - s) / (s + 1.0) * (p / (1.0 - p))


@_compiled
def _product(exponent, factor, odds):  # type: ignore[no-untyped-def]
    """Return e^exponent odds, where factor is e^exponent, without overflow of a factor."""
    return factor * odds if abs(exponent) < _LARGE else math.exp(min(exponent + math.log(odds), _LARGE))


@_compiled
def log_noise(family, x, scale):  # type: ignore[no-untyped-def]
    """Return the log density of continuous noise, or the log probability of discrete noise at a whole number."""
    if family == _LAPLACE:
        return -abs(x) / scale - math.log(2.0 * scale)
    if family == _GAUSSIAN:
        return -0.5 * (x / scale) ** 2 - math.log(scale) - _HALF_LOG
    if family == _DISCRETE_LAPLACE:
        return -abs(x) / scale + math.log(math.tanh(0.5 / scale))
    return -0.5 * (x / scale) ** 2 - log_theta(scale)


@_compiled
def log_theta(scale):  # type: ignore[no-untyped-def]
    """Return log sum_k e^(-k^2 / (2 scale^2)), by the series that converges fast."""
    total = 0.0
    if scale < 1.0:
        for k in range(1, 10):
            total += math.exp(-0.5 * (k / scale) ** 2)
        return math.log1p(2.0 * total)
    for k in range(1, 10):
        total += math.exp(-2.0 * (math.pi * k * scale) ** 2)
    return math.log(scale) + _HALF_LOG + math.log1p(2.0 * total)


@_compiled
def _noise_variance(scale):  # type: ignore[no-untyped-def]
    """Return the variance of discrete Gaussian noise, by the series that converges fast."""
    total = moment = 0.0
    if scale < 1.0:
        for k in range(1, 10):
            term = 2.0 * math.exp(-0.5 * (k / scale) ** 2)
            total, moment = total + term, moment + k * k * term
        return moment / (1.0 + total)
    for k in range(1, 10):
        term = 2.0 * math.exp(-2.0 * (math.pi * k * scale) ** 2)
        total, moment = total + term, moment + (2.0 * math.pi * k * scale) ** 2 * term
    return scale * scale * (1.0 - moment / (1.0 + total))


@_compiled
def noise_slope(family, x, scale):  # type: ignore[no-untyped-def]
    """Return the derivative of the log density of the noise by x."""
    if family % 2 == _GAUSSIAN:
        return -x / scale**2
    return -np.sign(x) / scale


@_compiled
def noise_scale_slope(family, x, scale):  # type: ignore[no-untyped-def]
    """Return the derivative of the log density of the noise by its scale."""
    if family == _LAPLACE:
        return (abs(x) / scale - 1.0) / scale
    if family == _GAUSSIAN:
        return ((x / scale) ** 2 - 1.0) / scale
    if family == _DISCRETE_LAPLACE:
        return (abs(x) - (1.0 / math.sinh(1.0 / scale) if scale > 1.0 / 700.0 else 0.0)) / scale**2
    return (x * x - _noise_variance(scale)) / scale**3


@_compiled
def log_noise_below(family, x, scale):  # type: ignore[no-untyped-def]
    """Return log P(noise <= x)."""
    if family == _LAPLACE:
        return x / scale - math.log(2.0) if x <= 0.0 else math.log1p(-0.5 * math.exp(-x / scale))
    if family == _GAUSSIAN:
        return log_normal_below(x / scale)
    k = math.floor(x)
    if family == _DISCRETE_LAPLACE:
        share = math.log1p(math.exp(-1.0 / scale))
        return k / scale - share if k < 0.0 else math.log1p(-math.exp(-(k + 1.0) / scale - share))
    return _log_tail(k, scale) if k < 0.0 else math.log1p(-math.exp(_log_tail(-k - 1.0, scale)))


@_compiled
def _log_tail(k, scale):  # type: ignore[no-untyped-def]
    """Return log P(discrete Gaussian noise <= k) for k < 0: terms decrease, and so do their ratios."""
    term = total = 1.0  # relative to the probability of k
    j = k
    ratio = math.exp((j - 0.5) / scale**2)
    while term * ratio > RELATIVE * total * (1.0 - ratio):
        term *= ratio
        total += term
        j -= 1.0
        ratio = math.exp((j - 0.5) / scale**2)
    return -0.5 * (k / scale) ** 2 - log_theta(scale) + math.log(total)


@_compiled
def log_normal_below(z):  # type: ignore[no-untyped-def]
    """Return the log of the standard normal distribution function."""
    if z > _FAR:
        return (
            math.log(0.5 * math.erfc(-z / math.sqrt(2.0)))
            if z < 1.0
            else math.log1p(-0.5 * math.erfc(z / math.sqrt(2.0)))
        )
    fraction = -z  # Mills' ratio is 1 / (x + 1 / (x + 2 / (x + 3 / ...)))
    for k in range(40, 0, -1):
        fraction = -z + k / fraction
    return -0.5 * z * z - _HALF_LOG - math.log(fraction)


@_compiled
def log_noise_step(family, views, scales, s):  # type: ignore[no-untyped-def]
    """Return the log of the ratio of the noise of all views at the count s + 1 to that at the count s."""
    total = 0.0
    for k in range(len(views)):
        off, scale = views[k] - s, scales[k]
        if family % 2 == _GAUSSIAN:
            total += (off - 0.5) / scale**2
        elif off >= 1.0:
            total += 1.0 / scale
        elif off <= 0.0:
            total -= 1.0 / scale
        else:  # the kink lies between the two counts
            total += (2.0 * off - 1.0) / scale
    return total


@_compiled
def _bracket(least, most, n, p):  # type: ignore[no-untyped-def]
    """Return counts below and above the largest term, which lies between those of the noise and of the count."""
    top = min(p, MOST) if n == np.inf else (n + 1.0) * p
    low = max(math.floor(min(least, top)) - 1.0, 0.0)
    high = max(math.ceil(max(most, top)) + 1.0, 0.0)
    largest = min(n, MOST)
    return min(low, largest), min(high, largest)


@_compiled
def peak(family, views, scales, n, p, tilt):  # type: ignore[no-untyped-def]
    """Return the count s of the largest term times e^(tilt s), by bisection: ratios of neighbouring terms decrease."""
    least = most = views[0]
    for k in range(1, len(views)):
        least, most = min(least, views[k]), max(most, views[k])
    low, high = _bracket(least, most, n, p * math.exp(min(max(tilt, -_LARGE), _LARGE)))
    while low < high:
        middle = math.floor(low + (high - low) / 2.0)
        if math.log(_odds(middle, n, p)) + tilt + log_noise_step(family, views, scales, middle) > 0.0:
            low = middle + 1.0
        else:
            high = middle
    return low


@_compiled
def is_valid(views, scales, n, p):  # type: ignore[no-untyped-def]
    """Return whether all parameters are in range, so that the sums end; the graph raises an error otherwise."""
    for k in range(len(views)):
        if math.isnan(views[k]) or not 0.0 < scales[k] < np.inf:
            return False
    if n == np.inf:
        return 0.0 <= p < np.inf
    return 1.0 <= n <= MOST and n == math.floor(n) and 0.0 <= p <= 1.0


@_compiled
def _is_outside(family, views):  # type: ignore[no-untyped-def]
    """Return whether a noisy number is infinite or, under discrete noise, not whole."""
    for k in range(len(views)):
        if math.isinf(views[k]) or (family >= _DISCRETE_LAPLACE and views[k] != math.floor(views[k])):
            return True
    return False


@_compiled
def _slope(mode, mean_off, n, p):  # type: ignore[no-untyped-def]
    """Return the derivative by p of the log of a sum, from the mean of the count, mode + mean_off, in the sum."""
    if n == np.inf:
        return ((mode - p) + mean_off) / p
    return ((mode - n * p) + mean_off) / (p * (1.0 - p))


@_compiled
def log_density(family, views, scales, n, p):  # type: ignore[no-untyped-def] # noqa: C901 - one loop
    """Return the log density of noisy views of one count, and its derivative by p.

    n is infinite for a Poisson count, and p is then its mean.
    """
    if not is_valid(views, scales, n, p):
        return np.nan, np.nan
    if _is_outside(family, views):
        return -np.inf, np.nan
    p = max(p, _LEAST) if p > 0.0 else p
    certain = p == 0.0 or (p == 1.0 and n < np.inf)
    mode = (0.0 if p == 0.0 else n) if certain else peak(family, views, scales, n, p, 0.0)
    value = log_mass(mode, n, p)
    for k in range(len(views)):
        value += log_noise(family, views[k] - mode, scales[k])
    if certain:  # one-sided: the only other count of the first order is the next one
        if p == 0.0:
            return value, (1.0 if n == np.inf else n) * math.expm1(log_noise_step(family, views, scales, 0.0))
        return value, -n * math.expm1(-log_noise_step(family, views, scales, n - 1.0))
    least = most = views[0]
    decay = 0.0  # of the step from one count to the next, for Gaussian noise
    for k in range(len(views)):
        least, most = min(least, views[k]), max(most, views[k])
        decay += 1.0 / scales[k] ** 2
    is_gaussian = family % 2 == _GAUSSIAN
    decay = math.exp(-decay) if is_gaussian else 1.0
    odds = p if n == np.inf else p / (1.0 - p)
    # The derivative divides the mean of the count by its variance without noise, which may be small.
    largest_rest = RELATIVE * min(p if n == np.inf else n * p * (1.0 - p), 1.0)
    total, first = 1.0, 0.0
    for direction in (1.0, -1.0):
        term, off, count, factor, exponent, side = 1.0, 0.0, 0, 1.0, 0.0, 0
        while off < n - mode if direction > 0.0 else off > -mode:
            low = mode + off if direction > 0.0 else mode + off - 1.0
            # The step is constant beyond the kinks of Laplace noise; that of Gaussian noise decays by a factor.
            before, side = side, 1 if is_gaussian or low >= most else (-1 if low + 1.0 <= least else 0)
            if count % _AGAIN == 0 or side == 0 or side != before:
                exponent = log_noise_step(family, views, scales, low)
                factor = math.exp(min(max(direction * exponent, -_LARGE), _LARGE))
                factor *= odds if direction > 0.0 else 1.0 / odds
            elif is_gaussian:
                factor *= decay
            count += 1
            of_count = 1.0 / (low + 1.0) if n == np.inf else (n - low) / (low + 1.0)
            ratio = factor * of_count if direction > 0.0 else factor / of_count
            if abs(exponent) > _LARGE:
                ratio = math.exp(min(direction * (exponent + math.log(odds * of_count)), 1.0))
                count = 0
            term *= ratio
            off += direction
            total += term
            first += term * off
            # The ratios decrease: the rest of sum j r^j is at most term |off| r / (1 - r)^2.
            left = 1.0 - ratio
            if left > 0.0 and term * ratio * (abs(off) + 1.0) <= largest_rest * total * left * left:
                break
    return value + math.log(total), _slope(mode, first / total, n, p)


@_compiled
def derivative(what, k, family, views, scales, n, p):  # type: ignore[no-untyped-def]
    """Return another derivative of the log density: OFF or SCALE, by view k or its scale, or CURVATURE, twice by p."""
    if not is_valid(views, scales, n, p) or _is_outside(family, views):
        return np.nan
    p = max(p, _LEAST) if p > 0.0 else p
    certain = p == 0.0 or (p == 1.0 and n < np.inf)
    mode = (0.0 if p == 0.0 else n) if certain else peak(family, views, scales, n, p, 0.0)
    total, first, second = 1.0, 0.0 if what == CURVATURE else _of_noise(what, family, views[k] - mode, scales[k]), 0.0
    for direction in (1.0, -1.0):
        term, s = 1.0, mode
        while not certain and (s < n if direction > 0.0 else s > 0.0):
            low = s if direction > 0.0 else s - 1.0
            step = math.log(_odds(low, n, p)) + log_noise_step(family, views, scales, low)
            ratio = math.exp(min(direction * step, 1.0))
            term *= ratio
            s += direction
            total += term
            off = s - mode
            of_term = off if what == CURVATURE else _of_noise(what, family, views[k] - s, scales[k])
            first += term * of_term
            second += term * off * off
            # The ratios decrease: the rest of sum j^2 r^j is at most term off^2 r (1 + r) / (1 - r)^3.
            left = 1.0 - ratio
            if left > 0.0 and term * ratio * 2.0 * (abs(off) + 1.0) ** 2 <= RELATIVE * total * left**3:
                break
    mean = first / total
    if what != CURVATURE:
        return mean
    if certain:
        return np.nan
    spread = 1.0 if n == np.inf else 1.0 - p
    own = (mode + mean) / p**2 + (0.0 if n == np.inf else (n - mode - mean) / spread**2)
    return (second / total - mean * mean) / (p * spread) ** 2 - own


@_compiled
def _of_noise(what, family, off, scale):  # type: ignore[no-untyped-def]
    return noise_slope(family, off, scale) if what == OFF else noise_scale_slope(family, off, scale)


@_compiled
def _log_distribution(side, family, y, scale, n, p):  # type: ignore[no-untyped-def]
    """Return log P(Y <= y) or log P(Y > y), and its derivative by p.

    The terms P(count = s) P(noise <= y - s) are log-concave in s, because the distribution function of log-concave
    noise is log-concave.
    """
    shift = 0.0
    if family >= _DISCRETE_LAPLACE:
        y = math.floor(y)
        shift = -1.0 if side == ABOVE else 0.0  # P(noise > k) = P(noise <= -k - 1)
    p = max(p, _LEAST) if p > 0.0 else p
    certain = p == 0.0 or (p == 1.0 and n < np.inf)
    low, high = _bracket(y, y, n, p)
    # The distribution function moves the largest term from that of the count downwards (or, above y, upwards).
    if side == BELOW:
        low = 0.0
    else:
        high = min(n, MOST)
    while low < high and not certain:
        middle = math.floor(low + (high - low) / 2.0)
        step = log_noise_below(family, side * (y - middle - 1.0) + shift, scale)
        step -= log_noise_below(family, side * (y - middle) + shift, scale)
        if math.log(_odds(middle, n, p)) + step > 0.0:
            low = middle + 1.0
        else:
            high = middle
    mode = (0.0 if p == 0.0 else n) if certain else low
    largest = log_noise_below(family, side * (y - mode) + shift, scale)
    if largest == -np.inf:
        return largest, np.nan
    if certain:  # one-sided: the only other count of the first order is the next one
        other = log_noise_below(family, side * (y - (1.0 if p == 0.0 else n - 1.0)) + shift, scale)
        moved = math.expm1(other - largest)
        return largest, (moved if n == np.inf else n * moved) if p == 0.0 else -n * moved
    largest_rest = RELATIVE * min(p if n == np.inf else n * p * (1.0 - p), 1.0)
    total, first = 1.0, 0.0
    for direction in (1.0, -1.0):
        term, s, log_noise_mass = 1.0, mode, largest
        while s < n if direction > 0.0 else s > 0.0:
            odds = _odds(s, n, p) if direction > 0.0 else 1.0 / _odds(s - 1.0, n, p)
            s += direction
            following = log_noise_below(family, side * (y - s) + shift, scale)
            exponent = following - log_noise_mass
            ratio = _product(exponent, math.exp(exponent), odds)
            term *= ratio
            total += term
            first += term * (s - mode)
            left = 1.0 - ratio
            if left > 0.0 and term * ratio * (abs(s - mode) + 1.0) <= largest_rest * total * left * left:
                break
            log_noise_mass = following
    return log_mass(mode, n, p) + largest + math.log(total), _slope(mode, first / total, n, p)


@_compiled
def log_distribution(family, y, scale, n, p):  # type: ignore[no-untyped-def]
    """Return log P(Y <= y) and its derivative by p; near 0 from the complement, whose relative error is small."""
    if not is_valid((y,), (scale,), n, p):
        return np.nan, np.nan
    if math.isinf(y):
        return (0.0 if y > 0.0 else -np.inf), 0.0
    value, slope = _log_distribution(BELOW, family, y, scale, n, p)
    if value <= _NEAR_ONE:
        return value, slope
    above, slope = _log_distribution(ABOVE, family, y, scale, n, p)
    value = math.log1p(-math.exp(above))
    return value, -math.exp(above - value) * slope
