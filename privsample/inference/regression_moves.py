"""Compiled moves of hidden records of a linear regression (docs/notes/inference.md, "Regression").

Features are scaled by their bounds, so that the bounds are -1 and 1, and the target is measured from the middle of its
bounds. Neither is clipped; only contributions to the statistic are.
"""

import math

import numpy as np

from privsample._checks import FloatArray
from privsample.inference.acceptance import compiled

_LARGEST_LOG = 300.0  # of a scale; the squares of what lies beyond would overflow


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
def move_root(
    rng: np.random.Generator,
    root: FloatArray,
    factor: FloatArray,
    n: int,
    prior_scale: float,
    steps: FloatArray,
) -> FloatArray:
    """Move each entry of the features' root once by Metropolis; return the acceptance probabilities.

    Diagonal entries have the prior |N(0, prior_scale^2)| and move on the log scale, entries below have the prior
    N(0, (prior_scale / 2)^2). `factor` times its transpose is the scatter of the features about their mean, so the cost
    does not depend on n.
    """
    width = len(root)
    chances = np.zeros((width, width))
    now = _root_log_density(root, factor, n, prior_scale)
    for i in range(width):
        for j in range(i + 1):
            kept, step = root[i, j], steps[i, j] * rng.standard_normal()
            root[i, j] = kept * math.exp(step) if i == j else kept + step
            then = _root_log_density(root, factor, n, prior_scale) if 0.0 < abs(root[i, j]) < 1e150 else -np.inf
            chances[i, j] = math.exp(min(then - now, 0.0)) if then > -np.inf else 0.0
            if rng.random() < chances[i, j]:
                now = then
            else:
                root[i, j] = kept
    return chances


@compiled
def _root_log_density(root: FloatArray, factor: FloatArray, n: int, prior_scale: float) -> float:
    """Log density of the root, of the logarithms on its diagonal, given the features, up to a constant."""
    width, total = len(root), 0.0
    for i in range(width):
        total += (1.0 - n) * math.log(root[i, i]) - 0.5 * (root[i, i] / prior_scale) ** 2
        for j in range(i):
            total -= 0.5 * (2.0 * root[i, j] / prior_scale) ** 2
    column = np.empty(width)
    for k in range(width):  # the squared norm of the solution of root X = factor
        for i in range(width):
            at = factor[i, k]
            for j in range(i):
                at -= root[i, j] * column[j]
            column[i] = at / root[i, i]
            total -= 0.5 * column[i] * column[i]
    return total


@compiled
def draw_coefficients(
    rng: np.random.Generator,
    products: FloatArray,
    location: FloatArray,
    precision: FloatArray,
    shape: float,
    scale: float,
    slopes: FloatArray,
) -> float:
    """Draw coefficients, into `slopes`, and the variance, which is returned, given sums of products of the records.

    The normal-inverse-gamma posterior of docs/notes/moments.md, section 3.
    """
    size = len(location)
    design, cross = products[:size, :size].copy(), products[:size, size].copy()
    whole = precision + design
    center = np.linalg.solve(whole, precision @ location + cross)
    off = center - location
    left = products[size, size] - 2.0 * center @ cross + center @ (design @ center) + off @ (precision @ off)
    variance = (scale + 0.5 * max(left, 0.0)) / rng.standard_gamma(shape + 0.5 * products[size - 1, size - 1])
    noise = np.empty(size)
    for i in range(size):
        noise[i] = rng.standard_normal()
    root = np.linalg.cholesky(whole)
    slopes[:] = center + math.sqrt(variance) * np.linalg.solve(root.T.copy(), noise)
    return float(variance)


@compiled
def draw_features(
    rng: np.random.Generator,
    products: FloatArray,
    prior_scale: float,
    mean: FloatArray,
    root: FloatArray,
    steps: FloatArray,
    rounds: int,
) -> FloatArray:
    """Draw the mean of the features and move their root, `rounds` times, given sums of products of the records.

    The mean has the prior N(0, prior_scale^2) and a normal posterior given the root. Returns the mean acceptance of the
    moves of each entry of the root.
    """
    width = len(mean)
    n, sums, squares = products[width, width], products[:width, width].copy(), products[:width, :width].copy()
    chances, noise, standard = np.zeros((width, width)), np.empty(width), np.empty(width)
    for _ in range(rounds):
        # The covariance (n S^-1 + I / scale^2)^-1 with S = root root' is root M^-1 root' with M = n I + root' root /
        # scale^2, which is well conditioned for any root.
        whole = n * np.eye(width) + root.T.copy() @ root / prior_scale**2
        for i in range(width):
            noise[i] = rng.standard_normal()
            at = sums[i]
            for j in range(i):
                at -= root[i, j] * standard[j]
            standard[i] = at / root[i, i]
        factor = np.linalg.cholesky(whole)
        half = np.linalg.solve(factor, standard)
        mean[:] = root @ np.linalg.solve(factor.T.copy(), half + noise)
        scatter = np.empty((width, width))
        for i in range(width):
            for j in range(width):
                scatter[i, j] = squares[i, j] - sums[i] * mean[j] - mean[i] * sums[j] + n * mean[i] * mean[j]
        values, vectors = np.linalg.eigh(scatter)
        chances += move_root(rng, root, vectors * np.sqrt(np.maximum(values, 0.0)), int(n), prior_scale, steps)
    return chances / rounds


