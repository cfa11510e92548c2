"""The density of a sum of clipped records plus noise as an operation of PyTensor, with its gradient.

docs/notes/clipping.md, step 7.
"""

from functools import cache
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import njit
from pytensor.gradient import DisconnectedType, disconnected_grad, grad_undefined
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key

from privsample.interop.pymc_distributions import sum_kernel
from privsample.interop.pymc_distributions.count_density import source_version

FEWEST_CELLS, MOST_CELLS, ALL_CELLS = 48, 256, 2048  # of the lattice, and n times the cells


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
        found = _compiled(self.normal, self.whole, njit)(*inputs)
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
    return _compiled(op.normal, op.whole, numba_njit), source_version(sum_kernel)


@cache
def _compiled(normal: bool, whole: bool, compiler: Any) -> Any:
    """Compile the loop over groups."""
    density = sum_kernel.density

    @compiler
    def densities(y, n, points, weights, scale):  # type: ignore[no-untyped-def]
        logs, slopes, by_y = np.empty(len(y)), np.empty(weights.shape), np.empty(len(y))
        for i in range(len(y)):
            if whole:
                cells = int(points[i, 1] - points[i, 0])
            else:
                cells = min(max(int(ALL_CELLS / n[i]), FEWEST_CELLS), MOST_CELLS)
            logs[i], by_y[i] = density(y[i], n[i], points[i], weights[i], scale[i], cells, normal, whole, slopes[i])
        return logs, slopes, by_y

    return densities
