"""Independent outputs of a mechanism or function as an array of numbers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Real
from pickle import PicklingError
from typing import Any, TypeVar

import numpy as np

from privsample._checks import FloatArray, check_memory
from privsample.accounting.base import Accountant
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.draws import one_draw, release_row
from privsample.mechanisms.neighbours import Draw, Loss, Neighbours

Sampler = Callable[[Any, np.random.Generator], Any]
Summary = TypeVar("Summary")

_BLOCK = 20_000
_PARTS, _LEAST_PART = 8, 8  # blocks of a batch of pairs on one dataset, and draws in a block
_NUMBERS = 1 << 22  # numbers that one release holds in memory


def draw_outputs(case: Neighbours, data: Callable[[], Any], count: int, rng: np.random.Generator) -> FloatArray:
    """Draw `count` outputs on one dataset, shape (count, width), through joblib in blocks with separate generators.

    Raises: ValueError, if outputs are not finite numbers or do not fit into memory; RuntimeError, if a draw raises;
    TypeError, if joblib cannot send the function to other processes.
    """
    check_memory(count * case.width, lower="samples")
    blocks = list(draw_blocks(case, data, count, rng, _itself))
    _check_same_width(blocks)
    return np.concatenate(blocks)


def draw_blocks(
    case: Neighbours,
    data: Callable[[], Any],
    count: int,
    rng: np.random.Generator,
    summary: Callable[[FloatArray], Summary],
) -> Iterator[Summary]:
    """Draw `count` outputs on one dataset, and yield the summary of each block of them, shape (draws, width).

    Only a few blocks are in memory at a time. Raises: as `draw_outputs`.
    """
    held, sizes = data(), [min(_BLOCK, count - done) for done in range(0, count, _BLOCK)]
    work = zip(sizes, rng.spawn(len(sizes)), strict=True)
    yield from _run_blocks((case.draw, held, size, source, summary) for size, source in work)


def draw_pairs(
    case: Neighbours, datasets: tuple[Any, Any], count: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw `count` outputs on each of two datasets, through joblib in at most eight blocks of each.

    Raises: as `draw_outputs`.
    """
    size = max(-(-count // _PARTS), _LEAST_PART)
    sizes = [min(size, count - done) for done in range(0, count, size)] * 2
    held = [data for data in datasets for _ in range(len(sizes) // 2)]
    work = zip(held, sizes, rng.spawn(len(sizes)), strict=True)
    blocks = list(_run_blocks((case.draw, data, part, source, _itself) for data, part, source in work))
    _check_same_width(blocks)
    half = len(sizes) // 2
    return np.concatenate(blocks[:half]), np.concatenate(blocks[half:])


def _run_blocks(work: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Run `_block` on each tuple of arguments through joblib. Raises: TypeError, if joblib cannot send the function."""
    from joblib import Parallel, delayed

    try:
        yield from Parallel(return_as="generator")(delayed(_block)(*arguments) for arguments in work)
    except PicklingError:
        raise TypeError(
            "the function or its data cannot be sent to other processes: run it in this one (n_jobs=1), or in threads "
            '(joblib.parallel_config(backend="threading"))'
        ) from None


def _itself(table: FloatArray) -> FloatArray:
    return table


def draw_both_outputs(case: Neighbours, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw `count` outputs on each of the two datasets. Raises: the errors of `draw_outputs`."""
    first, second = (draw_outputs(case, data, count, rng) for data in case.datasets)
    _check_same_width((first, second))
    return first, second


def _check_same_width(tables: Sequence[FloatArray]) -> None:
    check_widths({table.shape[1] for table in tables})


def check_widths(found: set[int]) -> None:
    """Check that all outputs hold equally many numbers. Raises: ValueError."""
    widths = sorted(found)
    if len(widths) > 1:
        raise ValueError(
            f"outputs must keep their shape, on either dataset, got {widths[0]} numbers and then {widths[1]}: a shape "
            "that depends on the data is not private"
        )


def _block(
    draw: Draw, data: Any, count: int, rng: np.random.Generator, summary: Callable[[FloatArray], Summary]
) -> Summary:
    table = draw(data, count, rng).reshape(count, -1)
    if not np.isfinite(table).all():
        raise ValueError("the mechanism's outputs must be finite numbers, got NaN or infinity")
    return summary(table)


def check_subject(subject: object) -> None:
    """Check that the subject is a mechanism or a function. Raises: TypeError."""
    if isinstance(subject, type):
        raise TypeError(f"audit a mechanism or a function of (data, rng), got a class: call {subject.__name__}(...)")
    if not (isinstance(subject, Mechanism) or callable(subject)):
        raise TypeError(f"audit a mechanism or a function of (data, rng), got {type(subject).__name__}")


def sampler(subject: Mechanism | Sampler) -> tuple[Draw, Accountant | None]:
    """Return a function that makes many draws from the subject, and the account of one draw of a mechanism."""
    if isinstance(subject, Mechanism):
        one = one_draw(subject)
        many = one._many_draws(one)
        if many is not None:
            return partial(_draw_in_blocks, many), one.accountant
        return _repeat_function(lambda data, rng: release_row(one.release(data, rng=rng))), one.accountant
    return _repeat_function(subject), None


def of_all_draws(mechanism: Mechanism, case: Neighbours) -> Neighbours:
    """The pair of datasets for a whole release: one output is all its draws, and the account is the mechanism's.

    Draws of the library's mechanisms are independent given the data (tests/simulations/test_many_draws.py), so that one
    release makes those of many, and the loss is the sum over the draws. Any other mechanism releases anew for each
    output, and its loss is not known, because its draws may depend on one another.
    """
    draws = getattr(mechanism, "draws", 1)
    if draws == 1 or case.account is None:
        return case
    whole: dict[str, Any] = {"account": mechanism.accountant, "width": draws * case.width}
    if one_draw(mechanism)._many_draws(one_draw(mechanism)) is None:
        return replace(case, draw=_repeat_function(partial(_numbers_by_draw, mechanism)), loss=None, **whole)
    loss = None if case.loss is None else partial(_sum_of_losses, case.loss, draws)
    return replace(case, draw=partial(_joined, case.draw, draws), loss=loss, **whole)


def _joined(draw: Draw, draws: int, data: Any, count: int, rng: np.random.Generator) -> FloatArray:
    """Outputs of that many independent draws each, in a row."""
    return draw(data, count * draws, rng).reshape(count, -1)


def _numbers_by_draw(mechanism: Any, data: Any, rng: np.random.Generator) -> FloatArray:
    """All numbers of one release in a row, draw by draw, as `_joined` has them."""
    drawn = mechanism.release(data, rng=rng).draws
    return np.column_stack([drawn[name].reshape(mechanism.draws, -1) for name in sorted(drawn)]).ravel()


def _sum_of_losses(loss: Loss, draws: int, outputs: FloatArray) -> FloatArray:
    """The log density ratio of several independent draws in a row."""
    return loss(outputs.reshape(len(outputs) * draws, -1)).reshape(len(outputs), draws).sum(axis=1)


def _repeat_function(function: Sampler) -> Draw:
    return lambda data, count, rng: _draw_one_by_one(function, data, count, rng)


def _draw_in_blocks(many: Draw, data: Any, count: int, rng: np.random.Generator) -> FloatArray:
    """Draw through releases of many draws each, with bounded memory."""
    before, blocks, done = _array_contents(data), [], 0
    size = count if count * _count_numbers(data) <= _NUMBERS else 1  # first release: one draw, if the data are large
    while done < count:
        try:
            blocks.append(many(data, size, rng).reshape(size, -1))
        except Exception as error:
            raise _draw_error("a draw", error) from error
        width, done = blocks[0].shape[1], done + size
        check_memory(count * width, lower="samples")
        size = min(max(_NUMBERS // width, 1), count - done)
    _check_unchanged(data, before)
    return np.concatenate(blocks)


def _draw_error(which: str, error: Exception) -> RuntimeError:
    return RuntimeError(
        f"{which} raised {type(error).__name__}: {error}. An audit needs an output for every draw; if failure is part "
        "of the mechanism, return a number that encodes it"
    )


def _check_unchanged(data: Any, before: list[bytes]) -> None:
    if _array_contents(data) != before:
        raise ValueError(
            "the function modified its dataset, so draws are not identically distributed; modify a copy instead"
        )


def _draw_one_by_one(function: Sampler, data: Any, count: int, rng: np.random.Generator) -> FloatArray:
    rows, shape, before = [], None, _array_contents(data)
    for index in range(count):
        try:
            output = function(data, rng)
        except Exception as error:
            raise _draw_error(f"draw {index + 1}", error) from error
        row = _output_array(output)
        if shape is not None and row.shape != shape:
            raise ValueError(f"outputs must keep their shape, got {shape} and then {row.shape}")
        shape = row.shape
        check_memory(count * row.size, lower="samples")
        rows.append(row.ravel())
    _check_unchanged(data, before)
    return np.array(rows)


def _output_array(output: Any) -> FloatArray:
    """Convert an output to a nonempty array of real numbers. Raises: ValueError."""
    try:
        found = np.asarray(output)
        if found.dtype == object and all(isinstance(item, Real) for item in found.flat):
            found = found.astype(np.float64)  # fractions, and integers of any length
    except (TypeError, ValueError, OverflowError):  # ragged, not an array, or beyond the range of floats
        found = np.array(None)
    if found.dtype.kind not in "biuf":
        what = type(output).__name__ + ("" if found.dtype == object else f" of {found.dtype}")
        raise ValueError(f"an output must be a number or an array of real numbers, got {what}")
    if not found.size:
        raise ValueError(f"an output must hold at least one number, got an array of shape {found.shape}")
    return found.astype(np.float64)


def _count_numbers(data: Any) -> int:
    """Count the numbers in a dataset, at least 1."""
    parts = data.values() if isinstance(data, Mapping) else data if isinstance(data, tuple) else (data,)
    return sum(len(part) if isinstance(part, list) else np.size(part) for part in parts) or 1


def _array_contents(data: Any) -> list[bytes]:
    """Return the bytes of the arrays of a dataset."""
    return [part.tobytes() for part in (data if isinstance(data, tuple) else (data,)) if isinstance(part, np.ndarray)]
