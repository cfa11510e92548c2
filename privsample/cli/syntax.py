"""Parsers that convert option text to field values according to the type hints of the fields.

Several numbers are separated by commas, the rows of a matrix by semicolons. An instance of a class is written as the
name of the class and its fields, `poisson-sampling rate=0.1`, in parentheses inside another instance; or as the name
of a JSON file with its fields.
"""

import json
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING
from dataclasses import fields as dataclass_fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from privsample._serial import decode
from privsample.cli.errors import nearest
from privsample.cli.options import names, number, numbers, phrase, whole_number
from privsample.mechanisms.arguments import Argument, arguments, command_name, field_of_kind, has_relation
from privsample.mechanisms.discovery import classes_of
from privsample.relations import AddRemove, Relation, ReplaceOne

Reader = Callable[[str], Any]
_YES, _NO = ("yes", "true"), ("no", "false")


def reader(argument: Argument) -> Reader:
    """Return the parser of an option; it raises ArgumentTypeError with a one-line message."""
    if argument.choices:
        return _one_of(argument.choices)
    if argument.name == "unit":
        return phrase
    if argument.name in ("n", "draws"):
        return whole_number
    return _of_kind(argument.kind)


def metavar(argument: Argument) -> str:
    """Return the placeholder of the value in the help."""
    if argument.metavar:
        return argument.metavar
    if argument.name == "unit":
        return "WORD"
    kind = _without_none(argument.kind)
    if kind is float:
        return "X"
    if kind is int:
        return "N" if argument.name == "n" else "K"
    origin, parts = get_origin(kind), get_args(kind)
    if argument.choices or origin is Literal:
        return "|".join(argument.choices or map(str, parts))
    if origin is tuple and parts == (float, float):
        return "LO,HI" if argument.name == "bounds" else "A,B"
    if (origin is tuple and parts[0] in (int, float)) or origin is np.ndarray:
        return "A,B,..."
    return argument.name.upper().replace("_", "-")


def _of_kind(kind: Any) -> Reader:
    """Return the parser for a type hint. Raises: TypeError, if its values cannot be written as text."""
    kind = _without_none(kind)
    origin, parts = get_origin(kind), get_args(kind)
    simple: Mapping[Any, Reader] = {float: number, int: _integer, str: phrase, bool: _yes_or_no}
    if kind in simple:
        return simple[kind]
    if origin is Literal:
        return _one_of({str(part): part for part in parts})
    if origin is tuple and all(part in (int, float, ...) for part in parts):
        return _tuple_of(parts)
    if origin is tuple and parts == (str, ...):
        return names
    if origin is tuple and get_origin(parts[0]) is tuple and parts[1:] == (...,):
        row = _of_kind(parts[0])
        return lambda text: tuple(map(row, _rows(text)))
    if origin is tuple and parts[1:] == (...,):
        return lambda text: tuple(value(parts[0], one) for one in _values(_strip_parentheses(text)))
    if origin is np.ndarray:
        return array
    if origin in (Union, UnionType):
        return _first_of([_of_kind(part) for part in parts if _is_written(part)])
    if _is_written(kind):
        return lambda text: value(kind, text)
    raise TypeError(f"{kind} cannot be written on a command line")


