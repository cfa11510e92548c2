"""PyTensor graphs of the log densities of records: functions of them, and what they contain."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np


def evaluator(inputs: Sequence[Any], outputs: Any, *, backend: str = "numpy") -> Callable[..., Any]:
    """The function of the inputs that computes the outputs, by NumPy on whole arrays or by compiled code of Numba."""
    modes = import_module("pytensor.compile.mode")
    if backend == "numba":
        mode = modes.get_mode("NUMBA")
    else:  # without the rewrites that make fast loops for a compiler, which are slow without one
        mode = modes.Mode(linker="py", optimizer="fast_run")
        mode = mode.excluding("fusion", "BlasOpt", "inplace", "local_pow_to_nested_squaring")
        mode = mode.register((import_module("privsample.interop.pymc_arrays").ArrayOperations(), 1000))
    made: Callable[..., Any] = import_module("pytensor").function(
        list(inputs), outputs, mode=mode, on_unused_input="ignore", allow_input_downcast=True
    )
    return made


def simplified(inputs: Sequence[Any], output: Any) -> Any:
    """The same output without assertions, whose failure would stop the computation, and without redundant shapes.

    An assertion that fails for one record must not change the result for another.
    """
    graph = import_module("pytensor.graph.fg").FunctionGraph(list(inputs), [output], clone=False)
    assertion = import_module("pytensor.raise_op").CheckAndRaise
    while found := [node for node in graph.toposort() if isinstance(node.op, assertion)]:
        graph.replace(found[0].outputs[0], found[0].inputs[0], import_missing=True)
    rewrite = import_module("pytensor.graph.rewriting.utils").rewrite_graph
    return rewrite(graph.outputs[0], include=("canonicalize",), clone=False)


def with_constants(outputs: Sequence[Any], inputs: Iterable[Any]) -> list[Any]:
    """The outputs with the present values of shared variables, such as the lengths of dimensions, as constants."""
    kept, tensor = set(inputs), import_module("pytensor.tensor")
    shared = import_module("pytensor.compile.sharedvalue").SharedVariable
    found = {
        at: tensor.constant(at.get_value(), dtype=at.dtype)
        for at in ancestors(outputs)
        if isinstance(at, shared) and at not in kept and isinstance(at.type, tensor.TensorType)
    }
    given = {at: at.type.filter_variable(item, allow_convert=True) for at, item in found.items()}
    return list(import_module("pytensor.graph.replace").graph_replace(list(outputs), given, strict=False))


def depends_on(output: Any, inputs: Iterable[Any]) -> bool:
    """True if the graph of `output` contains one of the inputs."""
    wanted = set(inputs)
    return any(node in wanted for node in ancestors([output]))


def ancestors(outputs: Iterable[Any]) -> Iterator[Any]:
    """All variables of the graph of the outputs, themselves included."""
    seen, waiting = set(), list(outputs)
    while waiting:
        variable = waiting.pop()
        if variable in seen:
            continue
        seen.add(variable)
        yield variable
        if variable.owner is not None:
            waiting.extend(variable.owner.inputs)


def operations(outputs: Iterable[Any]) -> set[str]:
    """The class names of all operations in the graph of the outputs, with those of their base classes."""
    owners = {id(at.owner): at.owner for at in ancestors(outputs) if at.owner is not None}
    return {kind.__name__ for node in owners.values() for kind in type(node.op).__mro__}


def split(flat: Any, variables: Sequence[Any], initial: Mapping[str, np.ndarray[Any, Any]]) -> dict[Any, Any]:
    """Each variable as a part of the flat vector, in the order given."""
    found, start = {}, 0
    for variable in variables:
        shape, size = initial[variable.name].shape, initial[variable.name].size
        part = flat[start : start + size].reshape(shape)
        found[variable] = variable.type.filter_variable(part.astype(variable.dtype), allow_convert=True)
        start += size
    return found


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings of the computation, which could reveal private data."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
