"""Gradients of single records for PyMC models whose records are independent given the parameters.

The log likelihood of one record is that of a dataset of this record alone. Its graph is vectorised over pairs of a
parameter vector and a record, so no record enters the gradient of another, whatever the model is.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.distributions.record_columns import Columns, example_records
from privsample.interop.pymc_graphs import evaluator, quiet, simplified, split, with_constants
from privsample.interop.pymc_independence import (
    check_additive,
    check_model,
    differentiable,
    observed_logps,
    prior_logp,
    released_variables,
)
from privsample.interop.pymc_sampling import libraries

Records = Mapping[str, NDArray[Any]]


class RecordProgram(NamedTuple):
    """The compiled parts of a model. `width` is the number of unconstrained parameters, stacked into one vector.

    record_gradients: parameters (pairs, width) and records (pairs, ...) -> gradients (pairs, width).
    prior_gradients: parameters (chains, width) -> gradients (chains, width) of the log prior density with Jacobians.
    constrained: parameters (chains, width) -> parameters and deterministic variables, name -> (chains, ...).
    prior_draws: number of chains and seed -> parameters (chains, width) drawn from the prior.
    point: public values by name -> parameters (width,); other variables are at the initial point of the model.
    """

    width: int
    record_gradients: Callable[[FloatArray, Records], FloatArray]
    prior_gradients: Callable[[FloatArray], FloatArray]
    constrained: Callable[[FloatArray], dict[str, NDArray[Any]]]
    prior_draws: Callable[[int, int], FloatArray]
    point: Callable[[Mapping[str, Any]], FloatArray]
    dims: Mapping[str, tuple[str, ...]]
    coords: Mapping[str, tuple[str, ...]]


@lru_cache(maxsize=16)  # building and checking take a second; the result depends on the arguments alone
def record_program(build: Callable[[Any], Any], columns: Columns, backend: str = "numpy") -> RecordProgram:
    """Build the model of these columns, check it, and return its compiled parts; the backend computes the gradients.

    Raises TypeError or ValueError for a model whose records are not independent given the parameters, or that has no
    gradient, and ImportError without PyMC.
    """
    libraries("LangevinModel")
    with quiet():
        return _program(build, columns, backend)


def _program(build: Callable[[Any], Any], columns: Columns, backend: str) -> RecordProgram:
    tensor, replace = import_module("pytensor.tensor"), import_module("pytensor.graph.replace")
    data = _placeholders(columns)
    model = check_model(build(MappingProxyType(data)), data)
    logps = with_constants(observed_logps(model, data), data.values())
    prior = with_constants([prior_logp(model, data)], data.values())
    initial = {name: np.asarray(at) for name, at in model.initial_point().items()}
    width = sum(at.size for at in initial.values())
    flat = tensor.vector("parameters", shape=(width,), dtype="float64")
    pairs = tensor.matrix("pairs", shape=(None, width), dtype="float64")
    parameters = split(flat, model.value_vars, initial)

    likelihood, batches = _single_record(logps, data, parameters, flat, pairs)
    inputs = [pairs, *batches.values()]
    (log_prior,) = replace.graph_replace(prior, parameters, strict=False)
    each_prior = replace.vectorize_graph(simplified([flat], log_prior), {flat: pairs})
    released = released_variables(model, data)
    values = replace.graph_replace(with_constants(list(released.values()), ()), parameters, strict=False)
    named = {name: model.named_vars_to_dims[name] for name in released if name in model.named_vars_to_dims}
    gradients = evaluator(inputs, differentiable(likelihood.sum(), pairs), backend=backend)
    program = RecordProgram(
        width=width,
        record_gradients=lambda theta, records: np.asarray(gradients(theta, *(records[name] for name in batches))),
        prior_gradients=partial(_or_nan, evaluator([pairs], differentiable(each_prior.sum(), pairs))),
        constrained=partial(_constrained, list(released), evaluator([flat], values)),
        prior_draws=partial(_prior_draws, model),
        point=partial(_point, model, initial),
        dims={name: tuple(map(str, axes)) for name, axes in named.items()},
        coords={str(dim): tuple(map(str, labels)) for dim, labels in model.coords.items() if labels is not None},
    )
    datasets = {name: at.type.clone(shape=at.type.shape)(name) for name, at in data.items()}
    together = replace.graph_replace(logps, parameters | {data[name]: datasets[name] for name in data}, strict=False)
    joint, single = evaluator([flat, *datasets.values()], together), evaluator(inputs, likelihood)
    check_additive(
        columns,
        joint=lambda theta, records: joint(theta, *(records[name] for name in datasets)),
        single=lambda theta, records: single(theta, *(records[name] for name in batches)),
        points=[program.point({}) + 0.1 * shift for shift in np.random.default_rng(1).standard_normal((3, width))],
    )
    return program


def _placeholders(columns: Columns) -> dict[str, Any]:
    """Symbolic columns of any number of records; while the model is built they hold a few example records."""
    shared = import_module("pytensor").shared
    examples = example_records(columns, 3, np.random.default_rng(0))
    return {name: shared(examples[name], name=name, shape=(None, *column.shape)) for name, column in columns}


def _single_record(
    logps: list[Any], data: Mapping[str, Any], parameters: Mapping[Any, Any], flat: Any, pairs: Any
) -> tuple[Any, dict[str, Any]]:
    """The log likelihoods (pairs,) of single records, and their inputs by column, shape (pairs, ...)."""
    tensor, replace = import_module("pytensor.tensor"), import_module("pytensor.graph.replace")
    entries = {name: tensor.tensor(name, dtype=at.dtype, shape=at.type.shape[1:]) for name, at in data.items()}
    alone = {at: tensor.specify_shape(entries[name][None], (1, *at.type.shape[1:])) for name, at in data.items()}
    total = sum(logp.sum() for logp in logps)
    (one,) = replace.graph_replace([total], {**parameters, **alone}, strict=False)
    one = simplified([flat, *entries.values()], one)
    batches = {name: tensor.tensor(name, dtype=at.dtype, shape=(None, *at.type.shape)) for name, at in entries.items()}
    given = {flat: pairs} | {entries[name]: batch for name, batch in batches.items()}
    direct = import_module("privsample.interop.pymc_arrays").with_direct_lookups
    try:
        every = replace.vectorize_graph(one, given)
    except Exception as error:  # noqa: BLE001 - each operation has its own error
        raise ValueError(
            "the log likelihood of a record cannot be computed for several records at once "
            f"({type(error).__name__}: {str(error)[:200]}); write the model with other operations, such as an index "
            "along the first axis"
        ) from None
    return direct(list(given.values()), every), batches


def _or_nan(gradients: Callable[[FloatArray], Any], theta: FloatArray) -> FloatArray:
    """The gradients, or NaN if they cannot be computed at these parameters, which no record determines alone."""
    try:
        return np.asarray(gradients(theta))
    except Exception:  # noqa: BLE001 - an error would be an observable output
        return np.full(theta.shape, np.nan)


def _constrained(
    names: list[str], values: Callable[[FloatArray], list[Any]], theta: FloatArray
) -> dict[str, NDArray[Any]]:
    """Parameters and deterministic variables of all chains, by name."""
    with quiet():
        rows = [values(row) for row in theta]
    return {name: np.array([np.asarray(row[at]) for row in rows]) for at, name in enumerate(names)}


def _unconstrained(model: Any) -> list[Any]:
    """The unconstrained values of the free variables, in the order of the value variables."""
    found = []
    for variable in model.free_RVs:
        transform = model.rvs_to_transforms[variable]
        found.append(variable if transform is None else transform.forward(variable, *variable.owner.inputs))
    return found


def _prior_draws(model: Any, chains: int, seed: int) -> FloatArray:
    """Draws from the prior in unconstrained coordinates, shape (chains, width). Raises ValueError if it is improper."""
    import pymc as pm

    mode = import_module("pytensor.compile.mode").Mode(linker="py", optimizer="fast_compile")
    try:
        with quiet():
            drawn = pm.draw(_unconstrained(model), draws=chains, random_seed=seed, mode=mode)
    except Exception as error:  # noqa: BLE001 - each distribution has its own error
        raise ValueError(
            f"the prior cannot be drawn from ({type(error).__name__}: {str(error)[:200]}): give start, a mapping of "
            "public values by name, such as start={} for PyMC's initial point"
        ) from None
    return np.column_stack([np.asarray(part, dtype=np.float64).reshape(chains, -1) for part in drawn])


def _point(model: Any, initial: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> FloatArray:
    """Public values by name in unconstrained coordinates, shape (width,). Raises ValueError."""
    names = {variable.name: variable for variable in model.free_RVs}
    if unknown := sorted(set(values) - set(names)):
        raise ValueError(f"start must name variables of the model, {sorted(names)}, got {unknown}")
    if not values:
        chosen = initial
    else:
        try:
            with quiet():
                given = {names[name]: np.asarray(at, dtype=np.float64) for name, at in values.items()}
                chosen = import_module("pymc.initial_point").make_initial_point_fn(
                    model=model, overrides=given, return_transformed=True
                )(None)
        except Exception as error:  # noqa: BLE001 - shapes and supports are checked by PyMC
            raise ValueError(f"start does not fit the model ({type(error).__name__}: {str(error)[:200]})") from None
    found = np.concatenate([np.asarray(chosen[at.name], dtype=np.float64).ravel() for at in model.value_vars])
    if not np.isfinite(found).all() or len(found) != sum(at.size for at in initial.values()):
        raise ValueError("start must lie inside the support of the prior, with the shapes of the variables")
    return found
