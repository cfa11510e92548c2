"""Odd records in every container: no failure but a declared refusal, and no record in a message."""

import pyarrow as pa
import pytest

import privsample as ps
from privsample.errors import SchemaError
from tests.mechanisms.odd_records import MARK, search
from tests.properties import is_thorough

pytestmark = pytest.mark.filterwarnings("ignore")  # of the containers, which convert odd records


def test_odd_records_are_released_or_refused_by_a_rule():
    found = search(132, 1)
    assert found.failed == []
    assert found.released > 80
    assert found.refused


@pytest.mark.long
def test_many_odd_records_are_released_or_refused_by_a_rule():
    assert search(66_000, 2 + is_thorough()).failed == []


@pytest.mark.parametrize("column", [[{MARK: 1}], [[{MARK: 1}]]], ids=["struct", "list"])
def test_the_type_of_a_column_shows_no_key_of_a_record(column):
    """Arrow makes the keys of dictionaries the fields of a type."""
    data = pa.chunked_array([pa.array(column)])
    assert MARK in str(data.type)
    grouped = ps.by("g", ps.LaplaceSum(bounds=(0, 1), scale=1), keys=["a"], unlisted="drop")
    for release in (
        lambda: ps.DirectPosterior(model=ps.BetaBernoulli(alpha=1, beta=1), n=1).release(data),
        lambda: grouped.release((data, [1.0])),
    ):
        with pytest.raises(SchemaError) as caught:
            release()
        assert MARK not in str(caught.value)
        assert str(data.type).split("<")[0] in str(caught.value)
