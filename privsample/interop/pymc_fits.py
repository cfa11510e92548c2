"""Posterior sampling for the library's models: each structure is compiled once and reused for all numbers.

The structure determines the graph: the model, the family of the noise, whether the likelihood is exact, and the number
of categories or features. Data, sizes, scales, bounds and prior parameters are inserted for each fit.
"""

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from privsample._checks import FloatArray
from privsample.interop.pymc_models import spec_of
from privsample.interop.pymc_sampling import complete_trace, libraries, nutpie_seed, quiet, run, sampler


class Structure(NamedTuple):
    """Key of a compiled graph; `shapes` are the shapes of its inputs by name."""

    kind: type
    width: int
    family: str
    copies: int
    exact: bool | None
    shapes: tuple[tuple[str, tuple[int, ...]], ...]


def fit(model: Any, release: Any, *, draws: int, tune: int, chains: int, rng: np.random.Generator) -> tuple[Any, str]:
    """Sample the posterior given this `Released` with the prior of `model`, by the fastest NUTS that is installed.

    Returns an InferenceData or, with ArviZ 1, a DataTree, and how the likelihood is computed. Raises KeyboardInterrupt
    if the run was stopped.
    """
    spec = spec_of(type(model))
    given = {f"prior_{name}": at for name, at in spec.prior_numbers(model).items()}
    given |= {f"constant_{name}": at for name, at in release.constants.items()}
    own = {"n": release.n, "noise_scale": release.noise.known, "observed": release.values}
    given |= {f"seen_{name}": at for name, at in own.items()}
    numbers = {name: np.asarray(at, dtype=np.float64) for name, at in given.items()}
    family, copies = release.noise.family, release.copies
    exact = None if spec.exact is None else spec.exact(int(release.n), family, release.noise.largest, copies, model)
    shapes = tuple((name, at.shape) for name, at in numbers.items())
    structure = Structure(type(model), spec.width(model), family, copies, exact, shapes)
    if sampler() == "pymc":
        built, words = _graph(structure, numbers)
        return run(built, draws=draws, tune=tune, chains=chains, rng=rng), words
    with quiet():
        compiled, words = _compiled(structure, numbers)
        trace = import_module("nutpie").sample(
            compiled.with_data(**numbers),
            draws=draws,
            tune=tune,
            chains=chains,
            seed=nutpie_seed(rng),
            progress_bar=False,
            save_warmup=False,
        )
    return complete_trace(trace, draws, chains), words


def fit_private_total(
    model: Any, release: Any, *, draws: int, tune: int, chains: int, rng: np.random.Generator
) -> tuple[Any, str]:
    """Sample the posterior given a release whose number of records is private, as `fit` does.

    Raises TypeError for a model whose distribution in PyMC needs that number.
    """
    from privsample.interop.pymc_distributions.base import likelihood

    pm, _ = libraries("noise-aware inference")
    spec = spec_of(type(model))
    with pm.Model() as built:
        parameters = spec.prior(spec.prior_numbers(model), spec.width(model))
        words = likelihood(spec.distribution("released", parameters, observed=release))
    return run(built, draws=draws, tune=tune, chains=chains, rng=rng), words


_COMPILED: dict[Structure, tuple[Any, str]] = {}  # compiling takes seconds; what is kept is never modified
_KEPT = 32


def _compiled(structure: Structure, numbers: dict[str, FloatArray]) -> tuple[Any, str]:
    """Compile the graph of the structure and its gradient by nutpie, once; all numbers in it are replaced for a fit."""
    if structure not in _COMPILED:
        built, words = _graph(structure, numbers)
        while len(_COMPILED) >= _KEPT:
            _COMPILED.pop(next(iter(_COMPILED)))
        _COMPILED[structure] = import_module("nutpie").compile_pymc_model(built), words
    return _COMPILED[structure]


def _graph(structure: Structure, numbers: dict[str, FloatArray]) -> tuple[Any, str]:
    """Build the model in PyMC, with all numbers as replaceable data."""
    from privsample.interop.pymc_distributions.base import likelihood

    pm, _ = libraries("noise-aware inference")
    spec = spec_of(structure.kind)
    options: dict[str, Any] = {} if structure.exact is None else {"exact": structure.exact}
    if structure.copies > 1:
        options["copies"] = structure.copies
    with pm.Model() as model:
        data = {name: pm.Data(name, numbers[name], shape=shape) for name, shape in structure.shapes}
        parameters = spec.prior(_named(data, "prior_"), structure.width)
        given = _named(data, "seen_") | _named(data, "constant_") | options
        released = spec.distribution("released", parameters, noise=structure.family, **given)
    return model, likelihood(released)


def _named(data: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return the entries whose names start with the prefix, without the prefix."""
    return {name.removeprefix(prefix): at for name, at in data.items() if name.startswith(prefix)}
