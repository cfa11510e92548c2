"""What a sequential audit was started with, as digests by which its file recognises it."""

import hashlib
import json
from pickle import PicklingError
from typing import Any

from privsample._serial import encode
from privsample.errors import NotRegistered
from privsample.simulations.audit.task import AuditTask


def identity(task: AuditTask) -> dict[str, str]:
    """Return a digest of each part of the audit that must not change when it is continued."""
    return {
        "claim": _digest([[float(e).hex(), float(d).hex()] for e, d in zip(task.epsilons, task.claims, strict=True)]),
        "mechanism": _subject(task.subject),
        "datasets": _digest([[*case.descriptions, _datasets(case.datasets)] for case in task.cases]),
        "loss": _digest([_function(case.loss) if case.loss is not None else None for case in task.cases]),
        "level": float(task.level).hex(),
        "view": task.view,
    }


def _digest(document: Any) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _subject(subject: Any) -> str:
    """Return a digest of a mechanism's fields, or of the name and the code of a function."""
    try:
        return _digest(encode(subject))
    except (NotRegistered, TypeError, ValueError):
        return _digest(_function(subject))


def _function(function: Any) -> list[str]:
    """Return the name of a function or of the class of an object, and the code of a function, not what it refers to."""
    named = function if hasattr(function, "__qualname__") else type(function)
    code = getattr(function, "__code__", None)
    return [named.__module__, named.__qualname__, *([] if code is None else [code.co_code.hex(), str(code.co_names)])]


def _datasets(builders: tuple[Any, Any]) -> str:
    """Return a digest of both datasets; of their types, if they cannot be pickled."""
    from joblib import hash as content_hash

    found = [build() for build in builders]
    try:
        return str(content_hash(found, hash_name="sha1"))
    except (PicklingError, TypeError, AttributeError):
        return _digest([type(data).__qualname__ for data in found])
