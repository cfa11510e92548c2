"""Checks of what is given to the distributions, before anything is compiled."""

from typing import Any

import numpy as np
import pytensor.tensor as pt

from privsample.interop.pymc_distributions.noise import NoiseTensor, present_value

ROUNDING = 1e-6  # of probabilities that add up to 1
_ARGUMENTS = {"shape", "size", "rng", "initval", "total_size", "transform", "default_transform", "default_initval"}


def known_dims(model: Any, dims: Any) -> tuple[str, ...] | None:
    """Return the dims as a tuple. Raises ValueError for one that the model does not know."""
    if dims is None:
        return None
    found = (dims,) if isinstance(dims, str) else tuple(dims)
    if unknown := [each for each in found if each not in model.dim_lengths]:
        known = ", ".join(map(repr, model.dim_lengths)) or "none"
        raise ValueError(
            f"dims {', '.join(map(repr, unknown))} have no coords in the model, which has {known}: write "
            f"pm.Model(coords={{{unknown[0]!r}: [...]}})"
        )
    return found


def check_lengths(model: Any, dims: tuple[str, ...] | None, observed: Any) -> None:
    """Check that each dim is as long as its axis of the observed numbers. Raises ValueError."""
    known = None if dims is None else _numbers(observed)
    if dims is None or known is None:
        return
    lengths = [model.dim_lengths[each] for each in dims]
    due = [present_value(pt.as_tensor_variable(length)) for length in lengths]
    if len(due) != known.ndim or any(a is not None and a != b for a, b in zip(due, known.shape, strict=True)):
        found = tuple("?" if each is None else int(each) for each in due)
        raise ValueError(f"dims {dims} have lengths {found}, but observed has shape {known.shape}")


def check_observed(observed: Any, noise: NoiseTensor) -> None:
    """Check that observed numbers are finite and, under discrete noise, whole. Raises TypeError or ValueError."""
    if observed is None:
        return
    known = _numbers(observed)
    if known is None:
        return
    if not known.size:
        raise ValueError("observed must hold at least one number, got none")
    if not np.isfinite(known).all():
        raise ValueError(f"observed must be finite, got {known[~np.isfinite(known)][0]}: leave missing releases out")
    if noise.integer_valued and (known != np.floor(known)).any():
        raise ValueError(
            f"observed must be whole numbers under {noise.family} noise, got {known[known != np.floor(known)][0]:g}"
        )


def _numbers(observed: Any) -> Any:
    """Return the observed numbers as an array, or None if they are symbolic."""
    if hasattr(observed, "owner") and hasattr(observed, "type"):
        return present_value(observed)
    try:
        if np.asarray(observed).dtype.kind in "US" or np.ma.isMaskedArray(observed):
            raise TypeError
        return np.asarray(observed, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"observed must be numbers, data of the model or a release, got {observed!r}") from None


def check_shapes(cls: Any, parameters: dict[str, Any], observed: Any, copies: int | None) -> None:
    """Check that each parameter has a value for each observation. Raises ValueError with both shapes."""
    shape = pt.as_tensor_variable(observed).type.shape
    present = _numbers(observed)
    if present is not None:
        shape = present.shape
    support = cls.support_axes(copies)
    if len(shape) < support:
        raise ValueError(f"observed must have at least {support} axes, got shape {shape}")
    due = cls.support(parameters, copies)
    if any(
        a is not None and b is not None and a != b for a, b in zip(due, shape[len(shape) - len(due) :], strict=True)
    ):
        raise ValueError(f"the last axes of observed must have lengths {due}, got shape {shape}")
    batch = shape[: len(shape) - support]
    for (what, at), core in zip(parameters.items(), cls.rv_type.ndims_params, strict=True):
        own = at.type.shape[: at.type.ndim - core]
        fits = len(own) <= len(batch) and all(
            a in {1, None} or b is None or a == b for a, b in zip(own[::-1], batch[::-1], strict=False)
        )
        if not fits:
            raise ValueError(f"{what} of shape {at.type.shape} does not fit observed of shape {shape}")


def whole(what: str, tensor: Any, least: int) -> None:
    """Check the present value, if it is known, of what must be whole numbers. Raises ValueError."""
    known = present_value(tensor)
    if known is not None and not ((known >= least) & (known == np.floor(known)) & np.isfinite(known)).all():
        raise ValueError(f"{what} must be whole and >= {least}, got {_first(known, known != np.floor(known))}")


def probability(what: str, tensor: Any) -> None:
    """Check the present value, if it is known, of what must be probabilities. Raises ValueError."""
    known = present_value(tensor)
    if known is not None and not ((known >= 0) & (known <= 1)).all():
        raise ValueError(f"{what} must lie in [0, 1], got {_first(known, ~((known >= 0) & (known <= 1)))}")


def shares(what: str, tensor: Any) -> None:
    """Check that known probabilities add up to 1 along the last axis. Raises ValueError."""
    known = present_value(tensor)
    if known is not None and (abs(known.sum(axis=-1) - 1) > ROUNDING).any():
        raise ValueError(f"{what} must add up to 1, got {known.sum(axis=-1).tolist()}")


def nonnegative(what: str, tensor: Any) -> None:
    """Check the present value, if it is known, of what must be finite and at least 0. Raises ValueError."""
    known = present_value(tensor)
    if known is not None and not ((known >= 0) & np.isfinite(known)).all():
        raise ValueError(f"{what} must be finite and >= 0, got {_first(known, ~(known >= 0))}")


def positive(what: str, tensor: Any) -> None:
    """Check the present value, if it is known, of what must be finite and above 0. Raises ValueError."""
    known = present_value(tensor)
    if known is not None and not ((known > 0) & np.isfinite(known)).all():
        raise ValueError(f"{what} must be finite and > 0, got {_first(known, ~(known > 0))}")


def _first(known: Any, wrong: Any) -> str:
    """Return the first wrong number, or else the smallest number, as text."""
    return f"{known[wrong].flat[0]:g}" if wrong.any() else f"{known.min():g}"


def check_options(what: str, given: Any) -> None:
    """Raise TypeError for an argument that no distribution has."""
    if unknown := sorted(set(given) - _ARGUMENTS):
        raise TypeError(f"{what} has no argument {unknown[0]!r}")


def check_copies(copies: Any) -> int | None:
    """Return the number of copies, or None for one observation without an axis of copies. Raises ValueError."""
    if copies is None:
        return None
    if isinstance(copies, bool) or not isinstance(copies, int | np.integer) or copies < 1:
        raise ValueError(f"copies must be whole and >= 1, got {copies!r}")
    return int(copies)
