"""Which records of a unit count: a public hash of the unit decides, and prefers no value and no group."""

import numpy as np
import pytest

from privsample.mechanisms.groups.contribution import Contribution, bits_of, mix

UNITS = 20_000


def counted(values, records, places=None, groups=1, choose=None):
    """The values that count, of units that each have all of `values` in one group."""
    units = np.repeat(np.arange(UNITS), len(values))
    every = np.tile(values, UNITS)
    bounds = Contribution(groups=groups, records=records)
    places = np.zeros(len(units), dtype=int) if places is None else np.tile(places, UNITS)
    return (choose or bounds.bounded)(units, places, every), every


def by_value_alone(units, places, values):
    """A broken copy: an order of the values that is the same for all units."""
    del places
    order = np.lexsort((mix(bits_of(values)), units))
    found = np.zeros(len(units), dtype=bool)
    found[order[np.append(True, units[order][1:] != units[order][:-1])]] = True
    return found


@pytest.mark.parametrize("values", [[0, 1], [0, 0, 0, 1], [0.5, -0.0, 0.0, 7.25], [0, 1, 2, 3, 4]])
@pytest.mark.parametrize("records", [1, 2])
def test_each_record_of_a_unit_is_equally_likely_to_count(values, records):
    values = np.array(values)
    chosen, every = counted(values, records)
    assert chosen.sum() == UNITS * min(records, len(values))
    found = every[chosen].mean()
    error = values.std() / np.sqrt(UNITS * records)
    assert abs(found - values.mean()) < 5 * error  # the hash is fixed: this never fails by chance


def test_an_order_of_the_values_alone_is_biased():
    chosen, every = counted(np.array([0, 1]), 1, choose=by_value_alone)
    assert every[chosen].mean() in {0.0, 1.0}


def test_ties_between_groups_prefer_no_group():
    chosen, _ = counted(np.zeros(4, dtype=int), 1, places=[0, 1, 2, 3], groups=1)
    shares = np.bincount(np.tile(np.arange(4), UNITS)[chosen]) / UNITS
    assert np.abs(shares - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / UNITS)


def test_groups_with_most_records_come_first():
    places = np.array([3, 1, 1])
    bounds = Contribution(groups=1, records=2)
    for unit in range(50):
        assert bounds.bounded(np.full(3, unit), places, np.array([0, 1, 0])).tolist() == [False, True, True]


def test_the_order_of_the_rows_does_not_matter():
    rng = np.random.default_rng(3)
    units, places, values = rng.integers(0, 50, 600), rng.integers(0, 3, 600), rng.integers(0, 3, 600)
    bounds = Contribution(groups=2, records=2)

    def kept(order):
        chosen = bounds.bounded(units[order], places[order], values[order])
        return sorted(zip(*(each[order][chosen].tolist() for each in (units, places, values)), strict=True))

    assert kept(np.arange(600)) == kept(rng.permutation(600)) == kept(np.arange(600)[::-1])
