"""Import of PyMC, and NUTS for its models: by nutpie if it is installed, otherwise by PyMC in its numba mode.

Neither needs a C compiler. PyMC's default mode needs one, and hangs without it.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from privsample._optional import is_installed, require


def libraries(what: str) -> tuple[Any, Any]:
    """Return PyMC and pytensor.tensor. Raises ImportError without PyMC; `what` names the feature that needs it."""
    for package in ("pymc", "numba", "threadpoolctl"):
        require(package, "bayes", what)
    import pymc
    from pytensor import tensor

    return pymc, tensor


def sampler() -> str:
    """Return the NUTS implementation in use: "nutpie" (the extra `nuts`) or "pymc"."""
    return "nutpie" if is_installed("nutpie") else "pymc"


def run(model: Any, *, draws: int, tune: int, chains: int, rng: np.random.Generator) -> Any:
    """Sample independent chains of a PyMC model by NUTS; return an InferenceData or, with ArviZ 1, a DataTree.

    Warnings are suppressed, because they could reveal private data. Raises KeyboardInterrupt if the run was stopped.
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
    return complete_trace(trace, draws, chains)


def nutpie_seed(rng: np.random.Generator) -> int:
    """Return a seed of 64 bits, the maximum that nutpie accepts.

    From a generator PyMC would make a seed of 30 bits; then all possible outcomes of a private draw can be enumerated.
    """
    return int(rng.integers(1 << 64, dtype=np.uint64))


def complete_trace(trace: Any, draws: int, chains: int) -> Any:
    """Return the trace if it is complete. Raises KeyboardInterrupt otherwise, since a stopped run returns a part."""
    sizes = trace.posterior.sizes
    if (sizes["chain"], sizes["draw"]) != (chains, draws):
        raise KeyboardInterrupt
    return trace


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings, which could reveal private data, and limit BLAS to one thread.

    The matrices are small: several threads would slow down each other and the chains.
    """
    with warnings.catch_warnings(), import_module("threadpoolctl").threadpool_limits(1, user_api="blas"):
        warnings.simplefilter("ignore")
        yield
