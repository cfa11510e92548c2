"""Tests of chains on data simulated from the model itself, in which the truth is a draw from its own posterior."""

import numpy as np
from scipy import stats

from privsample.inference.chains import Observation


def uniform_pvalue(u):
    """p-value of independent uniform numbers, by mean, dispersion and distance: the smallest of three, times three."""
    u = np.asarray(u)
    mean = (u.mean() - 0.5) * (12 * len(u)) ** 0.5
    dispersion = (((u - 0.5) ** 2).mean() - 1 / 12) * (180 * len(u)) ** 0.5
    found = [2 * stats.norm.sf(abs(mean)), 2 * stats.norm.sf(abs(dispersion)), stats.kstest(u, "uniform").pvalue]
    return min(1.0, 3 * min(found))


def replicas(make, prior_draw, count, rng, *, n, model, noise, believed=None, sweeps=1, copies=1):
    """Chains started at draws of (parameters, records) that made the release: they are draws from the posterior.

    After any number of sweeps they must still be. `make(observation)` makes a chain, `prior_draw(chain, rng)` sets its
    state. Yields each chain and the noisy copies. The chains believe in the noise `believed`, if it is another one.
    """
    chain = make(
        Observation(model=model, n=n, noise=believed or noise, observed=np.zeros((copies, *model.empty.shape)))
    )
    for _ in range(count):
        prior_draw(chain, rng)
        total = chain.contributions.sum(axis=0)
        observed = total + noise.sample((copies, len(total)), rng)
        chain.acceptance = type(chain.acceptance)(believed or noise, observed)
        for _ in range(sweeps):
            chain.sweep(rng, tuning=False)
        yield chain, observed


def noise_ranks(noise, residuals):
    """Probability of smaller noise, uniform if the residuals are the noise."""
    tail = {"laplace": stats.laplace(scale=noise.scale_parameter), "gaussian": stats.norm(scale=noise.scale_parameter)}
    return tail[noise.name].cdf(residuals)
