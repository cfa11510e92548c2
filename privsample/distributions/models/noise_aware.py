"""Posteriors given a noisy statistic: the latent exact statistic is summed or integrated out.

A count of two categories: Bernstein and Sheldon 2018, section 2; docs/notes/statistics.md. A sum of clipped records:
docs/notes/clipping.md.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample.distributions.clipping.posterior import clipped_posterior
from privsample.distributions.clipping.records import ClippedRecord
from privsample.distributions.models.grouped import Sizes, shared_posteriors
from privsample.distributions.models.mixtures import ConjugateMixture
from privsample.distributions.noise import Noise
from privsample.distributions.parametric.conjugate import PosteriorDistribution

LOST = 1e-13  # posterior mass that may lie outside the range of counts
LARGEST = 1 << 24  # largest number of values of the hidden count
TOO_MANY = (
    f"the noise leaves more than {LARGEST} counts possible: use .posterior(), which ignores the noise, or .mcmc(), "
    "which uses a normal approximation"
)


class NoiseAware(NamedTuple):
    """A posterior distribution, and a description of its likelihood and of how exact it is."""

    distribution: PosteriorDistribution
    method: str


def noise_aware_of_each(
    find: Callable[[int, FloatArray], NoiseAware], sizes: Sizes, observed: FloatArray
) -> NoiseAware:
    """The posteriors of many groups by that of one group; parameters as for `shared_posteriors`."""
    methods: list[str] = []

    def posterior(n: int, seen: FloatArray) -> PosteriorDistribution:
        found = find(n, seen)
        methods.append(found.method)
        return found.distribution

    distribution = shared_posteriors(posterior, sizes, observed)
    return NoiseAware(distribution, f"each group by itself; {methods[0]}")


class HiddenCounts(NamedTuple):
    """Consecutive values of a hidden count, their log weights, and a bound on the posterior mass outside them."""

    values: FloatArray
    log_weights: FloatArray
    lost: float

    @property
    def description(self) -> str:
        """The description for the method."""
        return f"{len(self.values)} values of the hidden count; at most {self.lost:.1g} of the posterior left out"


def hidden_counts(
    log_mass: Callable[[float], float],
    steps: Callable[[FloatArray], FloatArray],
    most: float,
    noise: Noise,
    observed: FloatArray,
) -> HiddenCounts:
    """A range of counts in {0, ..., most} with posterior mass of at least 1 - 1e-13.

    `log_mass` is the prior log probability of one count, `steps` its increment from each count to the next. The bound
    on the omitted mass is certified: outside the range the noise masses decrease, and all prior masses sum to one.
    Raises ValueError if the range holds too many counts.
    """
    seen = np.sort(observed.ravel())
    reach = noise.quantile_bound(np.log(LOST) - 5.0)
    centre = np.clip(seen[[0, -1]], 0.0, most)
    while True:
        low, high = max(np.floor(centre[0] - reach), 0.0), min(np.ceil(centre[1] + reach), most)
        if not high - low < LARGEST:
            raise ValueError(TOO_MANY)
        values = np.arange(low, high + 1)
        start = log_mass(low)
        log_weights = start + np.concatenate([[0.0], np.cumsum(steps(values[:-1]))])
        log_weights = log_weights + _log_likelihood(noise, seen, values)
        beyond = [x for x in (low - 1, high + 1) if 0 <= x <= most]
        outside = max((float(_log_likelihood(noise, seen, np.array([x]))[0]) for x in beyond), default=-np.inf)
        log_lost = outside - float(np.logaddexp.reduce(log_weights))
        if log_lost <= np.log(LOST):
            return HiddenCounts(values=values, log_weights=log_weights, lost=float(np.exp(log_lost)))
        reach *= 1.25


def _log_likelihood(noise: Noise, seen: FloatArray, values: FloatArray) -> FloatArray:
    return np.sum([noise.log_mass(y - values) for y in seen], axis=0)


def noisy_count_posterior(
    a: float, b: float, n: int, noise: Noise, observed: FloatArray
) -> tuple[ConjugateMixture, str]:
    """The posterior of a proportion with a Beta(a, b) prior given a noisy count among n, and its description."""

    def log_mass(s: float) -> float:
        chosen = -np.log1p(n) - special.betaln(n - s + 1, s + 1)
        return float(chosen + special.betaln(s + a, n - s + b) - special.betaln(a, b))

    def steps(s: FloatArray) -> FloatArray:
        return np.log1p((a - 1) / (s + 1)) + np.log((n - s) / (n - s - 1 + b))

    found = hidden_counts(log_mass, steps, n, noise, observed)
    s = found.values
    distribution = ConjugateMixture(family="Beta", first=a + s, second=b + n - s, log_weights=found.log_weights)
    return distribution, f"exact, a mixture over {found.description}"


def noisy_sum_posterior(
    prior: PosteriorDistribution,
    record: Callable[[float], ClippedRecord],
    n: int,
    noise: Noise,
    observed: FloatArray,
    *,
    positive: bool,
) -> NoiseAware:
    """The posterior given noisy copies of a sum of clipped records; parameters as for `clipped_posterior`."""
    distribution = clipped_posterior(prior, record, n, noise, observed, positive=positive)
    return NoiseAware(distribution, "exact likelihood of the sum of clipped records, by its transform; tabulated")
