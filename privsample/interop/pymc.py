"""What runs in PyMC: chains of a logistic regression, private releases as likelihood terms, noise-aware posteriors."""

from typing import Any

import numpy as np

from privsample._checks import FloatArray, finite, generator, positive_integer
from privsample.distributions.noise import Noise
from privsample.interop.arviz import summary
from privsample.interop.pymc_fits import fit
from privsample.interop.pymc_models import LikelihoodTerm, NoisyRelease, ObservedRelease, count_term, spec_of
from privsample.interop.pymc_sampling import libraries, run, sampler
from privsample.interop.pymc_terms import TermSite

_TUNE, _KEPT, _FEWEST = 1000, 500, 4


def logistic_chains(
    rows: FloatArray, weight: float, chains: int, rng: np.random.Generator
) -> tuple[FloatArray, dict[str, object]]:
    """NUTS for w ~ N(0, I) with the likelihood of prod_i sigma(z_i.w)^weight, z_i the rows, shape (n, d).

    Returns: independent chains, at least four, shape (chains, states, d), and their diagnostics by name.
    Raises: ImportError, PyMC is not installed; KeyboardInterrupt, the run was stopped.
    """
    pm, tensor = libraries("sampling by NUTS")
    count = max(chains, _FEWEST)
    with pm.Model() as model:
        w = pm.Normal("w", shape=rows.shape[1])
        pm.Potential("records", -weight * tensor.softplus(-tensor.dot(tensor.as_tensor_variable(rows), w)).sum())
    trace = run(model, draws=_KEPT, tune=_TUNE, chains=count, rng=rng)
    found: FloatArray = np.asarray(trace.posterior["w"].values, dtype=np.float64)
    return found, {"chains": count, **_diagnostics(trace)}


def noisy_observation(name: str, release: NoisyRelease, **parameters: Any) -> str:
    """Put a private release into the open PyMC model, as a likelihood term that knows of the noise.

    Parameters: name, of the term; release, a PrivateStatistics, or whatever has its model, n, noise and observed;
    parameters, the variables of your model that the records follow, by the names that the release's model gives them
    (`ModelSpec.parameters`): its `parameter`, where it has one; mean and variance of NormalUnknownVariance;
    coefficients, intercept, variance, feature_mean and feature_root (lower triangular, times its transpose the
    covariance) of LinearRegression. The release's prior plays no part. Laplace noise on several sums adds latent
    variables, `{name}_noise`.

    Returns: what the likelihood is, in words: exact, or the central limit.
    Raises: ImportError, PyMC is not installed; TypeError, no such release, other names, or no PyMC model is open;
    ValueError, a parameter of another shape.
    """
    _, tensor = libraries("noisy_observation")
    missing = [field for field in ("model", "n", "noise", "observed") if not hasattr(release, field)]
    if missing:
        raise TypeError(
            f"release must be a PrivateStatistics, which a Release of NoisyStatistics becomes by "
            f"PrivateStatistics(release=...), or have its {', '.join(missing)}; got {type(release).__name__}"
        )
    spec = spec_of(type(release.model))
    if sorted(parameters) != sorted(spec.parameters):
        raise TypeError(
            f"noisy_observation needs the parameters {', '.join(spec.parameters)} of "
            f"{type(release.model).__name__}, got {', '.join(sorted(parameters)) or 'none'}"
        )
    width = spec.width(release.model)
    given = [_shaped(tensor, what, parameters[what], (width,) * axes) for what, axes in spec.parameters.items()]
    return _put(name, spec.term(ObservedRelease.of(release)), *given)


