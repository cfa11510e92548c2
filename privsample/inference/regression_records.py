"""Compiled records of a linear regression, their statistic, and offers of new ones (inference.md, section 8).

Features are scaled by their bounds, so that the bounds are -1 and 1, and the target is measured from the middle of its
bounds. Neither is clipped; only contributions to the statistic are.
"""

import math

import numpy as np

from privsample._checks import FloatArray
from privsample._compiled import compiled


@compiled
def contribute(
    features: FloatArray,
    target: float,
    half: float,
    radius: float,
    weights: FloatArray,
    row: FloatArray,
    out: FloatArray,
) -> None:
    """Write the weighted products of one clipped record to `out`; `row` is working memory of length features + 2."""
    width = len(features)
    row[0] = 1.0
    for j in range(width):
        row[j + 1] = radius * min(max(features[j], -1.0), 1.0)
    row[width + 1] = radius * min(max(target / half, -1.0), 1.0)
    place = 0
    for i in range(width + 2):
        for j in range(max(i, 1), width + 2):
            out[place] = weights[place] * row[i] * row[j]
            place += 1


@compiled
def from_standard(
    residuals: FloatArray, mean: FloatArray, root: FloatArray, slopes: FloatArray, deviation: float, out: FloatArray
) -> None:
    """Write the record with these standardized features and residual to `out`: features, then target."""
    width = len(mean)
    value = slopes[width] + deviation * residuals[width]
    for i in range(width):
        at = mean[i]
        for j in range(i + 1):
            at += root[i, j] * residuals[j]
        out[i] = at
        value += slopes[i] * at
    out[width] = value


@compiled
def standardize(
    records: FloatArray, mean: FloatArray, root: FloatArray, slopes: FloatArray, deviation: float
) -> FloatArray:
    """Return the standardized features and residuals of all records, shape (n, features + 1)."""
    out, width = np.empty_like(records), len(mean)
    for k in range(len(records)):
        value = records[k, width] - slopes[width]
        for i in range(width):
            at = records[k, i] - mean[i]
            for j in range(i):
                at -= root[i, j] * out[k, j]
            out[k, i] = at / root[i, i]
            value -= slopes[i] * records[k, i]
        out[k, width] = value / deviation
    return out


@compiled
def build_records(
    residuals: FloatArray, mean: FloatArray, root: FloatArray, slopes: FloatArray, deviation: float
) -> FloatArray:
    """Return the records with these standardized features and residuals, shape (n, features + 1)."""
    out = np.empty_like(residuals)
    for k in range(len(residuals)):
        from_standard(residuals[k], mean, root, slopes, deviation, out[k])
    return out


@compiled
def statistic(
    residuals: FloatArray,
    mean: FloatArray,
    root: FloatArray,
    slopes: FloatArray,
    deviation: float,
    half: float,
    radius: float,
    weights: FloatArray,
) -> FloatArray:
    """Return the statistic of the clipped records with these standardized features and residuals."""
    width = len(mean)
    row, one, record = np.empty(width + 2), np.empty(len(weights)), np.empty(width + 1)
    total = np.zeros(len(weights))
    for k in range(len(residuals)):
        from_standard(residuals[k], mean, root, slopes, deviation, record)
        contribute(record[:width], record[width], half, radius, weights, row, one)
        total += one
    return total


@compiled
def contributions(records: FloatArray, half: float, radius: float, weights: FloatArray) -> FloatArray:
    """Return the contribution of each record to the statistic, shape (n, coordinates)."""
    width = records.shape[1] - 1
    row, out = np.empty(width + 2), np.empty((len(records), len(weights)))
    for k in range(len(records)):
        contribute(records[k, :width], records[k, width], half, radius, weights, row, out[k])
    return out


