"""Compiled moves of the parameters of a linear regression, given hidden records (docs/notes/inference.md, section 8).

The units are those of `regression_records`.
"""

import math

import numpy as np

from privsample._checks import FloatArray
from privsample._compiled import compiled
from privsample.inference.regression_records import gram, noise_ratio, statistic, unclipped_statistic

_LARGEST_LOG = 300.0  # of a scale; the squares of what lies beyond would overflow


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
    clipping: FloatArray,
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

    One random walk step with each of the two factors comes first. Each round then makes `inner` steps on a surrogate of
    the posterior, at a cost that does not depend on n. Its statistic is the true one at `reference`, and changes by
    the matrix `clipping` times the change without clipping. The steps are accepted together, by the ratio of posterior
    to surrogate (inference.md, section 8). The acceptances are those of the two steps, of the two kinds of steps on the
    surrogate, and of the rounds.
    """
    width = len(location) - 1
    mean, root, slopes = np.zeros(width), np.zeros((width, width)), np.zeros(width + 1)
    chances, steps, products = np.zeros(5), np.zeros(2), gram(residuals)
    deviation = from_coordinates(reference, location, prior_root, feature_scale, mean, root, slopes)
    offset = statistic(residuals, mean, root, slopes, deviation, half, radius, weights)
    offset -= clipping @ unclipped_statistic(products, mean, root, slopes, deviation, half, radius, weights)
    deviation = from_coordinates(place, location, prior_root, feature_scale, mean, root, slopes)
    total = statistic(residuals, mean, root, slopes, deviation, half, radius, weights)
    density = log_prior(place, width, shape, scale, feature_scale)
    for turn in range(rounds):
        for k in range(2 if turn == 0 else 0):
            new = walk(rng, place, factors[k], scales[k])
            deviation = from_coordinates(new, location, prior_root, feature_scale, mean, root, slopes)
            if deviation > 0.0:
                moved = statistic(residuals, mean, root, slopes, deviation, half, radius, weights)
                then = log_prior(new, width, shape, scale, feature_scale)
                ratio = then - density + noise_ratio(total, moved, observed, noise_scale, squared)
                chance = math.exp(min(ratio, 0.0))
                chances[k] = chance
                if rng.random() < chance:
                    place[:], total, density = new, moved, then
        from_coordinates(place, location, prior_root, feature_scale, mean, root, slopes)
        deviation = math.exp(0.5 * place[width + 1])
        plain = unclipped_statistic(products, mean, root, slopes, deviation, half, radius, weights)
        first = offset + clipping @ plain
        trial, simple, start = place.copy(), first.copy(), density
        for _ in range(inner):
            k = 0 if rng.random() < 0.5 else 1  # at random: in turn, the steps together would not be reversible
            steps[k] += 1
            new = walk(rng, trial, factors[k], scales[k + 2])
            deviation = from_coordinates(new, location, prior_root, feature_scale, mean, root, slopes)
            if deviation > 0.0:
                plain = unclipped_statistic(products, mean, root, slopes, deviation, half, radius, weights)
                moved = offset + clipping @ plain
                then = log_prior(new, width, shape, scale, feature_scale)
                ratio = then - start + noise_ratio(simple, moved, observed, noise_scale, squared)
                chance = math.exp(min(ratio, 0.0))
                chances[k + 2] += chance
                if rng.random() < chance:
                    trial, simple, start = new, moved, then
        deviation = from_coordinates(trial, location, prior_root, feature_scale, mean, root, slopes)
        moved = statistic(residuals, mean, root, slopes, deviation, half, radius, weights)
        ratio = noise_ratio(total, moved, observed, noise_scale, squared)
        chance = math.exp(min(ratio - noise_ratio(first, simple, observed, noise_scale, squared), 0.0))
        chances[4] += chance / rounds
        if rng.random() < chance:
            place[:], total, density = trial, moved, start
    chances[2:4] /= np.maximum(steps, 1)
    return chances
