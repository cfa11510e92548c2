"""Graphs of the log likelihoods of noisy statistics, as functions of tensors.

A graph contains no number of a release: data, sizes, scales and bounds are inputs by name, so that each graph is
compiled once.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from privsample.distributions.clipping import moments as clipped
from privsample.interop import pymc_noise as noisy
from privsample.interop.pymc_sampling import libraries


class TermSite(NamedTuple):
    """Name of a term in the model, and whether its noise has Laplace tails."""

    name: str
    laplace: bool


Numbers = Mapping[str, Any]
LikelihoodGraph = Callable[..., Any]  # (site, numbers, *parameters) -> the log likelihood


def import_pymc() -> tuple[Any, Any]:
    """Return PyMC and pytensor.tensor."""
    return libraries("noise-aware inference")


def binomial_count(_site: TermSite, numbers: Numbers, p: Any) -> Any:
    """Log likelihood of a noisy binomial count; the latent count is summed out."""
    _, tensor = import_pymc()
    return noisy.binomial(tensor, numbers["weights"], numbers["first"], numbers["n"], p)


def binomial_limit(site: TermSite, numbers: Numbers, p: Any) -> Any:
    """Log likelihood of a noisy binomial count by the central limit theorem."""
    n = numbers["n"]
    return _normal(site, numbers, n * p, n * p * (1 - p))


def poisson_count(_site: TermSite, numbers: Numbers, mean: Any) -> Any:
    """Log likelihood of a noisy Poisson count; the latent count is summed out."""
    _, tensor = import_pymc()
    return noisy.poisson(tensor, numbers["weights"], numbers["first"], mean)


def poisson_limit(site: TermSite, numbers: Numbers, mean: Any) -> Any:
    """Log likelihood of a noisy Poisson count by the central limit theorem."""
    return _normal(site, numbers, mean, mean)


def first_count(site: TermSite, numbers: Numbers, theta: Any) -> Any:
    """Log likelihood of the noisy counts of two categories, through the count of the first."""
    return binomial_count(site, numbers, theta[0])


def multinomial_limit(site: TermSite, numbers: Numbers, theta: Any) -> Any:
    """Log likelihood of noisy counts of several categories by the central limit theorem."""
    _, tensor = import_pymc()
    observed = numbers["observed"]
    return noisy.multinomial(tensor, observed, numbers["n"], theta, _noise_variances(site, numbers, theta.shape[0]))


def clipped_poisson(site: TermSite, numbers: Numbers, rate: Any) -> Any:
    """Log likelihood of a noisy sum of clipped counts; numbers["counts"] are the counts below `upper`."""
    _, tensor = import_pymc()
    return _sum(site, numbers, *clipped.poisson_moments(tensor, rate, numbers["upper"], numbers["counts"]))


def clipped_exponential(site: TermSite, numbers: Numbers, rate: Any) -> Any:
    """Log likelihood of a noisy sum of clipped waiting times."""
    _, tensor = import_pymc()
    return _sum(site, numbers, *clipped.exponential_moments(tensor, rate, numbers["upper"]))


def clipped_normal(site: TermSite, numbers: Numbers, mean: Any) -> Any:
    """Log likelihood of a noisy sum of clipped normal records of known variance, by closed-form moments."""
    _, tensor = import_pymc()
    deviation, low, high = numbers["deviation"], numbers["low"], numbers["high"]
    return _sum(site, numbers, *clipped.normal_moments(tensor, mean, deviation, low, high))


def normal_moments(site: TermSite, numbers: Numbers, mean: Any, variance: Any) -> Any:
    """Log likelihood of the noisy first two moments of clipped normal records."""
    return _moments(site, numbers, (mean + variance**0.5 * numbers["nodes"][:, 0])[:, None], 1)


def regression_moments(site: TermSite, numbers: Numbers, *parameters: Any) -> Any:
    """Log likelihood of the noisy second moments of clipped features and target."""
    _, tensor = import_pymc()
    coefficients, intercept, variance, feature_mean, feature_root = parameters
    nodes, width = numbers["nodes"], feature_root.type.shape[0]
    features = feature_mean + tensor.dot(nodes[:, :width], feature_root.T)
    target = intercept + tensor.dot(features, coefficients) + variance**0.5 * nodes[:, width]
    return _moments(site, numbers, tensor.concatenate([features, target[:, None]], axis=1), width + 1)


def _normal(site: TermSite, numbers: Numbers, mean: Any, variance: Any) -> Any:
    """Log density of the observed number: a normal statistic of this mean and variance, plus noise."""
    _, tensor = import_pymc()
    return noisy.normal(tensor, numbers["observed"], mean, variance, numbers["noise_variance"], site.laplace)


def _sum(site: TermSite, numbers: Numbers, mean: Any, variance: Any) -> Any:
    """Log density of a noisy sum of n records with this mean and variance, by the central limit theorem."""
    _, tensor = import_pymc()
    return _normal(site, numbers, numbers["n"] * mean, numbers["n"] * tensor.maximum(variance, 1e-300))


def _moments(site: TermSite, numbers: Numbers, records: Any, width: int) -> Any:
    """Log density of noisy second moments by the central limit theorem; records (nodes, width) are quadrature nodes."""
    _, tensor = import_pymc()
    scaled = tensor.clip((records - numbers["middles"]) / numbers["units"], -numbers["radius"], numbers["radius"])
    augmented = tensor.concatenate([tensor.ones_like(scaled[:, :1]), scaled], axis=1)
    # Products with constant matrices, because the gradient of fancy indexing takes a minute to compile.
    first, second = (np.eye(width + 1)[:, chosen[1:]] for chosen in np.triu_indices(width + 1))
    terms = tensor.dot(augmented, first) * tensor.dot(augmented, second) * numbers["weights"]
    mean = terms.mean(axis=0)
    off = terms - mean
    covariance = tensor.dot(off.T, off) / terms.shape[0]
    n, variances = numbers["n"], _noise_variances(site, numbers, first.shape[1])
    return noisy.correlated(tensor, numbers["observed"], n * mean, n * covariance, variances)


def _noise_variances(site: TermSite, numbers: Numbers, size: Any) -> Any:
    """Variances (size,) given which the noise is normal; for Laplace noise they are latent and exponential."""
    pm, tensor = import_pymc()
    if not site.laplace:
        return tensor.ones(size) * numbers["noise_variance"]
    return numbers["noise_variance"] * pm.Exponential(f"{site.name}_noise", 1.0, shape=size)
