"""PyMC itself, and the sampler that runs its models: nutpie where it is installed, else PyMC's own in its numba mode.

Neither needs a C compiler; PyMC's default mode does, and hangs without one.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module, util
from typing import Any

import numpy as np


def libraries(what: str) -> tuple[Any, Any]:
    """PyMC and its tensors. Raises: ImportError, PyMC is not installed; `what` says what needs it."""
    try:
        import pymc
        from pytensor import tensor
    except ImportError:
        raise ImportError(f"{what} needs PyMC: pip install pymc") from None
    return pymc, tensor


def sampler() -> str:
    """Which NUTS runs: "nutpie" (the extra `nuts`) or "pymc"."""
    return "nutpie" if util.find_spec("nutpie") else "pymc"


def run(model: Any, *, draws: int, tune: int, chains: int, rng: np.random.Generator) -> Any:
    """Independent chains of a PyMC model by NUTS: an InferenceData or, with ArviZ 1, a DataTree.

    It warns of nothing: a warning would speak of the data. Raises: KeyboardInterrupt, the run was stopped.
    """
    pm, _ = libraries("sampling by NUTS")
    name = sampler()
    own: dict[str, Any] = {"cores": 1, "compile_kwargs": {"mode": "NUMBA"}} if name == "pymc" else {}
    with model, quiet():
        trace = pm.sample(
            draws=draws,
            tune=tune,
            chains=chains,
            nuts_sampler=name,
            random_seed=nutpie_seed(rng) if name == "nutpie" else rng,
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
            **own,
        )
    return finished(trace, draws, chains)


def nutpie_seed(rng: np.random.Generator) -> int:
    """A seed of 64 bits, all that nutpie takes, for every run of nutpie.

    Of a generator PyMC would make one of 30 bits: so few outcomes of a private draw can be enumerated.
    """
    return int(rng.integers(1 << 64, dtype=np.uint64))


def finished(trace: Any, draws: int, chains: int) -> Any:
    """The trace, if it is whole. Raises: KeyboardInterrupt: a stopped run returns what it has."""
    sizes = trace.posterior.sizes
    if (sizes["chain"], sizes["draw"]) != (chains, draws):
        raise KeyboardInterrupt
    return trace


@contextmanager
def quiet() -> Iterator[None]:
    """Run without warnings, which would speak of the data, and with one thread for each product of matrices.

    The matrices are small: several threads would wait for each other and for the chains.
    """
    with warnings.catch_warnings(), import_module("threadpoolctl").threadpool_limits(1, user_api="blas"):
        warnings.simplefilter("ignore")
        yield
