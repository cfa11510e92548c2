"""A small posterior by Langevin chains, random records for it, and one likelihood of each class."""

import pytest

import privsample as ps

N = 20
PLAIN = ps.LangevinPosterior(
    likelihood=ps.LogisticLikelihood(),
    features=2,
    norm=1.5,
    prior_std=2.0,
    intercept_std=3.0,
    data_weight=0.5,
    draws=2,
    relation=ps.ReplaceOne(N),
    steps=50,
)
LIKELIHOODS = {
    "logistic": ps.LogisticLikelihood(),
    "probit": ps.ProbitLikelihood(clip=0.8),
    "softmax": ps.SoftmaxLikelihood(classes=3),
    "ordinal": ps.OrdinalLikelihood(cutpoints=(-1.0, 1.0)),
    "huber": ps.HuberLikelihood(threshold=1.0),
    "normal": ps.NormalLikelihood(noise_std=0.5, clip=1.0),
    "poisson": ps.PoissonLikelihood(max_count=4, clip=2.0),
}
each_likelihood = pytest.mark.parametrize("name", LIKELIHOODS)


def data(rng, features=2, n=N):
    return rng.standard_normal((n, features)), (rng.random(n) < 0.7).astype(int)
