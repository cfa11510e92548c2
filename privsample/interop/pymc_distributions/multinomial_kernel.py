"""The density of noisy counts of categories, by convolution with a bounded relative error. Compiled by Numba.

docs/notes/moments.md, section 4.
"""

import math
from functools import partial

import numpy as np

from privsample._compiled import compiled
from privsample.interop.pymc_distributions import count_kernel as counts

_compiled = partial(compiled, error_model="numpy")
MOST_PRODUCTS = 1 << 26  # of the convolutions; where more are needed, the total is taken to be normal under the tilt
_LEFT_OUT = 1e-18  # largest share of a sum that is left out
_ROUNDS = 100  # steps towards the tilt
_NEAR = 0.1  # distance of the total's mean from n, in standard deviations, at which the tilt is good enough
_is_valid, _log_noise = counts.is_valid, counts.log_noise
_log_mass, _peak, _step = counts.log_mass, counts.peak, counts.log_noise_step
_noise_slope, _noise_scale_slope = counts.noise_slope, counts.noise_scale_slope
_DISCRETE = 2  # families from this number on are of whole numbers


@_compiled
def _masses(family, views, scales, rate, tilt):  # type: ignore[no-untyped-def]
    """Return the terms of a Poisson count s of mean `rate` with noisy views, times e^(tilt s).

    These are: the count of the largest term; the log of its value without the tilt, times the sum as a multiple of the
    largest term; the first count, and the shares of the counts.
    """
    mode = 0.0 if rate == 0.0 else _peak(family, views, scales, np.inf, rate, tilt)
    up, down = [1.0], [0.0 for _ in range(0)]
    total = 1.0
    for direction in (1.0, -1.0):
        term, s = 1.0, mode
        while rate > 0.0 and (direction > 0.0 or s > 0.0):
            low = s if direction > 0.0 else s - 1.0
            log_ratio = math.log(rate) + tilt - math.log(low + 1.0) + _step(family, views, scales, low)
            ratio = math.exp(min(direction * log_ratio, 1.0))
            term *= ratio
            s += direction
            total += term
            if direction > 0.0:
                up.append(term)
            else:
                down.append(term)
            # The ratios decrease: a geometric series bounds the rest.
            if ratio < 1.0 and term * ratio <= _LEFT_OUT * total * (1.0 - ratio):
                break
    shares = np.empty(len(up) + len(down))
    for k in range(len(down)):
        shares[len(down) - 1 - k] = down[k] / total
    for k in range(len(up)):
        shares[len(down) + k] = up[k] / total
    value = _log_mass(mode, np.inf, rate) + math.log(total)
    for c in range(len(views)):
        value += _log_noise(family, views[c] - mode, scales[c])
    return mode, value, mode - len(down), shares


@_compiled
def _moments(first, shares):  # type: ignore[no-untyped-def]
    """Return the mean and the variance."""
    mean = 0.0
    for k in range(len(shares)):
        mean += shares[k] * k
    variance = 0.0
    for k in range(len(shares)):
        variance += shares[k] * (k - mean) ** 2
    return first + mean, variance


@_compiled
def _convolved(a, b):  # type: ignore[no-untyped-def]
    """Return the convolution of two sequences without its ends of little mass, and the number of terms cut below."""
    full = np.zeros(len(a) + len(b) - 1)
    for i in range(len(a)):
        for j in range(len(b)):
            full[i + j] += a[i] * b[j]
    start, end, cut = 0, len(full), 0.0
    while start < end - 1 and cut + full[start] <= _LEFT_OUT:
        cut += full[start]
        start += 1
    cut = 0.0
    while end > start + 1 and cut + full[end - 1] <= _LEFT_OUT:
        cut += full[end - 1]
        end -= 1
    return full[start:end].copy(), start


@_compiled
def _is_valid_row(family, y, n, p, scale):  # type: ignore[no-untyped-def]
    """Return NaN for parameters out of range, -inf for noisy counts that the noise excludes, and else 0."""
    for k in range(y.shape[1]):
        for c in range(y.shape[0]):
            if not _is_valid((y[c, k],), (scale[k],), n, p[k]):
                return np.nan
    for k in range(y.shape[1]):
        for c in range(y.shape[0]):
            if math.isinf(y[c, k]) or (family >= _DISCRETE and y[c, k] != math.floor(y[c, k])):
                return -np.inf
    return 0.0


@_compiled
def _tilted(family, y, n, p, scale):  # type: ignore[no-untyped-def]
    """Return the terms of all categories under a tilt that moves the mean of the total to n.

    These are: the log of the product of their sums without the tilt, divided by the probability of the total; the
    variance of the total; the first count of each category, and the shares of its counts.
    """
    copies, categories = y.shape
    views, scales = np.empty(copies), np.empty(copies)
    shares = [np.empty(0) for _ in range(categories)]
    firsts, means = np.zeros(categories), np.zeros(categories)
    tilt, low, high, value, variance, excess = 0.0, -np.inf, np.inf, 0.0, 0.0, 0.0
    for _ in range(_ROUNDS):
        value, total, variance, excess = 0.0, 0.0, 0.0, -n
        for k in range(categories):
            views[:], scales[:] = y[:, k], scale[k]
            rate = n * max(p[k], 1e-290) if p[k] > 0.0 else 0.0
            mode, log_sum, firsts[k], shares[k] = _masses(family, views, scales, rate, tilt)
            means[k], own = _moments(firsts[k], shares[k])
            value += log_sum
            excess += mode
            total, variance = total + means[k], variance + own
        if abs(total - n) <= _NEAR * math.sqrt(variance) + 1e-9 * n:
            break
        if total < n:
            low = tilt
        else:
            high = tilt
        move = (n - total) / variance if variance > 0.0 else (1.0 if total < n else -1.0)
        largest = max(2.0, abs(tilt))
        following = tilt + min(max(move, -largest), largest)
        if not low < following < high:
            following = (low + high) / 2.0
        tilt = following
    # The tilt cancels where the largest terms are at n in total.
    return value + tilt * excess - _log_mass(n, np.inf, n), variance, firsts, shares


