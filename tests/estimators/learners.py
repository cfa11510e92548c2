"""Learners that state what they cost, for tests: nothing is learned and nothing is private."""

import warnings

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

import privsample as ps

N = 60
X = np.linspace(-1, 1, 2 * N).reshape(N, 2)
Y = np.arange(N) % 2
PUBLIC = (X.copy(), Y.copy())
RUNS = ps.TruncatedNegativeBinomial.logarithmic(mean=4)
NOISE = ps.NoisyScore(noise_std=0.05)
FITS = []


class Constant(ClassifierMixin, BaseEstimator):
    """Says 0; `quality` is its score, below zero it fails. Fits are counted, in this process only."""

    def __init__(self, quality=0.5, epsilon=0.1, rng=None, random_state=None, verbose=0):
        self.quality = quality
        self.epsilon = epsilon
        self.rng = rng
        self.random_state = random_state
        self.verbose = verbose

    def accountant_for(self, n):
        return ps.PureAccountant(stated_epsilon=self.epsilon, relation=ps.ReplaceOne(n=n))

    def fit(self, X, y, rng=None):
        FITS.append(len(X))
        warnings.warn("one more fit", RuntimeWarning, stacklevel=1)
        np.log(np.zeros(1))
        if self.quality < 0:
            raise ArithmeticError("failed")
        self.classes_, self.n_ = np.array([0, 1]), len(X)
        self.noise_ = None if rng is None else rng.random()
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)

    def predict_proba(self, X):
        return np.tile([0.75, 0.25], (len(X), 1))


def quality(model, X, y):
    return model.quality


def search(space=None, repetitions=RUNS, estimator=None, **options):
    """Scored on public data."""
    options = {"validation": PUBLIC, "scoring": quality} | options
    space = {"quality": [0.1, 0.9]} if space is None else space
    return ps.PrivateSearchCV(Constant() if estimator is None else estimator, space, repetitions, **options)


def private(space=None, **options):
    """Scored on private data."""
    return search(space, **({"validation": None, "scoring": None, "score_noise": NOISE} | options))
