"""What a sequential audit was started with, as digests by which its file recognises it."""

import hashlib
import json
from dataclasses import fields, is_dataclass
from functools import partial
from types import CodeType, FunctionType, MethodType
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


def _function(function: Any) -> list[Any]:
    """Return the name and the code of a function, with the numbers and texts that it is bound to.

    Of an object, the name of its class and the numbers and texts of its fields, if it is a dataclass. Other values are
    left out, because a call may change them.
    """
    if isinstance(function, MethodType):
        return ["method", *_function(function.__func__), *_function(function.__self__)]
    if isinstance(function, partial):
        bound = (*function.args, *sorted(function.keywords.items()))
        return ["partial", *_function(function.func), *map(_constant, bound)]
    named = function if hasattr(function, "__qualname__") else type(function)
    found = [named.__module__, named.__qualname__]
    if is_dataclass(function) and not isinstance(function, type):
        found += [_constant(getattr(function, one.name)) for one in fields(function)]
    if isinstance(function, FunctionType):
        bound = (*(function.__defaults__ or ()), *(cell.cell_contents for cell in function.__closure__ or ()))
        found += [_code(function.__code__), *map(_constant, bound)]
    return found


def _code(code: CodeType) -> list[Any]:
    """Return the instructions, names and constants of a function, which do not depend on the process."""
    constants = [_code(one) if isinstance(one, CodeType) else _constant(one) for one in code.co_consts]
    return [code.co_code.hex(), list(code.co_names), constants]


def _constant(item: Any) -> str:
    """Return a number, a text or a tuple of such as text, and the name of the type of anything else."""
    if isinstance(item, tuple):
        return ", ".join(map(_constant, item))
    return repr(item) if isinstance(item, (int, float, complex, str, bytes)) else type(item).__qualname__


def _datasets(builders: tuple[Any, Any]) -> str:
    """Return a digest of both datasets; of their types, if they cannot be pickled."""
    from joblib import hash as content_hash

    found = [build() for build in builders]
    try:
        return str(content_hash(found, hash_name="sha1"))
    except Exception:  # noqa: BLE001 - any object may be a dataset, and its own code pickles it
        return _digest([type(data).__qualname__ for data in found])
