"""Checks of parameters. Each check negates the accepting test, so that NaN fails, and states what was expected."""

import math
import operator
from collections.abc import Callable, Container, Mapping
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
Real = FloatArray | np.float64 | float
LARGEST_INTEGER = 2**53  # up to here a float holds every whole number
_PLURALS = {
    "analysis": "analyses",
    "child": "children",
    "datum": "data",
    "index": "indices",
    "man": "men",
    "matrix": "matrices",
    "person": "people",
    "woman": "women",
}
_MOST_NUMBERS = 400_000_000  # doubles that one array of draws may hold


def number(**named: Any) -> float:
    """A real number as a float; a bool, text or an array raises TypeError."""
    ((name, item),) = named.items()
    if isinstance(item, (bool, np.bool_, str, bytes)):
        raise TypeError(f"{name} must be a number, got {item!r}")
    if getattr(item, "ndim", 0) != 0:
        raise TypeError(f"{name} must be a single number, got an array of shape {item.shape}")
    try:
        return float(item)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} must be a number that fits a float, got {type(item).__name__}") from None


def positive(**named: Any) -> float:
    """A finite number > 0."""
    ((name, item),) = named.items()
    result = number(**named)
    if not (0.0 < result < np.inf):
        raise ValueError(f"{name} must be finite and > 0, got {item!r}")
    return result


def nonnegative(**named: Any) -> float:
    """A finite number >= 0."""
    ((name, item),) = named.items()
    result = number(**named)
    if not (0.0 <= result < np.inf):
        raise ValueError(f"{name} must be finite and >= 0, got {item!r}")
    return result


def finite(**named: Any) -> float:
    """A finite number."""
    ((name, item),) = named.items()
    result = number(**named)
    if not (-np.inf < result < np.inf):
        raise ValueError(f"{name} must be finite, got {item!r}")
    return result


