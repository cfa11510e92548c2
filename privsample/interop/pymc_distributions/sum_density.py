"""The density of a sum of clipped records plus noise as an operation of PyTensor, with its gradient.

docs/notes/clipping.md, step 7.
"""

from functools import cache
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, disconnected_grad, grad_undefined
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key

from privsample.interop.pymc_distributions import sum_kernel
from privsample.interop.pymc_distributions.count_density import source_version


class SumDensity(Op):  # type: ignore[misc]
    """Log densities of sums, and their derivatives by the weights of the record and by the sums.

    The inputs are y, n and scale (groups,), points and weights (groups, points).

    Parameters
    ----------
    normal : bool
        Whether the noise is normal; otherwise it is Laplace noise.
    whole : bool
        Whether records are whole numbers.
    """

    __props__ = ("normal", "whole")

    def __init__(self, *, normal: bool, whole: bool) -> None:
        self.normal, self.whole = normal, whole

    def make_node(self, *inputs: Any) -> Any:
        """Return the application to these inputs."""
        y, n, points, weights, scale = (pt.as_tensor_variable(each).astype("float64") for each in inputs)
        return Apply(self, [y, n, points, weights, scale], [y.type(), weights.type(), y.type()])

    def perform(self, _node: Any, inputs: Any, outputs: Any) -> None:
        """Compute the densities."""
        found = sum_kernel.densities(*inputs, self.normal, self.whole)
        for storage, value in zip(outputs, found, strict=True):
            storage[0] = value

    def infer_shape(self, *given: Any) -> Any:
        """Return the shapes of the outputs; PyTensor 2 passes graph, node and shapes, PyTensor 3 node and shapes."""
        shapes = given[-1]
        return [shapes[0], shapes[3], shapes[0]]

    def connection_pattern(self, _node: Any) -> Any:
        """Return which outputs have gradients by which inputs."""
        return [[by, False, False] for by in (True, False, False, True, True)]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        """Return the gradient by y and by the weights; the scale of the noise has none."""
        given = cotangents[0]
        return [
            given * outputs[2],
            DisconnectedType()(),
            DisconnectedType()(),
            given[:, None] * outputs[1],
            grad_undefined(self, 4, inputs[4], "the scale of the noise must be known where the density is exact"),
        ]

    L_op = pullback  # the name in PyTensor 2


def sum_density(y: Any, n: Any, points: Any, weights: Any, scale: Any, *, normal: bool, whole: bool) -> Any:
    """Return the log density at y of the sum of n records plus noise, elementwise over groups."""
    core = weights.shape[-1]
    batch = y + n + scale + weights[..., 0]
    flat = [(pt.zeros_like(batch) + each).ravel() for each in (y, disconnected_grad(n.astype("float64")), scale)]
    wide = [
        (pt.zeros_like(batch)[..., None] + each).reshape((-1, core)) for each in (disconnected_grad(points), weights)
    ]
    found = SumDensity(normal=normal, whole=whole)(flat[0], flat[1], *wide, flat[2])[0]
    return found.reshape(batch.shape, ndim=batch.ndim)


@register_funcify_default_op_cache_key(SumDensity)  # type: ignore[untyped-decorator]
def _in_numba(op: SumDensity, **_kwargs: Any) -> Any:
    return _with_kinds(op.normal, op.whole), source_version(sum_kernel)


@cache
def _with_kinds(normal: bool, whole: bool) -> Any:
    """Compile the loop over groups for a kind of noise and of records, in a graph that Numba compiles."""
    densities = sum_kernel.densities
    # For Python's truth values, literals to Numba, the kernels would be compiled anew.
    is_normal, is_whole = np.bool_(normal), np.bool_(whole)

    @numba_njit
    def log_densities(y, n, points, weights, scale):  # type: ignore[no-untyped-def]
        return densities(y, n, points, weights, scale, is_normal, is_whole)

    return log_densities
