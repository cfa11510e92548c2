"""Relative efficiencies: the limits of the thesis's Theorems 4 and 5, and the estimators against the mechanisms."""

import csv

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from reproduction import efficiency
from reproduction.tables import Table

REPEATS = 200_000


@pytest.mark.statistical
@pytest.mark.parametrize("name", list(efficiency.ESTIMATORS))
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.94, False), (1.06, False)])
def test_limits(name, factor, accepted, rng, alpha):
    """A million records: noise, prior and bounds move the ratio by less than 1e-4, the repeats by about 0.003 of it."""
    estimator, limit, _ = efficiency.ESTIMATORS[name]
    found, error = efficiency.ratio(estimator(1_000_000, REPEATS, rng), 1_000_000)
    assert (abs(found - factor * limit) / error < stats.norm.isf(alpha / 2)) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("warmer", "accepted"), [(1.0, True), (2.0, False)])
def test_tempered_draws_are_those_of_the_mechanism(warmer, accepted, rng, alpha):
    """30 records: one release for each count of ones, with as many draws as the count comes up in 10,000 repeats.

    The two distribution functions of the mutant differ by 0.12, where 0.046 is rejected at 1e-9: more than ten
    standard deviations.
    """
    shares = stats.binom.pmf(np.arange(31), 30, efficiency.SHARE)
    theirs = []
    for count, times in enumerate(rng.multinomial(10_000, shares / shares.sum())):
        if times:
            made = ps.TemperedPosterior(
                model=ps.BetaBernoulli(alpha=1, beta=1),
                n=30,
                temperature=warmer * efficiency.TEMPERATURE,
                truncation=efficiency.HELD,
                draws=int(times),
            )
            theirs.append(made.release(np.arange(30) < count, rng=rng)[made.parameter])
    own = efficiency.tempered(30, 10_000, rng)
    assert (stats.ks_2samp(own, np.concatenate(theirs)).pvalue > alpha) == accepted


def test_written(tmp_path, small_once):
    """At the small size: three numbers of records."""
    picture, numbers, sentence = small_once("efficiency").made.write(tmp_path)
    table = list(csv.DictReader(numbers.read_text(encoding="utf-8").splitlines()))
    assert len(table) == 9
    assert all(float(row["standard_error"]) > 0 for row in table)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "100,000 records" in sentence
    assert "(limit 3.773)" in sentence


@pytest.mark.parametrize("seed", [4, 5])
def test_efficiencies_at_two_seeds(seed, monkeypatch):
    monkeypatch.setattr(efficiency, "SIZES", (10, 1_000_000))
    monkeypatch.setattr(efficiency, "REPEATS", 4000)
    result = efficiency.run(seed)
    table = Table(columns=result.columns).select(records=1_000_000)
    assert (np.abs(table["ratio"] - table["limit"]) < 4 * table["standard_error"]).all()
