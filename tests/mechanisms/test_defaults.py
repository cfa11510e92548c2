"""Defaults agree with each other: one field that is given never clashes with another that was left out."""

import re
from dataclasses import MISSING, field, fields, make_dataclass

import pytest

import privsample as ps
from privsample.errors import UnreachableTarget
from tests.mechanisms.examples import EXAMPLES

_NUMBERS = (1e-3, 0.05, 0.3, 1, 2, 3, 7, 40, 150, 1000)
_ESTIMATORS = (
    ps.PrivateLinearRegression,
    ps.PrivateLogisticRegression,
    ps.PrivatePoissonRegression,
    ps.PrivateSGDClassifier,
    ps.PrivateSGDRegressor,
    ps.PrivateStandardScaler,
)
# The second limits the first, as the message says, or they go together: not a clash.
LIMITS = {("released_sweeps", "sweeps"), ("public_tail", "public"), ("public", "public_tail"), ("grid", "exact")}


def required(kind):
    return [each.name for each in fields(kind) if each.init and each.default is each.default_factory is MISSING]


def optional_numbers(kind):
    """Fields whose default is a number, or left open."""
    return [
        each.name
        for each in fields(kind)
        if each.init
        and (each.default is None or (isinstance(each.default, (int, float)) and not isinstance(each.default, bool)))
    ]


def least_fields(mechanism):
    """What has to be given for one like it: the fields without default, and choices that must be made."""
    kind = type(mechanism)
    given = {name: getattr(mechanism, name) for name in required(kind)}
    open_ones = [each.name for each in fields(kind) if each.init and each.default is None]
    for more in ({}, *({name: getattr(mechanism, name)} for name in open_ones)):
        try:
            kind(**given | more)
        except (TypeError, ValueError):
            continue
        return given | more
    raise AssertionError(f"{kind.__name__} needs more than one field that has a default")


def cases():
    found = {}
    for example in EXAMPLES.values():
        kind = type(example.mechanism)
        given = least_fields(example.mechanism)
        for name in optional_numbers(kind):
            found.setdefault((kind, name), (kind, given, name))
    return [pytest.param(*case, id=f"{kind.__name__}-{name}") for (kind, name), case in found.items()]


def clashes(kind, given, name):
    """The messages that refuse a number in this field for the sake of one that was left out and has a default."""
    others = {each.name for each in fields(kind) if each.init and each.default not in (MISSING, None)} - {*given, name}
    others -= {limit for limited, limit in LIMITS if limited == name}
    found = []
    for number in _NUMBERS:
        try:
            kind(**given | {name: number})
        except (TypeError, ValueError) as error:
            if any(re.search(rf"\b{other}( must|\)? ?=)", str(error)) for other in others):
                found.append(f"{name} = {number}: {error}")
    return found


@pytest.mark.parametrize(("kind", "given", "name"), cases())
def test_no_default_of_a_mechanism_refuses_another_field(kind, given, name):
    assert clashes(kind, given, name) == []


@pytest.mark.parametrize("kind", _ESTIMATORS)
@pytest.mark.parametrize("n", [3, 100, pytest.param(5000, marks=pytest.mark.long)])
def test_no_default_of_an_estimator_refuses_another_parameter(kind, n):
    """Nor any number of records: what depends on it does so by itself."""
    defaults = kind().get_params()
    numbers = {name for name, at in defaults.items() if at is None or type(at) in (int, float)}
    for name in numbers - {"bounds", "epsilon", "delta"}:
        others = {other for other, at in defaults.items() if at is not None} - {name, "classes", "unit"}
        others -= {limit for limited, limit in LIMITS if limited == name}
        for number in _NUMBERS[::2]:
            try:
                kind(**{"bounds": (-1, 1)} | {name: number}).mechanism_for(n, 3)
            except UnreachableTarget:
                continue
            except (TypeError, ValueError) as error:
                message = str(error)
            else:
                continue
            assert not any(re.search(rf"\b{other}( must|\)? ?=)", message) for other in others), message


def test_a_clash_is_found():
    def check(made):
        if made.released_sweeps > made.sweeps:
            raise ValueError(f"released_sweeps must be at most sweeps = {made.sweeps}, got {made.released_sweeps}")

    kind = make_dataclass(
        "Clashing",
        [("sweeps", int, field(default=200)), ("released_sweeps", int, field(default=100))],
        namespace={"__post_init__": check},
    )
    assert any("sweeps = 40" in message for message in clashes(kind, {}, "sweeps"))