def count_noun(count: int, noun: str) -> str:
    """A count with its noun: "1 record", "2 records", "2 entries"."""
    return f"{count} {noun if count == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """The plural of an English noun, or of the last word of several: "entries", "hospital visits", "people"."""
    *before, last = noun.split(" ")
    low = last.lower()
    if low in _PLURALS:
        word = last[0] + _PLURALS[low][1:]
    elif low.endswith("y") and low[-2:-1] not in "aeiou":
        word = f"{last[:-1]}ies"
    else:
        word = last + ("es" if low.endswith(("s", "x", "z", "ch", "sh")) else "s")
    return " ".join([*before, word])


def open_unit_interval(**named: Any) -> float:
    """A number in (0, 1]."""
    ((name, item),) = named.items()
    result = number(**named)
    if not (0.0 < result <= 1.0):
        raise ValueError(f"{name} must lie in (0, 1], got {item!r}")
    return result


def prior_factor(**named: Any) -> float:
    """A finite number >= 1: the weight of a prior."""
    ((name, item),) = named.items()
    result = number(**named)
    if not (1.0 <= result < math.inf):
        former = f"; {name}={1 / result:.6g} is what {result:g} was for prior_divisor" if 0 < result < 1 else ""
        raise ValueError(
            f"{name} must be finite and >= 1, got {item!r}: for a weaker prior, lower the parameters of the prior"
            f"{former}"
        )
    return result


def probability(**named: Any) -> float:
    """A number in [0, 1): the range of delta."""
    ((name, item),) = named.items()
    result = number(**named)
    if not (0.0 <= result < 1.0):
        raise ValueError(f"{name} must lie in [0, 1), got {item!r}")
    return result


def inner_probability(probability: float) -> float:
    """The probability of an interval, in (0, 1). Raises TypeError or ValueError."""
    given = number(probability=probability)
    if not 0.0 < given < 1.0:
        raise ValueError(f"probability must lie in (0, 1), got {probability!r}")
    return given


def coefficient(**named: Any) -> float:
    """A number in [0, 1]."""
    ((name, item),) = named.items()
    value = number(**named)
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must lie in [0, 1], got {item!r}")
    return value


def whole_number(**named: Any) -> int:
    """A whole number of any sign as an int: 3, numpy.int64(3) and 3.0 become 3; bools, text and 3.5 are refused."""
    ((name, item),) = named.items()
    if getattr(item, "ndim", 0) != 0:
        raise TypeError(f"{name} must be a single whole number, got an array of shape {item.shape}")
    if isinstance(item, np.ndarray):
        item = item.item()
    if isinstance(item, (float, np.floating)):
        if not np.isfinite(item) or item != np.floor(item):
            raise ValueError(f"{name} must be a whole number, such as 3 or 3.0, got {item!r}")
        return int(item)
    try:
        if isinstance(item, (bool, np.bool_)):
            raise TypeError
        return operator.index(item)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, such as 3 or 3.0, got {item!r}") from None


def positive_integer(**named: Any) -> int:
    """A `whole_number` from 1 to 2**53."""
    return _integer_from(1, named)


def nonnegative_integer(**named: Any) -> int:
    """A `whole_number` from 0 to 2**53."""
    return _integer_from(0, named)


def _integer_from(least: int, named: dict[str, Any]) -> int:
    """A whole number from `least` to 2**53."""
    ((name, _),) = named.items()
    result = whole_number(**named)
    if not result >= least:
        raise ValueError(f"{name} must be at least {least}, got {_readable_count(result)}")
    if not result <= LARGEST_INTEGER:
        raise ValueError(f"{name} must be at most 2**53, which a float still holds, got {_readable_count(result)}")
    return result


def check_memory(numbers: int, *, lower: str) -> None:
    """Check that `numbers` doubles fit in memory, before anything is drawn.

    Raises ValueError, whose message names in `lower` what to reduce.
    """
    if not numbers <= _MOST_NUMBERS:
        raise ValueError(
            f"{_readable_count(numbers)} numbers would have to be held in memory at once, at most {_MOST_NUMBERS:,}: "
            f"lower {lower}"
        )


def _readable_count(count: int) -> str:
    """A whole number in digits, or its length in bits if it is very long."""
    bits = count.bit_length()
    return f"{count:,}" if bits <= 64 else f"one of {bits} bits"


def listed(**named: Any) -> tuple[Any, ...]:
    """The elements of a list, tuple or array; text and single numbers raise TypeError."""
    ((name, item),) = named.items()
    if isinstance(item, (str, bytes)) or not np.iterable(item):
        raise TypeError(f"{name} must be a list, got {item!r}")
    return tuple(item)


def is_encodable(text: str) -> bool:
    """True if UTF-8 can encode the text, which lone surrogates prevent: pages and files of such text cannot be written.

    Undecodable bytes in the name of a file or a column become lone surrogates.
    """
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def one_of(item: object, names: Container[str]) -> bool:
    """True if `item` is a string among `names`."""
    return isinstance(item, str) and item in names


def flag(**named: Any) -> bool:
    """True or False; anything else raises TypeError."""
    ((name, item),) = named.items()
    if not isinstance(item, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {type(item).__name__}")
    return bool(item)


def mapping(**named: Any) -> dict[Any, Any]:
    """A copy of a mapping as a dict."""
    ((name, item),) = named.items()
    if not isinstance(item, Mapping):
        raise TypeError(f"{name} must be a mapping, as a dict is, got {type(item).__name__}")
    return dict(item)


def function(*takes: str, **named: Any) -> Callable[..., Any]:
    """A callable that is not a class, and that can be called with the positional arguments described in `takes`."""
    ((name, item),) = named.items()
    if not callable(item) or isinstance(item, type):
        raise TypeError(f"{name} must be a function, got {type(item).__name__}")
    if takes:
        try:
            shape = signature(item)
        except (TypeError, ValueError):  # compiled functions may not tell their arguments
            return item
        try:
            shape.bind(*takes)
        except TypeError:
            raise TypeError(
                f"{name} must be a function of {count_noun(len(takes), 'argument')} ({', '.join(takes)}), got one with "
                f"the signature {shape}"
            ) from None
    return item


def numbers_of(returned: Any, name: str) -> FloatArray:
    """What a user's function returned, as an array of floats; NaN is allowed. Raises TypeError without any number."""
    try:
        return np.asarray(returned, dtype=np.float64)
    except Exception:  # noqa: BLE001 - the message could show what was returned
        raise TypeError(f"{name} must return an array of real numbers, got {type(returned).__name__}") from None