def noisy_count(
    name: str, observed: float, noise: Noise, *, n: int | None = None, p: Any = None, mean: Any = None
) -> str:
    """Put one noisy count, from wherever it comes, into the open PyMC model: of n records with chance p, or Poisson.

    Parameters: n and p, variable of your model, for a binomial count; mean, for a Poisson one; `observed` is the count
    plus a draw of `noise`.
    Returns: what the likelihood is, in words. Raises: as `noisy_observation`; ValueError, for neither or both.
    """
    _, tensor = libraries("noisy_count")
    if (n is None) != (p is None) or (n is None) == (mean is None):
        raise ValueError("noisy_count needs n and p, for a binomial count, or mean, for a Poisson one")
    if not isinstance(noise, Noise):
        raise TypeError(f"noise must be a noise, such as GaussianNoise(noise_std=2.0), got {type(noise).__name__}")
    copies = np.array([finite(observed=observed)])
    term = count_term(copies, noise, n=None if n is None else positive_integer(n=n))
    what, given = ("mean", mean) if n is None else ("p", p)
    return _put(name, term, _shaped(tensor, what, given, ()))


def noise_aware(
    release: NoisyRelease,
    *,
    model: Any = None,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    rng: np.random.Generator | None = None,
) -> tuple[dict[str, FloatArray], str]:
    """Draws from the posterior of a private release, with the prior of `model` (its own, if None), by NUTS.

    Returns: name -> (chains * draws, ...), one chain after the other, and in words how they were made: the likelihood,
    the sampler and its diagnostics. They speak of the release alone, and cost nothing.
    Raises: ImportError, PyMC is not installed; TypeError, for a model that has no form in PyMC.
    """
    libraries("noise-aware inference")
    draws, tune, chains = positive_integer(draws=draws), positive_integer(tune=tune), positive_integer(chains=chains)
    chosen = release.model if model is None else model
    spec = spec_of(type(chosen))
    term = spec.term(ObservedRelease.of(release))
    trace = fit(chosen, term, draws=draws, tune=tune, chains=chains, rng=generator(rng))
    found = {name: np.asarray(trace.posterior[name].values, dtype=np.float64) for name in spec.parameters}
    told = ", ".join(f"{name} {figure:.4g}" for name, figure in _diagnostics(trace).items())
    flat = {name: values.reshape(chains * draws, *values.shape[2:]) for name, values in found.items()}
    return flat, f"{term.words}; NUTS of {sampler()}, {chains} chains of {draws}, {told}"


def _put(name: str, term: LikelihoodTerm, *parameters: Any) -> str:
    """Into the open model, the numbers as constants. Returns: what the likelihood is, in words."""
    pm, tensor = libraries("noisy_observation")
    if not isinstance(name, str):
        raise TypeError(f"name must be text, got {type(name).__name__}")
    if pm.Model.get_context(error_if_none=False) is None:
        raise TypeError("no PyMC model is open: call this inside `with pm.Model():`")
    numbers = {what: tensor.constant(np.asarray(at, dtype=np.float64)) for what, at in term.numbers.items()}
    pm.Potential(name, term.build(TermSite(name, term.laplace), numbers, *parameters))
    return term.words


def _shaped(tensor: Any, what: str, given: Any, shape: tuple[int, ...]) -> Any:
    """The parameter as a tensor of this shape. Raises: ValueError, where it is known to have another."""
    try:
        found = tensor.as_tensor_variable(given).astype("float64")  # a Python float may have become a float32
    except (NotImplementedError, TypeError, ValueError):
        raise TypeError(f"{what} must be a variable of your model or numbers, got {type(given).__name__}") from None
    if found.ndim != len(shape) or any(at not in {None, due} for at, due in zip(found.type.shape, shape, strict=True)):
        due = f"of shape {shape}" if shape else "one number"
        raise ValueError(f"{what} must be {due}, got shape {found.type.shape}")
    return tensor.specify_shape(found, shape) if shape else found


def _diagnostics(trace: Any) -> dict[str, float]:
    """The worst of all variables."""
    figures = summary(trace)
    return {
        "largest R-hat": float(figures["r_hat"].astype(float).max()),
        "least effective sample size": float(figures["ess_bulk"].astype(float).min()),
        "divergences": int(trace.sample_stats["diverging"].values.sum()),
    }
