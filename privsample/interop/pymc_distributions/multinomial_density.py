"""The density of noisy counts of categories as an operation of PyTensor, with its gradient.

docs/notes/moments.md, section 4.
"""

from functools import cache
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import grad_undefined
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key

from privsample.interop.pymc_distributions import count_kernel, multinomial_kernel
from privsample.interop.pymc_distributions.count_density import source_version


class MultinomialDensity(Op):  # type: ignore[misc]
    """Log densities of noisy counts, and their derivatives by p, by the noisy counts and by the scales.

    The inputs are y (groups, copies, categories), n (groups,), p and scale (groups, categories).

    Parameters
    ----------
    family : str
        Name of the family of the noise.
    """

    __props__ = ("family",)

    def __init__(self, family: str) -> None:
        self.family = family

    def make_node(self, *inputs: Any) -> Any:
        """Return the application to these inputs."""
        y, n, p, scale = (pt.as_tensor_variable(each).astype("float64") for each in inputs)
        return Apply(self, [y, n, p, scale], [n.type(), p.type(), y.type(), scale.type()])

    def perform(self, _node: Any, inputs: Any, outputs: Any) -> None:
        """Compute the densities."""
        found = multinomial_kernel.densities(count_kernel.FAMILIES[self.family], *inputs)
        for storage, value in zip(outputs, found, strict=True):
            storage[0] = value

    def infer_shape(self, *given: Any) -> Any:
        """Return the shapes of the outputs; PyTensor 2 passes graph, node and shapes, PyTensor 3 node and shapes."""
        y, n, p, scale = given[-1]
        return [n, p, y, scale]

    def connection_pattern(self, _node: Any) -> Any:
        """Return which outputs have gradients by which inputs."""
        return [[by, False, False, False] for by in (True, True, True, True)]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        """Return the gradient by y, p and the scales; n is whole."""
        given = cotangents[0]
        return [
            given[:, None, None] * outputs[2],
            grad_undefined(self, 1, inputs[1], "the number of records must be whole: there is no derivative by it"),
            given[:, None] * outputs[1],
            given[:, None] * outputs[3],
        ]

    L_op = pullback  # the name in PyTensor 2


def log_density(y: Any, n: Any, p: Any, scale: Any, family: str) -> Any:
    """Return the log density at y (..., copies, categories) with n (...), p and scale (..., categories)."""
    copies, categories = y.type.shape[-2:]
    batch = y[..., 0, 0] + n + p[..., 0] + scale[..., 0]
    zero = pt.zeros_like(batch)
    flat = [
        (zero[..., None, None] + y).reshape((-1, copies, categories)),
        (zero + n).ravel(),
        *((zero[..., None] + each).reshape((-1, categories)) for each in (p, scale)),
    ]
    return MultinomialDensity(family)(*flat)[0].reshape(batch.shape, ndim=batch.ndim)


@register_funcify_default_op_cache_key(MultinomialDensity)  # type: ignore[untyped-decorator]
def _in_numba(op: MultinomialDensity, **_kwargs: Any) -> Any:
    version = source_version(count_kernel, multinomial_kernel)
    return _with_family(count_kernel.FAMILIES[op.family]), version


@cache
def _with_family(family: int) -> Any:
    """Compile the loop over groups for a family, in a graph that Numba compiles."""
    densities = multinomial_kernel.densities
    number = np.int64(family)  # for a Python integer, a literal to Numba, the kernels would be compiled anew

    @numba_njit
    def log_densities(y, n, p, scale):  # type: ignore[no-untyped-def]
        return densities(number, y, n, p, scale)

    return log_densities
