"""Whole numbers of any type are the same field, wherever one is asked for."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

import privsample as ps
from privsample._checks import nonnegative_integer, positive_integer, whole_number
from tests.mechanisms.examples import EXAMPLES

MORE = (
    ps.GammaPoisson(shape=2, rate=2, upper=3),
    ps.LinearRegression(feature_bounds=((0, 1),), target_bounds=(0, 1), shape=2, scale=1),
    ps.RandomizedResponse(log_odds=1.0, relation=ps.AddRemove(), slots=3),
    ps.WithoutReplacement(n=5, m=2),
)


def parts(item, found):
    """The value and all values in its fields, with its account and its relation."""
    if isinstance(item, (tuple, list)):
        for each in item:
            parts(each, found)
    if not is_dataclass(item) or isinstance(item, type) or any(item is each for each in found):
        return found
    found.append(item)
    for name in (*(field.name for field in fields(item)), "accountant", "relation"):
        parts(getattr(item, name, None), found)
    return found


def whole_fields():
    """Every whole number in a field of the examples, once for each class."""
    found = []
    for start in (*MORE, *(example.mechanism for example in EXAMPLES.values())):
        parts(start, found)
    cases = {}
    for item in found:
        for field in fields(item):
            value = getattr(item, field.name, None)
            if field.init and field.type in (int, int | None) and isinstance(value, int):
                cases.setdefault((type(item).__name__, field.name), (item, field.name))
    return cases


CASES = whole_fields()


@pytest.mark.parametrize(("item", "name"), CASES.values(), ids=["-".join(key) for key in CASES])
def test_every_type_of_whole_number_is_taken_and_nothing_else(item, name):
    value = getattr(item, name)
    for form in (float(value), np.float64(value), np.int64(value), np.array(value)):
        made = replace(item, **{name: form})
        assert type(getattr(made, name)) is int
        assert made == item
        assert hash(made) == hash(item)
    for wrong in (True, np.True_, str(value), [value], np.array([value])):
        with pytest.raises(TypeError, match=rf"{name} must be a "):
            replace(item, **{name: wrong})
    for wrong in (value + 0.5, np.nan, np.inf):
        with pytest.raises(ValueError, match=rf"{name} must be a whole number, such as 3 or 3.0, got "):
            replace(item, **{name: wrong})


def test_the_search_finds_fields():
    assert {("GammaPoisson", "upper"), ("SGDAccountant", "public_tail"), ("OneBit", "missing")} <= set(CASES)
    assert len(CASES) > 40


def test_the_shared_checks():
    assert whole_number(n=-3.0) == -3
    assert whole_number(n=10**400) == 10**400
    assert nonnegative_integer(n=-0.0) == 0
    assert positive_integer(n=2.0**53) == 2**53
    with pytest.raises(ValueError, match=r"n must be at most 2\*\*53"):
        positive_integer(n=1e300)
    with pytest.raises(ValueError, match="n must be at least 0, got -1"):
        nonnegative_integer(n=-1.0)
