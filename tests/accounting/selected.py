"""Distributions and bases that the tests of selection share."""

import privsample as ps

MU = 0.2**0.5
BASE = ps.GaussianAccountant(sensitivity=MU, noise_std=1.0)  # 0.1-zCDP
LOGARITHMIC = ps.TruncatedNegativeBinomial.logarithmic(mean=10)
GEOMETRIC = ps.TruncatedNegativeBinomial.geometric(mean=10)
POISSON = ps.Poisson(mean=10)
DISTRIBUTIONS = [
    ps.TruncatedNegativeBinomial.logarithmic(mean=4),
    ps.TruncatedNegativeBinomial(eta=-0.6, gamma=0.05),
    ps.TruncatedNegativeBinomial.geometric(mean=3),
    ps.Poisson(mean=2),
    ps.Poisson(mean=0.05),
    ps.Binomial(maximum=6, rate=0.5),
    ps.BetaBinomial(maximum=9, alpha=1, beta=2),
    ps.TruncatedRepetitions(distribution=ps.Poisson(mean=0.7), maximum=3),
    ps.TruncatedRepetitions(distribution=ps.TruncatedNegativeBinomial.geometric(mean=3), maximum=1),
]


def selected(distribution, base=BASE):
    return ps.SelectionAccountant(base=base, repetitions=distribution)
