"""Posterior sampling for the library's models: each structure is compiled once and reused for all numbers.

The structure determines the graph: the model, the likelihood, the tails of the noise, and the number of categories or
features. Data, sizes, scales, bounds and prior parameters are inserted for each fit.
"""

from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from privsample._checks import FloatArray
from privsample.interop.pymc_models import LikelihoodTerm, spec_of
from privsample.interop.pymc_sampling import complete_trace, nutpie_seed, quiet, run, sampler
from privsample.interop.pymc_terms import LikelihoodGraph, TermSite, import_pymc

_OPEN = {"seen_weights", "seen_counts"}


class Structure(NamedTuple):
    """Key of a compiled graph; `shapes` are the shapes of its inputs by name, with None for axes of variable length."""

    kind: type
    width: int
    build: LikelihoodGraph
    laplace: bool
    shapes: tuple[tuple[str, tuple[int | None, ...]], ...]


def fit(model: Any, term: LikelihoodTerm, *, draws: int, tune: int, chains: int, rng: np.random.Generator) -> Any:
    """Sample the posterior of this likelihood with the prior of `model`, by the fastest NUTS that is installed.

    Returns an InferenceData or, with ArviZ 1, a DataTree. Raises KeyboardInterrupt if the run was stopped.
    """
    spec = spec_of(type(model))
    given = {f"prior_{name}": at for name, at in spec.prior_numbers(model).items()}
    given |= {f"seen_{name}": at for name, at in term.numbers.items()}
    numbers = {name: np.asarray(at, dtype=np.float64) for name, at in given.items()}
    shapes = tuple((name, (None,) if name in _OPEN else at.shape) for name, at in numbers.items())
    structure = Structure(type(model), spec.width(model), term.build, term.laplace, shapes)
    if sampler() == "pymc":
        return run(_graph(structure, numbers), draws=draws, tune=tune, chains=chains, rng=rng)
    with quiet():
        trace = import_module("nutpie").sample(
            _compiled(structure).with_data(**numbers),
            draws=draws,
            tune=tune,
            chains=chains,
            seed=nutpie_seed(rng),
            progress_bar=False,
            save_warmup=False,
        )
    return complete_trace(trace, draws, chains)


@lru_cache(maxsize=32)  # compiling takes seconds; the function is pure and its result is never modified
def _compiled(structure: Structure) -> Any:
    """Compile the graph of the structure and its gradient by nutpie; it contains no number of any release."""
    blank = {name: np.ones([1 if size is None else size for size in shape]) for name, shape in structure.shapes}
    return import_module("nutpie").compile_pymc_model(_graph(structure, blank))


def _graph(structure: Structure, numbers: dict[str, FloatArray]) -> Any:
    """Build the model in PyMC, with all numbers as replaceable data."""
    pm, _ = import_pymc()
    spec = spec_of(structure.kind)
    with pm.Model() as model:
        data = {name: pm.Data(name, numbers[name], shape=shape) for name, shape in structure.shapes}
        parameters = spec.prior(_named(data, "prior_"), structure.width)
        site = TermSite("released", structure.laplace)
        pm.Potential("released", structure.build(site, _named(data, "seen_"), *parameters.values()))
    return model


def _named(data: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return the entries whose names start with the prefix, without the prefix."""
    return {name.removeprefix(prefix): at for name, at in data.items() if name.startswith(prefix)}
