"""Rewrites for graphs that NumPy evaluates: every operation takes whole arrays. Imported where PyTensor is needed.

Without a compiler, PyTensor calls a Python function for each element of a product of three arrays, of a conversion, or
of a softplus. The rewrites replace such operations by ones that NumPy or SciPy computes at once.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from pytensor import tensor
from pytensor.graph.basic import Apply
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import GraphRewriter
from pytensor.scalar.basic import Cast
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.subtensor import AdvancedSubtensor
from scipy import special

_FOLDED = {"Mul", "Add", "AND", "OR", "ScalarMaximum", "ScalarMinimum"}


def _log1mexp(x: Any) -> Any:
    """log(1 - e^x) for x < 0, by the stable branch on either side of -log 2."""
    return np.where(x < -np.log(2.0), np.log1p(-np.exp(x)), np.log(-np.expm1(x)))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Cast": lambda x: x,
    "Identity": lambda x: x,
    "Second": lambda _, x: x,
    "Clip": np.clip,
    "Softplus": lambda x: np.logaddexp(0.0, x),
    "Log1mexp": _log1mexp,
    "TriGamma": lambda x: special.polygamma(1, x),
    "GammaU": lambda k, x: special.gammaincc(k, x) * special.gamma(k),
    "GammaL": lambda k, x: special.gammainc(k, x) * special.gamma(k),
}


class ArrayFunction(Op):  # type: ignore[misc]
    """A function of whole arrays, which are broadcast against each other, in place of one of their elements."""

    __props__ = ("name",)

    def __init__(self, name: str, output: Any) -> None:
        self.name, self.output = name, output

    def make_node(self, *inputs: Any) -> Apply:
        """The node with the type of the operation that it replaces."""
        return Apply(self, list(inputs), [self.output()])

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        """Compute the function, with the dtype of the operation that it replaces."""
        del node
        with np.errstate(all="ignore"):
            found = np.asarray(_FUNCTIONS[self.name](*inputs), dtype=self.output.dtype)
        shape = np.broadcast_shapes(*(np.shape(item) for item in inputs))
        outputs[0][0] = np.array(np.broadcast_to(found, shape))


class ArrayOperations(GraphRewriter):  # type: ignore[misc]
    """Replace elementwise operations that NumPy lacks by functions of whole arrays."""

    def apply(self, fgraph: Any) -> None:
        """Rewrite the graph in place."""
        for node in fgraph.toposort():
            if not isinstance(node.op, Elemwise) or len(node.outputs) != 1:
                continue
            scalar, (output,) = node.op.scalar_op, node.outputs
            name, spec = type(scalar).__name__, node.op.nfunc_spec
            if spec is not None and spec[1] == len(node.inputs):
                continue
            if name in _FOLDED and len(node.inputs) > 2:
                found = reduce(node.op, node.inputs)
                fgraph.replace(output, output.type.filter_variable(found, allow_convert=True), import_missing=True)
            elif isinstance(scalar, Cast) or name in _FUNCTIONS:
                kind = "Cast" if isinstance(scalar, Cast) else name
                fgraph.replace(output, ArrayFunction(kind, output.type)(*node.inputs), import_missing=True)


def with_direct_lookups(inputs: Sequence[Any], output: Any) -> Any:
    """The same output, in which lookups of array entries, one for each pair, are made all at once."""
    graph = FunctionGraph(list(inputs), [output], clone=False)
    for node in graph.toposort():
        if not isinstance(node.op, Blockwise) or not isinstance(node.op.core_op, AdvancedSubtensor):
            continue
        array, *places = node.inputs
        listed = getattr(node.op.core_op, "idx_list", None) or ()  # PyTensor 3 keeps slices here, and not in the inputs
        if any(isinstance(item, slice) for item in listed):
            continue
        if array.type.shape[0] != 1 and all(map(_is_batch_of_places, places)):
            found = array[(tensor.arange(array.shape[0])[:, None], *places)]
            found = node.outputs[0].type.filter_variable(found, allow_convert=True)
            graph.replace(node.outputs[0], found, import_missing=True)
    return graph.outputs[0]


def _is_batch_of_places(variable: Any) -> bool:
    """True for integers of shape (pairs, k)."""
    kind = variable.type
    return (
        isinstance(kind, tensor.TensorType) and kind.dtype.startswith("int") and kind.ndim == 2 and kind.shape[0] != 1
    )