def interval(**named: Any) -> tuple[float, float]:
    """Two finite numbers (low, high) with low < high."""
    ((name, item),) = named.items()
    try:
        low, high = item
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a pair (low, high), got {item!r}") from None
    low, high = finite(**{f"{name}[0]": low}), finite(**{f"{name}[1]": high})
    if not high - low < np.inf:
        raise ValueError(f"{name} must have a finite width, got ({low}, {high})")
    if not low < high:
        raise ValueError(f"{name} must have low < high, got ({low}, {high})")
    return low, high


def real_array(**named: ArrayLike) -> FloatArray:
    """An array of floats without NaN."""
    ((name, item),) = named.items()
    try:
        result = np.asarray(item, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} must be real numbers, got {type(item).__name__}") from None
    if holds_text(item):  # NumPy converts text to numbers
        raise TypeError(f"{name} must be real numbers, got text")
    if np.isnan(result).any():
        raise ValueError(f"{name} must not contain NaN")
    return result


def nonnegative_numbers(**named: ArrayLike) -> tuple[float, ...]:
    """A list of finite numbers >= 0."""
    ((name, _),) = named.items()
    values = real_array(**named)
    if values.ndim != 1 or not np.all((values >= 0.0) & (values < np.inf)):
        raise ValueError(f"{name} must be a list of finite numbers >= 0, got {values.tolist()}")
    return tuple(values.tolist())


def holds_text(item: ArrayLike) -> bool:
    """True if the item is text, or an array or nested list with text."""
    found = np.asarray(item)
    return found.dtype.kind in "SU" or (
        found.dtype.kind == "O" and any(isinstance(entry, (str, bytes)) for entry in found.flat)
    )


def renyi_orders(orders: ArrayLike) -> FloatArray:
    """Orders of Rényi divergences: finite and above one, any shape."""
    result = real_array(orders=orders)
    if not np.all((result > 1.0) & (result < np.inf)):
        raise ValueError("orders must be finite and > 1; towards infinity rdp approaches the pure guarantee epsilon(0)")
    return result


def deltas(delta: ArrayLike) -> FloatArray:
    """Values of delta in [0, 1), of any shape."""
    result = real_array(delta=delta)
    if not np.all((result >= 0.0) & (result < 1.0)):
        wrong = result[~((result >= 0.0) & (result < 1.0))]
        raise ValueError(f"delta must lie in [0, 1), got {float(wrong.flat[0])!r}")
    return result


def rates(**named: ArrayLike) -> FloatArray:
    """Probabilities in [0, 1], of any shape."""
    ((name, _),) = named.items()
    result = real_array(**named)
    if not np.all((result >= 0.0) & (result <= 1.0)):
        wrong = result[~((result >= 0.0) & (result <= 1.0))]
        raise ValueError(f"{name} must lie in [0, 1], got {float(wrong.flat[0])!r}")
    return result


def generator(rng: np.random.Generator | None) -> np.random.Generator:
    """The caller's generator, or a new one that reads the operating system's entropy if `rng` is None.

    Raises TypeError for a seed: a release that can be reproduced from a number is not private.
    """
    if rng is None:
        from privsample._entropy import system_generator

        return system_generator()
    if isinstance(rng, np.random.Generator):
        return rng
    raise TypeError(
        f"rng must be a numpy.random.Generator or None, got {type(rng).__name__}: a seeded release is not private. "
        "Leave rng out to draw from the system's entropy; in a simulation pass numpy.random.default_rng(seed)."
    )
