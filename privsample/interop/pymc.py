"""Models in PyMC, run in its numba mode: it needs no C compiler, where the default mode would hang."""

import warnings
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.interop.arviz import summary

_TUNE, _KEPT, _FEWEST = 1000, 500, 4


def logistic_chains(
    rows: FloatArray, weight: float, chains: int, rng: np.random.Generator
) -> tuple[FloatArray, dict[str, object]]:
    """NUTS for w ~ N(0, I) with the likelihood of prod_i sigma(z_i.w)^weight, z_i the rows, shape (n, d).

    Returns: independent chains, at least four, shape (chains, states, d), and their diagnostics by name.
    Raises: ImportError, PyMC is not installed; KeyboardInterrupt, the run was stopped.
    """
    pm, tensor = _pymc()
    count = max(chains, _FEWEST)
    with pm.Model(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they would speak of the data
        w = pm.Normal("w", shape=rows.shape[1])
        pm.Potential("records", -weight * tensor.softplus(-tensor.dot(tensor.as_tensor_variable(rows), w)).sum())
        trace = pm.sample(
            draws=_KEPT,
            tune=_TUNE,
            chains=count,
            cores=1,
            random_seed=rng,
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
            compile_kwargs={"mode": "NUMBA"},
        )
        found: FloatArray = np.asarray(trace.posterior["w"].values, dtype=np.float64)
        if found.shape != (count, _KEPT, rows.shape[1]):
            raise KeyboardInterrupt  # PyMC returns what it has
        figures = summary(trace)
    facts: dict[str, object] = {
        "chains": count,
        "largest R-hat": float(figures["r_hat"].astype(float).max()),
        "least effective sample size": float(figures["ess_bulk"].astype(float).min()),
        "divergences": int(trace.sample_stats["diverging"].values.sum()),
    }
    return found, facts


def _pymc() -> tuple[Any, Any]:
    """PyMC and its tensors."""
    try:
        import pymc
        from pytensor import tensor
    except ImportError:
        raise ImportError("sampling by NUTS needs PyMC: pip install pymc") from None
    return pymc, tensor
