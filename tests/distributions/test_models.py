"""Models: the public rule for records is total, statistics add up, and absorbing data is taking the posterior."""

import decimal
import fractions

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from privsample import BetaBernoulli, DirichletCategorical, GammaExponential, GammaPoisson, NormalKnownVariance
from privsample.errors import SchemaError

MODELS = [
    BetaBernoulli(alpha=2, beta=3),
    BetaBernoulli(alpha=2, beta=3, fractional=True),
    DirichletCategorical(alpha=(1.0, 2.0, 0.5)),
    GammaPoisson(shape=2, rate=1, upper=9),
    GammaExponential(shape=2, rate=1, upper=2.5),
    NormalKnownVariance(mean=0, variance=2, noise_variance=1, bounds=(-1.5, 2.0)),
]
each = pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
RAW = [0, 1, 1, 0, 1]
CANARY = 424242.5


def by_rule(model, value):
    """The public rule for one value, written out once more."""
    d = model.domain
    if value != value or (d.outside_is_missing and not d.low <= value <= d.high):
        return d.missing
    value = min(max(value, d.low), d.high)
    return float(round(value)) if d.integer_valued else value


@each
def test_the_rule_is_total(model):
    odd = [np.nan, np.inf, -np.inf, -0.0, 0.5, 1.5, 2.5, 0.4999, -3.0, 7.0, 1e300, -1e300, 5e-324]
    expected = model.statistic(np.array([by_rule(model, x) for x in odd]))
    total, count = model.summarize(np.array(odd))
    assert np.allclose(total, expected)
    assert count == len(odd)
    assert np.isfinite(total).all()


@each
@given(hnp.arrays(st.sampled_from([np.float64, np.float32, np.float16]), st.integers(0, 30)))
def test_any_floats_give_a_statistic_inside_the_domain(model, data):
    total, count = model.summarize(data)
    assert count == len(data)
    low, high = sorted((model.domain.low, model.domain.high))
    if isinstance(model, DirichletCategorical):
        assert total.sum() == count
        assert (total >= 0).all()
    else:
        assert count * low - 1e-9 <= total <= count * high + 1e-9
    assert np.isfinite(model.posterior(total, count).mean).all()


@each
def test_every_container_gives_the_same(model):
    containers = [
        RAW,
        tuple(RAW),
        [bool(x) for x in RAW],
        *(np.array(RAW, dtype=t) for t in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "O")),
        np.array(RAW, dtype=">f8"),
        np.array([RAW, RAW]).T[:, 0],
        np.ma.masked_array([*RAW[:-1], 1], mask=[False] * 5),
        pd.Series(RAW),
        pd.Series(RAW, dtype="float64", index=[9, 8, 7, 7, 7]),
        pd.Series(RAW, dtype="Int64"),
        pd.Series(RAW, dtype="boolean"),
        pd.Series(RAW, dtype="Float32"),
        pd.Series(RAW, dtype="int64[pyarrow]"),
        pd.Series(RAW, dtype="bool[pyarrow]"),
        pd.DataFrame({"x": RAW})["x"],
        pl.Series(RAW),
        pl.Series([bool(x) for x in RAW]),
        pd.DataFrame({"x": RAW}),
        pl.DataFrame({"x": RAW}),
        pa.chunked_array([RAW[:2], [], RAW[2:]]),
        pa.table({"x": RAW}),
        pa.table({"x": pa.array(RAW, pa.decimal128(5, 2))}),
        pa.RecordBatchReader.from_batches(pa.schema({"x": pa.int64()}), pa.table({"x": RAW}).to_batches(2)),
    ]
    expected, _ = model.summarize(np.array(RAW, dtype=float))
    for data in containers:
        total, count = model.summarize(data)
        assert count == 5
        assert np.array_equal(total, expected), type(data)


@each
def test_missing_values_are_the_public_default(model):
    expected, _ = model.summarize(np.array([1.0, np.nan, 0.0]))
    for data in (
        [1, None, 0],
        np.ma.masked_array([1, 1, 0], mask=[False, True, False]),
        np.array([1, None, 0], dtype=object),
        np.array([1, "text", 0], dtype=object),
        pd.Series([1, None, 0]),
        pd.Series([1, None, 0], dtype="Int64"),
        pd.Series([True, None, False], dtype="boolean"),
        pd.Series([1, None, 0], dtype="int64[pyarrow]"),
        pl.Series([1, None, 0]),
        pl.Series([True, None, False]),
        pa.chunked_array([[1, None], [0]]),
        pa.table({"x": pa.array([True, None, False])}),
        pa.table({"x": pa.array([1.0, float("nan"), 0.0])}),
    ):
        total, count = model.summarize(data)
        assert count == 3
        assert np.array_equal(total, expected), type(data)


class Hostile:
    """An object whose conversion to a float fails in its own way."""

    def __float__(self):
        raise RuntimeError("a record speaks")


