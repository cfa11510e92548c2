"""The density and the distribution function of noisy counts as operations of PyTensor, with their gradients.

docs/notes/moments.md, section 4.
"""

import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor import scalar as scalars
from pytensor.gradient import DisconnectedType, grad_undefined
from pytensor.link.numba.cache import compile_numba_function_src
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key
from pytensor.scalar.basic import ScalarOp, float64
from pytensor.tensor.elemwise import Elemwise

from privsample.interop.pymc_distributions import count_kernel as kernel

_NO_SIZE = "the number of records must be whole: the density has no derivative by it"
_NO_SCALE = "the scale of the noise must be known where this derivative is taken"
_NO_THIRD = "only the first derivatives, and the second one by the probability or mean, are known"


class CountOp(ScalarOp):  # type: ignore[misc]
    """A function of numbers: of the noisy views of one count, their scales, n, and the probability or the mean.

    n is infinite for a Poisson count.

    Parameters
    ----------
    family : str
        Name of the family of the noise.
    views : int
        Number of noisy views.
    what : int, optional
        A constant of `count_kernel`: which derivative. None for the value and its derivative by the last input.
    view : int
        The view by which the derivative is taken.
    """

    __props__ = ("family", "views", "what", "view")

    def __init__(self, family: str, views: int, what: int | None = None, view: int = 0) -> None:
        self.family, self.views, self.what, self.view = family, views, what, view
        self.nin, self.nout = 2 * views + 2, 2 if what is None else 1
        super().__init__(name=type(self).__name__)

    def output_types(self, _types: Any) -> Any:
        """Return the types of the outputs: floats."""
        return [float64] * self.nout

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(getattr(self, at) == getattr(other, at) for at in self.__props__)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, at) for at in self.__props__)))

    def impl(self, *inputs: Any) -> Any:
        """Compute the outputs."""
        return self.function(None)(*map(float, inputs))

    def function(self, compiler: Any) -> Any:
        """Return the function of numbers; compiled by the compiler, or by that of the kernel if None."""
        raise NotImplementedError

    def _unknown(self, place: int, inputs: Any, why: str) -> Any:
        return grad_undefined(self, place, inputs[place], why)


class CountDensity(CountOp):
    """The log density of noisy views of one count, and its derivative by the probability or the mean."""

    def function(self, compiler: Any) -> Any:
        """Return the function of numbers; compiled by the compiler, or by that of the kernel if None."""
        return _density(kernel.FAMILIES[self.family], self.views, self.what, self.view, compiler)

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        """Return the gradient by the views, the scales and the probability or mean."""
        views = self.views
        if self.what is not None:
            return [self._unknown(k, inputs, _NO_THIRD) for k in range(2 * views + 2)]

        def of(what: int, view: int = 0) -> Any:
            return CountDensity(self.family, views, what, view)(*inputs)

        given, of_slope = cotangents
        no_value, no_slope = (isinstance(each.type, DisconnectedType) for each in cotangents)
        by = [0.0 if no_value else given * of(kernel.OFF, k) for k in range(views)]
        by += [0.0 if no_value else given * of(kernel.SCALE, k) for k in range(views)]
        last = 0.0 if no_value else given * outputs[1]
        if not no_slope:
            by = [self._unknown(k, inputs, _NO_THIRD) for k in range(2 * views)]
            last = last + of_slope * of(kernel.CURVATURE)
        return [*by, self._unknown(2 * views, inputs, _NO_SIZE), last]

    L_op = pullback  # the name in PyTensor 2


class CountDistribution(CountOp):
    """The log probability that one noisy count is at most a number, and its derivative by the probability or mean."""

    def function(self, compiler: Any) -> Any:
        """Return the function of numbers; compiled by the compiler, or by that of the kernel if None."""
        return _distribution(kernel.FAMILIES[self.family], compiler)

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        """Return the gradient by the number and by the probability or mean."""
        given, of_slope = cotangents
        if not isinstance(of_slope.type, DisconnectedType):
            return [self._unknown(k, inputs, _NO_THIRD) for k in range(4)]
        by_number = inputs[0].zeros_like()
        if not self.family.startswith("discrete"):
            by_number = given * scalars.exp(CountDensity(self.family, 1)(*inputs)[0] - outputs[0])
        return [
            by_number,
            self._unknown(1, inputs, _NO_SCALE),
            self._unknown(2, inputs, _NO_SIZE),
            given * outputs[1],
        ]

    L_op = pullback  # the name in PyTensor 2


@register_funcify_and_cache_key(CountDensity)  # type: ignore[untyped-decorator]
@register_funcify_and_cache_key(CountDistribution)  # type: ignore[untyped-decorator]
def _in_numba(op: CountOp, **_kwargs: Any) -> Any:
    parts = [type(op).__qualname__, *(getattr(op, at) for at in op.__props__), source_version(kernel)]
    return op.function(numba_njit), "-".join(map(str, parts))


def source_version(*modules: Any) -> int:
    """Return a number that changes with the files of the modules: PyTensor caches compiled functions on disk."""
    return zlib.crc32(b"".join(Path(module.__file__).read_bytes() for module in modules))


@cache
def _density(family: int, views: int, what: int | None, view: int, compiler: Any) -> Any:
    density, derivative = kernel.log_density, kernel.derivative
    if compiler is None and what is None:
        return lambda *at: density(family, at[:views], at[views : 2 * views], at[-2], at[-1])
    if compiler is None:
        return lambda *at: derivative(what, view, family, at[:views], at[views : 2 * views], at[-2], at[-1])
    # Numba compiles no function of any number of arguments here: its text has their names. Numbers in the text would be
    # literals, for each of which Numba compiles the kernels anew.
    ys, scales = ([f"{name}{k}" for k in range(views)] for name in ("y", "scale"))
    call = "density(" if what is None else "derivative(what, view, "
    source = f"def log_density({', '.join([*ys, *scales])}, n, p):\n"
    source += f"    return {call}family, ({', '.join(ys)},), ({', '.join(scales)},), n, p)\n"
    names = {"density": density, "derivative": derivative, "family": np.int64(family)}
    if what is not None:
        names |= {"what": np.int64(what), "view": np.int64(view)}
    made = compile_numba_function_src(source, "log_density", names)
    return compiler(made, fastmath=False)


@cache
def _distribution(family: int, compiler: Any) -> Any:
    distribution = kernel.log_distribution
    if compiler is None:
        return lambda y, scale, n, p: distribution(family, y, scale, n, p)
    number = np.int64(family)  # for a Python integer, a literal to Numba, the kernel would be compiled anew

    @compiler(fastmath=False)
    def log_distribution(y, scale, n, p):  # type: ignore[no-untyped-def]
        return distribution(number, y, scale, n, p)

    return log_distribution


def _floats(*tensors: Any) -> list[Any]:
    return [pt.as_tensor_variable(each).astype("float64") for each in tensors]


def log_density(views: Sequence[Any], family: str, scales: Sequence[Any], p: Any, n: Any = np.inf) -> Any:
    """Return the log density of noisy views of one count, elementwise; n is infinite for a Poisson count of mean p."""
    return Elemwise(CountDensity(family, len(views)))(*_floats(*views, *scales, n, p))[0]


def log_distribution(y: Any, family: str, scale: Any, p: Any, n: Any = np.inf) -> Any:
    """Return the log probability that a noisy count is at most y, elementwise."""
    return Elemwise(CountDistribution(family, 1))(*_floats(y, scale, n, p))[0]
