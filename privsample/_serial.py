"""Frozen values to plain data and back: {"type": public name, fields...}, exact for every float."""

import math
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from privsample.errors import PrivateContent

_SPECIAL = {"inf": math.inf, "-inf": -math.inf}


def encode(item: Any) -> Any:
    """Plain dictionaries, lists, text and finite numbers."""
    if isinstance(item, Enum):
        return {"type": type(item).__name__, "name": item.name}
    if getattr(item, "never_written", False):
        raise PrivateContent("this depends on the data and was not paid for: it cannot be written")
    if is_dataclass(item) and not isinstance(item, type):
        return {"type": type(item).__name__} | {f.name: encode(getattr(item, f.name)) for f in fields(item) if f.init}
    if isinstance(item, np.ndarray):
        return encode(item.tolist())
    if isinstance(item, (set, frozenset)):
        return {"type": "set", "items": sorted((encode(x) for x in item), key=str)}
    if isinstance(item, (list, tuple)):
        return [encode(x) for x in item]
    if isinstance(item, float) and math.isinf(item):
        return {"type": "float", "name": "inf" if item > 0 else "-inf"}
    if callable(item):
        raise TypeError(f"a function cannot be saved, got {item!r}: name a field or a draw in its place")
    return item


def decode(item: Any) -> Any:
    """What `encode` was given; lists come back as tuples. Raises: ValueError, for a type that is not a public value."""
    if isinstance(item, list):
        return tuple(decode(x) for x in item)
    if not isinstance(item, dict):
        return item
    document = dict(item)
    kind = document.pop("type", None)
    if kind == "float" and document.get("name") in _SPECIAL:
        return _SPECIAL[document["name"]]
    if kind == "set":
        return frozenset(decode(x) for x in document.get("items", []))
    cls = _public_class(kind)
    try:
        if issubclass(cls, Enum):
            return cls[document["name"]]
        return cls(**{name: decode(entry) for name, entry in document.items()})
    except (KeyError, TypeError) as error:
        raise ValueError(f"the document does not describe a {kind}: {error}") from None


def _public_class(kind: Any) -> Any:
    import privsample

    cls = getattr(privsample, kind, None) if isinstance(kind, str) and kind in privsample.__all__ else None
    if not (isinstance(cls, type) and (is_dataclass(cls) or issubclass(cls, Enum))):
        raise ValueError(f"the document names {kind!r}, which is no value of this version of privsample")
    return cls
