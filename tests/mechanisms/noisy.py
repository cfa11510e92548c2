"""Models and data that the tests of noisy statistics share."""

import numpy as np
import pytest

from privsample import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalKnownVariance,
    PrivateStatistics,
)

BINARY = BetaBernoulli(alpha=1, beta=1)
FRACTIONAL = BetaBernoulli(alpha=1, beta=1, fractional=True)
SURVEY = DirichletCategorical(alpha=(1, 1, 1))
TIMES = GammaExponential(shape=3, rate=2, upper=1.5)
NORMAL = NormalKnownVariance(mean=0, variance=1, noise_variance=2, bounds=(-1, 1))
MODELS = [BINARY, FRACTIONAL, SURVEY, GammaPoisson(shape=3, rate=1, upper=5), TIMES, NORMAL]
each_model = pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
YES = np.repeat([0.0, 1.0], [30, 20])


def private(mechanism, data=YES, rng=None):
    return PrivateStatistics(release=mechanism.release(data, rng=rng))
