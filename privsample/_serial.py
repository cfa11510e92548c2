"""Conversion of frozen values to plain data and back, exact for every float; the format is in docs/guides/files.md.

A value is `{"type": [package, name, version], field: ...}`. Before format 2 it was `{"type": name, field: ...}`, which
is read as version 1 of one of privsample's own classes.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from privsample._registry import OWN, find, registered_classes, registration_of, unregistered
from privsample.errors import NotRegistered, PrivateContent

_SPECIAL = {"inf": math.inf, "-inf": -math.inf}


def encode(item: Any) -> Any:
    """Convert a value to plain dictionaries, lists, text and finite numbers.

    Raises NotRegistered for a value of an unregistered class, TypeError for functions, and PrivateContent.
    """
    if isinstance(item, Enum):
        return {"type": registration_of(type(item)).tag, "name": item.name}
    if isinstance(item, (float, np.generic)):
        return _number(item)
    if item is None or isinstance(item, (bool, int, str)):
        return item
    if getattr(item, "never_written", False):
        raise PrivateContent("this depends on the data and was not paid for: it cannot be written")
    if is_dataclass(item) and not isinstance(item, type):
        head = {"type": registration_of(type(item)).tag}
        return head | {f.name: _field(item, getattr(item, f.name)) for f in fields(item) if f.init}
    return _container(item)


def _field(owner: Any, item: Any) -> Any:
    """A field as plain data. Raises TypeError for a function, with what the owner's class says about it."""
    advice = getattr(type(owner), "_why_not_saved", None)
    if advice and callable(item) and not is_dataclass(item):
        raise TypeError(advice)
    return encode(item)


def _number(item: Any) -> Any:
    """A float or NumPy scalar as plain data; infinities as dictionaries. NaN raises ValueError."""
    if isinstance(item, np.generic):
        plain = item.item()
        if isinstance(plain, np.generic) or not isinstance(plain, (int, float, str)):  # no Python number is as long
            raise unregistered(type(item))
        return encode(plain)
    if math.isnan(item):
        raise ValueError("NaN cannot be saved: it equals no value that could be loaded; expected a number")
    if math.isinf(item):
        return {"type": "float", "name": "inf" if item > 0 else "-inf"}
    return item


def _container(item: Any) -> Any:
    """An array, set, sequence or mapping as plain data."""
    if isinstance(item, np.ndarray):
        return encode(item.tolist())
    if isinstance(item, (set, frozenset)):
        return {"type": "set", "items": sorted((encode(x) for x in item), key=str)}
    if isinstance(item, (list, tuple)):
        return [encode(x) for x in item]
    if isinstance(item, Mapping):
        return {"type": "mapping", "items": [[encode(key), encode(entry)] for key, entry in item.items()]}
    if callable(item):
        raise TypeError(f"a function cannot be saved, got {item!r}: name a field or a draw in its place")
    raise unregistered(type(item))


def storable(item: Any) -> Any:
    """As `encode`, after a check that values of other packages are restored equal to the originals.

    Raises ValueError for a value that would be restored differently.
    """
    document = encode(item)
    if registered_classes() and _names_others(document) and not _comes_back(document, item):
        raise ValueError(
            f"the {type(item).__name__} cannot be stored exactly: what was loaded would not be equal to it; let its "
            "dataclass compare by content, and its fields be what __init__ takes"
        )
    return document


def _names_others(document: Any) -> bool:
    """True if the document contains a tag of another package."""
    if isinstance(document, dict):
        tag = document.get("type")
        return (isinstance(tag, list) and tag[0] != OWN) or any(_names_others(entry) for entry in document.values())
    return isinstance(document, list) and any(_names_others(entry) for entry in document)


def _comes_back(document: Any, item: Any) -> bool:
    """True if the decoded document equals the original value."""
    try:
        return bool(decode(document) == item)
    except (ValueError, TypeError):
        return False


def decode(item: Any) -> Any:
    """Convert plain data back to the value that `encode` was given; lists become tuples.

    Raises ValueError (or its subclass NotRegistered) if the data do not describe a value of a registered class.
    """
    if isinstance(item, list):
        return tuple(decode(x) for x in item)
    if not isinstance(item, dict):
        return item
    document = dict(item)
    tag = document.pop("type", None)
    if tag == "float" and document.get("name") in _SPECIAL:
        return _SPECIAL[document["name"]]
    if tag == "set":
        return frozenset(decode(x) for x in document.get("items", []))
    if tag == "mapping":
        return dict(decode(pair) for pair in document.get("items", []))
    package, name, version = _parts(tag)
    registered = find(package, name)
    try:
        if issubclass(registered.cls, Enum):
            return registered.cls[document["name"]]
        found = {key: decode(entry) for key, entry in document.items()}
        return registered.cls(**registered.upgraded(name, version, found))
    except (KeyError, TypeError) as error:
        raise ValueError(f"the document does not describe a {name}: {error}") from None


def _parts(tag: Any) -> tuple[str, str, int]:
    """Package, name and version of a tag. Raises NotRegistered."""
    match tag:
        case str():
            return OWN, tag, 1
        case [str(package), str(name), int(version)] if version >= 1 and not isinstance(version, bool):
            return package, name, version
    raise NotRegistered(f"the document names {tag!r}, which is not a class of this version of privsample")


def parse_json(text: str) -> Any:
    """JSON text as plain data.

    Raises ValueError if the text is not JSON, or if an object names a field twice, which other readers of the same file
    could read differently; RecursionError if it is nested too deeply.
    """
    return json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_number)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object of the document names a field twice")
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def document_digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical form of a document: all its fields except "digest".

    The canonical form is ASCII JSON with sorted fields and without spaces, in which each double is its shortest
    decimal. It detects accidental changes; whoever changes a document on purpose can compute a new digest.

    Raises ValueError for numbers that are not finite, which JSON text such as 1e999 can hold.
    """
    content = {name: item for name, item in document.items() if name != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
