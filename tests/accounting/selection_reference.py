"""The exact distribution of the best of K runs, by enumeration, and an order of scores that nearly attains the worst
case.
"""

import itertools

import numpy as np
from scipy import special, stats


def generating(distribution, u):
    """f(u) from the masses: independent of the distribution's closed forms."""
    k = np.arange(0.0, min(distribution.maximum, 400) + 1)
    log_u = np.log(np.maximum(np.asarray(u), 1e-300))[..., None]
    return np.exp(special.logsumexp(distribution.log_mass(k) + np.where(k == 0, 0.0, k * log_u), axis=-1))


def best_of(distribution, masses):
    """Masses of the best of K outputs listed from the worst to the best; the last entry is that of no run at all."""
    edges = np.concatenate([[0.0], np.minimum(np.cumsum(masses), 1.0)])
    edges[-1] = 1.0
    return np.append(np.diff(generating(distribution, edges)), np.exp(distribution.log_mass(np.zeros(()))))


def all_orders(distribution, p, q):
    """The pair of distributions of the best run, for every order of the outputs by score."""
    for order in map(list, itertools.permutations(range(len(p)))):
        yield best_of(distribution, p[order]), best_of(distribution, q[order])


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum())


def renyi(p, q, order):
    used = (p > 0) & (q > 0)
    return float(np.log(np.sum(p[used] ** order * q[used] ** (1 - order))) / (order - 1))


def sandwich(distribution, mu, epsilon, top, bins=8000):
    """delta of the best of K Gaussian runs where outputs below `top` rank above all others, which keep their order.

    So the high losses stand just below the low ones. Exact for the bins, and a floor of the worst case.
    """
    x = np.linspace(-9.0, 9.0 + mu, bins)
    low = (x[1:] + x[:-1]) / 2 < top
    order = np.concatenate([np.flatnonzero(~low), np.flatnonzero(low)[::-1]])
    distributions = []
    for shift in (mu, 0.0):
        masses = np.diff(stats.norm.cdf(x - shift))[order]
        better = np.minimum(np.append(np.cumsum(masses[::-1])[::-1] / masses.sum(), 0.0), 1.0)
        with np.errstate(divide="ignore"):
            distributions.append(-np.diff(np.exp(distribution.log_rank_probability(better))))
    return hockey_stick(*distributions, epsilon)


def ordered(distribution, mu, epsilon, bins=8000):
    """delta of the best of K Gaussian runs where the score is the output itself."""
    return sandwich(distribution, mu, epsilon, -np.inf, bins)
