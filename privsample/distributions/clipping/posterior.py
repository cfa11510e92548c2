"""The posterior of one parameter, given noisy copies of a sum of clipped records. docs/notes/clipping.md, step 6."""

from collections.abc import Callable

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.clipping.contour import log_likelihood, saddle_log_likelihood
from privsample.distributions.clipping.kernels import noise_kernel
from privsample.distributions.clipping.records import ClippedRecord
from privsample.distributions.noise import Noise
from privsample.distributions.parametric.conjugate import PosteriorDistribution
from privsample.distributions.parametric.tabulated import TabulatedDistribution, tabulate

_REACH = 60.0  # at most e^-60 of the prior mass is omitted


def clipped_posterior(
    prior: PosteriorDistribution,
    record: Callable[[float], ClippedRecord],
    n: int,
    noise: Noise,
    observed: FloatArray,
    *,
    positive: bool,
) -> TabulatedDistribution:
    """The posterior, with the exact likelihood of the clipped sum.

    Parameters
    ----------
    prior : PosteriorDistribution
        Prior distribution of the parameter.
    record : callable
        From the parameter to the distribution of one clipped record.
    n : int
        The number of records.
    noise : Noise
        Noise of each copy.
    observed : array
        The noisy copies of the sum.
    positive : bool
        Whether the parameter is positive; its logarithm is tabulated then.

    Raises
    ------
    ValueError
        If the noise is small relative to the bounds, and hardly any record lies between them.
    TypeError
        If the noise is discrete, and the sum is not.
    """
    kernel = noise_kernel(noise, observed, integer_valued=record(1.0).integer_valued)

    def log_prior(u: float) -> float:
        return float(prior.log_density(np.array(np.exp(u)))) + u if positive else float(prior.log_density(np.array(u)))

    def parameter(u: float) -> float:
        return float(np.exp(u)) if positive else u

    return tabulate(
        lambda u: log_prior(u) + saddle_log_likelihood(record(parameter(u)), n, kernel),
        lambda u: log_prior(u) + log_likelihood(record(parameter(u)), n, kernel),
        _prior_bounds(prior, positive=positive),
        positive=positive,
    )


def _prior_bounds(prior: PosteriorDistribution, *, positive: bool) -> tuple[float, float]:
    """Bounds of the parameter, or of its logarithm, outside which the prior has at most e^-60 of its mass."""
    middle, spread = float(prior.mean), float(np.sqrt(prior.variance))
    if not positive:
        reach = spread * np.sqrt(2 * _REACH)
        return middle - reach, middle + reach
    shape = (middle / spread) ** 2  # of a Gamma prior: P(X < mean e^-t) <= (const e^-t)^shape
    low = np.log(middle) - min((_REACH + 5.0) / shape + 3.0, 600.0)
    high = np.log(middle) + np.log1p((_REACH + 2 * np.sqrt(_REACH * shape)) / shape)
    return float(low), float(high)
