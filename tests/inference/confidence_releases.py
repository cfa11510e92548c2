"""Releases of which tests make confidence sets."""

import numpy as np

import privsample as ps

N = 30
TIMES = ps.GammaExponential(2, 1, upper=1.5)
NORMAL = ps.NormalKnownVariance(0, 1, noise_variance=1, bounds=(-1, 1))
MOMENTS = ps.NormalUnknownVariance(mean=0, observations=1, shape=3, scale=2, bounds=(-3, 3))
SURVEY = ps.DirichletCategorical((1, 1, 1))
LINE = ps.LinearRegression(feature_bounds=((0, 1),), target_bounds=(-1, 1), shape=3, scale=2)


def released(model, data, *, n=None, scale=2.0, seed=0, **fields):
    mechanism = ps.NoisyStatistics(model=model, n=n or len(data), scale=scale, **fields)
    return mechanism.release(data, rng=np.random.default_rng(seed))


def of(release, seed=1, **given):
    return ps.confidence_set(release, rng=np.random.default_rng(seed), **given)


def mean_release(n=N, seed=0, model=NORMAL, **fields):
    data = np.random.default_rng([seed, 1]).normal(0.3, 1, n)
    return released(model, data, seed=seed, **fields)
