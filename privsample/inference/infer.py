"""Exact Bayesian inference from a noisy release, for records that are independent given the parameters."""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from privsample._checks import check_memory, flag, function, generator, positive_integer
from privsample.accounting.base import Accountant
from privsample.distributions.models.base import Model
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.dirichlet_categorical import DirichletCategorical
from privsample.distributions.models.gamma_exponential import GammaExponential
from privsample.distributions.models.gamma_poisson import GammaPoisson
from privsample.distributions.models.moments import NormalUnknownVariance
from privsample.distributions.models.normal_known_variance import NormalKnownVariance
from privsample.distributions.models.regression import LinearRegression
from privsample.inference.chains import Chain, Observation, Trace, run_chains
from privsample.inference.counts import CountChain
from privsample.inference.model_records import records_of
from privsample.inference.observations import account_of, as_statistics, observation_of, with_prior
from privsample.inference.priors import stated_priors
from privsample.inference.records import ExponentialRecords, NormalRecords, PoissonRecords
from privsample.inference.regression import RegressionChain
from privsample.inference.stated_records import StatedRecords
from privsample.interop.arviz import summary
from privsample.mechanisms.noise.private_statistics import PrivateStatistics
from privsample.mechanisms.posterior.inference import PosteriorDraws

ChainFactory = Callable[[Observation], Chain]
_DESCRIPTION = "data augmentation"
_CHAINS: dict[type, ChainFactory] = {
    BetaBernoulli: CountChain,
    DirichletCategorical: CountChain,
    GammaExponential: ExponentialRecords,
    GammaPoisson: PoissonRecords,
    NormalKnownVariance: NormalRecords,
    NormalUnknownVariance: RegressionChain,
    LinearRegression: RegressionChain,
}


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
    records: Callable[..., Any] | None = None,
    size_prior: Any = None,
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
        A release of NoisyStatistics, or any object with attributes `model`, `n`, `noise` (such as LaplaceNoise) and
        `observed`, the noisy copies of the statistic, of shape (copies, ...).
    prior : Model or mapping of str to distribution, optional
        The model of the release with any prior; None uses the prior of the release. Or independent prior distributions
        by the names of parameters: frozen distributions of SciPy, distributions of privsample, or objects with
        `rvs(size=, random_state=)`, where `random_state` is a Generator, and, if they have a density, `logpdf` or
        `logpmf`.
    records : callable, optional
        With priors by name: a function of the parameters, by keyword, that returns the distribution of one record
        before clipping, in the same form, such as `lambda mean: scipy.stats.t(4, mean)`. With `cdf` and `ppf` chains
        mix faster. Without `logpdf` and `logpmf` the records are only simulated. None uses the records of the model.
    size_prior : array of shape (most + 1,), optional
        Log prior probabilities of 0, ..., most records, if the number of records is not public.
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
    ImportError
        If a progress bar is wanted and rich is not installed.

    Notes
    -----
    Data augmentation (Ju, Awan, Gong and Rao 2022) with interweaving (Yu and Meng 2011): a sweep offers a new record to
    each position, which is accepted by the ratio of the noise densities, and moves the parameters with the records held
    fixed, and with the ranks or other coordinates of the records held fixed. Under pure epsilon-differential privacy
    each record is accepted with probability at least e^-epsilon. Chains of the models run in threads, chains of stated
    records one after the other, and both as `joblib.parallel_config` says where it is used; the draws do not depend on
    it. Kind: exact, up to the convergence of the chains; docs/notes/inference.md.

    Examples
    --------
    A release of 20 clipped waiting times:

    >>> import numpy as np
    >>> import privsample as ps
    >>> rng = np.random.default_rng(1)
    >>> mechanism = ps.NoisyStatistics(model=ps.GammaExponential(4, 4, upper=1.5), n=20, scale=3.0)
    >>> release = mechanism.release(rng.exponential(1.0, 20), rng=rng)
    >>> posterior = ps.infer(release, draws=50, tune=50, rng=rng)
    >>> posterior["rate"].shape
    (200,)

    Times that the analyst takes for Gamma distributed, with a prior on their mean:

    >>> from scipy import stats
    >>> prior = {"mean": stats.lognorm(1.0)}
    >>> times = ps.infer(release, prior=prior, records=lambda mean: stats.gamma(2, scale=mean / 2), draws=4, tune=4)
    >>> times["mean"].shape
    (16,)
    """
    source = np.random.default_rng() if rng is None else generator(rng)
    draws, tune, chains = positive_integer(draws=draws), positive_integer(tune=tune), positive_integer(chains=chains)
    shown, statistics = flag(progress=progress), as_statistics(release)
    observation = observation_of(statistics, size_prior)
    account = account_of(statistics, observation)
    if isinstance(prior, Mapping):
        factory = _stated_chain(observation, prior, records)
    elif records is None:
        observation = observation._replace(model=with_prior(observation.model, prior))
        factory = chain_of(type(observation.model))
    else:
        raise TypeError(
            "prior must be a mapping from names of parameters to distributions where records is given, got "
            f"{type(prior).__name__}"
        )
    make_chain = partial(factory, observation)
    trial = make_chain()
    trial.start(np.random.default_rng(0))  # what is wrong with the arguments must appear before sampling
    numbers = sum(np.size(value) for value in trial.parameters().values())
    check_memory(chains * draws * max(numbers, 1), lower="draws")
    threaded = not isinstance(trial, StatedRecords)
    trace = run_chains(make_chain, draws=draws, tune=tune, chains=chains, rng=source, progress=shown, threaded=threaded)
    return _posterior(statistics, observation, account, getattr(trial, "description", _DESCRIPTION), chains, trace)


def _stated_chain(observation: Observation, prior: Mapping[Any, Any], records: Any) -> ChainFactory:
    """The chain over records of a stated distribution. Raises TypeError if prior and records do not fit."""
    priors = stated_priors(prior)
    given = records_of(observation.model) if records is None else _distribution_of(records)
    names = ", ".join(priors)
    try:
        signature(given).bind(**dict.fromkeys(priors))
    except TypeError as error:
        raise TypeError(f"records must take the parameters of prior by keyword ({names}): {error}") from None
    return partial(StatedRecords, prior=priors, records=given)


def _distribution_of(records: Any) -> Callable[..., Any]:
    """A function or a class of distributions. Raises TypeError."""
    return records if isinstance(records, type) else function(records=records)


def chain_of(kind: type) -> ChainFactory:
    """The chain of a class of models. Raises TypeError if there is none."""
    found = _CHAINS.get(kind)
    if found is None:
        known = ", ".join(each.__name__ for each in _CHAINS)
        raise TypeError(
            f"infer needs a release of one of the models {known}, got {kind.__name__}: give prior, a mapping, and "
            "records, or see register_chain"
        )
    return found


def _posterior(
    release: Any, observation: Observation, account: Accountant, description: str, chains: int, trace: Trace
) -> PosteriorDraws:
    """The draws with diagnostics in the description of the method, as `PrivateStatistics.mcmc` has them."""
    axis, coords = observation.model.axis_name, {}
    dims = {name: (axis, f"{axis}_2")[: array.ndim - 1] for name, array in trace.draws.items()} if axis else {}
    if isinstance(release, PrivateStatistics) and axis in release.release.coords:
        used = {each for names in dims.values() for each in names}
        coords = {each: release.release.coords[axis] for each in (axis, f"{axis}_2") if each in used}
    sizes = {"n" if observation.size_prior is None else "largest_n": float(observation.n)}
    given: dict[str, Any] = {
        "draws": trace.draws,
        "account": account,
        "chains": chains,
        "dims": {name: names for name, names in dims.items() if names},
        "coords": coords,
        "sample_stats": {"acceptance_rate": trace.acceptance},
        "observed_data": {"noisy_statistic": observation.observed},
        "constant_data": sizes | {"noise_variance": observation.noise.variance},
    }
    with warnings.catch_warnings():  # diagnostics of a few draws are NaN
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.filterwarnings("ignore", "More chains", UserWarning)  # ArviZ asks whether the axes are in order
        figures = summary(PosteriorDraws(method=description, **given).to_arviz())
    worst, least = float(figures["r_hat"].astype(float).max()), float(figures["ess_bulk"].astype(float).min())
    text = (
        f"{description}; {chains} chains of {len(trace.acceptance) // chains}, largest R-hat {worst:.4g}, least "
        f"effective sample size {least:.4g}, acceptance rate of records {trace.acceptance.mean():.2g}"
    )
    return PosteriorDraws(method=text, **given)
