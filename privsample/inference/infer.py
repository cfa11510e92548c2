"""Exact Bayesian inference from a noisy release, for records that are independent given the parameters."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from privsample._checks import check_memory, flag, generator, positive_integer
from privsample.accounting.base import Accountant
from privsample.accounting.noise.statistics import StatisticsAccountant
from privsample.distributions.models.base import Model
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.dirichlet_categorical import DirichletCategorical
from privsample.distributions.models.gamma_exponential import GammaExponential
from privsample.distributions.models.gamma_poisson import GammaPoisson
from privsample.distributions.models.normal_known_variance import NormalKnownVariance
from privsample.distributions.noise import Noise
from privsample.inference.chains import Chain, Observation, Trace, run_chains
from privsample.inference.counts import CountChain
from privsample.inference.records import ExponentialRecords, NormalRecords, PoissonRecords
from privsample.interop.arviz import summary
from privsample.mechanisms.noise.statistics import NoisyStatistics, PrivateStatistics
from privsample.mechanisms.posterior.inference import PosteriorDraws
from privsample.mechanisms.release import Release

ChainFactory = Callable[[Observation], Chain]
_CHAINS: dict[type, ChainFactory] = {
    BetaBernoulli: CountChain,
    DirichletCategorical: CountChain,
    GammaExponential: ExponentialRecords,
    GammaPoisson: PoissonRecords,
    NormalKnownVariance: NormalRecords,
}
_NEEDED = ("model", "n", "noise", "observed")


def register_chain(model_class: type[Model], factory: ChainFactory) -> None:
    """Register the Markov chain of a model class of your own, for `infer`.

    Parameters
    ----------
    model_class : type
        A subclass of Model.
    factory : callable
        From an `Observation` (model, n, noise, observed, size_prior) to a chain with the methods `start(rng)`,
        `sweep(rng, *, tuning)` and `parameters()`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the class already has another chain.

    Examples
    --------
    Registering the same chain again has no effect.

    >>> import privsample as ps
    >>> from privsample.inference.records import PoissonRecords
    >>> ps.register_chain(ps.GammaPoisson, PoissonRecords)
    """
    given: Any = model_class
    if not (isinstance(given, type) and issubclass(given, Model)):
        raise TypeError(f"model_class must be a subclass of Model, got {model_class!r}")
    if not callable(factory):
        raise TypeError(f"factory must be a function from an Observation to a chain, got {type(factory).__name__}")
    if _CHAINS.setdefault(model_class, factory) != factory:
        raise ValueError(f"{model_class.__name__} already has another chain")


def infer(
    release: Any,
    *,
    prior: Any = None,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    rng: np.random.Generator | None = None,
    progress: bool = False,
) -> PosteriorDraws:
    """Draw from the exact posterior given a noisy release, by Markov chains over the hidden records.

    Parameters
    ----------
    release : Release or PrivateStatistics
        A release of NoisyStatistics, or any object with attributes `model`, `n`, `noise` and `observed`.
    prior : Model, optional
        The model of the release with any prior. None uses the prior of the release.
    draws : int, default 1000
        Number of draws of each chain, >= 1. They cost no privacy.
    tune : int, default 1000
        Number of tuning sweeps of each chain, >= 1, which are discarded.
    chains : int, default 4
        Number of chains, >= 1.
    rng : numpy.random.Generator, optional
        Random generator. None draws from the system's entropy.
    progress : bool, default False
        Show a progress bar on standard error, which needs rich.

    Returns
    -------
    PosteriorDraws
        The draws of all chains, one chain after the other. `method` states what is exact, and the diagnostics.

    Raises
    ------
    TypeError
        If an argument has the wrong type, or no chain is known for the model.
    ValueError
        If a number is out of range, or the arguments contradict each other.
    KeyboardInterrupt
        If the run was interrupted.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> rng = np.random.default_rng(1)
    >>> mechanism = ps.NoisyStatistics(model=ps.GammaExponential(4, 4, upper=1.5), n=20, scale=3.0)
    >>> release = mechanism.release(rng.exponential(1.0, 20), rng=rng)
    >>> posterior = ps.infer(release, draws=50, tune=50, rng=rng)
    >>> posterior["rate"].shape
    (200,)
    """
    source = np.random.default_rng() if rng is None else generator(rng)
    draws, tune, chains = positive_integer(draws=draws), positive_integer(tune=tune), positive_integer(chains=chains)
    shown = flag(progress=progress)
    observed = _as_statistics(release)
    observation = _observation(observed, prior)
    factory = _chain_of(type(observation.model))
    check_memory(chains * draws * max(observation.model.empty.size, 1), lower="draws")
    trace = run_chains(
        partial(factory, observation), draws=draws, tune=tune, chains=chains, rng=source, progress=shown
    )
    return _posterior(observed, observation, getattr(factory, "description", "data augmentation"), chains, trace)


def _as_statistics(release: Any) -> Any:
    """The release with its model, n, noise and observed statistic. Raises TypeError if one is missing."""
    if isinstance(release, Release) and isinstance(release.mechanism, NoisyStatistics):
        return PrivateStatistics(release=release)
    missing = [name for name in _NEEDED if not hasattr(release, name)]
    if missing:
        found = release.mechanism if isinstance(release, Release) else release
        raise TypeError(
            "release must be a Release of NoisyStatistics, a PrivateStatistics, or have the attributes "
            f"{', '.join(_NEEDED)}; got {type(found).__name__} without {', '.join(missing)}"
        )
    return release


def _observation(release: Any, prior: Any) -> Observation:
    """What is conditioned on, checked."""
    model, noise = release.model, release.noise
    if not isinstance(model, Model):
        raise TypeError(f"release.model must be a Model, got {type(model).__name__}")
    if not isinstance(noise, Noise):
        raise TypeError(f"release.noise must be a Noise, such as LaplaceNoise(scale=2.0), got {type(noise).__name__}")
    n, copies = positive_integer(n=release.n), np.asarray(release.observed, dtype=np.float64)
    one = np.shape(model.empty)
    if copies.ndim != 1 + len(one) or copies.shape[1:] != one or not len(copies):
        raise ValueError(f"release.observed must have shape {('copies', *one)}, got {copies.shape}")
    if not np.isfinite(copies).all():
        raise ValueError("release.observed must be finite")
    return Observation(model=_with_prior(model, prior), n=n, noise=noise, observed=copies)


def _with_prior(model: Model, prior: Any) -> Model:
    """The model with another prior. Raises TypeError and ValueError."""
    if prior is None:
        return model
    if not isinstance(prior, Model):
        raise TypeError(f"prior must be a Model like that of the release, {model}, got {type(prior).__name__}")
    if prior.likelihood != model.likelihood:
        raise ValueError(f"prior may differ from the model of the release in its prior only: {model}, got {prior}")
    return prior


def _chain_of(kind: type) -> ChainFactory:
    """The chain of a class of models. Raises TypeError if there is none."""
    found = _CHAINS.get(kind)
    if found is None:
        known = ", ".join(each.__name__ for each in _CHAINS)
        raise TypeError(f"infer needs a release of one of the models {known}, got {kind.__name__}: see register_chain")
    return found


def _posterior(release: Any, observation: Observation, method: str, chains: int, trace: Trace) -> PosteriorDraws:
    """The draws with diagnostics in the description of the method, as `PrivateStatistics.mcmc` has them."""
    given = {
        "draws": trace.draws,
        "account": _account(release, observation),
        "chains": chains,
        "sample_stats": {"acceptance_rate": trace.acceptance},
        "observed_data": {"noisy_statistic": observation.observed},
        "constant_data": {"n": float(observation.n), "noise_variance": observation.noise.variance},
    }
    figures = summary(PosteriorDraws(method=method, **given).to_arviz())
    worst, least = float(figures["r_hat"].astype(float).max()), float(figures["ess_bulk"].astype(float).min())
    count = len(trace.acceptance) // chains
    text = (
        f"{method}; {chains} chains of {count}, largest R-hat {worst:.4g}, least effective sample size {least:.4g}, "
        f"acceptance rate of records {trace.acceptance.mean():.2g}"
    )
    return PosteriorDraws(method=text, **given)


def _account(release: Any, observation: Observation) -> Accountant:
    """The account of the release, or that of noise on the statistic of the model if the release has none."""
    account = getattr(release, "account", None)
    if isinstance(account, Accountant):
        return account
    return StatisticsAccountant(
        differences=observation.model.record_sensitivity,
        n=observation.n,
        noise=observation.noise,
        draws=len(observation.observed),
    )