def _is_written(kind: Any) -> bool:
    """Return True if values of this type can be written as text."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(map(_is_written, parts))
    if origin is tuple:
        return all(part is ... or _is_written(part) for part in parts)
    if kind in (float, int, str, bool) or origin in (Literal, np.ndarray):
        return True
    return isinstance(kind, type) and origin is None and kind is not Any


def is_written(argument: Argument) -> bool:
    """Return True if the option can be given on a command line."""
    return bool(argument.choices) or _is_written(argument.kind)


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        parts = [part for part in get_args(kind) if part is not NoneType and _is_written(part)]
        return parts[0] if len(parts) == 1 else Union[tuple(parts)]  # noqa: UP007 - the parts are known at run time
    return kind


def _integer(text: str) -> int:
    return whole_number(text, least=-(2**63))


def _yes_or_no(text: str) -> bool:
    if text.lower() not in _YES + _NO:
        raise ArgumentTypeError(f"expected yes or no, got {text!r}")
    return text.lower() in _YES


def _one_of(choices: Mapping[str, Any]) -> Reader:
    def read(text: str) -> Any:
        if text not in choices:
            raise ArgumentTypeError(f"invalid choice: {text!r} (choose from {', '.join(choices)})")
        return choices[text]

    return read


def _tuple_of(parts: Sequence[Any]) -> Reader:
    size = None if ... in parts else len(parts)
    one: Reader = _integer if parts[0] is int else number

    def read(text: str) -> tuple[Any, ...]:
        found = tuple(one(part.strip()) for part in text.split(","))
        if size is not None and len(found) != size:
            counted = {2: "two numbers such as 0,10"}.get(size, f"{size} numbers with commas between them")
            raise ArgumentTypeError(f"expected {counted}, got {text!r}")
        return found

    return read


def _first_of(readers: Sequence[Reader]) -> Reader:
    """Return a parser that tries each reader in turn and raises the error of the last one."""

    def read(text: str) -> Any:
        for one in readers[:-1]:
            try:
                return one(text)
            except ArgumentTypeError:
                continue
        return _without_nan(readers[-1](text), text)

    return read


def _without_nan(found: Any, text: str) -> Any:
    """The value, unless it is a list of names that are numbers and NaN. Raises ArgumentTypeError."""
    if isinstance(found, tuple) and "nan" in {str(name).lower().lstrip("+-") for name in found}:
        others = [name for name in found if str(name).lower().lstrip("+-") != "nan"]
        if all(map(_is_number, others)):
            raise ArgumentTypeError(f"expected numbers, or names, with commas between them, got {text!r} with NaN")
    return found


def _is_number(text: Any) -> bool:
    try:
        number(text)
    except (ArgumentTypeError, TypeError):
        return False
    return True


def array(text: str) -> Any:
    """Parse numbers separated by commas, with semicolons between rows, or the name of a JSON file of lists."""
    if text.endswith(".json"):
        with _option_errors():
            return np.asarray(_document(text), dtype=np.float64)
    rows = [numbers(row) for row in text.split(";")]
    if len({len(row) for row in rows}) > 1:
        raise ArgumentTypeError(f"expected rows of one length, got {text!r}")
    return np.array(rows if len(rows) > 1 else rows[0])


def value(kind: type, text: str) -> Any:
    """Parse an instance of this class or a subclass from its name and fields. Raises: ArgumentTypeError."""
    text = _strip_parentheses(text)
    if text.endswith(".json") and " " not in text:
        return _from_file(kind, text)
    words, known = list(_words(text)), {command_name(cls): cls for cls in classes_of(kind)}
    if not known:
        raise ArgumentTypeError(f"no {kind.__name__} can be written on a command line")
    if not any(all(is_written(one) for one in arguments(cls) if one.required) for cls in known.values()):
        names = ", ".join(one.name for cls in known.values() for one in arguments(cls))
        raise ArgumentTypeError(f"expected the name of a JSON file with the fields {names}, got {text!r}")
    if len(known) == 1 and (not words or "=" in words[0]):
        (cls,) = known.values()
    elif not words or "=" in words[0]:
        raise ArgumentTypeError(f"expected a name and its fields, such as {_example(known)!r}, got {text!r}")
    else:
        name = words.pop(0)
        if name not in known:
            raise ArgumentTypeError(f"there is no {name!r}{nearest([name], known)}; expected one of {', '.join(known)}")
        cls = known[name]
    with _option_errors():
        return cls(**assemble(cls, dict(_fields(cls, words)), _option_name))


def _from_file(kind: type, name: str) -> Any:
    """Read an instance from a JSON file, either a saved value or an object of its fields."""
    with _option_errors():
        found = _document(name)
        if isinstance(found, dict) and "type" in found:
            made = decode(found)
        elif isinstance(found, dict):
            (cls,) = classes_of(kind)
            made = cls(**found)
        else:
            raise ValueError(f"{name} must hold a JSON object with the value's fields")
        if not isinstance(made, kind):
            raise TypeError(f"{name} holds a {type(made).__name__}, expected a {kind.__name__}")
        return made


def _document(name: str) -> Any:
    try:
        return json.loads(Path(name).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ValueError(f"{name} is not JSON") from None


@contextmanager
def _option_errors() -> Iterator[None]:
    """Convert errors about parameters, which are public, to errors of the option."""
    try:
        yield
    except ArgumentTypeError:
        raise
    except (ValueError, TypeError, ArithmeticError) as error:
        raise ArgumentTypeError(str(error)) from None


def _fields(cls: type, words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Parse each `field=value` and yield name and value."""
    known = {argument.name: argument for argument in arguments(cls)}
    for word in words:
        name, sign, text = word.partition("=")
        name = name.replace("-", "_")
        if not sign or name not in known:
            options = " ".join(f"{_option_name(one)}=..." for one in known)
            raise ArgumentTypeError(f"{command_name(cls)} does not take {word!r}; expected {options}")
        try:
            yield name, reader(known[name])(_strip_parentheses(text) if known[name].kind in (str, float, int) else text)
        except ArgumentTypeError as error:
            raise ArgumentTypeError(f"{_option_name(name)}: {error}") from None


