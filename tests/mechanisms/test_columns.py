"""Text in a column: counted as text for the curator, and never a reason to fail or to say how long a record is."""

import numpy as np
import pyarrow as pa
import pytest

import privsample as ps

SUM = ps.GaussianSum(noise_std=1, bounds=(0, 1), relation=ps.ReplaceOne(n=4))
WORDS = ["yes", "no", None, "Zaphod Beeblebrox"]


def test_text_in_lists_and_objects_is_counted_as_text_and_nothing_fails():
    for data in (WORDS, tuple(WORDS), np.array(WORDS, dtype=object)):
        assert SUM.validate(data).facts == {"missing": 1, "text": 3}
        assert np.isnan(ps.read_column(data)).all()
        SUM.release(data)
    assert SUM.validate([b"a", "", " ", 1]).facts == {"missing": 2, "text": 1}


@pytest.mark.parametrize(
    "mechanism",
    [
        SUM,
        ps.DiffusedPosterior(model=ps.BetaBernoulli(alpha=1, beta=1), n=4, data_weight=0.5),
        ps.BetaQuery(alpha=1, beta=1, bounds=(0, 1), n=4),
        ps.RandomizedResponse(log_odds=1, relation=ps.ReplaceOne(n=4)),
        ps.NoisyStatistics(model=ps.BetaBernoulli(alpha=1, beta=1), n=4, noise="laplace", scale=1),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_each_mechanism_of_a_column_tells_text_from_what_is_missing(mechanism):
    assert mechanism.validate(WORDS).facts == {"missing": 1, "text": 3}


@pytest.mark.parametrize("kind", ["U", "S", "T"])
def test_arrays_of_text_are_refused_without_telling_how_long_a_record_is(kind):
    column = np.array(["yes", "no", "no", "Zaphod Beeblebrox"])
    column = column.astype(np.dtypes.StringDType() if kind == "T" else kind)
    noise = ps.LaplaceMechanism(sensitivity=1, scale=1, shape=(4,))
    posterior = ps.LogisticPosterior(n=4, features=1, norm=1, prior_std=1)
    for mechanism, data in ((SUM, column), (noise, column), (posterior, (column[:, None], np.zeros(4)))):
        with pytest.raises(ps.errors.SchemaError, match="text") as caught:
            mechanism.release(data)
        assert "17" not in str(caught.value)


def test_arrow_columns_of_categories_are_read_by_what_the_categories_are():
    for kind in (pa.int8(), pa.float32(), pa.bool_()):
        encoded = pa.chunked_array([pa.array([1, 0, None, 1]).cast(kind).dictionary_encode()])
        assert SUM.validate(encoded).facts == {"missing": 1}
        assert ps.read_column(encoded)[[0, 1, 3]].tolist() == [1.0, 0.0, 1.0]
    for column in (pa.chunked_array([pa.array(WORDS).dictionary_encode()]), pa.chunked_array([pa.array(WORDS)])):
        with pytest.raises(ps.errors.SchemaError, match="the column holds text") as caught:
            SUM.validate(column)
        assert "Zaphod" not in str(caught.value)


def test_pandas_columns_of_booleans_are_ones_and_zeros():
    pd = pytest.importorskip("pandas")
    for kind in (object, "boolean", "category"):
        column = pd.Series([True, False, None, True], dtype=kind)
        assert SUM.validate(column).facts == {"missing": 1}
        assert ps.read_column(column)[[0, 1, 3]].tolist() == [1.0, 0.0, 1.0]
    with pytest.raises(ps.errors.SchemaError, match="the column holds text"):
        SUM.release(pd.Series(["yes", "no", "no", "yes"]).astype("category"))


def test_the_bits_that_mark_text_change_no_release():
    text, missing = [["a", 1, 0, 1], [None, 1, 0, 1]]
    first, second = (SUM.release(data, rng=np.random.default_rng(1))["sum"] for data in (text, missing))
    assert first.tolist() == second.tolist()