@each
def test_objects_never_fail(model):
    odd = [1, None, "x", decimal.Decimal("0.5"), decimal.Decimal("NaN"), fractions.Fraction(1, 2), Hostile(), 10**400]
    odd += [
        -(10**400),
        2**70,
        -0.0,
        b"1",
        [1],
        {},
        1j,
        np.float16(1),
        np.datetime64("2020-01-01"),
        decimal.Decimal("sNaN"),
    ]
    data = np.empty(len(odd), dtype=object)
    data[:] = odd
    total, count = model.summarize(data)
    assert count == len(odd)
    assert np.isfinite(total).all()


@pytest.mark.parametrize(
    "data",
    [
        "text",
        b"bytes",
        CANARY,
        None,
        {"x": [CANARY]},
        np.array(CANARY),
        np.array([[CANARY, 1.0]]),
        np.array([str(CANARY)]),
        np.array([CANARY], dtype=complex),
        np.array(["2020-01-01"], dtype="M8[D]"),
        pd.DataFrame({"x": [CANARY], "y": [1.0]}),
        pd.Series([str(CANARY)]),
        pd.Series([str(CANARY)], dtype="category"),
        pl.Series([str(CANARY)]),
        pl.DataFrame({"x": [CANARY], "y": [1.0]}),
        pa.chunked_array([[str(CANARY)]]),
        pa.table({"x": [CANARY], "y": [1.0]}),
        pa.table({"x": [[CANARY]]}),
        iter([CANARY]),
        {CANARY},
    ],
    ids=lambda data: type(data).__name__,
)
def test_a_wrong_schema_is_refused_and_no_message_holds_a_record(data):
    with pytest.raises(SchemaError) as caught:
        MODELS[1].summarize(data)
    shown = caught.value
    while shown is not None:  # all that a traceback would print
        assert "424242" not in str(shown)
        shown = None if shown.__suppress_context__ else shown.__context__


@each
def test_absorbing_is_the_posterior(model, rng):
    data = model.domain.clean(rng.random(20) * 4 - 1)
    statistic, count = model.summarize(data)
    later = model.with_public_data(data)
    assert type(later) is type(model)
    assert np.allclose(later.prior.mean, model.posterior(statistic, count).mean)
    assert np.allclose(later.prior.variance, model.posterior(statistic, count).variance)
    half, rest = model.with_public_data(data[:7]), data[7:]
    both = half.posterior(*half.summarize(rest))
    assert np.allclose(both.mean, later.prior.mean)
    assert np.allclose(both.variance, later.prior.variance)


@each
def test_no_data_is_the_prior(model):
    total, count = model.summarize(np.empty(0))
    assert count == 0
    assert np.array_equal(total, model.empty)
    assert model.posterior(total, 0) == model.prior


@each
def test_weights(model, rng):
    """Data weight r counts each record r times; prior weight w takes the prior w times."""
    data = model.domain.clean(rng.random(20) * 4 - 1)
    statistic, count = model.summarize(data)
    assert np.allclose(
        model.posterior(statistic, count, data_weight=0.5).mean, model.posterior(statistic / 2, count / 2).mean
    )
    concentrated = model.posterior(statistic, count, prior_weight=2)
    diffused = model.posterior(statistic, count, data_weight=0.5)
    assert np.allclose(concentrated.mean, diffused.mean)  # one ratio of prior to data, at two scales
    assert (concentrated.variance < diffused.variance).all()


@each
def test_simulated_records_lie_in_the_domain(model, rng):
    theta = model.prior.sample(1, rng)[0]
    records = model.simulate(theta, 500, rng)
    assert records.shape == (500,)
    assert np.array_equal(model.domain.clean(records), records)
    assert model.domain.problems(records) == {"missing": 0, "text": 0, "outside": 0, "fractional": 0}
    assert model.domain.description
    assert model.parameter.isidentifier()


def test_problems_are_counted():
    chunk = np.array([0.0, 1.0, np.nan, 7.0, -np.inf, 0.5])
    assert MODELS[0].domain.problems(chunk) == {"missing": 1, "text": 0, "outside": 2, "fractional": 1}
    assert MODELS[1].domain.problems(chunk) == {"missing": 1, "text": 0, "outside": 2, "fractional": 0}


@pytest.mark.parametrize(
    "build",
    [
        lambda: BetaBernoulli(alpha=0, beta=1),
        lambda: BetaBernoulli(alpha=1, beta=np.nan),
        lambda: DirichletCategorical(alpha=(1.0,)),
        lambda: DirichletCategorical(alpha=(1.0, -1.0)),
        lambda: GammaPoisson(shape=1, rate=1, upper=0),
        lambda: GammaExponential(shape=1, rate=1, upper=np.inf),
        lambda: NormalKnownVariance(mean=np.nan, variance=1, noise_variance=1, bounds=(0, 1)),
        lambda: NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(1, 0)),
        lambda: NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=3),
    ],
)
def test_bad_parameters(build):
    with pytest.raises(ValueError, match=r"must"):
        build()


@pytest.mark.parametrize("wrong", ["1", True, [1.0], None, 10**400])
def test_parameters_must_be_numbers(wrong):
    with pytest.raises((TypeError, ValueError)):
        BetaBernoulli(alpha=wrong, beta=1)