@compiled
def gram(records: FloatArray) -> FloatArray:
    """Return the sums of products of (features, 1, target), shape (features + 2, features + 2)."""
    width = records.shape[1] - 1
    row, total = np.empty(width + 2), np.zeros((width + 2, width + 2))
    row[width] = 1.0
    for k in range(len(records)):
        row[:width] = records[k, :width]
        row[width + 1] = records[k, width]
        for i in range(width + 2):
            for j in range(i, width + 2):
                total[i, j] += row[i] * row[j]
    for i in range(width + 2):
        for j in range(i):
            total[i, j] = total[j, i]
    return total


@compiled
def offer_records(
    rng: np.random.Generator,
    records: FloatArray,
    total: FloatArray,
    mean: FloatArray,
    root: FloatArray,
    slopes: FloatArray,
    deviation: float,
    half: float,
    radius: float,
    weights: FloatArray,
    observed: FloatArray,
    scale: float,
    squared: bool,
) -> int:
    """Offer a new record to each place in turn, accepted by the noise ratio; return the number accepted.

    `total` is the statistic of the records; both change in place.
    """
    width, size = len(mean), len(weights)
    row, old, new = np.empty(width + 2), np.empty(size), np.empty(size)
    residuals, record, accepted = np.empty(width + 1), np.empty(width + 1), 0
    factor = 0.5 / scale / scale if squared else 1.0 / scale
    for k in range(len(records)):
        for j in range(width + 1):
            residuals[j] = rng.standard_normal()
        from_standard(residuals, mean, root, slopes, deviation, record)
        contribute(record[:width], record[width], half, radius, weights, row, new)
        contribute(records[k, :width], records[k, width], half, radius, weights, row, old)
        ratio = 0.0
        for i in range(size):
            step = new[i] - old[i]
            for c in range(len(observed)):
                gap = observed[c, i] - total[i]
                ratio += step * (2.0 * gap - step) if squared else abs(gap) - abs(gap - step)
        if ratio >= 0.0 or ratio * factor > math.log(1.0 - rng.random()):
            accepted += 1
            total += new - old
            records[k] = record
    return accepted


@compiled
def noise_ratio(old: FloatArray, new: FloatArray, observed: FloatArray, noise_scale: float, squared: bool) -> float:
    """Return the log density of the noise given the statistic `new`, minus that given `old`."""
    ratio = 0.0
    for i in range(len(old)):
        step = new[i] - old[i]
        for c in range(len(observed)):
            gap = observed[c, i] - old[i]
            ratio += step * (2.0 * gap - step) if squared else abs(gap) - abs(gap - step)
    return ratio * (0.5 / noise_scale / noise_scale if squared else 1.0 / noise_scale)


@compiled
def unclipped_statistic(
    products: FloatArray,
    mean: FloatArray,
    root: FloatArray,
    slopes: FloatArray,
    deviation: float,
    half: float,
    radius: float,
    weights: FloatArray,
) -> FloatArray:
    """Return the statistic without clipping, from sums of products of (standardized features, 1, residual)."""
    width = len(mean)
    change = np.zeros((width + 2, width + 2))  # maps (features, 1, residual) to (1, scaled features, scaled target)
    change[0, width] = 1.0
    last = width + 1
    for i in range(width):
        change[i + 1, width] = radius * mean[i]
        change[last, width] += slopes[i] * mean[i]
        for j in range(i + 1):
            change[i + 1, j] = radius * root[i, j]
            change[last, j] += slopes[i] * root[i, j]
    change[last, width] += slopes[width]
    change[last, last] = deviation
    change[last] *= radius / half
    out, place, column = np.empty(len(weights)), 0, np.empty(width + 2)
    for i in range(width + 2):
        for k in range(width + 2):
            at = 0.0
            for j in range(width + 2):
                at += change[i, j] * products[j, k]
            column[k] = at
        for j in range(max(i, 1), width + 2):
            at = 0.0
            for k in range(width + 2):
                at += column[k] * change[j, k]
            out[place] = weights[place] * at
            place += 1
    return out
