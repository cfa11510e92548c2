"""The examples of all mechanisms, found by themselves, and data for them: no test keeps a list of mechanisms."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from privsample.simulations.audit.catalogue import catalogue

EXAMPLES = catalogue()
each_example = pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)


def several_draws():
    """The examples, and those that can draw several times once more with three draws: mechanisms by name."""
    found = {name: example.mechanism for name, example in EXAMPLES.items()}
    more = {f"{name}-3": replace(one, draws=3) for name, one in found.items() if getattr(one, "draws", None) == 1}
    return found | more


MECHANISMS = several_draws()
each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)


def data_for(mechanism):
    """Data that the mechanism takes: the first of its worst neighbours."""
    return worst_neighbours_of(mechanism)[0].datasets[0]()


@cache
def worst_neighbours_of(mechanism):
    """The worst neighbours, which take up to half a second to find, once for all tests."""
    return mechanism.worst_neighbours()


def columns_of_records(data):
    """The names of the private columns: the symbols, but not the profiles, or all columns."""
    return ["symbol"] if "profile" in data else list(data)


def is_of_names(part):
    """Whether a column holds names of groups or units, which are the public schema or do not matter."""
    return np.asarray(part).dtype.kind == "U"


def changed(data, change):
    """The same with all arrays of records changed; names of profiles, groups and units stay."""
    if isinstance(data, tuple):
        return tuple(part if is_of_names(part) else change(np.asarray(part)) for part in data)
    if isinstance(data, dict):
        return data | {name: change(np.asarray(data[name])) for name in columns_of_records(data)}
    return change(np.asarray(data))


ODD = [None, "x", 10**400, True, b"1", 1j, [1], {}, -0.0, np.inf, np.nan, -(10**400)]


def odd(data, start=0):
    """The same with values of every kind in place of numbers."""

    def fill(array):
        filled = np.empty(array.size, dtype=object)
        filled[:] = [ODD[(start + k) % len(ODD)] for k in range(array.size)]
        return filled.reshape(array.shape)

    return changed(data, fill)


def floats_like(data):
    """Any floats in place of the numbers, as a strategy."""
    if isinstance(data, tuple):
        return st.tuples(*(st.just(part) if is_of_names(part) else floats_like(part) for part in data))
    if isinstance(data, dict):
        private = {name: floats_like(data[name]) for name in columns_of_records(data)}
        return st.fixed_dictionaries(private).map(lambda found: data | found)
    return hnp.arrays(st.sampled_from([np.float64, np.float32, np.float16]), np.shape(data))
