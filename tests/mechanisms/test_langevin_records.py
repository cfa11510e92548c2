"""Records of Langevin chains: arrays, maps and chunks, single precision, columns with names."""

import dataclasses
import warnings

import numpy as np
import pytest

import privsample as ps
from privsample.errors import SchemaError
from tests.mechanisms.langevin import LIKELIHOODS, PLAIN, N, data, each_likelihood


def in_chunks(rows, targets, size):
    return lambda: ((rows[k : k + size], targets[k : k + size]) for k in range(0, len(rows), size))


@each_likelihood
def test_arrays_maps_and_chunks_draw_the_same(name, tmp_path):
    rng = np.random.default_rng(4)
    mechanism = dataclasses.replace(PLAIN, likelihood=LIKELIHOODS[name], relation=ps.ReplaceOne(3000))
    rows, labels = data(rng, n=3000)
    targets = labels.astype(float)
    rows[5], rows[6], rows[7], targets[8] = np.nan, [np.inf, 0.1], [1e300, -1e300], np.nan
    path = tmp_path / "rows.npy"
    np.save(path, rows)
    mapped = np.load(path, mmap_mode="r")
    forms = [(rows, targets), (mapped, targets), in_chunks(rows, targets, 700), (rows.tolist(), targets)]
    drawn = [mechanism.release(form, rng=np.random.default_rng(5))["coefficients"] for form in forms]
    for other in drawn[1:]:
        assert np.allclose(other, drawn[0], rtol=1e-9)
    facts = mechanism.validate(forms[0]).facts
    assert facts["not finite"] == 2
    assert mechanism.validate(forms[1]).facts == facts == mechanism.validate(forms[2]).facts


def test_single_precision_is_kept(rng):
    rows, targets = data(np.random.default_rng(4), n=3000)
    mechanism = dataclasses.replace(PLAIN, relation=ps.ReplaceOne(3000))
    one, other = (
        mechanism.release((form, targets), rng=np.random.default_rng(5))["coefficients"]
        for form in (rows, rows.astype(np.float32))
    )
    assert np.allclose(one, other, rtol=1e-3, atol=1e-3)
    assert not np.allclose(one, other, rtol=1e-12, atol=0)
    far = dataclasses.replace(mechanism, prior_std=1e25, norm=1e-25)
    assert np.isfinite(far.release((rows.astype(np.float32), targets), rng=rng)["coefficients"]).all()


def test_the_rows_of_single_precision_are_within_the_norm(rng):
    from privsample.distributions.regression_records import ArrayRecords

    rows = rng.standard_normal((5000, 7)).astype(np.float32) * 3
    records = ArrayRecords.prepare(rows, np.zeros(5000), 1.3)
    factors = records.factors.astype(np.float32)  # the least precise form in which they are used
    lengths = np.linalg.norm(rows.astype(np.longdouble), axis=1) * factors
    assert lengths.max() <= 1.3
    assert lengths.max() > 1.3 * (1 - 2e-6)
    assert records.lengths.max() <= 1.3


@pytest.mark.parametrize("row", [(3e38, 3e38), (3e38, -3e38), (np.inf, np.nan), (1e16, -1e16)])
def test_single_precision_takes_any_row_as_double_precision_does(row, rng):
    rows, targets = rng.standard_normal((N, 2)).astype(np.float32), np.arange(N) % 2
    rows[3] = row
    mechanism = dataclasses.replace(PLAIN, prior_std=100.0)
    one, other = (
        mechanism.release((rows.astype(kind), targets), rng=np.random.default_rng(5)) for kind in (np.float32, float)
    )
    assert np.allclose(one["coefficients"], other["coefficients"], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("norm", [1e-20, 1e-6, 1e-3, 1.0, 1e6, 1e20])
@pytest.mark.parametrize("likelihood", [ps.LogisticLikelihood(), ps.NormalLikelihood(noise_std=0.7, clip=0.3)])
def test_no_gradient_in_single_precision_exceeds_the_bound(likelihood, norm, rng):
    mechanism = ps.LangevinPosterior(
        likelihood=likelihood,
        features=20,
        norm=norm,
        prior_std=1.0 / norm,
        relation=ps.AddRemove(),
        max_records=1,
        steps=1,
    )
    for size in (*10.0 ** rng.uniform(-6, 38, size=50), *norm * 10.0 ** rng.uniform(-2, 1, size=50)):
        row = np.clip(rng.uniform(0.3, 1, size=(1, 20)) * size, 0, 3e38).astype(np.float32)
        states = rng.standard_normal((1, 1, 20))
        own = mechanism._statistic((row, np.array([1.0]))).gradient(states) - states
        assert np.linalg.norm(own) <= mechanism.accountant.gradient_sensitivity * (1 + 1e-13)


def test_no_warning_tells_that_a_row_is_short():
    mechanism = dataclasses.replace(PLAIN, likelihood=ps.ProbitLikelihood(clip=1e250), intercept_std=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mechanism.release((np.full((N, 2), 1e-90), np.ones(N)))


def test_an_infinite_row_changes_no_other_row_in_single_precision():
    from privsample.distributions.regression_records import ArrayRecords

    rows = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    odd = rows.copy()
    odd[7] = np.inf
    (one,), (other,) = (list(ArrayRecords.prepare(form, np.zeros(50), 9.0).blocks(1)) for form in (rows, odd))
    assert one.rows.dtype == other.rows.dtype == np.float32
    kept = np.arange(50) != 7
    assert (one.rows[kept] == other.rows[kept]).all()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (lambda: 5, "data must be a pair .rows, targets., or a function"),
        (lambda: iter([np.zeros((2, 2))] * 10), "data must be a pair"),
        (lambda: iter([(np.zeros((20, 2)), np.zeros(20)), None]), "data must be a pair"),
        (lambda: iter([(np.zeros((20, 3)), np.zeros(20))]), r"shape .n, 2., got .20, 3."),
        (lambda: iter([(np.zeros((20, 2)), np.zeros(19))]), "each chunk must hold one target for each row"),
        (lambda: iter([(np.zeros((19, 2)), np.zeros(19))]), "n = 20 records were declared, the data hold 19 rows"),
        (lambda: (1 / 0 for _ in range(3)), "the iterator raised an error"),
    ],
)
def test_chunks_that_are_refused(source, words):
    for call in (PLAIN.release, PLAIN.validate):
        with pytest.raises(SchemaError, match=words):
            call(source)


def test_chunks_that_change_are_refused(rng):
    sizes = iter([20, 20, 19])

    def source():
        n = next(sizes)
        return iter([(np.zeros((n, 2)), np.zeros(n))])

    with pytest.raises(SchemaError, match="the same records in every pass"):
        PLAIN.release(source, rng=rng)


def test_columns_have_names(rng):
    import pandas as pd

    rows, targets = data(rng)
    release = PLAIN.release((pd.DataFrame(rows, columns=["age", "dose"]), targets), rng=rng)
    assert release.coords == {"feature": ("age", "dose")}
