"""Running Markov chains: in parallel, with a progress bar, and with results that do not depend on the workers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any, NamedTuple, Protocol

import numpy as np

from privsample._checks import FloatArray
from privsample._optional import require
from privsample._progress import progress_bar
from privsample.distributions.noise import Noise


class Observation(NamedTuple):
    """What the chains condition on: a model, and noisy copies of the statistic of n records.

    Parameters
    ----------
    model : Model
        The model of the records, with the prior.
    n : int
        The number of records; the largest possible number if `size_prior` is given.
    noise : Noise
        Distribution of the noise on each coordinate of each copy.
    observed : array of shape (copies, ...)
        The noisy copies of the statistic.
    size_prior : array of shape (most + 1,), optional
        Log prior probabilities of 0, ..., most records, if the number of records is not public.
    """

    model: Any
    n: int
    noise: Noise
    observed: FloatArray
    size_prior: FloatArray | None = None


class Chain(Protocol):
    """Protocol of a Markov chain whose stationary distribution is the posterior given a release."""

    def start(self, rng: np.random.Generator) -> None:
        """Draw an initial state."""

    def sweep(self, rng: np.random.Generator, *, tuning: bool) -> float:
        """Make one full sweep, in place; return the acceptance rate of the moves of records."""

    def parameters(self) -> dict[str, FloatArray]:
        """The current parameters by name, in the shapes of `PrivateStatistics.mcmc`."""


class Trace(NamedTuple):
    """The draws of several chains.

    Parameters
    ----------
    draws : dict of str to array
        The parameters by name, shape (chains * draws, ...), one chain after the other.
    acceptance : array of shape (chains * draws,)
        The acceptance rates of the moves of records in each sweep.
    """

    draws: dict[str, FloatArray]
    acceptance: FloatArray


class _Stopped(Exception):
    """Another chain failed, or the run was interrupted."""


def run_chains(
    make_chain: Callable[[], Chain],
    *,
    draws: int,
    tune: int,
    chains: int,
    rng: np.random.Generator,
    progress: bool = False,
    threaded: bool = True,
) -> Trace:
    """Run independent chains and return their draws after tuning.

    Each chain has its own generator, so the result depends on `rng` alone. Chains run as `joblib.parallel_config` says;
    where it says nothing, in threads, as many as there are processors, or one after the other.

    Parameters
    ----------
    make_chain : callable
        Makes a chain; called once for each.
    draws, tune, chains : int
        Number of sweeps kept, of sweeps before, and of chains.
    rng : numpy.random.Generator
        Source of randomness.
    progress : bool, default False
        Show a progress bar on standard error.
    threaded : bool, default True
        Run chains in threads by default. False for chains whose time is spent in Python, which runs one thread at once.

    Returns
    -------
    Trace
        The draws.

    Raises
    ------
    KeyboardInterrupt
        If the run was interrupted. All chains stop at their next sweep.
    TypeError
        If the chains are to run in other processes but cannot be sent there.
    """
    seeds = np.random.SeedSequence(rng.integers(0, 1 << 63, size=4).tolist()).spawn(chains)
    generators = [np.random.default_rng(seed) for seed in seeds]
    parts = _run_all(make_chain, generators, draws, tune, progress=progress, threaded=threaded)
    names = parts[0].draws
    return Trace(
        draws={name: np.concatenate([part.draws[name] for part in parts]) for name in names},
        acceptance=np.concatenate([part.acceptance for part in parts]),
    )


def _run_all(
    make_chain: Callable[[], Chain],
    generators: list[np.random.Generator],
    draws: int,
    tune: int,
    *,
    progress: bool,
    threaded: bool,
) -> list[Trace]:
    """Run one chain for each generator, through joblib."""
    for package in ("joblib", "threadpoolctl"):
        require(package, "bayes", "inference by Markov chains")
    from joblib import Parallel, cpu_count, delayed, effective_n_jobs
    from joblib.parallel import get_active_backend

    _, configured = get_active_backend()
    backend, _ = get_active_backend(prefer="threads")
    default = cpu_count() if threaded else 1
    workers = min(default if configured is None else effective_n_jobs(configured), len(generators))
    shared = getattr(backend, "supports_sharedmem", False) or workers == 1
    stop = Event() if shared else None
    sweeps = (draws + tune) * len(generators)
    with progress_bar("sampling", sweeps, wanted=progress) as advance, _one_blas_thread():
        report = advance if shared else None
        if workers == 1:
            return [_run_one(make_chain, source, draws, tune, report, None) for source in generators]
        parallel = Parallel(n_jobs=workers, prefer="threads", return_as="generator")
        try:
            parts = []
            work = (delayed(_run_one)(make_chain, source, draws, tune, report, stop) for source in generators)
            for part in parallel(work):
                parts.append(part)
                if not shared:
                    advance(draws + tune)
            return parts
        except BaseException as error:
            if stop is not None:
                stop.set()  # an interrupt reaches this thread only
            if not shared and type(error).__name__ == "PicklingError":
                raise TypeError(
                    "the prior or the records cannot be sent to other processes: run the chains in threads "
                    '(joblib.parallel_config(backend="threading"))'
                ) from None
            raise


def _run_one(
    make_chain: Callable[[], Chain],
    rng: np.random.Generator,
    draws: int,
    tune: int,
    report: Callable[[int], object] | None,
    stop: Event | None,
) -> Trace:
    """Run one chain."""
    chain, done = make_chain(), 0
    chain.start(rng)

    def sweep(*, tuning: bool) -> float:
        nonlocal done
        if stop is not None and stop.is_set():
            raise _Stopped
        rate = chain.sweep(rng, tuning=tuning)
        done += 1
        if report is not None and done % _REPORTED == 0:
            report(_REPORTED)
        return rate

    for _ in range(tune):
        sweep(tuning=True)
    acceptance, kept = np.empty(draws), {}
    for i in range(draws):
        acceptance[i] = sweep(tuning=False)
        for name, state in chain.parameters().items():
            if i == 0:
                kept[name] = np.empty((draws, *np.shape(state)))
            kept[name][i] = state
    if report is not None:
        report(done % _REPORTED)
    return Trace(draws=kept, acceptance=acceptance)


_REPORTED = 20  # sweeps between two updates of the progress bar


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread: the matrices are small, and several threads would slow down the chains."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield
