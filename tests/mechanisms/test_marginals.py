"""Noisy marginal tables: counting, the public rule, sensitivity, and arguments."""

from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import privsample as ps
from privsample.errors import SchemaError

COLUMNS = {"sex": ("F", "M"), "age": ("young", "middle", "old"), "ill": 2}


def mechanism(**fields):
    return ps.NoisyMarginals(**{"columns": COLUMNS, "noise_std": 1e-6} | fields)


def counted(mechanism, data):
    """The counts behind a release with next to no noise."""
    return np.rint(mechanism.release(data)["counts"][0]).astype(int)


def test_each_count_is_that_of_its_combination_of_categories(rng):
    own = mechanism(marginals=[("ill", "age"), "sex", ("sex", "age", "ill")])
    assert own.marginals == (("age", "ill"), ("sex",), ("sex", "age", "ill"))
    codes = np.column_stack([rng.integers(size, size=200) for size in (2, 3, 2)])
    release = own.release(codes)
    expected = [
        sum(
            all(row[own.layout.names.index(name)] == code for name, code in zip(marginal, cell, strict=True))
            for row in codes
        )
        for marginal in own.marginals
        for cell in product(*(range({"sex": 2, "age": 3, "ill": 2}[name]) for name in marginal))
    ]
    assert np.rint(release["counts"][0]).astype(int).tolist() == expected
    tables = own.tables(release["counts"])
    assert {name: table.shape for name, table in tables.items()} == {
        ("age", "ill"): (1, 3, 2),
        ("sex",): (1, 2),
        ("sex", "age", "ill"): (1, 2, 3, 2),
    }
    assert np.allclose(tables["sex", "age", "ill"].sum(axis=(1, 3)), tables["age", "ill"].sum(axis=2), atol=1e-3)
    assert release.coords["cell"][:2] == ("age=young, ill=0", "age=young, ill=1")


def test_columns_by_name_and_rows_of_codes_give_the_same_counts():
    own = mechanism()
    named = {"ill": [0, 1, 1, 0], "sex": ["F", "M", "M", "F"], "age": ["old", "middle", "young", "old"]}
    codes = [[0, 2, 0], [1, 1, 1], [1, 0, 1], [0, 2, 0]]
    forms = [
        named,
        pd.DataFrame(named),
        pa.table(named),
        codes,
        np.array(codes),
        pd.DataFrame(named).astype("category"),
    ]
    records = np.array(
        [(0, 2, 0), (1, 1, 1), (1, 0, 1), (0, 2, 0)], dtype=[("sex", "i8"), ("age", "i8"), ("ill", "i8")]
    )
    first, *others = (counted(own, form).tolist() for form in [*forms, records])
    assert all(other == first for other in others)
    assert sum(first) == 12


def test_values_that_are_missing_or_not_listed_count_as_the_first_category():
    data = {"sex": ["M", None, "?", ""], "age": ["old", 7, -1, np.nan], "ill": [1, 2, "yes", None]}
    own = mechanism(marginals=[("sex", "age", "ill")])
    assert counted(own, data).tolist() == [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    notes = own.validate(data)
    assert sum(notes.facts.values()) == 9
    assert "sex" in next(iter(notes.facts))


@pytest.mark.parametrize("marginals", [None, [("sex", "age", "ill")], [("sex",), ("age",), ("ill",), ("sex", "ill")]])
def test_the_sensitivity_is_the_largest_change_of_the_counts(marginals):
    own = mechanism(marginals=marginals)
    records = np.array(list(product(range(2), range(3), range(2))))
    vectors = np.array([own.layout.counts(record[None]) for record in records])
    added = np.linalg.norm(vectors, axis=1).max()
    replaced = np.linalg.norm(vectors[:, None] - vectors, axis=2).max()
    for relation, largest in ((ps.AddRemove(), added), (ps.ReplaceOne(9), replaced)):
        one = mechanism(marginals=marginals, relation=relation)
        assert largest <= one.sensitivity <= largest * (1 + 1e-15)
        account = ps.GaussianAccountant(
            sensitivity=one.sensitivity, noise_std=1e-6, relation=relation, assumptions=frozenset()
        )
        assert one.accountant == account


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"columns": {}}, ValueError, "at least one column"),
        ({"columns": 3}, TypeError, "columns must map the name of each column to its categories, got int"),
        ({"columns": [["sex", "F"]]}, ValueError, "at least two categories, got 1"),
        ({"columns": [["a", "x", "y"], ["a", "x", "y"]]}, ValueError, "different names"),
        ({"columns": {"sex": ("F", "F")}}, ValueError, "distinct names"),
        ({"columns": {"sex": ("F", 1)}}, TypeError, "columns\\['sex'\\]: names must be a sequence of texts"),
        ({"columns": {"": 2}}, TypeError, "names that are not empty"),
        ({"columns": {"\ud800": 2}}, ValueError, "UTF-8"),
        ({"columns": {"sex": True}}, TypeError, "whole number"),
        ({"columns": {"sex": 10**12}}, ValueError, "memory"),
        ({"marginals": []}, ValueError, "at least one set"),
        ({"marginals": [()]}, ValueError, "sets of the columns"),
        ({"marginals": [("sex", "job")]}, ValueError, "sets of the columns sex, age, ill"),
        ({"marginals": [("sex", "sex")]}, ValueError, "once in a set"),
        ({"marginals": [("sex", "age"), ("age", "sex")]}, ValueError, "twice"),
        ({"marginals": [("sex", "age")]}, ValueError, "none holds ill"),
        ({"marginals": 3}, TypeError, "must be a list"),
        ({"noise_std": np.nan}, ValueError, "noise_std must be finite and > 0, got nan"),
        ({"draws": 0}, ValueError, "draws"),
        ({"relation": ps.AddRemove(members=2)}, ValueError, "one record"),
        ({"grid": 2.0}, ValueError, "grid must be at most 1"),
    ],
)
def test_wrong_fields_are_refused(fields, error, words):
    with pytest.raises(error, match=words):
        mechanism(**fields)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"sex": ["F"], "age": ["old"]}, "must have the column 'ill'"),
        ({"sex": ["F"], "age": ["old"], "ill": [0, 1]}, "equally long"),
        ([[0, 1]], "shape"),
        ({"sex": [["F"]], "age": [0], "ill": np.zeros((1, 1))}, "one column"),
        ("text", "array"),
    ],
)
def test_data_of_another_schema_are_refused(data, words):
    with pytest.raises(SchemaError, match=words):
        mechanism().release(data)


def test_the_public_number_of_records_is_checked():
    with pytest.raises(SchemaError, match="n = 3 records were declared, the data hold 1"):
        mechanism(relation=ps.ReplaceOne(3)).release([[0, 0, 0]])


def test_tallies_of_parts_give_the_tables_of_all_records(rng):
    own = mechanism(noise_std=3.0, relation=ps.ReplaceOne(90))
    codes = np.column_stack([rng.integers(size, size=90) for size in (2, 3, 2)])
    parts = [own.tally(codes[first : first + 40], part=str(first)) for first in (0, 40, 80)]
    joined = own.release(ps.merge_tallies(parts[::-1]), rng=np.random.default_rng(3))
    assert (joined["counts"] == own.release(codes, rng=np.random.default_rng(3))["counts"]).all()
    with pytest.raises(SchemaError, match="n = 90 records were declared, the data hold 40"):
        own.release(parts[0])
    with pytest.raises(TypeError, match="set exact=True"):
        mechanism(exact=False).tally(codes)


def test_rows_of_another_width_have_no_tables():
    with pytest.raises(ValueError, match="counts must have shape"):
        mechanism().tables(np.zeros(3))


def test_one_column_is_counted_alone():
    assert mechanism(columns={"sex": ("F", "M")}).marginals == (("sex",),)


def test_no_records_give_noise_alone(rng):
    release = mechanism(noise_std=2.0, exact=False).release({"sex": [], "age": [], "ill": []}, rng=rng)
    assert np.abs(release["counts"]).max() < 20
