"""How many records apart two datasets are, whatever they are held in."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privsample as ps
from privsample.errors import SchemaError
from privsample.simulations.audit.distance import check_neighbours

PAIRS = {
    "floats and integers": (np.array([1.0, 1.0, 0.0]), [1, 1, 1]),
    "rows": ([[1, 2], [3, 4], [5, 6]], [[1, 2], [3, 4], [5, 7]]),
    "columns": ((np.eye(3), np.zeros(3)), (np.eye(3), np.array([0, 1, 0]))),
    "words": (np.array(["a", "b", "c"]), np.array(["a", "b", "something longer"])),
    "objects": (np.array([str(b"xy", "ascii"), None, 3], dtype=object), np.array(["xy", None, 4], dtype=object)),
    "missing": (np.array([np.nan, 1.0, 2.0]), np.array([np.nan, 1.0, np.nan])),
    "pandas": (pd.DataFrame({"a": [1, 2, 3], "b": list("xyz")}), pd.DataFrame({"a": [1, 2, 3], "b": list("xyy")})),
    "polars": (pl.Series([1, 2, None]), pl.Series([1, 2, 3])),
    "Arrow": (pa.table({"a": [1, 2, 3]}), pa.table({"a": [1, 2, 4]})),
    "bits of zero and NaN": (np.array([0.0, -0.0, np.nan]), np.array([-0.0, 1.0, -np.nan])),
    "another order": (np.array([1, 2, 3]), np.array([4, 1, 2])),
}


@pytest.mark.parametrize("held", PAIRS)
def test_one_record_replaced_makes_neighbours(held):
    first, second = PAIRS[held]
    check_neighbours(ps.ReplaceOne(n=3), first, second, 1)
    with pytest.raises(ValueError, match="2 records must be added or removed"):
        check_neighbours(ps.AddRemove(), first, second, 1)
    check_neighbours(ps.AddRemove(), first, second, 2)
    with pytest.raises(ValueError, match="the same records"):
        check_neighbours(ps.ReplaceOne(n=3), first, first, 1)


def test_records_that_differ_are_counted():
    first, second = np.arange(6), np.arange(6) * 2  # 0, 2 and 4 are in both
    with pytest.raises(ValueError, match=r"3 records must be replaced .* at most 2 may; set group=3"):
        check_neighbours(ps.ReplaceOne(n=6), first, second, 2)
    with pytest.raises(ValueError, match=r"6 records must be added or removed .* set group=3"):
        check_neighbours(ps.AddRemove(members=2), first, second, 1)
    with pytest.raises(ValueError, match="6 records must be replaced"):
        check_neighbours(ps.ReplaceOne(n=6), first, first.astype("datetime64[D]"), 1)
    with pytest.raises(ValueError, match="public n = 7 records, got 6 and 6"):
        check_neighbours(ps.ReplaceOne(n=7), first, second, 3)


def test_statistics_are_as_far_apart_as_their_sensitivity_allows(rng):
    laplace = ps.LaplaceMechanism(sensitivity=1, scale=1, shape=(2,))
    gaussian = ps.GaussianMechanism(sensitivity=1, noise_std=1, shape=(2,))
    corner = np.array([0.8, 0.6])
    assert not ps.audit(gaussian, datasets=(np.zeros(2), corner), samples=500, rng=rng).violated
    assert not ps.audit(laplace, datasets=(np.zeros(2), corner), group=2, samples=500, rng=rng).violated
    for mechanism, second, message in (
        (laplace, corner, "L1 norm: they are 1.4 apart, at most 1 is"),
        (gaussian, 2 * corner, "L2 norm: they are 2 apart"),
        (gaussian, np.zeros(2), "must differ"),
        (gaussian, np.full(2, np.nan), "must differ"),
        (gaussian, np.zeros(3), "must have shape"),
    ):
        with pytest.raises((ValueError, SchemaError), match=message):
            ps.audit(mechanism, datasets=(np.zeros(2), second), samples=100, rng=rng)


G2 = ps.GaussianMechanism(sensitivity=1, noise_std=1, shape=(2,))
MOTION = ps.BrownianMotion(sensitivity=1, time=0.5, shape=(2,))


@pytest.mark.parametrize(
    "mechanism",
    [
        ps.PostNoise(base=ps.PostNoise(base=G2, noise=1), noise=1),
        ps.NoisyContraction(base=G2, steps=(ps.NoisyStep(map=ps.Scaling(factor=0.8), noise_std=1),)),
        MOTION,
        ps.MultilevelRelease(base=MOTION, times=(1.0, 2.0)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_begins_with_a_noisy_statistic_takes_pairs_of_statistics(mechanism, rng):
    corner = np.array([0.8, 0.6])
    assert not ps.audit(mechanism, datasets=(np.zeros(2), corner), epsilons=[0.1], samples=300, rng=rng).violated
    with pytest.raises(ValueError, match="L2 norm: they are 2 apart, at most 1 is"):
        ps.audit(mechanism, datasets=(np.zeros(2), 2 * corner), samples=100, rng=rng)


@pytest.mark.parametrize("data", [3.0, [[1], [1, 2]], (np.zeros(2), np.zeros(3)), ()])
def test_what_is_no_dataset_gets_a_clear_error(data):
    with pytest.raises(ValueError, match="a record in each row"):
        check_neighbours(ps.AddRemove(), data, np.zeros(3), 1)
    with pytest.raises(ValueError, match="same columns, got 1 and 2"):
        check_neighbours(ps.AddRemove(), np.zeros(3), (np.zeros(3), np.zeros(3)), 1)