def _option_name(name: str) -> str:
    return name.replace("_", "-")


def _example(known: Mapping[str, type]) -> str:
    name, cls = next(iter(known.items()))
    needed = [one for one in arguments(cls) if one.required]
    return " ".join([name, *(f"{_option_name(one.name)}=..." for one in needed)])


def assemble(
    cls: Any, given: Mapping[str, Any], written: Callable[[str], str], optional: Sequence[str] = (), who: str = ""
) -> dict[str, Any]:
    """Return the fields of a class from the values of its options; `optional` names fields that may be missing.

    Raises: ValueError, if another field is missing or the options of the relation contradict each other.
    """
    found: dict[str, Any] = {}
    relation = field_of_kind(cls, Relation) if has_relation(cls) else None
    for argument in arguments(cls):
        if argument.name not in given:
            if argument.required and argument.fields and not set(argument.fields) <= {*optional, *given}:
                raise ValueError(f"{who or command_name(cls)} needs {written(argument.name)}")
        elif len(argument.fields) > 1:
            found |= dict(zip(argument.fields, given[argument.name], strict=True))
        elif argument.fields and argument.fields != (relation,):
            found[argument.fields[0]] = given[argument.name]
    if relation is not None:
        parts = {name: given[name] for name in ("relation", "n", "unit") if name in given}
        default = next(item.default for item in dataclass_fields(cls) if item.name == relation)
        if parts or default is MISSING:
            found[relation] = _relation(parts, written)
    return found


def _relation(parts: Mapping[str, Any], written: Callable[[str], str]) -> Relation:
    """Return the relation that `relation`, `n` and `unit` describe. Raises: ValueError."""
    match parts.get("relation"), parts.get("n"):
        case None | "replace-one", int(n):
            return ReplaceOne(n=n, unit=parts.get("unit", "record"))
        case "replace-one", None:
            raise ValueError(f"replace-one needs {written('n')}, the public number of records")
        case "add-remove", int():
            raise ValueError(f"{written('n')} must be left out under add-remove, where it is not public")
        case None, None if "unit" not in parts:
            word = written("relation")
            other = f"{word}{' ' if word.startswith('-') else '='}add-remove"
            raise ValueError(f"the relation is missing: give {written('n')} where it is public, or {other}")
    return AddRemove(unit=parts.get("unit", "record"))


def _words(text: str) -> Iterator[str]:
    """Split text at spaces outside parentheses. Raises: ArgumentTypeError."""
    word, depth = "", 0
    for sign in text + " ":
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            break
        if sign.isspace() and not depth:
            if word:
                yield word
            word = ""
        else:
            word += sign
    if depth:
        raise ArgumentTypeError(f"the parentheses of {text!r} do not match")


def _rows(text: str) -> list[str]:
    """Split rows of numbers, with semicolons between them or each in parentheses."""
    inner = _strip_parentheses(text)
    return [_strip_parentheses(one) for one in _values(inner)] if "(" in inner else inner.split(";")


def _strip_parentheses(text: str) -> str:
    """Remove parentheses that enclose the whole text."""
    inner = text.strip()
    while inner.startswith("(") and inner.endswith(")") and _encloses(inner):
        inner = inner[1:-1].strip()
    return inner


def _encloses(text: str) -> bool:
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if not depth:
            return place == len(text) - 1
    return False


def _values(text: str) -> Iterator[str]:
    """Split text into several values in parentheses, or return the whole text as one value."""
    inner = text.strip()
    parts = list(_words(inner))
    return iter(parts if parts and all(part.startswith("(") and part.endswith(")") for part in parts) else [inner])
