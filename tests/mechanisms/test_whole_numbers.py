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


def test_every_field_takes_whole_numbers_of_other_types_and_nothing_else():
    """Each field with a value of each outcome; `test_the_shared_checks` tries the other types."""
    cases = whole_fields()
    assert {("GammaPoisson", "upper"), ("SGDAccountant", "public_tail"), ("OneBit", "missing")} <= set(cases)
    assert len(cases) > 40
    for key, (item, name) in cases.items():
        value = getattr(item, name)
        made = replace(item, **{name: float(value)})
        assert type(getattr(made, name)) is int, key
        assert made == item, key
        assert hash(made) == hash(item), key
        for wrong in (True, str(value)):
            with pytest.raises(TypeError, match=rf"{name} must be a "):
                replace(item, **{name: wrong})
        with pytest.raises(ValueError, match=rf"{name} must be a whole number, such as 3 or 3.0, got "):
            replace(item, **{name: value + 0.5})


def test_the_shared_checks():
    for form in (3.0, np.float64(3.0), np.int64(3), np.array(3)):
        assert type(whole_number(n=form)) is int
        assert whole_number(n=form) == 3
    for wrong in (True, np.True_, "3", [3], np.array([3])):
        with pytest.raises(TypeError, match="n must be a "):
            whole_number(n=wrong)
    for wrong in (3.5, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"n must be a whole number, such as 3 or 3.0, got "):
            whole_number(n=wrong)
    assert whole_number(n=-3.0) == -3
    assert whole_number(n=10**400) == 10**400
    assert nonnegative_integer(n=-0.0) == 0
    assert positive_integer(n=2.0**53) == 2**53
    with pytest.raises(ValueError, match=r"n must be at most 2\*\*53"):
        positive_integer(n=1e300)
    with pytest.raises(ValueError, match="n must be at least 0, got -1"):
        nonnegative_integer(n=-1.0)
