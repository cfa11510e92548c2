"""All engines return the tally of the mechanism itself, whatever the type of the column and the values in it."""

from decimal import Decimal

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import privsample as ps
from privsample.engines import units
from privsample.engines.duckdb_engine import DuckDBEngine
from privsample.engines.polars_engine import PolarsEngine

SPECIAL = [np.nan, -np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e308, -1e308, 2.0**53, 0.5, 1.5, 2.5, -2.5, 7.25]
KEYS = ["north", "south", 'o\'brien "x"', "ä", ""]
SUM = ps.GaussianSum(bounds=(0, 10), noise_std=1)
MECHANISMS = {
    "sum": SUM,
    "inner ends": ps.LaplaceSum(bounds=(-7.3, 100.25), scale=1),
    "halves": ps.LaplaceSum(bounds=(-3, 3), scale=1, grid=0.5),
    "far": ps.LaplaceSum(bounds=(1e15, 1e15 + 1), scale=1, grid=0.125),
    "wide": ps.LaplaceSum(bounds=(-1e290, 1e290), scale=1e290),
    "counts": ps.NoisyStatistics(model=ps.GammaPoisson(1, 1, upper=5), n=1, scale=1.0),
    "posterior": ps.DirectPosterior(model=ps.BetaBernoulli(alpha=6, beta=12), n=1),
    "codes": ps.NoisyStatistics(model=ps.DirichletCategorical(alpha=(1, 1, 1)), n=1, scale=1.0),
}
COLUMNS = {
    "float64": lambda rng: pa.array(np.concatenate([SPECIAL, rng.normal(3, 4, 80)])),
    "float32": lambda rng: pa.array(np.concatenate([SPECIAL, rng.normal(3, 4, 80)]).astype(np.float32)),
    "int8": lambda rng: pa.array(rng.integers(-4, 12, 90).astype(np.int8)),
    "int64": lambda rng: pa.array(np.concatenate([[2**63 - 1, -(2**63), 2**53 + 1], rng.integers(-4, 12, 90)])),
    "uint64": lambda rng: pa.array(np.concatenate([[2**64 - 1], rng.integers(0, 12, 90)]).astype(np.uint64)),
    "boolean": lambda rng: pa.array(rng.random(90) < 0.5),
    "decimal": lambda rng: pa.array([Decimal(int(n)) / 100 for n in rng.integers(-300, 900, 90)], pa.decimal128(9, 2)),
    "long decimal": lambda rng: pa.array(
        [Decimal(f"{n}e-17") for n in rng.integers(0, 2**62, 90)], pa.decimal128(38, 17)
    ),
    "null": lambda rng: pa.nulls(90),
}


def table(column, rng, *, nulls=0.15):
    values = pa.array([None if rng.random() < nulls else item for item in column], column.type)
    size = len(values)
    return pa.table(
        {
            "x": values,
            "key": pa.array(rng.choice(KEYS, size)),
            "number": rng.integers(-2, 3, size),
            "unit": rng.integers(0, max(size // 4, 1), size),
        }
    )


def sources(rows):
    """The engines, each with a source of the rows in its own form."""
    yield "arrow", rows
    yield "duckdb", rows
    yield "duckdb", rows.to_reader(7)
    if not pa.types.is_null(rows["x"].type):
        yield "duckdb", duckdb.connect().from_arrow(rows)
        yield "polars", pl.from_arrow(rows).lazy()


def assert_equal_tallies(rows, mechanism, **how):
    chosen = [rows[how[name]] for name in ("unit", "by") if name in how]
    expected = mechanism.tally((*chosen, rows["x"]) if chosen else rows["x"])
    for engine, source in sources(rows):
        assert ps.tally_source(source, mechanism, columns="x", engine=engine, **how) == expected, engine


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("name", MECHANISMS)
def test_all_engines_return_the_tally_of_the_mechanism(name, kind, rng):
    mechanism, rows = MECHANISMS[name], table(COLUMNS[kind](rng), rng)
    assert_equal_tallies(rows, mechanism)
    sizes = None if isinstance(mechanism, (ps.GaussianSum, ps.LaplaceSum)) else (1,) * 5
    assert_equal_tallies(rows, ps.by("key", mechanism, keys=KEYS, sizes=sizes), by="key")
    assert_equal_tallies(rows, ps.by("key", mechanism, keys=range(-2, 3), sizes=sizes), by="number")
