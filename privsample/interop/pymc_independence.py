"""Checks of a PyMC model: its records are independent given the parameters, and its gradients exist."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample.distributions.record_columns import Columns, example_records
from privsample.interop.pymc_graphs import depends_on, operations

_SIZE, _TOLERANCE = 5, 1e-6
_ADVICE = "each record must enter the likelihood of its own entry only, given the parameters"


def check_model(model: Any, data: Mapping[str, Any]) -> Any:
    """The model, if it has observed variables of the data and continuous parameters of a fixed size.

    Raises TypeError or ValueError.
    """
    import pymc as pm

    if not isinstance(model, pm.Model):
        raise TypeError(f"build must return a PyMC model, got {type(model).__name__}")
    if not model.observed_RVs:
        raise ValueError("build returned a model without observed variables: pass observed=data[...] to one of them")
    if not model.free_RVs:
        raise ValueError("build returned a model without parameters to draw")
    if discrete := [at.name for at in model.free_RVs if at.dtype.startswith(("int", "uint", "bool"))]:
        raise ValueError(
            f"the latent variables {discrete} are discrete and have no gradient: sum them out, as pm.Mixture does"
        )
    _check_sizes(model, data)
    for term in model.potentials:
        if depends_on(term, data.values()):
            raise ValueError(
                f"the potential {term.name!r} depends on the data, and it is not known which record each of its terms "
                "belongs to: write it as the log density of a pm.CustomDist with observed=data[...]"
            )
    return model


def _check_sizes(model: Any, data: Mapping[str, Any]) -> None:
    """Raise ValueError if the size of a parameter depends on the number of records."""
    found = []
    for size in (2, 3):
        for shared in data.values():
            shared.set_value(np.zeros((size, *shared.type.shape[1:]), dtype=shared.dtype) + _least(shared))
        found.append({name: np.shape(at) for name, at in model.initial_point().items()})
    if grown := [name for name in found[0] if found[0][name] != found[1][name]]:
        raise ValueError(
            f"the size of the latent variables {grown} depends on the number of records: a latent variable of one "
            "record is private itself, so integrate it out, or give it the size of public groups"
        )


def _least(shared: Any) -> Any:
    """The first entry of a column, which is a valid number."""
    return shared.get_value().ravel()[0]


def observed_logps(model: Any, data: Mapping[str, Any]) -> list[Any]:
    """The log likelihoods of the observed variables, each with one entry for each record. Raises ValueError."""
    found = []
    for variable in model.observed_RVs:
        if "MinibatchRandomVariable" in operations([variable]):
            raise ValueError(
                f"{variable.name} is a minibatch (total_size): build the model of all records, and let "
                "batch_probability sample them"
            )
        value = model.rvs_to_values[variable]
        if not depends_on(value, data.values()):
            raise ValueError(
                f"{variable.name} observes numbers that are not among the columns: pass observed=data[...], so that "
                "every private number is clipped and covered by the account"
            )
        try:
            (logp,) = model.logp(vars=[variable], jacobian=False, sum=False)
        except Exception as error:  # noqa: BLE001 - each distribution has its own error
            raise _no_density(variable.name, error) from None
        if logp.ndim == 0 or logp.type.shape[0] == 1:
            raise ValueError(
                f"{variable.name} has one log density for all records together, as a time series or a multivariate "
                f"distribution over records has: {_ADVICE}"
            )
        if "RandomVariable" in operations([logp]):
            raise ValueError(f"the log density of {variable.name} contains random numbers: {_ADVICE}")
        found.append(logp)
    return found


def released_variables(model: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """The free variables, and the deterministic variables of them alone, as functions of the value variables.

    A deterministic variable that depends on the data, also through an observed variable, would publish them. So would
    one that depends on a container `pm.Data`, in which users keep data.
    """
    private = [*data.values(), *model.data_vars]
    values = model.replace_rvs_by_values([*model.free_RVs, *model.deterministics])
    named = zip([*model.free_RVs, *model.deterministics], values, strict=True)
    found = {}
    for variable, value in named:
        if not depends_on(value, private) and "RandomVariable" not in operations([value]):
            found[variable.name] = value
    return found


def prior_logp(model: Any, data: Mapping[str, Any]) -> Any:
    """The log prior density with potentials and Jacobians, a scalar. Raises ValueError if it depends on the data."""
    for variable in model.free_RVs:
        if depends_on(variable, data.values()):
            raise ValueError(
                f"the prior of {variable.name} depends on the data, which no account covers: use public numbers"
            )
    try:
        found = model.logp(vars=[*model.free_RVs, *model.potentials], jacobian=True)
    except Exception as error:  # noqa: BLE001 - each distribution has its own error
        raise _no_density("the prior", error) from None
    if depends_on(found, data.values()) or "RandomVariable" in operations([found]):
        raise ValueError("the log prior density depends on the data or on random numbers: use public numbers")
    return found


def _no_density(what: str, error: Exception) -> ValueError:
    """The error for a log density that PyMC does not have."""
    words = f"the log density of {what} cannot be computed ({type(error).__name__}: {str(error)[:200]})"
    return ValueError(f"{words}; give the model a distribution with a log density")


def differentiable(total: Any, parameters: Any) -> Any:
    """The gradient of the total. Raises ValueError if it cannot be taken."""
    try:
        return import_module("pytensor").grad(total, parameters, disconnected_inputs="ignore")
    except Exception as error:  # noqa: BLE001 - each operation has its own error
        raise ValueError(
            f"the gradient of the model's log density cannot be taken ({type(error).__name__}: {str(error)[:200]}); "
            "use operations that PyTensor can differentiate"
        ) from None


def check_additive(
    columns: Columns,
    *,
    joint: Callable[[FloatArray, Mapping[str, Any]], list[NDArray[Any]]],
    single: Callable[[FloatArray, Mapping[str, Any]], FloatArray],
    points: Sequence[FloatArray],
) -> None:
    """Compare the log likelihood of example records with the sum of those of single records.

    They agree for every dataset if and only if the records are independent given the parameters. Raises ValueError.
    """
    rng, compared = np.random.default_rng(0), 0
    for point in points:
        records = example_records(columns, _SIZE, rng)
        try:
            together = joint(point, records)
        except Exception as error:  # noqa: BLE001 - any error of the user's graph
            raise ValueError(
                f"the log likelihood of {_SIZE} example records cannot be computed ({type(error).__name__}: "
                f"{str(error)[:200]})"
            ) from None
        if wrong := [part.shape for part in together if part.shape[0] != _SIZE]:
            raise ValueError(
                f"an observed variable has log densities of shape {wrong[0]} for {_SIZE} records: the first axis of "
                "every observed variable must be that of the records"
            )
        entries = sum(part.reshape(_SIZE, -1).sum(axis=1) for part in together)
        alone = single(np.broadcast_to(point, (_SIZE, len(point))), records)
        usual = np.isfinite(entries) & np.isfinite(alone)
        compared += int(usual.sum())
        apart = np.abs(entries - alone)[usual]
        if (apart > _TOLERANCE * (1.0 + np.abs(alone[usual]))).any() or (
            np.isfinite(entries) != np.isfinite(alone)
        ).any():
            raise ValueError(
                "the records are not independent given the parameters: the log density of a record changes with the "
                f"other records of the data; {_ADVICE}"
            )
    if not compared:
        raise ValueError(
            "the model's log density is not finite for any example record, so that nothing can be checked: state "
            "bounds of the columns within which records have a finite log density"
        )
