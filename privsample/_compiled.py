"""Functions compiled by Numba, which PyTensor brings."""

from collections.abc import Callable
from typing import Any

from privsample._optional import require


def compiled(function: Callable[..., Any], *, error_model: str = "python") -> Callable[..., Any]:
    """Compile a function without the interpreter's lock, and cache it on disk where that is possible.

    With the error model "numpy" a division by zero is inf or NaN, and no error.
    """
    require("numba", "bayes", "compiled inference")
    from numba import njit

    try:
        return njit(nogil=True, cache=True, error_model=error_model)(function)
    except RuntimeError:  # no folder to write to
        return njit(nogil=True, error_model=error_model)(function)