@_compiled
def densities(family, y, n, p, scale):  # type: ignore[no-untyped-def]
    """Return the log densities of groups, and their derivatives by p, by the noisy counts and by the scales."""
    logs, by_p, by_y, by_scale = np.empty(len(n)), np.empty(p.shape), np.empty(y.shape), np.empty(scale.shape)
    for i in range(len(n)):
        logs[i] = _density(family, y[i], n[i], p[i], scale[i], by_p[i], by_y[i], by_scale[i])
    return logs, by_p, by_y, by_scale


@_compiled
def _density(family, y, n, p, scale, by_p, by_y, by_scale):  # type: ignore[no-untyped-def]
    """Return the log density at the noisy copies y (copies, categories), and fill in its derivatives.

    Independent Poisson counts given their total n are multinomial. Each sequence of terms is tilted by e^(tilt s), so
    that the mean of the total is near n: the value at n is then no small part of the convolution.
    """
    by_p[:], by_y[:], by_scale[:] = np.nan, np.nan, np.nan
    outside = _is_valid_row(family, y, n, p, scale)
    if outside != 0.0:
        return outside
    value, variance, firsts, shares = _tilted(family, y, n, p, scale)
    categories = len(p)
    products, width = 0.0, 0.0
    for k in range(categories):
        products += width * len(shares[k])
        width += len(shares[k])
    if products > MOST_PRODUCTS:
        for k in range(categories):
            _derivatives(family, k, y, n, p, scale, firsts[k], shares[k], by_p, by_y, by_scale)
        return value - 0.5 * math.log(2.0 * math.pi * variance)
    at_total = _at_total(family, y, n, p, scale, firsts, shares, by_p, by_y, by_scale)
    return value + math.log(at_total)


@_compiled
def _at_total(family, y, n, p, scale, firsts, shares, by_p, by_y, by_scale):  # type: ignore[no-untyped-def] # noqa: C901 - one pass each way
    """Return the probability of the total n, and fill in the derivatives."""
    # Sums of the first categories, and where each begins: `offset` is the smallest total that is kept.
    categories = len(p)
    sums, offsets = [shares[0]], [firsts[0]]
    for k in range(1, categories - 1):
        following_sum, start = _convolved(sums[k - 1], shares[k])
        sums.append(following_sum)
        offsets.append(offsets[k - 1] + firsts[k] + start)
    last = categories - 1
    after = np.zeros(len(sums[last - 1]))  # probability of the last categories given the sum of the first
    for t in range(len(after)):
        place = n - offsets[last - 1] - t - firsts[last]
        if 0.0 <= place < len(shares[last]):
            after[t] = shares[last][int(place)]
    at_total = 0.0
    for t in range(len(after)):
        at_total += sums[last - 1][t] * after[t]
    own_shares = np.zeros(len(shares[last]))
    for t in range(len(after)):
        place = n - offsets[last - 1] - t - firsts[last]
        if 0.0 <= place < len(own_shares):
            own_shares[int(place)] = sums[last - 1][t] * after[t] / at_total
    _derivatives(family, last, y, n, p, scale, firsts[last], own_shares, by_p, by_y, by_scale)
    for k in range(last - 1, 0, -1):
        before = np.zeros(len(sums[k - 1]))
        own_shares = np.zeros(len(shares[k]))
        shift = int(offsets[k - 1] + firsts[k] - offsets[k])
        for t in range(len(before)):
            for s in range(len(own_shares)):
                place = shift + t + s
                if 0 <= place < len(after):
                    term = shares[k][s] * after[place]
                    before[t] += term
                    own_shares[s] += sums[k - 1][t] * term / at_total
        _derivatives(family, k, y, n, p, scale, firsts[k], own_shares, by_p, by_y, by_scale)
        after = before
    own_shares = shares[0] * after / at_total
    _derivatives(family, 0, y, n, p, scale, firsts[0], own_shares, by_p, by_y, by_scale)
    return at_total


@_compiled
def _derivatives(family, k, y, n, p, scale, first, shares, by_p, by_y, by_scale):  # type: ignore[no-untyped-def]
    """Fill in the derivatives that belong to category k, whose count has these probabilities given the copies."""
    mean = 0.0
    for s in range(len(shares)):
        mean += shares[s] * (first + s)
    by_p[k] = mean / max(p[k], 1e-290) - n
    by_scale[k] = 0.0
    for c in range(len(y)):
        by_y[c, k] = 0.0
        for s in range(len(shares)):
            off = y[c, k] - first - s
            by_y[c, k] += shares[s] * _noise_slope(family, off, scale[k])
            by_scale[k] += shares[s] * _noise_scale_slope(family, off, scale[k])
