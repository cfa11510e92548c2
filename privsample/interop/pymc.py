"""Models in PyMC: logistic regression by NUTS, likelihoods of private releases, and noise-aware posteriors."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, finite, generator, positive_integer
from privsample.distributions.noise import Noise
from privsample.interop.arviz import summary
from privsample.interop.pymc_fits import fit, fit_private_total
from privsample.interop.pymc_models import NoisyRelease, observed_release, spec_of
from privsample.interop.pymc_sampling import libraries, run, sampler

_TUNE, _KEPT, _FEWEST = 1000, 500, 4
_STATISTICS = ("diverging", "energy", "lp", "acceptance_rate", "mean_tree_accept", "step_size", "tree_depth", "depth")


def logistic_chains(
    rows: FloatArray, weight: float, chains: int, rng: np.random.Generator
) -> tuple[FloatArray, dict[str, object]]:
    """Sample w by NUTS from the prior N(0, I) and the likelihood prod_i sigma(z_i.w)^weight, z_i the rows (n, d).

    Returns independent chains, at least four, of shape (chains, states, d), and their diagnostics by name. Raises
    ImportError if PyMC is not installed, and KeyboardInterrupt if the run was stopped.
    """
    pm, tensor = libraries("sampling by NUTS")
    count = max(chains, _FEWEST)
    with pm.Model() as model:
        w = pm.Normal("w", shape=rows.shape[1])
        pm.Potential("records", -weight * tensor.softplus(-tensor.dot(tensor.as_tensor_variable(rows), w)).sum())
    trace = run(model, draws=_KEPT, tune=_TUNE, chains=count, rng=rng)
    found: FloatArray = np.asarray(trace.posterior["w"].values, dtype=np.float64)
    return found, {"chains": count, **_diagnostics(trace)}


def noisy_observation(name: str, release: NoisyRelease, **parameters: Any) -> Any:
    """Add a private release to the open PyMC model, as an observed variable whose distribution includes the noise.

    The variable has the distribution of `privsample.pymc` that belongs to the release's model, such as NoisyCount. It
    uses public numbers only: the released statistic, the number of records and the noise, which become data of the
    model. The prior of the release's model is ignored; your model provides the priors.

    Parameters
    ----------
    name : str
        Name of the variable in the PyMC model. By the central limit, Laplace noise on several sums adds latent
        variables named `{name}_noise`.
    release : PrivateStatistics, Release or NoisyRelease
        The release; any object with attributes `model`, `n`, `noise` and `observed`, or a Release of NoisyStatistics.
    **parameters : PyMC variable or float
        The parameters of the records' distribution, under the names of the release's model: theta for BetaBernoulli
        and, with shape (categories,), for DirichletCategorical; rate for GammaPoisson and GammaExponential; mean for
        NormalKnownVariance; mean and variance for NormalUnknownVariance; coefficients (features,), intercept, variance,
        feature_mean (features,) and feature_root (features, features) for LinearRegression. feature_root is lower
        triangular, and feature_root @ feature_root.T is the covariance of the features.

    Returns
    -------
    PyMC variable
        The observed variable. `privsample.pymc.likelihood` says whether its likelihood is exact.

    Raises
    ------
    ImportError
        If PyMC is not installed.
    TypeError
        If the release lacks an attribute, the parameter names are wrong, or no PyMC model is open.
    ValueError
        If a parameter has the wrong shape.

    Notes
    -----
    Bernstein and Sheldon 2018 and 2019 (central limit). Kind: as the Notes of the distribution say: exact for counts,
    with a relative error of at most 1e-12, and for many sums; an approximation for other statistics. The derivations
    are in docs/notes/moments.md and docs/notes/clipping.md.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> import privsample as ps
    >>> from privsample.interop.pymc import noisy_observation
    >>> from privsample.pymc import likelihood
    >>> beta = ps.BetaBernoulli(alpha=1, beta=1)
    >>> mechanism = ps.NoisyStatistics(model=beta, n=4, scale=2.0, noise="discrete laplace")
    >>> release = mechanism.release([0, 1, 1, 1], rng=np.random.default_rng(1))
    >>> with pm.Model() as model:
    ...     theta = pm.Uniform("theta")
    ...     survey = noisy_observation("survey", release, theta=theta)
    >>> likelihood(survey).partition(",")[0]
    'exact: the hidden count is summed out'
    """
    pm, tensor = libraries("noisy_observation")
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {type(name).__name__}")
    if pm.Model.get_context(error_if_none=False) is None:
        raise TypeError("no PyMC model is open: call this inside `with pm.Model():`")
    from privsample.interop.pymc_distributions.releases import as_data, view

    shown = view(release)
    spec = spec_of(type(shown.model))
    if sorted(parameters) != sorted(spec.parameters):
        raise TypeError(
            f"noisy_observation needs the parameters {', '.join(spec.parameters)} of "
            f"{type(shown.model).__name__}, got {', '.join(sorted(parameters)) or 'none'}"
        )
    width = spec.width(shown.model)
    given = {
        what: _as_tensor(tensor, what, parameters[what], (width,) * axes) for what, axes in spec.parameters.items()
    }
    if shown.n is None:
        return spec.distribution(name, given, observed=shown)
    return spec.distribution(name, given, **as_data(name, observed_release(shown)))


def noisy_count(
    name: str, observed: float, noise: Noise, *, n: int | None = None, p: Any = None, mean: Any = None
) -> Any:
    """Add one noisy count to the open PyMC model: NoisyCount or NoisyPoisson of `privsample.pymc`.

    The count is Binomial(n, p) if `n` and `p` are given, and Poisson(mean) if `mean` is given. The noisy count may come
    from any source, such as a published table.

    Parameters
    ----------
    name : str
        Name of the variable in the PyMC model.
    observed : float
        The published value: the count plus one draw of `noise`, finite.
    noise : Noise
        Distribution of the noise, such as `GaussianNoise(noise_std=2.0)`.
    n : int, optional
        Number of records of a binomial count, >= 1.
    p : PyMC variable or float, optional
        Probability of a binomial count, in [0, 1].
    mean : PyMC variable or float, optional
        Mean of a Poisson count, >= 0.

    Returns
    -------
    PyMC variable
        The observed variable. `privsample.pymc.likelihood` says whether its likelihood is exact.

    Raises
    ------
    ImportError
        If PyMC is not installed.
    TypeError
        If `noise` is not a Noise, or no PyMC model is open.
    ValueError
        If neither or both of (n, p) and mean are given, or a parameter has the wrong shape.

    Notes
    -----
    Bernstein and Sheldon 2018 (central limit). Kind: exact, with a relative error of at most 1e-12; the
    central limit if more than 16384 counts are possible.

    Examples
    --------
    >>> import pymc as pm
    >>> import privsample as ps
    >>> from privsample.interop.pymc import noisy_count
    >>> from privsample.pymc import likelihood
    >>> with pm.Model() as model:
    ...     p = pm.Uniform("p")
    ...     yes = noisy_count("yes", observed=41.3, noise=ps.GaussianNoise(noise_std=20.0), n=100, p=p)
    >>> likelihood(yes).partition(",")[0]
    'exact: the hidden count is summed out'
    """
    libraries("noisy_count")
    if (n is None) != (p is None) or (n is None) == (mean is None):
        raise ValueError("noisy_count needs n and p, for a binomial count, or mean, for a Poisson one")
    if not isinstance(noise, Noise):
        raise TypeError(f"noise must be a Noise, such as GaussianNoise(noise_std=2.0), got {type(noise).__name__}")
    from privsample.interop.pymc_distributions.counts import NoisyCount, NoisyPoisson

    value = finite(observed=observed)
    if n is None:
        return NoisyPoisson(name, mean, noise=noise, observed=value)
    return NoisyCount(name, positive_integer(n=n), p, noise=noise, observed=value)


def noise_aware(
    release: NoisyRelease,
    *,
    model: Any = None,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    rng: np.random.Generator | None = None,
) -> tuple[dict[str, FloatArray], str]:
    """Sample the posterior given a private release by NUTS, with the prior of `model`, or of the release if None.

    Returns the draws, name -> (chains * draws, ...), chain after chain, and a description of the likelihood, sampler
    and diagnostics. Both are functions of the release, so they have no privacy cost. Raises ImportError if PyMC is
    not installed, and TypeError for a model without a ModelSpec.
    """
    found, words, _ = sample_noise_aware(release, model=model, draws=draws, tune=tune, chains=chains, rng=rng)
    return found, words


def sample_noise_aware(
    release: NoisyRelease,
    *,
    model: Any = None,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    rng: np.random.Generator | None = None,
) -> tuple[dict[str, FloatArray], str, dict[str, FloatArray]]:
    """Draws and description as `noise_aware` returns them, and statistics of the sampler, name -> (chains * draws,)."""
    libraries("noise-aware inference")
    draws, tune, chains = positive_integer(draws=draws), positive_integer(tune=tune), positive_integer(chains=chains)
    chosen = release.model if model is None else model
    spec = spec_of(type(chosen))
    settings: dict[str, Any] = {"draws": draws, "tune": tune, "chains": chains, "rng": generator(rng)}
    if release.n is None:
        trace, words = fit_private_total(chosen, release, **settings)
    else:
        trace, words = fit(chosen, observed_release(release), **settings)
    found = {name: np.asarray(trace.posterior[name].values, dtype=np.float64) for name in spec.parameters}
    diagnostics = ", ".join(f"{name} {figure:.4g}" for name, figure in _diagnostics(trace).items())
    flat = {name: values.reshape(chains * draws, *values.shape[2:]) for name, values in found.items()}
    stats = {
        name: _signed(np.asarray(trace.sample_stats[name].values)).reshape(chains * draws)
        for name in _STATISTICS
        if name in trace.sample_stats and trace.sample_stats[name].shape == (chains, draws)
    }
    return flat, f"{words}; NUTS of {sampler()}, {chains} chains of {draws}, {diagnostics}", stats


def _as_tensor(tensor: Any, what: str, given: Any, shape: tuple[int, ...]) -> Any:
    """Return the parameter as a tensor of this shape. Raises ValueError for a known other shape."""
    from privsample.interop.pymc_distributions.noise import tensor_of

    found = tensor_of(what, given)
    if found.ndim != len(shape) or any(at not in {None, due} for at, due in zip(found.type.shape, shape, strict=True)):
        due = f"of shape {shape}" if shape else "one number"
        raise ValueError(f"{what} must be {due}, got shape {found.type.shape}")
    return tensor.specify_shape(found, shape) if shape else found


def _signed(numbers: NDArray[Any]) -> NDArray[Any]:
    """The numbers, unsigned ones as int64, which ArviZ can plot."""
    return numbers.astype(np.int64) if numbers.dtype.kind == "u" else numbers


def _diagnostics(trace: Any) -> dict[str, float]:
    """Return the worst value of each diagnostic over all variables."""
    figures = summary(trace)
    return {
        "largest R-hat": float(figures["r_hat"].astype(float).max()),
        "least effective sample size": float(figures["ess_bulk"].astype(float).min()),
        "divergences": int(trace.sample_stats["diverging"].values.sum()),
    }