@compiled
def from_coordinates(
    place: FloatArray,
    location: FloatArray,
    prior_root: FloatArray,
    feature_scale: float,
    mean: FloatArray,
    root: FloatArray,
    slopes: FloatArray,
) -> float:
    """Write mean, root and coefficients of these coordinates; return the standard deviation, or 0 beyond the floats.

    The coordinates are the standardized coefficients, the log variance, the standardized mean of the features, the
    logarithms of the diagonal of their root, and its standardized entries below the diagonal.
    """
    width = len(mean)
    if abs(place[width + 1]) > _LARGEST_LOG:
        return 0.0
    deviation = math.exp(0.5 * place[width + 1])
    for i in range(width + 1):
        at = 0.0
        for j in range(width + 1):
            at += prior_root[i, j] * place[j]
        slopes[i] = location[i] + deviation * at
    below = 2 + 3 * width
    for i in range(width):
        mean[i] = feature_scale * place[width + 2 + i]
        if abs(place[2 * width + 2 + i]) > _LARGEST_LOG:
            return 0.0
        root[i, i] = math.exp(place[2 * width + 2 + i])
        for j in range(i):
            root[i, j] = 0.5 * feature_scale * place[below]
            below += 1
    return deviation


@compiled
def log_prior(place: FloatArray, width: int, shape: float, scale: float, feature_scale: float) -> float:
    """Return the log prior density of the coordinates, up to a constant."""
    total = -shape * place[width + 1] - scale * math.exp(-place[width + 1])
    for i in range(len(place)):
        if 2 * width + 2 <= i < 3 * width + 2:
            total += place[i] - 0.5 * (math.exp(place[i]) / feature_scale) ** 2
        elif i != width + 1:
            total -= 0.5 * place[i] * place[i]
    return total


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


@compiled
def walk(
    rng: np.random.Generator,
    place: FloatArray,
    factor: FloatArray,
    scale: float,
) -> FloatArray:
    """Return a random walk proposal with covariance scale^2 times factor times its transpose; its scale varies."""
    noise = np.empty(len(place))
    for i in range(len(place)):
        noise[i] = rng.standard_normal()
    return place + scale * math.exp(1.5 * rng.random() - 1.0) * (factor @ noise)


@compiled
def shift(
    rng: np.random.Generator,
    residuals: FloatArray,
    place: FloatArray,
    reference: FloatArray,
    factors: FloatArray,
    scales: FloatArray,
    rounds: int,
    inner: int,
    location: FloatArray,
    prior_root: FloatArray,
    shape: float,
    scale: float,
    feature_scale: float,
    half: float,
    radius: float,
    weights: FloatArray,
    observed: FloatArray,
    noise_scale: float,
    squared: bool,
) -> FloatArray:
    """Move the coordinates `place` while the standardized records stay; return mean acceptances, shape (5,).

    Each round makes one random walk step with each of the two factors, and then `inner` steps on a surrogate of the
    posterior, whose statistic is that of unclipped records plus the effect of clipping at `reference`, at a cost that
    does not depend on n. These steps are accepted together, by the ratio of posterior to surrogate (note, "Surrogate").
    The acceptances are those of the two steps, of the two kinds of steps on the surrogate, and of these together.
    """
    width = len(location) - 1
    mean, root, slopes = np.zeros(width), np.zeros((width, width)), np.zeros(width + 1)
    chances, products = np.zeros(5), gram(residuals)
    deviation = from_coordinates(reference, location, prior_root, feature_scale, mean, root, slopes)
    offset = statistic(residuals, mean, root, slopes, deviation, half, radius, weights)
    offset -= unclipped_statistic(products, mean, root, slopes, deviation, half, radius, weights)
    deviation = from_coordinates(place, location, prior_root, feature_scale, mean, root, slopes)
    total = statistic(residuals, mean, root, slopes, deviation, half, radius, weights)
    density = log_prior(place, width, shape, scale, feature_scale)
    for _ in range(rounds):
        for k in range(2):
            new = walk(rng, place, factors[k], scales[k])
            deviation = from_coordinates(new, location, prior_root, feature_scale, mean, root, slopes)
            if deviation > 0.0:
                moved = statistic(residuals, mean, root, slopes, deviation, half, radius, weights)
                then = log_prior(new, width, shape, scale, feature_scale)
                ratio = then - density + noise_ratio(total, moved, observed, noise_scale, squared)
                chance = math.exp(min(ratio, 0.0))
                chances[k] += chance / rounds
                if rng.random() < chance:
                    place[:], total, density = new, moved, then
        from_coordinates(place, location, prior_root, feature_scale, mean, root, slopes)
        deviation = math.exp(0.5 * place[width + 1])
        first = offset + unclipped_statistic(products, mean, root, slopes, deviation, half, radius, weights)
        trial, simple, start = place.copy(), first.copy(), density
        for step in range(inner):
            k = step % 2
            new = walk(rng, trial, factors[k], scales[k + 2])
            deviation = from_coordinates(new, location, prior_root, feature_scale, mean, root, slopes)
            if deviation > 0.0:
                moved = offset + unclipped_statistic(products, mean, root, slopes, deviation, half, radius, weights)
                then = log_prior(new, width, shape, scale, feature_scale)
                ratio = then - start + noise_ratio(simple, moved, observed, noise_scale, squared)
                chance = math.exp(min(ratio, 0.0))
                chances[k + 2] += 2.0 * chance / inner / rounds
                if rng.random() < chance:
                    trial, simple, start = new, moved, then
        deviation = from_coordinates(trial, location, prior_root, feature_scale, mean, root, slopes)
        moved = statistic(residuals, mean, root, slopes, deviation, half, radius, weights)
        ratio = noise_ratio(total, moved, observed, noise_scale, squared)
        chance = math.exp(min(ratio - noise_ratio(first, simple, observed, noise_scale, squared), 0.0))
        chances[4] += chance / rounds
        if rng.random() < chance:
            place[:], total, density = trial, moved, start
    return chances
